"""The small simulation of ``molrec demo``: a copper cluster in ASE's EMT potential, warmed and let go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ase import units
from ase.calculators.emt import EMT
from ase.cluster import Octahedron
from ase.md.verlet import VelocityVerlet

from molrec_ase._trajectory import MolrecTrajectory

STEPS, INTERVAL = 400, 10


def simulate(path: Path) -> str:
    """Run molecular dynamics of 38 copper atoms into a new record; return one line on what ran."""
    rng = np.random.default_rng(42)
    atoms = Octahedron("Cu", 4, cutoff=1)
    atoms.center(vacuum=6.0)
    atoms.calc = EMT()
    thermal = np.sqrt(atoms.get_masses() * units.kB * 900)
    atoms.set_momenta(rng.normal(size=(len(atoms), 3)) * thermal[:, None])
    dynamics = VelocityVerlet(atoms, 2 * units.fs)
    with MolrecTrajectory(path, "w", atoms=atoms) as trajectory:
        dynamics.attach(trajectory, interval=INTERVAL)
        dynamics.run(STEPS)
    return f"ran {STEPS} steps of molecular dynamics of {len(atoms)} copper atoms with ASE's EMT, into {path}"
