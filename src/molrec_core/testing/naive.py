"""A naive reader on zarr-python alone, following the chapters of the format word for word.

It shares no code with the reader it is compared with: every array is read whole through
zarr-python, and every rule is spelled out where it applies. Frames come back in a plain form of built-in values, so that two of them are
equal exactly when every bit, width and tag agrees; :func:`plain_frame` puts a
:class:`~molrec_core.Frame` into the same form.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

import numpy as np
import zarr

Array = np.ndarray[Any, Any]
Plain = dict[str, Any]


def plain_array(values: Array) -> tuple[str, tuple[int, ...], Any]:
    """Return dtype, shape and exact content of an array: bytes, or a list of strings."""
    if values.dtype.kind in "TUO":
        return "string", values.shape, [str(text) for text in values.ravel()]
    return values.dtype.name, values.shape, np.ascontiguousarray(values).tobytes()


def plain_meta(value: Any, tag: str) -> tuple[str, Any]:
    """Return tag and exact content of a per-step or frame meta value."""
    if tag == "json":
        return tag, json.dumps(value, sort_keys=True)
    if tag == "string":
        return tag, str(value)
    element = tag.partition("x")[0].rstrip("3") if tag.startswith("bool") else tag.partition("x")[0]
    dtype = {"bool": "?", "i32": "<i4", "i64": "<i8", "u32": "<u4", "u64": "<u8", "f64": "<f8"}[element]
    return tag, np.asarray(value, dtype).tobytes()


def plain_block(count: int, columns: Mapping[str, Array], masks: Mapping[str, Array]) -> Plain:
    """Return a block in plain form; a mask that is all true says nothing."""
    nulls = {name: np.flatnonzero(~mask).tolist() for name, mask in masks.items() if not mask.all()}
    return {"count": count, "columns": {n: plain_array(v) for n, v in columns.items()}, "nulls": nulls}


def plain_box(vectors: Array, origin: Array | None, boundary: Array | None, *, defined: bool) -> Plain:
    """Return a cell in plain form, with the normative defaults filled in."""
    return {
        "defined": defined,
        "vectors": plain_array(np.asarray(vectors, float) if defined else np.eye(3)),
        "origin": plain_array(np.zeros(3) if origin is None else np.asarray(origin, float)),
        "boundary": [defined] * 3 if boundary is None else [bool(flag) for flag in boundary],
    }


def plain_frame(frame: Any) -> Plain:
    """Return a :class:`~molrec_core.Frame` in plain form."""
    box = frame.box
    return {
        "blocks": {name: plain_block(block.count, block, block.validity) for name, block in frame.items()},
        "box": None
        if box is None
        else plain_box(box.vectors, box.origin, box.boundary, defined=box.cell_defined),
        "meta": {key: plain_meta(value, frame.meta_tags[key]) for key, value in frame.meta.items()},
    }


class NaiveTrajectory:
    """The trajectory of a record, read through zarr-python.

    Attributes
    ----------
    nstep : int
        The commit marker.
    schema : dict
        The pinned declaration, as stored.
    """

    def __init__(self, path: Any) -> None:
        is_zip = isinstance(path, str | PathLike) and fspath(path).endswith(".zip")
        store = zarr.storage.ZipStore(path, mode="r") if is_zip else path
        group = zarr.open_group(store, path="trajectory", mode="r")
        self.attributes: dict[str, Any] = dict(group.attrs)
        self.nodes: dict[str, Any] = dict(group.members(max_depth=None))
        self.nstep: int = self.attributes["nstep"]
        self.schema: dict[str, Any] = self.attributes["sequence_schema"]
        self._values: dict[str, Array] = {}

    def _array(self, key: str, stop: int | None = None) -> Array | None:
        """Read the rows of an array up to its logical length; None when it is not there."""
        if key not in self.nodes:
            return None
        if key not in self._values:
            self._values[key] = np.asarray(self.nodes[key][...])
        values = self._values[key]
        if stop is not None and len(values) < stop:
            raise ValueError(f"{key}: {len(values)} rows, {stop} are counted")
        return values[:stop]

    def _series(self, name: str) -> list[Any] | None:
        """Expand ``start + i * stride`` from the attribute when present, else take the array."""
        progression = self.attributes.get(f"{name}_progression")
        if progression is None:
            array = self._array(name, self.nstep)
            return None if array is None else array.tolist()
        start, stride = progression["start"], progression.get("stride", 0)
        if name == "step":
            return [start + i * stride for i in range(self.nstep)]
        return [float(start) + float(i) * float(stride) for i in range(self.nstep)]

    @property
    def steps(self) -> list[int]:
        """Step numbers of the frames."""
        return self._series("step") or []

    @property
    def times(self) -> list[float] | None:
        """Times of the frames; None when the run has none."""
        return self._series("time")

    def _updates(self, key: str) -> list[int]:
        """Return the committed prefix of a ``step_index``, or what stands for it."""
        stored = self._array(f"{key}/step_index")
        if stored is not None:
            ordinals: list[int] = stored.tolist()
            beyond = [j for j, ordinal in enumerate(ordinals) if ordinal >= self.nstep]
            return ordinals[: beyond[0]] if beyond else ordinals
        attributes = self.nodes[key].attrs
        if key == "box":
            fixed = "vectors" in attributes or "box/vectors" in self.nodes
            return [0] if fixed and self.nstep else []
        if "uniform_rows" not in attributes:
            return []
        columns = self.schema["blocks"][key]["columns"]
        shortest = min(self.nodes[f"{key}/{column}"].shape[0] for column in columns)
        return list(range(min(shortest // attributes["uniform_rows"], self.nstep)))

    def block(self, name: str, i: int) -> Plain | None:
        """Resolve a block at frame ordinal `i`: three steps of "Resolving a frame"."""
        if name not in self.nodes:
            return None
        ordinals = self._updates(name)
        j = bisect_right(ordinals, i) - 1
        if j < 0:
            return None
        offset = self._array(f"{name}/offset") if f"{name}/step_index" in self.nodes else None
        if offset is None:
            rows = self.nodes[name].attrs["uniform_rows"]
            lo, hi, total = j * rows, (j + 1) * rows, len(ordinals) * rows
        else:
            lo, hi, total = int(offset[j]), int(offset[j + 1]), int(offset[len(ordinals)])
        columns, masks = {}, {}
        for column, entry in self.schema["blocks"][name]["columns"].items():
            values = self._array(f"{name}/{column}", total)
            assert values is not None
            columns[column] = values[lo:hi]
            mask = self._array(f"{name}/_validity/{column}", total) if entry.get("nullable") else None
            if mask is not None:
                masks[column] = mask[lo:hi]
        return plain_block(hi - lo, columns, masks)

    def box(self, i: int) -> Plain | None:
        """Resolve the cell at frame ordinal `i`."""
        if "box" not in self.nodes:
            return None
        ordinals = self._updates("box")
        j = bisect_right(ordinals, i) - 1
        if j < 0:
            return None
        attributes = dict(self.nodes["box"].attrs)
        parts: dict[str, Any] = {}
        for part in ("vectors", "origin", "boundary"):
            if "box/vectors" in self.nodes:
                array = self._array(f"box/{part}", len(ordinals))
                parts[part] = None if array is None else array[j]
            else:
                parts[part] = attributes.get(part)
        return plain_box(**parts, defined=attributes.get("cell_defined", True))

    def meta(self, i: int) -> dict[str, tuple[str, Any]]:
        """Return the per-step meta of frame ordinal `i`."""
        found = {}
        for key in self.schema.get("meta", {}):
            array = self._array(f"meta/{key}", self.nstep)
            tag = self.nodes[f"meta/{key}"].attrs["meta_dtype"]
            assert array is not None
            value = json.loads(str(array[i])) if tag == "json" else array[i]
            found[key] = plain_meta(value, tag)
        return found

    def frame(self, i: int) -> Plain:
        """Return frame ordinal `i` in plain form."""
        blocks = {name: self.block(name, i) for name in self.schema.get("blocks", {})}
        return {
            "blocks": {name: block for name, block in blocks.items() if block is not None},
            "box": self.box(i),
            "meta": self.meta(i),
        }
