"""Appending a trajectory: the path of a frame, and when it is committed.

A frame is checked, taken into the buffers of its arrays, and landed in whole chunks;
:mod:`molrec_core._commit` knows the order in which it becomes durable. Appending does
not wait for the disk: an automatic flush lands chunks at once, and the sync and the
marker follow behind, within a second.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from molrec_core._codecs import Compression
from molrec_core._column import land
from molrec_core._commit import Committer, create, execute, replace
from molrec_core._document import checked_document
from molrec_core._forcefield import ForceField, write_forcefield
from molrec_core._frame import Frame
from molrec_core._node import group_document
from molrec_core._pinning import declare_precision, pinned
from molrec_core._root import Root, write_failed
from molrec_core._schema import SequenceSchema
from molrec_core._sequence import SequenceWriter
from molrec_core._store import ZARR_JSON, Store
from molrec_core._taking_up import take_up
from molrec_core.errors import ClosedError, CommitError, LockedError, SchemaError

Path = str | os.PathLike[str]
_open_writers: weakref.WeakSet[TrajectoryWriter] = weakref.WeakSet()


class TrajectoryWriter:
    """Writes a record frame by frame; what is flushed survives whatever follows.

    Parameters
    ----------
    path : path-like
        A new directory, named ``*.mrec`` by custom.
    schema : SequenceSchema, optional
        The declaration; by default the first frame alone pins it.
    meta, status, method : dict, optional
        Documents of the record.
    system : Frame, optional
        What does not change: names, masses, bonds.
    forcefield : ForceField, optional
    overwrite : bool
        Replace a record that is there, at the first commit and at once.
    precision : float or mapping, optional
        Declared precision in the record's units: of x, y and z of ``atoms``, or
        {"block.column": precision}.
    compression : Compression, optional
        Of float columns.
    flush_every : int, optional
        Commit every n frames, before ``append`` returns.
    flush_seconds : float, optional
        Commit at the latest this long after a frame came, by a timer.
    expected_frames : int, optional
        A hint that keeps the indexes of a short record small.

    Raises
    ------
    RecordExistsError, LockedError, ReadOnlyError, SchemaError, CommitError
    """

    def __init__(
        self,
        path: Path,
        schema: SequenceSchema | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        system: Frame | None = None,
        status: Mapping[str, Any] | None = None,
        method: Mapping[str, Any] | None = None,
        forcefield: ForceField | None = None,
        overwrite: bool = False,
        precision: float | Mapping[str, float] | None = None,
        compression: Compression | None = None,
        flush_every: int | None = None,
        flush_seconds: float | None = None,
        expected_frames: int | None = None,
    ) -> None:
        self._set_up(compression, flush_every, flush_seconds, expected_frames)
        self._schema: SequenceSchema | None = pinned(schema, precision)
        self._precision: float | Mapping[str, float] | None = precision if schema is None else None
        self._closed = True
        self._root = Root.new(path, overwrite=overwrite)
        try:
            self._root.lay_down({"meta": _plain(meta), "status": _plain(status), "method": _plain(method)})
            if system is not None:
                self._root.write_system(system)
                self._sections["system"] = system
            if forcefield is not None:
                write_forcefield(self._root.store, forcefield, dict(meta or {}))
            self._root.settle()
        except OSError as error:
            self._root.abandon()
            raise write_failed(error, os.fspath(path), "creation") from error
        except BaseException:
            self._root.abandon()
            raise
        self._closed = False

    def _set_up(
        self,
        compression: Compression | None,
        flush_every: int | None,
        flush_seconds: float | None,
        expected_frames: int | None,
    ) -> None:
        if flush_every is not None and flush_every < 1:
            raise SchemaError.one(
                "", "flush_every", f"flush_every is {flush_every}; an integer >= 1 is expected"
            )
        self._compression = compression
        self._flush_every = flush_every
        self._flush_seconds = flush_seconds
        self._expected_frames = expected_frames
        self._sections: dict[str, Frame] = {}
        self._sequence: SequenceWriter | None = None
        self._schema = None
        self._precision = None
        self._carry: Store | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._commit_lock = threading.RLock()
        self._failed: CommitError | None = None
        self._committed = 0
        self._automatic = 1
        self._since_flush = 0
        self._committer = Committer(_weakly(self))
        _open_writers.add(self)

    @classmethod
    def over(
        cls,
        root: Root,
        sections: Mapping[str, Frame],
        schema: SequenceSchema | None,
        *,
        precision: float | Mapping[str, float] | None = None,
        compression: Compression | None = None,
        expected_frames: int | None = None,
        carry: Store | None = None,
    ) -> Self:
        """Write the trajectory of a record whose other sections are laid down; the root stays the caller's.

        Unknown attributes of the section's groups in the store `carry` are carried over.
        """
        writer = cls.__new__(cls)
        writer._set_up(compression, None, None, expected_frames)
        writer._schema = pinned(schema, precision)
        writer._precision = precision if schema is None else None
        writer._carry = carry
        writer._sections = dict(sections)
        writer._root = root
        writer._closed = False
        return writer

    @classmethod
    def reopen(
        cls,
        path: Path,
        *,
        after_step: int | None = None,
        schema: SequenceSchema | None = None,
        compression: Compression | None = None,
        flush_every: int | None = None,
        flush_seconds: float | None = None,
    ) -> Self:
        """Go on with a record that is there, from its last committed frame.

        Parameters
        ----------
        after_step : int, optional
            Drop the frames past this step first: those written after the checkpoint
            that the run restarts from.
        schema : SequenceSchema, optional
            Pins a trajectory that holds no frame yet; one with frames keeps its own.

        Raises
        ------
        RecordNotFoundError, LockedError, ReadOnlyError, FormatError, CommitError
        """
        writer = cls.__new__(cls)
        writer._set_up(compression, flush_every, flush_seconds, None)
        writer._closed = True
        writer._root = Root.existing(path)
        try:
            writer._take_up(schema, after_step)
        except OSError as error:
            writer._root.release()
            if isinstance(error, CommitError):
                raise
            raise write_failed(error, os.fspath(path), "reopening") from error
        except BaseException:
            writer._root.release()
            raise
        writer._closed = False
        return writer

    def _take_up(self, schema: SequenceSchema | None, after_step: int | None) -> None:
        taken = take_up(self._root, after_step)
        self._sections = taken.sections
        if taken.sequence is not None:
            self._committed = taken.sequence.frames
            self._begin(taken.sequence)
        else:
            self._schema = pinned(schema, None) or taken.pin

    # -- appending

    def append(self, frame: Frame, step: int | None = None, time: float | None = None) -> None:
        """Append a frame.

        Parameters
        ----------
        frame : Frame
            Blocks it omits carry forward, and so does its cell; an emptied block is
            presented with zero rows.
        step : int, optional
            Step number; 0 and then one more than the last by default. Given once means
            given always.
        time : float, optional
            In record time units; given for every frame or for none.

        Raises
        ------
        SchemaError
            The frame breaks the pin; nothing of it was taken.
        CommitError
            A write failed, now or behind an earlier append; reopen the record to go on.
        """
        with self._lock:
            self._check_usable()
            sequence = self._sequence
            if sequence is None:
                sequence = self._start(frame, step, time)
            checked = sequence.check(frame, step, time)
            if sequence.steps_given is None:
                sequence.steps_given = step is not None
            sequence.take(frame, checked)
            self._since_flush += 1
            if self._flush_every is None and self._since_flush >= self._automatic:
                self._since_flush = 0
                self._land(tails=False)
                self._committer.request()
            elif self._flush_seconds is not None and self._since_flush == 1:
                self._committer.request(self._flush_seconds)
        if self._flush_every is not None and self._since_flush >= self._flush_every:
            self._commit(final=False)

    def _check_usable(self) -> None:
        if self._closed:
            msg = "the writer is closed; TrajectoryWriter.reopen goes on with the record"
            raise ClosedError(msg, loc=self._root.store.path if hasattr(self, "_root") else "")
        if self._pid != os.getpid():
            msg = "a forked child must not write; reopen the record once the parent has closed it"
            raise LockedError(msg, loc=self._root.store.path, kind="forked")
        if self._failed is not None:
            raise CommitError(
                f"an earlier write failed ({self._failed.message})",
                path=self._failed.path,
                stage=self._failed.stage,
            ) from self._failed

    def _start(self, frame: Frame, step: int | None, time: float | None) -> SequenceWriter:
        """Pin the declaration and lay the section down, the trajectory group last."""
        schema = self._schema
        if schema is None:
            schema = SequenceSchema.from_frames(frame)
            declare_precision(schema, self._precision)
            schema.check()
        for name, block in frame.items():
            schema.frame_rows.setdefault(name, block.count)
        sequence = self._new_sequence(schema)
        sequence.check(frame, step, time)
        self._lay_down(sequence)
        return sequence

    def _new_sequence(self, schema: SequenceSchema) -> SequenceWriter:
        sequence = SequenceWriter(
            self._root.store,
            schema,
            self._sections,
            compression=self._compression,
            expected_frames=self._expected_frames,
        )
        if self._carry is not None:
            sequence.carry_attributes(self._carry)
        return sequence

    def _lay_down(self, sequence: SequenceWriter) -> None:
        try:
            create(self._root.store, sequence.creation(), self._root.known)
            create(self._root.store, [sequence.marker()], self._root.known)
        except OSError as error:
            self._failed = write_failed(error, self._root.store.path, "creation of the trajectory")
            raise self._failed from error
        self._begin(sequence)

    def _begin(self, sequence: SequenceWriter) -> None:
        self._sequence = sequence
        self._automatic = sequence.flush_frames()

    def _land(self, *, tails: bool) -> None:
        assert self._sequence is not None
        try:
            land(self._sequence.arrays(), tails=tails)
        except OSError as error:
            self._failed = write_failed(error, self._root.store.path, "chunks")
            raise self._failed from error

    # -- committing

    def _commit(self, *, final: bool) -> None:
        """Commit everything appended so far, durably."""
        with self._commit_lock:
            with self._lock:
                self._check_usable()
                sequence = self._sequence
                if sequence is None or (
                    not final and sequence.frames == self._committed and not self._root.waiting
                ):
                    self._committer.done()
                    return
                self._since_flush = 0
                self._land(tails=True)
                plan = sequence.plan(final=final)
                frames = sequence.frames
            try:
                execute(self._root.store, plan, self._root.known)
                self._root.publish()
            except OSError as error:
                failed = (
                    error if isinstance(error, CommitError) else write_failed(error, self.path, "overwrite")
                )
                self._failed = failed
                raise failed from error
            with self._lock:
                self._committed = frames
                for array in sequence.arrays():
                    for key in array.drop_finished():
                        self._root.store.release(key)
            self._committer.done()

    def flush(self) -> None:
        """Commit every frame appended; when it returns they survive a power loss.

        Raises
        ------
        CommitError
        """
        self._commit(final=False)

    def close(self) -> None:
        """Commit, make every length exact and give the record up; closing twice is allowed.

        Raises
        ------
        CommitError
            The last commit failed; the lock is released all the same.
        """
        if self._closed:
            return
        if self._pid != os.getpid():
            self._closed = True
            return
        try:
            self.finish()
        finally:
            self._root.release()

    def finish(self) -> None:
        """Commit and make every length exact; the record stays the caller's."""
        self._committer.stop()
        try:
            if self._failed is None:
                if self._sequence is None:
                    schema = self._schema if self._schema is not None else SequenceSchema()
                    self._lay_down(self._new_sequence(schema))
                self._commit(final=True)
        finally:
            self._closed = True

    def abandon(self) -> None:
        """Give up without committing: a record being replaced stays, a new one goes."""
        self._committer.stop()
        self._closed = True
        self._root.abandon()

    @property
    def path(self) -> str:
        """Where the record is."""
        return self._root.store.path

    @property
    def committed(self) -> int:
        """Frames that are durable."""
        return self._committed

    def __len__(self) -> int:
        """Return the number of frames appended, those not yet committed included."""
        return 0 if self._sequence is None else self._sequence.frames

    def __bool__(self) -> bool:
        """Return True: without content it is something still."""
        return True

    @property
    def schema(self) -> SequenceSchema | None:
        """A copy of the pinned declaration; None before the first frame pins it."""
        schema = self._sequence.schema if self._sequence is not None else self._schema
        return None if schema is None else schema.copy()

    @property
    def last_step(self) -> int | None:
        """Step of the last frame; None before the first."""
        return self._sequence.last_step if self._sequence is not None and self._sequence.frames else None

    def set_status(self, document: Mapping[str, Any]) -> None:
        """Replace the ``status`` document, durably.

        Raises
        ------
        SchemaError, CommitError
        """
        self._check_usable()
        checked = checked_document("status", dict(document))
        with self._commit_lock:
            try:
                replace(
                    self._root.store,
                    (f"status/{ZARR_JSON}", group_document(checked, "status")),
                    self._root.known,
                )
            except OSError as error:
                raise write_failed(error, self.path, "status") from error

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an error, a record that is not committed anywhere yet is given up."""
        if (
            kind is not None
            and not self._closed
            and self._committed == 0
            and (self._root.waiting or not len(self))
        ):
            self.abandon()
        else:
            self.close()

    def __del__(self) -> None:
        """Commit what was appended, and say that the writer was left open."""
        if not getattr(self, "_closed", True) and self._pid == os.getpid():
            warnings.warn(
                f"{self.path}: the writer was not closed", ResourceWarning, stacklevel=2, source=self
            )
            self.close()


def _weakly(writer: TrajectoryWriter) -> Any:
    """Commit through a weak reference: the timer must not keep a forgotten writer alive."""
    reference = weakref.ref(writer)

    def commit() -> None:
        alive = reference()
        if alive is not None and not alive._closed:
            alive._commit(final=False)

    return commit


def _close_all() -> None:
    # A script that ends without closing its writer keeps the frames it appended.
    for writer in list(_open_writers):
        try:
            writer.close()
        except Exception as error:  # noqa: BLE001 - the interpreter is going; say it and go on with the others
            warnings.warn(f"{writer.path}: {error}", ResourceWarning, stacklevel=1)


atexit.register(_close_all)


def _plain(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if document is None else dict(document)
