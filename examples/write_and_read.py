"""Simulate a chain of beads on springs, write it as it runs, read it back.

    python write_and_read.py [run.mrec]

The positions are rounded to 0.001 in the record's unit of length; energies are exact.
"""

from __future__ import annotations

import sys

import numpy as np

from molrec_core import Box, Frame, TrajectoryWriter, open_record

N_BEADS = 50
N_STEPS = 2000
EVERY = 10
DT = 0.02
UNITS = {"preset": "lj"}


def forces_of(positions: np.ndarray) -> tuple[np.ndarray, float]:
    """Return forces, shape (n, 3), and the energy of springs of length 1 between neighbours."""
    bonds = np.diff(positions, axis=0)
    lengths = np.linalg.norm(bonds, axis=1)
    pull = ((lengths - 1) / lengths)[:, None] * bonds
    forces = np.zeros_like(positions)
    forces[:-1] += pull
    forces[1:] -= pull
    return forces, 0.5 * float(((lengths - 1) ** 2).sum())


def topology() -> Frame:
    """Return what does not change: masses, and the bonds between neighbours."""
    first = np.arange(N_BEADS - 1, dtype=np.uint64)
    return Frame({"atoms": {"mass": np.ones(N_BEADS)}, "bonds": {"atomi": first, "atomj": first + 1}})


def simulate(path: str) -> None:
    """Run velocity Verlet and append every tenth step to a record."""
    rng = np.random.default_rng(1)
    positions = np.outer(np.arange(N_BEADS), [1.0, 0.0, 0.0])
    velocities = rng.normal(scale=0.1, size=positions.shape)
    forces, energy = forces_of(positions)
    meta = {"title": "beads on springs", "units": UNITS}
    with TrajectoryWriter(path, meta=meta, system=topology(), precision=1e-3, overwrite=True) as writer:
        for step in range(N_STEPS + 1):
            if step % EVERY == 0:
                frame = Frame(
                    {
                        "atoms": dict(zip("xyz", positions.T, strict=True)),
                        "velocities": dict(zip(("vx", "vy", "vz"), velocities.T, strict=True)),
                    },
                    box=Box(np.eye(3) * 100.0),
                    meta={"pe": energy, "ke": 0.5 * float((velocities**2).sum())},
                )
                writer.append(frame, step=step, time=step * DT)
            velocities += 0.5 * DT * forces
            positions = positions + DT * velocities
            forces, energy = forces_of(positions)
            velocities += 0.5 * DT * forces


def main() -> None:
    """Write the record, then look at it."""
    path = sys.argv[1] if len(sys.argv) > 1 else "run.mrec"
    simulate(path)
    with open_record(path) as record:
        trajectory = record.trajectory
        last = trajectory[-1]
        ends = trajectory.read("atoms", ["x", "y", "z"], rows=[0, N_BEADS - 1])
        distance = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
        print(f"{record.meta['title']}: {len(trajectory)} frames, {last['atoms'].count} beads")
        print(f"last frame: step {trajectory.steps[-1]}, time {trajectory.times[-1]:.1f}")
        print(f"end to end: {distance[0]:.2f} at first, {distance[-1]:.2f} at last")


if __name__ == "__main__":
    main()
