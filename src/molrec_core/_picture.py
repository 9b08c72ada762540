"""``molrec plot``: per-step values and metrics over time, as a picture or in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molrec_core._record import Record, open_record
from molrec_core._summary import sparkline
from molrec_core.errors import SectionNotFoundError

Array = np.ndarray[Any, Any]


def plot(path: Any, keys: Sequence[str] = (), out: Path | None = None) -> str:
    """Draw series of a record.

    Parameters
    ----------
    path : str, path-like or zarr store
    keys : sequence of str
        Per-step meta keys or metrics series; every scalar per-step key by default.
    out : path, optional
        A picture to write, by its suffix; needs matplotlib (``pip install molrec[plot]``).

    Returns
    -------
    str
        What was written, or the drawing.

    Raises
    ------
    SectionNotFoundError
        No such series, or none at all.
    """
    with open_record(path) as record:
        found = _series(record, keys)
        units = dict(record.meta.get("units", {}))
    if out is None:
        width = max(len(key) for key in found)
        rows = (
            f"{key:{width}} {sparkline(y, 60)} {np.nanmin(y):.6g} to {np.nanmax(y):.6g}"
            for key, (_, _, y) in found.items()
        )
        return "\n".join(rows)
    return _picture(found, units, out)


def _series(record: Record, keys: Sequence[str]) -> dict[str, tuple[str, Array, Array]]:
    found: dict[str, tuple[str, Array, Array]] = {}
    trajectory = record.get("trajectory")
    if trajectory is not None and len(trajectory):
        axis = ("step", trajectory.steps) if trajectory.times is None else ("time", trajectory.times)
        for key in keys or trajectory.meta_keys:
            if key in trajectory.meta_keys:
                values = trajectory.meta(key)
                if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf":
                    found[key] = (*axis, values.astype(float))
    metrics = record.get("metrics")
    for key in (keys or (metrics or ())) if metrics is not None else ():
        if key in metrics and key not in found:
            series = metrics[key]
            steps = np.arange(len(series.values)) if series.steps is None else np.asarray(series.steps)
            found[key] = ("step", steps, np.asarray(series.values, float))
    missing = [key for key in keys if key not in found]
    if missing or not found:
        text = (
            f"no scalar series {', '.join(missing)}"
            if missing
            else "the record holds no scalar series to draw"
        )
        raise SectionNotFoundError(text, loc=record.path)
    return found


def _picture(found: dict[str, tuple[str, Array, Array]], units: dict[str, Any], out: Path) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 1.2 + 1.6 * len(found)), layout="constrained")
    axes = figure.subplots(
        len(found), 1, sharex=len({name for name, _, _ in found.values()}) == 1, squeeze=False
    )[:, 0]
    for axis, (key, (name, x, y)) in zip(axes, found.items(), strict=True):
        axis.plot(x, y, linewidth=1.0)
        axis.set_ylabel(key)
        unit = units.get("time", "") if name == "time" else ""
        axis.set_xlabel(f"{name} ({unit})" if unit else name)
    figure.savefig(out, dpi=150)
    return f"wrote {out}"
