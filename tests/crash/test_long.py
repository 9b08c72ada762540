"""Long runs: memory, files and the cost of opening stay where they were."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from molrec_core import Block, Frame, RecordError, TrajectoryWriter, open_record


def frame(i):
    return Frame({"atoms": Block({axis: np.arange(8) * 0.25 + i for axis in "xyz"})}, meta={"pe": float(i)})


def open_files():
    return len(os.listdir("/proc/self/fd"))


def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def opening_cost(path):
    costs = []
    for _ in range(9):
        start = time.process_time()
        with open_record(path) as record:
            record.trajectory[0]
        costs.append(time.process_time() - start)
    return median(costs)


SIZES = [20_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]


@pytest.mark.parametrize("frames", SIZES)
def test_a_long_run_stays_flat(tmp_path, frames):
    """Appended with a reopen ten times: memory, files and the cost of opening do not grow with the frames."""
    path = tmp_path / "run.mrec"
    part = frames // 10
    held, files, costs = [], [], []
    for first in range(0, frames, part):
        with TrajectoryWriter.reopen(path) if first else TrajectoryWriter(path) as writer:
            for i in range(first, first + part):
                # Irregular, so that the step array and its index grow too.
                writer.append(frame(i), step=2 * i + (i % 7 == 0))
        del writer
        gc.collect()
        held.append(memory())
        files.append(open_files())
        costs.append(opening_cost(path))
    print(
        f"memory {[m >> 20 for m in held]} MiB, files {files}, open {[round(1e3 * c, 2) for c in costs]} ms"
    )
    assert files[-1] == files[1]
    assert held[-1] - held[1] < 32 * 2**20
    assert costs[-1] < 3 * costs[0] + 0.005
    with open_record(path) as record:
        assert len(record.trajectory) == frames
        assert record.trajectory.meta("pe").tolist() == list(map(float, range(frames)))
        assert record.trajectory[frames - 1]["atoms"]["x"][0] == frames - 1


def test_failed_opens_leak_nothing(tmp_path):
    """2,000 opens of records that are refused, at three different moments."""
    kinds = {}
    for name, data in {
        "text": b"no json",
        "version": b'{"zarr_format": 3, "node_type": "group", "attributes": {"nstep": -1}}',
    }.items():
        path = tmp_path / f"{name}.mrec"
        with TrajectoryWriter(path) as writer:
            writer.append(frame(0))
        (path / ("zarr.json" if name == "text" else "trajectory/zarr.json")).write_bytes(data)
        kinds[name] = path
    archive = tmp_path / "run.mrec.zip"
    archive.write_bytes(b"PK no zip")

    def fail(path):
        with pytest.raises(RecordError):
            open_record(path).trajectory[0]

    def round_of(n):
        for _ in range(n):
            for path in (*kinds.values(), archive, tmp_path / "absent.mrec"):
                fail(path)

    round_of(100)
    gc.collect()
    files, held = open_files(), memory()
    round_of(500)
    gc.collect()
    assert open_files() == files
    assert memory() - held < 16 * 2**20


def check(path, reader, results, first):
    try:
        reader = reader or open_record(path).trajectory
        for i in range(first, len(reader), 8):
            assert reader[i]["atoms"]["x"][0] == i
        results.put("")
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        results.put(f"{type(error).__name__}: {error}")


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_reading_in_other_processes(tmp_path, how):
    """P144: after a fork with the record open and threads running, and in spawned processes by pickle."""
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        for i in range(400):
            writer.append(frame(i))
    reader = open_record(path).trajectory
    assert reader[0].meta["pe"] == 0.0
    stop = threading.Event()
    others = [
        threading.Thread(target=lambda: [reader[i] for i in range(400) if not stop.is_set()])
        for _ in range(4)
    ]
    for thread in others:
        thread.start()
    context = multiprocessing.get_context(how)
    results = context.SimpleQueue()
    processes = [context.Process(target=check, args=(path, reader, results, n)) for n in range(4)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    stop.set()
    for worker in (*processes, *others):
        worker.join(30)
    assert found == [""] * 4


def test_reading_from_many_threads(tmp_path):
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        for i in range(400):
            writer.append(frame(i))
    reader = open_record(path).trajectory
    wrong = []

    def read(seed):
        for i in np.random.default_rng(seed).integers(0, 400, 400).tolist():
            found = reader[i]
            if found["atoms"]["x"][0] != i or found.meta["pe"] != i:
                wrong.append(i)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
