"""Records beside XTC and DCD through MDAnalysis: writing, the frame loop, ``timeseries``, size.

    python benchmarks/mdanalysis.py [A B C] [--repeat N] [--atoms N --frames N]

A solvated protein of MDAnalysisTests is tiled to the size and jittered in float32. All
formats are written and read in turn in one process, and the table gives medians: MB/s of
float64 (24 bytes an atom and frame), bytes an atom and frame, and the ratio to XTC for
what is lossy, to DCD for what is not. Nothing is synced but what each format syncs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import MDAnalysis as mda
import numpy as np
from MDAnalysisTests.datafiles import GRO
from settle import settle

import molrec_mda
from molrec_core import Compression

SIZES = {"A": (1000, 4000), "B": (20_000, 300), "C": (1_000_000, 6)}
WHAT = ("write", "and close", "loop", "timeseries", "1 %")
FORMATS: dict[str, tuple[str, dict[str, Any], str]] = {
    "xtc": ("xtc", {}, "xtc"),
    "dcd": ("dcd", {}, "dcd"),
    "lossless": ("mrec", {"compression": Compression.none()}, "dcd"),
    "zstd 1 + shuffle": ("mrec", {"compression": molrec_mda.FLOAT32}, "dcd"),
    "zstd 3 + shuffle": ("mrec", {"compression": Compression.zstd(3, shuffle=True)}, "dcd"),
    "1e-3": ("mrec", {"precision": 1e-3}, "xtc"),
    "1e-2": ("mrec", {"precision": 1e-2}, "xtc"),
}


def universe(n_atoms: int) -> tuple[Any, list[Any]]:
    """Return a universe in memory and the positions its frames cycle through."""
    source = mda.Universe(GRO, to_guess=())
    copies = -(-n_atoms // len(source.atoms))
    start = np.tile(source.atoms.positions, (copies, 1))[:n_atoms]
    rng = np.random.default_rng(0)
    frames = [
        start + rng.normal(scale=0.3, size=start.shape).astype(np.float32)
        for _ in range(4 if copies > 2 else 20)
    ]
    u = mda.Universe.empty(n_atoms, trajectory=True)
    u.dimensions = source.dimensions
    return u, frames


def write(u: Any, frames: list[Any], n_frames: int, path: Path, options: dict[str, Any]) -> dict[str, float]:
    """Write a trajectory; return the seconds of the frames, and of the frames and the close (a record's syncs)."""
    ts = u.trajectory.ts
    if path.is_dir():
        shutil.rmtree(path)
    settle()
    start = time.perf_counter()
    with mda.Writer(str(path), len(u.atoms), **options) as writer:
        for i in range(n_frames):
            ts._pos[...] = frames[i % len(frames)]
            ts.data.update(time=i * 2.0, step=i * 1000)
            writer.write(u.atoms)
        loop = time.perf_counter()
    return {"write": loop - start, "and close": time.perf_counter() - start}


def read(u: Any) -> dict[str, float]:
    """Return the seconds of a frame loop, of one ``timeseries``, and of one of 1 % of the atoms."""
    few = u.atoms[::100]
    settle()
    start = time.perf_counter()
    for ts in u.trajectory:
        ts.positions  # noqa: B018 - what a user's loop touches
    loop = time.perf_counter()
    u.trajectory.timeseries()
    whole = time.perf_counter()
    u.trajectory.timeseries(atomgroup=few)
    return {"loop": loop - start, "timeseries": whole - loop, "1 %": time.perf_counter() - whole}


def size(path: Path) -> int:
    """Return the bytes a trajectory takes, its frames alone for a record."""
    files = (path / "trajectory").rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def measure(name: str, n_atoms: int, n_frames: int, repeat: int) -> None:
    """Print the table of one size."""
    u, frames = universe(n_atoms)
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeat):
            for label, (suffix, options, _) in FORMATS.items():
                path = Path(folder) / f"{label.replace(' ', '')}.{suffix}"
                for what, seconds in write(u, frames, n_frames, path, options).items():
                    took[label, what].append(seconds)
                sizes[label] = size(path) / n_atoms / n_frames
            for label, (suffix, _, _) in FORMATS.items():
                reading = mda.Universe(u._topology.copy(), to_guess=())
                reading.load_new(str(Path(folder) / f"{label.replace(' ', '')}.{suffix}"))
                for what, seconds in read(reading).items():
                    took[label, what].append(seconds)
    print(f"\n{name}: {n_atoms} atoms x {n_frames} frames, medians of {repeat}")
    print(f"{'':17}{'B':>6}" + "".join(f"{what:>16}" for what in WHAT))
    megabytes = n_atoms * n_frames * 24e-6
    for label, (_, _, beside) in FORMATS.items():
        line = f"{label:17}{sizes[label]:6.2f}"
        for what in WHAT:
            mine, theirs = (statistics.median(took[key, what]) for key in (label, beside))
            line += f"{megabytes / mine:9.0f} {theirs / mine:5.2f}x"
        print(line)


def main() -> None:
    """Measure the sizes asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", default=list(SIZES), choices=[*SIZES, []], help="A, B, C")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--atoms", type=int, help="another size")
    parser.add_argument("--frames", type=int, default=100, help="of another size")
    arguments = parser.parse_args()
    # MDAnalysis announces changes of its DCD reader each time.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module="MDAnalysis")
    chosen = {name: SIZES[name] for name in arguments.sizes}
    if arguments.atoms:
        chosen = {"custom": (arguments.atoms, arguments.frames)}
    for name, (n_atoms, n_frames) in chosen.items():
        measure(name, n_atoms, n_frames, arguments.repeat)


if __name__ == "__main__":
    main()
