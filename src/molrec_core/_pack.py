"""The at-rest form: a closed record as one ``*.mrec.zip``, and back.

"At-rest form" of the chunking chapter; checklist group Z. Entries are stored, sorted
and stamped alike, so packing twice gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from molrec_core._commit import put_file, settle_entry, settle_tree
from molrec_core._lock import WriterLock
from molrec_core._paths import is_directory, make_directory, path_exists, remove_tree, rename_path
from molrec_core._root import is_record, record_path
from molrec_core._store import DirectoryStore, Store, join, not_a_record
from molrec_core._zipstore import ZipStore, write_zip
from molrec_core.errors import CommitError, RecordError, RecordExistsError

Progress = Callable[[int], None]


def files_below(store: DirectoryStore | ZipStore, key: str = "") -> Iterator[str]:
    """Iterate over the keys of every file below `key`; links are refused, temporaries left out."""
    directories, files = store.children(key)
    for name in files:
        yield join(key, name)
    for name in directories:
        yield from files_below(store, join(key, name))


def pack(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    remove: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Pack a closed record into one file.

    Parameters
    ----------
    path : path-like
        The record's directory.
    out : path-like, optional
        ``<stem>.mrec.zip`` beside it by default.
    remove : bool
        Remove the directory once the archive is durable.
    progress : callable, optional
        Called with the bytes of each file as it is packed.

    Returns
    -------
    pathlib.Path
        The archive.

    Raises
    ------
    RecordNotFoundError, RecordExistsError
    LockedError
        A live writer holds the record: close it first.
    CommitError
        The archive could not be written; the record is as it was.
    """
    directory = record_path(path)
    if not is_directory(directory) or not is_record(directory):
        raise not_a_record(str(directory), "there is no record to pack")
    target = Path(out) if out is not None else directory.with_name(directory.name + ".zip")
    if path_exists(target) and not overwrite:
        msg = "the archive is there already; remove it or name another with out="
        raise RecordExistsError(msg, loc=str(target))
    lock = WriterLock(directory)
    store = DirectoryStore(directory)
    try:
        put_file(target, lambda temporary: write_zip(temporary, store, sorted(files_below(store)), progress))
        if remove:
            remove_tree(directory)
            settle_entry(store)
    except OSError as error:
        if isinstance(error, RecordError):
            raise
        raise _stopped(error, target, "packing") from error
    finally:
        store.close()
        lock.release()
    return target


def unpack(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
) -> Path:
    """Unpack a ``*.mrec.zip`` into a directory that can be appended to.

    Parameters
    ----------
    out : path-like, optional
        The archive's name without ``.zip`` by default.

    Returns
    -------
    pathlib.Path
        The record's directory; it appears complete or not at all.

    Raises
    ------
    RecordNotFoundError, RecordExistsError
    FormatError
        Members that lead out of the record, occur twice or are compressed.
    RecordError
        ``remote``: a URL.
    """
    archive = _archive(path)
    target = Path(out) if out is not None else archive.with_name(archive.name.removesuffix(".zip"))
    if target == archive:
        target = archive.with_name(archive.name + ".mrec")
    if path_exists(target):
        msg = "something is there already; remove it or name another with out="
        raise RecordExistsError(msg, loc=str(target))
    source = ZipStore(archive)
    temporary = target.with_name(f".{target.name}.new")
    try:
        if path_exists(temporary):
            remove_tree(temporary)
        make_directory(temporary)
        store = DirectoryStore(temporary)
        for key in files_below(source):
            copy_file(source, store, key)
            if progress is not None:
                progress(source.size(key) or 0)
        settle_tree(store, "")
        rename_path(temporary, target)
        settle_entry(DirectoryStore(target))
    except OSError as error:
        _give_up(temporary)
        if isinstance(error, RecordError):
            raise
        raise _stopped(error, target, "unpacking") from error
    except BaseException:
        _give_up(temporary)
        raise
    finally:
        source.close()
    return target


def _archive(path: str | os.PathLike[str]) -> Path:
    if "://" in os.fspath(path):
        msg = f"archives on this machine are unpacked; molrec convert {path} run.mrec makes a directory of this one"
        raise RecordError(msg, kind="remote", loc=os.fspath(path))
    if not path_exists(Path(path)) or is_directory(Path(path)):
        raise not_a_record(str(path), "there is no archive to unpack")
    return Path(path)


def _stopped(error: OSError, target: Path, stage: str) -> CommitError:
    reason = error.strerror or str(error)
    return CommitError(f"{stage}: {reason}; what was there is as it was", path=str(target), stage=stage)


def _give_up(temporary: Path) -> None:
    if path_exists(temporary):
        remove_tree(temporary)


_PIECE = 2**22


def copy_file(source: Store, target: DirectoryStore, key: str) -> None:
    """Copy one file verbatim, piece by piece."""
    size = source.size(key) or 0
    target.create(key, source.read(key, 0, min(size, _PIECE)))
    for at in range(_PIECE, size, _PIECE):
        target.write(key, at, [source.read(key, at, min(size - at, _PIECE))])
    target.release(key)


def copy_tree(source: Store, target: DirectoryStore, *, skip: set[str], key: str = "") -> None:
    """Copy every file verbatim, known or not; keys in `skip` and what is below them are left out."""
    directories, files = source.children(key)
    for name in files:
        if join(key, name) not in skip:
            copy_file(source, target, join(key, name))
    for name in directories:
        if join(key, name) not in skip:
            target.mkdir(join(key, name))
            copy_tree(source, target, skip=skip, key=join(key, name))
