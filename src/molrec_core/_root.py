"""The place of a record: made new, put in place of an old one at once, taken up again.

A record is laid down beside its place and renamed into it when its documents are
durable, so that no crash leaves half of one there. An overwrite takes the old one's
place only when its first commit is durable, so that a run that dies earlier has lost
nothing; between the two renames the old record stands under its spare name, where the
opener finds it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from molrec_core._commit import Document, create, replace, settle_entry, settle_tree
from molrec_core._document import check_version, checked_document, stamp
from molrec_core._fixed import get_group
from molrec_core._frame import Frame
from molrec_core._group import write_frame
from molrec_core._lock import WriterLock
from molrec_core._node import group_document
from molrec_core._paths import is_directory, list_names, make_directory, path_exists, remove_tree, rename_path
from molrec_core._store import ZARR_JSON, DirectoryStore, not_a_record
from molrec_core.errors import CommitError, ReadOnlyError, RecordError, RecordExistsError, RecordNotFoundError

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


def existing_store(path: Path) -> DirectoryStore:
    """Return the store of a record that is there and may be added to.

    Raises
    ------
    RecordNotFoundError
        There is none.
    UnsupportedVersionError
        It is of a version whose rules are not known here.
    """
    if not is_directory(path) or not is_record(path):
        raise not_a_record(str(path), "there is no record to append to")
    store = DirectoryStore(path)
    meta = get_group(store, "meta")
    check_version({} if meta is None else meta.attributes)
    return store


def drop_consolidated(store: DirectoryStore, known: set[str]) -> None:
    """Drop zarr-python's copy of every document from the root: it would go on stating what was there."""
    top = get_group(store, "")
    if top is not None and "consolidated_metadata" in top.document:
        replace(store, (ZARR_JSON, group_document(top.attributes, "", top.document)), known)


class Root:
    """A record that is being written: its store, its lock, and how it comes into its place."""

    def __init__(self, store: DirectoryStore, lock: WriterLock, final: Path | None = None) -> None:
        self.store = store
        self.known: set[str] = set()
        self._lock = lock
        self._old: WriterLock | None = None
        self._final = final
        self._fresh = False
        self._held = False
        if not lock.supported:
            warnings.warn(
                f"{store.path}: this file system has no flock; nothing keeps a second writer out",
                stacklevel=4,
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
        with _reported(final, "creation"):
            _recover(final)
            exists = is_directory(final)
            if exists and is_record(final):
                if not overwrite:
                    msg = "a record is there already; overwrite=True (--overwrite) replaces it, reopening it appends"
                    raise RecordExistsError(msg, loc=str(final))
                return cls._beside(final, WriterLock(final), whole=whole)
            if path_exists(final) and not (exists and not list_names(final)):
                msg = "something that is not a record is there; it is never overwritten"
                raise RecordExistsError(msg, loc=str(final), kind="not_a_record")
            if not exists and not is_directory(final.absolute().parent):
                raise RecordNotFoundError(
                    f"the directory {str(final.parent)!r} does not exist", loc=str(final)
                )
            return cls._beside(final, None, whole=whole)

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
        root._old = old
        root._fresh = old is None
        root._held = whole
        return root

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Root:
        """Take up a record that is there.

        Raises
        ------
        RecordNotFoundError, LockedError, UnsupportedVersionError
        """
        final = record_path(path)
        with _reported(final, "reopening"):
            _recover(final)
            return cls(existing_store(final), WriterLock(final))

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
                nodes.append(
                    (f"{section}/{ZARR_JSON}", group_document(checked_document(section, document), section))
                )
        create(self.store, nodes, self.known)

    def write_system(self, system: Frame) -> None:
        """Write the ``system`` section."""
        write_frame(self.store, "system", system, sections={})

    def settle(self) -> None:
        """Make what is laid down durable; a record that replaces none takes its place."""
        settle_tree(self.store, "")
        if self._fresh:
            self.publish()

    def publish(self) -> None:
        """Put the record in its place, after what it claims is durable; the old one stands aside."""
        final = self._final
        if final is None or self._held:
            return
        self._final = None
        old = spare(final)
        if path_exists(old):
            remove_tree(old)
        if is_record(final):
            rename_path(final, old)
        rename_path(self.store.root, final)
        self.store.root = final
        settle_entry(self.store)
        if self._old is not None:
            self._old.release()

    def drop_old(self) -> None:
        """Remove the record that was replaced; what cannot go now goes at the next overwrite."""
        if self._final is None and self._old is not None:
            with contextlib.suppress(OSError):
                remove_tree(spare(self.store.root))

    def finish(self) -> None:
        """Make a record without a trajectory, or a whole one, durable and put it in its place."""
        settle_tree(self.store, "")
        self._held = False
        self.publish()
        self.drop_old()
        self.release()

    def release(self) -> None:
        """Close files and give up the lock."""
        self.store.close()
        self._lock.release()
        if self._old is not None:
            self._old.release()

    def abandon(self) -> None:
        """Remove what was written; an old record stays as it was."""
        if self._final is not None or self._fresh:
            with contextlib.suppress(OSError):
                remove_tree(self.store.root)
        self.release()


def _recover(final: Path) -> None:
    """Put an old record back that an overwrite killed between its two renames left under its spare name."""
    old = spare(final)
    if not path_exists(final) and path_exists(old):
        # A live overwrite holds the lock; only a dead one's record is put back.
        WriterLock(old).release()
        rename_path(old, final)


@contextlib.contextmanager
def _reported(path: Path, stage: str) -> Iterator[None]:
    """Report what the file system refuses as ours."""
    try:
        yield
    except RecordError:
        raise
    except OSError as error:
        raise write_failed(error, str(path), stage) from error


def write_failed(error: OSError, path: str, stage: str) -> CommitError:
    """Build the error of a write that failed before a commit."""
    reason = error.strerror or str(error)
    hint = "; free space and reopen the record" if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
    return CommitError(
        f"{stage}: {reason}; the record stays at its last commit{hint}", path=path, stage=stage
    )
