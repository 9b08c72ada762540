"""Packed records: ``*.mrec.zip`` read in place, member by member, without unpacking.

"At-rest form" of the chunking chapter; checklist group Z. Members are stored, so a
range of a chunk is a range of the archive. An archive that another tool made with
one leading directory opens too; deflated members are refused with the way out.
"""

from __future__ import annotations

import os
import struct
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from molrec_core._remote import WINDOW, reaching
from molrec_core._store import MAX_DOCUMENT, ZARR_JSON, _scatter
from molrec_core.errors import FormatError

if TYPE_CHECKING:
    from molrec_core._codecs import Buffer

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_LOCAL_MAGIC = b"PK\3\4"
# Windows that are kept of an archive behind a URL: documents are read again and again.
_WINDOWS = 16


def member_problem(name: str) -> str | None:
    """Say why `name` may not name a member of a packed record; None when it may (Z03)."""
    parts = name.rstrip("/").split("/")
    if name.startswith("/") or "\\" in name or "\0" in name or any(part in {"", ".", ".."} for part in parts):
        return f"the member {name!r} is absolute or leads out of the record"
    return None


class ZipStore:
    """A packed record on a local path, or behind an opener of binary files.

    Parameters
    ----------
    path : path-like
        The archive, for messages and for local reads.
    opener : callable, optional
        Returns a seekable binary file; for archives that are not local.

    Raises
    ------
    FormatError
        Not a zip, members that lead out of the record, occur twice or are compressed.
    """

    def __init__(self, path: str | os.PathLike[str], opener: Callable[[], IO[bytes]] | None = None) -> None:
        self._path = os.fspath(path)
        self._opener = opener
        self._lock = threading.Lock()
        self._file: IO[bytes] = opener() if opener else Path(self._path).open("rb")
        self._local = opener is None
        self._pid = os.getpid()
        self._starts: dict[str, int] = {}
        self._windows: list[tuple[int, bytes]] = []
        try:
            self._members = self._read_directory()
        except BaseException:
            self._file.close()
            raise
        self._tree = self._build_tree()

    @property
    def path(self) -> str:
        """Where the archive is."""
        return self._path

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path; the archive is opened anew."""
        return {"path": self._path, "opener": self._opener}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the archive."""
        self.__init__(state["path"], state["opener"])  # type: ignore[misc]

    def _read_directory(self) -> dict[str, zipfile.ZipInfo]:
        try:
            with reaching(self._path):
                if not self._local:
                    # zipfile takes four steps from the end to the directory: here they are one request.
                    self._pread(max(0, self._file.seek(0, os.SEEK_END) - WINDOW), 0, ahead=WINDOW)
                with zipfile.ZipFile(self._file) as archive:
                    infos = archive.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, struct.error) as error:
            raise FormatError.one(self._path, "bad_zip", f"not a readable zip archive: {error}") from None
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            problem = member_problem(info.filename)
            if problem:
                raise FormatError.one(self._path, "zip_member_name", problem)
            if info.is_dir():
                continue
            if info.filename in members:
                raise FormatError.one(
                    self._path, "zip_duplicate", f"the member {info.filename!r} occurs twice"
                )
            members[info.filename] = info
        self._check_apart(members)
        members = _without_leading_directory(members)
        for name, info in members.items():
            if (
                info.compress_type != zipfile.ZIP_STORED
                or info.flag_bits & 0x1
                or info.compress_size != info.file_size
            ):
                raise FormatError.one(
                    name,
                    "zip_compressed",
                    "the member is compressed or encrypted; unzip the archive and pack it again",
                )
        return members

    def _check_apart(self, members: dict[str, zipfile.ZipInfo]) -> None:
        """Refuse members that share bytes, or one that is a directory too: unpacked they would not stay small."""
        end = 0
        for info in sorted(members.values(), key=lambda info: info.header_offset):
            if info.header_offset < end:
                raise FormatError.one(
                    self._path, "zip_overlap", f"the member {info.filename!r} shares bytes with another one"
                )
            end = info.header_offset + _LOCAL_HEADER.size + len(info.filename) + info.compress_size
            above = info.filename.rpartition("/")[0]
            while above:
                if above in members:
                    text = f"the member {above!r} is a file, and {info.filename!r} lies below it"
                    raise FormatError.one(self._path, "zip_member_name", text)
                above = above.rpartition("/")[0]

    def _build_tree(self) -> dict[str, tuple[set[str], set[str]]]:
        tree: dict[str, tuple[set[str], set[str]]] = {"": (set(), set())}
        for name in self._members:
            directory, _, leaf = name.rpartition("/")
            tree.setdefault(directory, (set(), set()))[1].add(leaf)
            while directory:
                above, _, leaf = directory.rpartition("/")
                tree.setdefault(above, (set(), set()))[0].add(leaf)
                directory = above
        return tree

    def _start(self, key: str, info: zipfile.ZipInfo) -> int:
        """Find where the bytes of a member begin: its local header says how long it is."""
        start = self._starts.get(key)
        if start is None:
            header = self._pread(info.header_offset, _LOCAL_HEADER.size, ahead=WINDOW)
            if len(header) < _LOCAL_HEADER.size or header[:4] != _LOCAL_MAGIC:
                raise FormatError.one(
                    key, "bad_zip", "the member's local header is not where the directory says"
                )
            fields = _LOCAL_HEADER.unpack(header)
            start = info.header_offset + _LOCAL_HEADER.size + fields[9] + fields[10]
            self._starts[key] = start
        return start

    def _pread(self, offset: int, length: int, ahead: int = 0) -> bytes:
        """Read bytes of the archive; over a network, keep as many behind them as `ahead` says."""
        if self._local:
            data = os.pread(self._file.fileno(), length, offset)
            while len(data) < length and (
                more := os.pread(self._file.fileno(), length - len(data), offset + len(data))
            ):
                data += more
            return data
        if self._opener and self._pid != os.getpid():
            # Connections stay with the parent of a forked child, and so does a lock that it held. Its file
            # is kept: letting go of it would complain about what is open.
            self._parents, self._file = self._file, self._opener()
            self._lock, self._pid = threading.Lock(), os.getpid()
        with self._lock:
            for start, data in self._windows:
                if start <= offset and offset + length <= start + len(data):
                    return data[offset - start : offset - start + length]
            with reaching(self._path):
                self._file.seek(offset)
                data = self._file.read(length + ahead)
            if ahead:
                self._windows = [(offset, data), *self._windows[: _WINDOWS - 1]]
            return data[:length]

    def get(self, key: str, limit: int = MAX_DOCUMENT) -> bytes | None:
        """Return a whole member; None when it is missing."""
        info = self._members.get(key)
        if info is None:
            return None
        if info.file_size > limit:
            raise FormatError.one(
                key, "too_large", f"{info.file_size} bytes where at most {limit} are expected"
            )
        return self._pread(self._start(key, info), info.file_size, ahead=WINDOW)

    def size(self, key: str) -> int | None:
        """Return the length of a member; None when it is missing."""
        info = self._members.get(key)
        return None if info is None else info.file_size

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` of a member."""
        info = self._members.get(key)
        if info is None:
            raise FileNotFoundError(key)
        length = min(length, max(info.file_size - offset, 0))
        return self._pread(self._start(key, info) + offset, length)

    def read_into(self, key: str, offset: int, buffers: Sequence[Buffer]) -> int:
        """Fill `buffers` from `offset` of a member."""
        info = self._members.get(key)
        if info is None:
            raise FileNotFoundError(key)
        wanted = sum(memoryview(b).nbytes for b in buffers)
        if self._local and offset + wanted <= info.file_size:
            return _scatter(self._file.fileno(), self._start(key, info) + offset, buffers)
        data = memoryview(self.read(key, offset, wanted))
        at = 0
        for buffer in buffers:
            view = memoryview(buffer).cast("B")
            part = data[at : at + len(view)]
            view[: len(part)] = part
            at += len(part)
        return at

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """Return the names of (directories, files) right below `key`."""
        directories, files = self._tree.get(key, (set(), set()))
        return sorted(directories), sorted(files)

    def zarr(self) -> Any:
        """Return a read-only store of zarr-python over the members, whatever directory leads them."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore

        return MemoryStore(_Members(self, default_buffer_prototype().buffer.from_bytes), read_only=True)

    def close(self) -> None:
        """Close the archive."""
        self._file.close()

    def __del__(self) -> None:
        """Close the archive."""
        if hasattr(self, "_file"):
            self.close()


class _Members(dict[str, Any]):
    """The members as the dict a zarr MemoryStore reads: fetched when asked for."""

    def __init__(self, store: ZipStore, wrap: Callable[[bytes], Any]) -> None:
        super().__init__(dict.fromkeys(store._members))
        self._store = store
        self._wrap = wrap

    def __getitem__(self, key: str) -> Any:
        data = self._store.get(key, limit=2**62)
        if data is None:
            raise KeyError(key)
        return self._wrap(data)


def _without_leading_directory(members: dict[str, zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    if ZARR_JSON in members or not members:
        return members
    heads = {name.partition("/")[0] for name in members}
    head = next(iter(heads))
    if len(heads) == 1 and f"{head}/{ZARR_JSON}" in members:
        return {name[len(head) + 1 :]: info for name, info in members.items()}
    return members


_STAMP = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_PIECE = 2**22


def write_zip(
    path: Path, store: Any, keys: Sequence[str], progress: Callable[[int], None] | None = None
) -> None:
    """Write the files `keys` of a store as an archive: stored, in the order given, stamped alike (Z01, Z02)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for key in keys:
            size = store.size(key) or 0
            info = zipfile.ZipInfo(key, _STAMP)
            info.external_attr = _MODE
            info.create_system = 3
            info.file_size = size
            with archive.open(info, "w", force_zip64=size >= 2**31) as member:
                for at in range(0, size, _PIECE):
                    member.write(store.read(key, at, min(size - at, _PIECE)))
            if progress is not None:
                progress(size)
