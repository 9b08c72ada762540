"""Step and time series as arithmetic progressions, with the normative arithmetic.

"step and time" of the ragged-trajectory chapter; checklist group S. A series is kept
as ``start + i * stride`` only while every value equals that expression: exactly for
steps, bit for bit in binary64 (one product, one sum, both rounded) for times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_core._dtypes import refuse

_I64 = range(-(2**63), 2**63)


@dataclass(slots=True)
class Progression:
    """A step (integer) or time (float) series that is still a progression.

    Attributes
    ----------
    integer : bool
        True for steps.
    start, stride : int or float
        Meaningful from the first and the second value on.
    count : int
        Values seen so far.
    """

    integer: bool
    start: Any = 0
    stride: Any = 0
    count: int = 0

    def push(self, value: Any) -> bool:
        """Take the next value; False, and nothing taken, when it breaks the progression."""
        count = self.count
        if count == 0:
            # Expanded, a first -0.0 would come back as 0.0.
            if not self.integer and not (math.isfinite(value) and _same_bits(value + 0.0, value)):
                return False
            self.start = value
        elif count == 1:
            stride = value - self.start
            if not self.integer and not (
                math.isfinite(stride) and _same_bits(self.start + 1.0 * stride, value)
            ):
                return False
            self.stride = stride
        elif self.integer:
            if value != self.start + count * self.stride:
                return False
        elif not (math.isfinite(value) and _same_bits(self.start + float(count) * self.stride, value)):
            return False
        self.count = count + 1
        return True

    def expand(self, stop: int, start: int = 0) -> np.ndarray[Any, Any]:
        """Return values ``start`` to ``stop``, int64 or float64."""
        if self.integer:
            # Modulo 2**64: a stride may exceed int64 where every step fits it.
            steps = np.arange(start, stop, dtype=np.uint64)
            steps *= np.uint64(self.stride % 2**64)
            steps += np.uint64(self.start % 2**64)
            return steps.view(np.int64)
        times = np.arange(start, stop, dtype=np.float64)
        with np.errstate(over="ignore"):
            # Past the range of binary64 the normative arithmetic says infinity.
            times *= self.stride
            times += self.start
        return times

    def to_json(self) -> dict[str, Any]:
        """Return the attribute; the stride appears from the second value on."""
        if self.count < 2:
            return {"start": self.start}
        return {"start": self.start, "stride": self.stride}

    def truncated(self, count: int) -> Progression:
        """Return the progression of the first `count` values."""
        return Progression(self.integer, self.start, self.stride, min(count, self.count))


def _same_bits(left: float, right: float) -> bool:
    return left == right and math.copysign(1.0, left) == math.copysign(1.0, right)


def read_progression(document: object, nstep: int, *, integer: bool, loc: str) -> Progression:
    """Read a stored ``step_progression`` or ``time_progression`` of `nstep` values.

    Raises
    ------
    FormatError
        ``progression``: not an object with a start, no stride for two or more frames,
        numbers of the wrong type, a step stride <= 0, or steps past int64 (S11, S17).
    """
    if not isinstance(document, dict) or document.get("start") is None:
        raise refuse(
            loc, "progression", f"the progression is {document!r}; an object with 'start' is expected"
        )
    start, stride = document["start"], document.get("stride")
    if nstep > 1 and stride is None:
        raise refuse(loc, "progression", f"the progression has no 'stride' for {nstep} frames")
    for name, value in (("start", start), ("stride", stride)):
        kinds = int if integer else (int, float)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise refuse(
                loc,
                "progression",
                f"{name} is {value!r}; {'an integer' if integer else 'a number'} is expected",
            )
    if integer:
        _check_steps(start, stride, nstep, loc)
        return Progression(integer=True, start=start, stride=stride or 0, count=nstep)
    try:
        return Progression(integer=False, start=float(start), stride=float(stride or 0.0), count=nstep)
    except OverflowError:
        raise refuse(loc, "progression", "a number of the time progression does not fit a binary64") from None


def _check_steps(start: int, stride: int | None, nstep: int, loc: str) -> None:
    if nstep > 1 and (stride is None or stride <= 0):
        raise refuse(loc, "progression", f"the stride is {stride}; steps increase strictly, so it is above 0")
    last = start + max(nstep - 1, 0) * (stride or 0)
    if start not in _I64 or last not in _I64:
        raise refuse(loc, "progression", f"steps {start} to {last} do not fit int64")
