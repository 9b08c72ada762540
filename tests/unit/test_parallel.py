"""Threads for compressors: order, nesting, errors, and a fork."""

import os
import threading

import pytest

from molrec_core import _parallel

MUCH = 100 * _parallel.WORTHWHILE_ITEM_BYTES


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    monkeypatch.setattr(_parallel, "_WORKERS", 2)
    monkeypatch.setattr(_parallel, "_pool", None)


def test_results_come_in_the_order_of_the_items():
    assert _parallel.map_ordered(lambda i: i * i, range(100), MUCH) == [i * i for i in range(100)]


@pytest.mark.parametrize(
    ("items", "enough"),
    [(2, _parallel.WORTHWHILE_BYTES), (9, 9 * _parallel.WORTHWHILE_ITEM_BYTES)],
    ids=["little work", "small items"],
)
def test_what_is_not_worth_it_stays_in_the_calling_thread(items, enough):
    def names(n_bytes):
        return set(_parallel.map_ordered(lambda _: threading.current_thread().name, range(items), n_bytes))

    here = threading.current_thread().name
    assert names(enough - 1) == {here}
    assert here not in names(enough)


def test_work_inside_a_worker_waits_for_no_other_worker():
    """Both workers hold a task that has tasks of its own: none may wait for a place in the pool."""
    meet = threading.Barrier(2, timeout=20)

    def outer(i):
        meet.wait()
        return sum(_parallel.map_ordered(lambda j: i * j, range(50), MUCH))

    assert _parallel.map_ordered(outer, [1, 2], MUCH) == [1225, 2450]


def test_an_error_reaches_the_caller():
    def fail(i):
        raise ValueError(f"item {i}")

    with pytest.raises(ValueError, match="item 0"):
        _parallel.map_ordered(fail, range(4), MUCH)


def test_a_forked_child_has_a_pool_of_its_own():
    _parallel.map_ordered(lambda i: i, range(4), MUCH)
    assert _parallel._pool is not None
    child = os.fork()
    if child == 0:
        fresh = _parallel._pool is None
        os._exit(0 if fresh and _parallel.map_ordered(lambda i: i, range(4), MUCH) == [0, 1, 2, 3] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
