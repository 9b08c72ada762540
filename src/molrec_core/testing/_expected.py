"""What a record must hold after a crash, worked out without the code under test.

A :class:`Requirement` is what a recorded run had promised at one moment; a
:class:`History` the frames it had appended, each resolved by the three sentences of the
chapter: a block that is omitted carries forward, so does the cell, a block never
presented is absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_core._box import Box
from molrec_core._frame import Block, Frame

Image = tuple[Any, ...]
"""A frame as a value: equal exactly when every bit of two frames is."""


def _column(values: np.ndarray[Any, Any]) -> Image:
    if values.dtype.kind == "T":
        return ("string", values.shape, tuple(values.ravel().tolist()))
    return (values.dtype.str, values.shape, np.ascontiguousarray(values).tobytes())


def _block(block: Block) -> Image:
    masks = {name: mask for name, mask in block.validity.items() if not mask.all()}
    return (
        block.count,
        tuple(sorted((name, _column(block[name])) for name in block)),
        tuple(sorted((name, mask.tobytes()) for name, mask in masks.items())),
    )


def _cell(box: Box | None) -> Image | None:
    if box is None:
        return None
    return (box.vectors.tobytes(), box.origin.tobytes(), box.boundary.tobytes(), box.cell_defined)


def image(frame: Frame, step: int, time: float | None) -> Image:
    """Turn a resolved frame into a value."""
    blocks = tuple(sorted((name, _block(frame[name])) for name in frame))
    return (blocks, _cell(frame.box), tuple(sorted((k, repr(v)) for k, v in frame.meta.items())), step, time)


@dataclass(slots=True)
class History:
    """Frames appended one after the other, as a reader is to see them."""

    images: list[Image] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)
    box: Box | None = None

    def append(self, frame: Frame, step: int, time: float | None) -> None:
        """Take a frame and what it carries forward."""
        self.blocks.update({name: frame[name] for name in frame})
        self.box = frame.box or self.box
        resolved = Frame(self.blocks, box=self.box, meta=dict(frame.meta), meta_tags=dict(frame.meta_tags))
        self.images.append(image(resolved, step, time))

    @classmethod
    def of(cls, frames: Iterable[tuple[Frame, int, float | None]]) -> History:
        """Resolve several frames."""
        history = cls()
        for frame, step, time in frames:
            history.append(frame, step, time)
        return history


@dataclass(frozen=True, slots=True)
class Allowed:
    """One way a state may read: `least` to `most` frames of a history."""

    history: History
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a state must read as.

    Attributes
    ----------
    allowed : tuple of Allowed
        Any of them.
    none : bool
        Whether there may also be no record, or none with a trajectory: nothing was durable yet.
    """

    allowed: tuple[Allowed, ...]
    none: bool = False

    def broken_by(self, images: list[Image] | None) -> str | None:
        """Say what is wrong with the frames a state reads as (None: no trajectory); None when all is well."""
        if images is None or (not images and self.none):
            return None if self.none else "there is no trajectory, though frames were flushed"
        found = []
        for allowed in self.allowed:
            n = len(images)
            if not allowed.least <= n <= allowed.most:
                found.append(f"{n} frames where {allowed.least} to {allowed.most} are due")
                continue
            wrong = [i for i in range(n) if images[i] != allowed.history.images[i]]
            if not wrong:
                return None
            found.append(f"frames {wrong} of {n} are not what was appended")
        return "; ".join(found)
