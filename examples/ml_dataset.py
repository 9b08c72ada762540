"""A data set of molecules of different sizes: written once, read in shuffled batches.

    python ml_dataset.py [molecules.mrec]

Each molecule is a frame. A batch comes as flat arrays and the atoms of each molecule,
the form that models of molecules take. The model here is the simplest there is: an
energy for each element.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from molrec_core import Block, Frame, TrajectoryReader, TrajectoryWriter, open_record

ELEMENTS = np.array([1, 6, 7, 8], np.uint8)
ENERGIES = np.array([-13.6, -1029.5, -1485.3, -2042.6])
N_MOLECULES = 2000
BATCH = 64


def write(path: str) -> None:
    """Write random molecules whose energies are those of their atoms, with some noise."""
    rng = np.random.default_rng(2)
    meta = {"title": "random molecules", "units": {"length": "angstrom", "energy": "eV"}}
    with TrajectoryWriter(path, meta=meta, precision=1e-4, overwrite=True) as writer:
        for _ in range(N_MOLECULES):
            n = int(rng.integers(3, 30))
            kinds = rng.integers(len(ELEMENTS), size=n)
            positions = rng.normal(scale=2.0, size=(n, 3))
            atoms = Block({"x": positions[:, 0], "y": positions[:, 1], "z": positions[:, 2]})
            energy = float(ENERGIES[kinds].sum() + rng.normal(scale=0.05))
            identity = Block({"atomic_number": ELEMENTS[kinds]})
            writer.append(Frame({"atoms": atoms, "identity": identity}, meta={"pe": energy}))


def batches(
    trajectory: TrajectoryReader, chosen: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield positions (atoms, 3) float32, atomic numbers (atoms,), molecule of each atom, energies (molecules,)."""
    energies = trajectory.meta("pe")
    for at in range(0, len(chosen), BATCH):
        # Molecules that lie together share chunks: a batch is read in the order of the record.
        frames = np.sort(chosen[at : at + BATCH])
        positions, counts = trajectory.read("atoms", ["x", "y", "z"], frames=frames, dtype=np.float32)
        numbers, _ = trajectory.read("identity", "atomic_number", frames=frames)
        yield positions, numbers, np.repeat(np.arange(len(frames)), counts), energies[frames]


def composition(numbers: np.ndarray, molecule: np.ndarray, n: int) -> np.ndarray:
    """Return how many atoms of each element a molecule has, shape (n, elements)."""
    counts = np.zeros((n, len(ELEMENTS)))
    np.add.at(counts, (molecule, np.searchsorted(ELEMENTS, numbers)), 1)
    return counts


def main() -> None:
    """Write, train on nine of ten molecules, test on the rest."""
    path = sys.argv[1] if len(sys.argv) > 1 else "molecules.mrec"
    write(path)
    rng = np.random.default_rng(3)
    with open_record(path) as record:
        trajectory = record.trajectory
        order = rng.permutation(len(trajectory))
        train, test = order[200:], order[:200]
        parts = [
            (composition(numbers, molecule, len(energies)), energies)
            for _, numbers, molecule, energies in batches(trajectory, train)
        ]
        weights = np.linalg.lstsq(
            np.concatenate([c for c, _ in parts]), np.concatenate([e for _, e in parts])
        )[0]
        errors = [
            composition(numbers, molecule, len(energies)) @ weights - energies
            for _, numbers, molecule, energies in batches(trajectory, test)
        ]
    error = float(np.abs(np.concatenate(errors)).mean())
    print(f"{N_MOLECULES} molecules; {len(train)} to train, {len(test)} to test")
    print("energies of atoms:", ", ".join(f"{z}: {e:.1f} eV" for z, e in zip(ELEMENTS, weights, strict=True)))
    print(f"mean absolute error of the energy: {error:.3f} eV")


if __name__ == "__main__":
    main()
