"""Systems that OpenMM runs in these tests: water boxes, argon, a peptide."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if find_spec("openmm") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import openmm
    from openmm import app, unit


class Keep:
    """A reporter that keeps the States the others got."""

    def __init__(self, interval, include=("positions", "velocities", "forces", "energy"), periodic=None):
        self.interval, self.include, self.periodic = interval, list(include), periodic
        self.states = []

    def describeNextReport(self, simulation):
        steps = self.interval - simulation.currentStep % self.interval
        return {"steps": steps, "periodic": self.periodic, "include": self.include}

    def report(self, simulation, state):
        self.states.append(state)


@dataclass
class Setup:
    """A topology, a System and positions: everything a Simulation is made of, as often as needed."""

    topology: Any
    system: Any
    positions: Any
    integrator: str = "langevin"
    platform: str = "CPU"
    velocities: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def simulation(self, **changes):
        integrator = {
            "langevin": lambda: openmm.LangevinMiddleIntegrator(300, 1, 0.002),
            "verlet": lambda: openmm.VerletIntegrator(0.002),
        }[changes.get("integrator", self.integrator)]()
        if hasattr(integrator, "setRandomNumberSeed"):
            integrator.setRandomNumberSeed(11)
        platform = openmm.Platform.getPlatform(changes.get("platform", self.platform))
        simulation = app.Simulation(self.topology, self.system, integrator, platform)
        simulation.context.setPositions(self.positions)
        if self.velocities:
            simulation.context.setVelocitiesToTemperature(300, 5)
        return simulation


def water(model, waters_in_angstrom, **options):
    """A relaxed water box of OpenMM's own force-field files."""
    files = {"tip3p": "amber14/tip3p.xml", "tip4pew": "amber14/tip4pew.xml"}
    forcefield = app.ForceField("amber14-all.xml", files[model])
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
    edge = waters_in_angstrom / 10
    modeller.addSolvent(forcefield, model=model, boxSize=openmm.Vec3(edge, edge, edge) * unit.nanometer)
    system = forcefield.createSystem(
        modeller.topology, nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=0.8 * unit.nanometer
    )
    setup = Setup(modeller.topology, system, modeller.positions, **options)
    simulation = setup.simulation()
    simulation.minimizeEnergy(maxIterations=15)
    setup.positions = simulation.context.getState(positions=True).getPositions(asNumpy=True)
    return setup


@pytest.fixture(scope="session")
def tip3p():
    """About 2,000 atoms of TIP3P water."""
    return water("tip3p", 28)


@pytest.fixture(scope="session")
def tip4p():
    """TIP4P-Ew water: every fourth particle is a virtual site."""
    return water("tip4pew", 20)


def argon_setup(periodic=True, vectors=None, n=4, platform="Reference"):
    """Lennard-Jones particles on a lattice; small, and deterministic on the Reference platform."""
    edge = 0.4 * n
    topology = app.Topology()
    chain = topology.addChain("A")
    system = openmm.System()
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(
        openmm.NonbondedForce.CutoffPeriodic if periodic else openmm.NonbondedForce.NoCutoff
    )
    force.setCutoffDistance(0.5)
    for _ in range(n**3):
        topology.addAtom("Ar", app.element.argon, topology.addResidue("AR", chain))
        system.addParticle(39.948)
        force.addParticle(0, 0.34, 0.996)
    system.addForce(force)
    if periodic:
        rows = np.eye(3) * edge if vectors is None else np.array(vectors)
        system.setDefaultPeriodicBoxVectors(*[openmm.Vec3(*map(float, row)) for row in rows])
    lattice = np.stack(np.meshgrid(*[np.arange(n) * 0.4] * 3, indexing="ij"), axis=-1).reshape(-1, 3) + 0.1
    return Setup(topology, system, lattice * unit.nanometer, platform=platform)


@pytest.fixture
def argon():
    """64 argon atoms in a periodic box."""
    return argon_setup()


@pytest.fixture(scope="session")
def peptide():
    """The villin of OpenMM's own test file, without its water."""
    pdb = app.PDBFile(str(Path(os.path.dirname(app.__file__)) / "data" / "test.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.deleteWater()
    modeller.delete(
        [atom for atom in modeller.topology.atoms() if atom.residue.name in {"CL", "Cl-", "NA", "Na+"}]
    )
    forcefield = app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    modeller.topology.setPeriodicBoxVectors(None)
    system = forcefield.createSystem(modeller.topology, nonbondedMethod=app.NoCutoff, constraints=app.HBonds)
    return Setup(modeller.topology, system, modeller.positions)


@pytest.fixture
def make_argon():
    return argon_setup


@pytest.fixture
def keep():
    return Keep
