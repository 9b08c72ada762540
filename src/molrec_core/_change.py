"""Rounding to a declared precision, and whether two updates differ bit for bit.

"Declared precision" (checklist group P) and the change rule of the ragged-trajectory
chapter: a repeated NaN is unchanged, a -0.0 after a 0.0 is a change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_core._dtypes import quantum

Array = np.ndarray[Any, Any]
_EXACT = 2.0**52


def round_into(values: Array, precision: float, out: Array) -> None:
    """Write `values` rounded to the quantum of `precision` into `out` (float64, same shape).

    Round half to even in binary64; NaN, infinities and magnitudes of 2**52 quanta or
    more stay as they are, and the sign of zero is kept.
    """
    q = quantum(precision)
    try:
        with np.errstate(over="raise", under="ignore", invalid="ignore"):
            np.multiply(values, 1.0 / q, out=out)
    except FloatingPointError:
        # Only a magnitude far above 2**52 quanta overflows in x/q, and those stay as they are.
        small = np.abs(values) < _EXACT * q
        rounded = np.rint(np.where(small, values, 0.0) / q) * q
        out[...] = np.where(small, np.copysign(rounded, values), values)
        return
    np.rint(out, out=out)
    np.multiply(out, q, out=out)


def rounded(values: Array, precision: float) -> Array:
    """Return `values` rounded to the quantum of `precision`."""
    out = np.empty(values.shape, np.float64)
    round_into(values, precision, out)
    return out


def off_grid(values: Array, precision: float) -> Array:
    """Mask of the values that rounding to `precision` would change."""
    return np.not_equal(rounded(values, precision).view(np.uint64), values.view(np.uint64))


def differs(new: Array, old: Array) -> bool:
    """Whether two arrays of one dtype differ in shape or in any bit."""
    if new.shape != old.shape:
        return True
    if new.size == 0:
        return False
    # Coordinates that move differ in any value one looks at: most calls end here.
    for place in (0, new.size // 2, -1):
        left, right = new.item(place), old.item(place)
        if left != right and (left == left or right == right):
            return True
    if new.dtype.kind in "TS":
        return bool((new != old).any())
    return bool((_bits(new) != _bits(old)).any())


def moved(new: Array, old: Array, precision: float) -> bool:
    """Whether two arrays surely differ once they are rounded: in shape, or somewhere one looks by more than a quantum."""
    if new.shape != old.shape:
        return True
    if new.size == 0:
        return False
    q = quantum(precision)
    return any(abs(new.item(place) - old.item(place)) > q for place in (0, new.size // 2, -1))


def rows_differ(new: Array, old: Array) -> Array:
    """Return which rows of two arrays of one dtype and shape, (n,) + trailing, differ in any bit; shape (n,)."""
    different: Array = new != old if new.dtype.kind in "TS" else _bits(new) != _bits(old)
    rows: Array = different.reshape(len(new), -1).any(axis=1)
    return rows


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.uint64}


def _bits(array: Array) -> Array:
    if array.dtype.kind in "iub":
        return array
    return np.ascontiguousarray(array).view(_WORDS[array.dtype.itemsize])
