"""Building the states of a workload and looking at each of them."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest import mock

from molrec_core import (
    FormatError,
    Frame,
    MetricsWriter,
    RecordNotFoundError,
    SectionNotFoundError,
    TornIndexWarning,
    TrajectoryWriter,
    _array,
    fold_metrics,
    open_record,
    repair,
    validate,
)
from molrec_core._root import spare
from molrec_core.testing._disk import State, killed, lost_power
from molrec_core.testing._driver import NAME, Run, Workload, small_extents
from molrec_core.testing._expected import History, Image, Requirement, image
from molrec_core.testing._recorder import Operation, Recorder, Tree

SMALL_SECTOR, SECTOR = 64, 512


@dataclass
class Report:
    """What a campaign found.

    Attributes
    ----------
    tried, distinct : int
        States built, and those that differ from each other.
    failures : list of str
        Where and what; each with enough to build the state again.
    """

    name: str
    tried: int = 0
    distinct: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.name}: {self.tried} states, {self.distinct} distinct, {len(self.failures)} failed"


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a directory in memory where there is one, gone afterwards."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - states are rebuilt by the thousand
    top = Path(tempfile.mkdtemp(dir=memory))
    try:
        yield top
    finally:
        shutil.rmtree(top)


def record(workload: Workload, *, small: bool = True) -> tuple[Tree, list[Operation]]:
    """Run a workload and return what was there at first and every operation."""
    with scratch() as top, small_extents() if small else nullcontext():
        if workload.prepare is not None:
            workload.prepare(top)
        fail = None if workload.fail_sync is None else workload.fail_sync()
        with Recorder(top, fail) as recorder:
            workload.drive(Run(top, recorder.note, workload.before))
        return recorder.start, recorder.operations


def run(
    workload: Workload,
    *,
    least: int = 2000,
    seed: int = 0,
    small: bool = True,
    stop: bool = False,
    kills: bool = True,
    during: AbstractContextManager[object] | None = None,
) -> Report:
    """Record a workload, build its states and look at each.

    Parameters
    ----------
    least : int
        States to be drawn for a power loss; those of a killed process come on top.
    small : bool
        Scaled-down extents and sectors; the reference writer's and 512 bytes otherwise.
    stop : bool
        Stop at the first failure.
    kills : bool
        Also the states of a killed process.
    during : context manager, optional
        Entered while the writer runs and left before its states are looked at: what it
        switches off there has to show here.
    """
    with during or nullcontext():
        start, operations = record(workload, small=small)
    sector = SMALL_SECTOR if small else SECTOR
    report = Report(workload.name)
    seen: dict[int, Outcome] = {}
    with (
        scratch() as top,
        small_extents() if small else nullcontext(),
        mock.patch.multiple(os, fsync=_nothing, fdatasync=_nothing),
        # Nobody is about to complete a torn index.
        mock.patch.object(_array, "_PATIENCE", ()),
    ):
        for states in (
            killed(start, operations, sector) if kills else (),
            lost_power(start, operations, sector, Random(seed), least),  # noqa: S311 - drawn again from a seed
        ):
            for state in states:
                report.tried += 1
                key = state.key()
                outcome = seen.get(key)
                if outcome is None:
                    # A writer meets one half of the states as they are, the other one repaired.
                    outcome = seen[key] = look(top, state, workload, mend=bool(len(seen) % 2))
                wrong = outcome.broken(state.requirement)
                if wrong:
                    report.failures.append(f"{workload.name}, {state.at}: {wrong}")
                    if stop:
                        return report
                report.distinct = len(seen)
    return report


def _nothing(_fd: int) -> None:
    """Stand in for a sync: a state is looked at by the process that made it."""


@dataclass(slots=True)
class Outcome:
    """What one state reads as, and how it goes on.

    Attributes
    ----------
    images : list of Image or None
        The frames; None where there is no trajectory.
    problem : str or None
        What must not happen in any state.
    """

    images: list[Image] | None = None
    problem: str | None = None

    def broken(self, requirement: Requirement) -> str | None:
        """Say what is wrong; None when all is well."""
        return self.problem or requirement.broken_by(self.images)


def put(top: Path, state: State) -> None:
    """Put a state on disk."""
    for path in top.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in sorted(state.directories):
        (top / name).mkdir()
    for name, data in state.files.items():
        (top / name).write_bytes(data)


def frames_of(path: Path) -> list[Image]:
    """Read every frame of a record as values."""
    with open_record(path) as record:
        trajectory = record.trajectory
        steps, times = trajectory.steps.tolist(), trajectory.times
        return [
            image(frame, steps[i], None if times is None else float(times[i]))
            for i, frame in enumerate(trajectory)
        ]


def look(top: Path, state: State, workload: Workload, *, mend: bool) -> Outcome:
    """Open a state, read it and go on with it; before that, with `mend`, repair and validate it."""
    put(top, state)
    path = top / NAME
    archive = path.with_name(path.name + ".zip")
    outcome = Outcome()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TornIndexWarning)
            if workload.subject == "metrics":
                outcome.images = _points(path)
                _go_on_logging(path, outcome.images)
                return outcome
            if workload.subject == "archive" and archive.exists():
                outcome.images = frames_of(archive)
                return outcome
            outcome.images = _read(path, workload)
            if outcome.images is not None and mend:
                _mend(path if path.exists() else spare(path))
            _go_on(path, outcome.images or [], workload)
    except Exception as error:  # noqa: BLE001 - whatever comes out is the finding
        outcome.problem = f"{type(error).__name__}: {error}"
    return outcome


def _points(path: Path) -> list[Image]:
    with open_record(path) as record:
        if record.get("metrics") is None or "train/loss" not in record.metrics:
            return []
        series = record.metrics["train/loss"]
        assert series.steps is not None
        return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def _go_on_logging(path: Path, points: list[Image]) -> None:
    for step in (100, 101):
        with MetricsWriter(path) as metrics:
            metrics.append("train/loss", step / 2, step)
        points = [*points, (step, step / 2)]
        assert _points(path) == points, "logging on changed what was there, or was not read back"
        if step == 100:
            fold_metrics(path)
            assert _points(path) == points, "folding changed what was there"


def _read(path: Path, workload: Workload) -> list[Image] | None:
    try:
        if workload.system is not None:
            _check_system(path, workload.system)
        return frames_of(path)
    except (RecordNotFoundError, SectionNotFoundError):
        return None
    except FormatError as error:
        if error.kind == "no_section":
            return None
        raise


def _check_system(path: Path, system: Frame) -> None:
    with open_record(path) as record:
        assert image(record.system, 0, None) == image(system, 0, None), "the system is not what was written"


def _mend(path: Path) -> None:
    repair(path)
    errors = [p for p in validate(path, deep=True) if p.severity == "error" and p.kind != "no_section"]
    assert not errors, f"validate after repair: {errors[0]}"


def _go_on(path: Path, images: list[Image], workload: Workload) -> None:
    """Append to what is there, or start: what was read stays, what is appended comes back."""
    try:
        writer = TrajectoryWriter.reopen(path, schema=workload.schema)
    except RecordNotFoundError:
        writer = TrajectoryWriter(path, workload.schema, system=workload.system)
    added = History()
    assert (writer.last_step is None) == (not images), "reopen sees other frames than a reader"
    with writer:
        for i in range(2):
            frame, step, time = workload.more(90 + i)
            number = writer.last_step
            writer.append(frame, step, time)
            added.append(frame, (0 if number is None else number + 1) if step is None else step, time)
    found = frames_of(path)
    assert found[: len(images)] == images, "reopen changed frames that were there"
    # What the old frames carry forward into the new ones is theirs; the new ones present the blocks they compare.
    _same_appended(found[len(images) :], added.images)


def _same_appended(found: list[Image], appended: list[Image]) -> None:
    assert len(found) == len(appended), f"{len(found)} frames appended where {len(appended)} were"
    for got, put_in in zip(found, appended, strict=True):
        blocks = dict(got[0])
        assert {name: blocks.get(name) for name, _ in put_in[0]} == dict(put_in[0]), (
            "an appended frame reads otherwise"
        )
        assert got[3:] == put_in[3:], "an appended step or time reads otherwise"
