"""Memory for the arrays of large images, cut from blocks that the system hands out in huge pages.

The first touch of fresh memory, page by page, costs more than filling it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_HUGE_PAGE = 2**21
_BLOCK = 4 * _HUGE_PAGE
"""What an image that is kept may keep alive of others."""
_SMALL = 2**14
_LINE = 64


class Arena:
    """Hands out arrays that lie one after another in blocks of 8 MiB.

    Small arrays, and those that are large enough for huge pages of their own, are
    allocated one by one; and so is everything until :meth:`open` is called.
    """

    def __init__(self) -> None:
        self._block: Array | None = None
        self._at = 0

    @property
    def opened(self) -> bool:
        """Whether arrays are cut from blocks."""
        return self._block is not None

    def open(self) -> None:
        """Cut arrays from blocks from now on."""
        if self._block is None:
            self._block = np.empty(0, np.uint8)

    def close(self) -> None:
        """Forget the block at hand: who holds an array of it keeps it."""
        self._block = None
        self._at = 0

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        """Return an uninitialised array."""
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if self._block is None or not _SMALL < size <= _BLOCK // 2 or dtype.hasobject:
            return np.empty(shape, dtype)
        if self._at + size > len(self._block):
            self._block = np.empty(_BLOCK + _HUGE_PAGE, np.uint8)
            # From a page border on: what lies before it is never touched.
            self._at = -self._block.ctypes.data % _HUGE_PAGE
        start, self._at = self._at, self._at + size + -size % _LINE
        found: Array = self._block[start : start + size].view(dtype).reshape(shape)
        return found

    def copy(self, values: Array, dtype: Any = None) -> Array:
        """Return a copy of an array, cast to `dtype`."""
        if self._block is None or values.nbytes <= _SMALL:
            return values.astype(values.dtype if dtype is None else dtype)
        out = self.empty(values.shape, values.dtype if dtype is None else dtype)
        out[...] = values
        return out
