"""The advisory lock of a record's one writer."""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from typing import Any

from molrec_core.errors import LockedError

try:
    import fcntl
except ImportError:  # pragma: no cover - only where there is no POSIX
    fcntl: Any = None  # type: ignore[no-redef]

_locks: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class WriterLock:
    """The advisory lock of a record's one writer: flock on its directory, nothing left in the store.

    Raises
    ------
    LockedError
        Another live writer holds it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.supported = True
        self.pid = os.getpid()
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        _locks.add(self)
        try:
            if fcntl is None:
                raise OSError(errno.ENOSYS, "no flock")  # noqa: TRY301 - the same as a file system without it
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._drop()
            msg = "another live writer holds this record; close it first"
            raise LockedError(msg, loc=str(path)) from None
        except OSError as error:
            if error.errno not in {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL}:
                self._drop()
                raise
            self.supported = False
        self._check_in_place(path)

    def _check_in_place(self, path: str | os.PathLike[str]) -> None:
        """Refuse a directory that was replaced between its opening and its locking."""
        try:
            moved = not os.path.samestat(os.fstat(self._fd), os.stat(path))
        except FileNotFoundError:
            moved = True
        if moved:
            self.release()
            msg = "another writer has just replaced this record; try again"
            raise LockedError(msg, loc=str(path))

    def _drop(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def release(self) -> None:
        """Give the lock up."""
        if self.supported and self._fd >= 0 and os.getpid() == self.pid:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._drop()


def _after_fork() -> None:
    # The child's copy would keep the record locked after the parent has died.
    for lock in list(_locks):
        lock._drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
