"""Runs that stop and go on: one step grid, no gap, no duplicate, nothing lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from openmm import app

from molrec_core import LockedError, RecordExistsError, SchemaError, open_record
from molrec_openmm import MolrecReporter

PROGRAM = Path(__file__).with_name("killed_run.py")


def positions(record):
    return record.trajectory.read("atoms", ["x", "y", "z"])


def run_to(setup, path, steps, interval=50, checkpoint=None, start=None, **options):
    """One leg of a run: from a checkpoint or the beginning to `steps`; a checkpoint at its end."""
    simulation = setup.simulation()
    if start is not None:
        simulation.loadCheckpoint(str(start))
    with MolrecReporter(path, interval, **options) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(steps - simulation.currentStep)
    if checkpoint is not None:
        simulation.saveCheckpoint(str(checkpoint))
    return open_record(path)


@pytest.mark.parametrize("stop", [250, 230], ids=["on the grid", "off the grid"])
def test_P53_P58_P95_restart_has_the_grid_of_an_uncut_run(argon, tmp_path, stop):
    """50, 100, ..., 500 with the very positions of an uninterrupted run."""
    uncut = run_to(argon, tmp_path / "uncut.mrec", 500)
    run_to(argon, tmp_path / "a.mrec", stop, checkpoint=tmp_path / "c.chk")
    record = run_to(argon, tmp_path / "a.mrec", 500, start=tmp_path / "c.chk", append=True)
    assert record.trajectory.steps.tolist() == list(range(50, 501, 50))
    assert np.array_equal(positions(record), positions(uncut))
    assert np.array_equal(record.trajectory.times, uncut.trajectory.times)
    assert np.array_equal(record.trajectory.meta("etotal"), uncut.trajectory.meta("etotal"))


def test_P56_P57_frames_after_the_checkpoint_are_dropped(argon, tmp_path):
    """An older checkpoint: what came after it is written once more, not twice."""
    uncut = run_to(argon, tmp_path / "uncut.mrec", 400)
    run_to(argon, tmp_path / "a.mrec", 120, checkpoint=tmp_path / "c.chk")
    run_to(argon, tmp_path / "a.mrec", 400, start=tmp_path / "c.chk", append=True)
    record = run_to(argon, tmp_path / "a.mrec", 300, start=tmp_path / "c.chk", append=True)
    assert record.trajectory.steps.tolist() == list(range(50, 301, 50))
    assert np.array_equal(positions(record), positions(uncut)[:6])


def test_P94_append_of_a_run_at_step_0_loses_nothing(argon, tmp_path):
    """Who forgot to load the checkpoint is told, and the night's run stays."""
    run_to(argon, tmp_path / "a.mrec", 200)
    with pytest.raises(RecordExistsError, match="load the checkpoint first") as told:
        run_to(argon, tmp_path / "a.mrec", 200, append=True)
    assert told.value.kind == "not_restarted"
    assert len(open_record(tmp_path / "a.mrec").trajectory) == 4


def test_overwrite_replaces(argon, tmp_path):
    run_to(argon, tmp_path / "a.mrec", 200)
    record = run_to(argon, tmp_path / "a.mrec", 100, overwrite=True)
    assert record.trajectory.steps.tolist() == [50, 100]


def test_overwrite_of_a_run_that_fails_at_once_keeps_the_old_record(argon, tmp_path):
    run_to(argon, tmp_path / "a.mrec", 200)
    simulation = argon.simulation()
    reporter = MolrecReporter(tmp_path / "a.mrec", 50, overwrite=True)
    simulation.reporters.append(reporter)
    reporter.describeNextReport(simulation)
    reporter.close(RuntimeError("no step was taken"))
    assert len(open_record(tmp_path / "a.mrec").trajectory) == 4


def test_P62_append_is_decided_by_its_mode_alone(argon, tmp_path):
    """append=True begins a record where there is none, at time 0 as well."""
    record = run_to(argon, tmp_path / "a.mrec", 100, append=True)
    assert record.trajectory.steps.tolist() == [50, 100]
    (tmp_path / "empty.mrec").mkdir()
    assert len(run_to(argon, tmp_path / "empty.mrec", 100, append=True).trajectory) == 2


def test_append_to_a_record_without_frames_begins_it_again(argon, tmp_path):
    """A run killed before its first commit leaves a record without frames."""
    run_to(argon, tmp_path / "a.mrec", 20, checkpoint=tmp_path / "c.chk")
    assert len(open_record(tmp_path / "a.mrec").trajectory) == 0
    record = run_to(argon, tmp_path / "a.mrec", 100, start=tmp_path / "c.chk", append=True, velocities=True)
    assert record.trajectory.steps.tolist() == [50, 100]
    assert "vx" in record.trajectory[0]["atoms"]


def test_P118_frames_are_found_by_the_step_of_a_checkpoint(argon, tmp_path):
    record = run_to(argon, tmp_path / "a.mrec", 250, checkpoint=tmp_path / "c.chk")
    simulation = argon.simulation()
    simulation.loadCheckpoint(str(tmp_path / "c.chk"))
    at = int(np.searchsorted(record.trajectory.steps, simulation.currentStep))
    assert record.trajectory.steps[at] == 250
    x = simulation.context.getState(positions=True, enforcePeriodicBox=True).getPositions(asNumpy=True)
    assert np.array_equal(positions(record)[at], x._value * 10)


DIFFERENT = [
    ({"velocities": True}, "trajectory/atoms/vx"),
    ({"energies": False}, "trajectory/meta/etotal"),
    ({"precision": 1e-3}, "trajectory/atoms/x"),
    ({"atomSubset": [1, 2, 3]}, "system/atoms"),
]


@pytest.mark.parametrize(("options", "loc"), DIFFERENT)
def test_append_with_other_settings_is_refused_before_a_frame_goes(argon, tmp_path, options, loc):
    run_to(argon, tmp_path / "a.mrec", 100, checkpoint=tmp_path / "c.chk")
    run_to(argon, tmp_path / "a.mrec", 200, start=tmp_path / "c.chk", append=True)
    with pytest.raises(SchemaError) as told:
        run_to(argon, tmp_path / "a.mrec", 300, start=tmp_path / "c.chk", append=True, **options)
    assert told.value.problems[0].loc == loc
    assert len(open_record(tmp_path / "a.mrec").trajectory) == 4


def test_extra_values_go_on(argon, tmp_path):
    def extra(simulation, state):
        return {"bias": simulation.currentStep / 2}

    run_to(argon, tmp_path / "a.mrec", 100, checkpoint=tmp_path / "c.chk", extra=extra)
    record = run_to(argon, tmp_path / "a.mrec", 200, start=tmp_path / "c.chk", append=True, extra=extra)
    assert record.trajectory.meta("bias").tolist() == [25.0, 50.0, 75.0, 100.0]


def test_P96_one_writer_at_a_time(argon, tmp_path):
    """A second live reporter is refused; after close a new one opens."""
    run_to(argon, tmp_path / "a.mrec", 50, checkpoint=tmp_path / "c.chk")
    first, second = argon.simulation(), argon.simulation()
    for simulation in (first, second):
        simulation.loadCheckpoint(str(tmp_path / "c.chk"))
        simulation.reporters.append(MolrecReporter(tmp_path / "a.mrec", 50, append=True))
    first.step(50)
    with pytest.raises(LockedError):
        second.step(50)
    first.reporters[0].close()
    second.step(100)
    second.reporters[0].close()
    assert open_record(tmp_path / "a.mrec").trajectory.steps.tolist() == [50, 100, 150]


def test_checkpoints_commit_the_frames_before_them(argon, tmp_path):
    """saveCheckpoint, saveState and so CheckpointReporter are never ahead of the record."""
    simulation = argon.simulation()
    with MolrecReporter(tmp_path / "a.mrec", 10, flush_seconds=None) as reporter:
        simulation.reporters += [reporter, app.CheckpointReporter(str(tmp_path / "c.chk"), 50)]
        simulation.step(45)
        assert len(open_record(tmp_path / "a.mrec").trajectory) == 0
        simulation.step(5)
        assert (tmp_path / "c.chk").exists()
        assert open_record(tmp_path / "a.mrec").trajectory.steps.tolist()[:4] == [10, 20, 30, 40]
        simulation.step(20)
        simulation.saveState(str(tmp_path / "state.xml"))
        assert len(open_record(tmp_path / "a.mrec").trajectory) == 7
    assert "<State" in (tmp_path / "state.xml").read_text()


def test_P58_the_frame_of_the_checkpoints_own_step_is_written_where_it_is_missing(argon, tmp_path):
    """A run killed between its checkpoint of step 50 and its frame of step 50 has both after a restart."""
    uncut = run_to(argon, tmp_path / "uncut.mrec", 100, interval=10)
    simulation = argon.simulation()
    with MolrecReporter(tmp_path / "a.mrec", 10) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(40)
    simulation.reporters.clear()
    simulation.step(10)
    simulation.saveCheckpoint(str(tmp_path / "c.chk"))
    record = run_to(argon, tmp_path / "a.mrec", 100, interval=10, start=tmp_path / "c.chk", append=True)
    assert record.trajectory.steps.tolist() == list(range(10, 101, 10))
    assert np.array_equal(positions(record), positions(uncut))
    assert record.trajectory.meta("pe").tolist() == uncut.trajectory.meta("pe").tolist()


def test_a_gap_before_the_checkpoint_is_told(argon, tmp_path):
    run_to(argon, tmp_path / "a.mrec", 100)
    simulation = argon.simulation()
    simulation.currentStep = 300
    with MolrecReporter(tmp_path / "a.mrec", 50, append=True) as reporter:
        simulation.reporters.append(reporter)
        with pytest.warns(UserWarning, match="no frames from step 150 to before 300"):
            simulation.step(50)


# -- kill -9


def start(record, checkpoint, steps):
    environment = os.environ | {"OPENMM_CPU_THREADS": "1"}
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(record), str(checkpoint), str(steps)],
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert program.stdout.readline() == b"ready\n"
    return program


def finish(program):
    with program:
        program.stdout.read()
    assert program.returncode == 0


def kill_and_compare(tmp_path, kills, steps):
    """Kill a run again and again, let it end, and compare it with one that was left alone."""
    program = start(tmp_path / "uncut.mrec", tmp_path / "uncut.chk", steps)
    began = time.monotonic()
    finish(program)
    duration = time.monotonic() - began
    uncut = open_record(tmp_path / "uncut.mrec")
    chance = random.Random(8)
    reached = []
    for _ in range(kills):
        program = start(tmp_path / "a.mrec", tmp_path / "a.chk", steps)
        time.sleep(chance.uniform(0.0, 2 * duration / (kills + 1)))
        with program:
            program.send_signal(signal.SIGKILL)
        # No lock, flag or repair: it opens at whatever was committed.
        if (tmp_path / "a.mrec").exists():
            record = open_record(tmp_path / "a.mrec")
            steps_there = record.trajectory.steps if "trajectory" in record else np.zeros(0)
            assert (np.diff(steps_there) == 10).all()
            reached.append(len(steps_there))
    finish(start(tmp_path / "a.mrec", tmp_path / "a.chk", steps))
    record = open_record(tmp_path / "a.mrec")
    assert record.trajectory.steps.tolist() == list(range(10, steps + 1, 10))
    assert np.array_equal(positions(record), positions(uncut))
    assert np.array_equal(record.trajectory.times, uncut.trajectory.times)
    assert record.trajectory.meta("etotal").tolist() == uncut.trajectory.meta("etotal").tolist()
    print(f"an uncut run takes {duration:.2f} s; frames at each kill: {reached}")
    return reached


def test_P104_P105_P108_killed_run_restarted_equals_an_uncut_one(tmp_path):
    assert any(kill_and_compare(tmp_path, 3, 2000))


@pytest.mark.long
def test_P104_P105_P108_killed_20_times(tmp_path):
    reached = kill_and_compare(tmp_path, 20, 8000)
    assert len(set(reached)) > 5
