"""What a record holds, for people and for machines: ``molrec info`` and ``molrec tree``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_core._fixed import child_nodes, get_node
from molrec_core._frame import Frame
from molrec_core._node import ArrayNode
from molrec_core._record import Record
from molrec_core._store import Store, join
from molrec_core._trajectory_reader import TrajectoryReader

_SPARK = "▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class Summary:
    """A record in a page.

    Attributes
    ----------
    path : str
    sections : dict of str to dict
        What each section holds, as JSON.
    """

    path: str
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return {"path": self.path, "sections": self.sections}

    def __str__(self) -> str:
        """Return the summary as lines to read."""
        return "\n".join(
            [self.path, *(line for name, s in self.sections.items() for line in _lines(name, s))]
        )


def describe(record: Record) -> Summary:
    """Look at every section of a record without decoding its frames."""
    summary = Summary(record.path)
    for name in record.sections:
        section = record.get(name)
        if isinstance(section, TrajectoryReader):
            summary.sections[name] = _trajectory(section)
        elif isinstance(section, Frame):
            summary.sections[name] = {
                block: {"rows": b.count, "columns": list(b)} for block, b in section.items()
            }
        elif name in {"meta", "status", "method"}:
            summary.sections[name] = dict(section)
        elif name in {"observables", "metrics"}:
            summary.sections[name] = {"names": list(section)}
        else:
            summary.sections[name] = {}
    return summary


def _trajectory(reader: TrajectoryReader) -> dict[str, Any]:
    n_frames = len(reader)
    found: dict[str, Any] = {"frames": n_frames}
    if n_frames:
        found["steps"] = [int(reader.steps[0]), int(reader.steps[-1])]
    times = reader.times
    if times is not None and n_frames:
        found["times"] = [float(times[0]), float(times[-1])]
    blocks = {}
    for name, spec in reader.schema.blocks.items():
        counts = reader.counts(name)
        present = counts[counts >= 0]
        rows = [int(present.min()), int(present.max())] if len(present) else []
        columns = {
            c: s.dtype if s.precision is None else f"{s.dtype} to {s.precision:g}"
            for c, s in spec.columns.items()
        }
        blocks[name] = {"rows": rows, "updates": len(reader.updates(name)), "columns": columns}
    found["blocks"] = blocks
    found["cells"] = len(reader.box_updates)
    if n_frames and (box := reader.box(-1)) is not None and box.cell_defined:
        found["last_cell"] = [round(float(length), 6) for length in np.linalg.norm(box.vectors, axis=0)]
    series = {}
    for key in reader.meta_keys:
        values = reader.meta(key)
        if isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1 and n_frames:
            series[key] = {"first": float(values[0]), "last": float(values[-1]), "spark": sparkline(values)}
        else:
            series[key] = {"tag": reader.meta_tag(key)}
    found["meta"] = series
    return found


def sparkline(values: np.ndarray[Any, Any], width: int = 40) -> str:
    """Draw a series in one line of text; gaps where it is not finite."""
    picked = values[np.linspace(0, len(values) - 1, min(width, len(values))).astype(int)]
    finite = picked[np.isfinite(picked)]
    if not len(finite):
        return ""
    low, span = finite.min(), np.ptp(finite) or 1.0
    levels = [round((v - low) / span * (len(_SPARK) - 1)) if np.isfinite(v) else -1 for v in picked.tolist()]
    return "".join(_SPARK[level] if level >= 0 else " " for level in levels)


def _lines(name: str, section: dict[str, Any]) -> Iterator[str]:
    if name != "trajectory":
        inner = ", ".join(_short(key, value) for key, value in section.items() if key != "host_dtypes")
        yield f"  {name:11} {inner}".rstrip()
        return
    steps = section.get("steps")
    times = section.get("times")
    span = f", steps {steps[0]} to {steps[1]}" if steps else ""
    span += f", times {times[0]:g} to {times[1]:g}" if times else ", no times"
    yield f"  {name:11} {section['frames']} frames{span}"
    for block, b in section["blocks"].items():
        rows = b["rows"]
        text = (
            "absent"
            if not rows
            else f"{rows[0]} rows"
            if rows[0] == rows[1]
            else f"{rows[0]} to {rows[1]} rows"
        )
        yield f"    {block:11} {text}, {b['updates']} updates: {', '.join(b['columns'])}"
    if section["cells"]:
        lengths = " x ".join(f"{length:g}" for length in section.get("last_cell", ()))
        yield f"    {'cell':11} {section['cells']} updates{f', last {lengths}' if lengths else ''}"
    for key, entry in section["meta"].items():
        if "spark" in entry:
            yield f"    {key:11} {entry['spark']} {entry['first']:.6g} to {entry['last']:.6g}"
        else:
            yield f"    {key:11} {entry['tag']}"


def _short(key: str, value: object) -> str:
    if isinstance(value, dict) and value.keys() == {"rows", "columns"}:
        return f"{key}[{value['rows']}]: {' '.join(value['columns'])}"
    if isinstance(value, dict):
        value = ", ".join(f"{name} {item}" for name, item in value.items())
    text = re.sub(r"[{}'\"]", "", str(value))
    return f"{key} {text if len(text) <= 60 else text[:57] + '...'}"


def tree(store: Store, key: str = "", prefix: str = "") -> Iterator[str]:
    """Yield the groups and arrays of a store as lines of a tree."""
    if not key:
        yield store.path
    children = child_nodes(store, key)
    for i, name in enumerate(children):
        last = i == len(children) - 1
        node = children[name]
        text = f"{name}/"
        if isinstance(node, ArrayNode):
            text = f"{name}  {node.data_type} {list(node.shape)}"
        yield f"{prefix}{'└── ' if last else '├── '}{text}"
        if get_node(store, join(key, name)) is not None and not isinstance(node, ArrayNode):
            yield from tree(store, join(key, name), prefix + ("    " if last else "│   "))
