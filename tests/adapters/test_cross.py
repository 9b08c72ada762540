"""One system written by OpenMM and one by LAMMPS, opened by each host: equal atoms, bonds, cells and times."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from molrec_core import open_record

HOSTS = ("openmm", "lammps", "MDAnalysis", "mdtraj", "ase")
pytestmark = pytest.mark.skipif(
    not all(map(find_spec, HOSTS)), reason="compares all hosts, and one of them is not installed"
)

KCAL = 4.184
EV = 1 / 96.48533212331


@pytest.fixture(scope="module")
def openmm_run(tmp_path_factory):
    """Water with virtual sites, at constant pressure, from OpenMM; and the States it was made of."""
    import openmm
    from openmm import app, unit

    from molrec_openmm import MolrecReporter

    forcefield = app.ForceField("amber14/tip4pew.xml")
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
    modeller.addSolvent(forcefield, model="tip4pew", boxSize=openmm.Vec3(1.8, 1.8, 1.8) * unit.nanometer)
    system = forcefield.createSystem(
        modeller.topology, nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=0.7 * unit.nanometer
    )
    system.addForce(openmm.MonteCarloBarostat(1, 300, 2))
    simulation = app.Simulation(
        modeller.topology,
        system,
        openmm.LangevinMiddleIntegrator(300, 1, 0.002),
        openmm.Platform.getPlatform("CPU"),
    )
    simulation.context.setPositions(modeller.positions)
    simulation.minimizeEnergy(maxIterations=10)
    states = []

    class Keep:
        def describeNextReport(self, simulation):
            include = ["positions", "velocities", "forces", "energy"]
            return {"steps": 5 - simulation.currentStep % 5, "periodic": None, "include": include}

        def report(self, simulation, state):
            states.append(state)

    path = tmp_path_factory.mktemp("openmm") / "w.mrec"
    with MolrecReporter(path, 5, velocities=True, forces=True) as reporter:
        simulation.reporters += [Keep(), reporter]
        simulation.step(20)
    return path, modeller.topology, states


@pytest.fixture(scope="module")
def lammps_run(tmp_path_factory):
    """Waters in real units in a triclinic cell, from LAMMPS; and what LAMMPS holds at each frame."""
    from molrec_lammps import MolrecReporter, open_lammps

    lmp = open_lammps("-log", "none", "-screen", "none")
    folder = tmp_path_factory.mktemp("lammps")
    (folder / "water.mol").write_text("""# water

3 atoms
2 bonds

Coords

1 0 0 0
2 0.9572 0 0
3 -0.24 0.9266 0

Types

1 1
2 2
3 2

Charges

1 -0.834
2 0.417
3 0.417

Bonds

1 1 1 2
2 1 1 3
""")
    lmp.commands_string(f"""
units real
atom_style full
region box prism -1 10.4 0 10.5 2 12.5 1.5 -1.0 2.0
create_box 2 box bond/types 1 extra/bond/per/atom 2 extra/special/per/atom 2
molecule water {folder / "water.mol"}
lattice sc 3.5
create_atoms 0 box mol water 4711
mass 1 15.9994
mass 2 1.008
bond_style harmonic
bond_coeff 1 450 0.9572
pair_style lj/cut/coul/cut 5.0
pair_coeff 1 1 0.1521 3.1507
pair_coeff * 2 0.0 1.0
special_bonds lj/coul 0.0 0.0 0.5
velocity all create 300.0 4928459
timestep 0.5
fix run all nve
minimize 0 1.0 20 100
reset_timestep 0
""")
    path = folder / "w.mrec"
    held = []
    with MolrecReporter(lmp, path, 10, velocities=True, forces=True, elements=["O", "H"]) as reporter:
        for _ in range(3):
            reporter.run(10)
            order = np.argsort(np.ctypeslib.as_array(lmp.gather_concat("id", 0, 1)))
            held.append(
                {
                    name: np.ctypeslib.as_array(lmp.gather_concat(name, 1, 3)).reshape(-1, 3)[order].copy()
                    for name in "xvf"
                }
            )
    lmp.close()
    return path, held


def vectors_of(dimensions):
    """Lattice vectors as rows from lengths and angles, for hosts that keep those."""
    from MDAnalysis.lib.mdamath import triclinic_vectors

    return triclinic_vectors(dimensions)


# -- OpenMM's record


def test_P70_openmm_to_mdanalysis(openmm_run):
    """Positions, velocities (not zeros), forces, cell and times of the States; atoms and bonds of the Topology."""
    import MDAnalysis

    import molrec_mda  # noqa: F401 - registers the format

    path, topology, states = openmm_run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = MDAnalysis.Universe(str(path))
    atoms = list(topology.atoms())
    assert universe.atoms.names.tolist() == [atom.name for atom in atoms]
    assert universe.atoms.resids.tolist() == [int(atom.residue.id) for atom in atoms]
    assert sorted(map(tuple, universe.bonds.indices.tolist())) == sorted(
        (bond[0].index, bond[1].index) for bond in topology.bonds()
    )
    assert universe.trajectory.n_frames == len(states)
    for ts, state in zip(universe.trajectory, states, strict=True):
        assert np.allclose(ts.positions, state.getPositions(asNumpy=True)._value * 10, rtol=1e-6, atol=1e-6)
        assert np.allclose(ts.velocities, state.getVelocities(asNumpy=True)._value * 10, rtol=1e-6, atol=1e-6)
        assert np.allclose(ts.forces, state.getForces(asNumpy=True)._value / 10, rtol=1e-6, atol=1e-4)
        assert ts.velocities.any()
        assert np.isclose(ts.time, state.getTime()._value)
        rows = np.array(state.getPeriodicBoxVectors()._value) * 10
        assert np.allclose(vectors_of(ts.dimensions), rows, atol=1e-4)


def test_openmm_to_mdtraj(openmm_run):
    import mdtraj as md

    import molrec_mdtraj  # noqa: F401 - registers the format

    path, topology, states = openmm_run
    trajectory = md.load(str(path))
    atoms = list(topology.atoms())
    assert [atom.name for atom in trajectory.top.atoms] == [atom.name for atom in atoms]
    symbols = ["VS" if atom.element is None else atom.element.symbol for atom in atoms]
    assert [atom.element.symbol for atom in trajectory.top.atoms] == symbols
    assert [(a.index, b.index) for a, b in trajectory.top.bonds] == [
        (bond[0].index, bond[1].index) for bond in topology.bonds()
    ]
    for i, state in enumerate(states):
        assert np.array_equal(trajectory.xyz[i], state.getPositions(asNumpy=True)._value.astype(np.float32))
        rows = np.array(state.getPeriodicBoxVectors()._value)
        assert np.allclose(trajectory.unitcell_vectors[i], rows, atol=1e-6)
    assert np.allclose(trajectory.time, [state.getTime()._value for state in states])


def test_P64_openmm_to_ase(openmm_run):
    """Angstrom, eV, and ASE's own time unit; a virtual site is X."""
    import ase.io
    from ase import units

    path, topology, states = openmm_run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        images = ase.io.read(str(path), ":")
    assert len(images) == len(states)
    symbols = ["X" if atom.element is None else atom.element.symbol for atom in topology.atoms()]
    assert images[0].get_chemical_symbols() == symbols
    for image, state in zip(images, states, strict=True):
        assert np.allclose(image.positions, state.getPositions(asNumpy=True)._value * 10, rtol=1e-14)
        assert np.allclose(image.cell[:], np.array(state.getPeriodicBoxVectors()._value) * 10, rtol=1e-14)
        assert image.pbc.all()
        # ASE keeps momenta, and divides zero by zero for a virtual site.
        massive = image.get_masses() > 0
        velocities = (image.get_momenta() / np.maximum(image.get_masses(), 1e-30)[:, None])[massive]
        velocities *= 1000 * units.fs
        assert np.allclose(velocities, state.getVelocities(asNumpy=True)._value[massive] * 10, rtol=1e-9)
        assert np.allclose(image.get_forces(), state.getForces(asNumpy=True)._value / 10 * EV, rtol=1e-9)
        assert np.isclose(image.get_potential_energy(), state.getPotentialEnergy()._value * EV, rtol=1e-9)


# -- LAMMPS's record


def test_P65_lammps_to_mdanalysis(lammps_run):
    """Forces from kcal to kJ, velocities from angstrom/fs to angstrom/ps, times from fs to ps."""
    import MDAnalysis

    import molrec_mda  # noqa: F401 - registers the format

    path, held = lammps_run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = MDAnalysis.Universe(str(path))
    record = open_record(path).trajectory
    assert universe.atoms.n_atoms == len(held[0]["x"])
    assert set(universe.atoms.types) == {"1", "2"}
    assert np.allclose(universe.atoms.charges[:3], [-0.834, 0.417, 0.417])
    assert universe.bonds.indices.tolist()[:2] == [[0, 1], [0, 2]]
    for i, values in enumerate(held, start=1):
        ts = universe.trajectory[i]
        assert np.allclose(ts.positions, values["x"], atol=1e-5)
        assert np.allclose(ts.velocities, values["v"] * 1000, rtol=1e-5, atol=1e-5)
        assert np.allclose(ts.forces, values["f"] * KCAL, rtol=1e-5, atol=1e-3)
        assert np.isclose(ts.time, i * 0.005)
        assert np.allclose(vectors_of(ts.dimensions), record.box(i).vectors.T, atol=1e-4)


def test_lammps_to_mdtraj(lammps_run):
    import mdtraj as md

    import molrec_mdtraj  # noqa: F401 - registers the format

    path, held = lammps_run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trajectory = md.load(str(path))
    assert [atom.element.symbol for atom in trajectory.top.atoms][:3] == ["O", "H", "H"]
    assert trajectory.top.n_bonds == 2 * len(held[0]["x"]) // 3
    assert [(a.index, b.index) for a, b in trajectory.top.bonds][:2] == [(0, 1), (0, 2)]
    record = open_record(path).trajectory
    for i, values in enumerate(held, start=1):
        assert np.allclose(trajectory.xyz[i], values["x"] / 10, atol=1e-6)
        assert np.allclose(trajectory.unitcell_vectors[i], record.box(i).vectors.T / 10, atol=1e-6)
    assert np.allclose(trajectory.time, [0, 0.005, 0.01, 0.015])


def test_P65_lammps_to_ase(lammps_run):
    import ase.io
    from ase import units

    path, held = lammps_run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        images = ase.io.read(str(path), ":")
    record = open_record(path).trajectory
    assert images[0].get_chemical_symbols()[:3] == ["O", "H", "H"]
    assert np.allclose(images[0].get_masses()[:3], [15.9994, 1.008, 1.008])
    for i, values in enumerate(held, start=1):
        image = images[i]
        assert np.array_equal(image.positions, values["x"])
        assert np.array_equal(image.cell[:], record.box(i).vectors.T)
        assert np.allclose(image.get_celldisp().ravel(), [-1, 0, 2])
        assert np.allclose(image.get_velocities() * units.fs, values["v"], rtol=1e-9)
        assert np.allclose(image.get_forces(), values["f"] * KCAL * EV, rtol=1e-9)


def test_lammps_to_openmm(lammps_run):
    from molrec_openmm import load

    path, held = lammps_run
    loaded = load(path)
    assert [atom.element.symbol for atom in loaded.topology.atoms()][:3] == ["O", "H", "H"]
    assert np.allclose(loaded.positions._value, held[-1]["x"] / 10, rtol=1e-14)
    assert np.allclose(loaded.velocities._value, held[-1]["v"] * 100, rtol=1e-14)
    assert np.allclose(loaded.forces._value, held[-1]["f"] * KCAL * 10, rtol=1e-14)
    assert np.isclose(loaded.time._value, 0.015)
    assert np.allclose(
        np.array(loaded.box_vectors._value).T * 10, open_record(path).trajectory.box(-1).vectors
    )
