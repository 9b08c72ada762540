"""The place of a record: made new, put in place of an old one at once, taken up again.

An overwrite is written beside the old record and takes its place only when its first
commit is durable, so that a run that dies earlier has lost nothing. Between the two
renames the old record stands under its spare name, where the opener finds it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molrec_core._commit import Document, create, sync_parent, sync_tree
from molrec_core._document import checked_document, stamp
from molrec_core._frame import Frame
from molrec_core._group import write_frame
from molrec_core._node import group_document
from molrec_core._store import (
    ZARR_JSON,
    DirectoryStore,
    WriterLock,
    is_directory,
    list_names,
    make_directory,
    not_a_record,
    path_exists,
    remove_tree,
    rename_path,
)
from molrec_core.errors import CommitError, ReadOnlyError, RecordExistsError, RecordNotFoundError

DOCUMENTS = ("meta", "status", "method")


def record_path(path: str | os.PathLike[str]) -> Path:
    """Return the directory that `path` names for writing.

    Raises
    ------
    ReadOnlyError
        A packed record or a URL: neither can be written in place.
    """
    text = os.fspath(path)
    if "://" in text:
        msg = "a remote store cannot be appended to; write to a local directory, then upload or pack it"
        raise ReadOnlyError(msg, loc=text)
    plain = Path(text)
    if plain.name.endswith(".zip"):
        name = plain.name.removesuffix(".zip")
        msg = f"a packed record is not written in place; write to {name!r}, then pack it (molrec pack {name})"
        raise ReadOnlyError(msg, loc=text)
    return plain


def spare(path: Path) -> Path:
    """Where the old record stands while a new one takes its place."""
    return path.with_name(f".{path.name}.old")


def is_record(path: Path) -> bool:
    """Whether a directory holds a Zarr root."""
    return path_exists(path / ZARR_JSON)


class Root:
    """A record that is being written: its store, its lock, and how it comes into its place."""

    def __init__(self, store: DirectoryStore, lock: WriterLock, final: Path | None = None) -> None:
        self.store = store
        self.known: set[str] = set()
        self._locks = [lock]
        self._final = final
        self._fresh = False
        self._held = False
        if not lock.supported:
            warnings.warn(
                f"{store.path}: this file system has no flock; nothing keeps a second writer out", stacklevel=4
            )

    @classmethod
    def new(cls, path: str | os.PathLike[str], *, overwrite: bool, whole: bool = False) -> Root:
        """Make the directory of a new record, beside the old one when it is to be replaced.

        Parameters
        ----------
        whole : bool
            The record appears in its place only when :meth:`finish` is called.

        Raises
        ------
        RecordExistsError
            Something is there: a record and no `overwrite`, or what is no record.
        LockedError
            A live writer holds the record that is there.
        """
        final = record_path(path)
        _recover(final)
        exists = is_directory(final)
        if exists and is_record(final):
            if not overwrite:
                msg = "a record is there already; pass overwrite=True to replace it, or reopen it to append"
                raise RecordExistsError(msg, loc=str(final))
            return cls._beside(final, WriterLock(final), whole=whole)
        if path_exists(final) and not (exists and not list_names(final)):
            msg = "something that is not a record is there; it is never overwritten"
            raise RecordExistsError(msg, loc=str(final), kind="not_a_record")
        if not exists and not is_directory(final.absolute().parent):
            raise RecordNotFoundError(f"the directory {str(final.parent)!r} does not exist", loc=str(final))
        if whole:
            return cls._beside(final, None, whole=True)
        if not exists:
            make_directory(final)
        root = cls(DirectoryStore(final), WriterLock(final))
        root._fresh = True
        return root

    @classmethod
    def _beside(cls, final: Path, old: WriterLock | None, *, whole: bool) -> Root:
        try:
            path = final.with_name(f".{final.name}.new")
            if path_exists(path):
                # Left by a run that died before its first commit; the lock proves it is nobody's.
                WriterLock(path).release()
                remove_tree(path)
            make_directory(path)
            root = cls(DirectoryStore(path), WriterLock(path), final)
        except BaseException:
            if old is not None:
                old.release()
            raise
        if old is not None:
            root._locks.append(old)
        root._held = whole
        return root

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Root:
        """Take up a record that is there.

        Raises
        ------
        RecordNotFoundError, LockedError
        """
        final = record_path(path)
        _recover(final)
        if not is_directory(final) or not is_record(final):
            raise not_a_record(str(final), "there is no record to append to")
        return cls(DirectoryStore(final), WriterLock(final))

    @property
    def waiting(self) -> bool:
        """Whether the record still waits for its first commit to take its place."""
        return self._final is not None

    def lay_down(self, documents: Mapping[str, dict[str, Any] | None]) -> None:
        """Write the root, ``meta`` and then the other documents, durably (invariants 6 and 7)."""
        nodes: list[Document] = [
            (ZARR_JSON, group_document({}, "")),
            ("meta/zarr.json", group_document(stamp(documents.get("meta")), "meta")),
        ]
        for section in ("status", "method"):
            document = documents.get(section)
            if document is not None:
                nodes.append((f"{section}/{ZARR_JSON}", group_document(checked_document(section, document), section)))
        create(self.store, nodes, self.known)
        sync_parent(self.store)

    def write_system(self, system: Frame) -> None:
        """Write the ``system`` section."""
        write_frame(self.store, "system", system, sections={})

    def publish(self) -> None:
        """Put the record in its place, after its first commit: the old one goes last."""
        final = self._final
        if final is None or self._held:
            return
        self._final = None
        old = spare(final)
        if path_exists(old):
            remove_tree(old)
        if path_exists(final):
            rename_path(final, old)
        rename_path(self.store.root, final)
        self.store.root = final
        sync_parent(self.store)
        if path_exists(old):
            self._locks.pop().release()
            remove_tree(old)

    def finish(self) -> None:
        """Make a record without a trajectory, or a whole one, durable and put it in its place."""
        sync_tree(self.store, "")
        self._held = False
        self.publish()
        sync_parent(self.store)
        self.release()

    def release(self) -> None:
        """Close files and give up the lock."""
        self.store.close()
        for lock in self._locks:
            lock.release()

    def abandon(self) -> None:
        """Remove what was written; an old record stays as it was."""
        self.store.close()
        if self._final is not None or self._fresh:
            with contextlib.suppress(OSError):
                remove_tree(self.store.root)
        for lock in self._locks:
            lock.release()


def _recover(final: Path) -> None:
    """Put an old record back that an overwrite killed between its two renames left under its spare name."""
    old = spare(final)
    if not path_exists(final) and path_exists(old):
        rename_path(old, final)


def write_failed(error: OSError, path: str, stage: str) -> CommitError:
    """Build the error of a write that failed before a commit."""
    reason = error.strerror or str(error)
    hint = "; free space and reopen the record" if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
    return CommitError(f"{stage}: {reason}; the record stays at its last commit{hint}", path=path, stage=stage)
