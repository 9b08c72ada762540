"""The validator: the whole contract over one record, every finding with place, kind and severity.

It asks the same functions the opener asks, section by section, and adds what no reader
has to refuse: values off their declared grid, tails and leftovers of an interrupted
run, dead bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from molrec_core._array import ChunkedReader, TornIndexWarning, open_array
from molrec_core._block_reader import BlockReader, open_meta
from molrec_core._box_reader import BoxReader
from molrec_core._change import off_grid
from molrec_core._csr import Index, RegularIndex
from molrec_core._derive import derive_schema, read_nstep
from molrec_core._document import check_section
from molrec_core._fixed import child_nodes, get_group, get_node
from molrec_core._forcefield import read_forcefield
from molrec_core._frame import Block, Frame
from molrec_core._group import META_TYPES, VALIDITY, read_frame, system_rows
from molrec_core._links import Links, highest_row
from molrec_core._locate import locate
from molrec_core._metrics import MetricsReader
from molrec_core._metrics_log import LOG as METRICS_LOG
from molrec_core._node import ArrayNode, GroupNode
from molrec_core._observables import read_observables
from molrec_core._progression import Progression
from molrec_core._record import SUFFICIENT
from molrec_core._rows import ArrayReader
from molrec_core._schema import SequenceSchema
from molrec_core._shard import EMPTY, index_bytes
from molrec_core._store import TEMPORARY, Store, join, not_a_record
from molrec_core._trajectory_reader import KEY, open_series
from molrec_core.errors import Problem, Problems, RecordError, RecordNotFoundError

T = TypeVar("T")
ENDPOINTS = ("atomi", "atomj", "atomk", "atoml", "atomm")
_INDEX_ARRAYS = frozenset({"step_index", "offset", VALIDITY})


def validate(
    path: Any,
    *,
    deep: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """Check a record against the whole contract.

    Parameters
    ----------
    path : str, path-like or zarr store
    deep : bool
        Decode every chunk and check every checksum, and look for values off their grid.

    Returns
    -------
    list of Problem
        Empty for a sound record. ``error``: a reader must refuse it; ``warning``: it opens.

    Raises
    ------
    RecordNotFoundError
        There is no record to check.
    """
    try:
        store = locate(path, storage_options)
    except RecordNotFoundError:
        raise
    except RecordError as error:
        return _problems_of(error)
    validator = Validator(store, deep=deep)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TornIndexWarning)
        try:
            validator.run()
        finally:
            store.close()
    torn = [w.message for w in caught if isinstance(w.message, TornIndexWarning)]
    found = validator.problems.found + [Problem(w.key, "torn_index", str(w), "warning") for w in torn]
    return list(dict.fromkeys(found))


def _problems_of(error: RecordError) -> list[Problem]:
    listed: list[Problem] | None = getattr(error, "problems", None)
    return list(listed) if listed else [Problem(error.loc, error.kind, error.message)]


class Validator:
    """One run over one record."""

    def __init__(self, store: Store, *, deep: bool) -> None:
        self.store = store
        self.deep = deep
        self.problems = Problems()
        self._sections: dict[str, Frame] = {}
        self._dead = 0

    def _try(self, read: Callable[..., T], *args: Any, **options: Any) -> T | None:
        """Call a reader; what it refuses becomes a finding, and the run goes on."""
        try:
            return read(*args, **options)
        except RecordError as error:
            self.problems.found.extend(_problems_of(error))
        except OSError as error:
            self.problems.add("", "unreadable", str(error))
        return None

    def _warn(self, loc: str, kind: str, message: str) -> None:
        self.problems.add(loc, kind, message, "warning")

    def run(self) -> None:
        """Check every section that is there."""
        root = self._try(get_group, self.store, "")
        if root is None:
            if not self.problems.found:
                raise not_a_record(self.store.path, "there is no zarr.json")
            return
        groups = {
            name: self._try(get_group, self.store, name) for name in ("meta", "status", "method", *SUFFICIENT)
        }
        meta = groups["meta"].attributes if groups["meta"] is not None else {}
        for name in ("meta", "status", "method"):
            group = groups[name]
            if group is not None:
                check_section(name, group.attributes, self.problems)
        if not any(self.store.get(f"{name}/zarr.json") is not None for name in SUFFICIENT):
            self.problems.add("", "no_section", f"the root holds none of {', '.join(SUFFICIENT)}")
        for name in ("frame", "system"):
            group = groups[name]
            if group is not None:
                self._check_frame(name, group)
        for name, read in (
            ("forcefield", lambda node: read_forcefield(self.store, node, meta)),
            ("observables", lambda _: read_observables(self.store)),
            ("metrics", lambda _: MetricsReader(self.store)),
        ):
            node = self._try(get_group, self.store, name)
            if node is not None:
                self._check_section(name, read, node)
        if groups["trajectory"] is not None:
            self._check_trajectory(groups["trajectory"])
        self._check_files("")
        if self._dead:
            text = f"{self._dead} bytes of chunks that were replaced; molrec convert writes the record without them"
            self._warn("", "dead_bytes", text)

    def _check_section(self, name: str, read: Callable[[GroupNode], Any], node: GroupNode) -> None:
        section = self._try(read, node)
        if name == "forcefield" and section is not None and "system" in self._sections:
            for loc, message in section.unresolved(self._sections["system"]):
                self._warn(loc, "unresolved_type", message)
        if isinstance(section, MetricsReader):
            _, read_to = section.watermark
            size = self.store.size(METRICS_LOG)
            if size is not None and size < read_to:
                text = f"{size} bytes, fewer than the {read_to} that are folded; the dense series hold the points"
                self._warn(METRICS_LOG, "log_short", text)

    def _check_frame(self, name: str, group: GroupNode) -> None:
        types = group.attributes.get(META_TYPES)
        for key in types if isinstance(types, dict) else ():
            if key not in group.attributes:
                self._warn(
                    f"{name}/{key}", "stale_meta_type", f"{META_TYPES} has a tag for a key the document lacks"
                )
        frame = self._try(read_frame, self.store, name, group, sections=self._find)
        if frame is None:
            return
        self._sections[name] = frame
        for block_name, block in frame.items():
            for column, precision in block.precision.items():
                self._check_grid(join(name, block_name, column), block, column, precision)
            if "atoms" in frame:
                self._check_endpoints(join(name, block_name), block, frame["atoms"].count)

    def _find(self, name: str) -> Frame | None:
        if name not in self._sections and name in {"frame", "system"}:
            group = get_group(self.store, name)
            return None if group is None else read_frame(self.store, name, group, sections=lambda _: None)
        return self._sections.get(name)

    def _check_grid(self, loc: str, block: Block, column: str, precision: float) -> None:
        mask = block.validity.get(column)
        values = block[column] if mask is None else block[column][mask]
        count = int(off_grid(np.ascontiguousarray(values), precision).sum())
        if count:
            self._warn(
                loc, "off_grid", f"{count} values are not on the grid of the declared precision {precision:g}"
            )

    def _check_endpoints(self, loc: str, block: Block, atoms: int) -> None:
        for column in ENDPOINTS:
            if column in block and column not in block.targets and block[column].dtype == np.uint64:
                highest = highest_row(block, column)
                if highest >= atoms:
                    self._warn(
                        join(loc, column),
                        "endpoint_out_of_range",
                        f"row {highest} of atoms, which has {atoms} rows",
                    )

    # -- the trajectory

    def _check_trajectory(self, group: GroupNode) -> None:
        nstep = self._try(read_nstep, self.store, group.attributes)
        if nstep is None:
            return
        pinned = group.attributes.get("sequence_schema")
        schema = self._try(
            lambda: derive_schema(self.store, nstep) if pinned is None else SequenceSchema.from_json(pinned)
        )
        for name in ("step", "time"):
            series = self._try(open_series, self.store, name, group.attributes, nstep)
            if isinstance(series, ArrayReader):
                self._check_series(name, series, nstep)
            elif isinstance(series, Progression) and self.store.children(f"{KEY}/{name}") != ([], []):
                self._warn(
                    f"{KEY}/{name}", "leftover", "an array beside its progression; molrec repair removes it"
                )
            elif name == "step" and series is None and nstep and not self.problems.errors:
                self.problems.add(
                    KEY, "step_missing", f"{nstep} frames, but neither a step_progression nor a step array"
                )
        box = self._try(BoxReader, self.store, nstep)
        if box is not None and self._try(lambda: box.ordinals) is not None:
            for ordinal in box.ordinals.tolist():
                self._try(box.at, ordinal)
        if schema is None:
            return
        meta = self._try(open_meta, self.store, schema, nstep)
        for reader in (meta or {}).values():
            self._try(reader.all)
        blocks = {
            name: self._try(BlockReader, self.store, name, spec, nstep)
            for name, spec in schema.blocks.items()
        }
        sound = {
            name: block
            for name, block in blocks.items()
            if block is not None and self._try(lambda b=block: b.index)
        }
        if len(sound) == len(schema.blocks):
            self._check_links(schema, sound, nstep)
        for name, block in sound.items():
            self._check_block(name, block)

    def _check_series(self, name: str, series: ArrayReader, nstep: int) -> None:
        values = self._try(series.read, 0, nstep)
        if name == "step" and values is not None and (values[1:] <= values[:-1]).any():
            bad = int(np.argmax(values[1:] <= values[:-1])) + 1
            self.problems.add(
                f"{KEY}/step", "step_order", f"entry {bad} is {values[bad]} after {values[bad - 1]}"
            )

    def _check_links(self, schema: SequenceSchema, blocks: dict[str, BlockReader], nstep: int) -> None:
        """Check references, alignment and the system's rows at every ordinal where anything changes."""
        links = self._try(Links, schema, blocks, self._find, lambda name: system_rows(self.store, name))
        if links is not None and self._try(links.load_system) is not None and links.any:
            for ordinal in _changes(block.index for block in blocks.values()):
                if ordinal < nstep:
                    self._try(links.check, ordinal, blocks)
        atoms = blocks.get("atoms")
        if atoms is None:
            return
        for name, block in blocks.items():
            if any(column in ENDPOINTS for column in block.columns):
                regular = isinstance(block.index, RegularIndex)
                for ordinal in range(_backed(block)) if regular else block.index.ordinals.tolist():
                    update = atoms.index.update_at(ordinal)
                    found = self._try(block.at, ordinal)
                    if found is not None and update >= 0:
                        lo, hi = atoms.index.span(update)
                        self._check_endpoints(join(KEY, name), found, hi - lo)

    def _check_block(self, name: str, block: BlockReader) -> None:
        for child, node in child_nodes(self.store, block.key).items():
            if child not in block.columns and child not in _INDEX_ARRAYS and isinstance(node, ArrayNode):
                self._warn(
                    join(block.key, child),
                    "unknown_column",
                    "an array the declaration does not name is not read",
                )
        if block.index.n_updates and any(r.rows > block.index.total_rows for r in block.columns.values()):
            self._warn(
                block.key,
                "uncommitted_tail",
                "columns are longer than the committed rows; molrec repair cuts them",
            )
        if block._sparse is None and self.store.children(join(block.key, "offset")) != ([], []):
            self._warn(
                join(block.key, "offset"),
                "leftover",
                "an offset without a step_index; molrec repair removes it",
            )
        if not self.deep:
            return
        for update in range(_backed(block)):
            found = self._try(block.update, update)
            if found is None:
                break
            for column, spec in block.spec.columns.items():
                if spec.precision is not None:
                    self._check_grid(join(KEY, name, column), found, column, spec.precision)

    # -- files

    def _check_files(self, key: str) -> None:
        """Look through every directory for what an interrupted run left, and decode what deep asks for."""
        directories, _ = self.store.children(key)
        if self.store.size(join(key, TEMPORARY)) is not None:
            self._warn(join(key, TEMPORARY), "leftover", "a temporary of an interrupted replacement")
        node = self._try(get_node, self.store, key)
        if isinstance(node, ArrayNode):
            self._check_array(key, node)
            return
        for name in directories:
            self._check_files(join(key, name))

    def _check_array(self, key: str, node: ArrayNode) -> None:
        if node.dtype is None or node.layout is None:
            return
        reader = open_array(self.store, key, node)
        if not isinstance(reader, ChunkedReader):
            return
        if reader.layout.chunks_per_shard:
            self._dead += self._try(lambda: sum(_dead_bytes(reader))) or 0
        if self.deep:
            for chunk in self._try(lambda: list(_stored_chunks(reader))) or ():
                rows = reader.layout.chunk_rows
                if chunk * rows < node.rows:
                    self._try(reader.read, chunk * rows, min((chunk + 1) * rows, node.rows))


def _changes(indexes: Iterator[Index]) -> list[int]:
    parts = [index.ordinals for index in indexes]
    return np.unique(np.concatenate(parts)).tolist() if parts else []


def _stored_chunks(reader: ChunkedReader) -> Iterator[int]:
    """Yield the chunks that are stored; the others are fill, however many are claimed."""
    per_shard = reader.layout.chunks_per_shard
    for number in reader.stored():
        if not per_shard:
            yield number
        else:
            entries = reader.entries(number)
            filled = np.flatnonzero((entries != EMPTY).any(axis=1))
            yield from (number * per_shard + filled).tolist()


def _backed(block: BlockReader) -> int:
    """Count the updates of a block that can hold anything but fill: the rest need no look."""
    updates = int(block.index.n_updates)
    if isinstance(block.index, RegularIndex):
        rows = 0
        for reader in block.columns.values():
            if not isinstance(reader, ChunkedReader):
                return updates
            per_object = reader.layout.chunk_rows * max(1, reader.layout.chunks_per_shard)
            rows = max(rows, (max(reader.stored(), default=-1) + 1) * per_object)
        return min(updates, rows // block.index.rows + 1)
    return updates


def _dead_bytes(reader: ChunkedReader) -> Iterator[int]:
    """Yield, shard by shard, the bytes that neither the index nor a chunk it names accounts for."""
    layout = reader.layout
    for shard in reader.stored():
        size = reader.store.size(join(reader.key, layout.object_key(shard, len(reader.node.shape))))
        if size is not None:
            entries = reader.entries(shard).tolist()
            live = sum(length for offset, length in entries if offset != EMPTY)
            yield max(0, size - live - index_bytes(layout.chunks_per_shard, crc=layout.index_crc))
