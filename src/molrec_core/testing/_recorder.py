"""Records what a writer asks of the file system, operation by operation.

The hooks sit on the functions of ``os`` that writing goes through, below every store
and every helper, so that nothing a writer does can pass by them. What is written
through other means (the ``zipfile`` module) is found at the next sync of the file.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock


@dataclass(frozen=True, slots=True)
class Enter:
    """A directory gains or changes an entry: a file made, a directory made (`directory`)."""

    parent: int
    name: str
    inode: int
    directory: bool = False


@dataclass(frozen=True, slots=True)
class Rename:
    """An entry moves to another name of the same directory, over what was there."""

    parent: int
    name: str
    new: str
    inode: int


@dataclass(frozen=True, slots=True)
class Remove:
    """A directory loses an entry."""

    parent: int
    name: str


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes land in a file."""

    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file changes its length."""

    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A file's bytes, or a directory's entries, are forced to the disk; `failed` ones never get there."""

    inode: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """What holds from here on: a requirement of the campaign, not an operation."""

    requirement: Any


Operation = Enter | Rename | Remove | Write | Truncate | Sync | Note


@dataclass(slots=True)
class Tree:
    """Inodes of a small file system: bytes of files, entries of directories; 0 is the top.

    Attributes
    ----------
    files : dict of int to bytes
    directories : dict of int to dict of str to int
    """

    files: dict[int, bytes] = field(default_factory=dict)
    directories: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})

    @classmethod
    def of(cls, top: Path) -> Tree:
        """Take up what is below a directory."""
        tree = cls()
        numbers = iter(range(1, 2**30))

        def take(path: Path, inode: int) -> None:
            for child in sorted(path.iterdir()):
                number = next(numbers)
                tree.directories[inode][child.name] = number
                if child.is_dir():
                    tree.directories[number] = {}
                    take(child, number)
                else:
                    tree.files[number] = child.read_bytes()

        take(top, 0)
        return tree

    def copy(self) -> Tree:
        """Copy the tree; bytes are shared."""
        return Tree(dict(self.files), {inode: dict(names) for inode, names in self.directories.items()})

    def apply(self, operation: Operation) -> None:
        """Carry out one operation."""
        match operation:
            case Enter(parent, name, inode, directory):
                self.directories[parent][name] = inode
                if directory:
                    self.directories.setdefault(inode, {})
                else:
                    self.files.setdefault(inode, b"")
            case Rename(parent, name, new, inode):
                # The inode is named, so that a rename may reach the disk before what made its source.
                entries = self.directories[parent]
                if entries.get(name) == inode:
                    del entries[name]
                entries[new] = inode
            case Remove(parent, name):
                self.directories[parent].pop(name, None)
            case Write(inode, offset, data):
                old = self.files.get(inode, b"")
                self.files[inode] = old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :]
            case Truncate(inode, size):
                self.files[inode] = self.files.get(inode, b"")[:size].ljust(size, b"\0")
            case Sync() | Note():
                pass

    def find(self, parts: tuple[str, ...]) -> int | None:
        """Return the inode at a path below the top; None when there is none."""
        inode: int | None = 0
        for part in parts:
            inode = self.directories.get(inode, {}).get(part) if inode is not None else None
        return inode

    def paths(self) -> tuple[dict[str, bytes], frozenset[str]]:
        """Return the bytes of every file and the names of every directory, by path."""
        files: dict[str, bytes] = {}
        directories: set[str] = set()
        stack = [("", 0)]
        while stack:
            prefix, inode = stack.pop()
            for name, child in self.directories[inode].items():
                path = prefix + name
                if child in self.directories:
                    directories.add(path)
                    stack.append((path + "/", child))
                else:
                    files[path] = self.files.get(child, b"")
        return files, frozenset(directories)


class Recorder:
    """Records every operation below a directory while it is entered.

    Parameters
    ----------
    top : Path
        What is there already counts as on disk.
    fail_sync : callable, optional
        Given the path below `top` of a file about to be synced; True makes that sync fail
        with EIO, as a disk does, after which the bytes it was for never reach the disk.

    Attributes
    ----------
    start : Tree
        What was there at first.
    operations : list of Operation
    """

    def __init__(self, top: Path, fail_sync: Callable[[str], bool] | None = None) -> None:
        self.top = Path(os.path.realpath(top))
        self.start = Tree.of(self.top)
        self.operations: list[Operation] = []
        self._now = self.start.copy()
        self._next = 1 + max((*self._now.files, *self._now.directories))
        self._fds: dict[int, tuple[str, ...]] = {}
        self._inodes: dict[int, int] = {}
        self._guard = threading.RLock()
        self._patches = mock.patch.multiple(os, **self._hooks())  # type: ignore[call-overload]  # names are known at run time
        self._fail = fail_sync

    def note(self, requirement: Any) -> None:
        """State what holds from here on."""
        with self._guard:
            self.operations.append(Note(requirement))

    def __enter__(self) -> Self:
        """Start recording."""
        self._patches.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and make sure that nothing passed by the hooks."""
        self._patches.stop()
        if kind is None:
            assert self._now.paths() == Tree.of(self.top).paths(), "an operation passed by the recorder"

    def _add(self, operation: Operation) -> None:
        self._now.apply(operation)
        self.operations.append(operation)

    def _parts(self, path: Any, dir_fd: int | None = None) -> tuple[str, ...] | None:
        """Return where a path lies below the top; None for a place elsewhere."""
        if isinstance(path, int):
            return self._fds.get(path)
        if dir_fd is not None:
            above = self._fds.get(dir_fd)
            return None if above is None else (*above, os.fspath(path))
        name = Path.cwd() / os.fspath(path)
        # The place itself may be gone already: only what is above it is resolved.
        name = Path(os.path.realpath(name.parent)) / name.name if name != self.top else name
        return name.relative_to(self.top).parts if name.is_relative_to(self.top) else None

    def _enter(self, parts: tuple[str, ...], *, directory: bool) -> int:
        parent = self._now.find(parts[:-1])
        assert parent is not None
        inode, self._next = self._next, self._next + 1
        self._add(Enter(parent, parts[-1], inode, directory))
        return inode

    def _opened(self, fd: int, parts: tuple[str, ...], flags: int) -> None:
        inode = self._now.find(parts)
        self._fds[fd] = parts
        if inode is None:
            inode = self._enter(parts, directory=False)
        elif flags & os.O_TRUNC and self._now.files[inode]:
            self._add(Truncate(inode, 0))
        self._inodes[fd] = inode
        if inode in self._now.files:
            self._adopt(fd, inode)

    def _adopt(self, fd: int, inode: int) -> None:
        """Take up what was written to a file by other means."""
        size = os.fstat(fd).st_size
        if size == len(self._now.files[inode]):
            return
        with Path(f"/proc/self/fd/{fd}").open("rb") as file:
            data = file.read()
        for at in range(0, len(data), 4096):
            self._add(Write(inode, at, data[at : at + 4096]))

    def _hooks(self) -> dict[str, Callable[..., Any]]:
        real = {
            name: getattr(os, name)
            for name in (*_WRITING, "open", "close", "mkdir", "unlink", "rename", "fsync", "fdatasync")
        }

        def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            with self._guard:
                fd: int = real["open"](path, flags, mode, dir_fd=dir_fd)
                parts = self._parts(path, dir_fd)
                if parts is not None:
                    self._opened(fd, parts, flags)
                return fd

        def close(fd: int) -> None:
            with self._guard:
                self._fds.pop(fd, None)
                self._inodes.pop(fd, None)
                real["close"](fd)

        def pwritev(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
            with self._guard:
                done: int = real["pwritev"](fd, buffers, offset, flags)
                if fd in self._inodes:
                    self._add(Write(self._inodes[fd], offset, b"".join(bytes(b) for b in buffers)[:done]))
                return done

        def pwrite(fd: int, data: Any, offset: int) -> int:
            return pwritev(fd, [data], offset)

        def ftruncate(fd: int, size: int) -> None:
            with self._guard:
                real["ftruncate"](fd, size)
                if fd in self._inodes:
                    self._add(Truncate(self._inodes[fd], size))

        def write(fd: int, data: Any) -> int:
            at = os.lseek(fd, 0, os.SEEK_CUR) if fd in self._inodes else 0
            done: int = real["write"](fd, data)
            if fd in self._inodes:
                with self._guard:
                    end = os.lseek(fd, 0, os.SEEK_CUR)
                    self._add(Write(self._inodes[fd], max(at, end - done), bytes(data)[:done]))
            return done

        return {
            "open": open_,
            "close": close,
            "pwritev": pwritev,
            "pwrite": pwrite,
            "ftruncate": ftruncate,
            "write": write,
            "fsync": self._fsync(real["fsync"]),
            "fdatasync": self._fsync(real["fdatasync"]),
            **self._entry_hooks(real),
        }

    def _fsync(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def fsync(fd: int) -> None:
            with self._guard:
                inode = self._inodes.get(fd)
                if inode is None:
                    real(fd)
                    return
                # Nothing survives this process, so the real sync is not waited for.
                failed = self._fail is not None and self._fail("/".join(self._fds[fd]))
                self._add(Sync(inode, failed))
                if failed:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))

        return fsync

    def _entry_hooks(self, real: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            with self._guard:
                real["mkdir"](path, mode, dir_fd=dir_fd)
                parts = self._parts(path, dir_fd)
                if parts:
                    self._enter(parts, directory=True)

        def removing(call: Callable[..., None]) -> Callable[..., None]:
            def remove(path: Any, *, dir_fd: int | None = None) -> None:
                with self._guard:
                    parts = self._parts(path, dir_fd)
                    call(path, dir_fd=dir_fd)
                    if parts:
                        parent = self._now.find(parts[:-1])
                        assert parent is not None
                        self._add(Remove(parent, parts[-1]))

            return remove

        def rename(src: Any, dst: Any, **kwargs: Any) -> None:
            with self._guard:
                old, new = self._parts(src), self._parts(dst)
                real["rename"](src, dst, **kwargs)
                if old and new:
                    assert old[:-1] == new[:-1], "the model knows renames within one directory"
                    parent = self._now.find(old[:-1])
                    inode = self._now.find(old)
                    assert parent is not None
                    assert inode is not None
                    self._add(Rename(parent, old[-1], new[-1], inode))
                    self._fds = {
                        fd: (*new, *p[len(old) :]) if p[: len(old)] == old else p
                        for fd, p in self._fds.items()
                    }

        return {
            "mkdir": mkdir,
            "unlink": removing(real["unlink"]),
            "remove": removing(real["unlink"]),
            "rmdir": removing(real["rmdir"]),
            "rename": rename,
            "replace": rename,
        }


_WRITING = ("pwritev", "pwrite", "ftruncate", "write", "rmdir")
