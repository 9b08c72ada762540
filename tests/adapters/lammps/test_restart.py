"""LAMMPS runs that stop, go on, fail or are killed: one step grid, nothing lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from molrec_core import ClosedError, LockedError, RecordExistsError, SchemaError, open_record
from molrec_lammps import MolrecReporter

PROGRAM = Path(__file__).with_name("killed_run.py")
AGAIN = "fix run all nve\nneigh_modify every 5 delay 0 check yes\n"


def leg(lammps, path, restart, steps, script=None, every=10, write=True, **options):
    """One leg of a run: from a script or the restart file to `steps`, a restart file at its end."""
    lmp = lammps(script) if script else lammps(f"read_restart {restart}\n", AGAIN)
    with MolrecReporter(lmp, path, every, **options) as reporter:
        reporter.run(steps - lmp.extract_global("ntimestep"))
        if write:
            reporter.write_restart(restart)
    return open_record(path)


@pytest.mark.parametrize("stop", [50, 55], ids=["on the grid", "off the grid"])
def test_P53_P58_P95_P130_restart_has_the_grid_of_an_uncut_run(lammps, melt, tmp_path, stop):
    leg(lammps, tmp_path / "m.mrec", tmp_path / "r", stop, melt)
    record = leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 120, append=True)
    assert record.trajectory.steps.tolist() == list(range(0, 121, 10))
    assert np.allclose(record.trajectory.times, record.trajectory.steps * 0.005)


def test_P56_P57_frames_after_the_restart_file_are_dropped(lammps, melt, tmp_path):
    leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 45, melt)
    leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 150, append=True, write=False)
    record = leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 80, append=True)
    assert record.trajectory.steps.tolist() == list(range(0, 81, 10))
    assert record.status["state"] == "succeeded"


def test_P94_append_of_a_run_at_step_0_loses_nothing(lammps, melt, tmp_path):
    leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 50, melt)
    with pytest.raises(RecordExistsError, match="load the checkpoint first"):
        leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 50, melt, append=True)
    assert len(open_record(tmp_path / "m.mrec").trajectory) == 6


def test_P94_what_is_there_is_not_touched(lammps, melt, tmp_path):
    leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 20, melt)
    with pytest.raises(RecordExistsError):
        MolrecReporter(lammps(melt), tmp_path / "m.mrec", 10)
    record = leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 10, melt, overwrite=True)
    assert record.trajectory.steps.tolist() == [0, 10]


def test_append_with_other_settings_is_refused(lammps, melt, tmp_path):
    leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 50, melt)
    with pytest.raises(SchemaError, match="give the reporter the settings"):
        leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 100, append=True, velocities=True)
    assert len(open_record(tmp_path / "m.mrec").trajectory) == 6


def test_P96_one_writer_at_a_time(lammps, melt, tmp_path):
    leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 20, melt)
    lmp = lammps(f"read_restart {tmp_path / 'r'}\n", AGAIN)
    first, second = (MolrecReporter(lmp, tmp_path / "m.mrec", 10, append=True) for _ in range(2))
    first.run(10)
    with pytest.raises(LockedError):
        second.run(10)
    first.close()
    with MolrecReporter(lmp, tmp_path / "m.mrec", 10, append=True) as third:
        third.run(10)
    assert open_record(tmp_path / "m.mrec").trajectory.steps.tolist() == [0, 10, 20, 30, 40]


def test_P130_reset_timestep_is_an_error(lammps, melt, tmp_path):
    lmp = lammps(melt)
    reporter = MolrecReporter(lmp, tmp_path / "m.mrec", 10)
    reporter.run(30)
    lmp.command("reset_timestep 0")
    with pytest.raises(ValueError, match="renumber=True"):
        reporter.run(10)
    assert open_record(tmp_path / "m.mrec").trajectory.steps.tolist() == [0, 10, 20, 30]


def test_P130_reset_timestep_renumbers_on_demand(lammps, melt, tmp_path):
    """On by one, LAMMPS's own step beside it, over a restart too."""
    lmp = lammps(melt)
    with MolrecReporter(lmp, tmp_path / "m.mrec", 10, renumber=True) as reporter:
        reporter.run(20)
        lmp.command("reset_timestep 0")
        reporter.run(20)
        reporter.write_restart(tmp_path / "r")
    record = leg(lammps, tmp_path / "m.mrec", tmp_path / "r", 30, append=True, renumber=True)
    assert record.trajectory.steps.tolist()[:6] == [0, 10, 20, 21, 22, 23]
    assert record.trajectory.meta("source_step")[:6] == [None, None, None, 0, 10, 20]
    assert record.trajectory.meta("source_step")[-1] == 30


def test_P130_reset_timestep_under_attach(lammps, melt, tmp_path):
    """The error of the reporter ends the run and is raised by its command; the instance stays usable."""
    lmp = lammps(melt)
    reporter = MolrecReporter(lmp, tmp_path / "m.mrec", 10)
    reporter.attach()
    lmp.command("run 20")
    lmp.command("reset_timestep 0")
    with pytest.raises(ValueError, match="renumber=True"):
        lmp.command("run 50")
    assert lmp.extract_global("ntimestep") < 50
    record = open_record(tmp_path / "m.mrec")
    assert record.trajectory.steps.tolist() == [0, 10, 20]
    assert record.status["state"] == "failed"
    lmp.command("run 10")


def test_a_run_that_lammps_ends_has_failed(lammps, melt, tmp_path):
    """Lost atoms: LAMMPS raises, earlier frames stay, the status says why."""
    lmp = lammps(melt.replace("units lj", "units lj\nboundary f f f"), "velocity all set 50 0 0\nthermo 1\n")
    reporter = MolrecReporter(lmp, tmp_path / "m.mrec", 2)
    with pytest.raises(Exception, match="Lost atoms"):
        reporter.run(2000)
    record = open_record(tmp_path / "m.mrec")
    assert record.status["state"] == "failed"
    assert "Lost atoms" in record.status["error"]["message"]
    assert len(record.trajectory) >= 1
    with pytest.raises(ClosedError):
        reporter.run(10)


def test_a_run_that_a_timeout_ends_stops(lammps, melt, tmp_path):
    """`fix halt` or `timer timeout` end a run early; no frame is made up for the steps that were not run."""
    lmp = lammps(melt, "variable now equal step\nfix stop all halt 5 v_now >= 25 error continue\n")
    with MolrecReporter(lmp, tmp_path / "m.mrec", 10) as reporter:
        reporter.run(100)
    assert open_record(tmp_path / "m.mrec").trajectory.steps.tolist() == [0, 10, 20]


def test_frames_are_committed_by_time_and_flush(lammps, melt, tmp_path):
    with MolrecReporter(lammps(melt), tmp_path / "m.mrec", 10, flush_seconds=0.1) as reporter:
        reporter.run(10)
        deadline = time.monotonic() + 20
        while len(open_record(tmp_path / "m.mrec").trajectory) < 2:
            assert time.monotonic() < deadline, "nothing was committed"
            time.sleep(0.05)
        reporter.run(10)
        reporter.flush()
        record = open_record(tmp_path / "m.mrec")
        assert len(record.trajectory) == 3
        assert record.status["state"] == "running"


@pytest.mark.parametrize(
    ("ending", "state"), [("", "succeeded"), ("raise RuntimeError('out of luck')", "failed")]
)
def test_a_script_that_never_closes_keeps_its_frames(tmp_path, ending, state):
    script = f"""
import sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
from killed_run import START
from molrec_lammps import MolrecReporter, open_lammps
lmp = open_lammps("-log", "none", "-screen", "none")
lmp.commands_string(START + "fix run all nve")
reporter = MolrecReporter(lmp, {str(tmp_path / "m.mrec")!r}, 10, flush_seconds=None)
reporter.run(30)
{ending}
"""
    subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    record = open_record(tmp_path / "m.mrec")
    assert record.trajectory.steps.tolist() == [0, 10, 20, 30]
    assert record.status["state"] == state


# -- kill -9


def start(record, restart, steps):
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(record), str(restart), str(steps)], stdout=subprocess.PIPE
    )
    assert program.stdout.readline() == b"ready\n"
    return program


def finish(program):
    with program:
        program.stdout.read()
    assert program.returncode == 0


def kill(program):
    with program:
        program.send_signal(signal.SIGKILL)
    # A killed process cannot finalise MPI; what it leaves is named after it.
    for segment in Path("/dev/shm").glob(f"mpich_shm_{program.pid:x}_*"):
        segment.unlink()


def kill_and_compare(tmp_path, kills, steps):
    """Kill a run again and again, let it end, and compare its grid with one that was left alone."""
    program = start(tmp_path / "uncut.mrec", tmp_path / "uncut", steps)
    began = time.monotonic()
    finish(program)
    duration = time.monotonic() - began
    uncut = open_record(tmp_path / "uncut.mrec").trajectory
    chance = random.Random(9)
    reached = []
    for _ in range(kills):
        program = start(tmp_path / "m.mrec", tmp_path / "r", steps)
        time.sleep(chance.uniform(0.0, 2 * duration / (kills + 1)))
        kill(program)
        if (tmp_path / "m.mrec").exists():
            record = open_record(tmp_path / "m.mrec")
            there = record.trajectory.steps if "trajectory" in record else np.zeros(0)
            assert (np.diff(there) == 10).all()
            reached.append(len(there))
    finish(start(tmp_path / "m.mrec", tmp_path / "r", steps))
    trajectory = open_record(tmp_path / "m.mrec").trajectory
    assert trajectory.steps.tolist() == uncut.steps.tolist() == list(range(0, steps + 1, 10))
    assert np.allclose(trajectory.times, uncut.times)
    assert (trajectory.counts("atoms") == 108).all()
    print(f"an uncut run takes {duration:.2f} s; frames at each kill: {reached}")
    return reached


def test_P104_P105_P108_killed_run_restarted_has_the_grid_of_an_uncut_one(tmp_path):
    assert any(kill_and_compare(tmp_path, 3, 1000))


@pytest.mark.long
def test_P104_P105_P108_killed_20_times(tmp_path):
    assert len(set(kill_and_compare(tmp_path, 20, 4000))) > 5
