"""Several frames in a row as one value: :class:`FrameStack`, what ``TrajectoryWriter.extend`` takes.

Small frames cost more in Python than on disk; stacked, the rows of a block are handled
once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from molrec_core._box import Box
from molrec_core._dtypes import STRING, as_column, name_problem
from molrec_core._frame import Block, Frame
from molrec_core._strings import packed_strings
from molrec_core.errors import SchemaError

Array = np.ndarray[Any, Any]
OMITTED = -1
"""The row count of a block in a frame that omits it."""


class FrameStack:
    """Frames in a row, the rows of each block one after another.

    Parameters
    ----------
    n_frames : int
    blocks : mapping of str to mapping of str to array_like
        Columns of all frames, shape (rows of all frames,) + trailing; or, of a block without
        `counts`, shape (n_frames, rows of a frame) + trailing.
    counts : mapping of str to (n_frames,) array_like of int, optional
        Rows of a block in each frame; -1 where the frame omits it, so that it carries forward.
    validity : mapping of str to mapping of str to array_like of bool, optional
        Masks of nullable columns, of the shape of the column without its trailing axes.
    boxes : sequence of Box or None, optional
        Cell of each frame; None carries the last one forward.
    meta : sequence of mapping, optional
        Meta document of each frame. Keys that were declared with a fill may be left out.

    Raises
    ------
    SchemaError
        Counts that do not add up, a name or a dtype that is not allowed.
    """

    __slots__ = ("blocks", "boxes", "counts", "edges", "meta", "n_frames")

    blocks: dict[str, Block]
    counts: dict[str, Array]
    edges: dict[str, Array]
    boxes: Sequence[Box | None] | None
    meta: Sequence[Mapping[str, Any]] | None
    n_frames: int

    def __init__(
        self,
        n_frames: int,
        blocks: Mapping[str, Mapping[str, Any]],
        *,
        counts: Mapping[str, Any] | None = None,
        validity: Mapping[str, Mapping[str, Any]] | None = None,
        boxes: Sequence[Box | None] | None = None,
        meta: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.n_frames = n_frames
        self.blocks = {}
        self.counts = {}
        self.edges = {}
        for name, columns in blocks.items():
            problem = name_problem(name, "block")
            if problem:
                raise SchemaError.one(str(name), "bad_name", problem)
            masks = (validity or {}).get(name, {})
            given = (counts or {}).get(name)
            if given is None:
                given, columns, masks = self._flat(name, columns, masks)  # noqa: PLW2901 - the same rows
            self._add(name, columns, masks, np.asarray(given, dtype=np.int64))
        for name, sections in (("counts", counts), ("validity", validity)):
            unknown = [block for block in sections or () if block not in self.blocks]
            if unknown:
                raise SchemaError.one(unknown[0], "stack", f"{name} of a block that the stack does not hold")
        self.boxes = boxes
        self.meta = meta
        for what, values in (("boxes", boxes), ("meta", meta)):
            if values is not None and len(values) != n_frames:
                raise SchemaError.one(what, "stack", f"{len(values)} values for {n_frames} frames")

    @classmethod
    def from_frames(cls, frames: Sequence[Frame]) -> Self:
        """Stack frames; a block of several has the same columns in each.

        Raises
        ------
        SchemaError
        """
        blocks: dict[str, dict[str, Array]] = {}
        counts, validity = {}, {}
        for name in dict.fromkeys(name for frame in frames for name in frame):
            given = [frame._blocks.get(name) for frame in frames]
            shown = [block for block in given if block is not None]
            if any(block.keys() != shown[0].keys() for block in shown):
                raise SchemaError.one(name, "stack", "the columns of the block differ between the frames")
            counts[name] = [OMITTED if block is None else block.count for block in given]
            blocks[name] = {column: np.concatenate([block[column] for block in shown]) for column in shown[0]}
            masked = dict.fromkeys(column for block in shown for column in block.validity)
            validity[name] = {
                column: np.concatenate(
                    [block.validity.get(column, np.ones(block.count, np.bool_)) for block in shown]
                )
                for column in masked
            }
        return cls(
            len(frames),
            blocks,
            counts=counts,
            validity=validity,
            boxes=[frame.box for frame in frames],
            meta=[frame.meta for frame in frames],
        )

    def _flat(
        self, name: str, columns: Mapping[str, Any], masks: Mapping[str, Any]
    ) -> tuple[Array, dict[str, Array], dict[str, Array]]:
        arrays = {column: np.asarray(values) for column, values in columns.items()}
        shapes = {array.shape[:2] for array in arrays.values()}
        if len(shapes) != 1 or len(shape := shapes.pop()) != 2 or shape[0] != self.n_frames:
            found = ", ".join(f"{column} {array.shape}" for column, array in arrays.items())
            raise SchemaError.one(
                name,
                "stack",
                f"found {found or 'no columns'}; ({self.n_frames}, rows) is expected, or counts",
            )
        n = shape[0] * shape[1]
        return (
            np.full(self.n_frames, shape[1]),
            {column: array.reshape(n, *array.shape[2:]) for column, array in arrays.items()},
            {column: np.asarray(mask).reshape(-1) for column, mask in masks.items()},
        )

    def _add(self, name: str, columns: Mapping[str, Any], masks: Mapping[str, Any], counts: Array) -> None:
        if counts.shape != (self.n_frames,) or (counts < OMITTED).any():
            raise SchemaError.one(
                name, "stack", f"counts of shape {counts.shape}; {self.n_frames} counts >= -1 are expected"
            )
        self.edges[name] = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))])
        total = int(self.edges[name][-1])
        arrays = {}
        for column, values in columns.items():
            problem = name_problem(column, "column")
            if problem:
                raise SchemaError.one(f"{name}/{column}", "bad_name", problem)
            loc = f"{name}/{column}"
            arrays[column] = array = _column(values, loc, column)
            if array.shape[:1] != (total,):
                raise SchemaError.one(
                    loc, "row_count_mismatch", f"shape {array.shape} where the counts add up to {total} rows"
                )
        self.blocks[name] = Block._trusted(arrays, total)
        if masks:
            self.blocks[name].validity = self.blocks[name]._masks(masks)
        self.counts[name] = counts

    def frame(self, i: int) -> Frame:
        """Return frame `i` by itself: the blocks and the cell that it presents."""
        return Frame(
            {name: self.rows(name, i) for name, counts in self.counts.items() if counts[i] != OMITTED},
            box=None if self.boxes is None else self.boxes[i],
            meta=None if self.meta is None else self.meta[i],
        )

    def rows(self, name: str, i: int) -> Block:
        """Return the block `name` that frame `i` presents."""
        block, edges = self.blocks[name], self.edges[name]
        rows = slice(int(edges[i]), int(edges[i + 1]))
        return Block._trusted(
            {column: _plain(values[rows]) for column, values in block._columns.items()},
            rows.stop - rows.start,
            {column: mask[rows] for column, mask in block.validity.items()},
        )

    def seen(self, name: str) -> Array:
        """Return the frame whose rows of a block each frame sees, -1 before the first; shape (n_frames,)."""
        shown = np.where(self.counts[name] != OMITTED, np.arange(self.n_frames), -1)
        seen: Array = np.maximum.accumulate(shown)
        return seen

    def __repr__(self) -> str:
        """Return the number of frames, and the blocks with the rows of all of them."""
        blocks = ", ".join(f"{name}[{block.count}]" for name, block in self.blocks.items())
        return f"FrameStack({self.n_frames} frames: {blocks})"


def _plain(values: Array) -> Array:
    return values.astype(STRING) if values.dtype.kind == "S" else values


def _column(values: Any, loc: str, column: str) -> Array:
    """Return a column as it goes to disk: short strings packed, all else as a block has it."""
    array = np.asarray(values)
    if array.dtype.kind == "U" and isinstance(values, np.ndarray):
        packed = packed_strings(array)
        if packed is not None:
            return packed
    return as_column(values, loc, column)
