"""Folding the metrics log into dense series, and finding the logs of host runs.

Folding takes every series from the log, which is never shortened. The catalog gives up its
claim first, then the arrays are replaced, then the catalog takes up count and watermark:
whenever that stops, a reader finds either the dense series or the log they came from.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from molrec_core._commit import create, settle_tree
from molrec_core._fixed import get_group, write_array
from molrec_core._lock import WriterLock
from molrec_core._metrics import DENSE, MetricSeries, MetricsReader, Points
from molrec_core._metrics_log import (
    HOST_SUFFIX,
    LOG,
    SECTION,
    MetricEvent,
    decode_event,
    locate_log,
    read_lines,
)
from molrec_core._names import encode_name
from molrec_core._node import group_document
from molrec_core._paths import is_directory, list_names
from molrec_core._root import drop_consolidated
from molrec_core._store import ZARR_JSON, join
from molrec_core.errors import SchemaError

if TYPE_CHECKING:
    from molrec_core._store import DirectoryStore, Store


def fold_metrics(path: str | os.PathLike[str]) -> int:
    """Fold the log of a record into dense series, up to its last complete line.

    The log stays as it is; events appended later are read past the watermark.

    Parameters
    ----------
    path : str or path-like
        A record that is a directory.

    Returns
    -------
    int
        Lines that were past the watermark; 0 when there was nothing to do.

    Raises
    ------
    LockedError
        A live writer has the log: close it first.
    SchemaError
        A series that dense arrays cannot hold: values that are no numbers, points with and
        without a step under one key, points that the log does not have. Nothing was changed.
    FormatError
        The log or the catalog is damaged. Nothing was changed.
    ReadOnlyError
        A packed or remote record.
    """
    store, key = locate_log(path)
    if key != LOG:
        raise SchemaError.one(os.fspath(path), "host_log", "a host keeps its log alone; a record's is folded")
    if store.size(LOG) is None:
        return 0
    lock = WriterLock(Path(store.path) / LOG)
    try:
        return _fold(store)
    finally:
        store.close()
        lock.release()


def _fold(store: DirectoryStore) -> int:
    reader = MetricsReader(store)
    node = get_group(store, SECTION)
    attributes = {} if node is None else node.attributes
    if not reader.past:
        return 0
    lines, size = reader.watermark
    whole = _from_log(store, reader)
    claims = {
        "series": {key: _catalog_entry(series) for key, series in whole.items()},
        "wal": {"lines": lines, "bytes": size},
    }
    unclaimed = {name: value for name, value in attributes.items() if name not in claims}
    base = None if node is None else node.document
    known: set[str] = set()
    drop_consolidated(store, known)
    create(store, [(join(SECTION, ZARR_JSON), group_document(unclaimed, SECTION, base))], known)
    for key, series in whole.items():
        _replace_series(store, key, series)
    create(store, [(f"{SECTION}/{p}/{ZARR_JSON}", group_document({}, SECTION)) for p in DENSE], known)
    # The log as well: the watermark must not claim lines that a lost power could take.
    settle_tree(store, SECTION)
    create(store, [(join(SECTION, ZARR_JSON), group_document(unclaimed | claims, SECTION, base))], known)
    return reader.past


def _from_log(store: Store, reader: MetricsReader) -> dict[str, MetricSeries]:
    """Return every series as the log alone gives it, refusing what cannot be folded."""
    points: dict[str, list[MetricEvent]] = {}
    for number, line in enumerate(read_lines(store, LOG), 1):
        if line.strip():
            event = decode_event(line, f"{LOG}, line {number}")
            points.setdefault(event.key, []).append(event)
    whole = {}
    for key in reader:
        series = Points("scalar", [], [], [])
        series.merge(points.get(key, []))
        whole[key] = series.series(key)
        problem = _fold_problem(whole[key], reader[key])
        if problem:
            raise SchemaError.one(f"{SECTION}, {key}", "not_foldable", f"{problem}; the log is read as it is")
    return whole


def _fold_problem(series: MetricSeries, merged: MetricSeries) -> str | None:
    if series.values.dtype != np.float64:
        return f"values of type {series.type!r} are not all numbers"
    if series.steps is not None and series.steps.dtype != np.int64:
        return "some of its points have a step and some have none"
    if len(series) != len(merged):
        return f"{len(merged)} points, of which the log has {len(series)}"
    return None


def _catalog_entry(series: MetricSeries) -> dict[str, Any]:
    return {
        "type": series.type,
        "count": len(series),
        "latest_step": None if series.steps is None else int(series.steps[-1]),
        "latest_timestamp": str(series.wall_time[-1]),
    }


def _replace_series(store: DirectoryStore, key: str, series: MetricSeries) -> None:
    parts = {"series": series.values, "steps": series.steps, "wall_time": series.wall_time}
    for part, values in parts.items():
        at = f"{SECTION}/{part}/{encode_name(key)}"
        store.remove(at)
        if values is not None:
            write_array(store, at, values)


def find_metrics_logs(directory: str | os.PathLike[str]) -> list[Path]:
    """Return the metrics logs of a host run, ``<stem>.mlp.jsonl``, anywhere below a directory.

    Leftovers of older hosts, ``*.mlp.zarr`` and ``*.mlp.index.json``, are passed by, and so
    is what lies inside a record (MW10).
    """
    found = []
    for name in list_names(Path(directory)):
        path = Path(directory) / name
        if is_directory(path):
            if not path.is_symlink() and not name.endswith((".mlp.zarr", ".mrec")):
                found += find_metrics_logs(path)
        elif name.endswith(HOST_SUFFIX) and name != HOST_SUFFIX:
            found.append(path)
    return found
