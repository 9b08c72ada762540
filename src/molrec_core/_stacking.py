"""Frames in a row on their way into a growing trajectory: checked as a whole, taken piece by piece.

What a frame by itself must satisfy and where its parts go is in :mod:`molrec_core._sequence`;
here the same is done once for the rows of many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from molrec_core._column import BUFFER_BYTES
from molrec_core._frame import Frame
from molrec_core._links import check_aligned
from molrec_core._sequence import (
    KEY,
    SequenceWriter,
    checked_flag,
    meta_fill,
    refuse_undeclared_meta,
)
from molrec_core._series import checked_step
from molrec_core._stack import OMITTED, FrameStack
from molrec_core._typedjson import coerce
from molrec_core.errors import SchemaError

Array = np.ndarray[Any, Any]
_PLAIN = {"f64": {float}, "bool": {bool}}
"""Tags whose values need no check beyond their type."""
_LEFT_OUT: Any = object()
_ABSENT = -1


class CheckedStack(NamedTuple):
    """What :func:`check_stack` found out about a stack it admits."""

    steps: Sequence[int]
    times: Sequence[float] | None
    meta: list[list[Any]]
    references: dict[tuple[str, str], int]


def check_stack(
    sequence: SequenceWriter, stack: FrameStack, steps: Sequence[int] | None, times: Sequence[float] | None
) -> CheckedStack:
    """Refuse a stack with a frame that breaks the pin or a rule of the format; nothing of it is taken.

    Raises
    ------
    SchemaError
        What was found, what was expected, and where.
    """
    for what, values in (("step", steps), ("time", times)):
        if values is not None and len(values) != stack.n_frames:
            raise SchemaError.one(
                f"{KEY}/{what}", "stack", f"{len(values)} values for {stack.n_frames} frames"
            )
    checked_steps = _check_steps(sequence, stack.n_frames, steps)
    checked_times = _check_times(sequence, times)
    for name, block in stack.blocks.items():
        sequence.fit(name).check(block, set(stack.counts[name].tolist()) - {OMITTED})
    flag = sequence.box.cell_defined
    for box in stack.boxes or ():
        if box is not None:
            flag = checked_flag(box, flag)
    return CheckedStack(
        checked_steps, checked_times, _check_meta(sequence, stack), _check_links(sequence, stack)
    )


def _check_steps(sequence: SequenceWriter, n_frames: int, steps: Sequence[int] | None) -> Sequence[int]:
    sequence.check_step_given(given=steps is not None)
    if steps is None:
        return range(sequence.last_step + 1, sequence.last_step + 1 + n_frames)
    last = sequence.last_step if sequence.frames else None
    found = []
    for step in steps:
        last = checked_step(step, last)
        found.append(last)
    return found


def _check_times(sequence: SequenceWriter, times: Sequence[float] | None) -> list[float] | None:
    if times is None:
        sequence.check_time(None)
        return None
    found: list[Any] = [sequence.check_time(time) for time in times]
    if None in found:
        raise SchemaError.one(f"{KEY}/time", "time_presence", "times are given for every frame or for none")
    return found


def _check_meta(sequence: SequenceWriter, stack: FrameStack) -> list[list[Any]]:
    """Return the values of each declared key, one a frame."""
    documents: Sequence[Mapping[str, Any]] = ({},) * stack.n_frames if stack.meta is None else stack.meta
    columns = []
    used = 0
    for key, spec in sequence.schema.meta.items():
        found = [document.get(key, _LEFT_OUT) for document in documents]
        if set(map(type, found)) != _PLAIN.get(spec.tag):
            loc = f"{KEY}/meta/{key}"
            used -= sum(value is _LEFT_OUT for value in found)
            found = [
                meta_fill(key, spec) if value is _LEFT_OUT else coerce(value, spec.tag, loc)
                for value in found
            ]
        used += len(found)
        columns.append(found)
    if used != sum(map(len, documents)):
        for document in documents:
            refuse_undeclared_meta(document, sequence.schema)
    return columns


def _check_links(sequence: SequenceWriter, stack: FrameStack) -> dict[tuple[str, str], int]:
    for name, rows in sequence.system.items():
        if name in stack.blocks:
            counts, has_ids = stack.counts[name], "id" in stack.blocks[name]
            for i in np.flatnonzero((counts != OMITTED) & ((counts != rows.count) | has_ids)).tolist():
                rows.check(stack.rows(name, i), f"{KEY}/{name}")
    for name, target in sequence.aligned:
        ours, theirs = _seen_rows(sequence, stack, name), _seen_rows(sequence, stack, target)
        for i in np.flatnonzero((ours != theirs) & (ours != _ABSENT)).tolist():
            check_aligned(_or_none(ours[i]), _or_none(theirs[i]), target, f"{KEY}/{name}")
    references: dict[tuple[str, str], int] = {}
    if sequence.has_targets:
        seen = {name: stack.seen(name) for name in stack.blocks}
        for i in range(stack.n_frames):
            blocks = {name: stack.rows(name, int(at[i])) for name, at in seen.items() if at[i] >= 0}
            references.update(sequence.check_references(Frame(blocks)))
    return references


def _seen_rows(sequence: SequenceWriter, stack: FrameStack, name: str) -> Array:
    """Return the rows of a block as each frame sees it, `_ABSENT` while it is absent."""
    before = sequence.blocks[name].last_rows
    rows = np.full(stack.n_frames, _ABSENT if before is None else before)
    if name in stack.blocks:
        seen = stack.seen(name)
        rows[seen >= 0] = stack.counts[name][seen[seen >= 0]]
    return rows


def _or_none(rows: Any) -> int | None:
    return None if rows == _ABSENT else int(rows)


def take_stack(
    sequence: SequenceWriter, stack: FrameStack, checked: CheckedStack, start: int, stop: int
) -> None:
    """Take frames `start` to `stop` of an admitted stack, in pieces that stay in the processor's cache."""
    widest = max(
        (values.nbytes for block in stack.blocks.values() for values in block._columns.values()),
        default=0,
    )
    size = max(1, BUFFER_BYTES * stack.n_frames // max(widest, 1))
    for at in range(start, stop, size):
        _take(sequence, stack, checked, at, min(at + size, stop))


def _take(sequence: SequenceWriter, stack: FrameStack, checked: CheckedStack, start: int, stop: int) -> None:
    ordinal = sequence.frames
    for name, block in stack.blocks.items():
        edges = stack.edges[name]
        rows = slice(int(edges[start]), int(edges[stop]))
        sequence.blocks[name].present_run(
            {column: values[rows] for column, values in block._columns.items()},
            {column: mask[rows] for column, mask in block.validity.items()},
            stack.counts[name][start:stop],
            ordinal,
        )
    for i, box in enumerate(() if stack.boxes is None else stack.boxes[start:stop]):
        if box is not None:
            sequence.box.present(box, ordinal + i)
    times = None if checked.times is None else checked.times[start:stop]
    sequence.advance(checked.steps[start:stop], times, [values[start:stop] for values in checked.meta])
    sequence.references.update(checked.references)
