"""Append, sequential read and random read of the core, side by side with molrs and a numpy memmap.

    python benchmarks/core.py [A B C D] [--precision 1e-2] [--repeats 3]

One process, tools alternating, warm cache; figures are MB/s of float64 (24 bytes an atom
and frame) and medians over the repeats. Only ratios within one run mean anything.
Every chunk our reader decodes has its crc32c checked.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from settle import settle

from molrec_core import Block, Frame, TrajectoryWriter, open_record

CASES = {"A": (1_000, 10_000), "B": (20_000, 500), "C": (1_000_000, 10), "D": (0, 2_000)}
DISTINCT = 16


def positions(n_atoms: int) -> np.ndarray:
    """A solvated protein tiled to `n_atoms` and jittered; (DISTINCT, n_atoms, 3) float64."""
    rng = np.random.default_rng(7)
    try:
        import MDAnalysis as mda
        from MDAnalysisTests.datafiles import GRO

        base = mda.Universe(GRO).atoms.positions.astype(np.float64)
    except ImportError:
        base = rng.random((47_681, 3)) * 80.0
    tiled = np.concatenate([base + 80.0 * k for k in range(-(-n_atoms // len(base)))])[:n_atoms]
    return tiled + np.cumsum(rng.normal(0, 0.05, (DISTINCT, n_atoms, 3)), axis=0)


class Ours:
    name = "molrec"

    def __init__(self, directory: Path, precision: float | None) -> None:
        self.path = directory / "ours.mrec"
        self.precision = precision

    def frames(self, columns: list[list[np.ndarray]]) -> list[Frame]:
        return [Frame({"atoms": Block(dict(zip("xyz", c, strict=True)))}) for c in columns]

    def clear(self) -> None:
        """Remove what an earlier turn wrote, on disk too: nobody is to write while it goes."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.unlink(missing_ok=True)
        settle()

    def write(self, frames: list[Frame], order: list[int]) -> tuple[float, float]:
        start = time.perf_counter()
        writer = TrajectoryWriter(self.path, precision=self.precision)
        for i in order:
            writer.append(frames[i])
        writer._land(tails=True)
        landed = time.perf_counter() - start
        writer.close()
        return landed, time.perf_counter() - start

    def read(self) -> float:
        start = time.perf_counter()
        total = 0.0
        for frame in open_record(self.path).trajectory:
            total += frame["atoms"]["z"][-1]
        return time.perf_counter() - start

    def random(self, order: list[int]) -> float:
        trajectory = open_record(self.path).trajectory
        trajectory[0]
        start = time.perf_counter()
        for i in order:
            trajectory[i]["atoms"]["z"][-1]
        return time.perf_counter() - start

    def one_atom(self) -> float:
        start = time.perf_counter()
        open_record(self.path).trajectory.read("atoms", ["x", "y", "z"], rows=[5])
        return time.perf_counter() - start

    def size(self) -> int:
        return sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file())


class Molrs(Ours):
    name = "molrs"

    def __init__(self, directory: Path, precision: float | None) -> None:
        super().__init__(directory, precision)
        self.path = directory / "molrs.mrec"

    def frames(self, columns: list[list[np.ndarray]]) -> list:
        import molrs

        return [molrs.Frame({"atoms": dict(zip("xyz", c, strict=True))}) for c in columns]

    def _writer(self, frames: list, *, durable: bool):
        from molrs.io.mrec import MrecWriter, SequenceSchema

        schema = SequenceSchema.from_frames(frames[:1])
        if self.precision is not None:
            for column in "xyz":
                schema.declare_precision("atoms", column, self.precision)
        return MrecWriter(self.path, schema, durable=durable)

    def write(self, frames: list, order: list[int]) -> tuple[float, float]:
        times = []
        for durable in (True, False):
            self.clear()
            start = time.perf_counter()
            writer = self._writer(frames, durable=durable)
            for i in order:
                writer.append(frames[i])
            writer.close()
            times.append(time.perf_counter() - start)
        return times[1], times[0]

    def read(self) -> float:
        from molrs.io.mrec import MrecReader

        start = time.perf_counter()
        total = 0.0
        for frame in MrecReader(self.path):
            total += frame["atoms"]["z"][-1]
        return time.perf_counter() - start

    def random(self, order: list[int]) -> float:
        from molrs.io.mrec import MrecReader

        reader = MrecReader(self.path)
        reader[0]
        start = time.perf_counter()
        for i in order:
            reader[i]["atoms"]["z"][-1]
        return time.perf_counter() - start

    def one_atom(self) -> float:
        from molrs.io.mrec import MrecReader

        start = time.perf_counter()
        reader = MrecReader(self.path)
        out = np.empty((len(reader), 3))
        for i in range(len(reader)):
            frame = reader[i]["atoms"]
            out[i] = [frame[c][5] for c in "xyz"]
        return time.perf_counter() - start


class Memmap(Ours):
    name = "memmap"

    def __init__(self, directory: Path, precision: float | None) -> None:
        super().__init__(directory, precision)
        self.path = directory / "raw"

    def frames(self, columns: list[list[np.ndarray]]) -> list:
        return [np.stack(c) for c in columns]

    def write(self, frames: list, order: list[int]) -> tuple[float, float]:
        start = time.perf_counter()
        self.shape = (len(order), *frames[0].shape)
        out = np.memmap(self.path, np.float64, "w+", shape=self.shape)
        for at, i in enumerate(order):
            out[at] = frames[i]
        landed = time.perf_counter() - start
        out.flush()
        return landed, time.perf_counter() - start

    def read(self) -> float:
        start = time.perf_counter()
        data = np.memmap(self.path, np.float64, "r", shape=self.shape)
        buffer = np.empty(self.shape[1:])
        for frame in data:
            buffer[...] = frame
        return time.perf_counter() - start

    def random(self, order: list[int]) -> float:
        data = np.memmap(self.path, np.float64, "r", shape=self.shape)
        start = time.perf_counter()
        for i in order:
            np.array(data[i])
        return time.perf_counter() - start

    def one_atom(self) -> float:
        start = time.perf_counter()
        np.array(np.memmap(self.path, np.float64, "r", shape=self.shape)[:, :, 5])
        return time.perf_counter() - start

    def size(self) -> int:
        return self.path.stat().st_size


def workload(case: str) -> tuple[list[list[np.ndarray]], list[int], float]:
    n_atoms, n_frames = CASES[case]
    if case == "D":
        rng = np.random.default_rng(3)
        counts = rng.integers(500, 1500, n_frames)
        columns = [[rng.random(n) for _ in range(3)] for n in counts]
        return columns, list(range(n_frames)), float(counts.sum() * 24)
    columns = [[np.ascontiguousarray(p[:, c]) for c in range(3)] for p in positions(n_atoms)]
    return columns, [i % DISTINCT for i in range(n_frames)], 24.0 * n_atoms * n_frames


@contextlib.contextmanager
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="molrec-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def tools(case: str, directory: Path, precision: float | None) -> list[Ours]:
    kinds: list[type[Ours]] = [Ours]
    with contextlib.suppress(ImportError):
        import molrs  # noqa: F401

        kinds.append(Molrs)
    if case != "D":
        kinds.append(Memmap)
    return [kind(directory, precision) for kind in kinds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=["A", "B", "C"])
    parser.add_argument("--precision", type=float)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for case in arguments.cases:
        run(case, arguments.precision, arguments.repeats)


def run(case: str, precision: float | None, repeats: int) -> None:
    columns, order, n_bytes = workload(case)
    picks = np.random.default_rng(1).integers(0, len(order), 300).tolist()
    with place() as directory:
        contenders = tools(case, directory, precision)
        prepared = {tool.name: tool.frames(columns) for tool in contenders}
        seconds: dict[str, dict[str, list[float]]] = {tool.name: {} for tool in contenders}

        def note(tool: Ours, what: str, value: float) -> None:
            seconds[tool.name].setdefault(what, []).append(value)

        for turn in range(repeats):
            # The order rotates, and what an earlier tool left dirty is on disk before the next one starts.
            for tool in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
                tool.clear()
                landed, synced = tool.write(prepared[tool.name], order)
                note(tool, "write", landed)
                note(tool, "synced", synced)
            for tool in contenders:
                note(tool, "read", tool.read())
            for tool in contenders:
                note(tool, "random", tool.random(picks) / len(picks))
            if case == "A":
                for tool in contenders:
                    note(tool, "one atom", tool.one_atom())
        report(case, precision, contenders, seconds, n_bytes)


def report(
    case: str,
    precision: float | None,
    contenders: list[Ours],
    seconds: dict[str, dict[str, list[float]]],
    n_bytes: float,
) -> None:
    print(
        f"\ncase {case}, {'lossless' if precision is None else f'precision {precision:g}'}, {n_bytes / 1e6:.0f} MB of float64"
    )
    base = {what: statistics.median(values) for what, values in seconds[contenders[0].name].items()}
    for tool in contenders:
        parts = []
        for what, values in seconds[tool.name].items():
            middle = statistics.median(values)
            figure: Callable[[float], str] = (
                (lambda s: f"{s * 1e6:.0f} us")
                if what == "random"
                else (lambda s: f"{n_bytes / s / 1e6:.0f} MB/s")
            )
            parts.append(f"{what} {figure(middle)} (x{middle / base[what]:.2f})")
        print(f"{tool.name:8} {'; '.join(parts)}; {tool.size() / n_bytes * 24:.2f} B/atom/frame")
    print("(x: time relative to molrec; above 1 means slower than molrec)")


if __name__ == "__main__":
    main()
