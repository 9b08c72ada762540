"""Stores: the only module that opens files.

A store holds objects under keys. :class:`DirectoryStore` is a local record and the
only one that can be written; :class:`~molrec_core._zipstore.ZipStore` is a packed one,
read in place; :class:`ZarrStore` wraps any store of zarr-python, for everything that
is not local. Reads are positional, so threads and forked children may share them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from molrec_core.errors import FormatError, RecordNotFoundError

try:
    import fcntl
except ImportError:  # pragma: no cover - only where there is no POSIX
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from molrec_core._codecs import Buffer

ZARR_JSON = "zarr.json"
TEMPORARY = "zarr.json.tmp"
_MAX_OPEN = 200
_IOV_MAX = 1000
MAX_DOCUMENT = 64 * 2**20


class Store(Protocol):
    """What a reader needs of a store."""

    @property
    def path(self) -> str:
        """Where the record is, for messages."""

    def get(self, key: str, limit: int = MAX_DOCUMENT) -> bytes | None:
        """Return a whole object, refusing one of more than `limit` bytes; None when it is missing."""

    def size(self, key: str) -> int | None:
        """Return the length of an object in bytes; None when it is missing."""
        ...

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer at the end of the object."""
        ...

    def read_into(self, key: str, offset: int, buffers: Sequence[Buffer]) -> int:
        """Fill `buffers` one after the other from `offset`; return the bytes read."""
        ...

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """Return the sorted names of (directories, files) right below `key`."""
        ...

    def zarr(self) -> Any:
        """Return a read-only store of zarr-python over the same objects."""
        ...

    def close(self) -> None:
        """Let go of open files."""
        ...


def join(*parts: str) -> str:
    """Join parts of a key, leaving out empty ones."""
    return "/".join(part for part in parts if part)


class DirectoryStore:
    """A record that is a local directory.

    Links are not followed: a record holds everything it names, and nothing outside
    it is read or written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = Path(path)
        self._fds: dict[str, int] = {}
        self._guard = threading.Lock()
        self._checked: set[str] = set()
        self._identity = _inode(self.root)

    @property
    def path(self) -> str:
        """Where the record is."""
        return str(self.root)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path; files are opened anew."""
        return {"root": self.root}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open nothing before the first read."""
        self.__init__(state["root"])  # type: ignore[misc]

    # -- reading

    def _locate(self, key: str) -> str:
        """Return the file of `key` after checking, once a directory, that no link leads out of the record."""
        directory = key.rpartition("/")[0]
        if directory not in self._checked:
            at = str(self.root)
            for part in directory.split("/") if directory else []:
                at = f"{at}/{part}"
                if os.path.islink(at):
                    raise FormatError.one(
                        directory, "symlink", "a symbolic link inside a record is not followed"
                    )
            self._checked.add(directory)
        return f"{self.root}/{key}" if key else str(self.root)

    def _open(self, key: str, flags: int = os.O_RDONLY) -> int:
        try:
            fd = os.open(self._locate(key), flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise FormatError.one(
                    key, "symlink", "a symbolic link inside a record is not followed"
                ) from None
            raise
        return fd

    @contextlib.contextmanager
    def _reading(self, key: str) -> Iterator[int]:
        fd = self._fds.get(key)
        if fd is not None:
            yield fd
            return
        fd = self._open(key)
        with self._guard:
            keep = len(self._fds) < _MAX_OPEN and self._fds.setdefault(key, fd) == fd
        try:
            yield fd
        finally:
            if not keep:
                os.close(fd)

    def get(self, key: str, limit: int = MAX_DOCUMENT) -> bytes | None:
        """Return a whole object; None when it is missing."""
        try:
            fd = self._open(key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return None
            if status.st_size > limit:
                raise FormatError.one(
                    key, "too_large", f"{status.st_size} bytes where at most {limit} are expected"
                )
            data = os.read(fd, status.st_size + 1)
            while len(data) < status.st_size and (more := os.read(fd, status.st_size - len(data))):
                data += more
            return data
        finally:
            os.close(fd)

    def size(self, key: str) -> int | None:
        """Return the length of an object; None when it is missing."""
        try:
            with self._reading(key) as fd:
                return os.fstat(fd).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        with self._reading(key) as fd:
            if length > 2**22:  # What an index claims is not set aside before it is known to be there.
                length = max(0, min(length, os.fstat(fd).st_size - offset))
            data = os.pread(fd, length, offset)
            while len(data) < length and (more := os.pread(fd, length - len(data), offset + len(data))):
                data += more
            return data

    def read_into(self, key: str, offset: int, buffers: Sequence[Buffer]) -> int:
        """Fill `buffers` from `offset`; return the bytes read."""
        fd = self._fds.get(key)
        if fd is not None:
            return _scatter(fd, offset, buffers)
        with self._reading(key) as fd:
            return _scatter(fd, offset, buffers)

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """Return the names of (directories, files) right below `key`."""
        directories, files = [], []
        try:
            with os.scandir(self._locate(join(key, "x"))[:-2]) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise FormatError.one(
                            join(key, entry.name),
                            "symlink",
                            "a symbolic link inside a record is not followed",
                        )
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif entry.is_file(follow_symlinks=False) and entry.name != TEMPORARY:
                        files.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        return sorted(directories), sorted(files)

    def zarr(self) -> Any:
        """Return a read-only store of zarr-python over this directory."""
        from zarr.storage import LocalStore

        return LocalStore(self.root, read_only=True)

    def revalidate(self) -> None:
        """Let go of open files when another record has taken the place of the one they belong to."""
        identity = _inode(self.root)
        if self._identity != identity:
            self.close()
        self._identity = identity

    def close(self) -> None:
        """Close every file."""
        with self._guard:
            fds, self._fds = list(self._fds.values()), {}
        for fd in fds:
            os.close(fd)

    def __del__(self) -> None:
        """Close every file."""
        if hasattr(self, "_fds"):
            self.close()

    # -- writing: positional writes, atomic replacement, sync; the order is _commit's

    def mkdir(self, key: str) -> None:
        """Make the directory of `key` and those above it; the record's own must be there, not moved away."""
        if not self.root.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the record's directory is gone", self.path)
        Path(self._locate(join(key, "x"))[:-2]).mkdir(parents=True, exist_ok=True)

    def write(self, key: str, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write `buffers` one after the other at `offset`, making the file; return the bytes written."""
        fd = self._fds.get("w:" + key)
        if fd is not None:
            return _gather(fd, offset, buffers)
        fd = self._create(key)
        try:
            return _gather(fd, offset, buffers)
        finally:
            if len(self._fds) < _MAX_OPEN:
                self._fds["w:" + key] = fd
            else:
                os.close(fd)

    def _create(self, key: str, flags: int = os.O_RDWR | os.O_CREAT) -> int:
        try:
            return self._open(key, flags)
        except FileNotFoundError:
            self.mkdir(key.rpartition("/")[0])
            return self._open(key, flags)

    def replace(self, key: str, data: bytes) -> None:
        """Replace an object at once: write a temporary beside it, sync it, rename it over the old one."""
        directory = key.rpartition("/")[0]
        temporary = join(directory, TEMPORARY)
        self.create(temporary, data)
        self.sync_file(temporary)
        self.rename(temporary, key)

    def create(self, key: str, data: bytes) -> None:
        """Write a whole object, emptying what was there."""
        fd = self._create(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            _gather(fd, 0, [data])
        finally:
            os.close(fd)

    def truncate(self, key: str, size: int) -> None:
        """Cut an object to its first `size` bytes."""
        fd = self._open(key, os.O_WRONLY)
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)

    def rename(self, key: str, new: str) -> None:
        """Rename an object over another."""
        os.rename(self._locate(key), self._locate(new))

    def sync_file(self, key: str) -> None:
        """Sync the bytes and the length of an object to the disk."""
        fd = self._fds.get("w:" + key)
        if fd is not None:
            os.fdatasync(fd)
            return
        fd = self._open(key)
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def sync_directory(self, key: str) -> None:
        """Sync the entries of a directory to the disk."""
        sync_path(self._locate(join(key, "x"))[:-2])

    def release(self, key: str) -> None:
        """Close the file of an object that is written no more."""
        with self._guard:
            fd = self._fds.pop("w:" + key, None)
        if fd is not None:
            os.close(fd)

    def remove(self, key: str) -> None:
        """Remove an object, or everything below a key."""
        for opened in list(self._fds):
            # A file that is made anew under the same key is another one.
            name = opened.removeprefix("w:")
            if name == key or name.startswith(key + "/"):
                os.close(self._fds.pop(opened))
        path = Path(self._locate(key))
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _gather(fd: int, offset: int, buffers: Sequence[Buffer]) -> int:
    """Write byte buffers (one axis, one byte an item) one after the other."""
    total = 0
    for at in range(0, len(buffers), _IOV_MAX):
        batch = buffers[at : at + _IOV_MAX]
        length = sum(map(len, batch))
        done = os.pwritev(fd, batch, offset + total)
        while done < length:
            # A short write: go on behind it, piece by piece.
            rest = memoryview(b"".join(bytes(b) for b in batch))[done:]
            step = os.pwrite(fd, rest, offset + total + done)
            if step == 0:
                raise OSError(errno.EIO, "nothing could be written")
            done += step
        total += length
    return total


def _scatter(fd: int, offset: int, buffers: Sequence[Buffer]) -> int:
    """Fill byte buffers (one axis, one byte an item) one after the other."""
    total = 0
    for at in range(0, len(buffers), _IOV_MAX):
        batch = buffers[at : at + _IOV_MAX] if len(buffers) > _IOV_MAX else buffers
        length = sum(map(len, batch))
        done = os.preadv(fd, batch, offset + total)
        if done < length:
            done += _scatter_rest(fd, offset + total, batch, done)
        total += done
        if done < length:
            break
    return total


def _scatter_rest(fd: int, offset: int, buffers: Sequence[Buffer], done: int) -> int:
    """Read on behind a short read, buffer by buffer."""
    more, start = 0, 0
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        while start + len(view) > done + more:
            step = os.preadv(fd, [view[done + more - start :]], offset + done + more)
            if step == 0:
                return more
            more += step
        start += len(view)
    return more


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def sync_path(path: str | os.PathLike[str]) -> None:
    """Sync a directory given by its path."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def not_a_record(path: str, found: str) -> RecordNotFoundError:
    """Build the error of a path that holds no record."""
    return RecordNotFoundError(
        f"{found}; a record is a directory with a zarr.json, or a *.mrec.zip", loc=path
    )
