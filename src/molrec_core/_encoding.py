"""Chunks of rows on their way to bytes: several together, in several threads, where that pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from molrec_core import _parallel
from molrec_core._codecs import Buffer
from molrec_core._extents import row_bytes
from molrec_core._node import Layout

Array = np.ndarray[Any, Any]
Encoded = list[Buffer] | None
"""Pieces to be written one after the other; None for a chunk that is all fill."""
_RUN_BYTES = 128 * 1024
"""Small chunks that one thread encodes at a time, where that pays."""


def _chunk_bytes(layout: Layout) -> int:
    return layout.chunk_rows * row_bytes(layout.pipeline.dtype, layout.pipeline.trailing)


def chunks_together(layout: Layout) -> int:
    """Return how many chunks in a row are best encoded as one job."""
    return max(1, _RUN_BYTES // _chunk_bytes(layout)) if layout.pipeline.gathers else 1


def takes_threads(layout: Layout) -> bool:
    """Whether several threads encode chunks of this layout faster than one, given enough of them."""
    pipeline = layout.pipeline
    large = _chunk_bytes(layout) >= _parallel.WORTHWHILE_ITEM_BYTES
    return pipeline.gathers or (bool(pipeline.codecs) and large)


def encode_chunks(jobs: Sequence[tuple[Layout, Array]]) -> list[list[Encoded]]:
    """Encode jobs, each the rows of one or several whole chunks of a layout."""
    n_bytes = sum(rows.nbytes for layout, rows in jobs if layout.pipeline.codecs)
    return _parallel.map_ordered(_encode, jobs, n_bytes)


def _encode(job: tuple[Layout, Array]) -> list[Encoded]:
    layout, rows = job
    if len(rows) == layout.chunk_rows:
        return [None if is_fill(rows) else layout.pipeline.encode(rows)]
    chunks = rows.reshape(-1, layout.chunk_rows, *rows.shape[1:])
    if any(map(is_fill, chunks)):
        return [None if is_fill(chunk) else layout.pipeline.encode(chunk) for chunk in chunks]
    return [*layout.pipeline.encode_run(chunks)]


def is_fill(rows: Array) -> bool:
    """Whether rows are bit for bit our fill: zeros or empty strings; a -0.0 is not."""
    # Anything else almost always shows in the first value.
    if rows.size == 0 or rows.item(0):
        return rows.size == 0
    if rows.dtype.kind == "T":
        return not (rows != "").any()
    return not rows.reshape(-1).view(np.uint8).any()
