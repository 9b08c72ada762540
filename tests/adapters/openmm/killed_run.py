"""A run that may be killed at any time and is then started again: the program of the kill tests.

``killed_run.py RECORD CHECKPOINT STEPS`` goes on from the checkpoint where there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import openmm
from openmm import app, unit

from molrec_openmm import MolrecReporter

INTERVAL, CHECKPOINT_INTERVAL = 10, 35


def simulation() -> app.Simulation:
    """27 argon atoms with a thermostat, on the platform that is deterministic."""
    topology, system, force = app.Topology(), openmm.System(), openmm.NonbondedForce()
    chain = topology.addChain()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(0.5)
    for _ in range(27):
        topology.addAtom("Ar", app.element.argon, topology.addResidue("AR", chain))
        system.addParticle(39.948)
        force.addParticle(0, 0.34, 0.996)
    system.addForce(force)
    system.setDefaultPeriodicBoxVectors(*(np.eye(3) * 1.2))
    integrator = openmm.LangevinMiddleIntegrator(300, 1, 0.002)
    integrator.setRandomNumberSeed(3)
    made = app.Simulation(topology, system, integrator, openmm.Platform.getPlatform("Reference"))
    grid = np.stack(np.meshgrid(*[np.arange(3) * 0.4] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    made.context.setPositions(grid * unit.nanometer)
    made.context.setVelocitiesToTemperature(300, 5)
    return made


def main(record: str, checkpoint: str, steps: int) -> None:
    """Run to `steps`, from the checkpoint where there is one."""
    run = simulation()
    restart = Path(checkpoint).exists()
    if restart:
        run.loadCheckpoint(checkpoint)
    reporter = MolrecReporter(record, INTERVAL, append=restart, overwrite=not restart, velocities=True)
    # The checkpoint comes first where both are due: its frame may be missing when the run dies.
    run.reporters += [app.CheckpointReporter(checkpoint, CHECKPOINT_INTERVAL), reporter]
    print("ready", flush=True)
    run.step(steps - run.currentStep)
    reporter.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
