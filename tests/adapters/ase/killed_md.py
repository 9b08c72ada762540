"""EMT molecular dynamics that may be killed at any time: ``killed_md.py RECORD STEPS``.

It goes on from the last image of the record where there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ase.io
import numpy as np
from ase import units
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.md.verlet import VelocityVerlet

from molrec_ase import MolrecTrajectory
from molrec_core import open_record

INTERVAL = 5


def main(path: str, steps: int) -> None:
    """Run to `steps`, from the last image where there is one."""
    done = 0
    if Path(path, "trajectory").exists():
        atoms = ase.io.read(path)
        with open_record(path) as record:
            done = int(record.trajectory.steps[-1])
    else:
        atoms = bulk("Cu", cubic=True) * (2, 2, 2)
        thermal = np.sqrt(atoms.get_masses() * units.kB * 600)[:, None]
        atoms.set_momenta(np.random.default_rng(1).normal(size=(len(atoms), 3)) * thermal)
    atoms.calc = EMT()
    dynamics = VelocityVerlet(atoms, 2 * units.fs)
    with MolrecTrajectory(path, "a", flush_every=2) as trajectory:

        def write() -> None:
            step = done + dynamics.nsteps
            if trajectory.last_step is None or step > trajectory.last_step:
                trajectory.write(atoms, step=step)

        dynamics.attach(write, interval=INTERVAL)
        print("ready", flush=True)
        dynamics.run(steps - done)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
