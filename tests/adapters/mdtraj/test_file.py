"""The file object: positions, modes, units, precision, and what a trajectory has no place for."""

from __future__ import annotations

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")
import molrec_mdtraj  # noqa: E402
from molrec_core import (  # noqa: E402
    Block,
    CommitError,
    FormatError,
    Frame,
    ReadOnlyError,
    SchemaError,
    SectionNotFoundError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    validate,
    write_mrec,
)
from molrec_mdtraj import MolrecTrajectoryFile  # noqa: E402


def test_read_goes_on_where_it_stopped(kit, twenty):
    where, source = twenty
    with md.open(where) as file:
        assert isinstance(file, MolrecTrajectoryFile)
        assert len(file) == 20
        assert file.n_atoms == source.n_atoms
        first = file.read(3)
        assert file.tell() == 3
        assert first.xyz.tobytes() == source.xyz[:3].tobytes()
        assert first.step.tolist() == [0, 1, 2]
        strided = file.read(4, stride=3)
        assert strided.xyz[:, 0, 0].tolist() == [3, 6, 9, 12]
        assert file.tell() == 15
        assert file.read(atom_indices=[2, 0]).xyz.tobytes() == source.xyz[15:][:, [2, 0]].tobytes()
        assert file.tell() == 20
        assert len(file.read().xyz) == 0
        assert len(file.read(0).xyz) == 0


def test_seek_takes_all_three_origins(kit, twenty):
    with md.open(twenty[0]) as file:
        for offset, whence, expected in (
            (5, 0, 5),
            (3, 1, 8),
            (-2, 1, 6),
            (-1, 2, 19),
            (0, 2, 20),
            (99, 0, 20),
        ):
            file.seek(offset, whence)
            assert file.tell() == expected
        for offset, whence in ((-1, 0), (-21, 2), (0, 3)):
            with pytest.raises(OSError, match=f"offset {offset} with whence {whence}"):
                file.seek(offset, whence)


def test_each_mode_refuses_the_others_calls(kit, twenty, tmp_path):
    with md.open(twenty[0]) as file, pytest.raises(ValueError, match="open it with 'w' or 'a'"):
        file.write(np.zeros((1, 20, 3)))
    with md.open(tmp_path / "new.mrec", "w") as file, pytest.raises(ValueError, match="open it with 'r'"):
        file.read()
    with pytest.raises(ValueError, match="open it with 'r'"):
        file.read()
    with pytest.raises(ValueError, match="mode is 'rw'"):
        md.open(twenty[0], "rw")


def test_frames_are_written_in_pieces(kit, path):
    source = kit.trajectory(20)
    with md.open(path, "w") as file:
        file.topology = source.topology
        for start in range(0, 20, 7):
            part = source[start : start + 7]
            file.write(part.xyz, part.time, part.unitcell_lengths, part.unitcell_angles)
            assert file.tell() == len(file) == min(20, start + 7)
    kit.same(md.load(path), source)
    assert validate(path, deep=True) == []


def test_a_single_frame_needs_no_frame_axis(kit, path):
    source = kit.trajectory(1)
    with md.open(path, "w") as file:
        file.topology = source.topology
        file.write(source.xyz[0], source.time[0], source.unitcell_lengths[0], source.unitcell_angles[0])
    kit.same(md.load(path), source)


def test_append_writes_after_the_last_frame_P93(kit, tmp_path):
    source = kit.trajectory(20)
    where = tmp_path / "run.mrec"
    for start in (0, 12):
        part = source[start : start + 12]
        with md.open(where, "a") as file:
            if not start:
                file.topology = source.topology
            file.write(part.xyz, part.time, part.unitcell_lengths, part.unitcell_angles)
    kit.same(md.load(where), source)
    with open_record(where) as record:
        assert record.trajectory.steps.tolist() == list(range(20))


def test_append_goes_on_from_a_chosen_frame_P93(kit, tmp_path):
    source = kit.trajectory(20)
    where = tmp_path / "run.mrec"
    source.save(where)
    again = source[8:]
    again.xyz += np.float32(50)
    with md.open(where, "a", after_step=7) as file:
        assert len(file) == 8
        file.write(again.xyz, again.time, again.unitcell_lengths, again.unitcell_angles)
    kit.same(md.load(where), md.join([source[:8], again]))


def test_an_archive_is_not_appended_to_and_the_way_out_is_named_P93(kit, tmp_path):
    kit.trajectory(2).save(tmp_path / "run.mrec.zip")
    with pytest.raises(ReadOnlyError, match="pack"):
        md.open(tmp_path / "run.mrec.zip", "a")


def test_append_keeps_to_the_records_units_and_atoms_P93(kit, tmp_path):
    where = tmp_path / "run.mrec"
    frame = Frame({"atoms": Block({name: np.array([1.0, 2.0]) for name in "xyz"})})
    write_mrec(
        where, meta={"units": {"length": "nm", "time": "fs", "energy": "eV"}}, trajectory=[frame], times=[5.0]
    )
    with md.open(where, "a") as file:
        file.write(np.full((1, 2, 3), 0.25), time=[0.125])
        with pytest.raises(ValueError, match="xyz holds 3 atoms; the record has 2"):
            file.write(np.zeros((1, 3, 3)), time=[1])
    with open_record(where) as record:
        assert record.trajectory[1]["atoms"]["x"].tolist() == [0.25, 0.25]
        assert record.trajectory.times.tolist() == [5.0, 125.0]


def test_the_topology_comes_before_the_frames(kit, tmp_path):
    source = kit.trajectory(1)
    with md.open(tmp_path / "run.mrec", "w") as file:
        file.write(source.xyz)
        with pytest.raises(ValueError, match="before the first frame"):
            file.topology = source.topology
    with pytest.warns(molrec_mdtraj.MolrecTopologyWarning):
        assert md.load(tmp_path / "run.mrec").n_atoms == source.n_atoms


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"xyz": np.zeros((2, 5))}, "numbers of shape"),
        ({"xyz": np.zeros((2, 5, 3)), "time": [1.0]}, r"time has shape \(1,\); \(2,\)"),
        ({"xyz": np.zeros((2, 5, 3)), "cell_lengths": np.ones((2, 3))}, "together"),
        ({"xyz": np.zeros((2, 5, 3)), "velocities": np.ones((2, 4, 3))}, "velocities has shape"),
        ({"xyz": np.zeros((2, 5, 3)), "energies": {"pe": np.ones(3)}}, "pe has shape"),
        ({"xyz": np.array([[["a"] * 3]])}, "numbers of shape"),
    ],
)
def test_shapes_that_do_not_fit_are_named(kit, tmp_path, given, told):
    with md.open(tmp_path / "run.mrec", "w") as file, pytest.raises(ValueError, match=told):
        file.write(**given)


def test_what_the_first_frames_had_is_what_all_have_P37(kit, tmp_path):
    """A cell, velocities or energies that come or go in the middle of a file are refused, never zeros."""
    cell = {"cell_lengths": np.ones((1, 3)), "cell_angles": np.full((1, 3), 90.0)}
    xyz = np.zeros((1, 5, 3))
    for first, then in (
        (cell, {}),
        ({}, {"velocities": xyz}),
        ({}, {"forces": xyz}),
        ({}, {"energies": {"pe": [1.0]}}),
    ):
        with md.open(tmp_path / "run.mrec", "w") as file:
            file.write(xyz, **first)
            with pytest.raises(SchemaError, match="do not agree"):
                file.write(xyz, **then)


def test_float32_survives_bit_for_bit():
    """Every mantissa, at one exponent, and every subnormal: scaling by a power of two changes nothing else."""
    mantissas = np.arange(2**23, dtype=np.uint32)
    for exponent in (0, 1, 127, 254):
        values = (mantissas | np.uint32(exponent << 23)).view(np.float32)
        stored = np.multiply(values, 10.0, dtype=np.float64)
        assert np.array_equal((stored * 0.1).astype(np.float32).view(np.uint32), values.view(np.uint32))


def test_odd_float32_values_survive_in_a_record(kit, path):
    source = kit.trajectory(2)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, -1e-38, 3.4028235e38, 1e30, 0.1], dtype=np.float32)
    source.xyz.reshape(-1)[: len(odd)] = odd
    source.save(path)
    assert md.load(path).xyz.tobytes() == source.xyz.tobytes()


def test_float64_is_cut_by_mdtraj_alone_P158(kit, path):
    """The record keeps doubles to one ulp; a trajectory of mdtraj is float32."""
    xyz = np.random.default_rng(3).normal(0, 5, (4, 6, 3))
    with md.open(path, "w") as file:
        file.write(xyz)
    with open_record(path) as record:
        stored = record.trajectory.read("atoms", ["x", "y", "z"])
    np.testing.assert_array_equal(stored, xyz * 10)
    np.testing.assert_array_max_ulp(stored * 0.1, xyz, maxulp=1)
    with md.open(path) as file:
        assert np.array_equal(file.read().xyz, xyz.astype(np.float32))


def test_precision_is_given_and_told_in_nanometers(kit, path):
    source = kit.trajectory(10)
    source.save(path, precision=1e-3)
    found = md.load(path)
    assert np.abs(found.xyz - source.xyz).max() <= 0.5e-3 * 1.001
    assert not np.array_equal(found.xyz, source.xyz)
    assert np.array_equal(found.time, source.time)
    assert found.unitcell_lengths.tobytes() == source.unitcell_lengths.tobytes()
    with md.open(path) as file:
        assert file.precision == 1e-3
    with open_record(path) as record:
        assert record.trajectory.schema.blocks["atoms"].columns["x"].precision == 0.01


def test_exact_coordinates_have_no_precision(kit, twenty):
    with md.open(twenty[0]) as file:
        assert file.precision is None


def with_extras(where, source, **more):
    rng = np.random.default_rng(5)
    extras = {
        "velocities": rng.normal(size=source.xyz.shape),
        "forces": rng.normal(size=source.xyz.shape),
        "energies": {
            "pe": rng.normal(size=len(source)),
            "temp": rng.uniform(290, 310, len(source)),
            "press": np.ones(len(source)),
        },
    }
    with md.open(where, "w", **more) as file:
        file.topology = source.topology
        file.write(source.xyz, source.time, source.unitcell_lengths, source.unitcell_angles, **extras)
    return extras


def test_velocities_forces_and_energies_have_functions_P69(kit, path):
    source = kit.trajectory(10)
    extras = with_extras(path, source)
    kit.same(md.load(path), source)
    velocities = molrec_mdtraj.load_velocities(path)
    assert velocities.dtype == np.float64
    np.testing.assert_array_max_ulp(velocities, extras["velocities"], maxulp=1)
    np.testing.assert_array_max_ulp(molrec_mdtraj.load_forces(path), extras["forces"], maxulp=1)
    energies = molrec_mdtraj.load_energies(path)
    assert sorted(energies) == ["pe", "press", "temp"]
    for name, values in extras["energies"].items():
        np.testing.assert_array_max_ulp(energies[name], np.asarray(values), maxulp=2)
    np.testing.assert_array_equal(
        molrec_mdtraj.load_velocities(path, stride=3, atom_indices=[5, 1]), velocities[::3][:, [1, 5]]
    )
    np.testing.assert_array_equal(molrec_mdtraj.load_forces(path, frame=-1).shape, (1, source.n_atoms, 3))
    assert molrec_mdtraj.load_energies(path, frame=[2, 5])["pe"].tolist() == energies["pe"][[2, 5]].tolist()
    with open_record(path) as record:
        assert record.trajectory[0]["velocities"]["vx"][0] == extras["velocities"][0, 0, 0] * 10


def test_a_saved_trajectory_has_no_velocities_and_says_so_P69(kit, path):
    kit.trajectory(2).save(path)
    with pytest.raises(SectionNotFoundError, match="no frame of the record has velocities"):
        molrec_mdtraj.load_velocities(path)
    with pytest.raises(SectionNotFoundError, match="no frame of the record has forces"):
        molrec_mdtraj.load_forces(path)
    assert molrec_mdtraj.load_energies(path) == {}
    assert "no velocities, forces or energies" in molrec_mdtraj.save_mrec.__doc__


def test_velocities_that_some_frames_lack_are_nan_there(kit, tmp_path):
    where = tmp_path / "run.mrec"
    schema = SequenceSchema().declare_block("atoms", dict.fromkeys("xyz", "f64"))
    schema.declare_block("velocities", dict.fromkeys(("vx", "vy", "vz"), "f64"))
    atoms = Block({name: np.zeros(2) for name in "xyz"})
    there = Block({name: np.full(2, 30.0) for name in ("vx", "vy", "vz")})
    empty = Block({name: np.zeros(0) for name in ("vx", "vy", "vz")})
    units = {"units": {"length": "angstrom", "time": "fs", "energy": "eV"}}
    with TrajectoryWriter(where, schema, meta=units) as writer:
        for block in (there, empty, there):
            writer.append(Frame({"atoms": atoms, "velocities": block}))
    found = molrec_mdtraj.load_velocities(where)
    assert np.isnan(found[1]).all()
    assert np.allclose(found[[0, 2]], 3000.0, rtol=1e-15)
    assert molrec_mdtraj.load_velocities(where, frame=1, atom_indices=[0]).shape == (1, 1, 3)


def test_velocities_beside_the_coordinates_are_found(kit, tmp_path):
    columns = {name: np.full(2, 20.0) for name in ("x", "y", "z", "vx", "vy", "vz")}
    units = {"units": {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}}
    for name, more in (
        ("t.mrec", {"trajectory": [Frame({"atoms": Block(columns)})]}),
        ("f.mrec", {"frame": Frame({"atoms": Block(columns)})}),
    ):
        write_mrec(tmp_path / name, meta=units, **more)
        assert molrec_mdtraj.load_velocities(tmp_path / name).tolist() == [[[2.0] * 3] * 2]


@pytest.mark.filterwarnings("ignore:the record has neither elements")
def test_a_record_of_a_single_state_is_one_frame(kit, tmp_path):
    frame = Frame({"atoms": Block({name: np.array([10.0, 20.0]) for name in "xyz"})})
    units = {"units": {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}}
    write_mrec(tmp_path / "one.mrec", frame=frame, meta=units)
    found = md.load(tmp_path / "one.mrec")
    assert found.xyz.tolist() == [[[1, 1, 1], [2, 2, 2]]]
    assert found.unitcell_lengths is None
    assert md.load(tmp_path / "one.mrec", atom_indices=[1]).xyz.tolist() == [[[2, 2, 2]]]


def test_atom_counts_that_change_are_refused_early(kit, tmp_path):
    frames = [Frame({"atoms": Block({name: np.zeros(n) for name in "xyz"})}) for n in (2, 2, 5)]
    write_mrec(tmp_path / "run.mrec", trajectory=frames)
    with pytest.raises(FormatError, match="frame 2 has 5 atoms, frame 0 has 2"):
        md.load(tmp_path / "run.mrec")


@pytest.mark.filterwarnings("ignore:the record has neither elements")
def test_other_units_are_converted_and_none_are_assumed_aloud(kit, tmp_path):
    frame = Frame({"atoms": Block({name: np.array([1.0]) for name in "xyz"})})
    write_mrec(tmp_path / "b.mrec", trajectory=[frame], times=[7.0], meta={"units": {"preset": "electron"}})
    found = md.load(tmp_path / "b.mrec")
    assert found.xyz[0, 0, 0] == np.float32(0.0529177210544)
    assert found.time[0] == 0.007
    write_mrec(tmp_path / "n.mrec", trajectory=[frame])
    with pytest.warns(UserWarning, match="does not state its units"):
        assert md.load(tmp_path / "n.mrec").xyz[0, 0, 0] == np.float32(0.1)


def test_steps_of_the_source_are_kept(kit, path):
    with md.open(path, "w") as file:
        for steps in ([100, 200, 300], [200, 300]):
            file.write(np.zeros((len(steps), 2, 3)), step=steps)
    with md.open(path) as file:
        assert file.read().step.tolist() == [100, 200, 300, 200, 300]
    with open_record(path) as record:
        assert record.trajectory.steps.tolist() == [100, 200, 300, 301, 302]


def test_an_error_gives_an_archive_up_and_keeps_a_directory(kit, path):
    source = kit.trajectory(4)

    def fail():
        with md.open(path, "w") as file:
            file.topology = source.topology
            file.write(source.xyz)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    if path.suffix == ".zip":
        assert list(path.parent.iterdir()) == []
    else:
        assert md.load(path).n_frames == 4


def test_flushed_frames_are_seen_by_another_reader(kit, tmp_path):
    source = kit.trajectory(4)
    with md.open(tmp_path / "run.mrec", "w") as file:
        file.topology = source.topology
        file.write(source.xyz)
        file.flush()
        assert md.load(tmp_path / "run.mrec").xyz.tobytes() == source.xyz.tobytes()


def test_a_commit_that_failed_behind_the_last_frame_is_raised(kit, path, monkeypatch):
    """Whatever failed in the background, a save that returns has saved."""
    source = kit.trajectory(4)
    file = md.open(path, "w")
    file.topology = source.topology
    file.write(source.xyz)
    writer = file._writer._writer
    writer._failed = CommitError("no space left", path=str(path), stage="chunks")
    with pytest.raises(CommitError, match="no space left"):
        file.close()
    if path.suffix == ".zip":
        assert list(path.parent.iterdir()) == []
    else:
        assert len(md.load(path)) == 0
