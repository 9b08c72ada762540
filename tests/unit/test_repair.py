"""Mending: a dry run changes nothing, a run restores what the marker counts, a second one has nothing to do."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from conformance.interrupted import interrupted, tear_index, tree
from conformance.records import changed, document, read, remove, unreadable, write
from conformance.whole import STEPS, TIMES, frames, schema, write_whole
from molrec_core import (
    Block,
    Box,
    Frame,
    LockedError,
    ReadOnlyError,
    RecordNotFoundError,
    TrajectoryWriter,
    _extents,
    open_record,
    pack,
    repair,
    validate,
    write_mrec,
)
from molrec_core.testing.naive import plain_frame


def run(n):
    """Frames of two atoms that move in one cell."""
    return [Frame({"atoms": Block({"x": [i + 0.5, -i]})}, box=Box(np.eye(3) * 9)) for i in range(n)]


def findings(record, kinds=("torn_index", "leftover", "uncommitted_tail")):
    """What repair is there to mend, of what the validator finds."""
    problems = validate(record, deep=True)
    assert [p for p in problems if p.severity == "error"] == []
    return sorted((p.kind, p.loc) for p in problems if p.kind in kinds)


def content(record):
    with open_record(record) as found:
        reader = found.trajectory
        times = None if reader.times is None else reader.times.tolist()
        return [plain_frame(frame) for frame in reader], reader.steps.tolist(), times


def assert_mends(record, *, says):
    """Repair mends `record` in one run; return what it said."""
    with pytest.warns() if _torn(record) else _nothing():
        before = content(record)
    damaged = tree(record)
    assert findings(record)
    foretold = repair(record, dry_run=True)
    assert tree(record) == damaged
    done = repair(record)
    assert done == foretold
    for text in says:
        assert any(text in line for line in done), (text, done)
    assert findings(record) == []
    assert content(record) == before
    mended = tree(record)
    assert repair(record) == []
    assert repair(record, dry_run=True) == []
    assert tree(record) == mended
    with TrajectoryWriter.reopen(record):
        pass
    assert content(record) == before
    return done


def _torn(record):
    return any(p.kind == "torn_index" for p in validate(record))


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.parametrize(
    ("key", "trailing"),
    [("trajectory/atoms/x", 0), ("trajectory/atoms/velocity", 1), ("trajectory/contacts/offset", 0),
     ("trajectory/contacts/_validity/distance", 0), ("trajectory/box/vectors", 2), ("trajectory/meta/note", 0),
     ("trajectory/step", 0), ("trajectory/labels/name", 0)],
)  # fmt: skip
def test_a_torn_index_is_written_anew(tmp_path, key, trailing):
    record = write_whole(tmp_path)
    path = tear_index(record, key, trailing=trailing)
    done = assert_mends(record, says=["torn index written anew"])
    assert done == [f"{path.relative_to(record).as_posix()}: torn index written anew"]


def test_a_torn_index_of_a_shard_before_the_last_is_written_anew(tmp_path):
    small = mock.patch.multiple(_extents, COLUMN_CHUNK_BYTES=16, SHARD_BYTES=32, FLUSH_BYTES=100)
    with small:
        record = write(tmp_path, run(9))
    assert len(list((record / "trajectory" / "atoms" / "x" / "c").iterdir())) > 3
    for shard in ("0", "2"):
        tear_index(record, "trajectory/atoms/x", shard)
    assert len(assert_mends(record, says=["x/c/0: torn index written anew", "x/c/2: torn"])) == 2


def test_a_tail_past_the_marker_is_cut(tmp_path):
    record = interrupted(tmp_path, run(7), 3)
    assert_mends(record, says=["trajectory/atoms/x: 14 rows shrunk to 6", "tail chunk rebuilt from 6"])
    assert document(record, "trajectory/atoms/x")["shape"] == [6]
    assert [f["atoms"]["x"][0] for f in read(record)[0]] == [0.5, 1.5, 2.5]


def test_every_kind_of_tail_is_cut_at_once(tmp_path):
    """Of regular, growing and nullable blocks, the cell, the series and the per-step values."""
    record = interrupted(tmp_path, frames(), 3, steps=STEPS, times=TIMES, schema=schema())
    done = assert_mends(
        record, says=["trajectory/atoms/velocity", "trajectory/meta/virial", "trajectory/step: rem"]
    )
    assert len(done) > 8
    assert content(record)[1:] == (STEPS[:3], TIMES[:3])


def test_a_half_written_tail_chunk_is_dropped(tmp_path):
    """The bytes of a chunk that was to replace the tail landed in part; no entry names them."""
    record = write(tmp_path, run(3))
    (record / "trajectory" / "zarr.json.tmp").write_bytes(b"{")
    path = record / "trajectory" / "atoms" / "x" / "c" / "0"
    with path.open("ab") as shard:
        shard.write(b"\x5a" * 1000)
    assert_mends(record, says=["zarr.json.tmp"])
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(run(4)[3])
    assert [f["atoms"]["x"][0] for f in read(record)[0]] == [0.5, 1.5, 2.5, 3.5]


def test_a_step_array_beside_its_progression_goes(tmp_path):
    record = interrupted(tmp_path, run(4), 3, steps=[0, 10, 20, 25], times=[0.0, 1.0, 2.0, 2.25])
    assert_mends(
        record,
        says=[
            "trajectory/step: removed, an array beside its progression",
            "trajectory/time: removed, an array beside its progression",
        ],
    )
    assert not (record / "trajectory" / "step").exists()
    assert content(record)[1:] == ([0, 10, 20], [0.0, 1.0, 2.0])


def test_a_lone_offset_goes(tmp_path):
    grown = Frame({"atoms": Block({"x": [1.0, 2.0, 3.0]})})
    record = interrupted(tmp_path, [*run(2), grown], 2, keep=["trajectory/atoms/zarr.json"])
    remove(record, "trajectory/atoms/step_index")
    assert_mends(record, says=["trajectory/atoms/offset: removed, an offset without a step_index"])
    assert not (record / "trajectory" / "atoms" / "offset").exists()


def test_box_arrays_without_vectors_go(tmp_path):
    """The cell was about to become arrays; vectors, which switches, had not landed."""
    other = Frame({"atoms": Block({"x": [0.0, 1.0]})}, box=Box(np.eye(3) * 10, origin=[1.0, 0.0, 0.0]))
    record = interrupted(tmp_path, [*run(3), other], 3, keep=["trajectory/box/zarr.json"])
    remove(record, "trajectory/box/vectors")
    for name in ("origin", "step_index"):
        assert (record / "trajectory" / "box" / name / "zarr.json").exists()
    done = assert_mends(record, says=["trajectory/box/origin: removed", "trajectory/box/step_index: removed"])
    assert any("interrupted migration" in line for line in done)
    assert sorted(p.name for p in (record / "trajectory" / "box").iterdir()) == ["zarr.json"]
    assert np.array_equal(read(record)[0][2].box.vectors, np.eye(3) * 9)


@pytest.mark.parametrize(
    "key", [".", "status", "trajectory", "trajectory/atoms", "trajectory/atoms/x", "trajectory/meta"]
)
def test_temporaries_go(tmp_path, key):
    record = write_whole(tmp_path)
    (record / key / "zarr.json.tmp").write_bytes(b"{")
    assert_mends(record, says=[f"{key}/zarr.json.tmp: removed".removeprefix("./")])


def test_everything_at_once(tmp_path):
    """What several interrupted runs could leave, in one record."""
    record = interrupted(tmp_path, run(5), 3, steps=[0, 1, 2, 4, 9])
    tear_index(record, "trajectory/atoms/x")
    (record / "trajectory" / "zarr.json.tmp").write_bytes(b"{")
    assert len(assert_mends(record, says=["torn index", "shrunk", "beside its progression", "tmp"])) >= 4


def test_a_sound_record_is_left_alone(tmp_path):
    record = write_whole(tmp_path)
    before = tree(record)
    stamps = {p: p.stat().st_mtime_ns for p in record.rglob("*")}
    assert repair(record) == []
    assert tree(record) == before
    assert {p: p.stat().st_mtime_ns for p in record.rglob("*")} == stamps


def test_a_record_without_a_trajectory_needs_nothing(tmp_path):
    write_mrec(tmp_path / "run.mrec", frame=run(1)[0])
    before = tree(tmp_path)
    assert repair(tmp_path / "run.mrec") == []
    assert tree(tmp_path) == before


def test_damage_is_refused_and_left(tmp_path):
    """A committed array that is too short is not the trace of an interrupted write."""
    record = write_whole(tmp_path)
    with changed(record, "trajectory/meta/pe") as node:
        node["shape"] = [3]
    before = tree(record)
    with unreadable("array_short", "trajectory/meta/pe"):
        repair(record)
    assert tree(record) == before


def test_what_cannot_be_repaired_says_why(tmp_path):
    record = write(tmp_path, run(2))
    with pytest.raises(ReadOnlyError, match="packed"):
        repair(pack(record))
    with pytest.raises(RecordNotFoundError):
        repair(tmp_path / "none.mrec")
    with TrajectoryWriter.reopen(record), pytest.raises(LockedError):
        repair(record)
