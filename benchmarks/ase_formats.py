"""Writing and reading through ``ase.io``: records beside .traj, extxyz and znh5md.

    python benchmarks/ase_formats.py [A B D E M] [--repeats 3] [--only mrec,traj]

A: 1,000 atoms x 10,000 frames. B: 20,000 x 500. D: 500 to 1,500 atoms, 2,000 frames. E: 10,000
molecules of 5 to 30 atoms with energy and forces. M: 20,000 atoms x 200 frames with both.
One process, formats alternating, warm cache; medians over the repeats, and only ratios
within one run mean anything. extxyz takes 20 frames of the large ones. ``mrec 1e-3`` declares
that precision for positions (angstrom) and forces (eV/angstrom). ``molrs`` is its own API
without ASE, on frames made beforehand; it stands beside D.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator
from settle import settle

PRECISION = {f"atoms.{c}": 1e-3 for c in "xyz"} | {f"forces.f{c}": 1e-3 for c in "xyz"}
POSITIONS = {f"atoms.{c}": 1e-3 for c in "xyz"}
DISTINCT = 16
FORMATS = {"mrec": "a.mrec", "mrec 1e-3": "b.mrec", "traj": "a.traj", "extxyz": "a.extxyz"}
if importlib.util.find_spec("znh5md"):
    FORMATS["znh5md"] = "a.h5"
if importlib.util.find_spec("molrs"):
    FORMATS["molrs"] = "c.mrec"


def walk(atoms: Atoms, frames: int) -> list[Atoms]:
    """Return `frames` images of jittered atoms, `DISTINCT` of them different."""
    rng = np.random.default_rng(7)
    images = [atoms.copy() for _ in range(DISTINCT)]
    for image in images:
        image.positions += rng.normal(scale=0.3, size=(len(atoms), 3))
    return [images[i % DISTINCT] for i in range(frames)]


def protein(n_atoms: int, frames: int) -> list[Atoms]:
    """A solvated protein of MDAnalysisTests, tiled."""
    import MDAnalysis as mda
    from MDAnalysisTests.datafiles import GRO

    source = mda.Universe(GRO).atoms
    copies = -(-n_atoms // len(source))
    positions = np.concatenate([source.positions + 80.0 * k for k in range(copies)])[:n_atoms]
    numbers = np.resize([8, 1, 1, 6], n_atoms)
    return walk(Atoms(numbers, positions, cell=[80, 80, 80.0 * copies], pbc=True), frames)


def small() -> list[Atoms]:
    """A: 1,000 atoms x 10,000 frames of a protein, positions and cell."""
    return protein(1_000, 10_000)


def large() -> list[Atoms]:
    """B: 20,000 atoms x 500 frames of a protein, positions and cell."""
    return protein(20_000, 500)


def ragged() -> list[Atoms]:
    """D: 500 to 1,500 atoms, another number in each of 2,000 frames, positions."""
    rng = np.random.default_rng(3)
    return [Atoms(rng.choice([1, 6, 8], n), rng.random((n, 3)) * 20) for n in rng.integers(500, 1500, 2000)]


def molecules(count: int = 10_000) -> list[Atoms]:
    """E: molecules of 5 to 30 atoms with energy and forces."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        n = int(rng.integers(5, 31))
        positions = rng.normal(size=(n, 3)) * n ** (1 / 3)
        found.append(with_results(Atoms(rng.choice([1, 6, 7, 8], n), positions), rng))
    return found


def crystal(frames: int = 200) -> list[Atoms]:
    """M: 20,000 atoms x 200 frames on random walks, energy and forces."""
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


def make_molrs(images: list[Atoms]) -> list[Any]:
    """Return molrs frames: symbols as numbers, and positions."""
    import molrs

    return [
        molrs.Frame(
            {
                "atoms": {
                    "type_id": atoms.numbers.astype(np.int32),
                    **{c: np.ascontiguousarray(atoms.positions[:, i]) for i, c in enumerate("xyz")},
                }
            }
        )
        for atoms in images
    ]


def write_molrs(path: Path, frames: list[Any]) -> None:
    """Write by its writer, durable as by default."""
    from molrs.io.mrec import MrecWriter, SequenceSchema

    writer = MrecWriter(path, SequenceSchema.from_frames(frames[:1]))
    for frame in frames:
        writer.append(frame)
    writer.close()


def read_molrs(path: Path) -> list[float]:
    """Read every column of every frame."""
    from molrs.io.mrec import MrecReader

    return [sum(float(frame["atoms"][c][-1]) for c in ("type_id", *"xyz")) for frame in MrecReader(path)]


def measure(
    images: list[Atoms], names: list[str], repeats: int, short: int, precision: dict[str, float]
) -> Iterator[tuple[str, float, float, float]]:
    """Yield images per second written and read, and bytes per image, of each format."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    sizes = {}
    inputs = {name: images[:short] if name == "extxyz" else images for name in names}
    if "molrs" in inputs:
        inputs["molrs"] = make_molrs(images)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for name in names:
                path = Path(folder, FORMATS[name])
                remove(path)
                chosen = inputs[name]
                options = {"precision": precision} if name == "mrec 1e-3" else {}
                write: Callable[..., Any] = write_molrs if name == "molrs" else ase.io.write
                found = None
                settle()
                start = time.perf_counter()
                write(path, chosen, **options)
                written = time.perf_counter() - start
                settle()
                start = time.perf_counter()
                found = read_molrs(path) if name == "molrs" else ase.io.read(path, ":")
                read = time.perf_counter() - start
                assert len(found) == len(chosen)
                seconds[name].append((written / len(chosen), read / len(chosen)))
                sizes[name] = size(path) / len(chosen)
    for name in names:
        write, read = (statistics.median(pair[i] for pair in seconds[name]) for i in (0, 1))
        yield name, 1 / write, 1 / read, sizes[name]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", default=["A", "B", "D", "E", "M"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(FORMATS))
    arguments = parser.parse_args()
    chosen = [name for name in FORMATS if name in arguments.only.split(",")]
    makers = {
        "A": (small, 200, POSITIONS),
        "B": (large, 20, POSITIONS),
        "D": (ragged, 200, POSITIONS),
        "E": (molecules, 10_000, PRECISION),
        "M": (crystal, 20, PRECISION),
    }
    for case in arguments.cases:
        make, short, precision = makers[case]
        names = [name for name in chosen if name != "molrs" or case == "D"]
        rows = list(measure(make(), names, arguments.repeats, short, precision))
        base = next((row for row in rows if row[0] == "traj"), rows[0])
        print(f"\n{make.__doc__}  Ratios to {base[0]} in brackets.")
        print(f"{'':10} {'written/s':>18} {'read/s':>18} {'bytes/image':>18}")
        for name, *values in rows:
            told = [
                f"{value:10.0f} ({value / other:5.2f})" for value, other in zip(values, base[1:], strict=True)
            ]
            print(f"{name:10} {told[0]:>18} {told[1]:>18} {told[2]:>18}")


if __name__ == "__main__":
    main()
