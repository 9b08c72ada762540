"""How a run begins, is followed, and ends: status, flushes, closing, failing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from molrec_core import ClosedError, open_record
from molrec_openmm import MolrecReporter

PROGRAM = str(Path(__file__).parent)


def attach(setup, path, interval=10, **options):
    simulation = setup.simulation()
    reporter = MolrecReporter(path, interval, **options)
    simulation.reporters.append(reporter)
    return simulation, reporter


def test_status_is_running_then_succeeded(argon, tmp_path):
    simulation, reporter = attach(argon, tmp_path / "a.mrec")
    simulation.step(20)
    assert open_record(tmp_path / "a.mrec").status["state"] == "running"
    reporter.flush()
    status = open_record(tmp_path / "a.mrec").status
    assert (status["state"], status["global_step"]) == ("running", 20)
    reporter.close()
    status = open_record(tmp_path / "a.mrec").status
    assert status["state"] == "succeeded"
    assert status["started_at"] <= status["updated_at"] == status["finished_at"]


def test_P117_nan_raises_and_earlier_frames_stay(argon, tmp_path):
    """As OpenMM's own reporters do; the status tells why the run ended."""
    simulation, _ = attach(argon, tmp_path / "a.mrec")
    simulation.step(20)
    broken = np.full((64, 3), np.nan)
    simulation.context.setPositions(broken)
    with pytest.raises(Exception, match=r"(?i)nan"):
        simulation.step(10)
    simulation.reporters[0].close(RuntimeError("stopped by NaN"))
    record = open_record(tmp_path / "a.mrec")
    assert record.trajectory.steps.tolist() == [10, 20]
    assert record.status["state"] == "failed"


@pytest.mark.parametrize(
    ("what", "value"), [("position", np.nan), ("position", np.inf), ("velocity", np.nan)]
)
def test_P117_a_state_with_nan_is_refused(argon, tmp_path, what, value):
    """The reporter looks itself, whatever OpenMM let through."""

    class Broken:
        def __init__(self, state):
            self.state = state

        def __getattr__(self, name):
            found = getattr(self.state, name)
            if name != {"position": "getPositions", "velocity": "getVelocities"}[what]:
                return found

            def broken(asNumpy=True):  # noqa: N803 - OpenMM's own
                values = found(asNumpy=True)
                values._value[3, 1] = value
                return values

            return broken

    simulation, reporter = attach(argon, tmp_path / "a.mrec", velocities=True)
    simulation.step(10)
    state = simulation.context.getState(positions=True, velocities=True, energy=True)
    with pytest.raises(ValueError, match=f"{what} is {'NaN' if np.isnan(value) else 'infinite'}"):
        reporter.report(simulation, Broken(state))
    record = open_record(tmp_path / "a.mrec")
    assert len(record.trajectory) == 1
    assert record.status["state"] == "failed"
    assert record.status["error"]["type"] == "ValueError"
    with pytest.raises(ClosedError):
        simulation.step(10)


def test_with_statement_states_a_failure_elsewhere(argon, tmp_path):
    simulation = argon.simulation()

    def run():
        with MolrecReporter(tmp_path / "a.mrec", 10) as reporter:
            simulation.reporters.append(reporter)
            simulation.step(10)
            print(1 / 0)

    with pytest.raises(ZeroDivisionError):
        run()
    status = open_record(tmp_path / "a.mrec").status
    assert status["state"] == "failed"
    assert "division" in status["error"]["message"]
    assert "ZeroDivisionError" in status["error"]["traceback"]


ENDINGS = [
    ("", "succeeded", 0),
    ("raise RuntimeError('out of luck')", "failed", 1),
    ("del reporter, run", "succeeded", 0),
]


@pytest.mark.parametrize(("ending", "state", "code"), ENDINGS)
def test_a_script_that_never_closes_keeps_its_frames(tmp_path, ending, state, code):
    """The interpreter's end commits, and the status says how it came."""
    script = f"""
import sys
sys.path.insert(0, {PROGRAM!r})
from killed_run import simulation
from molrec_openmm import MolrecReporter
run = simulation()
reporter = MolrecReporter({str(tmp_path / "a.mrec")!r}, 10, flush_seconds=None)
run.reporters.append(reporter)
run.step(30)
{ending}
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    record = open_record(tmp_path / "a.mrec")
    assert record.trajectory.steps.tolist() == [10, 20, 30]
    assert record.status["state"] == state
    assert ("error" in record.status) == (state == "failed")


def test_P97_flush_close_with_and_rename(argon, tmp_path):
    simulation, reporter = attach(argon, tmp_path / "a.mrec", flush_seconds=None)
    simulation.step(10)
    reporter.flush()
    assert len(open_record(tmp_path / "a.mrec").trajectory) == 1
    reporter.close()
    reporter.close()
    (tmp_path / "a.mrec").rename(tmp_path / "b.mrec")
    assert len(open_record(tmp_path / "b.mrec").trajectory) == 1
    with pytest.raises(ClosedError, match="append=True"):
        simulation.step(10)
    assert not (tmp_path / "a.mrec").exists()


def test_frames_are_committed_by_time(argon, tmp_path):
    """A slow run is committed by a timer, without a next report."""
    simulation, reporter = attach(argon, tmp_path / "a.mrec", flush_seconds=0.1)
    simulation.step(10)
    deadline = time.monotonic() + 20
    while len(open_record(tmp_path / "a.mrec").trajectory) == 0:
        assert time.monotonic() < deadline, "nothing was committed"
        time.sleep(0.05)
    reporter.close()


def test_P107_P167_a_reader_follows_whole_frames(argon, tmp_path):
    """Ten frames, then fifteen, while the reporter runs; each one whole."""
    simulation, reporter = attach(argon, tmp_path / "a.mrec", velocities=True)
    simulation.step(100)
    reporter.flush()
    trajectory = open_record(tmp_path / "a.mrec").trajectory
    assert len(trajectory) == 10
    simulation.step(50)
    reporter.flush()
    assert trajectory.refresh() == 15
    assert all(frame["atoms"].count == 64 and "pe" in frame.meta for frame in trajectory)
    reporter.close()


def test_a_step_that_goes_back_is_refused(argon, tmp_path):
    """Setting currentStep back while reporting would put two frames at one step."""
    simulation, _ = attach(argon, tmp_path / "a.mrec")
    simulation.step(30)
    simulation.currentStep = 0
    with pytest.raises(ValueError, match="steps increase strictly"):
        simulation.step(10)
    assert open_record(tmp_path / "a.mrec").trajectory.steps.tolist() == [10, 20, 30]


def test_a_simulation_does_not_wait_for_the_garbage_collector(argon, tmp_path):
    """Watching checkpoints must not keep a context alive."""
    import gc
    import weakref

    simulation, reporter = attach(argon, tmp_path / "a.mrec")
    simulation.step(10)
    gc.disable()
    try:
        alive = weakref.ref(simulation)
        del simulation
        assert alive() is None
    finally:
        gc.enable()
    reporter.close()
