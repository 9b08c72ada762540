"""Frames of a record as OpenMM's own objects: a topology that a force field takes, quantities with units."""

from __future__ import annotations

import numpy as np
import openmm
import pytest
from openmm import app, unit

from molrec_core import Block, Box, Frame, SectionNotFoundError, TrajectoryWriter
from molrec_core.units import MolrecUnitsWarning
from molrec_openmm import MolrecCellWarning, MolrecReporter, load, plugin

NM, PS, KJ = unit.nanometer, unit.picosecond, unit.kilojoule_per_mole


def record_of(setup, path, **options):
    simulation = setup.simulation()
    with MolrecReporter(path, 5, **options) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(10)
    return simulation


def described(topology):
    """Everything a Topology says, as plain values."""
    return {
        "chains": [chain.id for chain in topology.chains()],
        "residues": [(r.name, r.id, r.insertionCode, r.chain.index) for r in topology.residues()],
        "atoms": [(a.name, a.element, a.id, a.residue.index) for a in topology.atoms()],
        "bonds": [(b[0].index, b[1].index, b.type, b.order) for b in topology.bonds()],
    }


def test_P29_a_peptides_topology_comes_back_and_a_force_field_takes_it(peptide, tmp_path):
    """Same order, bonds and chain breaks; terminal residues are matched as before."""
    record_of(peptide, tmp_path / "p.mrec")
    top = load(tmp_path / "p.mrec").topology
    assert described(top) == described(peptide.topology)
    forcefield = app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    system = forcefield.createSystem(top, nonbondedMethod=app.NoCutoff, constraints=app.HBonds)
    assert openmm.XmlSerializer.serialize(system) == openmm.XmlSerializer.serialize(peptide.system)


def test_P28_extra_particles_keep_count_and_order(tip4p, tmp_path):
    record_of(tip4p, tmp_path / "w.mrec")
    top = load(tmp_path / "w.mrec").topology
    assert described(top) == described(tip4p.topology)
    system = app.ForceField("amber14-all.xml", "amber14/tip4pew.xml").createSystem(top)
    assert system.getNumParticles() == tip4p.system.getNumParticles()
    assert system.isVirtualSite(3)


def test_what_a_topology_may_hold_comes_back(argon, tmp_path):
    """Ids that are no numbers, negative ones, insertion codes, empty chains, bonds of every kind."""
    top = app.Topology()
    first, _, last = (top.addChain(name) for name in ("A", "empty", "A"))
    names = ["-5", "12", "12", "X7"]
    residues = [
        top.addResidue("GLY", chain, label, code)
        for chain, label, code in zip([first, first, first, last], names, ["", "", "B", ""], strict=True)
    ]
    for i in range(64):
        top.addAtom(f"A{i}", None if i % 7 == 0 else app.element.carbon, residues[i * 4 // 64], f"id{i}")
    atoms = list(top.atoms())
    kinds = [
        None,
        app.topology.Single,
        app.topology.Double,
        app.topology.Triple,
        app.topology.Aromatic,
        app.topology.Amide,
    ]
    for i, kind in enumerate(kinds):
        top.addBond(atoms[i + 5], atoms[i], kind, i or None)
    argon.topology = top
    record_of(argon, tmp_path / "a.mrec")
    assert described(load(tmp_path / "a.mrec").topology) == described(top)


def test_quantities_have_the_states_values(tip4p, tmp_path, keep):
    simulation, kept = tip4p.simulation(), keep(5)
    with MolrecReporter(tmp_path / "w.mrec", 5, velocities=True, forces=True) as reporter:
        simulation.reporters += [kept, reporter]
        simulation.step(10)
    state = kept.states[-1]
    loaded = load(tmp_path / "w.mrec")
    for found, getter, dimension in (
        (loaded.positions, state.getPositions, NM),
        (loaded.velocities, state.getVelocities, NM / PS),
        (loaded.forces, state.getForces, KJ / NM),
    ):
        assert found.unit == dimension
        assert np.allclose(found._value, getter(asNumpy=True).value_in_unit(dimension), rtol=3e-16, atol=0)
    assert loaded.step == 10
    assert loaded.time == state.getTime()
    simulation.context.setPeriodicBoxVectors(*loaded.box_vectors)
    simulation.context.setPositions(loaded.positions)
    assert load(tmp_path / "w.mrec", 0).step == 5
    with pytest.raises(IndexError):
        load(tmp_path / "w.mrec", 2)


def write(path, units=None, box=None, **columns):
    meta = {} if units is None else {"units": units}
    zeros = {name: np.zeros(2) for name in "xyz"}
    with TrajectoryWriter(path, meta=meta) as writer:
        writer.append(Frame({"atoms": Block(zeros | columns)}, box=box), time=1.0)


def test_P64_units_of_other_hosts_are_converted(tmp_path):
    """v = 1 angstrom/ps is 0.1 nm/ps; 1 kcal/(mol angstrom) is 41.84 kJ/(mol nm)."""
    one = {name: np.ones(2) for name in ("vx", "vy", "vz", "fx", "fy", "fz")}
    angstrom = {"length": "angstrom", "time": "ps", "energy": "kJ/mol", "mass": "dalton", "charge": "e"}
    write(tmp_path / "a.mrec", angstrom, **one)
    assert load(tmp_path / "a.mrec").velocities._value.tolist() == [[0.1] * 3] * 2
    write(tmp_path / "r.mrec", {"preset": "real"}, **one)
    real = load(tmp_path / "r.mrec")
    assert np.allclose(real.forces._value, 41.84, rtol=3e-16)
    assert real.velocities._value.tolist() == [[100.0] * 3] * 2
    assert real.time == 0.001 * PS
    assert load(tmp_path / "r.mrec", convert_units=False).forces._value[0, 0] == 1.0


def test_a_record_without_units_is_told(tmp_path):
    write(tmp_path / "a.mrec")
    with pytest.warns(MolrecUnitsWarning):
        assert load(tmp_path / "a.mrec").topology.getNumAtoms() == 2


@pytest.mark.parametrize(
    ("vectors", "warns"), [(np.diag([3.0, 4.0, 5.0]), False), (np.diag([3.0, 4.0, 5.0])[:, ::-1], True)]
)
def test_a_cell_openmm_does_not_take_is_told(tmp_path, recwarn, vectors, warns):
    units = {"length": "nm", "time": "ps", "energy": "kJ/mol", "mass": "dalton", "charge": "e"}
    write(tmp_path / "a.mrec", units, Box(vectors.copy()))
    box = load(tmp_path / "a.mrec").box_vectors
    assert np.array_equal(np.array(box.value_in_unit(NM)).T, vectors)
    assert any(isinstance(w.message, MolrecCellWarning) for w in recwarn) == warns


def test_a_record_without_atoms_is_an_error(tmp_path):
    with TrajectoryWriter(tmp_path / "e.mrec") as writer:
        writer.append(Frame())
    with pytest.raises(SectionNotFoundError):
        load(tmp_path / "e.mrec")


def test_the_plugin_describes_what_openmm_sees(tip4p, tmp_path):
    record_of(tip4p, tmp_path / "w.mrec")
    (adapter,) = plugin.molrec_adapters()
    assert adapter.name == "openmm"
    atoms = tip4p.topology.getNumAtoms()
    assert f"{atoms} atoms" in adapter.describe(str(tmp_path / "w.mrec"))
    names = {}
    exec("import molrec_openmm\nloaded = " + adapter.snippet.format(path=tmp_path / "w.mrec"), names)
    assert names["loaded"].topology.getNumAtoms() == atoms
