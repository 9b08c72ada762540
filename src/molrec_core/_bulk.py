"""Bulk reads of a block: many frames, chosen columns, straight into one array.

Four steps: which update each frame sees, which rows those own, runs of frames whose
rows lie one after the other, then each run decoded piece by piece into its place.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from molrec_core import _parallel
from molrec_core._block_reader import BlockReader
from molrec_core._dtypes import refuse
from molrec_core.errors import SchemaError, SectionNotFoundError

if TYPE_CHECKING:
    from molrec_core._rows import ArrayReader

Array = np.ndarray[Any, Any]
_PIECE_BYTES = 2**18
_BIG_CHUNK = 2**18
_KEPT_SCRATCH = 2**20

_scratch = threading.local()


def read_bulk(
    block: BlockReader,
    columns: str | Sequence[str],
    ordinals: Array,
    *,
    rows: Any = None,
    out: Array | None = None,
    dtype: Any = None,
    factor: float | None = None,
    source: Mapping[str, ArrayReader] | None = None,
) -> Any:
    """Read `columns` of the frames `ordinals`; see ``TrajectoryReader.read``."""
    single = isinstance(columns, str)
    source = block.columns if source is None else source
    readers = [_column(block, name, source) for name in ([columns] if isinstance(columns, str) else columns)]
    if not readers or any(
        r.dtype != readers[0].dtype or r.node.trailing != readers[0].node.trailing for r in readers
    ):
        raise SchemaError.one(block.key, "columns", "columns read together share one dtype and row shape")
    updates = block.index.updates_at(ordinals)
    if len(updates) and updates.min() < 0:
        absent = int(ordinals[int(np.argmax(updates < 0))])
        raise refuse(
            block.key, "block_absent", f"the block is absent at frame {absent}; read from its first update on"
        )
    first, counts = block.index.spans(updates)
    uniform = len(counts) == 0 or (counts == counts[0]).all()
    if not uniform:
        if rows is not None or out is not None:
            raise refuse(block.key, "ragged", "row counts differ between frames; read without rows= and out=")
        return _ragged(readers, first, counts, dtype, factor, single=single), counts
    n_rows = int(counts[0]) if len(counts) else (block.index.span(0)[1] if block.index.n_updates else 0)
    shape = _shape(len(ordinals), n_rows, rows, readers, single=single)
    want = np.dtype(dtype) if dtype is not None else readers[0].dtype
    if out is None:
        out = np.empty(shape, want)
    elif out.shape != shape:
        raise SchemaError.one(block.key, "out_shape", f"out has shape {out.shape}; {shape} is needed")
    axis = len(shape) - len(readers[0].node.trailing) - 1
    targets = [out if single else out[(slice(None),) * axis + (c,)] for c in range(len(readers))]
    pieces = list(_pieces(first, n_rows, readers[0]))
    filler = _Filler(list(zip(readers, targets, strict=True)), n_rows, rows, factor)
    layout = readers[0].node.layout
    heavy = layout is not None and (
        bool(layout.pipeline.codecs) or block._chunk_rows * readers[0].dtype.itemsize >= _BIG_CHUNK
    )
    _parallel.map_ordered(filler.fill, pieces, out.nbytes if heavy else 0)
    return out


def read_validity(block: BlockReader, column: str, ordinals: Array) -> Any:
    """Read the mask of `column`; see ``TrajectoryReader.validity``."""
    if column in block.masks:
        return read_bulk(block, column, ordinals, source=block.masks)
    found = read_bulk(block, column, ordinals)
    if isinstance(found, tuple):
        return np.ones(len(found[0]), np.bool_), found[1]
    return np.ones(found.shape[:2], np.bool_)


def _column(block: BlockReader, name: str, source: Mapping[str, ArrayReader]) -> ArrayReader:
    reader = source.get(name)
    if reader is None:
        msg = f"no column {name!r}; there are {', '.join(block.columns) or 'none'}"
        raise SectionNotFoundError(msg, loc=f"{block.key}/{name}")
    return reader


def _shape(
    n_frames: int, n_rows: int, rows: Any, readers: list[ArrayReader], *, single: bool
) -> tuple[int, ...]:
    picked = (n_rows,) if rows is None else np.empty(n_rows, bool)[rows].shape
    return (n_frames, *picked, *(() if single else (len(readers),)), *readers[0].node.trailing)


class _Piece(NamedTuple):
    """Frames `start` to `stop` of a read, whose rows follow one another from row `row` on."""

    start: int
    stop: int
    row: int


def _pieces(first: Array, n_rows: int, reader: ArrayReader) -> Iterator[_Piece]:
    """Cut a read into pieces that stay in cache and end at chunk borders, so that no chunk is decoded twice."""
    width = max(1, n_rows * reader.dtype.itemsize * int(np.prod(reader.node.trailing)))
    step = max(1, _PIECE_BYTES // width)
    layout = reader.node.layout
    if layout is not None and n_rows and layout.chunk_rows % n_rows == 0:
        per_chunk = layout.chunk_rows // n_rows
        step = -(-step // per_chunk) * per_chunk
    breaks = np.flatnonzero(np.diff(first) != n_rows) + 1
    edges = [0, *breaks.tolist(), len(first)] if len(first) else [0]
    for start, stop in pairwise(edges):
        at, row = start, int(first[start])
        while at < stop:
            done = row // n_rows if n_rows else 0
            end = min(stop, at + step - done % step)
            yield _Piece(at, end, row)
            row += (end - at) * n_rows
            at = end


class _Filler:
    """Fills pieces of every column: while the piece is in cache, all columns of its frames."""

    def __init__(
        self, columns: list[tuple[ArrayReader, Array]], n_rows: int, rows: Any, factor: float | None
    ) -> None:
        self._columns = columns
        self._n_rows = n_rows
        self._rows = rows
        self._factor = None if factor == 1.0 else factor
        reader, target = columns[0]
        self._trailing = reader.node.trailing
        self._direct = (
            rows is None and self._factor is None and target.dtype == reader.dtype and len(columns) == 1
        )
        self._direct = self._direct and target.flags.c_contiguous

    def fill(self, piece: _Piece) -> None:
        n = (piece.stop - piece.start) * self._n_rows
        for reader, target in self._columns:
            part = target[piece.start : piece.stop]
            if self._direct:
                reader.read(piece.row, piece.row + n, part.reshape(n, *self._trailing))
                continue
            values = reader.read(piece.row, piece.row + n, _room(n, reader)).reshape(
                piece.stop - piece.start, self._n_rows, *self._trailing
            )
            _put(values if self._rows is None else values[:, self._rows], part, self._factor)


def _room(n: int, reader: ArrayReader) -> Array:
    """Return `n` rows to decode into, the same in each call of a thread: fresh pages cost as much as the copy."""
    shape = (n, *reader.node.trailing)
    if reader.dtype.kind == "T":
        return np.empty(shape, reader.dtype)
    n_bytes = math.prod(shape) * reader.dtype.itemsize
    room: Array | None = getattr(_scratch, "room", None)
    if room is None or len(room) < n_bytes:
        room = np.empty(n_bytes, np.uint8)
        if n_bytes <= _KEPT_SCRATCH:
            _scratch.room = room
    return room[:n_bytes].view(reader.dtype).reshape(shape)


def _put(values: Array, target: Array, factor: float | None) -> None:
    if factor is not None and values.dtype.kind == "f":
        # The values are private: scaling them in place beats a multiplication that casts as it goes.
        values *= factor
    elif factor is not None:
        values = values * factor
    target[...] = values


def _ragged(
    readers: list[ArrayReader],
    first: Array,
    counts: Array,
    dtype: Any,
    factor: float | None,
    *,
    single: bool,
) -> Array:
    total = int(counts.sum())
    want = np.dtype(dtype) if dtype is not None else readers[0].dtype
    trailing = readers[0].node.trailing
    out = np.empty((total, *(() if single else (len(readers),)), *trailing), want)
    ends = np.cumsum(counts)
    follows = first[1:] == first[:-1] + counts[:-1]
    edges = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(first)]
    for c, reader in enumerate(readers):
        target = out if single else out[:, c]
        for start, stop in pairwise(edges):
            lo, hi = int(ends[start] - counts[start]), int(ends[stop - 1])
            _put(
                reader.read(int(first[start]), int(first[start]) + hi - lo),
                target[lo:hi],
                None if factor == 1.0 else factor,
            )
    return out


def dask_array(trajectory: Any, block: BlockReader, columns: str | Sequence[str]) -> Any:
    """Return a lazy array of every frame, cut where chunks end."""
    import dask.array

    counts = trajectory.counts(block.name)
    if len(counts) and (counts != counts[0]).any():
        frame = int(np.argmax(counts != counts[0]))
        raise refuse(
            block.key,
            "ragged",
            f"frame {frame} has {counts[frame]} rows, frame 0 {counts[0]}; read them frame by frame",
        )
    n_rows = int(counts[0]) if len(counts) else 0
    per_chunk = max(1, block._chunk_rows // n_rows) if n_rows else 1
    size = max(per_chunk, _PIECE_BYTES * 32 // max(1, n_rows * 24) // per_chunk * per_chunk)
    parts = []
    names = columns if isinstance(columns, str) else list(columns)
    sample = trajectory.read(block.name, names, slice(0, 0))
    for start in range(0, len(trajectory), size):
        stop = min(start + size, len(trajectory))
        delayed = dask.delayed(_read_part, pure=True)(trajectory, block.name, names, start, stop)
        parts.append(dask.array.from_delayed(delayed, (stop - start, *sample.shape[1:]), sample.dtype))
    return dask.array.concatenate(parts) if parts else dask.array.from_array(sample)


def _read_part(trajectory: Any, block: str, columns: Any, start: int, stop: int) -> Array:
    part: Array = trajectory.read(block, columns, slice(start, stop))
    return part
