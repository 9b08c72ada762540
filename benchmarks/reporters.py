"""What a report costs: our reporters beside those of OpenMM and LAMMPS, in one run, at equal content.

``python benchmarks/reporters.py [openmm] [lammps] [--atoms 1000 100000] [--directory PATH]``

Each round lets every writer report as often, one after the other, so that a busy machine
slows all of them; a figure is the median over rounds, and ratios are of medians. OpenMM:
positions, cell, step and time, by calling ``report`` with a fresh State. LAMMPS: ids, types,
positions and image flags, as the time a run takes beyond one that reports nothing, the
pieces that ours cuts the run into included. "with close" spreads what comes after the last
report (commit, sync) over all of them.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 9


def reports_per_round(atoms: int) -> int:
    """As many as make a round last long enough to be timed."""
    return 200 if atoms <= 10_000 else 6


@contextmanager
def fresh(directory: Path | None) -> Iterator[Path]:
    """Make a directory that is removed again."""
    made = Path(tempfile.mkdtemp(dir=directory))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def show(title: str, medians: dict[str, float], closed: dict[str, float], sizes: dict[str, float]) -> None:
    """Print medians in microseconds, and ratios to the cheapest of the others."""
    ours = [name for name in medians if name.startswith("molrec")]
    cheapest = min(value for name, value in medians.items() if name not in ours)
    print(f"\n{title}")
    print(f"{'':28}{'us/report':>12}{'ratio':>8}{'with close':>12}{'bytes/atom':>12}")
    for name, value in medians.items():
        print(
            f"{name:28}{value * 1e6:12.0f}{value / cheapest:8.2f}{closed[name] * 1e6:12.0f}{sizes[name]:12.1f}"
        )


def size_of(path: Path) -> int:
    """Bytes of a file or of all files below a directory."""
    return (
        sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
        if path.is_dir()
        else path.stat().st_size
    )


# -- OpenMM


def openmm_simulation(atoms: int) -> Any:
    """Free particles in a periodic box: what is timed is the report, not the step."""
    import openmm
    from openmm import app, unit

    topology, system, force = app.Topology(), openmm.System(), openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(0.3)
    chain = topology.addChain()
    residue = topology.addResidue("AR", chain)
    for _ in range(atoms):
        topology.addAtom("Ar", app.element.argon, residue)
        system.addParticle(39.948)
        force.addParticle(0, 0.1, 0)
    system.addForce(force)
    edge = 0.3 * atoms ** (1 / 3) + 1
    system.setDefaultPeriodicBoxVectors(*(np.eye(3) * edge))
    topology.setPeriodicBoxVectors((np.eye(3) * edge) * unit.nanometer)
    integrator = openmm.VerletIntegrator(0.002)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatform("CPU"))
    simulation.edge = edge
    return simulation


def openmm_reports(atoms: int, directory: Path) -> None:
    """Time ``report`` of four reporters."""
    from openmm import app, unit

    from molrec_openmm import MolrecReporter

    simulation = openmm_simulation(atoms)
    rng = np.random.default_rng(0)
    base = rng.random((atoms, 3)) * simulation.edge
    lean = {"energies": False, "temperature": False, "volume": False}
    reporters = {
        "XTCReporter": app.XTCReporter(str(directory / "a.xtc"), 1),
        "DCDReporter": app.DCDReporter(str(directory / "a.dcd"), 1),
        "molrec": MolrecReporter(directory / "a.mrec", 1, **lean),
        "molrec, precision 0.01 A": MolrecReporter(directory / "b.mrec", 1, precision=0.01, **lean),
    }
    each: dict[str, list[float]] = {name: [] for name in reporters}
    for reporter in reporters.values():
        reporter.describeNextReport(simulation)
    count, done = reports_per_round(atoms), 0
    for _ in range(ROUNDS + 1):
        frames = [base + rng.normal(0, 0.01, base.shape) for _ in range(min(count, 6))]
        for name, reporter in reporters.items():
            states = []
            for i in range(count):
                simulation.context.setPositions(frames[i % len(frames)] * unit.nanometer)
                states.append(simulation.context.getState(positions=True, enforcePeriodicBox=True))
            spent = 0.0
            for i in range(count):
                simulation.currentStep = done + i + 1
                state = states.pop()
                began = time.perf_counter()
                reporter.report(simulation, state)
                spent += time.perf_counter() - began
            each[name].append(spent / count)
        done += count
    closing = dict.fromkeys(reporters, 0.0)
    for name in ("molrec", "molrec, precision 0.01 A"):
        began = time.perf_counter()
        reporters[name].close()
        closing[name] = time.perf_counter() - began
    files = dict(zip(reporters, ("a.xtc", "a.dcd", "a.mrec", "b.mrec"), strict=True))
    # The first round opens files and fills caches.
    medians = {name: statistics.median(values[1:]) for name, values in each.items()}
    closed = {name: statistics.fmean(each[name]) + closing[name] / done for name in reporters}
    sizes = {name: size_of(directory / file) / done / atoms for name, file in files.items()}
    show(f"OpenMM, {atoms} atoms, {done} reports: positions and cell", medians, closed, sizes)


# -- LAMMPS


def lammps_instance(atoms: int) -> Any:
    """Atoms that move freely: a step costs little beside a report."""
    from molrec_lammps import open_lammps

    lmp = open_lammps("-log", "none", "-screen", "none")
    edge = round(atoms ** (1 / 3))
    lmp.commands_string(f"""
units lj
atom_style atomic
lattice sc 1.0
region box block 0 {edge} 0 {edge} 0 {edge}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 0.01 87287
pair_style zero 1.2
pair_coeff * *
fix run all nve
thermo 1000000
timestep 0.001
""")
    return lmp


def lammps_reports(atoms: int, directory: Path) -> None:
    """Time runs that dump, report, or do neither."""
    from molrec_lammps import MolrecReporter

    lmp = lammps_instance(atoms)
    count = reports_per_round(atoms)
    reporter = MolrecReporter(lmp, directory / "a.mrec", 1, thermo=())

    def plain() -> None:
        lmp.command(f"run {count} post no")

    def dumping(style: str) -> Callable[[], None]:
        def run() -> None:
            lmp.command(f"dump d all {style}")
            lmp.command("dump_modify d append yes first yes")
            plain()
            lmp.command("undump d")

        return run

    runs = {
        "nothing": plain,
        "dump atom": dumping(f"atom 1 {directory / 'a.atom'}"),
        "dump custom": dumping(f"custom 1 {directory / 'a.custom'} id type x y z ix iy iz"),
        "molrec run()": lambda: reporter.run(count),
    }
    each: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            each[name].append(time.perf_counter() - began)
    baseline = each.pop("nothing")
    # A run reports its first step as well.
    beyond = {
        name: [(t - b) / (count + 1) for t, b in zip(times, baseline, strict=True)]
        for name, times in each.items()
    }
    closing = dict.fromkeys(each, 0.0)
    began = time.perf_counter()
    reporter.close()
    closing["molrec run()"] = time.perf_counter() - began
    done = (ROUNDS + 1) * (count + 1)
    n = lmp.get_natoms()
    files = dict(zip(each, ("a.atom", "a.custom", "a.mrec"), strict=True))
    medians = {name: statistics.median(values[1:]) for name, values in beyond.items()}
    closed = {name: statistics.fmean(beyond[name]) + closing[name] / done for name in each}
    sizes = {name: size_of(directory / file) / done / n for name, file in files.items()}
    show(
        f"LAMMPS, {n} atoms, {done} reports: ids, types, positions, image flags, cell", medians, closed, sizes
    )
    lmp.close()


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", nargs="*", choices=[[], "openmm", "lammps"], default=[])
    parser.add_argument("--atoms", nargs="+", type=int, default=[1000, 100_000])
    parser.add_argument(
        "--directory", type=Path, default=None, help="where to write; a temporary one by default"
    )
    arguments = parser.parse_args()
    measures = {"openmm": openmm_reports, "lammps": lammps_reports}
    for engine in arguments.engines or list(measures):
        for atoms in arguments.atoms:
            with fresh(arguments.directory) as directory:
                measures[engine](atoms, directory)


if __name__ == "__main__":
    main()
