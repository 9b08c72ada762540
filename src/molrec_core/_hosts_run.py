"""The record of a running simulation: begun or gone on with, its status kept, ended whatever happens."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
import warnings
import weakref
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from molrec_core._paths import is_directory, list_names, path_exists
from molrec_core._record import Record, open_record
from molrec_core._root import record_path
from molrec_core._trajectory_writer import TrajectoryWriter
from molrec_core.errors import (
    ClosedError,
    FormatError,
    Problem,
    RecordError,
    RecordExistsError,
    RecordNotFoundError,
    SchemaError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from molrec_core._compression import Compression
    from molrec_core._frame import Frame
    from molrec_core._schema import SequenceSchema

Path = str | os.PathLike[str]
# What a reporter lays down before its first frame; a record of these alone has nothing to lose.
_LAID_DOWN = frozenset({"meta", "status", "method", "system", "trajectory"})
_open_runs: weakref.WeakSet[RunRecord] = weakref.WeakSet()


class RunRecord:
    """The record that a reporter of a simulation engine appends to.

    Parameters
    ----------
    path : path-like
    append : bool
        Go on with a record that is there; a new one is made where there is none.
    overwrite : bool
        Replace a record that is there, at the first commit and at once.
    flush_seconds : float, optional
        Commit at the latest this long after a frame came.
    compression : Compression, optional

    Attributes
    ----------
    resumed : bool
        Whether the run goes on with a record that was there, frames in it or not.

    Raises
    ------
    RecordExistsError
        Something is there, and neither `append` nor `overwrite` was asked for; it stays as it was.
    ReadOnlyError
        A packed record or a URL.
    ValueError
        Both were asked for.
    """

    def __init__(
        self,
        path: Path,
        *,
        append: bool = False,
        overwrite: bool = False,
        flush_seconds: float | None = 5.0,
        compression: Compression | None = None,
    ) -> None:
        if append and overwrite:
            raise ValueError("append goes on with a record, overwrite replaces it; ask for one of the two")
        place = record_path(path)
        there = path_exists(place) and not (is_directory(place) and not list_names(place))
        if there and not (append or overwrite):
            raise RecordExistsError(
                "something is there already; pass append=True to go on with it or overwrite=True to replace it",
                loc=str(place),
            )
        self.path = str(place)
        self.resumed = append and there
        self._overwrite = overwrite
        self._flush_seconds = flush_seconds
        self._compression = compression
        self._writer: TrajectoryWriter | None = None
        self._closed = False
        self._pid = os.getpid()
        self._started_at = ""
        self._step: int | None = None
        _open_runs.add(self)

    # -- beginning

    def existing(self) -> Record | None:
        """Return the record to go on with, open for reading; None where the run begins a new one.

        Raises
        ------
        FormatError
            What is there breaks the contract.
        RecordExistsError
            ``no_frames``: it holds other sections than a reporter lays down, and no frames.
        """
        if not self.resumed:
            return None
        try:
            record = open_record(self.path)
            frames = len(record.trajectory) if "trajectory" in record.sections else 0
        except RecordNotFoundError:
            # Killed while its directory was made; the writer refuses what is no record of ours.
            return None
        except FormatError as error:
            if error.kind != "no_section":
                raise
            self._overwrite = True
            return None
        if frames == 0 and _LAID_DOWN.issuperset(record.sections):
            # Killed before its first commit: begun again, so that it gets this run's own declaration.
            record.close()
            self._overwrite = True
            return None
        if frames == 0:
            raise RecordExistsError(
                f"the record holds {', '.join(record.sections)} and no frames to go on with; write to a new one",
                kind="no_frames",
                loc=self.path,
            )
        return record

    def start(
        self,
        schema: SequenceSchema,
        *,
        meta: Mapping[str, Any],
        method: Mapping[str, Any],
        system: Frame | None = None,
    ) -> None:
        """Begin a new record.

        Raises
        ------
        RecordExistsError, LockedError, SchemaError, CommitError
        """
        self._started_at = _now()
        self._writer = TrajectoryWriter(
            self.path,
            schema,
            meta={"created_at": self._started_at, **meta},
            system=system,
            method=method,
            status=self._status("running"),
            overwrite=self._overwrite,
            compression=self._compression,
            flush_seconds=self._flush_seconds,
        )

    def resume(self, record: Record, schema: SequenceSchema, *, step: int, interval: int) -> None:
        """Go on with `record` from a simulation that stands at `step`; frames past it are dropped.

        Parameters
        ----------
        record : Record
            From :meth:`existing`; closed here.
        schema : SequenceSchema
            What this run is going to write.
        step : int
            Step the simulation stands at, after its checkpoint was loaded.
        interval : int
            Steps between two frames.

        Raises
        ------
        SchemaError
            The record declares something else than `schema`.
        RecordExistsError
            ``not_restarted``: the simulation is at step 0, and the record's frames would be lost.
        LockedError, FormatError, CommitError

        Warns
        -----
        UserWarning
            Steps before `step` are missing: the checkpoint was written without a flush.
        """
        with record:
            _check_declared(record.trajectory.schema, schema)
            steps = record.trajectory.steps
            status = record.status if "status" in record.sections else {}
        kept = int(np.searchsorted(steps, step, side="right"))
        if step == 0 and kept < len(steps):
            raise RecordExistsError(
                f"the simulation is at step 0, so going on would drop {len(steps) - kept} frames up to step "
                f"{steps[-1]}; load the checkpoint first, or pass overwrite=True to begin again",
                kind="not_restarted",
                loc=self.path,
            )
        if kept:
            following = int(steps[kept - 1]) // interval * interval + interval
            if following < step:
                warnings.warn(
                    f"{self.path} has no frames from step {following} to before {step}, where the simulation stands; "
                    "flush the reporter before a checkpoint is written",
                    stacklevel=5,
                )
        self._started_at = str(status.get("started_at", _now()))
        self._writer = TrajectoryWriter.reopen(
            self.path,
            after_step=step,
            schema=schema,
            compression=self._compression,
            flush_seconds=self._flush_seconds,
        )
        self._step = self._writer.last_step
        self._writer.set_status(self._status("running"))

    @property
    def started(self) -> bool:
        """Whether the record was begun or gone on with."""
        return self._writer is not None

    @property
    def last_step(self) -> int | None:
        """Step of the last frame; None before the first."""
        return None if self._writer is None else self._writer.last_step

    # -- going on

    def _open_writer(self) -> TrajectoryWriter:
        if self._closed or self._writer is None:
            msg = "the reporter is closed; a new one with append=True goes on with the record"
            raise ClosedError(msg if self._closed else "the record was not begun yet", loc=self.path)
        return self._writer

    def check_open(self) -> None:
        """Raise ClosedError after :meth:`close`."""
        if self._closed:
            self._open_writer()

    def append(self, frame: Frame, step: int, time: float | None) -> None:
        """Append a frame.

        Raises
        ------
        SchemaError, CommitError, ClosedError
        """
        self._open_writer().append(frame, step=step, time=time)
        self._step = step

    def flush(self) -> None:
        """Commit every frame and note the step reached; nothing to do before the first step or after the end.

        Raises
        ------
        CommitError
        """
        if self._writer is None or self._closed:
            return
        self._writer.flush()
        self._writer.set_status(self._status("running"))

    def close(self, error: BaseException | None = None) -> None:
        """Commit, state how the run ended and give the record up; closing twice is allowed.

        Parameters
        ----------
        error : exception, optional
            What ended the run: its status is ``failed`` then, else ``succeeded``.

        Raises
        ------
        CommitError
            The last commit failed; the lock is released all the same.
        """
        writer, closed = self._writer, self._closed
        self._closed = True
        if writer is None or closed or os.getpid() != self._pid:
            return
        if error is not None and self._overwrite and not len(writer):
            # The record that was to be replaced is worth more than none.
            writer.abandon()
            return
        try:
            writer.flush()
            writer.set_status(self._status("succeeded" if error is None else "failed", error))
        except RecordError as failure:
            if error is None:
                with contextlib.suppress(RecordError):
                    writer.set_status(self._status("failed", failure))
                raise
        finally:
            writer.close()

    def __del__(self) -> None:
        """End the run of a reporter that nobody holds any more."""
        if not getattr(self, "_closed", True):
            self.close()

    def _status(self, state: str, error: BaseException | None = None) -> dict[str, Any]:
        now = _now()
        document: dict[str, Any] = {"state": state, "started_at": self._started_at, "updated_at": now}
        if self._step is not None and self._step >= 0:
            document["global_step"] = self._step
        if state != "running":
            document["finished_at"] = now
        if error is not None:
            document["error"] = {
                "message": str(error) or type(error).__name__,
                "type": type(error).__name__,
                "traceback": "".join(traceback.format_exception(error)),
            }
        return document


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _check_declared(found: SequenceSchema, ours: SequenceSchema) -> None:
    """Refuse to go on with a record that declares other columns or keys than this run writes."""
    for name, block in ours.blocks.items():
        loc = f"trajectory/{name}"
        other = found.blocks.get(name)
        if other is None:
            raise _differs(loc, "is not declared in the record", "this run writes it")
        columns = {c: replace(spec, extra={}) for c, spec in block.columns.items()}
        stored = {c: replace(spec, extra={}) for c, spec in other.columns.items()}
        for column in sorted(columns.keys() | stored.keys()):
            if columns.get(column) != stored.get(column):
                raise _differs(
                    f"{loc}/{column}",
                    f"the record declares {stored.get(column) or 'no such column'}",
                    f"this run writes {columns.get(column) or 'none'}",
                )
    for key in sorted(found.meta.keys() | ours.meta.keys()):
        have, want = found.meta.get(key), ours.meta.get(key)
        if (
            (have is None)
            or (want is None and not have.has_fill)
            or (want is not None and want.tag != have.tag)
        ):
            raise _differs(
                f"trajectory/meta/{key}",
                f"the record declares {have.tag if have else 'no such key'}",
                f"this run writes {want.tag if want else 'none'}",
            )


def _differs(loc: str, found: str, ours: str) -> SchemaError:
    message = (
        f"{found}, {ours}; give the reporter the settings the record was begun with, or write to a new one"
    )
    return SchemaError([Problem(loc, "pin_differs", message)])


def _close_all() -> None:
    """End the runs that are still open; a script that died of an exception has failed."""
    # At a prompt the last exception may be long past, and says nothing about the run.
    interactive = hasattr(sys, "ps1")
    error = None if interactive else getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for run in list(_open_runs):
        try:
            run.close(error)
        except Exception as failure:  # noqa: BLE001 - the interpreter is going; say it and go on with the others
            warnings.warn(f"{run.path}: {failure}", ResourceWarning, stacklevel=1)


# Registered after the core's own hook, and so called before it: the status is the last word.
atexit.register(_close_all)
