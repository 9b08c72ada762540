"""The reader's behaviour: views, sharing between threads and processes, and a run still being written."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import random
import threading
from unittest import mock

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from conformance.records import refused
from molrec_core import (
    Block,
    Box,
    ClosedError,
    Frame,
    RecordNotFoundError,
    SectionNotFoundError,
    SequenceSchema,
    TrajectoryReader,
    TrajectoryWriter,
    _extents,
    _parallel,
    open_record,
    pack,
    read_mrec_trajectory,
)

N = 40


def frame(i):
    blocks = {
        "atoms": {
            "x": np.arange(6.0) + i,
            "v": np.full((6, 3), float(i)),
            "n": np.arange(6, dtype=np.int32) + i,
        }
    }
    if i % 7 == 0:
        blocks["bonds"] = {"atomi": np.arange(i % 4, dtype=np.uint64)}
    return Frame(blocks, box=Box((10 + i // 9) * np.eye(3)), meta={"pe": -float(i)})


def write(path, n=N, start=0):
    schema = SequenceSchema.from_frames(frame(0)).declare_block("bonds", {"atomi": "u64"})
    with (
        mock.patch.multiple(_extents, COLUMN_CHUNK_BYTES=128, SHARD_BYTES=1024),
        TrajectoryWriter(path, schema) as writer,
    ):
        for i in range(start, n):
            writer.append(frame(i), step=i * i, time=0.1 * i)
    return path


def resolved(i):
    """The frame as it reads: bonds are those of the last multiple of seven."""
    bonds = Block({"atomi": np.arange((i // 7 * 7) % 4, dtype=np.uint64)})
    return Frame({**frame(i), "bonds": bonds}, box=frame(i).box, meta=frame(i).meta)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return write(tmp_path_factory.mktemp("reader") / "run.mrec")


@pytest.fixture(scope="module", params=["directory", "zip"])
def path(request, record):
    return record if request.param == "directory" else pack(record)


@pytest.fixture
def reader(path):
    with open_record(path) as found:
        yield found.trajectory


# -- frames and views


def test_frames_are_a_sequence(reader):
    assert len(reader) == N
    assert list(reader) == [resolved(i) for i in range(N)]
    assert [reader[i] for i in (0, -1, 17, -N)] == [resolved(i) for i in (0, N - 1, 17, 0)]
    assert next(reversed(reader)) == resolved(N - 1)


def masked(i):
    n = 3 + i % 2
    columns = {"a": np.arange(float(n)), "b": np.arange(float(n)), "whole": np.arange(float(n))}
    masks = {"a": np.arange(n) % 2 == i % 2, "b": np.arange(n) != i}
    return Frame({"atoms": Block(columns, validity=masks)})


@pytest.mark.parametrize("frames", [None, slice(1, None, 2), [3, -1, 0, 3]])
def test_validity_of_many_frames(tmp_path, frames):
    """The masks that the frames themselves show, flat where row counts differ; all valid where there is no mask."""
    schema = SequenceSchema.from_frames(masked(i) for i in range(6))
    path = tmp_path / "masked.mrec"
    with TrajectoryWriter(path, schema) as writer:
        for i in range(6):
            writer.append(masked(i))
    with open_record(path) as record:
        trajectory = record.trajectory
        chosen = list(range(6))[frames or slice(None)] if not isinstance(frames, list) else [3, 5, 0, 3]
        for column in ("a", "b", "whole"):
            found = trajectory.validity("atoms", column, frames)
            shown = [masked(i)["atoms"].validity.get(column, np.ones(3 + i % 2, bool)) for i in chosen]
            flat = found[0] if isinstance(found, tuple) else found.ravel()
            assert flat.dtype == np.bool_
            assert flat.tolist() == np.concatenate(shown).tolist()
            if isinstance(found, tuple):
                assert found[1].tolist() == [len(part) for part in shown]
        with pytest.raises(IndexError):
            trajectory.validity("atoms", "a", [6])
        with pytest.raises(SectionNotFoundError):
            trajectory.validity("atoms", "c")


@pytest.mark.parametrize("index", [N, -N - 1, 10**9])
def test_a_frame_past_the_end(reader, index):
    with pytest.raises(IndexError, match=f"frame {index} of a trajectory of {N} frames"):
        reader[index]


BOUND = st.one_of(st.none(), st.integers(-N - 3, N + 3))
SLICES = st.builds(slice, BOUND, BOUND, st.one_of(st.none(), st.integers(-5, 5).filter(bool)))


@given(outer=SLICES, inner=SLICES, index=st.integers(-N, N - 1))
def test_views_slice_as_lists_do(record, outer, inner, index):
    """Negative steps, starts at the end and empty ones included."""
    want = list(range(N))[outer]
    with open_record(record) as found:
        view = found.trajectory[outer]
        assert len(view) == len(want)
        assert list(view.ordinals) == want
        assert list(view[inner].ordinals) == want[inner]
        if -len(want) <= index < len(want):
            assert view[index] == resolved(want[index])
        else:
            with pytest.raises(IndexError):
                view[index]


def test_views_of_views_in_reverse(reader):
    assert [f.meta["pe"] for f in reader[10:20][::-1]] == [-float(i) for i in range(19, 9, -1)]
    assert list(reader[N:]) == list(reader[:0]) == []
    assert list(reader[5:2]) == []


def test_views_are_lazy(record, monkeypatch):
    """Slicing reads nothing; iterating reads one frame at a time."""
    read = []
    original = TrajectoryReader.frame
    monkeypatch.setattr(
        TrajectoryReader, "frame", lambda self, i, blocks=None: read.append(i) or original(self, i, blocks)
    )
    with open_record(record) as found:
        view = found.trajectory[::-3][2:5]
        assert read == []
        iterator = iter(view)
        next(iterator)
        assert read == [33]
        assert len(list(iterator)) == 2
        assert read == [33, 30, 27]


def test_some_blocks_of_a_frame(reader):
    found = reader.frame(-1, ["bonds"])
    assert list(found) == ["bonds"]
    assert list(reader.frame(3, ())) == []
    assert reader.frame(3, ()).meta == {"pe": -3.0}
    with refused(SectionNotFoundError, "section_not_found", "trajectory/nope"):
        reader.frame(0, ["nope"])


def test_columns_are_read_only(reader):
    for values in (reader[3]["atoms"]["x"], reader[3]["bonds"]["atomi"]):
        with pytest.raises(ValueError, match="read-only"):
            values[:] = 0
    assert reader[3] == resolved(3)


def test_frames_outlive_the_next_one(reader):
    """A frame that is held is not changed by reading on."""
    held = [reader[i] for i in range(N)]
    assert held == [resolved(i) for i in range(N)]


def test_series_and_updates(reader):
    assert reader.steps.tolist() == [i * i for i in range(N)]
    assert reader.times.tolist() == [0.1 * i for i in range(N)]
    assert reader.meta("pe").tolist() == [-float(i) for i in range(N)]
    assert reader.meta_keys == ("pe",)
    assert reader.box(-1) == frame(N - 1).box
    assert reader.box_updates.tolist() == [0, 9, 18, 27, 36]
    assert reader.counts("atoms").tolist() == [6] * N
    assert reader.counts("bonds", [2, -1]).tolist() == [resolved(i)["bonds"].count for i in (2, N - 1)]
    assert reader.counts("bonds", slice(1, 3)).tolist() == [resolved(i)["bonds"].count for i in (1, 2)]
    assert reader.counts("bonds").tolist() == [resolved(i)["bonds"].count for i in range(N)]
    assert reader.updates("bonds").tolist() == [0, 7, 14, 21, 28, 35]
    for call in (reader.counts, reader.updates):
        with refused(SectionNotFoundError, "section_not_found", "trajectory/nope"):
            call("nope")
    with refused(SectionNotFoundError, "section_not_found", "trajectory/meta/nope"):
        reader.meta("nope")


def test_dask_arrays(reader):
    pytest.importorskip("dask.array")
    array = reader.dask("atoms", ["x", "x"])
    assert array.shape == (N, 6, 2)
    assert np.array_equal(array.compute(scheduler="threads"), reader.read("atoms", ["x", "x"]))
    assert np.array_equal(array[::-2, 1].compute(), reader.read("atoms", ["x", "x"])[::-2, 1])


# -- closed


CALLS = {
    "frame": lambda r: r[0],
    "iteration": lambda r: next(iter(r)),
    "view": lambda r: list(r[1:3]),
    "read": lambda r: r.read("atoms", "x"),
    "refresh": lambda r: r.refresh(),
    "box": lambda r: r.box(0),
    "steps": lambda r: r.steps,
    "times": lambda r: r.times,
    "meta": lambda r: r.meta("pe"),
    "counts": lambda r: r.counts("bonds"),
    "updates": lambda r: r.updates("bonds"),
    "box updates": lambda r: r.box_updates,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
def test_a_closed_record_reads_nothing(path, call, used):
    record = open_record(path)
    reader = record.trajectory
    view = reader[1:3]
    if used:
        CALLS[call](reader)
    record.close()
    with refused(ClosedError, "closed", str(path)):
        CALLS[call](reader)
    with refused(ClosedError, "closed", str(path)):
        view[0]
    record.close()


def test_closing_leaves_no_file_open(path):
    def open_files():
        return {
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")
        }

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("open files are listed under /proc")
    with open_record(path) as record:
        list(record.trajectory)
        assert any(str(path) in name for name in open_files())
    assert not any(str(path) in name for name in open_files())


# -- where a record may be


def test_ways_to_name_a_record(record, tmp_path):
    packed = pack(record, tmp_path / "run.mrec.zip")
    for name in (record, str(record), f"{record}/", f"file://{record}", packed, str(packed)):
        with open_record(name) as found:
            assert found.trajectory[5] == resolved(5)
    assert read_mrec_trajectory(record)[5] == resolved(5)


def test_zarr_stores(record):
    for store in (zarr.storage.LocalStore(record, read_only=True), zarr.open_group(str(record), mode="r")):
        with open_record(store) as found:
            assert found.trajectory[-1] == resolved(N - 1)
            assert found.trajectory[::-1][0] == resolved(N - 1)


def test_a_store_in_memory(record):
    import asyncio

    from zarr.core.buffer import default_buffer_prototype

    memory = zarr.storage.MemoryStore()
    buffer = default_buffer_prototype().buffer
    for file in record.rglob("*"):
        if file.is_file():
            asyncio.run(memory.set(file.relative_to(record).as_posix(), buffer.from_bytes(file.read_bytes())))
    with open_record(memory) as found:
        assert [f.meta["pe"] for f in found.trajectory[3:6]] == [-3.0, -4.0, -5.0]
        assert found.trajectory[20] == resolved(20)
        assert found.trajectory.read("atoms", "x", slice(None, None, -1)).shape == (N, 6)


def test_what_is_no_record(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nothing", tmp_path / "empty"):
        with refused(RecordNotFoundError, "not_found", str(path)):
            open_record(path)
    with refused(RecordNotFoundError, "not_found", "3"):
        open_record(3)
    with pytest.raises(ValueError, match="records are opened with 'r'"):
        open_record(tmp_path, mode="w")


# -- threads and processes


def test_pickling(reader):
    """Twice over, a reader reads on; a view and the record go along."""
    once = pickle.loads(pickle.dumps(reader))
    twice = pickle.loads(pickle.dumps(once))
    assert twice[7] == resolved(7)
    assert [f.meta["pe"] for f in pickle.loads(pickle.dumps(reader[3:1:-1]))] == [-3.0, -2.0]
    reader[11]
    assert len(pickle.dumps(reader)) < 10_000


def test_pickling_a_record(path):
    with open_record(path) as record, pickle.loads(pickle.dumps(record)) as other:
        assert other.trajectory[7] == resolved(7)
        assert other.sections == record.sections


def energies(job):
    reader, ordinals = job
    return [reader[i].meta["pe"] for i in ordinals]


def test_reading_in_spawned_processes(reader):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        parts = list(pool.map(energies, [(reader, range(k, N, 2)) for k in range(2)]))
    assert parts == [[-float(i) for i in range(k, N, 2)] for k in range(2)]


def test_eight_threads_share_a_reader(reader):
    wrong = []
    barrier = threading.Barrier(8)

    def read(seed):
        chooser = random.Random(seed)
        barrier.wait()
        for _ in range(60):
            i = chooser.randrange(N)
            if reader[i] != resolved(i):
                wrong.append(i)
            lo, hi = sorted(chooser.sample(range(N), 2))
            if not np.array_equal(reader.read("atoms", "x", slice(lo, hi))[:, 0], np.arange(float(lo), hi)):
                wrong.append((lo, hi))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def in_children(count, function):
    """Run `function` in forks of this process; return their exit codes, killing one that hangs."""
    pids = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            import signal

            signal.alarm(60)
            code = 1
            try:
                code = 0 if function() else 2
            finally:
                os._exit(code)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def test_reading_after_a_fork(reader):
    """With frames read before, and with the threads of a large read running."""
    assert reader[3] == resolved(3)
    with mock.patch.multiple(_parallel, WORTHWHILE_BYTES=1, WORTHWHILE_ITEM_BYTES=1, _WORKERS=2):
        whole = reader.read("atoms", "n")
        assert _parallel._pool is not None

        def child():
            read = reader.read("atoms", "n")
            return reader[N - 1] == resolved(N - 1) and np.array_equal(read, whole)

        assert in_children(4, child) == [0] * 4
    assert reader[4] == resolved(4)


# -- beside a writer


@pytest.fixture
def live(tmp_path):
    """A writer of small chunks, and a reader beside it."""
    schema = SequenceSchema.from_frames(frame(0)).declare_block("bonds", {"atomi": "u64"})
    with mock.patch.multiple(_extents, COLUMN_CHUNK_BYTES=128, SHARD_BYTES=1024):
        writer = TrajectoryWriter(tmp_path / "run.mrec", schema)
        writer.append(frame(0), step=0, time=0.0)
        writer.flush()
        with open_record(tmp_path / "run.mrec") as record:
            yield writer, record.trajectory
        writer.close()


def test_refresh_follows_the_writer(live):
    """Each flush shows at the next refresh, and not before; what breaks regularity on the way included."""
    writer, reader = live
    for i in range(1, N):
        writer.append(frame(i), step=i * i, time=0.1 * i)
        if i % 3 == 0:
            assert reader.refresh() == len(reader) == (i - 3 or 0) + 1
            writer.flush()
            assert len(reader) == i - 3 + 1
            assert reader[-1] == resolved(i - 3)
            assert reader.refresh() == i + 1
            assert [reader[j] for j in (0, i // 2, i)] == [resolved(j) for j in (0, i // 2, i)]
            assert reader.steps.tolist() == [j * j for j in range(i + 1)]
    assert list(reader) == [resolved(i) for i in range(len(reader))]


def test_refresh_without_news_keeps_what_is_decoded(live):
    _, reader = live
    blocks = reader._blocks
    assert reader.refresh() == 1
    assert reader._blocks is blocks


def test_refresh_after_frames_were_dropped(tmp_path):
    record = write(tmp_path / "run.mrec")
    with open_record(record) as found:
        reader = found.trajectory
        assert reader[N - 1] == resolved(N - 1)
        with TrajectoryWriter.reopen(record, after_step=16) as writer:
            assert reader.refresh() == 5
            zeros = {"x": np.zeros(6), "v": np.zeros((6, 3)), "n": np.zeros(6, np.int32)}
            writer.append(
                Frame({"atoms": zeros}, meta={"pe": 7.0}),
                step=17,
                time=9.0,
            )
        assert reader.refresh() == 6
        assert reader[4] == resolved(4)
        assert reader[5]["atoms"]["x"].tolist() == [0.0] * 6
        with pytest.raises(IndexError):
            reader[6]


def test_refresh_finds_the_record_that_took_its_place(tmp_path):
    record = write(tmp_path / "run.mrec")
    with open_record(record) as found:
        reader = found.trajectory
        assert reader[5] == resolved(5)
        with TrajectoryWriter(record, overwrite=True) as writer:
            writer.append(Frame({"atoms": {"x": [1.0]}}))
        assert reader.refresh() == 1
        assert reader[0] == Frame({"atoms": {"x": [1.0]}})


def test_reading_while_a_writer_goes_on(live):
    """Every frame that a refresh shows is whole, whatever the writer does meanwhile."""
    writer, reader = live
    done = threading.Event()

    def write_on():
        for i in range(1, 150):
            writer.append(frame(i), step=i * i, time=0.1 * i)
            if i % 5 == 0:
                writer.flush()
        done.set()

    thread = threading.Thread(target=write_on)
    thread.start()
    seen = 0
    while not done.is_set():
        count = reader.refresh()
        assert count >= seen
        seen = count
        for i in {count - 1, count // 2, 0}:
            assert reader[i] == resolved(i)
    thread.join()
    writer.flush()
    assert reader.refresh() == 150
