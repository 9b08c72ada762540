"""Chunk and shard extents of the reference writer, and which chunk a row lies in.

"Reference writer: extents" of the chunking chapter; checklist H04 to H14. Pure integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from molrec_core._dtypes import COLUMN_DTYPES

KIB = 1024
COLUMN_CHUNK_BYTES = 16 * KIB
SHARD_BYTES = 256 * KIB * KIB
MAX_CHUNKS_PER_SHARD = 4096
DENSE_CHUNK_ROWS = 1024
DENSE_CHUNKS_PER_SHARD = 256
FIXED_CHUNK_BYTES = 512 * KIB
MAX_PLAIN_CHUNKS = 4
FLUSH_BYTES = 4 * KIB * KIB
MAX_FLUSH_FRAMES = 4096
STRING_ROW_BYTES = 16


def row_bytes(dtype: str, trailing: Iterable[int]) -> int:
    """Width of one row in bytes; a string is estimated at 16 (H05)."""
    size = STRING_ROW_BYTES if dtype == "string" else COLUMN_DTYPES[dtype][0].itemsize
    return max(1, math.prod(trailing) * size)


def rows_per_chunk(frame_rows: int, narrowest: int) -> int:
    """Rows of a block's inner chunk: whole frames, at least 16 KiB of its narrowest column (H06, H07)."""
    if frame_rows == 0:
        return max(1, COLUMN_CHUNK_BYTES // narrowest)
    floor = max(1, -(-COLUMN_CHUNK_BYTES // narrowest))
    return frame_rows * -(-max(frame_rows, floor) // frame_rows)


def chunks_per_shard(chunk_bytes: int, expected_chunks: int | None = None) -> int:
    """Inner chunks of one shard: about 256 MiB, at most 4096 and so a 64 KiB index (H08).

    `expected_chunks` shrinks it, so that a short record does not carry an index made for a long one.
    """
    count = min(max(SHARD_BYTES // chunk_bytes, 1), MAX_CHUNKS_PER_SHARD)
    return count if expected_chunks is None else min(count, max(1, expected_chunks))


def flush_frames(frame_bytes: int, frames_per_chunk: int) -> int:
    """Frames between two automatic flushes (H14)."""
    frames = max(1, -(-FLUSH_BYTES // max(1, frame_bytes)))
    frames_per_chunk = max(1, frames_per_chunk)
    return min(frames_per_chunk * -(-frames // frames_per_chunk), MAX_FLUSH_FRAMES)


def fixed_extents(rows: int, width: int) -> tuple[int, int]:
    """Return (chunk rows, shard rows) of a fixed-size array; shard rows 0 for plain chunks (H11)."""
    chunk = min(rows, max(1, FIXED_CHUNK_BYTES // width))
    if chunk == 0:
        return 1, 0
    chunks = -(-rows // chunk)
    return chunk, (chunk * chunks if chunks > MAX_PLAIN_CHUNKS else 0)


@dataclass(frozen=True, slots=True)
class Span:
    """The part of one chunk that a range of rows covers: rows ``lo`` to ``hi`` within chunk ``chunk``."""

    chunk: int
    lo: int
    hi: int


def spans(start: int, stop: int, chunk_rows: int) -> Iterator[Span]:
    """Cut rows ``start`` to ``stop`` at chunk borders."""
    for chunk in range(start // chunk_rows, -(-stop // chunk_rows) if start < stop else 0):
        first = chunk * chunk_rows
        yield Span(chunk, max(start - first, 0), min(stop - first, chunk_rows))
