"""``MolrecTrajectory``: attached to a run, killed, reopened, read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import units
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS

from molrec_ase import MolrecTrajectory
from molrec_core import ClosedError, FormatError, LockedError, ReadOnlyError, RecordNotFoundError, open_record

PROGRAM = Path(__file__).with_name("killed_md.py")


def run_md(path, steps):
    subprocess.run([sys.executable, PROGRAM, path, str(steps)], check=True, stdout=subprocess.DEVNULL)


def frames_on_disk(path):
    try:
        with open_record(path) as record:
            return len(record.trajectory)
    except (RecordNotFoundError, FormatError):
        # Not there yet, or being laid down.
        return 0


def test_a_run_killed_halfway_goes_on_and_is_read_back_whole(tmp_path):
    """SIGKILL loses no image that was committed; what follows continues it."""
    path = tmp_path / "md.mrec"
    process = subprocess.Popen([sys.executable, PROGRAM, path, "100000"], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    try:
        while frames_on_disk(path) < 20:
            assert time.monotonic() < deadline, "the run wrote nothing"
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    committed = frames_on_disk(path)
    assert committed >= 20
    survived = ase.io.read(path, ":")
    assert len(survived) == committed
    steps = 5 * committed + 50
    run_md(path, steps)
    run_md(tmp_path / "uncut.mrec", steps)
    whole, uncut = ase.io.read(path, ":"), ase.io.read(tmp_path / "uncut.mrec", ":")
    with open_record(path) as record:
        assert record.trajectory.steps.tolist() == list(range(0, steps + 1, 5))
    assert len(whole) == len(uncut)
    for i, (one, other) in enumerate(zip(whole, uncut, strict=True)):
        if i < committed:
            assert one.positions.tobytes() == other.positions.tobytes()
            assert one.get_momenta().tobytes() == other.get_momenta().tobytes()
        assert one.positions == pytest.approx(other.positions, abs=1e-9)
        assert one.calc.results["energy"] == pytest.approx(other.calc.results["energy"], abs=1e-9)


def test_attached_to_a_dynamics(tmp_path):
    """With an interval, as ASE's own trajectory."""
    atoms = bulk("Cu", cubic=True) * 2
    atoms.rattle(0.05, seed=1)
    atoms.calc = EMT()
    energies = []
    with (
        VelocityVerlet(atoms, 2 * units.fs) as dynamics,
        MolrecTrajectory(tmp_path / "a.mrec", "w", atoms) as trajectory,
    ):
        dynamics.attach(trajectory, interval=10)
        dynamics.attach(lambda: energies.append(atoms.get_potential_energy()), interval=10)
        dynamics.run(50)
        assert len(trajectory) == 6
    found = ase.io.read(tmp_path / "a.mrec", ":")
    assert [image.get_potential_energy() for image in found] == energies
    assert (found[-1].positions == atoms.positions).all()
    assert all(image.has("momenta") for image in found)


def test_attached_to_an_optimizer(tmp_path):
    atoms = molecule("H2O")
    atoms.calc = EMT()
    trajectory = MolrecTrajectory(tmp_path / "a.mrec", "w")
    with BFGS(atoms, logfile=None) as optimizer:
        optimizer.attach(trajectory.write, 1, atoms)
        optimizer.run(fmax=0.1)
    trajectory.close()
    found = MolrecTrajectory(tmp_path / "a.mrec")
    assert len(found) == optimizer.nsteps + 1
    assert found[-1].get_potential_energy() < found[0].get_potential_energy()
    found.close()


def test_indexing_and_slicing(tmp_path, simple):
    with MolrecTrajectory(tmp_path / "a.mrec", "w") as trajectory:
        for number in range(10):
            trajectory.write(simple(number))
    with MolrecTrajectory(tmp_path / "a.mrec") as trajectory:
        assert len(trajectory) == 10
        assert [trajectory[i].positions[0, 0] for i in (0, 3, -1)] == [0, 3, 9]
        view = trajectory[2:9:3]
        assert len(view) == 3
        assert [image.positions[0, 0] for image in view] == [2, 5, 8]
        assert [image.positions[0, 0] for image in view[::-1]] == [8, 5, 2]
        assert view[1].positions[0, 0] == 5
        for wrong in (10, -11):
            with pytest.raises(IndexError):
                trajectory[wrong]


def test_the_path_of_an_image_is_one_in_every_mode(tmp_path, images, assert_same):
    with MolrecTrajectory(tmp_path / "a.mrec", "w") as trajectory:
        trajectory.write(images[0])
    with MolrecTrajectory(tmp_path / "a.mrec", "a") as trajectory:
        assert len(trajectory) == 1
        for image in images[1:]:
            trajectory.write(image)
    assert_same(images, MolrecTrajectory(tmp_path / "a.mrec"))


def test_a_first_image_without_anything_leaves_room_for_what_follows(tmp_path, images, assert_same):
    """Momenta, forces, results and constraints may start with the second image."""
    first = molecule("H2O")
    with MolrecTrajectory(tmp_path / "a.mrec", "w") as trajectory:
        for image in [first, *images, first, *images]:
            trajectory.write(image)
    assert_same([first, *images, first, *images], ase.io.read(tmp_path / "a.mrec", ":"))
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory[1]["velocities"].count == len(images[0])
        assert record.trajectory[1]["forces"].count == len(images[0])
        assert record.trajectory[len(images) + 1]["forces"].count == 0


def test_steps_and_times(tmp_path, simple):
    with MolrecTrajectory(tmp_path / "a.mrec", "w") as trajectory:
        for number in range(3):
            trajectory.write(simple(number), step=10 * number, time=5.0 * number)
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory.steps.tolist() == [0, 10, 20]
        assert record.trajectory.times.tolist() == [0.0, 5.0, 10.0]
        assert record.meta["units"]["time"] == "fs"


def test_a_timer_commits(tmp_path, simple):
    """A slow run loses seconds when it dies, not everything since it began."""
    path = tmp_path / "a.mrec"
    with MolrecTrajectory(path, "w", flush_seconds=0.05) as trajectory:
        trajectory.write(simple(0))
        deadline = time.monotonic() + 30
        while frames_on_disk(path) < 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_other_processes_of_a_parallel_run_write_nothing(tmp_path, simple):
    with MolrecTrajectory(tmp_path / "a.mrec", "w", master=False) as trajectory:
        trajectory.write(simple(0))
        trajectory.flush()
        assert len(trajectory) == 0
    assert list(tmp_path.iterdir()) == []


def test_errors_say_the_way_out(tmp_path, simple):
    path = tmp_path / "a.mrec"
    with pytest.raises(RecordNotFoundError):
        MolrecTrajectory(path)
    with pytest.raises(ValueError, match="'a' appends"):
        MolrecTrajectory(path, "x")
    with pytest.raises(ValueError, match="mode 'a'"):
        MolrecTrajectory(path, "w", after_step=3)
    trajectory = MolrecTrajectory(path, "w")
    with pytest.raises(ValueError, match="needs atoms"):
        trajectory.write()
    trajectory.write(simple(0))
    with pytest.raises(ReadOnlyError, match="open it with 'r'"):
        trajectory[0]
    with pytest.raises(LockedError):
        MolrecTrajectory(path, "a").write(simple(1))
    trajectory.close()
    trajectory.close()
    with pytest.raises(ClosedError):
        trajectory.write(simple(1))
    with MolrecTrajectory(path) as reading, pytest.raises(ReadOnlyError, match="'a'"):
        reading.write(simple(1))


def test_precision_is_fixed_by_the_first_image(tmp_path, run):
    with MolrecTrajectory(
        tmp_path / "a.mrec", "w", precision={"atoms.x": 1e-2, "forces.fx": 1e-1}
    ) as trajectory:
        trajectory.write(run[0])
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory.schema.blocks["atoms"].columns["x"].precision == 1e-2
        assert record.trajectory.schema.blocks["forces"].columns["fx"].precision == 1e-1
    found = ase.io.read(tmp_path / "a.mrec")
    assert np.abs(found.positions - run[0].positions).max(axis=0)[1:].tolist() == [0, 0]
