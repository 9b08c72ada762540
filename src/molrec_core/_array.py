"""Reading the rows of one stored array, whichever way its chunks are cut.

:func:`open_array` gives an :class:`ArrayReader`: over our fast path for leading-axis
chunks and must-decode codecs, through zarr-python for everything else. The fast path
skips work whose result is known; it ships with its equality test against zarr-python.
"""

from __future__ import annotations

import math
import struct
import warnings
from time import sleep
from typing import Any, NamedTuple

import numpy as np

from molrec_core import _parallel
from molrec_core._codecs import checksum
from molrec_core._extents import spans
from molrec_core._node import ArrayNode, Layout
from molrec_core._rows import ArrayReader, ZarrReader
from molrec_core._shard import EMPTY, decode_index, empty_index, index_bytes
from molrec_core._store import Store, join
from molrec_core.errors import ChecksumError, CodecError

Array = np.ndarray[Any, Any]
_RUN_BYTES = 2**20
"""Bytes fetched by one read of neighbouring chunks: they are checked while still in cache."""
_STRING_CHUNK_BYTES = 2**31
_PATIENCE = (0.0, 0.002, 0.01, 0.05)
"""Seconds after which an index that fails its checksum is read once more, before it counts as torn."""
_MAX_OFFSET = 2**62


class TornIndexWarning(UserWarning):
    """A shard index fails its checksum; its entries are used one by one, each chunk checked.

    Attributes
    ----------
    key : str
        Key of the array.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class _Run(NamedTuple):
    """Neighbouring chunks of one shard that one read fetches."""

    name: str
    first: int
    entries: list[list[int]]
    out: Array


class ChunkedReader(ArrayReader):
    """The fast path: leading-axis chunks, plain or in shards."""

    def __init__(self, store: Store, key: str, node: ArrayNode, layout: Layout) -> None:
        super().__init__(store, key, node)
        self.layout = layout
        self._chunk_shape = (layout.chunk_rows, *node.trailing)
        self._chunk_bytes = math.prod(self._chunk_shape) * self.dtype.itemsize
        self._raw = layout.pipeline.raw and layout.pipeline.crc
        self._indexes: dict[int, Array] = {}
        # One torn index was waited for in vain: no other of this array is.
        self._torn = False
        self._kept: tuple[int, Array] | None = None
        self._shard_keys: dict[int, str] = {}
        # Encoders expand a chunk by little; strings have no width.
        self._limit = _STRING_CHUNK_BYTES if self.dtype.kind == "T" else 2 * self._chunk_bytes + 2**16

    def refresh(self, node: ArrayNode) -> None:
        """Take a newer document; indexes and the kept chunk are read again."""
        super().refresh(node)
        self._indexes.clear()
        self._kept = None

    def _fill(self, start: int, stop: int, out: Array) -> None:
        rows = self.layout.chunk_rows
        first, last = -(-start // rows), stop // rows
        if first > last or not out.flags.c_contiguous:
            self._fill_parts(start, stop, out)
            return
        if first < last:
            self._fill_chunks(first, last, out[first * rows - start : last * rows - start])
        if start < first * rows:
            self._fill_parts(start, first * rows, out)
        if last * rows < stop:
            self._fill_parts(last * rows, stop, out[last * rows - start :])

    def _fill_parts(self, start: int, stop: int, out: Array) -> None:
        """Copy rows out of chunks that are not asked for whole."""
        at = 0
        for span in spans(start, stop, self.layout.chunk_rows):
            n = span.hi - span.lo
            out[at : at + n] = self.chunk(span.chunk)[span.lo : span.hi]
            at += n

    def chunk(self, chunk: int) -> Array:
        """Decode one chunk; the last one is kept, so that reading on decodes each once."""
        kept = self._kept
        if kept is not None and kept[0] == chunk:
            return kept[1]
        decoded = self._room(self._chunk_shape)
        self._fill_chunks(chunk, chunk + 1, decoded)
        self._kept = (chunk, decoded)
        return decoded

    def _fill_chunks(self, first: int, last: int, out: Array) -> None:
        """Decode chunks `first` to `last` into `out`, contiguous: neighbours by one read."""
        rows = self.layout.chunk_rows
        per_shard = self.layout.chunks_per_shard
        if not per_shard:
            parts = [
                (chunk, out[(chunk - first) * rows : (chunk - first + 1) * rows])
                for chunk in range(first, last)
            ]
            _parallel.map_ordered(self._fill_object, parts, len(parts) * self._chunk_bytes)
            return
        at = first
        while at < last:
            shard, local = divmod(at, per_shard)
            stop = min(last, (shard + 1) * per_shard)
            entries = self.entries(shard)
            if len(entries):
                wanted = entries[local : local + stop - at].tolist()
                self._fill_shard(shard, at, wanted, out[(at - first) * rows :])
            else:
                out[(at - first) * rows : (stop - first) * rows] = self.node.fill
            at = stop

    def _fill_shard(self, shard: int, first: int, entries: list[list[int]], out: Array) -> None:
        """Decode the chunks `entries` of one shard, run by run."""
        rows = self.layout.chunk_rows
        name = self._shard_keys.get(shard) or self._shard_key(shard)
        i = 0
        while i < len(entries):
            offset, length = entries[i]
            if offset == EMPTY and length == EMPTY:
                out[i * rows : (i + 1) * rows] = self.node.fill
                i += 1
                continue
            self._check_entry(first + i, offset, length)
            start, end = i, offset + length
            i += 1
            while i < len(entries) and entries[i][0] == end and end - offset < _RUN_BYTES:
                self._check_entry(first + i, end, entries[i][1])
                end += entries[i][1]
                i += 1
            run = _Run(name, first + start, entries[start:i], out[start * rows : i * rows])
            if self._raw:
                self._read_raw(run)
            else:
                self._read_encoded(run)

    def stored(self) -> list[int]:
        """Return the numbers of the objects that are stored, ascending: however many rows are claimed."""
        dotted = self.layout.separator == "."
        directories, files = self.store.children(self.key if dotted else join(self.key, "c"))
        names = (
            [name.split(".")[1] for name in files if name.startswith("c.")]
            if dotted
            else [*directories, *files]
        )
        return sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 20)

    def _shard_key(self, shard: int) -> str:
        key = join(self.key, self.layout.object_key(shard, len(self.node.shape)))
        return self._shard_keys.setdefault(shard, key)

    def _fill_object(self, part: tuple[int, Array]) -> None:
        chunk, out = part
        key = join(self.key, self.layout.object_key(chunk, len(self.node.shape)))
        stored = self.store.get(key, limit=self._limit)
        if stored is None:
            out[...] = self.node.fill
        else:
            self._decode(chunk, stored, out)

    def _check_entry(self, chunk: int, offset: int, length: int) -> None:
        if self._raw:
            if length == self._chunk_bytes + 4 and offset < _MAX_OFFSET:
                return
            found = f"{length} bytes at {offset}; {self._chunk_bytes + 4} bytes are expected"
        elif length <= self._limit and offset < _MAX_OFFSET:
            return
        else:
            found = f"{length} bytes at {offset}, more than a chunk can measure"
        raise ChecksumError(f"the index says {found}", key=self.key, chunk=chunk, kind="shard_index")

    def entries(self, shard: int) -> Array:
        """Return the entries of a shard, (n_chunks, 2) uint64, read once; none when the shard is not stored."""
        found = self._indexes.get(shard)
        if found is not None:
            return found
        name = self._shard_key(shard)
        n_chunks = self.layout.chunks_per_shard
        index = self._index(name)
        for wait in () if self._torn else _PATIENCE:
            if index is None or index[1]:
                break
            # A live writer may be at it.
            sleep(wait)
            index = self._index(name)
        if index is None:
            return self._indexes.setdefault(shard, empty_index(0))
        entries, sound = index
        if not len(entries):
            raise ChecksumError(
                f"the shard holds {self.store.size(name)} bytes; "
                f"its index alone takes {index_bytes(n_chunks, crc=self.layout.index_crc)}",
                key=self.key,
            )
        if not sound:
            self._torn = True
            text = (
                f"{self.store.path}: the index of {name} fails its checksum; reading its entries one by one "
                "(molrec repair writes a sound one)"
            )
            warnings.warn(TornIndexWarning(text, self.key), stacklevel=2)
        return self._indexes.setdefault(shard, entries)

    def _index(self, name: str) -> tuple[Array, bool] | None:
        """Read an index, and whether its checksum holds: no entries where the file is too short, None without one."""
        n_chunks = self.layout.chunks_per_shard
        length = index_bytes(n_chunks, crc=self.layout.index_crc)
        size = self.store.size(name)
        if size is None:
            return None
        if size < length:
            return empty_index(0), False
        at = 0 if self.layout.index_at_start else size - length
        return decode_index(self.store.read(name, at, length), n_chunks, crc=self.layout.index_crc)

    def _read_raw(self, run: _Run) -> None:
        """Read rows straight into the caller's array, checksums beside them, then check."""
        n, size = len(run.entries), self._chunk_bytes
        rows = run.out if run.out.ndim == 1 else run.out.reshape(-1)
        data = rows.view(np.uint8).data
        crcs = bytearray(4 * n)
        parts = [data] if n == 1 else [data[at : at + size] for at in range(0, n * size, size)]
        buffers: list[Any] = [crcs] * (2 * n)
        buffers[::2] = parts
        if n > 1:
            view = memoryview(crcs)
            buffers[1::2] = [view[at : at + 4] for at in range(0, 4 * n, 4)]
        done = self.store.read_into(run.name, run.entries[0][0], buffers)
        if done < n * (size + 4):
            raise self._cut(run, done)
        wanted = struct.unpack(f"<{n}I", crcs)
        found = tuple(map(checksum, parts))
        if found != wanted:
            bad = next(i for i in range(n) if found[i] != wanted[i])
            raise ChecksumError(
                "the crc32c of the stored bytes does not hold", key=self.key, chunk=run.first + bad
            )

    def _read_encoded(self, run: _Run) -> None:
        start = run.entries[0][0]
        length = run.entries[-1][0] + run.entries[-1][1] - start
        data = self.store.read(run.name, start, length)
        if len(data) < length:
            raise self._cut(run, len(data))
        view = memoryview(data)
        rows = self.layout.chunk_rows

        def decode(i: int) -> None:
            offset, size = run.entries[i]
            self._decode(
                run.first + i,
                view[offset - start : offset - start + size],
                run.out[i * rows : (i + 1) * rows],
            )

        _parallel.map_ordered(decode, range(len(run.entries)), len(run.entries) * self._chunk_bytes)

    def _cut(self, run: _Run, done: int) -> ChecksumError:
        at = run.entries[0][0] + done
        bad = next(
            (i for i, (offset, size) in enumerate(run.entries) if offset + size > at), len(run.entries) - 1
        )
        return ChecksumError(
            f"{run.name} ends at byte {at}, inside the chunk",
            key=self.key,
            chunk=run.first + bad,
            kind="cut_short",
        )

    def _decode(self, chunk: int, stored: Any, out: Array) -> None:
        try:
            self.layout.pipeline.decode_into(stored, out)
        except CodecError as error:
            raise ChecksumError(error.message, key=self.key, chunk=chunk, kind=error.kind) from None


def open_array(store: Store, key: str, node: ArrayNode) -> ArrayReader:
    """Open the rows of one array.

    Raises
    ------
    FormatError
        ``data_type``: outside the thirteen column data types.
    """
    if node.layout is None or node.dtype is None:
        return ZarrReader(store, key, node)
    return ChunkedReader(store, key, node, node.layout)
