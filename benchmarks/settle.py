"""The same start for whatever is timed next: nothing dirty on the way to the disk, memory at hand."""

from __future__ import annotations

import os

import numpy as np


def settle(n_bytes: float = 2**30) -> None:
    """Write out what is dirty, and touch as much memory as what comes next may need.

    A virtual machine gives memory that is idle back to its host, at once or after seconds, and
    getting it again costs several times the work that is measured: whoever comes first would pay.
    """
    os.sync()
    np.ones(int(n_bytes) // 8)
