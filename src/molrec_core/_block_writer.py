"""Growth of one block and of the cell: updates in, a share of the commit plan out.

"Per-block sparse updates", "A regular block costs no index", "Nullable columns" and
"The cell" of the ragged-trajectory chapter. A section earns an update only when its
content differs bit for bit from its previous one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from molrec_core._box import Box
from molrec_core._change import rows_differ
from molrec_core._codecs import pipeline_for
from molrec_core._column import GrowingArray
from molrec_core._commit import Document, Plan
from molrec_core._compression import Compression
from molrec_core._csr import Growth
from molrec_core._declaration import BlockSchema, ColumnSchema
from molrec_core._extents import chunks_per_shard, row_bytes, rows_per_chunk
from molrec_core._frame import Block
from molrec_core._node import Layout, group_document
from molrec_core._series import DenseWriter
from molrec_core._store import ZARR_JSON, DirectoryStore, join

Array = np.ndarray[Any, Any]


class BlockWriter:
    """One declared block of a growing trajectory.

    Parameters
    ----------
    spec : BlockSchema
    frame_rows : int
        Rows in a representative frame; 0 when unknown.
    expected_frames : int, optional
        Shrinks the shards of a record that is known to stay short.
    """

    ATTRIBUTES = frozenset({"structural_shape", "uniform_rows", "dense_updates"})

    def __init__(
        self,
        store: DirectoryStore,
        name: str,
        spec: BlockSchema,
        *,
        frame_rows: int = 0,
        compression: Compression | None = None,
        expected_frames: int | None = None,
    ) -> None:
        self.store = store
        self.name = name
        self.key = join("trajectory", name)
        self.spec = spec
        self.frame_rows = frame_rows
        self.expected_frames = expected_frames
        self.narrowest = min((row_bytes(c.dtype, c.trailing) for c in spec.columns.values()), default=8)
        self.chunk_rows = rows_per_chunk(frame_rows, self.narrowest)
        self.columns = {
            column: self._column(join(self.key, column), c, compression) for column, c in spec.columns.items()
        }
        mask = ColumnSchema("bool")
        self.masks = {
            column: self._column(join(self.key, "_validity", column), mask, None)
            for column, c in spec.columns.items()
            if c.nullable
        }
        self.growth = Growth(has_columns=bool(spec.columns))
        self.step_index: DenseWriter | None = None
        self.offset: DenseWriter | None = None
        self.last_rows: int | None = None
        self.total_rows = 0
        self.stored_attributes: dict[str, Any] = {}
        self.extra_attributes: dict[str, Any] = {}
        self.document_base: dict[str, Any] | None = None

    def _column(self, key: str, spec: ColumnSchema, compression: Compression | None) -> GrowingArray:
        width = row_bytes(spec.dtype, spec.trailing)
        expected = None
        if self.expected_frames is not None:
            expected = -(-self.expected_frames * max(self.frame_rows, 1) // self.chunk_rows)
        layout = Layout(
            self.chunk_rows,
            chunks_per_shard(self.chunk_rows * width, expected),
            pipeline_for(
                spec.dtype, spec.trailing, precision=spec.precision is not None, compression=compression
            ),
        )
        return GrowingArray(self.store, key, layout, precision=spec.precision)

    def frame_bytes(self) -> int:
        """Bytes of one representative frame, masks included."""
        widths = sum(row_bytes(c.dtype, c.trailing) for c in self.spec.columns.values())
        return self.frame_rows * (widths + len(self.masks))

    def arrays(self) -> Iterator[GrowingArray]:
        """Iterate over every array of the block that grows."""
        yield from self.columns.values()
        yield from self.masks.values()
        for dense in (self.offset, self.step_index):
            if dense is not None:
                dense.spill()
                yield dense.array

    def reserve(self, frames: int) -> None:
        """Make room for `frames` representative frames in every column's buffer."""
        for array in (*self.columns.values(), *self.masks.values()):
            array.reserve(frames * self.frame_rows)

    def present(self, block: Block, ordinal: int) -> None:
        """Take the block as frame `ordinal` presents it; nothing is kept when nothing changed."""
        given = block._columns
        updates = [(array, given[name]) for name, array in self.columns.items()]
        for name, array in self.masks.items():
            mask = block.validity.get(name)
            updates.append((array, np.ones(block.count, np.bool_) if mask is None else mask))
        if self.last_rows == block.count:
            for array, values in updates:
                if array.changed(values):
                    break
            else:
                return
        if self.growth.place(ordinal, block.count):
            self._materialise(self.growth.n_updates - 1)
        for array, values in updates:
            array.accept(values)
        self.last_rows = block.count
        self.total_rows += block.count
        if self.step_index is not None and self.offset is not None:
            self.step_index.push(ordinal)
            self.offset.push(self.total_rows)

    def present_run(
        self, columns: Mapping[str, Array], validity: Mapping[str, Array], counts: Array, first: int
    ) -> None:
        """Take the block as frames from ordinal `first` on present it: their rows, and `counts` of them each.

        A count below zero stands for a frame that omits the block.
        """
        shown = np.flatnonzero(counts >= 0)
        rows = counts[shown]
        total = int(rows.sum())
        updates = [(array, columns[name]) for name, array in self.columns.items()]
        for name, array in self.masks.items():
            updates.append((array, validity.get(name, np.ones(total, np.bool_))))
        changed = self._changed(updates, rows)
        if not changed.all():
            kept = np.repeat(changed, rows)
            updates = [(array, values[kept]) for array, values in updates]
            shown, rows = shown[changed], rows[changed]
        if not len(rows):
            return
        history = self.growth.n_updates
        broke = self.growth.place_run(first + shown, rows)
        if broke is not None:
            self._materialise(history + broke)
        for array, values in updates:
            array.accept(values, int(rows[-1]))
        offsets = self.total_rows + np.cumsum(rows)
        if self.step_index is not None and self.offset is not None:
            self.step_index.extend((first + shown[broke or 0 :]).astype(np.uint64))
            self.offset.extend(offsets[broke or 0 :].astype(np.uint64))
        self.last_rows = int(rows[-1])
        self.total_rows = int(offsets[-1])

    def _changed(self, updates: list[tuple[GrowingArray, Array]], rows: Array) -> Array:
        """Whether each of several updates differs from the one before it."""
        before = np.concatenate([[-1 if self.last_rows is None else self.last_rows], rows])
        starts = np.cumsum(rows) - rows
        changed: Array = rows != before[:-1]
        # What moves differs in the first row of some column: most are told apart there, all at once.
        for array, values in updates:
            later = np.flatnonzero(~changed[1:] & (rows[1:] > 0)) + 1
            if len(later):
                heads = array.staged(values[np.concatenate([starts[later], starts[later - 1]])])
                changed[later] = rows_differ(heads[: len(later)], heads[len(later) :])
        for i in np.flatnonzero(~changed).tolist():
            new = slice(starts[i], starts[i] + rows[i])
            old = slice(starts[i - 1], starts[i]) if i else None
            changed[i] = any(
                array.differ(values[new], None if old is None else values[old]) for array, values in updates
            )
        return changed

    def _materialise(self, history: int) -> None:
        """Bring both index arrays, backfilled with `history` regular updates."""
        self.step_index = DenseWriter(self.store, join(self.key, "step_index"), "u64", run_ahead=False)
        self.offset = DenseWriter(self.store, join(self.key, "offset"), "u64")
        self.step_index.extend(np.arange(history, dtype=np.uint64))
        self.offset.extend(np.arange(history + 1, dtype=np.uint64) * np.uint64(self.growth.rows))

    def attributes(self) -> dict[str, Any]:
        """Return the attributes the block's group has to carry now."""
        attributes = dict(self.extra_attributes)
        if self.spec.structural_shape is not None:
            attributes["structural_shape"] = list(self.spec.structural_shape)
        if self.growth.regular:
            attributes["uniform_rows"] = self.growth.rows
            attributes["dense_updates"] = True
        return attributes

    def document(self) -> Document:
        """Return key and bytes of the block's group document."""
        self.stored_attributes = self.attributes()
        data = group_document(self.stored_attributes, self.key, self.document_base)
        return join(self.key, ZARR_JSON), data

    def creation(self) -> list[Document]:
        """Return the documents that lay the block down without rows, group last."""
        documents = [array.document(0) for array in (*self.columns.values(), *self.masks.values())]
        if self.masks:
            documents.append((join(self.key, "_validity", ZARR_JSON), group_document({}, self.key)))
        return [*documents, self.document()]

    def plan(self, plan: Plan, frames: int, *, final: bool) -> None:
        """Add the block's share of a commit of `frames` frames.

        A carried-forward regular block has its updates counted by the length of its
        columns, so that length is exact from then on.
        """
        exact = final or (self.growth.regular and self.growth.n_updates < frames)
        for dense in (self.offset, self.step_index):
            if dense is not None:
                dense.plan(plan, exact=final)
        for array in (*self.columns.values(), *self.masks.values()):
            plan.take(array)
            array.durable_rows = array.rows
            rows = array.wanted_rows(exact=exact)
            if rows != array.stored_rows:
                plan.shapes.append(array.document(rows))
                array.stored_rows = rows
        if self.attributes() != self.stored_attributes:
            plan.groups.append(self.document())


class BoxWriter:
    """The cell: three attributes while it is fixed from ordinal 0, arrays from its first change on."""

    ATTRIBUTES = frozenset({"vectors", "origin", "boundary", "cell_defined"})

    def __init__(self, store: DirectoryStore, expected_frames: int | None = None) -> None:
        self.store = store
        self.key = "trajectory/box"
        self.expected = expected_frames
        self.last: Box | None = None
        self.cell_defined: bool | None = None
        self.n_updates = 0
        self.arrays_by_name: dict[str, DenseWriter] = {}
        self.exists = False
        self.stored_attributes: dict[str, Any] = {}
        self.extra_attributes: dict[str, Any] = {}
        self.document_base: dict[str, Any] | None = None

    def arrays(self) -> Iterator[GrowingArray]:
        """Iterate over the arrays of the section that exist."""
        for dense in self.arrays_by_name.values():
            dense.spill()
            yield dense.array

    def present(self, box: Box, ordinal: int) -> None:
        """Take the cell of frame `ordinal`; a bit-identical one is no update."""
        if self.last is not None and self.last.same(box):
            return
        previous, self.last = self.last, box
        self.cell_defined = box.cell_defined
        fixed = ordinal == 0 and np.isfinite(box.vectors).all() and np.isfinite(box.origin).all()
        if not self.arrays_by_name and not (self.n_updates == 0 and fixed):
            self._migrate(previous)
        if self.arrays_by_name:
            self._push(box, ordinal)
        self.n_updates += 1

    def _migrate(self, attribute_cell: Box | None) -> None:
        self._dense("vectors", "f64", (3, 3))
        self._dense("step_index", "u64", ())
        if attribute_cell is not None:
            self.n_updates = 0
            self._push(attribute_cell, 0)
            self.n_updates = 1

    def _dense(self, name: str, tag: str, trailing: tuple[int, ...]) -> DenseWriter:
        dense = DenseWriter(
            self.store,
            join(self.key, name),
            tag,
            run_ahead=False,
            trailing=trailing,
            expected_rows=self.expected,
        )
        self.arrays_by_name[name] = dense
        return dense

    def _push(self, box: Box, ordinal: int) -> None:
        self.arrays_by_name["vectors"].extend(box.vectors[None])
        self.arrays_by_name["step_index"].extend(np.array([ordinal], np.uint64))
        default_boundary = np.full(3, box.cell_defined)
        for name, value, default, tag in (
            ("origin", box.origin, np.zeros(3), "f64"),
            ("boundary", box.boundary, default_boundary, "bool"),
        ):
            dense = self.arrays_by_name.get(name)
            if dense is None and value.tobytes() != default.tobytes():
                dense = self._dense(name, tag, (3,))
                dense.extend(np.tile(default, (self.n_updates, 1)))
            if dense is not None:
                dense.extend(value[None])

    def attributes(self) -> dict[str, Any]:
        """Return the attributes the group has to carry now."""
        attributes = dict(self.extra_attributes)
        if self.cell_defined is False:
            attributes["cell_defined"] = False
        box = self.last
        if box is not None and not self.arrays_by_name:
            attributes["vectors"] = box.vectors.tolist()
            if box.origin.tobytes() != np.zeros(3).tobytes():
                attributes["origin"] = box.origin.tolist()
            if not box.boundary.all():
                attributes["boundary"] = box.boundary.tolist()
        return attributes

    def plan(self, plan: Plan) -> None:
        """Add the cell's share of a commit: ``vectors`` last, it is the switch; then the attributes go."""
        for name in ("origin", "boundary", "step_index", "vectors"):
            dense = self.arrays_by_name.get(name)
            if dense is not None:
                dense.plan(plan, exact=True)
        attributes = self.attributes()
        if self.last is not None and (not self.exists or attributes != self.stored_attributes):
            plan.groups.append(
                (join(self.key, ZARR_JSON), group_document(attributes, self.key, self.document_base))
            )
            self.stored_attributes = attributes
            self.exists = True
