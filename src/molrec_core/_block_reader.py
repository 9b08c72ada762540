"""Reading one block, the cell and the dense series of a trajectory.

What a section's documents say is checked when it is opened; rules about values
(offsets, step order, masks) when the first frame depends on them. In the order in
which a live writer makes it safe: group and column documents first, then whether
index arrays are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_core import _parallel
from molrec_core._array import open_array
from molrec_core._csr import ABSENT, Index, RegularIndex, SparseIndex, checked_offset, checked_step_index
from molrec_core._declaration import BlockSchema, read_structural_shape
from molrec_core._dtypes import COLUMN_DTYPES, TAGS, refuse
from molrec_core._fixed import child_nodes, get_array, get_group, get_node
from molrec_core._frame import Block
from molrec_core._group import (
    VALIDITY,
    check_column,
    check_mask,
)
from molrec_core._node import ArrayNode, GroupNode
from molrec_core._rows import ArrayReader, index_values
from molrec_core._schema import SequenceSchema
from molrec_core._store import Store, join
from molrec_core._typedjson import element_value

Array = np.ndarray[Any, Any]
_AHEAD_BYTES = 2**19
"""Rows decoded ahead of a reader that goes on frame by frame."""


@dataclass(frozen=True, slots=True)
class Window:
    """Decoded rows [lo, hi) of every column and mask of a block; read-only."""

    lo: int
    hi: int
    columns: dict[str, Array]
    masks: dict[str, Array]


class BlockReader:
    """One declared block.

    Raises
    ------
    FormatError
        Documents that contradict the pin or each other.
    """

    def __init__(self, store: Store, name: str, spec: BlockSchema, nstep: int) -> None:
        self.store = store
        self.name = name
        self.key = join("trajectory", name)
        self.spec = spec
        self.nstep = nstep
        self.columns: dict[str, ArrayReader] = {}
        self.masks: dict[str, ArrayReader] = {}
        self._index: Index | None = ABSENT
        self._sparse: tuple[ArrayReader, ArrayReader] | None = None
        self._window: Window | None = None
        self._last: tuple[int, Block] | None = None
        self._row_bytes = 1
        self._chunk_rows = 1
        self._encoded = False
        group = get_group(store, self.key)
        if group is not None:
            self._open(group)

    def _open(self, group: GroupNode) -> None:
        self._check_shape(group)
        for column in self.spec.columns:
            self.columns[column] = self._column(column)
        self._open_masks()
        self._row_bytes = sum(
            max(1, r.dtype.itemsize * int(np.prod(r.node.trailing))) for r in self.columns.values()
        )
        layout = next((r.node.layout for r in self.columns.values()), None)
        self._chunk_rows = layout.chunk_rows if layout is not None else 1
        layouts = [r.node.layout for r in self.columns.values()]
        self._encoded = any(part is not None and part.pipeline.codecs for part in layouts)
        self._open_index(group)

    def _check_shape(self, group: GroupNode) -> None:
        stored = group.attributes.get("structural_shape")
        shape = None if stored is None else read_structural_shape(stored, self.key)
        if shape != self.spec.structural_shape:
            raise refuse(
                self.key,
                "structural_shape",
                f"the group says {shape}, the declaration {self.spec.structural_shape}",
            )

    def _column(self, column: str) -> ArrayReader:
        key = join(self.key, column)
        node = get_array(self.store, key)
        if node is None:
            raise refuse(key, "missing_array", "the column is declared, but its array is missing")
        check_column(key, column, node)
        spec = self.spec.columns[column]
        if node.dtype != spec.dtype or not node.shape or node.trailing != spec.trailing:
            raise refuse(
                key,
                "schema_mismatch",
                f"{node.dtype} of shape {list(node.shape)} is stored; {spec.dtype} of row shape "
                f"{list(spec.trailing)} is declared",
            )
        return open_array(self.store, key, node)

    def _open_masks(self) -> None:
        key = join(self.key, VALIDITY)
        node = get_node(self.store, key)
        if isinstance(node, ArrayNode):
            raise refuse(key, "node_type", "_validity is an array; a group of masks is expected")
        nullable = [name for name, spec in self.spec.columns.items() if spec.nullable]
        if node is None and not nullable:
            return
        for name, child in child_nodes(self.store, key, nullable).items():
            place = join(key, name)
            if name not in self.spec.columns:
                raise refuse(place, "mask_without_column", "a mask names no column of the block")
            if isinstance(child, GroupNode):
                raise refuse(place, "node_type", "a mask is an array; a group is stored")
            check_mask(child, place)
            self.masks[name] = open_array(self.store, place, child)

    def _open_index(self, group: GroupNode) -> None:
        rows = group.attributes.get("uniform_rows")
        dense = group.attributes.get("dense_updates")
        step_index = get_array(self.store, join(self.key, "step_index"))
        if step_index is not None:
            offset = get_array(self.store, join(self.key, "offset"))
            if offset is None:
                raise refuse(
                    join(self.key, "offset"), "missing_array", "there is a step_index without an offset"
                )
            self._sparse = (self._dense("step_index", step_index), self._dense("offset", offset))
            self._index = None
            return
        if rows is None and dense is None:
            return
        if type(rows) is not int or rows <= 0 or dense is not True or not self.columns:
            raise refuse(
                self.key,
                "elision_markers",
                f"uniform_rows is {rows!r} and dense_updates is {dense!r}; the pair is an integer > 0 and true, "
                "on a block with columns",
            )
        shape = self.spec.structural_shape
        if shape is not None and rows != int(np.prod(shape)):
            raise refuse(
                self.key,
                "structural_shape",
                f"updates of {rows} rows do not hold the product of {list(shape)}",
            )
        shortest = min(r.rows for r in self.columns.values())
        n_updates = min(shortest // rows, self.nstep)
        self._index = RegularIndex(rows, n_updates) if n_updates else ABSENT
        self._check_masks_long_enough()

    def _dense(self, name: str, node: ArrayNode) -> ArrayReader:
        key = join(self.key, name)
        if node.dtype != "u64" or len(node.shape) != 1:
            raise refuse(
                key,
                "index_dtype",
                f"{node.data_type} of shape {list(node.shape)}; u64 with one axis is expected",
            )
        return open_array(self.store, key, node)

    @property
    def index(self) -> Index:
        """Which update a frame sees and which rows it owns; read when first needed."""
        if self._index is None:
            assert self._sparse is not None
            steps, offsets = self._sparse
            step_index = checked_step_index(index_values(steps), self.nstep, steps.key)
            n_updates = len(step_index)
            stored = offsets.read(0, min(n_updates + 1, offsets.rows))
            index = SparseIndex(step_index, checked_offset(stored, n_updates, offsets.key))
            shape = self.spec.structural_shape
            if shape is not None and (np.diff(index.offset) != np.prod(shape)).any():
                raise refuse(
                    self.key, "structural_shape", f"an update does not hold the product of {list(shape)}"
                )
            for reader in self.columns.values():
                if reader.rows < index.total_rows:
                    raise refuse(
                        reader.key,
                        "array_short",
                        f"{reader.rows} rows are stored; offset claims {index.total_rows}",
                    )
            self._index = index
            self._check_masks_long_enough()
        return self._index

    def _check_masks_long_enough(self) -> None:
        total = self._index.total_rows if self._index is not None else 0
        for reader in self.masks.values():
            if reader.rows < total:
                raise refuse(reader.key, "mask_length", f"{reader.rows} flags for {total} rows")

    def _load(self, lo: int, hi: int) -> Window:
        """Decode whole chunks around rows [lo, hi), and ahead when the caller reads on."""
        held = self._window
        rows = self._chunk_rows
        first = lo // rows * rows
        last = -(-hi // rows) * rows
        if held is not None and lo == held.hi:
            ahead = _AHEAD_BYTES // max(1, self._row_bytes * rows) * rows
            last = max(last, first + ahead)
        last = min(last, self.index.total_rows)
        n_bytes = (last - first) * self._row_bytes if self._encoded else 0
        read = _parallel.map_ordered(lambda r: r.read(first, last), list(self.columns.values()), n_bytes)
        columns = dict(zip(self.columns, read, strict=True))
        masks = {name: reader.read(first, last) for name, reader in self.masks.items()}
        for name, mask in masks.items():
            if not self.spec.columns[name].nullable and not mask.all():
                raise refuse(
                    join(self.key, VALIDITY, name),
                    "mask_not_nullable",
                    "rows are masked, but the pin does not say nullable",
                )
        for array in (*columns.values(), *masks.values()):
            array.flags.writeable = False
        window = self._window = Window(first, last, columns, masks)
        return window

    def update(self, update: int) -> Block:
        """Return one update as a block of read-only columns."""
        last = self._last
        if last is not None and last[0] == update:
            return last[1]
        lo, hi = self.index.span(update)
        window = self._window
        if window is None or lo < window.lo or hi > window.hi:
            window = self._load(lo, hi)
        lo -= window.lo
        hi -= window.lo
        columns = {name: array[lo:hi] for name, array in window.columns.items()}
        masks = None
        if window.masks:
            masks = {name: part for name, mask in window.masks.items() if not (part := mask[lo:hi]).all()}
        block = Block._trusted(columns, hi - lo, masks, self.spec.structural_shape)
        self._last = (update, block)
        return block

    def at(self, ordinal: int) -> Block | None:
        """Return the block as frame `ordinal` sees it; None where it is absent."""
        update = (self._index or self.index).update_at(ordinal)
        return None if update < 0 else self.update(update)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without decoded rows."""
        return {**self.__dict__, "_window": None, "_last": None}


class MetaReader:
    """One per-step meta key: values under its tag, decoded by the chunk."""

    def __init__(self, store: Store, key: str, node: ArrayNode, tag: str | None, nstep: int) -> None:
        stored = node.attributes.get("meta_dtype")
        if not isinstance(stored, str) or stored not in TAGS:
            raise refuse(key, "meta_dtype", f"meta_dtype is {stored!r}; one of the sixteen tags is expected")
        if tag is not None and stored != tag:
            raise refuse(key, "meta_dtype", f"meta_dtype is {stored!r}; {tag!r} is declared")
        spec = TAGS[stored]
        if node.dtype != spec.element or not node.shape or node.trailing != spec.trailing:
            raise refuse(
                key,
                "schema_mismatch",
                f"{node.data_type} of shape {list(node.shape)} is stored; the tag {stored} names {spec.element} "
                f"of row shape {list(spec.trailing)}",
            )
        if node.rows < nstep:
            raise refuse(key, "array_short", f"{node.rows} rows for {nstep} frames")
        self.tag = stored
        self.nstep = nstep
        self._reader = open_array(store, key, node)
        self._held: tuple[int, list[Any]] = (0, [])

    def at(self, ordinal: int) -> Any:
        """Return the value of frame `ordinal`."""
        first, values = self._held
        if not first <= ordinal < first + len(values):
            layout = self._reader.node.layout
            size = layout.chunk_rows if layout is not None else 1024
            first = ordinal // size * size
            values = self._values(first, min(first + size, self.nstep))
            self._held = (first, values)
        return values[ordinal - first]

    def _values(self, start: int, stop: int) -> list[Any]:
        rows = self._reader.read(start, stop)
        if self.tag != "json" and not TAGS[self.tag].width:
            values: list[Any] = rows.tolist()
            return values
        return [element_value(row, self.tag, self._reader.key) for row in rows]

    def all(self) -> Array | list[Any]:
        """Return the values of every frame: an array, or a list of documents for json."""
        if self.tag == "json":
            return self._values(0, self.nstep)
        return self._reader.read(0, self.nstep)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the stored values."""
        return COLUMN_DTYPES[TAGS[self.tag].element][0]


def open_meta(store: Store, schema: SequenceSchema, nstep: int) -> dict[str, MetaReader]:
    """Open the per-step meta arrays, declared ones and others."""
    readers = {}
    for key, spec in schema.meta.items():
        place = f"trajectory/meta/{key}"
        node = get_array(store, place)
        if node is not None:
            readers[key] = MetaReader(store, place, node, spec.tag, nstep)
        elif nstep:
            raise refuse(place, "missing_array", "the key is declared, but its array is missing")
    for key, child in child_nodes(store, "trajectory/meta", ()).items():
        if key not in schema.meta and isinstance(child, ArrayNode):
            # Not pinned, so read under its own tag (K15).
            readers[key] = MetaReader(store, f"trajectory/meta/{key}", child, None, nstep)
    return readers
