"""A growing trajectory in memory: what a frame must satisfy, and where its parts go.

:meth:`SequenceWriter.check` refuses a frame that breaks the pin or a rule between
blocks before anything of it is taken; :meth:`SequenceWriter.take` cannot fail on
content. No I/O but the landing of whole chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from molrec_core._block_writer import BlockWriter, BoxWriter
from molrec_core._box import Box
from molrec_core._column import GrowingArray
from molrec_core._commit import Document, Plan
from molrec_core._compression import Compression
from molrec_core._declaration import MetaSchema
from molrec_core._extents import flush_frames
from molrec_core._fit import BlockFit
from molrec_core._fixed import get_group
from molrec_core._frame import Frame
from molrec_core._links import SystemRows, check_aligned, check_reference, highest_row, target_rows
from molrec_core._node import group_document
from molrec_core._schema import SequenceSchema
from molrec_core._series import DenseWriter, SeriesWriter, checked_step
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, join
from molrec_core._typedjson import coerce
from molrec_core.errors import SchemaError

KEY = "trajectory"
ATTRIBUTES = frozenset({"sequence_schema", "nstep", "step_progression", "time_progression"})


class Checked(NamedTuple):
    """What :meth:`SequenceWriter.check` found out about a frame it admits."""

    step: int
    time: float | None
    meta: list[Any]
    references: dict[tuple[str, str], int] | None


def meta_fill(key: str, spec: MetaSchema) -> Any:
    """Return the value of a key that a frame omits; refuse one that was declared without a fill."""
    if spec.has_fill:
        return spec.fill
    raise SchemaError.one(
        f"{KEY}/meta/{key}", "missing_meta", "the frame omits a key that was declared without a fill"
    )


def refuse_undeclared_meta(document: Mapping[str, Any], schema: SequenceSchema) -> None:
    """Refuse a meta document with a key that is not declared."""
    for key in document:
        if key not in schema.meta:
            raise SchemaError.one(
                f"{KEY}/meta/{key}",
                "undeclared_meta",
                "the key is not declared; declare it before the first frame",
            )


def checked_flag(box: Box, flag: bool | None) -> bool:
    """Return whether a cell counts as defined; refuse one that says otherwise than the frames before it."""
    if flag not in {None, box.cell_defined}:
        raise SchemaError.one(
            f"{KEY}/box",
            "cell_defined",
            f"cell_defined is {box.cell_defined}; the run started with {flag}, one flag covers it",
        )
    return box.cell_defined


class SequenceWriter:
    """Blocks, cell, series and per-step meta of a trajectory that grows.

    Parameters
    ----------
    store : DirectoryStore
    schema : SequenceSchema
        Checked and frozen; the pin.
    sections : mapping of str to Frame
        ``system`` and ``frame`` of the record, where it has them: for blocks that stand
        on both sides and for absolute row references.
    """

    def __init__(
        self,
        store: DirectoryStore,
        schema: SequenceSchema,
        sections: Mapping[str, Frame],
        *,
        compression: Compression | None = None,
        expected_frames: int | None = None,
    ) -> None:
        self.store = store
        self.schema = schema
        self.frames = 0
        self.blocks = {
            name: BlockWriter(
                store,
                name,
                spec,
                frame_rows=schema.frame_rows.get(name, 0),
                compression=compression,
                expected_frames=expected_frames,
            )
            for name, spec in schema.blocks.items()
        }
        self.box = BoxWriter(store, expected_frames)
        self.step = SeriesWriter(store, f"{KEY}/step", integer=True, expected_rows=expected_frames)
        self.time = SeriesWriter(store, f"{KEY}/time", integer=False, expected_rows=expected_frames)
        self.has_time: bool | None = None
        self.steps_given: bool | None = None
        self.last_step = -1
        self.meta = {
            key: DenseWriter(
                store,
                f"{KEY}/meta/{key}",
                spec.tag,
                attributes={"meta_dtype": spec.tag},
                expected_rows=expected_frames,
            )
            for key, spec in schema.meta.items()
        }
        self.extra_attributes: dict[str, Any] = {}
        self.document_base: dict[str, Any] | None = None
        self._fits = {name: BlockFit(f"{KEY}/{name}", spec) for name, spec in schema.blocks.items()}
        system = sections.get("system")
        self.system = {
            name: SystemRows(system[name].count, system[name].get("id"))
            for name in (self.blocks if system is not None else ())
            if system is not None and name in system
        }
        self._sections = sections
        self.references: dict[tuple[str, str], int] = {}
        self.aligned = [
            (name, spec.aligned_with) for name, spec in schema.blocks.items() if spec.aligned_with
        ]
        self._targets = [
            (name, column, target)
            for name, spec in schema.blocks.items()
            for column, target in spec.targets.items()
        ]
        self._linked = bool(self.aligned or self._targets or self.system)
        self._check_system_names()

    def carry_attributes(self, store: Store) -> None:
        """Take over what the section's groups in `store` say beside what the layout owns."""
        group = get_group(store, KEY)
        if group is not None:
            self.extra_attributes = {k: v for k, v in group.attributes.items() if k not in ATTRIBUTES}
            self.document_base = group.document
        sections: list[BlockWriter | BoxWriter] = [*self.blocks.values(), self.box]
        for section in sections:
            group = get_group(store, section.key)
            if group is not None:
                section.extra_attributes = {
                    k: v for k, v in group.attributes.items() if k not in section.ATTRIBUTES
                }
                section.document_base = group.document

    def flush_frames(self) -> int:
        """Return the frames between two automatic flushes, and reserve buffers for them."""
        total = sum(block.frame_bytes() for block in self.blocks.values())
        largest = max(self.blocks.values(), key=BlockWriter.frame_bytes, default=None)
        per_chunk = (
            largest.chunk_rows // largest.frame_rows if largest is not None and largest.frame_rows else 1
        )
        frames = flush_frames(total, per_chunk)
        for block in self.blocks.values():
            block.reserve(frames)
        return frames

    # -- what a frame must satisfy

    def _check_system_names(self) -> None:
        for name, target in self.aligned:
            if name in self.system:
                raise SchemaError.one(
                    f"{KEY}/{name}",
                    "aligned_system_name",
                    f"a block aligned with {target!r} shares its name with a system block; only its target may",
                )

    def fit(self, name: str) -> BlockFit:
        """Return what a block must fit; refuse one that is not declared."""
        fit = self._fits.get(name)
        if fit is None:
            raise SchemaError.one(
                f"{KEY}/{name}",
                "undeclared_block",
                "the block is not declared; declare it before the first frame",
            )
        return fit

    def check(self, frame: Frame, step: int | None, time: float | None) -> Checked:
        """Refuse a frame that breaks the pin or a rule of the format; nothing of it is taken.

        Raises
        ------
        SchemaError
            What was found, what was expected, and where.
        """
        checked_step = self._check_step(step)
        checked_time = self.check_time(time)
        for name, block in frame._blocks.items():
            self.fit(name).check(block)
        meta = self._check_meta(frame) if frame.meta or self.meta else []
        if frame.box is not None:
            checked_flag(frame.box, self.box.cell_defined)
        references = self._check_links(frame) if self._linked else None
        return Checked(checked_step, checked_time, meta, references)

    def check_step_given(self, *, given: bool) -> None:
        """Refuse steps that are given for some frames only."""
        if self.steps_given is not None and given != self.steps_given:
            raise SchemaError.one(f"{KEY}/step", "step_given", "steps are given for every frame or for none")

    def _check_step(self, step: int | None) -> int:
        self.check_step_given(given=step is not None)
        if step is None:
            return self.last_step + 1
        return checked_step(step, self.last_step if self.frames else None)

    def check_time(self, time: float | None) -> float | None:
        """Return a time as it is stored; refuse one that is given for some frames only."""
        if self.has_time is not None and (time is not None) != self.has_time:
            had = (
                "has times; they cannot be dropped" if self.has_time else "has no times; they cannot be added"
            )
            raise SchemaError.one(f"{KEY}/time", "time_presence", f"the trajectory {had} midway")
        if time is None or type(time) is float:
            return time
        value: float = coerce(time, "f64", f"{KEY}/time")
        return value

    def _check_meta(self, frame: Frame) -> list[Any]:
        found = frame.meta
        values: list[Any] = []
        used = 0
        for key, spec in self.schema.meta.items():
            if key in found:
                value = found[key]
                used += 1
                if frame.meta_tags.get(key) != spec.tag:
                    value = coerce(value, spec.tag, f"{KEY}/meta/{key}")
                values.append(value)
            else:
                values.append(meta_fill(key, spec))
        if used != len(found):
            refuse_undeclared_meta(found, self.schema)
        return values

    def _rows(self, name: str, frame: Frame) -> int | None:
        """Rows of a block as this frame resolves it; None while it is absent."""
        return frame[name].count if name in frame else self.blocks[name].last_rows

    def _check_links(self, frame: Frame) -> dict[tuple[str, str], int]:
        if self.system:
            for name in frame:
                if name in self.system:
                    self.system[name].check(frame[name], f"{KEY}/{name}")
        for name, target in self.aligned:
            check_aligned(self._rows(name, frame), self._rows(target, frame), target, f"{KEY}/{name}")
        return self.check_references(frame)

    def check_references(self, frame: Frame) -> dict[tuple[str, str], int]:
        """Refuse row references past their target; return the highest row of each column that may have changed."""
        references = {}
        for name, column, target in self._targets:
            local = not target.startswith("/")
            if name not in frame and not (local and target in frame):
                continue
            block = frame.get(name)
            key = (name, column)
            highest = self.references.get(key, -1) if block is None else highest_row(block, column)
            references[key] = highest
            rows = self._rows(target, frame) if local else target_rows(self._sections, target)
            check_reference(highest, rows, target, f"{KEY}/{name}/{column}", known=local or rows is not None)
        return references

    # -- taking a frame

    def take(self, frame: Frame, checked: Checked) -> None:
        """Take an admitted frame."""
        ordinal = self.frames
        for name, block in frame._blocks.items():
            self.blocks[name].present(block, ordinal)
        if frame.box is not None:
            self.box.present(frame.box, ordinal)
        for writer, value in zip(self.meta.values(), checked.meta, strict=True):
            writer.push(value)
        self.step.push(checked.step)
        if checked.time is not None:
            self.time.push(checked.time)
        self.has_time = checked.time is not None
        self.last_step = checked.step
        if checked.references:
            self.references.update(checked.references)
        self.frames = ordinal + 1

    def advance(
        self, steps: Sequence[int], times: Sequence[float] | None, meta: Sequence[Sequence[Any]]
    ) -> None:
        """Take steps, times and per-step meta (a sequence a key) of frames whose blocks are presented already."""
        for writer, values in zip(self.meta.values(), meta, strict=True):
            writer.push_all(values)
        for step in steps:
            self.step.push(step)
        for time in times or ():
            self.time.push(time)
        self.has_time = times is not None
        self.last_step = steps[-1]
        self.frames += len(steps)

    @property
    def has_targets(self) -> bool:
        """Whether any column refers to rows."""
        return bool(self._targets)

    def note_references(self, frame: Frame) -> None:
        """Take up the highest row each reference column holds in the last frame on disk."""
        for name, column, _ in self._targets:
            if name in frame:
                self.references[name, column] = highest_row(frame[name], column)

    # -- for the commit

    def arrays(self) -> Iterator[GrowingArray]:
        """Iterate over every array that grows."""
        for block in self.blocks.values():
            yield from block.arrays()
        yield from self.box.arrays()
        for dense in self._dense():
            dense.spill()
            yield dense.array

    def _dense(self) -> list[DenseWriter]:
        series = [s.dense for s in (self.step, self.time) if s.dense is not None]
        return [*series, *self.meta.values()]

    def creation(self) -> list[Document]:
        """Return the documents of a trajectory without frames, but for the trajectory group itself."""
        documents = [document for block in self.blocks.values() for document in block.creation()]
        if self.meta:
            documents.append((f"{KEY}/meta/{ZARR_JSON}", group_document({}, KEY)))
        for dense in self.meta.values():
            documents.append(dense.array.document(0))
            dense.stored = True
        return documents

    def plan(self, *, final: bool) -> Plan:
        """Plan the commit of everything taken; every chunk is landed already."""
        plan = Plan()
        for block in self.blocks.values():
            block.plan(plan, self.frames, final=final)
        self.box.plan(plan)
        for dense in self._dense():
            dense.plan(plan, exact=final)
        plan.marker = self.marker()
        return plan

    def marker(self) -> Document:
        """Return the trajectory group's document with the current ``nstep``."""
        attributes: dict[str, Any] = {"sequence_schema": self.schema.to_json(), "nstep": self.frames}
        for series, name in ((self.step, "step_progression"), (self.time, "time_progression")):
            progression = series.attribute()
            if progression is not None:
                attributes[name] = progression
        return join(KEY, ZARR_JSON), group_document(
            attributes | self.extra_attributes, KEY, self.document_base
        )
