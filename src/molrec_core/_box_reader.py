"""Reading the cell of a trajectory: attributes while it never changed, arrays else.

"The cell" of the ragged-trajectory chapter; checklist group B.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from molrec_core._array import open_array
from molrec_core._box import Box
from molrec_core._cell import check_box_array, make_box, read_cell_defined
from molrec_core._csr import checked_step_index
from molrec_core._dtypes import refuse
from molrec_core._fixed import get_array, get_group
from molrec_core._node import GroupNode
from molrec_core._rows import ArrayReader, index_values
from molrec_core._store import Store, join

Array = np.ndarray[Any, Any]


_WINDOW = 1024
"""Updates decoded at once: a chunk of the reference writer."""


class _Cells(NamedTuple):
    """Decoded updates of the cell from number `first` on."""

    first: int
    vectors: Array
    origin: Array
    boundary: Array


class BoxReader:
    """The cell: from attributes while it never changed, from arrays else."""

    def __init__(self, store: Store, nstep: int) -> None:
        self.key = key = "trajectory/box"
        self.nstep = nstep
        self.store = store
        self.fixed: Box | None = None
        self._arrays: dict[str, ArrayReader] = {}
        self._ordinals: Array | None = None
        self._held: _Cells | None = None
        self.defined = True
        group = get_group(store, key)
        if group is None:
            return
        self.defined = read_cell_defined(group.attributes, key)
        vectors = get_array(store, join(key, "vectors"))
        if vectors is None:
            self._read_attributes(group)
            return
        for name, trailing in (("vectors", (3, 3)), ("origin", (3,)), ("boundary", (3,))):
            node = get_array(store, join(key, name)) if name != "vectors" else vectors
            if node is not None:
                check_box_array(node, trailing, join(key, name), leading=True)
                self._arrays[name] = open_array(store, join(key, name), node)
        index = get_array(store, join(key, "step_index"))
        if index is not None:
            if index.dtype != "u64" or len(index.shape) != 1:
                raise refuse(
                    join(key, "step_index"), "index_dtype", f"{index.data_type} of shape {list(index.shape)}"
                )
            self._arrays["step_index"] = open_array(store, join(key, "step_index"), index)

    def _read_attributes(self, group: GroupNode) -> None:
        stored = group.attributes.get("vectors")
        if stored is None:
            return
        parts = {
            name: self._attribute(name, group.attributes.get(name), shape)
            for name, shape in (("vectors", (3, 3)), ("origin", (3,)), ("boundary", (3,)))
        }
        vectors = parts["vectors"]
        assert vectors is not None
        box = make_box(self.key, vectors, parts["origin"], parts["boundary"], defined=self.defined)
        self.fixed = box if self.nstep else None

    def _attribute(self, name: str, value: object, shape: tuple[int, ...]) -> Array | None:
        if value is None:
            return None
        kind = bool if name == "boundary" else (int, float)
        rows = value if isinstance(value, list) else [value]
        flat = [x for row in rows for x in (row if isinstance(row, list) else [row])]
        good = all(isinstance(x, kind) and isinstance(x, bool) == (kind is bool) for x in flat)
        array = (
            np.array(value, dtype=bool if kind is bool else float) if good and _regular(rows) else np.empty(0)
        )
        if array.shape != shape:
            raise refuse(
                self.key,
                "box_shape",
                f"{name} is {value!r}; {'flags' if kind is bool else 'numbers'} of shape {shape}",
            )
        return array

    @property
    def ordinals(self) -> Array:
        """Ordinals of the updates, int64."""
        if not self._arrays:
            return np.zeros(0 if self.fixed is None else 1, np.int64)
        if self._ordinals is None:
            reader = self._arrays.get("step_index")
            stored = np.zeros(1, np.uint64) if reader is None else index_values(reader)
            ordinals = checked_step_index(stored, self.nstep, join(self.key, "step_index"))
            for name, array in self._arrays.items():
                if name != "step_index" and array.rows < len(ordinals):
                    raise refuse(
                        array.key, "array_short", f"{array.rows} rows for {len(ordinals)} updates of the cell"
                    )
            self._ordinals = ordinals
        return self._ordinals

    def at(self, ordinal: int) -> Box | None:
        """Return the cell as frame `ordinal` sees it; None before the first one."""
        if not self._arrays:
            return self.fixed
        update = int(self.ordinals.searchsorted(ordinal, side="right")) - 1
        if update < 0:
            return None
        held = self._held
        if held is None or not held.first <= update < held.first + len(held.vectors):
            held = self._held = self._load(update // _WINDOW * _WINDOW)
        i = update - held.first
        return Box._trusted(held.vectors[i], held.origin[i], held.boundary[i], cell_defined=self.defined)

    def _load(self, first: int) -> _Cells:
        """Decode the updates from `first` on, read-only, defaults filled in."""
        last = min(first + _WINDOW, len(self.ordinals))
        n = last - first
        vectors = self._arrays["vectors"].read(first, last).astype(np.float64, copy=False)
        if not self.defined:
            vectors = np.broadcast_to(np.eye(3), (n, 3, 3))
        origin = np.zeros((n, 3))
        if "origin" in self._arrays:
            origin = self._arrays["origin"].read(first, last).astype(np.float64, copy=False)
        boundary = np.full((n, 3), self.defined)
        if "boundary" in self._arrays:
            boundary = self._arrays["boundary"].read(first, last)
        if not self.defined and boundary.any():
            bad = first + int(np.argmax(boundary.any(axis=1)))
            raise refuse(
                self.key,
                "undefined_cell_periodic",
                f"update {bad} of an undefined cell is periodic on an axis",
            )
        for array in (vectors, origin, boundary):
            array.flags.writeable = False
        return _Cells(first, vectors, origin, boundary)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without decoded cells."""
        return {**self.__dict__, "_held": None}


def _regular(rows: list[Any]) -> bool:
    widths = {len(row) if isinstance(row, list) else -1 for row in rows}
    return len(widths) == 1
