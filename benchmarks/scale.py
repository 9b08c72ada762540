"""Cost against length: opening, appending, memory and files of records of 1e3 to 1e6 frames.

    python benchmarks/scale.py [--most 1000000]

Regular: 20 columns of 4 rows. Indexed: one block whose row count changes every frame.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from molrec_core import Block, Frame, TrajectoryWriter, open_record

COLUMNS = [f"c{i:02}" for i in range(20)]


def regular(path: Path, n_frames: int) -> tuple[float, float]:
    """Write a regular record; return microseconds an append, over the first and the last tenth."""
    base = {name: np.arange(4.0) + i for i, name in enumerate(COLUMNS)}
    times = []
    tenth = max(1, n_frames // 10)
    with TrajectoryWriter(path) as writer:
        for part in range(10):
            start = time.perf_counter()
            for i in range(tenth):
                base["c00"][0] = part * tenth + i
                writer.append(Frame({"atoms": Block(base)}))
            times.append((time.perf_counter() - start) / tenth * 1e6)
    return times[0], times[-1]


def indexed(path: Path, n_frames: int) -> tuple[float, float]:
    """Write a record whose only block changes its row count every frame."""
    blocks = [Block({"x": np.arange(float(n))}) for n in (1, 2)]
    times = []
    tenth = max(1, n_frames // 10)
    with TrajectoryWriter(path) as writer:
        for _ in range(10):
            start = time.perf_counter()
            for i in range(tenth):
                writer.append(Frame({"atoms": blocks[i % 2]}))
            times.append((time.perf_counter() - start) / tenth * 1e6)
    return times[0], times[-1]


def opening(path: Path) -> tuple[float, float]:
    """Return milliseconds to open, and to open and read the last frame."""
    opens, reads = [], []
    for _ in range(7):
        start = time.perf_counter()
        trajectory = open_record(path).trajectory
        opens.append(time.perf_counter() - start)
        trajectory[-1]
        reads.append(time.perf_counter() - start)
    return statistics.median(opens) * 1e3, statistics.median(reads) * 1e3


def memory(path: Path) -> float:
    """Return the megabytes that opening and reading one frame add to a process that has imported everything."""
    code = (
        "import resource, sys; from molrec_core import open_record; "
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024; "
        "before = peak(); t = open_record(sys.argv[1]).trajectory; t[0]; t[-1]; print(peak() - before)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return float(out.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    most = parser.parse_args().most
    print(
        f"{'kind':9}{'frames':>9}{'append us first/last tenth':>28}{'open ms':>9}{'+frame ms':>11}{'MB':>6}{'files':>7}"
    )
    for kind in (regular, indexed):
        n_frames = 1_000
        while n_frames <= most:
            directory = Path(tempfile.mkdtemp(prefix="molrec-scale-"))
            try:
                path = directory / "run.mrec"
                first, last = kind(path, n_frames)
                opened, read = opening(path)
                files = sum(p.is_file() for p in path.rglob("*"))
                print(
                    f"{kind.__name__:9}{n_frames:>9}{first:>16.1f} / {last:<9.1f}{opened:>9.2f}{read:>11.2f}"
                    f"{memory(path):>6.1f}{files:>7}"
                )
            finally:
                shutil.rmtree(directory)
            n_frames *= 10
    print(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
