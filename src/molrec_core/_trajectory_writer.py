"""Writing a record frame by frame: made new, taken up again, given up.

What happens to a frame is in :mod:`molrec_core._appending`.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from molrec_core._appending import Appending
from molrec_core._commit import replace
from molrec_core._compression import Compression
from molrec_core._document import checked_document
from molrec_core._forcefield import ForceField, write_forcefield
from molrec_core._frame import Frame
from molrec_core._node import group_document
from molrec_core._pinning import pinned
from molrec_core._root import Root, write_failed
from molrec_core._schema import SequenceSchema
from molrec_core._store import ZARR_JSON, Store
from molrec_core._taking_up import take_up
from molrec_core.errors import CommitError

Path = str | os.PathLike[str]


class TrajectoryWriter(Appending):
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

    @classmethod
    @contextlib.contextmanager
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
    ) -> Iterator[Self]:
        """Write the trajectory of a record whose other sections are laid down; the root stays the caller's.

        Leaving finishes it; an error drops it and what it has not landed. Unknown attributes of the
        section's groups in the store `carry` are carried over.
        """
        writer = cls.__new__(cls)
        writer._set_up(compression, None, None, expected_frames)
        writer._schema = pinned(schema, precision)
        writer._precision = precision if schema is None else None
        writer._carry = carry
        writer._sections = dict(sections)
        writer._root = root
        writer._closed = False
        try:
            yield writer
            writer.finish()
        except BaseException:
            writer._drop()
            raise

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
            self._stale = taken.stale

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

    def abandon(self) -> None:
        """Give up without committing: a record being replaced stays, a new one goes."""
        self._drop()
        self._root.abandon()

    def _drop(self) -> None:
        self._committer.stop()
        self._closed = True

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


def _plain(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if document is None else dict(document)
