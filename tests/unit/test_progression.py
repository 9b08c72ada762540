"""Step and time series as progressions, with the normative arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_core import FormatError
from molrec_core._progression import Progression, read_progression

LOC = "trajectory"


def taken(values, *, integer):
    """Push values until one breaks the progression; return it and how many it took."""
    progression = Progression(integer=integer)
    for count, value in enumerate(values):
        if not progression.push(value):
            return progression, count
    return progression, len(values)


@pytest.mark.parametrize(
    ("values", "count", "attribute"),
    [
        ([], 0, {"start": 0}),
        ([7], 1, {"start": 7}),
        ([0, 10, 20, 30], 4, {"start": 0, "stride": 10}),
        ([-5, -4], 2, {"start": -5, "stride": 1}),
        ([0, 1, 5], 2, {"start": 0, "stride": 1}),
        ([0, 10, 20, 31], 3, {"start": 0, "stride": 10}),
        ([-(2**63), 2**63 - 1], 2, {"start": -(2**63), "stride": 2**64 - 1}),
    ],
)
def test_steps(values, count, attribute):
    progression, found = taken(values, integer=True)
    assert found == count
    assert progression.count == count
    assert progression.expand(count).tolist() == values[:count]
    if values:
        assert progression.to_json() == attribute


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([0.0, 0.25, 0.5], 3),
        ([0.0, 0.1, 0.2, 0.1 * 3], 4),
        ([0.0, 0.1, 0.2, 0.3], 3),
        ([0.0, 0.1, math.nextafter(0.2, 1)], 2),
        ([math.nan], 0),
        ([math.inf, math.inf], 0),
        ([1.0, math.nan], 1),
        ([0.0, math.inf], 1),
        ([-1.7e308, 1.7e308], 1),
        ([1e300, 1e-300], 1),
        ([-0.0, 0.1], 0),
        ([1.0, -0.0], 1),
        ([5.0, 5.0, 5.0], 3),
        ([1.0, 0.5, 0.0], 3),
        ([1.0, 0.5, -0.0], 2),
        ([0.0, 1e308, math.inf], 2),
    ],
)
def test_times(values, count):
    assert taken(values, integer=False)[1] == count


def test_a_value_that_breaks_it_is_not_taken():
    progression, _ = taken([0, 10, 25], integer=True)
    assert (progression.count, progression.to_json()) == (2, {"start": 0, "stride": 10})
    assert progression.push(20)


@given(st.integers(-(2**40), 2**40), st.integers(1, 2**20), st.integers(1, 300))
def test_steps_expand_to_what_was_pushed(start, stride, count):
    values = [start + i * stride for i in range(count)]
    progression, found = taken(values, integer=True)
    assert found == count
    expanded = progression.expand(count)
    assert expanded.dtype == np.int64
    assert expanded.tolist() == values


@given(st.floats(), st.floats(), st.integers(1, 50))
def test_times_expand_bit_for_bit(start, second, count):
    stride = second - start
    values = [start, second, *(start + float(i) * stride for i in range(2, count))][:count]
    progression, found = taken(values, integer=False)
    expanded = progression.expand(found)
    assert expanded.dtype == np.float64
    assert expanded.tobytes() == np.array(values[:found], np.float64).tobytes()


def test_a_stored_progression_past_binary64_is_infinite():
    found = read_progression({"start": 0.0, "stride": 1e308}, 3, integer=False, loc=LOC)
    assert found.expand(3).tolist() == [0.0, 1e308, math.inf]


def test_a_part_expands_as_the_whole_does():
    progression, count = taken([0.3 + float(i) * 0.7 for i in range(50)], integer=False)
    assert count == len(progression.expand(count))
    if count > 10:
        assert progression.expand(10, 4).tobytes() == progression.expand(count)[4:10].tobytes()
    steps, _ = taken([3, 5, 7, 9], integer=True)
    assert steps.expand(4, 2).tolist() == [7, 9]
    assert steps.truncated(1).to_json() == {"start": 3}
    assert steps.truncated(9).count == 4


@pytest.mark.parametrize(
    ("document", "nstep", "integer"),
    [
        ({"start": 0, "stride": 1}, 5, True),
        ({"start": -3}, 1, True),
        ({"start": -3}, 0, True),
        ({"start": 2**63 - 1}, 1, True),
        ({"start": 0.5, "stride": 0.25}, 3, False),
        ({"start": 0, "stride": 1}, 3, False),
        ({"start": 0.5, "stride": -0.25}, 3, False),
        ({"start": 0.5, "stride": 0.0}, 3, False),
        ({"start": 1, "stride": 2, "x_note": "kept elsewhere"}, 3, True),
    ],
)
def test_reading(document, nstep, integer):
    progression = read_progression(document, nstep, integer=integer, loc=LOC)
    stride = document.get("stride", 0)
    expected = [document["start"] + i * stride for i in range(nstep)]
    assert progression.expand(nstep).tolist() == expected


@pytest.mark.parametrize(
    ("document", "nstep", "integer"),
    [
        (None, 1, True),
        ([0, 1], 1, True),
        ({}, 1, True),
        ({"stride": 1}, 1, True),
        ({"start": None, "stride": 1}, 0, False),
        ({"start": 0}, 2, True),
        ({"start": 0, "stride": None}, 2, False),
        ({"start": 0, "stride": 0}, 2, True),
        ({"start": 0, "stride": -1}, 2, True),
        ({"start": 0.0, "stride": 1}, 2, True),
        ({"start": 0, "stride": 1.0}, 2, True),
        ({"start": True, "stride": 1}, 2, True),
        ({"start": 0, "stride": True}, 2, False),
        ({"start": "0", "stride": 1}, 2, False),
        ({"start": 2**63, "stride": 1}, 1, True),
        ({"start": 2**63 - 1, "stride": 1}, 2, True),
        ({"start": -(2**63) - 1, "stride": 1}, 2, True),
        ({"start": 10**400, "stride": 1}, 2, False),
    ],
)
def test_what_is_refused(document, nstep, integer):
    with pytest.raises(FormatError) as caught:
        read_progression(document, nstep, integer=integer, loc=LOC)
    assert (caught.value.kind, caught.value.loc) == ("progression", LOC)
