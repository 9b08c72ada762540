"""The sparse index of a block: pure arithmetic over ordinals and rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.records import u64, unreadable
from molrec_core._csr import ABSENT, Growth, RegularIndex, SparseIndex, checked_offset, checked_step_index

LOC = "trajectory/atoms/offset"


@pytest.mark.parametrize(
    ("stored", "nstep", "expected"),
    [
        ((0, 1, 2), 3, [0, 1, 2]),
        ((0, 5, 9), 6, [0, 5]),
        ((0, 5, 3), 5, [0]),
        ((7,), 3, []),
        ((), 3, []),
        ((0, 1), 0, []),
        ((0, 2**64 - 1, 1), 9, [0]),
    ],
)
def test_the_committed_prefix(stored, nstep, expected):
    found = checked_step_index(u64(*stored), nstep, LOC)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize("stored", [(0, 0), (1, 0), (0, 2, 2, 3), (0, 1, 2, 1)])
def test_ordinals_ascend_strictly(stored):
    with unreadable("step_index", LOC):
        checked_step_index(u64(*stored), 9, LOC)


@pytest.mark.parametrize(
    ("stored", "n_updates", "expected"),
    [
        ((0, 3, 8), 2, [0, 3, 8]),
        ((0, 3, 8, 1), 2, [0, 3, 8]),
        ((0, 0, 0), 2, [0, 0, 0]),
        ((0,), 0, [0]),
        ((0, 9), 0, [0]),
        ((0, 2**62 - 1), 1, [0, 2**62 - 1]),
    ],
)
def test_the_logical_offset(stored, n_updates, expected):
    found = checked_offset(u64(*stored), n_updates, LOC)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("stored", "n_updates"),
    [
        ((), 0),
        ((5,), 0),
        ((0, 3), 2),
        ((1, 3), 1),
        ((2**64 - 1, 3), 1),
        ((0, 8, 3), 2),
        ((0, 2**64 - 1, 0), 2),
        ((0, 2**62), 1),
        ((0, 2**64 - 1), 1),
    ],
)
def test_offsets_that_are_none(stored, n_updates):
    with unreadable("offset", LOC):
        checked_offset(u64(*stored), n_updates, LOC)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12), st.integers(1, 20))
def test_the_two_forms_and_the_plain_rule(draws, rows):
    ordinals, counts, at = [], [], -1
    for gap, count in draws:
        at += gap + 1
        ordinals.append(at)
        counts.append(count)
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    sparse = SparseIndex(np.array(ordinals, np.int64), offset)
    regular = RegularIndex(rows, len(draws))
    frames = np.arange(at + 3)
    for index, places in ((sparse, ordinals), (regular, range(len(draws)))):
        expected = [max((j for j, place in enumerate(places) if place <= i), default=-1) for i in frames]
        assert [index.update_at(int(i)) for i in frames] == expected
        assert index.updates_at(frames).tolist() == expected
        first, count = index.spans(np.arange(len(draws)))
        assert [index.span(j) for j in range(len(draws))] == [
            (int(lo), int(lo + n)) for lo, n in zip(first, count, strict=True)
        ]
        assert index.ordinals.tolist() == list(places)
    assert sparse.total_rows == sum(counts)
    assert regular.total_rows == rows * len(draws)


def test_absent():
    assert (ABSENT.n_updates, ABSENT.total_rows, ABSENT.update_at(7)) == (0, 0, -1)


@pytest.mark.parametrize(
    ("updates", "broken_by"),
    [
        ([(0, 3), (1, 3), (2, 3)], None),
        ([(0, 3), (1, 2)], 1),
        ([(0, 3), (2, 3)], 1),
        ([(1, 3)], 0),
        ([(0, 0)], 0),
        ([(0, 3), (1, 0), (2, 3)], 1),
    ],
)
def test_growth_until_regularity_breaks(updates, broken_by):
    growth = Growth(has_columns=True)
    assert not growth.regular
    broke = [growth.place(ordinal, rows) for ordinal, rows in updates]
    assert broke == [i == broken_by for i in range(len(updates))]
    assert growth.regular is (broken_by is None)
    assert growth.n_updates == len(updates)


def test_a_block_without_columns_keeps_its_index():
    growth = Growth(has_columns=False)
    assert growth.place(0, 5)
    assert not growth.regular
