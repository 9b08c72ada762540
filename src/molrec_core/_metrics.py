"""The ``metrics`` section: dense series up to a watermark, and the log past it.

The catalog in the group's attributes names every dense series with its count, and says
how far into the log they reach; past that the log counts (checklist group MW).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from molrec_core._array import open_array
from molrec_core._dtypes import STRING, refuse
from molrec_core._fixed import child_nodes, get_group
from molrec_core._metrics_log import (
    LOG,
    SECTION,
    MetricEvent,
    decode_event,
    locate_log,
    read_lines,
)
from molrec_core._names import decode_name, encode_name
from molrec_core._node import ArrayNode
from molrec_core._rows import ArrayReader
from molrec_core._store import Store
from molrec_core.errors import FormatError, RecordNotFoundError, SectionNotFoundError

if TYPE_CHECKING:
    from molrec_core._node import GroupNode

Array = np.ndarray[Any, Any]
DENSE = {"series": "f64", "steps": "i64", "wall_time": "string"}


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """The points of one key, in log order; a later event of the same step replaces the earlier one.

    Attributes
    ----------
    key : str
    type : str
        ``scalar``, or the producer's own.
    values : (n,) ndarray
        float64; of dtype object when a type of the producer's holds other JSON values.
    steps : (n,) ndarray or None
        int64; None when no point has a step, of dtype object with None where some have none.
    wall_time : (n,) ndarray of str
        RFC 3339; empty where a dense series keeps no times.
    """

    key: str
    type: str
    values: Array
    steps: Array | None
    wall_time: Array

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.values)


@dataclass(slots=True)
class Points:
    """A series while it is put together."""

    type: str
    values: list[Any]
    steps: list[int | None]
    wall_time: list[str]

    def merge(self, events: list[MetricEvent]) -> None:
        """Append events; one whose step is there already replaces that point (MW03)."""
        at = {step: i for i, step in enumerate(self.steps) if step is not None}
        for event in events:
            self.type = event.type
            i = at.get(event.step) if event.step is not None else None
            if i is not None:
                self.values[i], self.wall_time[i] = event.value, event.wall_time
                continue
            if event.step is not None:
                at[event.step] = len(self.steps)
            self.values.append(event.value)
            self.steps.append(event.step)
            self.wall_time.append(event.wall_time)

    def series(self, key: str) -> MetricSeries:
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)
        values = np.array(self.values, np.float64) if numbers else _objects(self.values)
        steps: Array | None = None
        if any(step is not None for step in self.steps):
            steps = _objects(self.steps) if None in self.steps else np.array(self.steps, np.int64)
        return MetricSeries(key, self.type, values, steps, np.array(self.wall_time, STRING))


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


class MetricsReader(Mapping[str, MetricSeries]):
    """Reads the series of a record's metrics, or of a host's log: a mapping of key to :class:`MetricSeries`.

    Parameters
    ----------
    store : Store
    log : str
        Key of the log. With that of a record the dense series are read as well.

    Raises
    ------
    SectionNotFoundError
        There are no metrics.
    FormatError
        A damaged line of the log, by its number; a catalog or array that breaks the contract.
    """

    def __init__(self, store: Store, log: str = LOG) -> None:
        self._store = store
        self._log = log
        node = get_group(store, SECTION) if log == LOG else None
        if node is None and store.size(log) is None:
            raise SectionNotFoundError("there are no metrics: neither a group nor a log", loc=SECTION)
        self._catalog, self._lines, self._offset = _read_catalog(node)
        self._covered = self._lines
        if node is not None and self._catalog and "wal" not in node.attributes:
            # Dense series without a watermark are complete: what a log holds does not count.
            self._offset = store.size(log) or 0
        self._arrays = _open_arrays(store, self._catalog)
        self._tail: dict[str, list[MetricEvent]] = {}
        self.refresh()

    @classmethod
    def from_log(cls, path: str | os.PathLike[str]) -> Self:
        """Open the log of a host run, ``<stem>.mlp.jsonl``.

        Raises
        ------
        RecordNotFoundError
            There is no such file.
        """
        store, key = locate_log(path)
        if store.size(key) is None:
            raise RecordNotFoundError("there is no metrics log", loc=os.fspath(path))
        return cls(store, key)

    def refresh(self) -> int:
        """Take in the lines that came since; return how many series they touched."""
        touched = set()
        for event in self._events():
            self._tail.setdefault(event.key, []).append(event)
            touched.add(event.key)
        return len(touched)

    def _events(self) -> Iterator[MetricEvent]:
        for line in read_lines(self._store, self._log, self._offset):
            self._offset += len(line)
            self._lines += 1
            if line.strip():
                yield decode_event(line, f"{self._log}, line {self._lines}")

    @property
    def watermark(self) -> tuple[int, int]:
        """Complete lines and bytes of the log that have been read, those the dense series cover included."""
        return self._lines, self._offset

    @property
    def past(self) -> int:
        """Complete lines of the log that the dense series do not cover."""
        return self._lines - self._covered

    def __getitem__(self, key: str) -> MetricSeries:
        """Return the series of a key."""
        if key not in self:
            msg = f"no metrics series {key!r}; there are {', '.join(self) or 'none'}"
            raise SectionNotFoundError(msg, loc=SECTION)
        points = self._dense(key)
        points.merge(self._tail.get(key, []))
        return points.series(key)

    def _dense(self, key: str) -> Points:
        entry = self._catalog.get(key)
        if entry is None:
            return Points("scalar", [], [], [])
        count = entry["count"]
        parts = {
            name: array.read(0, count).tolist() if array is not None else None
            for name, array in self._arrays[key].items()
        }
        return Points(
            entry.get("type", "scalar"),
            parts["series"] or [],
            parts["steps"] or [None] * count,
            parts["wall_time"] or [""] * count,
        )

    def __contains__(self, key: object) -> bool:
        """Whether there is a series of that key."""
        return key in self._catalog or key in self._tail

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys: the dense ones, then those only the log has."""
        yield from self._catalog
        yield from (key for key in self._tail if key not in self._catalog)

    def __len__(self) -> int:
        """Return the number of series."""
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """Return the keys."""
        return f"MetricsReader({', '.join(self)})"


def _read_catalog(node: GroupNode | None) -> tuple[dict[str, Any], int, int]:
    """Return the dense series by key, and the lines and bytes of the log they cover."""
    attributes = {} if node is None else node.attributes
    series = attributes.get("series", {})
    if not isinstance(series, dict):
        raise refuse(f"{SECTION}/series", "bad_catalog", f"series is {series!r}; an object is expected")
    for key, entry in series.items():
        if not isinstance(entry, dict) or not _is_count(entry.get("count")):
            text = f"the catalog says {entry!r}; an object with a 'count' >= 0 is expected"
            raise refuse(f"{SECTION}, {key}", "bad_catalog", text)
        if not isinstance(entry.get("type", ""), str):
            raise refuse(
                f"{SECTION}, {key}", "bad_catalog", f"type is {entry['type']!r}; a string is expected"
            )
    wal = attributes.get("wal", {"lines": 0, "bytes": 0})
    if not isinstance(wal, dict) or not all(_is_count(wal.get(name)) for name in ("lines", "bytes")):
        text = f"the watermark is {wal!r}; 'lines' and 'bytes' >= 0 are expected"
        raise refuse(SECTION, "bad_catalog", text)
    return series, wal["lines"], wal["bytes"]


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _open_arrays(store: Store, catalog: Mapping[str, Any]) -> dict[str, dict[str, ArrayReader | None]]:
    """Open the dense arrays that the catalog names, checking that they hold what it counts."""
    opened: dict[str, dict[str, ArrayReader | None]] = {key: {} for key in catalog}
    for part, dtype in DENSE.items():
        nodes = child_nodes(store, f"{SECTION}/{part}")
        names: dict[str, str] = {}
        for name in nodes:
            try:
                key = decode_name(name)
            except FormatError as error:
                raise refuse(f"{SECTION}/{part}/{name}", "bad_name", error.problems[0].message) from None
            # A byte escaped without need is read (I06), but gives way to the one right name.
            if key not in names or name == encode_name(key):
                names[key] = name
        for key, entry in catalog.items():
            if key not in names:
                if part == "series":
                    raise refuse(
                        f"{SECTION}/{part}",
                        "series_missing",
                        f"the catalog names {key!r}, which is not there",
                    )
                opened[key][part] = None
                continue
            loc = f"{SECTION}/{part}/{names[key]}"
            node = nodes[names[key]]
            if not isinstance(node, ArrayNode) or node.dtype != dtype or len(node.shape) != 1:
                raise refuse(loc, "series_dtype", f"a one-dimensional array of {dtype} is expected")
            if node.shape[0] < entry["count"]:
                text = f"{node.shape[0]} points where the catalog counts {entry['count']}"
                raise refuse(loc, "series_length", text)
            opened[key][part] = open_array(store, loc, node)
    return opened
