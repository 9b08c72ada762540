"""Rounding to a precision, and what counts as a change."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from molrec_core._change import differs, off_grid, rounded
from molrec_core._dtypes import NUMPY_TO_COLUMN, STRING, quantum


# With a quantum above 2**970 the rounded value itself may exceed binary64.
@given(st.floats(allow_nan=True), st.floats(2.0**-1000, 2.0**970))
def test_rounding_is_exact_half_even(value, precision):
    q = quantum(precision)
    found = rounded(np.array([value]), precision).item()
    if not math.isfinite(value) or abs(value) >= 2.0**52 * q:
        assert np.float64(found).tobytes() == np.float64(value).tobytes() or math.isnan(value)
    else:
        assert Fraction(found) == round(Fraction(value) / Fraction(q)) * Fraction(q)
        assert math.copysign(1.0, found) == math.copysign(1.0, value)


@given(st.floats(2.0**-1000, 2.0**1000))
def test_quantum_is_the_largest_power_of_two_below(precision):
    q = quantum(precision)
    assert math.frexp(q)[0] == 0.5
    assert q <= precision < 2 * q


def test_one_overflow_does_not_disturb_its_neighbours():
    values = np.array([1.7e308, 0.3, -0.0, math.nan, -math.inf, 3 * 2.0**-1001])
    found = rounded(values, 2.0**-1000)
    assert found[:2].tolist() == [1.7e308, 0.3]
    assert np.signbit(found[2])
    assert math.isnan(found[3])
    assert found[4] == -math.inf
    assert found[5] == 2 * 2.0**-1000


def test_off_grid_marks_what_rounding_would_change():
    values = np.array([0.5, 0.3, math.nan, -0.0, 2.0**60 + 0.5])
    assert off_grid(values, 1e-3).tolist() == [False, True, False, False, False]


@given(hnp.arrays(np.float64, st.integers(0, 40)), st.floats(1e-6, 10))
def test_rounded_values_are_on_the_grid(values, precision):
    assert not off_grid(rounded(values, precision), precision).any()


def array(*values):
    return np.array(values)


NAN_PAYLOAD = np.array([0x7FF8000000000001], np.uint64).view(np.float64)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (array(1.0, 2.0), array(1.0, 2.0), False),
        (array(1.0, 2.0), array(1.0, 3.0), True),
        (array(math.nan), array(math.nan), False),
        (array(math.nan), array(1.0), True),
        (array(1.0), array(math.nan), True),
        (array(math.nan), NAN_PAYLOAD, True),
        (array(0.0), array(-0.0), True),
        (array(-0.0), array(-0.0), False),
        (array(1.0), array(1.0, 1.0), True),
        (np.zeros((2, 3)), np.zeros((3, 2)), True),
        (np.zeros(0), np.zeros(0), False),
        (np.zeros((0, 3)), np.zeros((0, 3)), False),
        (np.zeros((2, 0)), np.zeros((2, 0)), False),
        (array(1, 2), array(1, 3), True),
        (array(True, False), array(True, True), True),
        (array(complex(1, 0.0)), array(complex(1, -0.0)), True),
        (array(complex(math.nan, 1)), array(complex(math.nan, 1)), False),
        (array("a", "b").astype(STRING), array("a", "b").astype(STRING), False),
        (array("a", "b").astype(STRING), array("a", "c").astype(STRING), True),
        (array("").astype(STRING), array("").astype(STRING), False),
    ],
)
def test_differs(old, new, expected):
    assert differs(new, old) is expected


@pytest.mark.parametrize("dtype", [dtype for dtype in NUMPY_TO_COLUMN if dtype.kind != "T"])
@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 50, 98, 99])
def test_one_item_anywhere_is_a_change(dtype, place):
    old = np.arange(100).astype(dtype)
    new = old.copy()
    assert not differs(new, old)
    new[place] = not old[place] if dtype.kind == "b" else old[place] + 1
    assert differs(new, old)


def test_rows_of_a_strided_view_are_compared_by_value():
    frame = np.arange(24.0).reshape(8, 3)
    column = frame[:, 1]
    assert not differs(column, column.copy())
    changed = column.copy()
    changed[4] += 1
    assert differs(column, changed)
