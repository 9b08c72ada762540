"""The sparse index of a block: which update a frame sees, and which rows an update owns.

"Per-block sparse updates", "Regular block" and "Resolving a frame" of the
ragged-trajectory chapter; checklist groups C and G. Two forms, one interface:
:class:`RegularIndex` has no arrays, :class:`SparseIndex` has ``step_index`` and
``offset``. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_core._dtypes import refuse

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class RegularIndex:
    """Update j sits at ordinal j and owns rows ``j * rows`` to ``(j + 1) * rows``."""

    rows: int
    n_updates: int

    def update_at(self, ordinal: int) -> int:
        """Return the update that frame `ordinal` sees; -1 when the block is absent there."""
        return min(ordinal, self.n_updates - 1)

    def span(self, update: int) -> tuple[int, int]:
        """Return the rows [lo, hi) of `update`."""
        return update * self.rows, (update + 1) * self.rows

    def updates_at(self, ordinals: Array) -> Array:
        """Return the update each of `ordinals` sees, -1 where the block is absent."""
        return np.minimum(ordinals, self.n_updates - 1)

    def spans(self, updates: Array) -> tuple[Array, Array]:
        """Return first rows and row counts of `updates`."""
        return updates * self.rows, np.full(len(updates), self.rows, dtype=np.int64)

    @property
    def ordinals(self) -> Array:
        """Ordinals of the updates, int64."""
        return np.arange(self.n_updates, dtype=np.int64)

    @property
    def total_rows(self) -> int:
        """Committed rows of every column."""
        return self.n_updates * self.rows


@dataclass(frozen=True, slots=True)
class SparseIndex:
    """Update j sits at ``step_index[j]`` and owns rows ``offset[j]`` to ``offset[j + 1]``.

    Attributes
    ----------
    step_index : (n_updates,) int64
    offset : (n_updates + 1,) int64
    """

    step_index: Array
    offset: Array

    @property
    def n_updates(self) -> int:
        """Committed updates."""
        return len(self.step_index)

    def update_at(self, ordinal: int) -> int:
        """Return the update that frame `ordinal` sees; -1 when the block is absent there."""
        return int(self.step_index.searchsorted(ordinal, side="right")) - 1

    def span(self, update: int) -> tuple[int, int]:
        """Return the rows [lo, hi) of `update`."""
        return int(self.offset[update]), int(self.offset[update + 1])

    def updates_at(self, ordinals: Array) -> Array:
        """Return the update each of `ordinals` sees, -1 where the block is absent."""
        return self.step_index.searchsorted(ordinals, side="right") - 1

    def spans(self, updates: Array) -> tuple[Array, Array]:
        """Return first rows and row counts of `updates`."""
        first = self.offset[updates]
        return first, self.offset[updates + 1] - first

    @property
    def ordinals(self) -> Array:
        """Ordinals of the updates, int64."""
        return self.step_index

    @property
    def total_rows(self) -> int:
        """Committed rows of every column."""
        return int(self.offset[-1])


Index = RegularIndex | SparseIndex
ABSENT = SparseIndex(np.zeros(0, np.int64), np.zeros(1, np.int64))
"""The index of a block without a committed update."""


def checked_step_index(stored: Array, nstep: int, loc: str) -> Array:
    """Return the committed prefix of a stored ``step_index``: entries < `nstep`, as int64.

    Raises
    ------
    FormatError
        ``step_index``: the prefix repeats or decreases (C12, B17).
    """
    n_updates = _prefix(stored, nstep)
    prefix = stored[:n_updates].astype(np.int64)
    if n_updates > 1 and not (prefix[1:] > prefix[:-1]).all():
        bad = int(np.argmin(prefix[1:] > prefix[:-1])) + 1
        raise refuse(
            loc,
            "step_index",
            f"entry {bad} is {prefix[bad]} after {prefix[bad - 1]}; ordinals ascend strictly",
        )
    return prefix


def _prefix(stored: Array, nstep: int) -> int:
    beyond = stored >= nstep
    return int(beyond.argmax()) if beyond.any() else len(stored)


def checked_offset(stored: Array, n_updates: int, loc: str) -> Array:
    """Return the logical ``offset`` of `n_updates` updates as int64.

    Raises
    ------
    FormatError
        ``offset``: shorter than n_updates + 1, not starting at 0, or decreasing (C09 to C11).
    """
    if len(stored) < n_updates + 1:
        raise refuse(
            loc, "offset", f"{len(stored)} entries for {n_updates} updates; {n_updates + 1} are expected"
        )
    offset = stored[: n_updates + 1]
    if offset[0] != 0:
        raise refuse(loc, "offset", f"the first entry is {offset[0]}; 0 is expected")
    # Compared, not subtracted: an unsigned difference would wrap.
    if not (offset[1:] >= offset[:-1]).all():
        bad = int(np.argmin(offset[1:] >= offset[:-1])) + 1
        raise refuse(
            loc, "offset", f"entry {bad} is {offset[bad]} after {offset[bad - 1]}; offsets never decrease"
        )
    if offset[-1] >= 2**62:
        raise refuse(loc, "offset", f"the last entry is {offset[-1]}, more rows than any array holds")
    return offset.astype(np.int64)


@dataclass(slots=True)
class Growth:
    """The writer's side: whether a block is still regular, and what its next update needs.

    Attributes
    ----------
    rows : int
        Row count of the regular updates; 0 before the first.
    n_updates : int
        Updates so far.
    indexed : bool
        True once the block keeps ``step_index`` and ``offset``.
    """

    has_columns: bool
    rows: int = 0
    n_updates: int = 0
    indexed: bool = False

    def place(self, ordinal: int, rows: int) -> bool:
        """Take an update of `rows` at `ordinal`; True when it is the one that breaks regularity.

        The caller then backfills both arrays with the history before this update.
        """
        broke = False
        if not self.indexed:
            fits = ordinal == self.n_updates and rows > 0 and self.has_columns
            if fits and self.n_updates == 0:
                self.rows = rows
            elif not fits or rows != self.rows:
                self.indexed = broke = True
        self.n_updates += 1
        return broke

    def place_run(self, ordinals: Array, rows: Array) -> int | None:
        """Take several updates; return which of them breaks regularity, None where none does."""
        broke = None
        if not self.indexed:
            for i, (ordinal, count) in enumerate(zip(ordinals.tolist(), rows.tolist(), strict=True)):
                if self.place(ordinal, count):
                    broke = i
                    ordinals = ordinals[i + 1 :]
                    break
            else:
                return None
        self.n_updates += len(ordinals)
        return broke

    @property
    def regular(self) -> bool:
        """Whether the block stands under the elision markers."""
        return not self.indexed and self.n_updates > 0
