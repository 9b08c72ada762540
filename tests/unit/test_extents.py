"""Extents of the reference writer: arithmetic alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_core import _extents
from molrec_core._extents import (
    Span,
    chunks_per_shard,
    fixed_extents,
    flush_frames,
    row_bytes,
    rows_per_chunk,
    spans,
)


def test_constants_of_the_chunking_chapter():
    assert _extents.KIB == 1024
    assert _extents.COLUMN_CHUNK_BYTES == 16384
    assert _extents.SHARD_BYTES == 268435456
    assert _extents.MAX_CHUNKS_PER_SHARD == 4096
    assert _extents.DENSE_CHUNK_ROWS * _extents.DENSE_CHUNKS_PER_SHARD == 262144
    assert _extents.FIXED_CHUNK_BYTES == 524288
    assert _extents.MAX_PLAIN_CHUNKS == 4
    assert _extents.FLUSH_BYTES == 4194304
    assert _extents.MAX_FLUSH_FRAMES == 4096
    assert _extents.STRING_ROW_BYTES == 16


@pytest.mark.parametrize(
    ("dtype", "trailing", "expected"),
    [
        ("f64", (), 8),
        ("f64", (3,), 24),
        ("f64", (3, 3), 72),
        ("f64", (0,), 1),
        ("bool", (), 1),
        ("string", (), 16),
        ("string", (2,), 32),
        ("c128", (), 16),
        ("u16", (), 2),
    ],
)
def test_row_bytes(dtype, trailing, expected):
    assert row_bytes(dtype, trailing) == expected


@given(st.integers(0, 10**7), st.integers(1, 10**6))
def test_a_frame_never_straddles_a_chunk(frame_rows, narrowest):
    rows = rows_per_chunk(frame_rows, narrowest)
    if frame_rows:
        assert rows % frame_rows == 0
        assert rows >= frame_rows
        assert rows * narrowest >= 16384
        # The smallest such multiple: one frame less would fall short.
        assert rows == frame_rows or (rows - frame_rows) * narrowest < 16384
    else:
        assert rows == max(1, 16384 // narrowest)


@given(st.integers(1, 2**40), st.none() | st.integers(0, 10**6))
def test_shards_stay_within_their_bounds(chunk_bytes, expected):
    count = chunks_per_shard(chunk_bytes, expected)
    assert 1 <= count <= 4096
    assert count == 1 or count * chunk_bytes <= 2**28
    if expected is None:
        assert count == min(max(2**28 // chunk_bytes, 1), 4096)
    else:
        assert count == min(max(expected, 1), chunks_per_shard(chunk_bytes))


@pytest.mark.parametrize(
    ("frame_bytes", "frames_per_chunk", "expected"),
    [
        (24000, 3, 177),
        (24000, 1, 175),
        (0, 1, 4096),
        (1, 1, 4096),
        (2**22, 1, 1),
        (2**22 + 1, 1, 1),
        (2**22 - 1, 1, 2),
        (2**30, 1, 1),
        (2**30, 0, 1),
        (2**30, 5, 5),
        (2**22, 5000, 4096),
    ],
)
def test_flush_frames(frame_bytes, frames_per_chunk, expected):
    assert flush_frames(frame_bytes, frames_per_chunk) == expected


@pytest.mark.parametrize(
    ("rows", "width", "expected"),
    [
        (65536, 8, (65536, 0)),
        (262144, 8, (65536, 0)),
        (262145, 8, (65536, 327680)),
        (1_000_000, 24, (21845, 1004870)),
        (1, 8, (1, 0)),
        (0, 8, (1, 0)),
        (4, 10**6, (1, 0)),
        (5, 10**6, (1, 5)),
    ],
)
def test_fixed_extents(rows, width, expected):
    assert fixed_extents(rows, width) == expected


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 60))
def test_spans_cover_each_row_once(start, length, chunk_rows):
    covered = []
    for span in spans(start, start + length, chunk_rows):
        assert 0 <= span.lo < span.hi <= chunk_rows
        covered += range(span.chunk * chunk_rows + span.lo, span.chunk * chunk_rows + span.hi)
    assert covered == list(range(start, start + length))


def test_spans_by_example():
    assert list(spans(1, 1, 2)) == []
    assert list(spans(3, 11, 4)) == [Span(0, 3, 4), Span(1, 0, 4), Span(2, 0, 3)]
