"""The small simulation of ``molrec demo``: liquid argon on OpenMM's Reference platform."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openmm
from openmm import app, unit

from molrec_openmm.reporter import MolrecReporter

STEPS, INTERVAL, EDGE = 400, 10, 4


def simulate(path: Path) -> str:
    """Run molecular dynamics of 64 argon atoms into a new record; return one line on what ran."""
    topology, system, positions = _argon()
    integrator = openmm.LangevinMiddleIntegrator(95 * unit.kelvin, 1 / unit.picosecond, 4 * unit.femtosecond)
    integrator.setRandomNumberSeed(42)
    platform = openmm.Platform.getPlatformByName("Reference")
    simulation = app.Simulation(topology, system, integrator, platform)
    simulation.context.setPositions(positions)
    simulation.context.setVelocitiesToTemperature(95 * unit.kelvin, 42)
    with MolrecReporter(path, INTERVAL, velocities=True) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(STEPS)
    return f"ran {STEPS} steps of Langevin dynamics of {len(positions)} argon atoms with OpenMM, into {path}"


def _argon() -> tuple[app.Topology, openmm.System, np.ndarray]:
    spacing = 0.38
    topology = app.Topology()
    chain = topology.addChain("A")
    system = openmm.System()
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(0.7)
    for i in range(EDGE**3):
        topology.addAtom("AR", app.Element.getBySymbol("Ar"), topology.addResidue("AR", chain, str(i + 1)))
        system.addParticle(39.948)
        force.addParticle(0.0, 0.3405, 0.996)
    system.addForce(force)
    vectors = np.eye(3) * EDGE * spacing
    system.setDefaultPeriodicBoxVectors(*vectors)
    topology.setPeriodicBoxVectors(vectors * unit.nanometer)
    grid = np.stack(np.meshgrid(*[np.arange(EDGE)] * 3, indexing="ij"), axis=-1).reshape(-1, 3) * spacing
    return topology, system, grid
