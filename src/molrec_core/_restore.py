"""Taking up a trajectory that is on disk: the reopen rule, for a writer.

"Reopen rule" of the chunking chapter. Leftovers of an interrupted commit go, each
array shrinks to its logical shape, the tail chunk is rebuilt from committed rows
only, and a torn shard index is written anew; all of it is durable before the first
frame is appended. ``repair`` is the same with nothing appended.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_core._array import ChunkedReader
from molrec_core._block_reader import BlockReader
from molrec_core._block_writer import BlockWriter, BoxWriter
from molrec_core._column import GrowingArray, land
from molrec_core._commit import Plan, execute, replace
from molrec_core._csr import RegularIndex
from molrec_core._dtypes import refuse
from molrec_core._encoding import is_fill
from molrec_core._fixed import child_nodes, get_array, get_group
from molrec_core._frame import Frame
from molrec_core._node import ArrayNode, GroupNode, Layout, group_document, parse_node
from molrec_core._progression import Progression
from molrec_core._sequence import KEY, SequenceWriter
from molrec_core._series import DenseWriter, SeriesWriter
from molrec_core._shard import EMPTY, Shard, decode_index, encode_index, index_bytes
from molrec_core._store import TEMPORARY, ZARR_JSON, DirectoryStore, join
from molrec_core._trajectory_reader import TrajectoryReader

Array = np.ndarray[Any, Any]


class Restorer:
    """Brings the trajectory of a store back to its marker.

    Parameters
    ----------
    every_shard : bool
        Look into finished shards too, which takes a read each; appending needs only the last.

    Attributes
    ----------
    done : list of str
        What was mended, in words.
    """

    def __init__(
        self,
        store: DirectoryStore,
        sections: dict[str, Frame],
        known: set[str],
        *,
        dry_run: bool = False,
        every_shard: bool = False,
    ) -> None:
        self.store = store
        self.sections = sections
        self.known = known
        self.dry_run = dry_run
        self.every_shard = every_shard
        self.done: list[str] = []

    def restore(self, after_step: int | None = None) -> SequenceWriter:
        """Return the trajectory as a writer goes on with it.

        Parameters
        ----------
        after_step : int, optional
            Drop the frames past this step first: the smaller marker is durable before
            anything shrinks.
        """
        reader = TrajectoryReader(self.store, sections=self.sections.get)
        if after_step is not None:
            kept = int(np.searchsorted(reader.steps, after_step, side="right"))
            if kept < len(reader):
                self._cut_marker(reader, kept)
                reader = TrajectoryReader(self.store, sections=self.sections.get)
        self._reader = reader
        self._nstep = len(reader)
        sequence = SequenceWriter(self.store, reader.schema, self.sections)
        self._remove_temporaries(KEY)
        sequence.carry_attributes(self.store)
        for block in sequence.blocks.values():
            self._restore_block(block)
        self._restore_box(sequence.box)
        for name, series in (("step", sequence.step), ("time", sequence.time)):
            self._restore_series(name, series)
        for dense in sequence.meta.values():
            self._restore_dense(dense, self._nstep)
        for key in reader.meta_keys:
            if key not in reader.schema.meta:
                raise refuse(
                    f"{KEY}/meta/{key}",
                    "undeclared_meta",
                    "the pin does not name this key, so appended frames cannot carry it",
                )
        sequence.frames = self._nstep
        sequence.has_time = None if not self._nstep else reader.times is not None
        sequence.last_step = int(reader.steps[-1]) if self._nstep else -1
        self._restore_references(sequence)
        self._commit(sequence)
        return sequence

    def _say(self, text: str) -> None:
        self.done.append(text)

    def _cut_marker(self, reader: TrajectoryReader, frames: int) -> None:
        sequence = SequenceWriter(self.store, reader.schema, self.sections)
        sequence.carry_attributes(self.store)
        sequence.frames = frames
        for name, series in (("step", sequence.step), ("time", sequence.time)):
            stored = reader._series[name]
            series.progression = stored.truncated(frames) if isinstance(stored, Progression) else None
        self._say(f"{KEY}: cut from {len(reader)} to {frames} frames")
        if not self.dry_run:
            replace(self.store, sequence.marker(), self.known)

    def remove_temporary(self, key: str) -> None:
        """Remove what an interrupted replacement of a node's document left."""
        if self.store.size(join(key, TEMPORARY)) is not None:
            self._remove(join(key, TEMPORARY), "an interrupted replacement")

    def _remove_temporaries(self, key: str) -> None:
        self.remove_temporary(key)
        for name in self.store.children(key)[0]:
            self._remove_temporaries(join(key, name))

    def _remove(self, key: str, why: str) -> None:
        self._say(f"{key}: removed, {why}")
        if not self.dry_run:
            self.store.remove(key)
            self.known -= {k for k in self.known if k == key or k.startswith(key + "/")}

    # -- blocks

    def _restore_block(self, block: BlockWriter) -> None:
        reader: BlockReader = self._reader._blocks[block.name]
        group = get_group(self.store, block.key)
        if group is None:
            self._create_block(block)
            return
        block.stored_attributes = dict(group.attributes)
        index = reader.index
        if get_array(self.store, join(block.key, "step_index")) is not None:
            block.growth.indexed = True
            block.step_index = DenseWriter(self.store, join(block.key, "step_index"), "u64", run_ahead=False)
            block.offset = DenseWriter(self.store, join(block.key, "offset"), "u64")
            self._restore_dense(block.step_index, index.n_updates)
            self._restore_dense(block.offset, index.n_updates + 1)
            if block.offset.array.rows == 0:
                block.offset.extend(np.zeros(1, np.uint64))
        elif self.store.children(join(block.key, "offset")) != ([], []):
            self._remove(join(block.key, "offset"), "an offset without a step_index")
        block.growth.n_updates = index.n_updates
        if isinstance(index, RegularIndex):
            block.growth.rows = index.rows
        previous = 0
        if index.n_updates:
            previous, end = index.span(index.n_updates - 1)
            block.last_rows = end - previous
        block.total_rows = index.total_rows
        for array in (*block.columns.values(), *block.masks.values()):
            self._restore_array(array, index.total_rows, previous)

    def _create_block(self, block: BlockWriter) -> None:
        self._say(f"{block.key}: laid down, the declaration names it")
        if not self.dry_run:
            for document in block.creation():
                replace(self.store, document, self.known)

    # -- arrays

    def _restore_dense(self, dense: DenseWriter, rows: int) -> None:
        node = get_array(self.store, dense.array.key)
        if node is None:
            return
        dense.stored = True
        self._restore_array(dense.array, rows, max(rows - 1, 0), node)

    def _restore_array(
        self, array: GrowingArray, rows: int, previous: int, node: ArrayNode | None = None
    ) -> None:
        """Bring one array back to `rows` logical rows, whose last update starts at `previous`."""
        node = node or get_array(self.store, array.key)
        if node is None:
            # A nullable column without a mask so far: every committed row is valid.
            self._say(f"{array.key}: laid down, all true")
            group = array.key.rpartition("/")[0]
            if get_group(self.store, group) is None and not self.dry_run:
                replace(self.store, (join(group, ZARR_JSON), group_document({}, group)), self.known)
            array.accept(np.ones(rows, np.bool_))
            return
        rows = min(rows, node.rows)
        layout = self._appendable(array, node)
        array.adopt(layout, node.document)
        size = layout.chunk_rows
        tail = rows // size * size
        first = min(previous, tail)
        reader = ChunkedReader(self.store, array.key, node, layout)
        kept = reader.read(first, rows)
        if node.rows > rows:
            # Before an entry behind the end is emptied: a longer step_index would read as fill there.
            self._say(f"{array.key}: {node.rows} rows shrunk to {rows}")
            if not self.dry_run:
                replace(self.store, array.document(rows), self.known)
        shards = self._open_shards(array, reader, rows)
        array.restore(rows, rows, kept, shards, previous)
        # The stored chunk may hold rows past the array's length even.
        if rows > tail and not is_fill(reader.chunk(tail // size)[rows - tail :]):
            self._say(f"{array.key}: tail chunk rebuilt from {rows - tail} committed rows")
            array.rewrite_tail()

    def _appendable(self, array: GrowingArray, node: ArrayNode) -> Layout:
        layout = node.layout
        fits = (
            layout is not None
            and layout.chunks_per_shard > 0
            and layout.index_at_start
            and layout.index_crc
            and node.dtype == array.dtype
            and node.trailing == array.trailing
            and layout.pipeline.crc
            and is_fill(np.full(1, node.fill, array.numpy_dtype))
        )
        if not fits or layout is None:
            raise refuse(
                array.key,
                "not_appendable",
                "this array is laid out in a way that is read but not appended to; "
                "molrec convert writes the record anew, then append to that",
            )
        return layout

    def _open_shards(self, array: GrowingArray, reader: ChunkedReader, rows: int) -> dict[int, Shard]:
        """Open the shard the next row falls into; entries past the logical end are emptied, later shards go."""
        layout = reader.layout
        per_shard = layout.chunks_per_shard
        chunks = -(-rows // layout.chunk_rows)
        current = rows // layout.chunk_rows // per_shard
        self._remove_later_shards(array, layout, current)
        if self.every_shard:
            for shard in (n for n in reader.stored() if n < current):
                self._sound_shard(array, layout, shard, per_shard)
        opened = self._sound_shard(array, layout, current, chunks - current * per_shard)
        return {} if opened is None else {current: opened}

    def _sound_shard(self, array: GrowingArray, layout: Layout, shard: int, local: int) -> Shard | None:
        """Open a shard of which the first `local` entries count; its index is sound afterwards."""
        per_shard = layout.chunks_per_shard
        key = join(array.key, layout.object_key(shard, 1 + len(array.trailing)))
        size = self.store.size(key)
        if size is None:
            return None
        length = index_bytes(per_shard)
        stored = self.store.read(key, 0, length)
        entries, sound = decode_index(stored + b"\0" * (length - len(stored)), per_shard)
        stale = (entries[local:] != EMPTY).any()
        entries[local:] = EMPTY
        if not sound or stale:
            what = "torn index written anew" if not sound else "entries past the last frame emptied"
            self._say(f"{key}: {what}")
            if not self.dry_run:
                self.store.write(key, 0, [encode_index(entries)])
                array.note_written(key)
        return Shard(key, entries, max(size, length))

    def _remove_later_shards(self, array: GrowingArray, layout: Layout, current: int) -> None:
        if layout.separator != "/":
            return
        directories, files = self.store.children(join(array.key, "c"))
        for name in (*directories, *files):
            if name.isdigit() and int(name) > current:
                self._remove(join(array.key, "c", name), "a shard past the last frame")

    # -- series and cell

    def _restore_series(self, name: str, series: SeriesWriter) -> None:
        key = join(KEY, name)
        stored = self._reader._series[name]
        if isinstance(stored, Progression) or stored is None:
            series.progression = stored or Progression(integer=name == "step")
            if self.store.children(key) != ([], []):
                self._remove(key, "an array beside its progression")
            return
        series.progression = None
        series.dense = DenseWriter(self.store, key, series.tag)
        self._restore_dense(series.dense, self._nstep)

    def _restore_box(self, box: BoxWriter) -> None:
        group = get_group(self.store, box.key)
        nodes = child_nodes(self.store, box.key)
        reader = self._reader._box
        if group is not None:
            box.exists = True
            box.stored_attributes = dict(group.attributes)
            box.last = reader.at(self._nstep - 1) if self._nstep else None
            box.cell_defined = reader.defined if box.last is not None else None
            box.n_updates = len(reader.ordinals) if self._nstep else 0
        if "vectors" not in nodes or group is None:
            for name in ("origin", "boundary", "step_index", "vectors"):
                if self.store.children(join(box.key, name)) != ([], []):
                    self._remove(join(box.key, name), "an interrupted migration of the cell")
            return
        self._restore_box_arrays(box, nodes)

    def _restore_box_arrays(self, box: BoxWriter, nodes: dict[str, ArrayNode | GroupNode]) -> None:
        shapes: dict[str, tuple[str, tuple[int, ...]]] = {
            "vectors": ("f64", (3, 3)), "step_index": ("u64", ()), "origin": ("f64", (3,)), "boundary": ("bool", (3,)),
        }  # fmt: skip
        for name, (tag, trailing) in shapes.items():
            if name in nodes or name == "step_index":
                dense = box._dense(name, tag, trailing)
                self._restore_dense(dense, box.n_updates)
                if name == "step_index" and name not in nodes and box.n_updates:
                    dense.extend(np.zeros(1, np.uint64))

    def _restore_references(self, sequence: SequenceWriter) -> None:
        """Look up the highest row each reference column holds now, for the next frame's check."""
        if self._nstep and sequence.has_targets:
            sequence.note_references(self._reader.frame(self._nstep - 1))

    def _commit(self, sequence: SequenceWriter) -> None:
        """Put what was mended on disk, everything exact, marker last."""
        if self.dry_run:
            return
        land(sequence.arrays(), tails=True)
        plan = sequence.plan(final=True)
        group = get_group(self.store, KEY)
        marker = None if plan.marker is None else parse_node(plan.marker[1], KEY)
        if group is not None and marker is not None and marker.attributes == group.attributes:
            # It would say what is stored already.
            plan.marker = None
        if plan != Plan():
            execute(self.store, plan, self.known)
