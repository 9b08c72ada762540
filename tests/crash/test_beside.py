"""Two writers, and readers beside a writer."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from molrec_core import (
    Block,
    Frame,
    LockedError,
    RecordExistsError,
    RecordNotFoundError,
    TrajectoryWriter,
    _lock,
    open_record,
    pack,
)
from molrec_core._lock import WriterLock
from molrec_core.errors import FormatError

FORK = multiprocessing.get_context("fork")
READERS = 8


def frame(i, n=20):
    return Frame({"atoms": Block({axis: np.arange(n) * 0.25 + i for axis in "xyz"})}, meta={"pe": float(i)})


def holder(path, ready, go):
    writer = TrajectoryWriter.reopen(path)
    ready.set()
    go.wait(30)
    writer.append(frame(1))
    writer.close()


def test_P096_P113_a_second_writer_is_refused_while_the_first_lives(tmp_path):
    """Whichever way it comes in, from another process; and let in once the first has closed."""
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        writer.append(frame(0))
    ready, go = FORK.Event(), FORK.Event()
    other = FORK.Process(target=holder, args=(path, ready, go))
    other.start()
    assert ready.wait(30)
    for attempt in (
        lambda: TrajectoryWriter.reopen(path),
        lambda: TrajectoryWriter(path, overwrite=True),
        lambda: pack(path),
    ):
        with pytest.raises(LockedError, match="another live writer"):
            attempt()
    with pytest.raises(RecordExistsError):
        TrajectoryWriter(path)
    go.set()
    other.join(30)
    assert other.exitcode == 0
    with TrajectoryWriter.reopen(path) as writer:
        writer.append(frame(2))
    trajectory = open_record(path).trajectory
    assert [trajectory[i].meta["pe"] for i in range(len(trajectory))] == [0.0, 1.0, 2.0]
    assert sorted(os.listdir(path)) == ["meta", "trajectory", "zarr.json"], "a lock left something behind"


def test_P105_a_killed_writer_leaves_no_lock(tmp_path):
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        writer.append(frame(0))
    ready, go = FORK.Event(), FORK.Event()
    other = FORK.Process(target=holder, args=(path, ready, go))
    other.start()
    assert ready.wait(30)
    os.kill(other.pid, signal.SIGKILL)
    other.join(30)
    with TrajectoryWriter.reopen(path) as writer:
        writer.append(frame(1))
    assert len(open_record(path).trajectory) == 2


def test_two_writers_of_one_new_record(tmp_path):
    """Of several that start at once one wins; the others are told."""
    path = tmp_path / "run.mrec"

    def start(results):
        try:
            with TrajectoryWriter(path) as writer:
                writer.append(frame(os.getpid()))
            results.put("won")
        except (LockedError, RecordExistsError):
            results.put("refused")

    results = FORK.SimpleQueue()
    processes = [FORK.Process(target=start, args=(results,)) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert sorted(results.get() for _ in processes) == ["refused"] * 5 + ["won"]
    assert len(open_record(path).trajectory) == 1


def test_a_forked_child_must_not_write(tmp_path):
    path = tmp_path / "run.mrec"
    writer = TrajectoryWriter(path)
    writer.append(frame(0))

    def write(results):
        try:
            writer.append(frame(1))
        except LockedError as error:
            results.put(error.kind)

    results = FORK.SimpleQueue()
    child = FORK.Process(target=write, args=(results,))
    child.start()
    child.join(30)
    assert results.get() == "forked"
    writer.append(frame(1))
    writer.close()
    assert len(open_record(path).trajectory) == 2


def poll(path, stop, results):
    """Refresh and read until told to stop; report the frames seen and whatever was wrong."""
    rng = np.random.default_rng(os.getpid())
    seen = reads = 0
    try:
        while True:
            try:
                reader = open_record(path).trajectory
                break
            except (RecordNotFoundError, FormatError) as error:
                if error.kind not in {"not_found", "no_section"}:
                    raise
                time.sleep(0.01)
        last = False
        while not last:
            last = stop.is_set()
            n = reader.refresh()
            assert n >= seen, f"{n} frames after {seen}"
            for i in {*rng.integers(0, n, 3).tolist(), n - 1} if n else ():
                got, want = reader[i], frame(i)
                assert got.meta["pe"] == float(i)
                assert all(got["atoms"][c].tobytes() == want["atoms"][c].tobytes() for c in "xyz"), (
                    f"frame {i} of {n}"
                )
                reads += 1
            seen = n
        results.put((seen, reads, ""))
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        results.put((seen, reads, f"{type(error).__name__}: {error}"))


@pytest.mark.parametrize(
    "frames", [5000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
def test_readers_beside_a_writer(tmp_path, frames):
    """Eight readers poll while a writer appends: never a wrong value, never an error."""
    path = tmp_path / "run.mrec"
    stop, results = FORK.Event(), FORK.SimpleQueue()
    readers = [FORK.Process(target=poll, args=(path, stop, results)) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    with TrajectoryWriter(path) as writer:
        for i in range(frames):
            writer.append(frame(i), step=i if i < frames // 2 else i + 1)
            if i % (frames // 100) == 0:
                writer.flush()
        writer.flush()
        stop.set()
        found = [results.get() for _ in readers]
    for reader in readers:
        reader.join(60)
    print(f"{sum(reads for _, reads, _ in found)} frames read beside the writer")
    assert [wrong for *_, wrong in found if wrong] == []
    assert all(seen == frames for seen, *_ in found)
    assert all(reads > 10 for _, reads, _ in found)


def test_an_overwrite_under_way_is_not_undone(tmp_path):
    """Between its two renames the old record stands aside; only that of a dead run is put back."""
    path, aside = tmp_path / "run.mrec", tmp_path / ".run.mrec.old"
    with TrajectoryWriter(path) as writer:
        writer.append(frame(0))
    path.rename(aside)
    lock = WriterLock(aside)
    with pytest.raises(LockedError):
        TrajectoryWriter.reopen(path)
    assert aside.exists()
    lock.release()
    with TrajectoryWriter.reopen(path) as writer:
        writer.append(frame(1))
    assert len(open_record(path).trajectory) == 2
    assert not aside.exists()


def test_a_record_replaced_while_it_is_locked(tmp_path, monkeypatch):
    """The lock of a directory that is no longer in its place guards nothing."""
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        writer.append(frame(0))

    def swap(fd, how, flock=_lock.fcntl.flock):
        if path.exists():
            path.rename(tmp_path / "other.mrec")
            path.mkdir()
        flock(fd, how)

    monkeypatch.setattr(_lock.fcntl, "flock", swap)
    with pytest.raises(LockedError, match="replaced"):
        WriterLock(path)
