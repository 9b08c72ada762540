"""Records of other tools in ASE, records of ASE elsewhere, and the way in and out by molrec's own command."""

from __future__ import annotations

import ase.io
import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.constraints import FixAtoms

from molrec_ase import MolrecTrajectory, plugin
from molrec_ase._decode import UnknownElementsWarning
from molrec_core import (
    Block,
    Box,
    Frame,
    SectionNotFoundError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    plugins,
    write_mrec,
)
from molrec_core.hosts import declare_shared
from molrec_core.units import MolrecUnitsWarning, Units

KJ = {"length": "nm", "time": "ps", "energy": "kJ/mol", "mass": "dalton", "charge": "e"}


def foreign(path, meta, frames, system=None, schema=None):
    with TrajectoryWriter(path, schema, meta=meta, system=system) as writer:
        for frame in frames:
            writer.append(frame)


def test_identity_in_the_system_and_units_of_their_own(tmp_path):
    """Nanometres, picoseconds and kJ/mol become angstrom, ASE's time and eV; the cell's columns its rows."""
    system = Frame(
        {"atoms": {"element": ["O", "H"], "mass": [16.0, 1.0], "charge": [-0.8, 0.8], "name": ["OW", "HW"]}}
    )
    vectors = np.array([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]])
    atoms = {"x": [0.1, 0.2], "y": [0.0, 0], "z": [0.0, 0], "vx": [1.0, 2], "vy": [0.0, 0], "vz": [0.0, 0]}
    forces = {"fx": [1.0, 0], "fy": [0.0, 0], "fz": [0.0, 0]}
    frame = Frame(
        {"atoms": atoms, "forces": forces}, box=Box(vectors), meta={"pe": 96.48533212331, "temp": 300.0}
    )
    foreign(tmp_path / "a.mrec", {"units": KJ}, [frame], system)
    found = ase.io.read(tmp_path / "a.mrec")
    assert found.get_chemical_symbols() == ["O", "H"]
    assert found.positions[:, 0] == pytest.approx([1.0, 2.0])
    assert found.cell.array == pytest.approx(vectors.T * 10)
    assert found.get_masses().tolist() == [16.0, 1.0]
    assert found.get_initial_charges().tolist() == [-0.8, 0.8]
    assert found.arrays["name"].tolist() == ["OW", "HW"]
    assert found.get_velocities()[:, 0] == pytest.approx([10 / (1000 * units.fs), 20 / (1000 * units.fs)])
    assert found.get_potential_energy() == pytest.approx(1.0, rel=1e-9)
    assert found.get_forces()[0, 0] == pytest.approx(0.1 * units.kJ / units.mol, rel=1e-6)
    assert found.info == {"temp": 300.0}
    raw = ase.io.read(tmp_path / "a.mrec", convert_units=False)
    assert raw.positions[:, 0].tolist() == [0.1, 0.2]


def test_a_record_without_units_warns_once(tmp_path):
    foreign(
        tmp_path / "a.mrec",
        {},
        [Frame({"atoms": {"x": [1.0], "y": [0.0], "z": [0.0], "element": ["H"]}})] * 3,
    )
    with pytest.warns(MolrecUnitsWarning, match="angstrom") as caught:
        ase.io.read(tmp_path / "a.mrec", ":")
    assert len([w for w in caught if w.category is MolrecUnitsWarning]) == 1


def test_atoms_without_elements_are_x(tmp_path):
    foreign(
        tmp_path / "a.mrec",
        {"units": KJ},
        [Frame({"atoms": {"x": [1.0], "y": [0.0], "z": [0.0], "name": ["CA"]}})],
    )
    with pytest.warns(UnknownElementsWarning, match="'X'"):
        assert ase.io.read(tmp_path / "a.mrec").get_chemical_symbols() == ["X"]


def test_free_atoms_of_another_tool_are_a_constraint(tmp_path):
    atoms = {"x": [0.0, 1], "y": [0.0, 0], "z": [0.0, 0], "element": ["H", "H"], "free": [True, False]}
    foreign(tmp_path / "a.mrec", {"units": KJ}, [Frame({"atoms": atoms})])
    (constraint,) = ase.io.read(tmp_path / "a.mrec").constraints
    assert constraint.index.tolist() == [1]


def test_a_single_frame_is_one_image(tmp_path):
    atoms = Block({"x": [1.0], "y": [2.0], "z": [3.0], "atomic_number": np.array([6], np.uint64)})
    write_mrec(tmp_path / "a.mrec", frame=Frame({"atoms": atoms}, meta={"note": "x"}), meta={"units": KJ})
    (found,) = ase.io.read(tmp_path / "a.mrec", ":")
    assert found.get_chemical_symbols() == ["C"]
    assert found.positions.tolist() == [[10.0, 20.0, 30.0]]
    assert found.info == {"note": "x"}


def test_a_record_without_images_says_so(tmp_path):
    write_mrec(tmp_path / "a.mrec", system=Frame({"atoms": {"element": ["H"]}}), meta={"units": KJ})
    with pytest.raises(SectionNotFoundError, match="frame"):
        ase.io.read(tmp_path / "a.mrec")


def test_appending_to_a_record_in_other_units(tmp_path, assert_same):
    """What is appended is written in the record's own units, and comes back in ASE's."""
    path = tmp_path / "a.mrec"
    system = Frame({"atoms": {"element": ["O", "H", "H"]}})
    atoms = {"x": [0.0, 0, 0], "y": [0.0, 0.1, -0.1], "z": [0.0, 0, 0]}
    frame = Frame({"atoms": atoms}, meta={"pe": 1.0})
    foreign(path, {"units": KJ}, [frame], system, declare_shared(SequenceSchema.from_frames(frame)))
    water = molecule("H2O")
    water.set_momenta(np.full((3, 3), 0.3))
    with MolrecTrajectory(path, "a") as trajectory:
        trajectory.write(water, energy=-2.0)
    with open_record(path) as record:
        assert record.trajectory[1]["atoms"]["y"] == pytest.approx(water.positions[:, 1] / 10)
        factor = Units.from_meta({"units": KJ}).conversion(Units("angstrom", "fs", "eV")).energy
        assert record.trajectory[1].meta["pe"] == pytest.approx(-2.0 / factor)
    found = ase.io.read(path)
    assert found.positions == pytest.approx(water.positions)
    assert found.get_momenta() == pytest.approx(water.get_momenta())
    assert found.get_potential_energy() == pytest.approx(-2.0)


def test_an_image_that_a_foreign_pin_has_no_place_for_is_refused_with_the_way_out(tmp_path):
    path = tmp_path / "a.mrec"
    atoms = {"x": [0.0], "y": [0.0], "z": [0.0], "vx": [0.0], "vy": [0.0], "vz": [0.0], "element": ["H"]}
    foreign(path, {"units": KJ}, [Frame({"atoms": atoms})])
    with pytest.raises(TypeError, match=r"element, vx.*new record"):
        ase.io.write(path, Atoms("H"), append=True)
    system = Frame({"atoms": {"element": ["H"]}})
    foreign(
        tmp_path / "b.mrec",
        {"units": KJ},
        [Frame({"atoms": {"x": [0.0], "y": [0.0], "z": [0.0]}}, box=Box(np.eye(3)))],
        system,
    )
    with pytest.raises(TypeError, match=r"has_cell.*new record"):
        ase.io.write(tmp_path / "b.mrec", Atoms("H"), append=True)
    assert len(ase.io.read(path, ":")) == len(ase.io.read(tmp_path / "b.mrec", ":")) == 1


def test_what_other_tools_find_in_a_record_of_ase(tmp_path):
    """Elements, masses and charges beside the coordinates, canonical energies, the cell's vectors as columns."""
    atoms = bulk("Cu", cubic=True)
    atoms.set_cell([[4, 1, 0], [0, 4, 0], [0, 0, 4]])
    atoms.set_initial_charges([1, 2, 3, 4])
    atoms.set_constraint(FixAtoms([0]))
    with MolrecTrajectory(tmp_path / "a.mrec", "w") as trajectory:
        trajectory.write(atoms, energy=-1.5)
    with open_record(tmp_path / "a.mrec") as record:
        frame = record.trajectory[0]
        assert record.meta["units"] == {
            "length": "angstrom",
            "time": "fs",
            "energy": "eV",
            "mass": "dalton",
            "charge": "e",
        }
        assert record.trajectory.schema.blocks["identity"].aligned_with == "atoms"
        assert frame["identity"]["element"].tolist() == ["Cu"] * 4
        assert frame["identity"]["atomic_number"].tolist() == [29] * 4
        assert frame["identity"]["charge"].tolist() == [1, 2, 3, 4]
        assert frame["identity"]["free"].tolist() == [False, True, True, True]
        assert frame.box.vectors.tolist() == atoms.cell.array.T.tolist()
        assert frame.meta["pe"] == -1.5


def test_constant_parts_cost_one_update(tmp_path, run):
    for image in run:
        image.set_tags(range(len(image)))
        image.arrays["label"] = np.array(["a", "bc"] * (len(image) // 2))
        image.set_constraint(FixAtoms([0, 3]))
    ase.io.write(tmp_path / "a.mrec", run)
    with open_record(tmp_path / "a.mrec") as record:
        updates = {name: len(record.trajectory.updates(name)) for name in record.trajectory.schema.blocks}
        assert len(record.trajectory.box_updates) == 1
    assert updates == {"atoms": 10, "identity": 1, "forces": 10, "array.label": 1, "ase": 1}


# -- molrec's own command


def test_the_adapter_is_registered():
    adapter = plugins.adapters()["ase"]
    assert "extxyz" in adapter.reads
    assert adapter.writes == ("extxyz", "traj")
    assert "{path}" in adapter.snippet


@pytest.mark.parametrize("suffix", ["extxyz", "traj"])
def test_a_foreign_file_becomes_a_record_and_comes_out_again(tmp_path, run, assert_same, suffix):
    """Through molrec's conversion, both ways, with a slice of the frames."""
    from molrec_core._convert import Options, convert

    ase.io.write(tmp_path / f"a.{suffix}", run)
    given = ase.io.read(tmp_path / f"a.{suffix}", ":")
    convert(tmp_path / f"a.{suffix}", tmp_path / "a.mrec", Options(adapter="ase"))
    assert_same(given, ase.io.read(tmp_path / "a.mrec", ":"))
    convert(tmp_path / "a.mrec", tmp_path / f"b.{suffix}", Options(adapter="ase", frames=slice(2, 8, 3)))
    assert_same(given[2:8:3], ase.io.read(tmp_path / f"b.{suffix}", ":"))


def test_other_formats_are_read(tmp_path):
    crystal = bulk("NaCl", "rocksalt", a=5.64)
    for name in ("a.cif", "a.vasp", "a.xyz"):
        ase.io.write(tmp_path / name, crystal)
        read = ase.io.read(tmp_path / name)
        ase.io.write(tmp_path / "a.mrec", [read, read])
        assert ase.io.read(tmp_path / "a.mrec").info.get("spacegroup") == read.info.get("spacegroup")
        source = plugin.read(tmp_path / name, None, slice(None))
        frames = list(source.frames)
        assert source.n_frames == len(frames) == 1
        assert sorted(frames[0][0]["identity"]["element"].tolist()) == ["Cl", "Na"]
    with pytest.raises(ValueError, match="without a topology"):
        plugin.read(tmp_path / "a.xyz", tmp_path / "a.pdb", slice(None))


def test_the_adapter_describes_what_ase_sees(tmp_path, images):
    ase.io.write(tmp_path / "a.mrec", images)
    assert plugin.describe(str(tmp_path / "a.mrec")) == "3 images; the first is H2O with energy, forces"
    ase.io.write(tmp_path / "b.mrec", [])
    assert plugin.describe(str(tmp_path / "b.mrec")) == "no images"
    shown = plugins.adapters()["ase"].snippet.format(path=tmp_path / "a.mrec")
    assert len(eval(shown, {"ase": ase})) == 3
