"""What mdtraj asks of each of its formats, asked of records in both forms."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")
import molrec_mdtraj  # noqa: E402
from molrec_core import ChecksumError, RecordExistsError, RecordNotFoundError, open_record, unpack  # noqa: E402

ATOMS = np.array([0, 3, 4, 9])


def test_save_and_load_give_everything_back(kit, path):
    source = kit.trajectory()
    source.save(path)
    kit.same(md.load(path), source)


def test_a_trajectory_without_a_cell_has_none_P37(kit, path):
    source = kit.trajectory(cell=False)
    source.save(path)
    found = md.load(path)
    kit.same(found, source)
    assert found.unitcell_lengths is None
    assert "box" not in os.listdir(
        unpack(path) / "trajectory" if path.suffix == ".zip" else path / "trajectory"
    )


@pytest.mark.parametrize("spelling", ["str", "Path", "slash", "relative"])
def test_every_spelling_of_the_path_loads_K17_P3(kit, twenty, spelling, monkeypatch):
    where, source = twenty
    monkeypatch.chdir(where.parent)
    given = {"str": str(where), "Path": where, "slash": f"{where}/", "relative": where.name}[spelling]
    if spelling == "slash" and where.suffix == ".zip":
        given = where
    assert md.load(given).xyz.shape == source.xyz.shape
    assert md.load_frame(given, 3).xyz[0, 0, 0] == 3
    assert md.load_topology(given) == source.topology
    with md.open(given) as file:
        assert len(file) == 20
    assert sum(len(piece) for piece in md.iterload(given, chunk=7)) == 20


@pytest.mark.parametrize("name", ["with space.mrec", "dîr/rün.mrec", "dîr/rün.mrec.zip"])
def test_unusual_names_load_P3(kit, tmp_path, name):
    where = tmp_path / name
    where.parent.mkdir(exist_ok=True)
    source = kit.trajectory(3)
    source.save(where)
    kit.same(md.load(where), source)


def test_no_topology_is_needed_K18_P1(kit, twenty):
    where, source = twenty
    kit.same_topology(md.load(where).topology, source.topology)


def test_directories_are_let_through_K19(kit, tmp_path):
    where = tmp_path / "run.mrec"
    source = kit.trajectory(5)
    source.save(where)
    assert where.is_dir()
    kit.same(md.load(where), source)
    kit.same(md.load_frame(where, 3), source[3])


def test_a_given_topology_of_the_same_atoms_is_used_P1(kit, twenty):
    where, source = twenty
    for top in (source.topology, source):
        found = md.load(where, top=top)
        assert found.topology is source.topology
        kit.same(found, source)


def test_a_given_topology_of_other_atoms_warns_P1(kit, twenty):
    where, source = twenty
    other = source.topology.copy()
    other.atom(2).name = "N9"
    with pytest.warns(molrec_mdtraj.MolrecTopologyWarning, match="the record's own topology is used"):
        found = md.load(where, top=other)
    kit.same_topology(found.topology, source.topology)


def test_a_given_topology_of_another_size_is_refused_P1(kit, twenty):
    where, source = twenty
    with pytest.raises(ValueError, match=r"top has 3 atoms, .* has 20"):
        md.load(where, top=source.topology.subset([0, 1, 2]))


def test_a_record_serves_as_topology_of_another_file(kit, twenty, tmp_path):
    where, source = twenty
    source.save_xtc(tmp_path / "run.xtc")
    found = md.load(tmp_path / "run.xtc", top=where)
    assert found.topology == source.topology
    assert next(md.iterload(str(tmp_path / "run.xtc"), top=where, chunk=5)).n_frames == 5


@pytest.mark.parametrize("stride", [None, 1, 3, 20, 50])
@pytest.mark.parametrize(
    "atoms", [None, ATOMS, list(ATOMS), slice(2, 9, 3)], ids=["all", "array", "list", "slice"]
)
def test_load_takes_stride_and_atom_indices(kit, twenty, stride, atoms):
    where, source = twenty
    expected = source[::stride]
    if atoms is not None:
        expected = expected.atom_slice(np.arange(source.n_atoms)[atoms])
    kit.same(md.load(where, stride=stride, atom_indices=atoms), expected)


def test_atoms_come_in_the_order_of_their_topology(kit, twenty):
    """mdtraj cannot reorder a topology, so coordinates must not be reordered either."""
    where, source = twenty
    kit.same(md.load(where, atom_indices=ATOMS[::-1]), source.atom_slice(ATOMS))


@pytest.mark.parametrize(
    ("atoms", "told"), [([0, 20], "0 to 19"), ([-1, 2], "-1 to 2"), ([1, 1], "unique"), ([0.5], "integer")]
)
def test_atom_indices_out_of_range_are_refused(kit, twenty, atoms, told):
    with pytest.raises(ValueError, match=told):
        md.load(twenty[0], atom_indices=atoms)


@pytest.mark.parametrize("index", [0, 7, 19, -1, -20])
def test_load_frame_gives_one_frame_K21(kit, twenty, index):
    where, source = twenty
    kit.same(md.load_frame(where, index), source[index])
    kit.same(md.load_frame(where, index, atom_indices=ATOMS), source[index].atom_slice(ATOMS))


def test_the_frame_keyword_works_in_load_P136(kit, twenty):
    where, source = twenty
    kit.same(md.load(where, frame=10), source[10])
    kit.same(md.load(where, frame=10, stride=3), source[10])


@pytest.mark.parametrize("index", [20, -21, [3, 20]])
def test_a_frame_that_is_not_there_raises(kit, twenty, index):
    with pytest.raises(IndexError, match="of a record of 20 frames"):
        md.load_frame(twenty[0], index)


def test_a_list_of_frames_decodes_those_alone_P135(kit, tmp_path):
    """Every chunk but those of three frames is damaged, so reading any other would raise."""
    top = md.Topology()
    residue = top.add_residue("ION", top.add_chain())
    for _ in range(2100):
        top.add_atom("LI", md.element.lithium, residue)
    xyz = np.random.default_rng(0).normal(size=(30, 2100, 3)).astype(np.float32)
    source = md.Trajectory(xyz, top)
    where = tmp_path / "run.mrec"
    source.save(where)
    wanted = [1, 10, -1]
    for name in "xyz":
        shard = where / "trajectory" / "atoms" / name / "c" / "0"
        content = bytearray(shard.read_bytes())
        for frame in set(range(30)) - {1, 10, 29}:
            column = xyz[frame, :, "xyz".index(name)].astype(np.float64) * 10
            at = content.index(column.tobytes())
            content[at] ^= 1
        shard.write_bytes(content)
    found = md.load_frame(where, wanted)
    assert found.xyz.tobytes() == xyz[wanted].tobytes()
    with pytest.raises(ChecksumError):
        md.load_frame(where, 2)


@pytest.mark.parametrize("index", [[1, 10, 19], [19, 0], np.array([5])])
def test_frames_of_a_list_come_in_its_order_P135(kit, twenty, index):
    where, source = twenty
    kit.same(md.load_frame(where, index), source[np.array(index, dtype=int)])


def test_an_empty_list_of_frames_is_an_empty_trajectory_P135(kit, twenty):
    where, source = twenty
    found = md.load_frame(where, [])
    assert found.xyz.shape == (0, source.n_atoms, 3)


def test_several_records_are_joined(kit, twenty, tmp_path):
    where, source = twenty
    source[:5].save(tmp_path / "more.mrec")
    kit.same(md.load([where, tmp_path / "more.mrec"]), md.join([source, source[:5]]))
    kit.same(
        md.load([str(where), tmp_path / "more.mrec"], stride=2, atom_indices=ATOMS),
        md.join([source[::2], source[:5:2]]).atom_slice(ATOMS),
    )
    joined = md.join([md.load(where), md.load(tmp_path / "more.mrec")])
    assert joined.xyz.tobytes() == md.join([source, source[:5]]).xyz.tobytes()
    assert joined.topology == source.topology
    kit.same(md.load([where]), source)


def test_records_of_other_atoms_are_not_joined(kit, twenty, tmp_path):
    where, source = twenty
    other = source[:2]
    other.topology = source.topology.copy()
    other.topology.atom(0).name = "C9"
    other.save(tmp_path / "other.mrec")
    source[:2].atom_slice(ATOMS).save(tmp_path / "fewer.mrec")
    for name in ("other.mrec", "fewer.mrec"):
        with pytest.raises(ValueError, match="names other atoms"):
            md.load([where, tmp_path / name])
    with pytest.raises(TypeError, match="each file is to be a record"):
        md.load([where, "run.xtc"])


def test_a_run_that_was_restarted_is_joined_by_step_P60(kit, tmp_path):
    """Frames 1 to 5, then 3 to 9 from the restart: 1 to 9, the later run's where both have one."""
    source = kit.trajectory(10)
    again = source[3:10]
    again.xyz += np.float32(100)
    for name, part, first in (("a.mrec", source[1:6], 1), ("b.mrec", again, 3)):
        with md.open(tmp_path / name, "w") as file:
            file.topology = source.topology
            file.write(part.xyz, part.time, step=np.arange(first, first + len(part)))
    paths = [tmp_path / "a.mrec", tmp_path / "b.mrec"]
    found = md.load(paths, discard_overlapping_frames=True)
    assert np.array_equal(found.time, source.time[1:10])
    assert found.xyz[:, 0, 0].tolist() == [1, 2, *range(103, 110)]
    assert len(md.load(paths)) == 12
    assert len(md.load(paths[::-1], discard_overlapping_frames=True)) == 12


def test_equal_frames_at_the_border_are_dropped_as_mdtraj_does_P60(kit, tmp_path):
    source = kit.trajectory(10)
    source[:6].save(tmp_path / "a.mrec")
    source[5:].save(tmp_path / "b.mrec")
    found = md.load([tmp_path / "a.mrec", tmp_path / "b.mrec"], discard_overlapping_frames=True)
    assert found.xyz[:, 0, 0].tolist() == list(range(10))


def test_unknown_keywords_are_named_with_the_known_K21(kit, twenty, tmp_path):
    where, source = twenty
    calls = [
        (lambda: source.save(tmp_path / "a.mrec", lossy=True), "'lossy'", "precision"),
        (lambda: source.save_mrec(tmp_path / "a.mrec", lossy=True), "'lossy'", "precision"),
        (lambda: md.load(where, n_frames=3), "'n_frames'", "stride"),
        (lambda: md.load_mrec(where, n_frames=3), "'n_frames'", "stride"),
        (lambda: md.load_frame(where, 0, stepsize=3), "'stepsize'", "atom_indices"),
        (lambda: list(md.iterload(where, chunksize=3)), "'chunksize'", "chunk"),
        (lambda: md.open(where, "w", lossy=True), "'lossy'", "precision"),
    ]
    for call, found, known in calls:
        with pytest.raises(TypeError, match=f"{found}.*{known}"):
            call()


def test_force_overwrite_is_obeyed(kit, path):
    source = kit.trajectory(4)
    source.save(path)
    with pytest.raises(RecordExistsError, match="force_overwrite"):
        source[:2].save(path, force_overwrite=False)
    kit.same(md.load(path), source)
    source[:2].save(path)
    kit.same(md.load(path), source[:2])


def test_nothing_is_left_beside_an_archive(kit, path):
    kit.trajectory(2).save(path)
    assert os.listdir(path.parent) == [path.name]


def test_any_name_loads_and_saves_by_the_named_functions_P4(kit, tmp_path):
    source = kit.trajectory(3)
    source.save_mrec(tmp_path / "anything")
    kit.same(md.load_mrec(tmp_path / "anything"), source)
    molrec_mdtraj.save_mrec(source, tmp_path / "other.xtc")
    kit.same(molrec_mdtraj.load_mrec(tmp_path / "other.xtc"), source)


@pytest.mark.parametrize("suffix", [".mrec", ".mrec/", ".mrec.zip"])
def test_every_suffix_that_is_written_is_read_P5(kit, tmp_path, suffix):
    source = kit.trajectory(3)
    where = f"{tmp_path}/run{suffix}"
    source.save(where)
    kit.same(md.load(where), source)


@pytest.mark.parametrize("suffix", [".mrec", ".mrec.zip"])
def test_a_url_reaches_us_P6(kit, tmp_path, suffix):
    fsspec = pytest.importorskip("fsspec")
    source = kit.trajectory(3)
    source.save(tmp_path / f"run{suffix}")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / f"run{suffix}"), f"/run{suffix}", recursive=True)
    kit.same(md.load(f"memory://run{suffix}"), source)
    kit.same(md.load_frame(f"memory://run{suffix}", 1), source[1])
    kit.same(md.load((tmp_path / f"run{suffix}").as_uri()), source)
    with pytest.raises(RecordNotFoundError):
        md.load("memory://nowhere.mrec")


def test_what_is_not_there_is_named(kit, tmp_path):
    for call in (
        md.load,
        md.load_topology,
        md.open,
        lambda p: next(md.iterload(p)),
        lambda p: md.load_frame(p, 0),
    ):
        with pytest.raises(RecordNotFoundError, match=r"none\.mrec"):
            call(tmp_path / "none.mrec")


def test_times_are_kept_in_double_precision_P51(kit, path):
    source = kit.trajectory(1, n_waters=0)
    time = 1e7 + np.arange(1000) * 0.002
    long = md.Trajectory(np.repeat(source.xyz, 1000, axis=0), source.topology, time=time)
    long.save(path)
    found = md.load(path).time
    assert found.dtype == np.float64
    assert np.array_equal(found, time)
    with open_record(path) as record:
        assert np.abs(np.diff(record.trajectory.times) - 0.002).max() < 1e-8


@pytest.mark.parametrize("n_frames", [0, 1])
def test_few_frames_and_no_frames(kit, path, n_frames):
    source = kit.trajectory(3)[:n_frames] if n_frames else kit.trajectory(0)
    source.save(path)
    found = md.load(path)
    assert found.xyz.shape == source.xyz.shape
    kit.same_topology(found.topology, source.topology)
    assert [len(t) for t in md.iterload(path, chunk=1)] == [1] * n_frames


def test_a_working_directory_is_enough(kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = kit.trajectory(2)
    source.save("run.mrec.zip")
    kit.same(md.load("run.mrec.zip"), source)
    assert isinstance(md.load(Path("run.mrec.zip")), md.Trajectory)
