"""The writer's behaviour: when frames are committed, who may write, and what an overwrite leaves."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from conformance.records import refused, unwritable
from molrec_core import (
    Block,
    ClosedError,
    CommitError,
    Compression,
    Frame,
    LockedError,
    ReadOnlyError,
    RecordExistsError,
    RecordNotFoundError,
    SchemaError,
    SequenceSchema,
    TrajectoryWriter,
    _appending,
    _extents,
    open_record,
    pack,
    write_mrec,
)
from molrec_core._codecs import pipeline_for
from molrec_core._column import GrowingArray
from molrec_core._node import Layout
from molrec_core._store import DirectoryStore


def x(*values):
    return Frame({"atoms": {"x": np.array(values, float)}})


def lengths(record):
    """Number of frames that a reader finds."""
    with open_record(record) as found:
        return len(found.trajectory)


def values(record):
    with open_record(record) as found:
        return [frame["atoms"]["x"].tolist() for frame in found.trajectory]


def within(seconds, condition):
    """Wait for `condition`, no longer than it takes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)


# -- when frames are committed


def test_committed_follows_flushes(tmp_path):
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        assert (len(writer), writer.committed, writer.last_step) == (0, 0, None)
        writer.append(x(1.0), step=5)
        assert (len(writer), writer.committed, writer.last_step) == (1, 0, 5)
        writer.flush()
        assert writer.committed == lengths(tmp_path / "r.mrec") == 1
        writer.flush()
        assert writer.committed == 1
    assert writer.committed == 1


@pytest.mark.parametrize("every", [1, 2, 3])
def test_flush_every_commits_before_append_returns(tmp_path, every):
    with TrajectoryWriter(tmp_path / "r.mrec", flush_every=every) as writer:
        for i in range(1, 8):
            writer.append(x(float(i)))
            assert writer.committed == lengths(tmp_path / "r.mrec") == i // every * every
    assert lengths(tmp_path / "r.mrec") == 7


@pytest.mark.parametrize("every", [0, -1])
def test_flush_every_is_a_count(tmp_path, every):
    with unwritable("flush_every", ""):
        TrajectoryWriter(tmp_path / "r.mrec", flush_every=every)
    assert not (tmp_path / "r.mrec").exists()


def test_flush_seconds_is_a_timer(tmp_path):
    """A slow run is committed without another append; nothing is due once it is."""
    with TrajectoryWriter(tmp_path / "r.mrec", flush_seconds=0.05) as writer:
        for i in range(1, 4):
            writer.append(x(float(i)))
            within(10, lambda i=i: writer.committed == i)
            assert lengths(tmp_path / "r.mrec") == i


def test_flush_seconds_holds_for_a_frame_that_comes_during_a_commit(tmp_path, monkeypatch):
    """The commit under way does not cover it, so its own time still runs."""
    execute = _appending.execute

    def append_meanwhile(*arguments):
        monkeypatch.setattr(_appending, "execute", execute)
        writer.append(x(2.0))
        execute(*arguments)

    with TrajectoryWriter(tmp_path / "r.mrec", flush_seconds=0.05) as writer:
        writer.append(x(1.0))
        monkeypatch.setattr(_appending, "execute", append_meanwhile)
        writer.flush()
        within(10, lambda: writer.committed == 2)


def test_an_automatic_flush_is_committed_behind_the_append(tmp_path):
    """Chunks land at once; the marker follows without another call."""
    with mock.patch.multiple(_extents, FLUSH_BYTES=64, COLUMN_CHUNK_BYTES=64):
        writer = TrajectoryWriter(tmp_path / "r.mrec")
        for i in range(40):
            writer.append(x(float(i), float(i)))
        within(10, lambda: writer.committed > 0)
        assert lengths(tmp_path / "r.mrec") >= writer.committed > 0
        writer.close()
    assert len(values(tmp_path / "r.mrec")) == 40


def test_a_short_run_is_not_committed_before_it_is_asked_for(tmp_path):
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        writer.append(x(1.0))
        assert lengths(tmp_path / "r.mrec") == 0


def test_frames_appended_are_taken_by_value(tmp_path):
    coordinates = np.array([1.0, 2.0])
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        for i in range(3):
            coordinates[:] = i
            writer.append(Frame({"atoms": Block({"x": coordinates})}))
        coordinates[:] = 99.0
    assert values(tmp_path / "r.mrec") == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


def test_a_schema_is_frozen_at_the_door(tmp_path):
    schema = SequenceSchema().declare_block("atoms", {"x": "f64"})
    with TrajectoryWriter(tmp_path / "r.mrec", schema) as writer:
        schema.declare_column("atoms", "y", "f64")
        writer.schema.declare_column("atoms", "z", "f64")
        writer.append(x(1.0))
        assert list(writer.schema.blocks["atoms"].columns) == ["x"]


def test_threads_may_append(tmp_path):
    """Frames come in whole, whoever appends them."""
    with TrajectoryWriter(tmp_path / "r.mrec", flush_seconds=0.01) as writer:

        def append(worker):
            for i in range(25):
                writer.append(x(float(worker), float(i)))

        threads = [threading.Thread(target=append, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = values(tmp_path / "r.mrec")
    assert sorted(found) == [[float(worker), float(i)] for worker in range(4) for i in range(25)]


# -- settings


def test_precision_of_the_coordinates(tmp_path):
    frame = Frame({"atoms": {"x": [0.1], "vx": [0.1]}, "sites": {"x": [0.1]}})
    with TrajectoryWriter(tmp_path / "r.mrec", precision=0.5) as writer:
        writer.append(frame)
    with open_record(tmp_path / "r.mrec") as found:
        assert found.trajectory[0]["atoms"]["x"].tolist() == [0.0]
        assert found.trajectory[0]["atoms"]["vx"].tolist() == [0.1]
        assert found.trajectory[0]["sites"]["x"].tolist() == [0.1]


def test_precision_of_named_columns(tmp_path):
    frame = Frame({"atoms": {"x": [0.1], "vx": [0.1]}})
    with TrajectoryWriter(tmp_path / "r.mrec", precision={"atoms.vx": 1.0}) as writer:
        writer.append(frame)
        assert writer.schema.blocks["atoms"].columns["vx"].precision == 1.0
    with open_record(tmp_path / "r.mrec") as found:
        assert found.trajectory[0]["atoms"]["x"].tolist() == [0.1]
        assert found.trajectory[0]["atoms"]["vx"].tolist() == [0.0]


def test_precision_of_a_column_that_is_not_there(tmp_path):
    writer = TrajectoryWriter(tmp_path / "r.mrec", precision={"atoms.q": 1.0})
    with unwritable("undeclared_column", "trajectory/atoms/q"):
        writer.append(x(1.0))
    writer.abandon()


def test_expected_frames_keeps_a_short_record_small(tmp_path):
    sizes = {}
    for expected in (None, 1):
        path = tmp_path / f"{expected}.mrec"
        with TrajectoryWriter(path, expected_frames=expected) as writer:
            writer.append(Frame({"atoms": {"x": np.ones(10)}}))
        sizes[expected] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        assert values(path) == [[1.0] * 10]
    assert sizes[1] < sizes[None] // 2


def test_more_frames_than_expected(tmp_path):
    """The hint bounds nothing."""
    with TrajectoryWriter(tmp_path / "r.mrec", expected_frames=1) as writer:
        for i in range(600):
            writer.append(Frame({"atoms": {"x": np.arange(10.0) + i}}))
    assert [row[0] for row in values(tmp_path / "r.mrec")] == [float(i) for i in range(600)]


@pytest.mark.parametrize(
    "compression", [Compression.none(), Compression.gzip(9), Compression.zstd(1, shuffle=True)]
)
def test_compression_changes_the_size_alone(tmp_path, compression):
    frames = [Frame({"atoms": {"x": np.full(1000, float(i))}}) for i in range(5)]
    with TrajectoryWriter(tmp_path / "r.mrec", compression=compression, expected_frames=5) as writer:
        for frame in frames:
            writer.append(frame)
    shard = (tmp_path / "r.mrec" / "trajectory/atoms/x/c/0").stat().st_size
    assert (shard < 5000) is (compression.codec != "none")
    assert [row[0] for row in values(tmp_path / "r.mrec")] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_set_status(tmp_path):
    with TrajectoryWriter(tmp_path / "r.mrec", status={"state": "running"}) as writer:
        with open_record(tmp_path / "r.mrec") as found:
            assert found.status == {"state": "running"}
            writer.set_status({"state": "failed", "error": {"message": "no"}})
            assert found.status == {"state": "failed", "error": {"message": "no"}}
        with unwritable("document", "status/state"):
            writer.set_status({})


# -- closing, and what is never closed


def test_a_closed_writer_says_so(tmp_path):
    writer = TrajectoryWriter(tmp_path / "r.mrec")
    writer.append(x(1.0))
    writer.close()
    writer.close()
    for call in (
        lambda: writer.append(x(2.0)),
        writer.flush,
        lambda: writer.set_status({"state": "running"}),
    ):
        with refused(ClosedError, "closed", str(tmp_path / "r.mrec")):
            call()
    assert values(tmp_path / "r.mrec") == [[1.0]]


def test_leaving_with_an_error_keeps_the_frames(tmp_path):
    with contextlib.suppress(ZeroDivisionError), TrajectoryWriter(tmp_path / "r.mrec") as writer:
        writer.append(x(1.0))
        writer.append(x(2.0))
        raise ZeroDivisionError
    assert values(tmp_path / "r.mrec") == [[1.0], [2.0]]


def test_leaving_with_an_error_before_the_first_frame_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), TrajectoryWriter(tmp_path / "r.mrec"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_writer_warns_and_saves(tmp_path):
    writer = TrajectoryWriter(tmp_path / "r.mrec", flush_seconds=60)
    writer.append(x(1.0))
    forgotten = [writer]
    del writer
    with pytest.warns(ResourceWarning, match="was not closed"):
        forgotten.clear()
    assert values(tmp_path / "r.mrec") == [[1.0]]


def test_a_closed_writer_does_not_warn(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with TrajectoryWriter(tmp_path / "r.mrec") as writer:
            writer.append(x(1.0))
        del writer
        gc.collect()


SCRIPT = """
import sys
from molrec_core import Frame, TrajectoryWriter
writer = TrajectoryWriter(sys.argv[1], **eval(sys.argv[3]))
for i in range(3):
    writer.append(Frame({"atoms": {"x": [float(i)]}}))
exec(sys.argv[2])
"""


def run_script(record, then="", options="{}"):
    command = [sys.executable, "-c", SCRIPT, str(record), then, options]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("then", ["", "raise SystemExit(3)", "1 / 0"])
@pytest.mark.parametrize("options", ["{}", "{'flush_seconds': 60}"])
def test_a_script_that_ends_without_closing_keeps_its_frames(tmp_path, then, options):
    run_script(tmp_path / "r.mrec", then, options)
    assert values(tmp_path / "r.mrec") == [[0.0], [1.0], [2.0]]


def test_a_script_that_ends_with_much_left_to_compress_keeps_its_frames(tmp_path):
    """Threads take nothing any more by then: what they would compress the last commit compresses itself."""
    more = """
writer.close()
path = sys.argv[1]
writer = TrajectoryWriter(path, overwrite=True, precision=1e-3)
for i in range(2):
    writer.append(Frame({"atoms": {c: [float(i)] * 30_000 for c in "xyz"}}))
"""
    done = run_script(tmp_path / "r.mrec", more)
    assert done.stderr == ""
    assert [len(row) for row in values(tmp_path / "r.mrec")] == [30_000, 30_000]


def test_a_script_that_is_killed_keeps_what_was_committed(tmp_path):
    run_script(tmp_path / "r.mrec", "import os; writer.flush(); writer.append(Frame()); os._exit(1)")
    assert values(tmp_path / "r.mrec") == [[0.0], [1.0], [2.0]]
    with TrajectoryWriter.reopen(tmp_path / "r.mrec") as writer:
        writer.append(x(3.0))
    assert values(tmp_path / "r.mrec")[-1] == [3.0]


# -- who may write


def test_a_second_writer_is_refused(tmp_path):
    record = tmp_path / "r.mrec"
    with TrajectoryWriter(record) as writer:
        writer.append(x(1.0))
        writer.flush()
        for second in (TrajectoryWriter.reopen, lambda path: TrajectoryWriter(path, overwrite=True)):
            with refused(LockedError, "locked", str(record)):
                second(record)
        assert lengths(record) == 1
        writer.append(x(2.0))
    assert values(record) == [[1.0], [2.0]]
    TrajectoryWriter.reopen(record).close()


def test_a_second_writer_in_another_process_is_refused(tmp_path):
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        writer.append(x(1.0))
        writer.flush()
        found = run_script(tmp_path / "r.mrec", options="{'overwrite': True}")
        assert "LockedError" in found.stderr
        assert values(tmp_path / "r.mrec") == [[1.0]]


def test_the_lock_goes_with_the_process(tmp_path):
    run_script(tmp_path / "r.mrec", "import os; writer.flush(); os._exit(1)")
    with TrajectoryWriter.reopen(tmp_path / "r.mrec") as writer:
        assert len(writer) == 3
    assert [file for file in os.listdir(tmp_path / "r.mrec") if "lock" in file] == []


def in_child(function):
    """Run `function` in a fork of this process and return what it returned, an error by its kind."""
    parent, child = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent asks for it
            result = getattr(error, "kind", repr(error))
        os.write(child, str(result).encode())
        os._exit(0)
    os.close(child)
    os.waitpid(pid, 0)
    with os.fdopen(parent) as pipe:
        return pipe.read()


def test_a_forked_child_must_not_write(tmp_path):
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        writer.append(x(1.0))
        assert in_child(lambda: writer.append(x(2.0))) == "forked"
        assert in_child(writer.flush) == "forked"
        assert in_child(writer.close) == "None"
        with refused(LockedError, "locked", str(tmp_path / "r.mrec")):
            TrajectoryWriter.reopen(tmp_path / "r.mrec")
        writer.append(x(3.0))
    assert values(tmp_path / "r.mrec") == [[1.0], [3.0]]


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    writer = TrajectoryWriter(tmp_path / "r.mrec")
    writer.append(x(1.0))
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.read(ready, 1)
        os._exit(0)
    writer.close()
    TrajectoryWriter.reopen(tmp_path / "r.mrec").close()
    os.close(go)
    os.waitpid(pid, 0)


def test_without_flock_there_is_one_warning(tmp_path, monkeypatch):
    import errno
    import fcntl

    def unsupported(fd, operation):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.warns(UserWarning, match="no flock") as caught:
        TrajectoryWriter(tmp_path / "r.mrec").close()
    assert len(caught) == 1
    assert lengths(tmp_path / "r.mrec") == 0


@pytest.mark.parametrize("path", ["r.mrec.zip", "s3://bucket/r.mrec"])
def test_what_cannot_be_written_in_place(path):
    for write in (TrajectoryWriter, TrajectoryWriter.reopen):
        with refused(ReadOnlyError, "read_only", path):
            write(path)


def test_a_failed_write_ends_the_writer_not_the_record(tmp_path, monkeypatch):
    writer = TrajectoryWriter(tmp_path / "r.mrec")
    writer.append(x(1.0))
    writer.flush()
    writer.append(x(2.0))
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "write", mock.Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(CommitError, match="No space left") as caught:
            writer.flush()
    assert caught.value.stage == "chunks"
    for call in (writer.flush, lambda: writer.append(x(3.0))):
        with pytest.raises(CommitError, match="an earlier write failed"):
            call()
    writer.close()
    assert values(tmp_path / "r.mrec") == [[1.0]]
    with TrajectoryWriter.reopen(tmp_path / "r.mrec") as again:
        again.append(x(2.0))
    assert values(tmp_path / "r.mrec") == [[1.0], [2.0]]


# -- reopening


def test_reopen_goes_on(tmp_path):
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        writer.append(x(1.0), step=10, time=0.5)
    with TrajectoryWriter.reopen(tmp_path / "r.mrec") as writer:
        assert (len(writer), writer.committed, writer.last_step) == (1, 1, 10)
        with unwritable("step_order", "trajectory/step"):
            writer.append(x(2.0), step=10, time=1.0)
        writer.append(x(2.0), step=20, time=1.0)
    assert values(tmp_path / "r.mrec") == [[1.0], [2.0]]


def test_reopen_without_steps_goes_on_counting(tmp_path):
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        writer.append(x(1.0), step=10)
    with TrajectoryWriter.reopen(tmp_path / "r.mrec") as writer:
        writer.append(x(2.0))
    with open_record(tmp_path / "r.mrec") as found:
        assert found.trajectory.steps.tolist() == [10, 11]


@pytest.mark.parametrize(("after", "kept"), [(-1, 0), (0, 1), (15, 2), (20, 3), (99, 4)])
def test_after_step_drops_what_came_later(tmp_path, after, kept):
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        for i in range(4):
            writer.append(x(float(i)), step=10 * i)
    with TrajectoryWriter.reopen(tmp_path / "r.mrec", after_step=after) as writer:
        assert len(writer) == writer.committed == kept
        writer.append(x(7.0), step=100)
    assert values(tmp_path / "r.mrec") == [[float(i)] for i in range(kept)] + [[7.0]]


@pytest.mark.parametrize("there", ["nothing", "file", "directory"])
def test_reopen_needs_a_record(tmp_path, there):
    path = tmp_path / "r.mrec"
    if there == "file":
        path.write_text("x")
    elif there == "directory":
        path.mkdir()
    with refused(RecordNotFoundError, "not_found", str(path)):
        TrajectoryWriter.reopen(path)


def test_reopen_a_record_without_a_trajectory(tmp_path):
    write_mrec(tmp_path / "r.mrec", system=Frame({"atoms": {"type": ["a"]}}))
    with TrajectoryWriter.reopen(tmp_path / "r.mrec") as writer:
        with unwritable("system_rows", "trajectory/atoms"):
            writer.append(x(1.0, 2.0))
        writer.append(x(1.0))
    assert values(tmp_path / "r.mrec") == [[1.0]]


# -- overwriting


@pytest.fixture
def old(tmp_path):
    """A record that is there already."""
    with TrajectoryWriter(tmp_path / "r.mrec", meta={"title": "old"}) as writer:
        writer.append(x(1.0))
    return tmp_path / "r.mrec"


def names(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def test_a_record_is_not_overwritten_unasked(old):
    for write in (TrajectoryWriter, lambda path: write_mrec(path, trajectory=[x(2.0)])):
        with refused(RecordExistsError, "exists", str(old)):
            write(old)
    assert values(old) == [[1.0]]
    assert names(old.parent) == ["r.mrec"]


@pytest.mark.parametrize("there", ["file", "directory", "link"])
def test_what_is_no_record_is_never_overwritten(tmp_path, there):
    path = tmp_path / "r.mrec"
    if there == "file":
        path.write_text("precious")
    elif there == "directory":
        path.mkdir()
        (path / "thesis.txt").write_text("precious")
    else:
        path.symlink_to("nowhere")
    for write in (TrajectoryWriter, lambda p, **o: write_mrec(p, trajectory=[x(2.0)], **o)):
        with refused(RecordExistsError, "not_a_record", str(path)):
            write(path, overwrite=True)
    assert names(tmp_path) == ["r.mrec"]
    if there != "link":
        assert (path if there == "file" else path / "thesis.txt").read_text() == "precious"


def test_an_empty_directory_is_taken(tmp_path):
    (tmp_path / "r.mrec").mkdir()
    with TrajectoryWriter(tmp_path / "r.mrec") as writer:
        writer.append(x(1.0))
    assert values(tmp_path / "r.mrec") == [[1.0]]


def test_the_old_record_stays_until_the_first_commit(old):
    with TrajectoryWriter(old, overwrite=True, meta={"title": "new"}) as writer:
        writer.append(x(2.0))
        assert values(old) == [[1.0]]
        writer.flush()
        assert values(old) == [[2.0]]
        writer.append(x(3.0))
    assert values(old) == [[2.0], [3.0]]
    with open_record(old) as found:
        assert found.meta["title"] == "new"
    assert names(old.parent) == ["r.mrec"]


def fail_at_creation(path):
    TrajectoryWriter(path, overwrite=True, meta={"molrec_version": 99})


def fail_at_the_first_frame(path):
    with TrajectoryWriter(path, overwrite=True) as writer:
        writer.append(Frame({"box": {"x": [1.0]}}))


def fail_before_a_flush(path):
    with TrajectoryWriter(path, overwrite=True) as writer:
        writer.append(x(2.0))
        writer.append(Frame({"bonds": {"q": [1.0]}}))


@pytest.mark.parametrize("fail", [fail_at_creation, fail_at_the_first_frame, fail_before_a_flush])
def test_the_old_record_stays_when_the_new_one_fails(old, fail):
    with pytest.raises(SchemaError):
        fail(old)
    assert values(old) == [[1.0]]
    assert names(old.parent) == ["r.mrec"]
    TrajectoryWriter.reopen(old).close()


def test_the_old_record_stays_when_a_whole_one_fails(old):
    with unwritable("undeclared_block", "trajectory/bonds"):
        write_mrec(
            old,
            overwrite=True,
            trajectory=[x(2.0), Frame({"bonds": {"q": [1.0]}})],
            schema=SequenceSchema().declare_block("atoms", {"x": "f64"}),
        )
    gc.collect()
    assert values(old) == [[1.0]]
    assert names(old.parent) == ["r.mrec"]


def test_the_old_record_stays_when_the_process_is_killed(old):
    run_script(old, "import os; os._exit(1)", options="{'overwrite': True}")
    assert values(old) == [[1.0]]
    with TrajectoryWriter(old, overwrite=True) as writer:
        writer.append(x(5.0))
    assert values(old) == [[5.0]]
    assert names(old.parent) == ["r.mrec"]


def test_a_whole_record_appears_at_once(tmp_path):
    """While its frames are still coming there is nothing to open."""
    path = tmp_path / "r.mrec"
    seen = []

    def frames():
        for i in range(3):
            seen.append(path.exists())
            yield x(float(i))

    write_mrec(path, trajectory=frames())
    assert seen == [False] * 3
    assert values(path) == [[0.0], [1.0], [2.0]]
    assert names(tmp_path) == ["r.mrec"]


def test_overwriting_with_the_record_that_is_being_read(old):
    """What is read and what is written do not meet before the end."""
    with open_record(old) as found:
        write_mrec(old, trajectory=found.trajectory, overwrite=True)
    assert values(old) == [[1.0]]


def test_the_packed_record_beside_it_is_another_record(old):
    packed = pack(old)
    with TrajectoryWriter(old, overwrite=True) as writer:
        writer.append(x(2.0))
    assert values(packed) == [[1.0]]
    assert values(old) == [[2.0]]


def test_a_cut_to_no_frames_stays_a_record_until_the_next_one(tmp_path):
    """What is left after `after_step` opens with zero frames until a frame begins the trajectory anew."""
    record = tmp_path / "run.mrec"
    with TrajectoryWriter(record) as writer:
        for step in (5, 6):
            writer.append(Frame({"atoms": Block({"x": [float(step)]})}), step=step)
    with TrajectoryWriter.reopen(record, after_step=0) as writer:
        assert len(open_record(record).trajectory) == 0
        writer.append(Frame({"atoms": Block({"x": [1.0, 2.0]})}), step=1)
        writer.flush()
        assert [len(f["atoms"]["x"]) for f in open_record(record).trajectory] == [2]
    with TrajectoryWriter.reopen(record, after_step=0):
        pass
    assert len(open_record(record).trajectory) == 0


def test_close_tells_of_a_commit_that_failed_behind_the_last_append(tmp_path):
    """A background commit that failed and that no append has raised is raised by close, with the lock released."""
    record = tmp_path / "run.mrec"
    writer = TrajectoryWriter(record, flush_seconds=0.01)
    writer.append(Frame({"atoms": Block({"x": [1.0]})}))
    writer.flush()
    with mock.patch.object(DirectoryStore, "sync_file", side_effect=OSError(5, "Input/output error")):
        writer.append(Frame({"atoms": Block({"x": [2.0]})}))
        writer._committer.thread.join(timeout=20)
    assert writer._failed is not None
    with pytest.raises(CommitError, match="Input/output error"):
        writer.close()
    writer.close()
    with TrajectoryWriter.reopen(record) as again:
        assert len(again) == 1


def test_close_is_clean_after_an_error_that_was_raised(tmp_path):
    record = tmp_path / "run.mrec"
    writer = TrajectoryWriter(record)
    writer.append(Frame({"atoms": Block({"x": [1.0]})}))
    with (
        mock.patch.object(DirectoryStore, "sync_file", side_effect=OSError(5, "Input/output error")),
        pytest.raises(CommitError),
    ):
        writer.flush()
    writer.close()
    TrajectoryWriter.reopen(record).close()


def test_no_chunk_lands_beside_a_record_that_takes_its_place(tmp_path):
    """An overwrite moves the record at its first commit, while another thread goes on appending."""
    record = tmp_path / "run.mrec"
    for _ in range(20):
        with TrajectoryWriter(record, overwrite=record.exists(), precision=1e-2) as writer:
            done = threading.Event()
            flusher = threading.Thread(target=lambda w=writer, d=done: (d.wait(0.002), w.flush()))
            flusher.start()
            for i in range(60):
                writer.append(Frame({"atoms": Block({c: np.full(3000, float(i)) for c in "xyz"})}))
                if i == 3:
                    done.set()
            flusher.join()
        found = open_record(record).trajectory
        assert [f["atoms"]["z"][0] for f in found] == [float(i) for i in range(60)]
        assert [p.name for p in tmp_path.iterdir()] == ["run.mrec"]


def test_a_record_that_is_moved_away_is_not_written_on_elsewhere(tmp_path):
    record = tmp_path / "run.mrec"
    writer = TrajectoryWriter(record)
    writer.append(Frame({"atoms": Block({"x": [1.0]})}))
    writer.flush()
    record.rename(tmp_path / "moved.mrec")
    writer.append(Frame({"atoms": Block({"x": [1.0, 2.0]})}))
    with pytest.raises(CommitError):
        writer.flush()
    writer.close()
    assert not record.exists()


def test_what_is_on_disk_is_not_rounded_again(tmp_path):
    """Rows another tool left off the grid stay as they are; those that follow in their chunk are rounded."""
    store = DirectoryStore(tmp_path)
    array = GrowingArray(store, "a", Layout(4, 2, pipeline_for("f64", precision=True)), precision=1.0)
    array.restore(2, 2, np.array([0.25, 0.75]), {}, 0)
    array.accept(np.array([1.25]))
    [(_, chunk, rows)] = array.tail_chunk()
    assert chunk == 0
    assert rows.tolist() == [0.25, 0.75, 1.0, 0.0]
