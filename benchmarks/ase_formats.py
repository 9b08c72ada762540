"""Writing and reading through ``ase.io``: records beside .traj, extxyz and znh5md.

    python benchmarks/ase_formats.py [E M] [--repeats 3] [--only mrec,traj]

E: 10,000 molecules of 5 to 30 atoms with energy and forces. M: 20,000 atoms x 200 frames.
One process, formats alternating, warm cache; medians over the repeats, and only ratios
within one run mean anything. extxyz takes 20 frames of M. ``mrec 1e-3`` declares that
precision for positions (angstrom) and forces (eV/angstrom).
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator

PRECISION = {f"atoms.{c}": 1e-3 for c in "xyz"} | {f"forces.f{c}": 1e-3 for c in "xyz"}
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "mrec": ("a.mrec", {}),
    "mrec 1e-3": ("b.mrec", {"precision": PRECISION}),
    "traj": ("a.traj", {}),
    "extxyz": ("a.extxyz", {}),
}
if importlib.util.find_spec("znh5md"):
    FORMATS["znh5md"] = ("a.h5", {})


def molecules(count: int = 10_000) -> list[Atoms]:
    """Molecules whose atoms stand about a bond apart."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        n = int(rng.integers(5, 31))
        positions = rng.normal(size=(n, 3)) * n ** (1 / 3)
        found.append(with_results(Atoms(rng.choice([1, 6, 7, 8], n), positions), rng))
    return found


def crystal(frames: int = 200) -> list[Atoms]:
    """20,000 atoms in a fixed cell, on random walks."""
    rng = np.random.default_rng(0)
    atoms = bulk("Cu", cubic=True) * (20, 25, 10)
    found = []
    for _ in range(frames):
        atoms.positions += rng.normal(scale=0.02, size=(len(atoms), 3))
        found.append(with_results(atoms.copy(), rng))
    return found


def with_results(atoms: Atoms, rng: np.random.Generator) -> Atoms:
    """Attach an energy and forces."""
    forces = rng.normal(size=(len(atoms), 3))
    atoms.calc = SinglePointCalculator(atoms, energy=float(rng.normal()), forces=forces)
    return atoms


def size(path: Path) -> int:
    """Bytes of a file, or of all files of a directory."""
    return (
        path.stat().st_size
        if path.is_file()
        else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    )


def remove(path: Path) -> None:
    """Remove what an earlier repeat wrote."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def measure(
    images: list[Atoms], names: list[str], repeats: int, short: int
) -> Iterator[tuple[str, float, float, float]]:
    """Yield images per second written and read, and bytes per image, of each format."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for name in names:
                file, options = FORMATS[name]
                path = Path(folder, file)
                remove(path)
                chosen = images[:short] if name == "extxyz" else images
                start = time.perf_counter()
                ase.io.write(path, chosen, **options)
                written = time.perf_counter()
                found = ase.io.read(path, ":")
                read = time.perf_counter()
                assert len(found) == len(chosen)
                seconds[name].append(((written - start) / len(chosen), (read - written) / len(chosen)))
                sizes[name] = size(path) / len(chosen)
    for name in names:
        write, read = (statistics.median(pair[i] for pair in seconds[name]) for i in (0, 1))
        yield name, 1 / write, 1 / read, sizes[name]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", default=["E", "M"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(FORMATS))
    arguments = parser.parse_args()
    names = [name for name in FORMATS if name in arguments.only.split(",")]
    makers = {"E": (molecules, 10_000), "M": (crystal, 20)}
    for case in arguments.cases:
        make, short = makers[case]
        rows = list(measure(make(), names, arguments.repeats, short))
        base = next((row for row in rows if row[0] == "traj"), rows[0])
        print(f"\n{case}: {make.__doc__}  Ratios to {base[0]} in brackets.")
        print(f"{'':10} {'written/s':>18} {'read/s':>18} {'bytes/image':>18}")
        for name, *values in rows:
            told = [
                f"{value:10.0f} ({value / other:5.2f})" for value, other in zip(values, base[1:], strict=True)
            ]
            print(f"{name:10} {told[0]:>18} {told[1]:>18} {told[2]:>18}")


if __name__ == "__main__":
    main()
