"""Checklist group O: the commit marker, its order on disk and the reopen rule."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.records import (
    EYE,
    arrays,
    attributes,
    changed,
    document,
    read,
    remove,
    replace_array,
    set_attributes,
    stored,
    u64,
    unreadable,
    write,
)
from molrec_core import Block, Box, Frame, SequenceSchema, TrajectoryWriter, open_record
from molrec_core._store import DirectoryStore

MARKER = "trajectory/zarr.json"


def x(*values):
    return Frame({"atoms": {"x": np.array(values, float)}})


def moving(n):
    return [x(float(i), float(i + 1)) for i in range(n)]


@pytest.fixture
def operations(monkeypatch):
    """What stores are asked to do, in order: (what, key)."""
    done = []

    def watch(name, key_of):
        original = getattr(DirectoryStore, name)

        def watched(store, *args):
            done.append((name, key_of(args)))
            return original(store, *args)

        monkeypatch.setattr(DirectoryStore, name, watched)

    for name in ("write", "sync_file", "sync_directory"):
        watch(name, lambda args: args[0])
    # Of a replacement, what counts is when its new content takes the place of the old.
    watch("rename", lambda args: args[1])
    return done


def test_O01_marker_with_its_progressions_in_one_update(tmp_path, operations):
    writer = TrajectoryWriter(tmp_path / "run.mrec")
    for i, frame in enumerate(moving(3)):
        writer.append(frame, step=10 * i, time=0.5 * i)
    assert attributes(tmp_path / "run.mrec", "trajectory")["nstep"] == 0
    assert "step_progression" not in attributes(tmp_path / "run.mrec", "trajectory")
    operations.clear()
    writer.flush()
    renamed = [key for what, key in operations if what == "rename"]
    assert renamed[-1] == MARKER
    assert renamed.count(MARKER) == 1
    found = attributes(tmp_path / "run.mrec", "trajectory")
    assert found["nstep"] == 3
    assert found["step_progression"] == {"start": 0, "stride": 10}
    assert found["time_progression"] == {"start": 0.0, "stride": 0.5}
    writer.close()


def test_O01_frames_past_the_marker_are_not_read(tmp_path):
    record = write(tmp_path, moving(5))
    set_attributes(record, "trajectory", nstep=3)
    assert read(record)[0] == moving(3)


@pytest.mark.parametrize("nstep", [-1, 1.0, "3", True, None, [3], 2**63])
def test_O02_marker_is_a_count(tmp_path, nstep):
    record = write(tmp_path, moving(3))
    with changed(record, "trajectory") as found:
        found["attributes"]["nstep"] = nstep
    with unreadable("nstep", "trajectory"):
        read(record)


def test_O02_marker_written_as_a_float_is_no_integer(tmp_path):
    record = write(tmp_path, moving(3))
    path = record / "trajectory" / "zarr.json"
    path.write_text(path.read_text().replace('"nstep": 3', '"nstep": 3.0'))
    assert '"nstep": 3.0' in path.read_text()
    with unreadable("nstep", "trajectory"):
        read(record)


def test_O03_without_a_marker_the_step_array_counts(tmp_path):
    record = write(tmp_path, moving(4), steps=[0, 1, 5, 9])
    set_attributes(record, "trajectory", nstep=None)
    frames, steps, _, _ = read(record)
    assert frames == moving(4)
    assert steps.tolist() == [0, 1, 5, 9]


def test_O03_without_marker_and_steps_there_are_no_frames(tmp_path):
    record = write(tmp_path, moving(4), steps=[0, 1, 5, 9])
    set_attributes(record, "trajectory", nstep=None)
    remove(record, "trajectory/step")
    assert read(record)[0] == []


def every_array(n):
    """Frames under which every kind of array exists: index, mask, meta, box, step and time."""
    frames = [
        Frame(
            {
                "atoms": Block(
                    {"x": np.arange(2 + i % 2, dtype=float) + i, "q": np.ones(2 + i % 2) * i},
                    validity={"q": np.arange(2 + i % 2) > 0},
                )
            },
            box=Box((4 + i) * EYE, origin=[i + 1.0, 0, 0], boundary=[True, False, bool(i % 2)]),
            meta={"pe": float(i)},
        )
        for i in range(n)
    ]
    steps = [i * i for i in range(n)]
    return frames, steps, [0.1 * i * i for i in range(n)]


EVERY = [
    "atoms/_validity/q", "atoms/offset", "atoms/q", "atoms/step_index", "atoms/x", "box/boundary", "box/origin",
    "box/step_index", "box/vectors", "meta/pe", "step", "time",
]  # fmt: skip


def longer(values):
    return np.concatenate([values, np.zeros((3, *values.shape[1:]), values.dtype)])


@pytest.mark.parametrize("key", EVERY)
def test_O04_a_tail_is_tolerated_and_a_lack_is_not(tmp_path, key):
    frames, steps, times = every_array(4)
    record = write(tmp_path, frames, steps=steps, times=times)
    assert arrays(record, "trajectory") == EVERY
    values = stored(record, f"trajectory/{key}")
    tail = longer(values)
    if key.endswith("step_index"):
        tail[-3:] = [4, 5, 6]
    replace_array(record, f"trajectory/{key}", tail)
    found = read(record)
    assert found[0] == frames
    assert found[1].tolist() == steps
    assert found[2].tolist() == times
    replace_array(record, f"trajectory/{key}", values[:-1])
    if key.endswith("step_index"):
        # One update less is another run, not a broken one: the last update is carried forward.
        assert read(record)[0] != frames
        return
    kinds = {"atoms/_validity/q": "mask_length", "atoms/offset": "offset"}
    with unreadable(kinds.get(key, "array_short"), f"trajectory/{key}"):
        read(record)


def test_O05_logical_lengths_follow_from_nstep(tmp_path):
    frames, steps, times = every_array(6)
    record = write(tmp_path, frames, steps=steps, times=times)
    for nstep in range(5, 0, -1):
        set_attributes(record, "trajectory", nstep=nstep)
        found = read(record)
        assert found[0] == frames[:nstep]
        assert found[1].tolist() == steps[:nstep]
        assert found[2].tolist() == times[:nstep]
        assert found[3]["pe"].tolist() == [float(i) for i in range(nstep)]
        with open_record(record) as opened:
            assert opened.trajectory.updates("atoms").tolist() == list(range(nstep))
            assert opened.trajectory.box_updates.tolist() == list(range(nstep))


def test_O06_reopening_shrinks_to_the_logical_shapes(tmp_path):
    frames, steps, times = every_array(6)
    record = write(tmp_path, frames, steps=steps, times=times)
    lengths = {key: len(stored(record, f"trajectory/{key}")) for key in EVERY}
    set_attributes(record, "trajectory", nstep=3)
    TrajectoryWriter.reopen(record).close()
    rows = sum(frame["atoms"].count for frame in frames[:3])
    expected = dict.fromkeys(EVERY, 3) | {
        "atoms/offset": 4,
        "atoms/x": rows,
        "atoms/q": rows,
        "atoms/_validity/q": rows,
    }
    assert {key: document(record, f"trajectory/{key}")["shape"][0] for key in EVERY} == expected
    assert all(lengths[key] > expected[key] for key in EVERY)
    with TrajectoryWriter.reopen(record) as writer:
        for i in range(3, 6):
            writer.append(frames[i], step=steps[i], time=times[i])
    found = read(record)
    assert found[0] == frames
    assert found[1].tolist() == steps
    assert found[2].tolist() == times
    assert {key: len(stored(record, f"trajectory/{key}")) for key in EVERY} == lengths


def test_O06_a_tail_never_comes_back(tmp_path):
    """What lay past the marker does not show under the frames that take its place."""
    record = write(tmp_path, moving(6))
    set_attributes(record, "trajectory", nstep=2)
    with TrajectoryWriter.reopen(record) as writer:
        assert len(writer) == writer.committed == 2
        writer.append(x(0.0, 0.0))
    assert read(record)[0] == [*moving(2), x(0.0, 0.0)]
    with changed(record, "trajectory/atoms/x") as found:
        found["shape"] = [12]
    assert stored(record, "trajectory/atoms/x")[6:].tolist() == [0.0] * 6


def test_O07_order_of_a_durable_flush(tmp_path, operations):
    """Chunk bytes, their sync, array documents, then the marker, then its directory."""
    frames, steps, times = every_array(4)
    schema = SequenceSchema.from_frames(frames)
    writer = TrajectoryWriter(tmp_path / "run.mrec", schema)
    for frame, step, time in zip(frames, steps, times, strict=True):
        writer.append(frame, step=step, time=time)
    operations.clear()
    writer.flush()
    shards = {key for what, key in operations if what == "write"}
    assert {key.removeprefix("trajectory/").rpartition("/c/")[0] for key in shards} == set(EVERY)
    place = {}
    for i, (what, key) in enumerate(operations):
        place.setdefault((what, key), []).append(i)
    for shard in shards:
        written, synced = place["write", shard], place["sync_file", shard]
        parent = shard.rpartition("/")[0]
        assert max(written) < max(synced) < min(place["rename", MARKER])
        assert max(synced) < max(place["sync_directory", parent]) < min(place["rename", MARKER])
        array = shard.rpartition("/c/")[0]
        renamed = place.get(("rename", f"{array}/zarr.json"), [])
        assert all(max(written) < i < min(place["rename", MARKER]) for i in renamed)
    renames = [i for i, (what, _) in enumerate(operations) if what == "rename"]
    assert operations[renames[-1]] == ("rename", MARKER)
    assert operations[-1] == ("sync_directory", "trajectory")
    for i in renames:
        directory = operations[i][1].rpartition("/")[0]
        assert operations[i - 1] == ("sync_file", f"{directory}/zarr.json.tmp")
    writer.close()


def test_O07_a_chunk_is_written_before_its_index_entry(tmp_path, monkeypatch):
    """The payload lies at the tail of the shard before the index in its front says so."""
    writer = TrajectoryWriter(tmp_path / "run.mrec")
    writer.append(x(1.0))
    offsets = []
    original = DirectoryStore.write

    def watched(store, key, offset, buffers):
        if key == "trajectory/atoms/x/c/0":
            offsets.append(offset)
        return original(store, key, offset, buffers)

    monkeypatch.setattr(DirectoryStore, "write", watched)
    writer.flush()
    index = 4096 * 16
    assert offsets == [0, index + 4, 0, index]
    writer.close()


def test_O07_close_is_durable_and_exact(tmp_path, operations):
    writer = TrajectoryWriter(tmp_path / "run.mrec")
    writer.append(x(1.0, 2.0))
    writer.close()
    assert operations[-1] == ("sync_directory", "trajectory")
    assert document(tmp_path / "run.mrec", "trajectory/atoms/x")["shape"] == [2]


def test_O08_creation_order(tmp_path, operations):
    """Root, meta, the other documents, the system; in the trajectory arrays and blocks before their group."""
    writer = TrajectoryWriter(
        tmp_path / "run.mrec",
        meta={"title": "t"},
        status={"state": "running"},
        system=Frame({"atoms": {"type": ["a"]}}),
    )
    writer.append(Frame({"atoms": {"x": [1.0]}}, meta={"pe": 1.0}))
    renamed = [key for what, key in operations if what == "rename"]
    assert renamed == [
        "zarr.json",
        "meta/zarr.json",
        "status/zarr.json",
        "system/atoms/type/zarr.json",
        "system/atoms/zarr.json",
        "system/zarr.json",
        "trajectory/atoms/x/zarr.json",
        "trajectory/atoms/zarr.json",
        "trajectory/meta/zarr.json",
        "trajectory/meta/pe/zarr.json",
        "trajectory/zarr.json",
    ]
    writer.close()


def test_O09_a_bare_trajectory_has_root_and_meta(tmp_path):
    record = write(tmp_path, moving(1))
    assert document(record) == {"zarr_format": 3, "node_type": "group"}
    assert attributes(record, "meta") == {"molrec_version": 1}


def test_O09_a_writer_of_the_bare_trajectory_is_no_exception(tmp_path):
    """Also when no frame was ever appended."""
    record = write(tmp_path, [])
    assert json.loads((record / "meta" / "zarr.json").read_text())["attributes"] == {"molrec_version": 1}
    assert read(record)[0] == []


def test_reopening_a_finished_index_is_bound_by_nstep(tmp_path):
    """Entries past the marker in step_index are neither an update nor an error."""
    frames = [x(1.0), x(1.0, 2.0), x(3.0)]
    record = write(tmp_path, frames)
    set_attributes(record, "trajectory", nstep=2)
    replace_array(record, "trajectory/atoms/step_index", u64(0, 1, 2, 1))
    assert read(record)[0] == frames[:2]
