"""What users of comparable tools suffered, one case a test."""

from __future__ import annotations

import ase.io
import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk, fcc111, molecule
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.stress import voigt_6_to_full_3x3_stress

from molrec_core import Box, Frame, TrajectoryWriter, open_record


def with_results(atoms, **results):
    atoms.calc = SinglePointCalculator(atoms)
    atoms.calc.results.update(results)
    return atoms


@pytest.fixture
def back(tmp_path):
    """Write images and read them back."""

    def through(images):
        ase.io.write(tmp_path / "a.mrec", images)
        return ase.io.read(tmp_path / "a.mrec", ":")

    return through


BOX, NONE = Atoms("H", cell=[5, 5, 5], pbc=True), Atoms("H")


@pytest.mark.parametrize("cells", [[1, 0, 1], [0, 1], [0, 1, 0], [1, 0], [0, 0], [0, 1, 1, 0, 0, 1]])
def test_K1_K2_K3_images_with_and_without_a_cell(back, cells):
    """A cell neither carries on into an image without one, nor does one appear from nowhere."""
    found = back([BOX.copy() if cell else NONE.copy() for cell in cells])
    assert [int(atoms.cell.rank == 3) for atoms in found] == cells
    assert [round(atoms.cell.volume) if atoms.cell.rank == 3 else None for atoms in found] == [
        125 if cell else None for cell in cells
    ]
    assert [atoms.pbc.tolist() for atoms in found] == [[bool(cell)] * 3 for cell in cells]


def test_K2_an_undefined_box_of_another_tool_is_no_cell(tmp_path):
    """Its identity vectors are not a cell of one cubic angstrom."""
    undefined = Box(np.eye(3), origin=[1.0, 2, 3], boundary=[False] * 3, cell_defined=False)
    atoms = {"x": [0.0], "y": [0.0], "z": [0.0], "element": ["H"]}
    with TrajectoryWriter(tmp_path / "a.mrec", meta={"units": {"preset": "metal"}}) as writer:
        writer.append(Frame({"atoms": atoms}, box=undefined))
    found = ase.io.read(tmp_path / "a.mrec")
    assert found.cell.rank == 0
    assert found.get_celldisp().ravel().tolist() == [1, 2, 3]


def test_K5_what_one_image_has_another_may_lack(back, assert_same):
    """Momenta, forces and keys of info are there exactly where they were."""
    a, b, c = (molecule("H2O") for _ in range(3))
    with_results(a, forces=np.ones((3, 3)), energy=1.0)
    a.info = {"only_a": 1, "both": "x"}
    b.set_momenta(np.full((3, 3), 0.5))
    b.info = {"only_b": 2.5, "both": "y"}
    assert_same([a, b, c, a], back([a, b, c, a]))


@pytest.mark.parametrize("cell", [[5, 5, 0], [0, 0, 4], [[3, 1, 0], [0, 0, 0], [0, 1, 6]], [0, 7, 0]])
def test_K7_cells_with_zero_vectors(back, cell):
    atoms = Atoms("H", cell=cell, pbc=[1, 1, 0])
    (found,) = back([atoms])
    assert (found.cell.array == atoms.cell.array).all()
    assert found.pbc.tolist() == [True, True, False]


def test_P43_a_molecule_has_no_cell(back):
    (found,) = back([Atoms("H")])
    assert not found.cell.array.any()
    assert found.pbc.tolist() == [False] * 3


def test_P64_one_angstrom_per_picosecond(tmp_path):
    """Velocities of another tool's record come in ASE's own unit of time."""
    atoms = {"x": [0.0], "y": [0.0], "z": [0.0], "vx": [1.0], "vy": [0.0], "vz": [0.0], "element": ["Ar"]}
    with TrajectoryWriter(
        tmp_path / "a.mrec", meta={"units": {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}}
    ) as writer:
        writer.append(Frame({"atoms": atoms}))
    found = ase.io.read(tmp_path / "a.mrec")
    assert found.get_velocities()[0, 0] * (1000 * units.fs) == pytest.approx(1.0, rel=1e-14)


def test_P67_momenta_are_not_velocities(tmp_path):
    """The record holds p/m in angstrom per femtosecond, with the masses that were set."""
    atoms = molecule("H2O")
    atoms.set_masses([15.9, 2.0, 3.0])
    atoms.set_momenta(np.arange(9.0).reshape(3, 3))
    ase.io.write(tmp_path / "a.mrec", atoms)
    with open_record(tmp_path / "a.mrec") as record:
        frame = record.trajectory[0]
        assert frame["identity"]["mass"].tolist() == [15.9, 2.0, 3.0]
        expected = atoms.get_momenta()[:, 2] / [15.9, 2.0, 3.0] * units.fs
        assert frame["velocities"]["vz"] == pytest.approx(expected, rel=1e-15)
    found = ase.io.read(tmp_path / "a.mrec")
    assert found.get_momenta() == pytest.approx(atoms.get_momenta(), rel=1e-15)
    assert found.arrays["masses"].tolist() == [15.9, 2.0, 3.0]


@pytest.mark.parametrize("masses", [[0.0, 1.0, 1.0], [1e-320, 1.0, 1.0], [np.inf, 1.0, 1.0]])
def test_P67_momenta_that_no_velocity_gives_back(tmp_path, masses):
    """A massless atom keeps its momentum all the same."""
    atoms = molecule("H2O")
    atoms.set_masses(masses)
    atoms.set_momenta(np.full((3, 3), 0.1))
    ase.io.write(tmp_path / "a.mrec", [atoms, atoms])
    assert [a.get_momenta().tolist() for a in ase.io.read(tmp_path / "a.mrec", ":")] == [
        atoms.get_momenta().tolist()
    ] * 2
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory[0]["array.momenta"].count == 3


def test_P73_raw_forces_of_fixed_atoms(back):
    """What get_forces() makes of them is asked of the image, not of the record."""
    atoms = molecule("H2O")
    atoms.set_constraint(FixAtoms([0]))
    (found,) = back([with_results(atoms, forces=np.ones((3, 3)))])
    assert found.calc.results["forces"][0].tolist() == [1.0, 1.0, 1.0]
    assert found.get_forces()[0].tolist() == [0.0, 0.0, 0.0]


def test_P74_P75_info_arrays_and_results_stay_apart(back, assert_same):
    """The same names in three places hold three values."""
    atoms = with_results(molecule("H2O"), energy=-1.0, forces=np.ones((3, 3)), stress=np.arange(6.0))
    atoms.info = {"energy": -2.0, "REF_energy": -3.0, "stress": np.zeros(6), "pe": 7, "forces": "no"}
    atoms.arrays["forces"] = np.full((3, 3), 5.0)
    atoms.arrays["REF_forces"] = np.full((3, 3), 6.0)
    (found,) = back([atoms])
    assert_same([atoms], [found])
    assert found.calc.results["energy"] == -1.0
    assert found.info["energy"] == -2.0


def test_P76_stress_keeps_order_and_sign(back, tmp_path):
    """Six numbers in ASE's order, nine for the same tensor; a virial is another key."""
    stress = np.array([1.0, 2, 3, 4, 5, 6])
    six = with_results(molecule("H2O"), stress=stress)
    nine = with_results(molecule("H2O"), stress=voigt_6_to_full_3x3_stress(stress))
    six.info["virial"] = -125.0 * stress
    found = back([six, nine])
    assert [atoms.get_stress().tolist() for atoms in found] == [stress.tolist()] * 2
    assert found[0].info["virial"].tolist() == (-125.0 * stress).tolist()
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory[0].meta["stress"].tolist() == stress.tolist()


def test_P77_constraints_moments_and_charges(back, assert_same):
    slab = fcc111("Cu", (2, 3, 4), vacuum=5)
    slab.set_constraint(FixAtoms(range(12)))
    slab.set_initial_magnetic_moments(np.linspace(-1, 1, 24))
    slab.info = {"charge": -1, "spin": 2}
    vector = slab.copy()
    del vector.arrays["initial_magmoms"]
    vector.set_initial_magnetic_moments(np.arange(72.0).reshape(24, 3))
    found = back([slab, vector])
    assert_same([slab, vector], found)
    assert found[0].constraints[0].index.tolist() == list(range(12))
    assert type(found[0].info["charge"]) is int


def test_P78_a_calculator_that_has_not_run_gives_no_results(back):
    """And one that ran for other positions neither: ASE would not trust it either."""
    idle, stale = bulk("Cu"), bulk("Cu") * 2
    idle.calc = EMT()
    stale.rattle(0.1)
    stale.calc = EMT()
    stale.get_potential_energy()
    stale.positions[0] += 0.1
    ran = stale.copy()
    ran.calc = EMT()
    energy = ran.get_potential_energy()
    found = back([idle, stale, ran])
    assert [atoms.calc is None for atoms in found] == [True, True, False]
    assert found[2].get_potential_energy() == energy
    assert found[2].calc.name == "emt"


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_P79_momenta_come_back_also_when_all_are_zero(back, value):
    atoms = molecule("H2O")
    atoms.set_momenta(np.full((3, 3), value))
    found = back([atoms, molecule("H2O")])
    assert [image.has("momenta") for image in found] == [True, False]
    assert found[0].get_momenta() == pytest.approx(atoms.get_momenta(), rel=1e-15, abs=0)


INFO = {
    "int": 3,
    "bool": True,
    "float": 0.1,
    "nan": float("nan"),
    "none": None,
    "empty": "",
    "digits": "007",
    "letter": "T",
    "accent": "héllo",
    "list": [1, 2],
    "mixed": [1, "a", None, 2.5, True],
    "tuple": (1, (2, "x")),
    "dict": {"a": 1, 2: "b"},
    "nested": {"a": {"b": np.arange(4.0).reshape(2, 2), "c": np.float32(0.1)}},
    "array": np.array([True, False]),
    "numpy": np.int16(-2),
    "large": 2**70,
}


@pytest.mark.parametrize("key", INFO)
def test_P80_info_of_every_type(back, assert_same, key):
    atoms = molecule("H2O")
    atoms.info[key] = INFO[key]
    assert_same([atoms, molecule("H2O")], back([atoms, molecule("H2O")]))


@pytest.mark.parametrize("wrong", [object(), {1, 2}, b"bytes", np.datetime64("2020-01-01"), 1j])
def test_P81_a_wrong_type_is_refused_before_anything_is_written(tmp_path, images, assert_same, wrong):
    """The error names the key, and the record goes on as if nothing had been asked."""
    path = tmp_path / "a.mrec"
    ase.io.write(path, images)
    bad = molecule("H2O")
    bad.info["spectrum"] = wrong
    with pytest.raises(TypeError, match="spectrum"):
        ase.io.write(path, bad, append=True)
    ase.io.write(path, images[:1], append=True)
    assert_same([*images, images[0]], ase.io.read(path, ":"))


def test_P81_arrays_of_objects_are_refused_by_name(tmp_path):
    bad = molecule("H2O")
    bad.arrays["labels"] = np.array([object()] * 3)
    with pytest.raises(TypeError, match="labels"):
        ase.io.write(tmp_path / "a.mrec", bad)
    assert not (tmp_path / "a.mrec").exists()


def test_P82_an_image_goes_on_living_after_it_was_read(back):
    """Arrays are the image's own: writable, and not those of the record or of another image."""
    first, second = back([with_results(molecule("H2O"), forces=np.ones((3, 3)))] * 2)
    first.positions += 1
    first.calc.results["forces"] *= 2
    first.info["new"] = 1
    first.cell[0] = [1, 0, 0]
    assert (second.positions == molecule("H2O").positions).all()
    assert (second.calc.results["forces"] == 1).all()
    assert second.cell.rank == 0
    with pytest.raises(Exception, match="not available"):
        first.get_forces()


def test_P83_energy_by_either_door(back):
    (found,) = back([with_results(molecule("H2O"), energy=-14.5)])
    assert found.get_potential_energy() == -14.5
    assert found.calc.results == {"energy": -14.5}


def test_P84_tags(back):
    atoms = molecule("H2O")
    atoms.set_tags([2, -1, 0])
    (found,) = back([atoms])
    assert found.get_tags().dtype == np.int64
    assert found.get_tags().tolist() == [2, -1, 0]


def test_P85_P86_the_number_of_atoms_may_change(back, assert_same):
    """Also to none and back, with cells and momenta."""
    images = []
    for count in (3, 5, 1, 0, 2):
        atoms = Atoms("H" * count, np.arange(3.0 * count).reshape(-1, 3), cell=[count + 1.0] * 3, pbc=True)
        atoms.set_momenta(np.full((count, 3), 0.5 + count))
        images.append(with_results(atoms, energy=float(count), forces=np.ones((count, 3))))
    assert_same(images, back(images))


def test_P88_a_lost_atom_does_not_break_the_record(tmp_path):
    """Atoms per frame are there without reading positions."""
    sizes = [4, 4, 3, 3, 4]
    ase.io.write(tmp_path / "a.mrec", [bulk("Cu", cubic=True)[:n] for n in sizes])
    assert [len(atoms) for atoms in ase.io.iread(tmp_path / "a.mrec")] == sizes
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory.counts("atoms").tolist() == sizes


def test_P87_isotopes_and_dummies(back, assert_same):
    """Masses say what the element does not; X stays X."""
    atoms = Atoms("XHO", np.eye(3))
    atoms.set_masses([0.0, 2.014, 17.999])
    assert_same([atoms], back([atoms]))


def test_P93_after_step_drops_what_a_restart_writes_again(tmp_path, simple):
    """A run that restarts from step 20 writes on from there."""
    from molrec_ase import MolrecTrajectory

    with MolrecTrajectory(tmp_path / "a.mrec", "w") as trajectory:
        for step in (0, 10, 20, 30, 40):
            trajectory.write(simple(step), step=step)
    with MolrecTrajectory(tmp_path / "a.mrec", "a", after_step=20) as trajectory:
        assert len(trajectory) == 3
        assert trajectory.last_step == 20
        trajectory.write(simple(30.5), step=30)
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory.steps.tolist() == [0, 10, 20, 30]
    assert [a.positions[0, 0] for a in ase.io.read(tmp_path / "a.mrec", ":")] == [0, 10, 20, 30.5]
