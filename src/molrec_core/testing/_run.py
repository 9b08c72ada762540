"""A run as it was drawn: what is appended, what must read back, and what occurs in it.

:meth:`Run.expected` is worked out without the writer: blocks carried forward in a
dictionary, fills put in, declared precisions rounded by the book.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_core import Block, Frame, FrameStack, SequenceSchema
from molrec_core._declaration import BlockSchema

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Run:
    """A declaration and the frames that are appended under it.

    Attributes
    ----------
    steps, times : tuple or None
        One for each frame; None leaves them to the writer, or out.
    system : Frame or None
    """

    schema: SequenceSchema
    frames: tuple[Frame, ...]
    steps: tuple[int, ...] | None
    times: tuple[float, ...] | None
    system: Frame | None

    def append_to(self, writer: Any, start: int = 0, stop: int | None = None) -> None:
        """Append frames `start` to `stop` with their steps and times."""
        for i in range(start, len(self.frames) if stop is None else stop):
            step = None if self.steps is None else self.steps[i]
            writer.append(self.frames[i], step=step, time=None if self.times is None else self.times[i])

    def extend_to(self, writer: Any, start: int, stop: int) -> None:
        """Append frames `start` to `stop` at once."""
        steps, times = (None if given is None else given[start:stop] for given in (self.steps, self.times))
        writer.extend(FrameStack.from_frames(self.frames[start:stop]), steps, times)

    def expected(self) -> list[Frame]:
        """Return the frames as they resolve: rounded, filled and carried forward."""
        resolved = []
        blocks: dict[str, Block] = {}
        box = None
        for frame in self.frames:
            blocks = blocks | {
                name: _as_stored(block, self.schema.blocks[name]) for name, block in frame.items()
            }
            box = frame.box if frame.box is not None else box
            fills = {key: m.fill for key, m in self.schema.meta.items() if m.has_fill}
            tags = {key: m.tag for key, m in self.schema.meta.items()}
            in_order = {name: blocks[name] for name in self.schema.blocks if name in blocks}
            resolved.append(Frame(in_order, box=box, meta=fills | frame.meta, meta_tags=tags))
        return resolved

    def expected_steps(self) -> list[int]:
        """Return the step numbers that must read back."""
        return list(range(len(self.frames)) if self.steps is None else self.steps)

    def features(self) -> set[str]:
        """Name what occurs in this run."""
        found = set(_frame_features(self))
        for spec in self.schema.blocks.values():
            found |= {"aligned"} if spec.aligned_with else set()
            found |= {"target"} if spec.targets else set()
            found |= {"structural shape"} if spec.structural_shape is not None else set()
            found |= {"no columns"} if not spec.columns else set()
        boxes = [frame.box for frame in self.expected()]
        changes = [i for i in range(1, len(boxes)) if boxes[i] != boxes[i - 1] and boxes[i - 1] is not None]
        found |= {"cell change"} if changes else set()
        found |= (
            {"undefined cell"} if any(box is not None and not box.cell_defined for box in boxes) else set()
        )
        found |= {"progression break"} if _breaks(self.steps) or _breaks(self.times) else set()
        found |= {"times"} if self.times else set()
        found |= {"system"} if self.system is not None else set()
        return found


def _frame_features(run: Run) -> Iterable[str]:
    """Name what occurs in the frames as presented and as resolved; declared but absent things do not count."""
    rows: dict[str, set[int]] = {}
    for given, resolved in zip(run.frames, run.expected(), strict=True):
        for name, spec in run.schema.blocks.items():
            if name not in resolved:
                yield "absent"
                continue
            block = resolved[name]
            yield "carried forward" if name not in given else "presented"
            yield "zero-row" if block.count == 0 else "rows"
            rows.setdefault(name, set()).add(block.count)
            if block.validity:
                yield "nullable"
            for column in spec.columns.values() if block.count else ():
                yield f"dtype {column.dtype}"
                yield "trailing axes" if column.trailing else "one value a row"
                yield "precision" if column.precision is not None else "exact"
        for key, meta in run.schema.meta.items():
            yield f"tag {meta.tag}"
            yield "given" if key in given.meta else "filled"
    if any(len(counts - {0}) > 1 for counts in rows.values()):
        yield "ragged"


def _breaks(values: tuple[Any, ...] | None) -> bool:
    if not values or not all(map(math.isfinite, values)):
        return bool(values)
    return len(values) > 2 and any(
        values[i] != values[0] + type(values[0])(i) * (values[1] - values[0]) for i in range(len(values))
    )


def _as_stored(block: Block, spec: BlockSchema) -> Block:
    columns = {}
    for name, column in spec.columns.items():
        values = block[name]
        columns[name] = values if column.precision is None else _round(values, column.precision)
    return Block(columns, validity=block.validity, structural_shape=spec.structural_shape, count=block.count)


def _round(values: Array, precision: float) -> Array:
    """Round by the book: half to even on multiples of q; NaN, infinities and huge magnitudes stay."""
    q = 2.0 ** (math.frexp(precision)[1] - 1)
    stays = ~np.isfinite(values) | (np.abs(values) >= 2.0**52 * q)
    return np.where(stays, values, np.rint(np.where(stays, 0.0, values) / q) * q)
