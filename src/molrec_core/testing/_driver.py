"""A writer that keeps account of what it has promised, and what a workload is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from molrec_core import (
    Block,
    Box,
    Frame,
    FrameStack,
    SequenceSchema,
    TrajectoryWriter,
    _commit,
    _extents,
    _series,
)
from molrec_core.testing._expected import Allowed, History, Requirement

NAME = "run.mrec"
Note = Callable[[Requirement], None]


@contextmanager
def small_extents() -> Iterator[None]:
    """Scale chunks, shards and flushes down, so that a few frames cross every border; 64-byte sectors go with it.

    The thread that commits behind an append is left out: the run itself says when.
    """
    with ExitStack() as stack:
        stack.enter_context(
            mock.patch.multiple(_extents, COLUMN_CHUNK_BYTES=96, SHARD_BYTES=8 * 96, FLUSH_BYTES=300)
        )
        stack.enter_context(
            mock.patch.multiple(_series, DENSE_CHUNK_ROWS=4, DENSE_CHUNKS_PER_SHARD=6, _SPILL=4)
        )
        stack.enter_context(mock.patch.object(_commit.Committer, "request", return_value=None))
        yield


class Run:
    """A writer that keeps account of what it has promised."""

    def __init__(self, top: Path, note: Note, before: tuple[Allowed, ...]) -> None:
        self.path = top / NAME
        self.note = note
        self.history = History()
        self.durable: int | None = None
        self.before = before
        self.writer: TrajectoryWriter
        self.tell()

    def tell(self, more: int = 0) -> None:
        """State what holds from here on, `more` frames being under way."""
        least = self.durable or 0
        now = Allowed(self.history, least, len(self.history.images) + more)
        self.note(Requirement((*self.before, now), none=self.durable is None and not self.before))

    def start(self, schema: SequenceSchema | None = None, **options: Any) -> None:
        """Begin a record."""
        self.writer = TrajectoryWriter(self.path, schema, meta={"units": {"preset": "lj"}}, **options)

    def reopen(self, **options: Any) -> None:
        """Go on with the record."""
        self.writer = TrajectoryWriter.reopen(self.path, **options)

    def append(self, frame: Frame, step: int | None = None, time: float | None = None) -> None:
        """Append a frame; it may show from now on."""
        number = self.writer.last_step
        self.history.append(frame, (0 if number is None else number + 1) if step is None else step, time)
        self.tell()
        self.writer.append(frame, step, time)

    def extend(self, frames: list[Frame]) -> None:
        """Append frames at once; each may show from now on."""
        first = 0 if self.writer.last_step is None else self.writer.last_step + 1
        for i, frame in enumerate(frames):
            self.history.append(frame, first + i, None)
        self.tell()
        self.writer.extend(FrameStack.from_frames(frames))

    def settle(self) -> None:
        """Commit as the thread behind an append does."""
        self.writer._commit(final=False)
        self.done()

    def flush(self) -> None:
        """Commit on request."""
        self.writer.flush()
        self.done()

    def close(self) -> None:
        """Close the writer."""
        self.writer.close()
        self.done()

    def done(self) -> None:
        """Count what was appended as durable."""
        self.durable = len(self.history.images)
        self.before = ()
        self.tell()


def atoms(i: int, n: int = 3, **more: Any) -> Block:
    """Build `n` atoms that moved, told apart by frame, row and axis; two axes do, every column is alike."""
    columns: dict[str, Any] = {axis: i + np.arange(n) / 16 + k / 4 for k, axis in enumerate("xy")}
    return Block(columns | more)


def moving(i: int) -> Frame:
    """Build a frame of three atoms in a fixed cell."""
    return Frame({"atoms": atoms(i)}, box=Box(np.diag([9.0, 9.0, 9.0])))


@dataclass(frozen=True)
class Workload:
    """A run to be recorded.

    Attributes
    ----------
    name : str
    drive : callable
        Runs the writer below a directory.
    more : callable
        Frame, step and time number i of those that a writer who goes on appends.
    prepare : callable, optional
        Done before the recording starts.
    fail_sync : callable, optional
        See :class:`~molrec_core.testing._recorder.Recorder`.
    schema : SequenceSchema, optional
        For a writer that has to start anew.
    before : tuple of Allowed
        What is there before the recording starts.
    system : Frame, optional
        What the record must hold beside its trajectory, in every state that has one.
    subject : {"trajectory", "archive", "metrics"}
        What is read and gone on with.
    """

    name: str
    drive: Callable[[Run], None]
    more: Callable[[int], tuple[Frame, int | None, float | None]] = lambda i: (moving(i), None, None)
    prepare: Callable[[Path], None] | None = None
    fail_sync: Callable[[], Callable[[str], bool]] | None = None
    schema: SequenceSchema | None = None
    before: tuple[Allowed, ...] = ()
    system: Frame | None = None
    subject: str = "trajectory"
