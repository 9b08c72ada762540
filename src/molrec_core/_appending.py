"""The run of a writer: from a frame that is appended to the commit that makes it durable.

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
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from molrec_core._column import land
from molrec_core._commit import Committer, create, execute
from molrec_core._compression import Compression
from molrec_core._frame import Frame
from molrec_core._pinning import declare_precision
from molrec_core._root import Root, write_failed
from molrec_core._schema import SequenceSchema
from molrec_core._sequence import SequenceWriter
from molrec_core._stack import FrameStack
from molrec_core._stacking import check_stack, take_stack
from molrec_core._store import Store
from molrec_core._taking_up import clear
from molrec_core.errors import ClosedError, CommitError, LockedError, SchemaError

_open_runs: weakref.WeakSet[Appending] = weakref.WeakSet()


class Appending:
    """Appends and commits; how it comes by its record and gives it up is the subclass's."""

    _root: Root
    _schema: SequenceSchema | None
    _precision: float | Mapping[str, float] | None
    _closed: bool

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
        self._stale: tuple[str, ...] = ()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._commit_lock = threading.RLock()
        self._failed: CommitError | None = None
        self._reported = True
        self._committed = 0
        self._automatic = 1
        self._since_flush = 0
        self._committer = Committer(_weakly(self))
        _open_runs.add(self)

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
            sequence = self._sequence or self._pinned_by(frame)
            checked = sequence.check(frame, step, time)
            if self._sequence is None:
                self._lay_down(sequence)
            if sequence.steps_given is None:
                sequence.steps_given = step is not None
            self._take(partial(sequence.take, frame, checked), 1)
        self._flush_when_due()

    def extend(
        self, stack: FrameStack, steps: Sequence[int] | None = None, times: Sequence[float] | None = None
    ) -> None:
        """Append frames in a row: the same as appending them one by one, and faster where they are small.

        Parameters
        ----------
        stack : FrameStack
        steps : sequence of int, optional
            Step number of each; 0 and then one more than the last by default.
        times : sequence of float, optional
            In record time units.

        Raises
        ------
        SchemaError
            A frame breaks the pin; nothing of the stack was taken.
        CommitError
            A write failed, now or behind an earlier append; reopen the record to go on.
        """
        n = stack.n_frames
        with self._lock:
            self._check_usable()
            if not n:
                return
            sequence = self._sequence or self._pinned_by(stack.frame(0))
            checked = check_stack(sequence, stack, steps, times)
            if self._sequence is None:
                self._lay_down(sequence)
            before = sequence.frames
        at = 0
        while at < n:
            # Between two pieces a commit behind may have its turn.
            with self._lock:
                self._check_usable()
                if sequence.frames != before + at:
                    raise SchemaError.one(
                        self.path, "stack", "another thread appended while the stack was taken"
                    )
                if sequence.steps_given is None:
                    sequence.steps_given = steps is not None
                stop = min(n, at + max(1, self._automatic - self._since_flush))
                self._take(partial(take_stack, sequence, stack, checked, at, stop), stop - at)
                at = stop
        self._flush_when_due()

    def _take(self, take: Callable[[], None], n_frames: int) -> None:
        """Take `n_frames` that are admitted, and land what is due."""
        try:
            take()
        except OSError as error:
            # A buffer was full and its chunks could not be landed.
            self._failed = write_failed(error, self.path, "chunks")
            raise self._failed from error
        self._since_flush += n_frames
        if self._flush_every is None and self._since_flush >= self._automatic:
            self._since_flush = 0
            self._land(tails=False)
            self._committer.request()
        elif self._flush_seconds is not None and self._since_flush == n_frames:
            self._committer.request(self._flush_seconds)

    def _flush_when_due(self) -> None:
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
            self._reported = True
            raise CommitError(
                f"an earlier write failed ({self._failed.message})",
                path=self._failed.path,
                stage=self._failed.stage,
            ) from self._failed

    def _pinned_by(self, frame: Frame) -> SequenceWriter:
        """Return a trajectory whose declaration the first frame pins, where none was given; nothing is on disk yet."""
        schema = self._schema
        if schema is None:
            schema = SequenceSchema.from_frames(frame)
            declare_precision(schema, self._precision)
            schema.check()
        for name, block in frame.items():
            schema.frame_rows.setdefault(name, block.count)
        return self._new_sequence(schema)

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
        """Lay the section down, the trajectory group last."""
        try:
            clear(self._root, self._stale)
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
            self._failed = write_failed(error, self.path, "chunks")
            raise self._failed from error

    # -- committing

    def _commit(self, *, final: bool) -> None:
        """Commit everything appended so far, durably."""
        with self._commit_lock:
            with self._lock:
                self._check_usable()
                sequence = self._sequence
                # What is due until now is covered; frames that come meanwhile ask anew.
                self._committer.done()
                if sequence is None or (
                    not final and sequence.frames == self._committed and not self._root.waiting
                ):
                    return
                self._since_flush = 0
                self._land(tails=True)
                plan = sequence.plan(final=final)
                frames = sequence.frames
            try:
                execute(self._root.store, plan, self._root.known)
                if self._root.waiting:
                    # No chunk may land by the old path while the record changes its place.
                    with self._lock:
                        self._root.publish()
                    self._root.drop_old()
            except OSError as error:
                failed = (
                    error if isinstance(error, CommitError) else write_failed(error, self.path, "overwrite")
                )
                self._failed = failed
                self._reported = threading.current_thread() is not self._committer.thread
                raise failed from error
            with self._lock:
                self._committed = frames
                for array in sequence.arrays():
                    for key in array.drop_finished():
                        self._root.store.release(key)

    def flush(self) -> None:
        """Commit every frame appended; when it returns they survive a power loss.

        Raises
        ------
        CommitError
        """
        self._commit(final=False)

    def finish(self) -> None:
        """Commit and make every length exact; the record stays the caller's."""
        self._committer.stop()
        try:
            if self._failed is None:
                if self._sequence is None:
                    schema = self._schema if self._schema is not None else SequenceSchema()
                    self._lay_down(self._new_sequence(schema))
                self._commit(final=True)
            elif not self._reported:
                # It happened behind the last append: nobody has been told that frames are missing.
                raise self._failed
        finally:
            self._closed = True

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

    def close(self) -> None:
        """Commit and give the record up."""
        raise NotImplementedError


def _weakly(run: Appending) -> Callable[[], None]:
    """Commit through a weak reference: the timer must not keep a forgotten writer alive."""
    reference = weakref.ref(run)

    def commit() -> None:
        alive = reference()
        if alive is not None and not alive._closed:
            alive._commit(final=False)

    return commit


def _close_all() -> None:
    # A script that ends without closing its writer keeps the frames it appended.
    for run in list(_open_runs):
        try:
            run.close()
        except Exception as error:  # noqa: BLE001 - the interpreter is going; say it and go on with the others
            warnings.warn(f"{run.path}: {error}", ResourceWarning, stacklevel=1)


atexit.register(_close_all)
