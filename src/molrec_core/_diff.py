"""Comparing two records: equal or not, section by section, the first difference in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_core._box import Box
from molrec_core._frame import Block, Frame
from molrec_core._record import Record, open_record
from molrec_core._trajectory_reader import TrajectoryReader
from molrec_core._typedjson import same

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two records first differ in one section, and how."""

    loc: str
    message: str

    def __str__(self) -> str:
        """Return ``loc: message``."""
        return f"{self.loc}: {self.message}"


def diff(
    left: Any,
    right: Any,
    *,
    tolerance: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> list[Difference]:
    """Compare two records value for value.

    Parameters
    ----------
    left, right : str, path-like or zarr store
    tolerance : float
        Largest absolute difference of floats that still counts as equal, in record
        units; 0 compares bit for bit.
    progress : callable, optional
        Called with 1 for each frame compared.

    Returns
    -------
    list of Difference
        The first of each section; empty when the records are equal.
    """
    with open_record(left) as a, open_record(right) as b:
        return list(_Comparison(a, b, tolerance, progress).run())


class _Comparison:
    def __init__(
        self, a: Record, b: Record, tolerance: float, progress: Callable[[int], None] | None
    ) -> None:
        self.a, self.b = a, b
        self.tolerance = tolerance
        self.progress = progress

    def run(self) -> list[Difference]:
        found: list[Difference] = []
        for section in dict.fromkeys((*self.a.sections, *self.b.sections)):
            sides = [section in record.sections for record in (self.a, self.b)]
            if not all(sides):
                found.append(Difference(section, f"only in {(self.a if sides[0] else self.b).path}"))
                continue
            first = self._section(section)
            if first is not None:
                found.append(first)
        return found

    def _section(self, name: str) -> Difference | None:
        if name not in self.a:
            # Nobody knows what it holds; its files are carried, not compared.
            return None
        left, right = getattr(self.a, name), getattr(self.b, name)
        if isinstance(left, TrajectoryReader):
            return self._trajectory(left, right)
        if isinstance(left, Frame):
            return self._frame(left, right, name)
        if isinstance(left, Mapping):
            return self._document(left, right, name)
        return None if left == right else Difference(name, "the sections differ")

    def _document(self, left: Mapping[str, Any], right: Mapping[str, Any], loc: str) -> Difference | None:
        for key in dict.fromkeys((*left, *right)):
            if key not in left or key not in right:
                return Difference(f"{loc}/{key}", f"only in {(self.a if key in left else self.b).path}")
            if not self._close(left[key], right[key]):
                return Difference(f"{loc}/{key}", f"{left[key]!r} and {right[key]!r}")
        return None

    def _close(self, left: Any, right: Any) -> bool:
        if same(left, right):
            return True
        if self.tolerance and isinstance(left, float) and isinstance(right, float):
            return math.isclose(left, right, rel_tol=0.0, abs_tol=self.tolerance)
        if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            return _where(left, right, self.tolerance) is None
        equal = left == right
        return isinstance(equal, bool) and equal and not isinstance(left, int | float)

    def _trajectory(self, left: TrajectoryReader, right: TrajectoryReader) -> Difference | None:
        if len(left) != len(right):
            return Difference("trajectory", f"{len(left)} and {len(right)} frames")
        for name, a, b in (("step", left.steps, right.steps), ("time", left.times, right.times)):
            if (a is None) != (b is None):
                return Difference(f"trajectory/{name}", "only one of the records has times")
            if (
                a is not None
                and b is not None
                and (at := _where(a, b, self.tolerance if name == "time" else 0.0))
            ):
                return Difference(f"trajectory/{name}", f"frame {at[0]}: {a[at]} and {b[at]}")
        for ordinal in range(len(left)):
            found = self._frame(left[ordinal], right[ordinal], f"trajectory, frame {ordinal}")
            if found is not None:
                return found
            if self.progress is not None:
                self.progress(1)
        return None

    def _frame(self, left: Frame, right: Frame, loc: str) -> Difference | None:
        for name in dict.fromkeys((*left, *right)):
            if name not in left or name not in right:
                return Difference(
                    f"{loc}/{name}", f"the block is only in {(self.a if name in left else self.b).path}"
                )
            found = self._block(left[name], right[name], f"{loc}/{name}")
            if found is not None:
                return found
        if not self._same_box(left.box, right.box):
            return Difference(f"{loc}/box", f"{left.box} and {right.box}")
        return self._document(left.meta, right.meta, f"{loc}/meta")

    def _same_box(self, left: Box | None, right: Box | None) -> bool:
        if left is None or right is None:
            return left is right
        return (
            left.cell_defined == right.cell_defined
            and np.array_equal(left.boundary, right.boundary)
            and _where(left.vectors, right.vectors, self.tolerance) is None
            and _where(left.origin, right.origin, self.tolerance) is None
        )

    def _block(self, left: Block, right: Block, loc: str) -> Difference | None:
        if left.count != right.count:
            return Difference(loc, f"{left.count} and {right.count} rows")
        for name in dict.fromkeys((*left, *right)):
            if name not in left or name not in right:
                return Difference(
                    f"{loc}/{name}", f"the column is only in {(self.a if name in left else self.b).path}"
                )
            a, b = left[name], right[name]
            if a.dtype != b.dtype or a.shape != b.shape:
                return Difference(
                    f"{loc}/{name}", f"{a.dtype} of shape {a.shape} and {b.dtype} of shape {b.shape}"
                )
            at = _where(a, b, self.tolerance)
            if at is not None:
                return Difference(f"{loc}/{name}", f"row {at[0]}: {a[at]!s} and {b[at]!s}")
            masks = [block.validity.get(name, np.ones(block.count, np.bool_)) for block in (left, right)]
            if (masks[0] != masks[1]).any():
                return Difference(
                    f"{loc}/{name}", f"row {int(np.argmax(masks[0] != masks[1]))} is null in one of them"
                )
        return None


def _where(left: Array, right: Array, tolerance: float) -> tuple[int, ...] | None:
    """Return the place of the first difference; NaN equals NaN, and without a tolerance bits count."""
    if left.shape != right.shape:
        return (0,) * max(1, left.ndim)
    if left.dtype.kind in "fc":
        equal = (left == right) & (np.signbit(left.real) == np.signbit(right.real)) | (left != left) & (
            right != right
        )
        if tolerance:
            with np.errstate(invalid="ignore"):
                equal |= np.abs(left - right) <= tolerance
    else:
        equal = left == right
    if equal.all():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmin(equal)), equal.shape))
