"""Reading the rows of one stored array, whichever way its chunks are cut.

:func:`open_array` gives an :class:`ArrayReader`: over our fast path for leading-axis
chunks and must-decode codecs, through zarr-python for everything else. The fast path
skips work whose result is known; it ships with its equality test against zarr-python.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from molrec_core import _parallel
from molrec_core._codecs import CodecError, checksum
from molrec_core._dtypes import COLUMN_DTYPES, STRING, refuse
from molrec_core._extents import Span, spans
from molrec_core._node import ArrayNode, Layout
from molrec_core._shard import EMPTY, decode_index, index_bytes
from molrec_core._store import Store, join
from molrec_core.errors import ChecksumError, FormatError

Array = np.ndarray[Any, Any]
_RUN_BYTES = 2**20
"""Bytes fetched by one read of neighbouring chunks: they are checked while still in cache."""
_STRING_CHUNK_BYTES = 2**31


class TornIndexWarning(UserWarning):
    """A shard index fails its checksum; its entries are used one by one, each chunk checked."""


class ArrayReader:
    """Rows of one array.

    Attributes
    ----------
    key : str
        Key of the array in its store.
    node : ArrayNode
        What its ``zarr.json`` says.
    """

    def __init__(self, store: Store, key: str, node: ArrayNode) -> None:
        if node.dtype is None:
            raise refuse(key, "data_type", f"data type {node.data_type!r} is none of the column data types")
        self.store = store
        self.key = key
        self.node = node
        self.dtype = COLUMN_DTYPES[node.dtype][0]

    @property
    def rows(self) -> int:
        """Stored length of the leading axis; 1 for a 0-d array."""
        return self.node.rows

    def read(self, start: int, stop: int, out: Array | None = None) -> Array:
        """Return rows `start` to `stop`, shape (stop - start,) + trailing, into `out` when given.

        Raises
        ------
        ChecksumError
            Damaged bytes.
        FormatError
            Rows past the stored length.
        """
        if not 0 <= start <= stop <= self.rows:
            raise refuse(self.key, "array_short", f"rows {start} to {stop} are asked for, {self.rows} are stored")
        if out is None:
            out = np.empty((stop - start, *self.node.trailing), self.dtype)
        if out.size:
            self._fill(start, stop, out)
        return out

    def all(self) -> Array:
        """Return the whole array; 0-d for a 0-d array."""
        rows = self.read(0, self.rows)
        return rows if self.node.shape else rows[0]

    def _fill(self, start: int, stop: int, out: Array) -> None:
        raise NotImplementedError

    def refresh(self, node: ArrayNode) -> None:
        """Take a newer document of the same array; what may have changed is read again."""
        self.node = node


class ChunkedReader(ArrayReader):
    """The fast path: leading-axis chunks, plain or in shards."""

    def __init__(self, store: Store, key: str, node: ArrayNode, layout: Layout) -> None:
        super().__init__(store, key, node)
        self.layout = layout
        self._chunk_shape = (layout.chunk_rows, *node.trailing)
        self._chunk_bytes = int(np.prod(self._chunk_shape)) * self.dtype.itemsize
        self._raw = layout.pipeline.raw and layout.pipeline.crc
        self._indexes: dict[int, list[list[int]]] = {}
        self._kept: tuple[int, Array] | None = None

    def refresh(self, node: ArrayNode) -> None:
        """Take a newer document; indexes and the kept chunk are read again."""
        super().refresh(node)
        self._indexes.clear()
        self._kept = None

    def _fill(self, start: int, stop: int, out: Array) -> None:
        rows = self.layout.chunk_rows
        if stop - start < rows and start // rows == (stop - 1) // rows:
            first = start // rows * rows
            out[...] = self.chunk(start // rows)[start - first : stop - first]
            return
        whole: list[tuple[int, Array]] = []
        at = 0
        for span in spans(start, stop, rows):
            part = out[at : at + span.hi - span.lo]
            at += span.hi - span.lo
            if span.hi - span.lo == rows and part.flags.c_contiguous:
                whole.append((span.chunk, part))
            else:
                self._fill_part(span, part)
        if whole:
            self._fill_whole(whole)

    def _fill_part(self, span: Span, part: Array) -> None:
        part[...] = self.chunk(span.chunk)[span.lo : span.hi]

    def chunk(self, chunk: int) -> Array:
        """Decode one chunk; the last one is kept, so that reading on decodes each once."""
        kept = self._kept
        if kept is not None and kept[0] == chunk:
            return kept[1]
        decoded = np.empty(self._chunk_shape, self.dtype)
        self._fill_whole([(chunk, decoded)])
        self._kept = (chunk, decoded)
        return decoded

    def _fill_whole(self, parts: list[tuple[int, Array]]) -> None:
        if not self.layout.chunks_per_shard:
            _parallel.map_ordered(self._fill_object, parts, len(parts) * self._chunk_bytes)
            return
        for name, runs in self._runs(parts):
            if self._raw:
                self._read_raw(name, runs)
            else:
                self._read_encoded(name, runs)

    def _fill_object(self, part: tuple[int, Array]) -> None:
        chunk, out = part
        key = join(self.key, self.layout.object_key(chunk, len(self.node.shape)))
        stored = self.store.get(key, limit=self._limit())
        if stored is None:
            out[...] = self.node.fill
        else:
            self._decode(chunk, stored, out)

    def _limit(self) -> int:
        """Bound what a stored chunk may measure: encoders expand a chunk by little."""
        return _STRING_CHUNK_BYTES if self.dtype.kind == "T" else 2 * self._chunk_bytes + 2**16

    def _runs(self, parts: list[tuple[int, Array]]) -> Iterator[tuple[str, list[tuple[int, int, int, Array]]]]:
        """Group chunks that lie one after the other in one shard; fill those that are empty."""
        run: list[tuple[int, int, int, Array]] = []
        run_name, run_end, run_bytes = "", 0, 0
        per_shard = self.layout.chunks_per_shard
        for chunk, out in parts:
            shard, local = divmod(chunk, per_shard)
            index = self.entries(shard)
            offset, length = index[local] if index else (EMPTY, EMPTY)
            if offset == EMPTY and length == EMPTY:
                out[...] = self.node.fill
                continue
            name = join(self.key, self.layout.object_key(shard, len(self.node.shape)))
            self._check_entry(name, chunk, offset, length)
            if run and (name != run_name or offset != run_end or run_bytes >= _RUN_BYTES):
                yield run_name, run
                run, run_bytes = [], 0
            run.append((chunk, offset, length, out))
            run_name, run_end = name, offset + length
            run_bytes += length
        if run:
            yield run_name, run

    def _check_entry(self, name: str, chunk: int, offset: int, length: int) -> None:
        if length > self._limit() or offset + length >= EMPTY:
            raise ChecksumError(
                f"the index says {length} bytes at {offset}, more than a chunk can measure", key=self.key, chunk=chunk
            )
        if self._raw and length != self._chunk_bytes + 4:
            raise ChecksumError(
                f"the index says {length} bytes; {self._chunk_bytes + 4} are expected", key=self.key, chunk=chunk
            )
        del name

    def entries(self, shard: int) -> list[list[int]]:
        """Entries of a shard, read once; an empty list when the shard is not stored."""
        found = self._indexes.get(shard)
        if found is not None:
            return found
        name = join(self.key, self.layout.object_key(shard, len(self.node.shape)))
        n_chunks = self.layout.chunks_per_shard
        length = index_bytes(n_chunks, crc=self.layout.index_crc)
        size = self.store.size(name)
        if size is None:
            return self._indexes.setdefault(shard, [])
        at = 0 if self.layout.index_at_start else size - length
        if size < length:
            raise ChecksumError(f"the shard holds {size} bytes; its index alone takes {length}", key=self.key)
        for _ in range(2):
            # A live writer may be rewriting it: once more before it counts as torn.
            entries, sound = decode_index(self.store.read(name, at, length), n_chunks, crc=self.layout.index_crc)
            if sound:
                break
        else:
            warnings.warn(
                f"{self.store.path}: the index of {name} fails its checksum; reading its entries one by one "
                "(molrec repair writes a sound one)",
                TornIndexWarning,
                stacklevel=2,
            )
        return self._indexes.setdefault(shard, entries.tolist())

    def _read_raw(self, name: str, run: list[tuple[int, int, int, Array]]) -> None:
        """Read rows straight into the caller's array, checksums beside them, then check."""
        crcs = bytearray(4 * len(run))
        crc_view = memoryview(crcs)
        buffers: list[Any] = []
        for i, (_, _, _, out) in enumerate(run):
            buffers.append(out.reshape(-1).view(np.uint8))
            buffers.append(crc_view[4 * i : 4 * i + 4])
        total = len(run) * (self._chunk_bytes + 4)
        done = self.store.read_into(name, run[0][1], buffers)
        if done < total:
            raise self._cut(name, run, done)
        found = np.frombuffer(crcs, "<u4").tolist()
        for (chunk, _, _, out), want in zip(run, found, strict=True):
            if checksum(out) != want:
                raise ChecksumError("the crc32c of the stored bytes does not hold", key=self.key, chunk=chunk)

    def _read_encoded(self, name: str, run: list[tuple[int, int, int, Array]]) -> None:
        start = run[0][1]
        length = run[-1][1] + run[-1][2] - start
        data = self.store.read(name, start, length)
        if len(data) < length:
            raise self._cut(name, run, len(data))
        view = memoryview(data)

        def decode(item: tuple[int, int, int, Array]) -> None:
            chunk, offset, size, out = item
            self._decode(chunk, view[offset - start : offset - start + size], out)

        _parallel.map_ordered(decode, run, len(run) * self._chunk_bytes)

    def _cut(self, name: str, run: list[tuple[int, int, int, Array]], done: int) -> ChecksumError:
        at = run[0][1] + done
        chunk = next((c for c, offset, size, _ in run if offset + size > at), run[-1][0])
        return ChecksumError(f"{name} ends at byte {at}, inside the chunk", key=self.key, chunk=chunk, kind="cut_short")

    def _decode(self, chunk: int, stored: Any, out: Array) -> None:  # noqa: ANN401 - bytes or a view
        try:
            self.layout.pipeline.decode_into(stored, out)
        except CodecError as error:
            raise ChecksumError(error.message, key=self.key, chunk=chunk, kind=error.kind) from None


class ZarrReader(ArrayReader):
    """Any other array, through zarr-python."""

    def __init__(self, store: Store, key: str, node: ArrayNode) -> None:
        super().__init__(store, key, node)
        self._array: Any = None

    def refresh(self, node: ArrayNode) -> None:
        """Take a newer document; the array is opened again."""
        super().refresh(node)
        self._array = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the open array."""
        return {**self.__dict__, "_array": None}

    def _fill(self, start: int, stop: int, out: Array) -> None:
        import zarr  # noqa: PLC0415 - imported only when needed

        try:
            if self._array is None:
                self._array = zarr.open_array(self.store.zarr(), path=self.key, mode="r", zarr_format=3)
            values = np.asarray(self._array[start:stop] if self.node.shape else self._array[()])
            out[...] = values.astype(STRING) if self.dtype.kind == "T" else values.reshape(out.shape)
        except FormatError:
            raise
        except Exception as error:
            # Whatever a codec of zarr-python raises, the reader names the array and keeps the rest open.
            raise refuse(self.key, "codec", f"zarr-python cannot decode this array: {error!r}") from error


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
