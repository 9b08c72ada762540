"""Two threads for the work that releases the GIL: compressing, decompressing, checksums.

Small chunks want batching, not threads, so callers hand over only what is worth it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

WORTHWHILE_BYTES = 2**18
"""Below this much work in one call, starting threads costs more than it saves."""
WORTHWHILE_ITEM_BYTES = 2**16
"""Smaller items keep the threads waiting for one another more than working."""
_WORKERS = min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
_pool: ThreadPoolExecutor | None = None
_inside = threading.local()


def _enter() -> None:
    _inside.worker = True


def map_ordered(function: Callable[[T], R], items: Sequence[T], n_bytes: int) -> list[R]:
    """Apply `function` to `items`, in threads when there are several and `n_bytes` are worth it."""
    few = len(items) < 2 or _WORKERS < 2
    little = n_bytes < max(WORTHWHILE_BYTES, WORTHWHILE_ITEM_BYTES * len(items))
    # A worker that waited for other workers could wait forever: what it is given it does itself.
    if few or little or getattr(_inside, "worker", False):
        return [function(item) for item in items]
    global _pool  # noqa: PLW0603 - one pool a process
    if _pool is None:
        _pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="molrec", initializer=_enter)
    size = -(-len(items) // (_WORKERS * 4))
    batches = [items[at : at + size] for at in range(0, len(items), size)]
    try:
        parts = _pool.map(lambda batch: [function(x) for x in batch], batches)
    except RuntimeError:
        # The interpreter is going, and threads take nothing any more; a writer left open is closed then.
        return [function(item) for item in items]
    return [result for part in parts for result in part]


def _forget() -> None:
    # Threads do not survive a fork; a pool that claims to have them would hang.
    global _pool  # noqa: PLW0603 - one pool a process
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
