"""Chunks and shards of a few rows, so that short runs cross their borders."""

from __future__ import annotations

import contextlib
from unittest import mock

from molrec_core import _extents, _series


@contextlib.contextmanager
def small(*, on):
    """Scale the extents down, so that a short run crosses chunks and shards."""
    if not on:
        yield
        return
    columns = mock.patch.multiple(_extents, COLUMN_CHUNK_BYTES=96, SHARD_BYTES=8 * 96, FLUSH_BYTES=300)
    dense = mock.patch.multiple(_series, DENSE_CHUNK_ROWS=4, DENSE_CHUNKS_PER_SHARD=2, _SPILL=4)
    with columns, dense:
        yield
