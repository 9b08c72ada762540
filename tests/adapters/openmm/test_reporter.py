"""What a record of an OpenMM run holds: the State's own values, and nothing that it did not ask for."""

from __future__ import annotations

import numpy as np
import openmm
import pytest
from openmm import app, unit

import molrec_openmm.reporter
from molrec_core import RecordExistsError, open_record
from molrec_openmm import MolrecReporter

NM, PS, KJ = unit.nanometer, unit.picosecond, unit.kilojoule_per_mole


def columns(block, names):
    return np.stack([block[name] for name in names], axis=1)


def expected(state, getter, dimension, factor):
    return getattr(state, getter)(asNumpy=True).value_in_unit(dimension) * factor


def run(setup, path, keep, steps=20, interval=5, **options):
    """Run a simulation with a record and the States it was made of."""
    periodic = options.get("enforcePeriodicBox")
    simulation = setup.simulation()
    kept = keep(interval, periodic=periodic)
    with MolrecReporter(path, interval, **options) as reporter:
        simulation.reporters += [kept, reporter]
        simulation.step(steps)
    return open_record(path), kept.states


def assert_equals_states(record, states, rows=slice(None)):
    trajectory = record.trajectory
    assert len(trajectory) == len(states)
    for frame, state in zip(trajectory, states, strict=True):
        atoms = frame["atoms"]
        for names, getter, dimension, factor in (
            ("x y z", "getPositions", NM, 10.0),
            ("vx vy vz", "getVelocities", NM / PS, 10.0),
            ("fx fy fz", "getForces", KJ / NM, 0.1),
        ):
            want = expected(state, getter, dimension, factor)[rows]
            assert np.array_equal(columns(atoms, names.split()), want)
        assert frame.meta["pe"] == state.getPotentialEnergy().value_in_unit(KJ)
        assert frame.meta["ke"] == state.getKineticEnergy().value_in_unit(KJ)
        assert frame.meta["etotal"] == frame.meta["pe"] + frame.meta["ke"]
    assert trajectory.times.tolist() == [state.getTime().value_in_unit(PS) for state in states]


NAMES = ["C\N{GREEK SMALL LETTER ALPHA}", "水", "Å1"]
FULL = {"velocities": True, "forces": True}


@pytest.mark.parametrize("barostat", [False, True], ids=["NVT", "NPT"])
def test_water_P42_P117_lossless_to_the_last_bit(tip3p, tmp_path, keep, barostat):
    """Positions, velocities, forces, energies, cell and volume are the State's, in a cell that changes too."""
    setup = type(tip3p)(tip3p.topology, tip3p.system, tip3p.positions)
    if barostat:
        setup.system = openmm.XmlSerializer.clone(tip3p.system)
        setup.system.addForce(openmm.MonteCarloBarostat(1, 300, 2))
    record, states = run(setup, tmp_path / "w.mrec", keep, **FULL)
    assert record.system["atoms"].count > 2000
    assert_equals_states(record, states)
    volumes = [state.getPeriodicBoxVolume().value_in_unit(NM**3) * 1000 for state in states]
    assert np.allclose(record.trajectory.meta("volume"), volumes, rtol=4e-16)
    for i, state in enumerate(states):
        rows = state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(NM)
        assert np.array_equal(record.trajectory.box(i).vectors, rows.T * 10)
    assert (len(set(volumes)) > 1) == barostat


def test_temperature_is_the_state_data_reporters(tip3p, tmp_path):
    """Degrees of freedom count constraints, the massless and the centre of mass."""
    simulation = tip3p.simulation()
    with open(tmp_path / "log", "w") as log, MolrecReporter(tmp_path / "w.mrec", 5) as reporter:
        simulation.reporters += [app.StateDataReporter(log, 5, temperature=True), reporter]
        simulation.step(10)
        log.flush()
    told = [float(line) for line in (tmp_path / "log").read_text().splitlines()[1:]]
    assert np.allclose(open_record(tmp_path / "w.mrec").trajectory.meta("temp"), told, rtol=1e-14)


def test_extra_particles_P28_virtual_sites_with_parents(tip4p, tmp_path, keep):
    """An extra particle has no element and no mass, a charge, and its parents in the record."""
    record, states = run(tip4p, tmp_path / "w.mrec", keep, **FULL)
    assert_equals_states(record, states)
    atoms, sites = record.system["atoms"], record.system["virtual_sites"]
    extra = np.flatnonzero(atoms["atomic_number"] == 0)
    assert np.array_equal(sites["atomi"], extra)
    assert np.array_equal(sites["atomj"], extra - 3)
    assert np.array_equal(sites["atoml"], extra - 1)
    assert set(sites["style"]) == {"average3"}
    assert not atoms.validity["element"][extra].any()
    assert (atoms["mass"][extra] == 0).all()
    assert np.allclose(atoms["charge"][:4], [0.0, 0.52422, 0.52422, -1.04844])


def test_P40_non_periodic_system_has_no_cell(make_argon, tmp_path, keep):
    """OpenMM's State reports a default box of 2 nm; a record of a non-periodic System holds none."""
    record, states = run(make_argon(periodic=False), tmp_path / "a.mrec", keep)
    assert states[0].getPeriodicBoxVectors() is not None
    assert record.trajectory.box(-1) is None
    assert not (tmp_path / "a.mrec" / "trajectory" / "box").exists()
    assert "volume" not in record.trajectory.meta_keys


def test_K28_P39_cell_is_the_states_though_the_topology_has_none(argon, tmp_path, keep):
    """The Topology's box plays no part."""
    assert argon.topology.getPeriodicBoxVectors() is None
    record, _ = run(argon, tmp_path / "a.mrec", keep)
    assert np.array_equal(record.trajectory.box(-1).vectors, np.eye(3) * 16.0)


def test_P41_truncated_octahedron_comes_back(make_argon, tmp_path, keep):
    """A triclinic cell keeps its convention: lattice vectors are columns."""
    rows = [
        [10.412634, 0.0, 0.0],
        [3.470877984, 9.817125, 0.0],
        [-3.470877984, 4.908562, 8.501879],
    ]
    record, _ = run(make_argon(vectors=rows), tmp_path / "a.mrec", keep)
    assert np.allclose(record.trajectory.box(0).vectors.T / 10, rows, rtol=1e-12, atol=0)
    box = molrec_openmm.load(tmp_path / "a.mrec").box_vectors.value_in_unit(NM)
    assert np.allclose(box, rows, rtol=1e-12, atol=0)


def test_K27_P119_steps_and_times_are_the_states_own(argon, tmp_path):
    """A reporter attached after step 1000 does not count from its own start."""
    simulation = argon.simulation()
    simulation.step(1000)
    with MolrecReporter(tmp_path / "a.mrec", 100) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(300)
    trajectory = open_record(tmp_path / "a.mrec").trajectory
    assert trajectory.steps.tolist() == [1100, 1200, 1300]
    assert np.allclose(trajectory.times, [2.2, 2.4, 2.6])


def test_P119_first_step_is_the_interval(argon, tmp_path, keep):
    record, _ = run(argon, tmp_path / "a.mrec", keep, steps=30, interval=10)
    assert record.trajectory.steps.tolist() == [10, 20, 30]


def test_P55_step_beyond_32_bits(argon, tmp_path):
    simulation = argon.simulation()
    simulation.currentStep = 3_000_000_000
    with MolrecReporter(tmp_path / "a.mrec", 10) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(20)
    assert open_record(tmp_path / "a.mrec").trajectory.steps.tolist() == [3_000_000_010, 3_000_000_020]


@pytest.mark.parametrize("takes_dict", [True, False])
def test_K29_both_forms_of_a_description_run(argon, tmp_path, keep, monkeypatch, takes_dict):
    """OpenMM 8.6 takes the old tuple and the new dict; both ask for the same."""
    monkeypatch.setattr(molrec_openmm.reporter, "_TAKES_DICT", takes_dict)
    simulation = argon.simulation()
    kept = keep(5, periodic=False)
    reporter = MolrecReporter(tmp_path / "a.mrec", 5, enforcePeriodicBox=False, **FULL)
    assert isinstance(reporter.describeNextReport(simulation), dict if takes_dict else tuple)
    simulation.reporters += [kept, reporter]
    simulation.step(10)
    reporter.close()
    assert_equals_states(open_record(tmp_path / "a.mrec"), kept.states)


ASKED = [
    ({}, ["positions", "energy"]),
    ({"energies": False, "temperature": False}, ["positions"]),
    ({"energies": False}, ["positions", "energy"]),
    ({"velocities": True, "energies": False, "temperature": False}, ["positions", "velocities"]),
    ({"forces": True, "positions": False, "energies": False, "temperature": False}, ["forces"]),
]


@pytest.mark.parametrize(("options", "include"), ASKED)
def test_P71_asks_for_exactly_what_it_writes(argon, tmp_path, options, include):
    simulation = argon.simulation()
    with MolrecReporter(tmp_path / "a.mrec", 5, **options) as reporter:
        described = reporter.describeNextReport(simulation)
        assert sorted(described["include"]) == sorted(include)
        simulation.reporters.append(reporter)
        simulation.step(5)
    frame = open_record(tmp_path / "a.mrec").trajectory[0]
    has = {
        "positions": "x" in frame["atoms"],
        "velocities": "vx" in frame["atoms"],
        "forces": "fx" in frame["atoms"],
        "energy": "pe" in frame.meta or "temp" in frame.meta,
    }
    assert [name for name, there in has.items() if there] == [n for n in has if n in include]


def test_scalars_alone(argon, tmp_path):
    """A record of energies without any vector is a record."""
    simulation = argon.simulation()
    with MolrecReporter(tmp_path / "a.mrec", 5, positions=False) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(10)
    record = open_record(tmp_path / "a.mrec")
    assert len(record.trajectory.meta("pe")) == 2
    assert record.system["atoms"].count == 64


def test_P114_subset_is_reindexed(tip4p, tmp_path, keep):
    """Positions of the subset; bonds, residues and virtual sites as far as all their atoms are in it."""
    subset = [0, 1, 2, 3, 6, 8, 9]  # a whole water with its site, a hydrogen, two atoms of a third
    record, states = run(tip4p, tmp_path / "w.mrec", keep, atomSubset=subset, **FULL)
    assert_equals_states(record, states, rows=subset)
    system = record.system
    assert system["atoms"].count == 7
    assert columns(system["bonds"], ["atomi", "atomj"]).tolist() == [[0, 1], [0, 2], [5, 6]]
    assert columns(system["virtual_sites"], ["atomi", "atomj", "atomk", "atoml"]).tolist() == [[3, 0, 1, 2]]
    assert system["atoms"]["residue"].tolist() == [0, 0, 0, 0, 1, 2, 2]
    assert system["residues"].count == 3
    assert system["atoms"]["id"].tolist() == [i + 1 for i in subset]


@pytest.mark.parametrize("subset", [[5, 2, 9], [2, 2, 5], [-1, 3], [0, 64], [0.5]])
def test_P114_a_subset_that_is_no_ascending_set_of_rows_is_refused(argon, tmp_path, subset):
    simulation = argon.simulation()
    simulation.reporters.append(MolrecReporter(tmp_path / "a.mrec", 5, atomSubset=subset))
    with pytest.raises(ValueError, match="atomSubset"):
        simulation.step(5)
    assert not (tmp_path / "a.mrec").exists()


@pytest.mark.parametrize("wrap", [None, True, False])
def test_P115_wrapping_is_passed_on(argon, tmp_path, keep, wrap):
    """False gives what State(enforcePeriodicBox=False) gives, outside the cell where that is."""
    argon.positions = argon.positions + 20 * NM
    record, states = run(argon, tmp_path / "a.mrec", keep, enforcePeriodicBox=wrap)
    x = columns(record.trajectory[-1]["atoms"], "xyz")
    assert np.array_equal(x, expected(states[-1], "getPositions", NM, 10.0))
    assert (x.max() > 16.5) == (wrap is False)


def test_P120_extra_scalars_of_a_callable(argon, tmp_path):
    """Named values stand beside the frames; one that comes and goes, or changes its type, is kept as well."""
    seen = []

    def measure(simulation, state):
        seen.append(state.getStepCount())
        more = {"late": [1, 2]} if simulation.currentStep >= 10 else {"early": 2.5}
        return {"bias": simulation.currentStep / 10, "window": 3, "name": "Å水", "pe": 7.0, **more}

    simulation = argon.simulation()
    with MolrecReporter(tmp_path / "a.mrec", 5, extra=measure) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(10)
    trajectory = open_record(tmp_path / "a.mrec").trajectory
    assert seen == [0, 5, 10]
    assert trajectory.meta("bias").tolist() == [0.5, 1.0]
    assert trajectory.meta("window").tolist() == [3, 3]
    assert list(trajectory.meta("name")) == ["Å水", "Å水"]
    assert trajectory.meta("host.pe").tolist() == [7.0, 7.0]
    assert trajectory.meta("pe")[0] != 7.0
    assert trajectory.meta("early")[0] == 2.5
    assert trajectory.meta("info") == [None, {"late": [1, 2], "$missing": ["early"]}]


def test_P72_method_names_engine_integrator_and_what_velocities_are(tip3p, argon, tmp_path, keep):
    record, _ = run(tip3p, tmp_path / "w.mrec", keep, steps=5)
    method = record.method
    version = openmm.Platform.getOpenMMVersion()
    assert method["engine"] == {"name": "OpenMM", "version": version, "platform": "CPU"}
    assert method["integrator"]["name"] == "LangevinMiddleIntegrator"
    assert method["integrator"]["step_size"] == 0.002
    assert method["integrator"]["temperature"] == 300.0
    assert "State.getVelocities" in method["description"]
    argon.integrator = "verlet"
    record, _ = run(argon, tmp_path / "a.mrec", keep, steps=5)
    assert "temperature" not in record.method["integrator"]


def test_masses_charges_and_bonds_are_the_systems(tip3p, tmp_path, keep):
    record, _ = run(tip3p, tmp_path / "w.mrec", keep, steps=5)
    atoms = record.system["atoms"]
    assert np.allclose(atoms["mass"][:3], [15.99943, 1.007947, 1.007947])
    assert np.allclose(atoms["charge"][:3], [-0.834, 0.417, 0.417])
    assert record.meta["units"] == {
        "length": "angstrom",
        "time": "ps",
        "energy": "kJ/mol",
        "mass": "dalton",
        "charge": "e",
    }


def test_P27_names_beyond_ascii(argon, tmp_path):
    """Names of atoms, residues and chains are text of any language, under any locale."""
    for atom, name in zip(argon.topology.atoms(), NAMES, strict=False):
        atom.name = atom.residue.name = name
    next(argon.topology.chains()).id = "ß"
    simulation = argon.simulation()
    with MolrecReporter(tmp_path / "a.mrec", 5) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(5)
    atoms = list(molrec_openmm.load(tmp_path / "a.mrec").topology.atoms())
    assert [atom.name for atom in atoms[:4]] == [*NAMES, "Ar"]
    assert atoms[1].residue.name == "水"
    assert atoms[0].residue.chain.id == "ß"


def test_precision_is_in_the_units_of_the_record(argon, tmp_path, keep):
    """1e-3 angstrom: every position is within half of it, and velocities keep every bit."""
    record, states = run(argon, tmp_path / "a.mrec", keep, precision=1e-3, velocities=True)
    atoms = record.trajectory[-1]["atoms"]
    assert np.abs(columns(atoms, "xyz") - expected(states[-1], "getPositions", NM, 10.0)).max() <= 0.5001e-3
    assert np.array_equal(
        columns(atoms, ["vx", "vy", "vz"]), expected(states[-1], "getVelocities", NM / PS, 10.0)
    )
    assert record.trajectory.schema.blocks["atoms"].columns["x"].precision == 1e-3


@pytest.mark.parametrize(
    "bad", [{"reportInterval": 0}, {"reportInterval": 2.5}, {"append": True, "overwrite": True}]
)
def test_settings_that_mean_nothing_are_refused(tmp_path, bad):
    with pytest.raises(ValueError, match=r"reportInterval|one of the two"):
        MolrecReporter(tmp_path / "a.mrec", **({"reportInterval": 5} | bad))


def test_P94_what_is_there_is_not_touched(argon, tmp_path, keep):
    """Neither a record nor a plain file is overwritten without being asked for."""
    run(argon, tmp_path / "a.mrec", keep)
    before = {p: p.read_bytes() for p in (tmp_path / "a.mrec").rglob("*") if p.is_file()}
    with pytest.raises(RecordExistsError):
        MolrecReporter(tmp_path / "a.mrec", 5)
    assert {p: p.read_bytes() for p in (tmp_path / "a.mrec").rglob("*") if p.is_file()} == before
    (tmp_path / "plain").write_text("mine")
    with pytest.raises(RecordExistsError):
        MolrecReporter(tmp_path / "plain", 5)
    assert (tmp_path / "plain").read_text() == "mine"
