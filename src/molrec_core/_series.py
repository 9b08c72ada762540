"""Dense arrays of a growing trajectory: one row a frame (or an update), fed value by value.

``step``, ``time``, ``meta/<key>``, ``step_index``, ``offset`` and the arrays of
``box/``: 1024-row chunks, 256 to a shard. Step and time stay an attribute while they
are a progression (:class:`SeriesWriter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from molrec_core._codecs import pipeline_for
from molrec_core._column import GrowingArray
from molrec_core._commit import Plan
from molrec_core._dtypes import TAGS
from molrec_core._extents import DENSE_CHUNK_ROWS, DENSE_CHUNKS_PER_SHARD
from molrec_core._node import Layout
from molrec_core._progression import Progression
from molrec_core._store import DirectoryStore
from molrec_core._typedjson import element_array
from molrec_core.errors import SchemaError

_SPILL = DENSE_CHUNK_ROWS


def dense_layout(dtype: str, trailing: tuple[int, ...] = (), expected_rows: int | None = None) -> Layout:
    """Return the extents of a dense array; a short run is told by `expected_rows`."""
    chunks = DENSE_CHUNKS_PER_SHARD
    if expected_rows is not None:
        chunks = min(chunks, max(1, -(-(expected_rows + 1) // DENSE_CHUNK_ROWS)))
    return Layout(DENSE_CHUNK_ROWS, chunks, pipeline_for(dtype, trailing, dense=True))


class DenseWriter:
    """A growing dense array that takes values of one tag, one at a time.

    Parameters
    ----------
    tag : str
        Meta tag of the values; it decides dtype and trailing shape.
    """

    def __init__(
        self,
        store: DirectoryStore,
        key: str,
        tag: str,
        *,
        attributes: dict[str, Any] | None = None,
        run_ahead: bool = True,
        layout: Layout | None = None,
        expected_rows: int | None = None,
        trailing: tuple[int, ...] | None = None,
    ) -> None:
        self.tag = tag
        spec = TAGS[tag]
        shape = spec.trailing if trailing is None else trailing
        layout = layout or dense_layout(spec.element, shape, expected_rows)
        self.array = GrowingArray(store, key, layout, attributes, run_ahead=run_ahead)
        self.stored = False
        self._values: list[Any] = []

    def push(self, value: Any) -> None:
        """Take the next value."""
        self._values.append(value)
        if len(self._values) >= _SPILL:
            self.spill()

    def push_all(self, values: Sequence[Any]) -> None:
        """Take the next values."""
        self._values += values
        if len(self._values) >= _SPILL:
            self.spill()

    def extend(self, rows: np.ndarray[Any, Any]) -> None:
        """Take several rows at once."""
        self.spill()
        self.array.accept(rows)

    def spill(self) -> None:
        """Move the values taken into the array's buffer."""
        if self._values:
            values, self._values = self._values, []
            self.array.accept(element_array(values, self.tag))

    def plan(self, plan: Plan, *, exact: bool = False) -> None:
        """Add what is landed, and the document when its length is due."""
        plan.take(self.array)
        self.array.durable_rows = self.array.rows
        rows = self.array.wanted_rows(exact=exact)
        if not self.stored:
            plan.switches.append(self.array.document(rows))
            self.stored = True
        elif rows != self.array.stored_rows:
            plan.shapes.append(self.array.document(rows))
        self.array.stored_rows = rows


def checked_step(step: object, last: int | None) -> int:
    """Return a step number as it is stored; refuse one that is none, or not above `last`.

    Raises
    ------
    SchemaError
    """
    loc = "trajectory/step"
    if isinstance(step, bool) or not isinstance(step, int | np.integer):
        raise SchemaError.one(loc, "step_type", f"step is {step!r}; an integer is expected")
    step = int(step)
    if last is not None and step <= last:
        raise SchemaError.one(loc, "step_order", f"step {step} after {last}; steps increase strictly")
    if not -(2**63) <= step < 2**63:
        raise SchemaError.one(loc, "step_type", f"step {step} does not fit int64")
    return step


class SeriesWriter:
    """The step or time series: an attribute while it is a progression, an array from then on."""

    def __init__(
        self, store: DirectoryStore, key: str, *, integer: bool, expected_rows: int | None = None
    ) -> None:
        self._store = store
        self._key = key
        self._expected = expected_rows
        self.tag = "i64" if integer else "f64"
        self.progression: Progression | None = Progression(integer=integer)
        self.dense: DenseWriter | None = None

    def push(self, value: Any) -> None:
        """Take the value of the next frame; the first that breaks the progression brings the array."""
        if self.progression is not None:
            if self.progression.push(value):
                return
            history = self.progression
            self.progression = None
            self.dense = DenseWriter(self._store, self._key, self.tag, expected_rows=self._expected)
            if history.count:
                self.dense.extend(history.expand(history.count))
        assert self.dense is not None
        self.dense.push(value)

    def attribute(self) -> dict[str, Any] | None:
        """Return the progression attribute; None when there is none to write."""
        if self.progression is None or not self.progression.count:
            return None
        return self.progression.to_json()
