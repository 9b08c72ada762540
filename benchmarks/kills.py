"""How many frames a SIGKILL costs, by writer: what was said to be written beside what can be read.

    python benchmarks/kills.py [WRITER ...] [--kills 8] [--seconds 0.5 3] [--seed 1]

A process writes 1,000 atoms and a cell, at most 400 times a second, and says after each frame that the
writer's call has returned. It is killed at a random time after its first frame. Another process
then opens the file with the reader of the same library and counts the frames, from the first on,
whose positions are right. Lost is what was said less what was counted, shown for each kill.
The system stays up, so this says nothing about a lost power.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

ATOMS, EDGE, RATE, TOLERANCE = 1_000, 80.0, 400, 0.02
BASE = np.random.default_rng(7).random((ATOMS, 3)) * EDGE


def positions(i):
    """No two frames within 1,000 are alike."""
    return np.roll(BASE, i, axis=0)


# -- Writers: each makes, for a path, a function that writes frame i and returns when the writer does.


def mdanalysis_writer(path, **options):
    import MDAnalysis as mda

    universe = mda.Universe.empty(ATOMS, trajectory=True)
    universe.dimensions = [EDGE, EDGE, EDGE, 90, 90, 90]
    writer = mda.Writer(str(path), ATOMS, **options)

    def write(i):
        universe.trajectory.ts.frame = i
        universe.atoms.positions = positions(i)
        writer.write(universe.atoms)

    return write


def ase_writer(path):
    from ase import Atoms
    from ase.io.trajectory import Trajectory

    atoms = Atoms(f"Ar{ATOMS}", cell=[EDGE] * 3, pbc=True)
    writer = Trajectory(path, "w")

    def write(i):
        atoms.positions = positions(i)
        writer.write(atoms)

    return write


def molrs_writer(path, **options):
    import molrs
    from molrs.io.mrec import MrecWriter, SequenceSchema

    def frame(i):
        made = molrs.Frame({"atoms": dict(zip("xyz", positions(i).T.copy(), strict=True))})
        made.box = molrs.Box.cube(EDGE)
        return made

    writer = MrecWriter(path, SequenceSchema.from_frames([frame(0)]), **options)
    return lambda i: writer.append(frame(i))


def record_writer(path, **options):
    from molrec_core import Block, Box, Frame, TrajectoryWriter

    writer = TrajectoryWriter(path, **options)
    box = Box(np.eye(3) * EDGE)

    def write(i):
        atoms = Block(dict(zip("xyz", positions(i).T.copy(), strict=True)))
        writer.append(Frame({"atoms": atoms}, box=box))

    return write


# -- Readers: each yields the positions of a file's frames.


def mdanalysis_reader(path):
    import MDAnalysis as mda

    for ts in mda.Universe.empty(ATOMS).load_new(str(path)).trajectory:
        yield ts.positions


def ase_reader(path):
    from ase.io.trajectory import Trajectory

    return (atoms.positions for atoms in Trajectory(path))


def molrs_reader(path):
    from molrs.io.mrec import MrecReader

    reader = MrecReader(path)
    for i in range(len(reader)):
        atoms = reader[i]["atoms"]
        yield np.stack([atoms[axis] for axis in "xyz"], axis=1)


def record_reader(path):
    from molrec_core import open_record

    for frame in open_record(path).trajectory:
        yield np.stack([frame["atoms"][axis] for axis in "xyz"], axis=1)


def molrs_row(**options):
    return "run.mrec", partial(molrs_writer, **options), molrs_reader


WRITERS = {
    "dcd": ("run.dcd", mdanalysis_writer, mdanalysis_reader),
    "traj": ("run.traj", ase_writer, ase_reader),
    "xtc": ("run.xtc", mdanalysis_writer, mdanalysis_reader),
    "trr": ("run.trr", mdanalysis_writer, mdanalysis_reader),
    "h5md": (
        "run.h5md",
        partial(mdanalysis_writer, lengthunit="angstrom", timeunit="ps"),
        mdanalysis_reader,
    ),
    "molrs": molrs_row(durable=True),
    "molrs-not-durable": molrs_row(durable=False),
    "molrs-each": molrs_row(durable=True, flush_every=1),
    "molrs-each-not-durable": molrs_row(durable=False, flush_every=1),
    "record": ("run.mrec", record_writer, record_reader),
    "record-each": ("run.mrec", partial(record_writer, flush_every=1), record_reader),
}


def write(name, path):
    """The child: writes until it is killed."""
    frame = WRITERS[name][1](path)
    began = time.perf_counter()
    for i in itertools.count():
        frame(i)
        os.write(1, b"%d\n" % (i + 1))
        time.sleep(max(0.0, began + (i + 1) / RATE - time.perf_counter()))


def count(name, path):
    """Print how many frames from the first on are right, and what ended the reading, if anything did."""
    good, problem = 0, ""
    try:
        for i, found in enumerate(WRITERS[name][2](path)):
            if np.abs(found - positions(i)).max() > TOLERANCE:
                problem = "wrong positions"
                break
            good += 1
    except Exception as error:  # noqa: BLE001 - whatever a reader says of a torn file
        problem = f"{type(error).__name__}: {error}"
    print(good, " ".join(problem.split())[:100])


def command(task, name, path):
    return [sys.executable, "-W", "ignore", __file__, "--task", task, str(path), name]


def kill_one(name, seconds):
    """Kill one writer after so long; return frames said, frames read and what the reader said."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / WRITERS[name][0]
        # To a file, since a full pipe would hold the child back.
        with (Path(directory) / "said").open("wb+") as said:
            child = subprocess.Popen(command("write", name, path), stdout=said)
            while said.tell() == 0 and child.poll() is None:
                time.sleep(0.01)
                said.seek(0, os.SEEK_END)
            time.sleep(seconds)
            child.kill()
            if child.wait() != -signal.SIGKILL:
                raise SystemExit(f"{name}: the writer ended by itself")
            said.seek(0)
            written = int(said.read().split()[-1])
        result = subprocess.run(
            command("count", name, path), capture_output=True, text=True, check=False, timeout=60
        )
        good, _, problem = result.stdout.strip().partition(" ")
        return written, int(good or 0), problem if good else f"the reader ended with {result.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("writers", nargs="*", metavar="WRITER", help=f"of {', '.join(WRITERS)}")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seconds", type=float, nargs=2, default=(0.5, 3.0), help="earliest and latest kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.writers) - set(WRITERS):
        parser.error(f"no such writer: {', '.join(sorted(unknown))}")
    if arguments.task:
        warnings.simplefilter("ignore")
        task, path = arguments.task
        {"write": write, "count": count}[task](arguments.writers[0], Path(path))
        return
    for name in arguments.writers or WRITERS:
        rng = random.Random(arguments.seed)
        kills = [kill_one(name, rng.uniform(*arguments.seconds)) for _ in range(arguments.kills)]
        lost = sorted(max(0, said - good) for said, good, _ in kills)
        said = sorted(said for said, _, _ in kills)
        print(f"{name:24} lost {' '.join(map(str, lost))}, of {said[0]} to {said[-1]}", flush=True)
        for problem in sorted({problem for _, _, problem in kills if problem}):
            print(f"{'':24} {problem}", flush=True)


if __name__ == "__main__":
    main()
