"""What a timestep carries beside vectors: ``ts.data`` and the cell, read from a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from molrec_core import Frame
from molrec_core.hosts import (
    SHARED_TAGS,
    FrameInfo,
    HostCell,
    cell_lengths_angles,
    host_name,
    host_step,
    is_standard_cell,
    load_cell,
    own_arrays,
    restore,
    restore_scalar,
)

if TYPE_CHECKING:
    from molrec_core.units import Conversion
    from molrec_mda._run import Run

Array = np.ndarray[Any, Any]

CANONICAL_META = {
    "pe": "energy",
    "ke": "energy",
    "etotal": "energy",
    "temp": None,
    "press": None,
    "volume": "volume",
}
"""Canonical per-step keys and the factor they take; MDAnalysis has no unit of pressure, so it keeps the record's."""
_OTHERS = {"free_energy": "energy", "stress": "stress", "dipole": "dipole"}
RESERVED = frozenset({"dt", "time", "step", "time_offset"})
"""Keys of ``ts.data`` that are MDAnalysis's own and never meta."""
_VECTORS = frozenset({"x", "y", "z", "vx", "vy", "vz", "fx", "fy", "fz"})


def meta_factor(key: str, conversion: Conversion) -> float:
    """Return the factor a per-step key takes from the record's units to those of MDAnalysis."""
    quantity = (CANONICAL_META | _OTHERS).get(key)
    return 1.0 if quantity is None else float(getattr(conversion, quantity))


class DataReader:
    """Turns the meta and the cell of a record's frames into ``ts.data`` and ``ts.dimensions``.

    Attributes
    ----------
    constant : bool
        Whether no frame has anything of its own, so that none needs to be asked.
    fixed_dimensions : (6,) float32 array or None
        The cell of every frame where `constant`.
    odd_cell : bool
        Whether a cell was met that MDAnalysis would turn.
    """

    def __init__(self, run: Run, conversion: Conversion) -> None:
        self.run = run
        self._length = conversion.length
        self._dtypes = run.host_dtypes
        self._keys: list[tuple[str, str, str | None, float]] = []
        keys = () if run.trajectory is None else run.trajectory.meta_keys
        for key in keys if run.trajectory is not None else (run.single or Frame()).meta:
            if key not in SHARED_TAGS:
                dtype = self._dtypes.get(f"trajectory/meta/{key}")
                name = key if host_name(key, "meta") is None else str(host_name(key, "meta"))
                self._keys.append((key, name, dtype, meta_factor(key, conversion)))
        blocks = () if run.schema is None else run.schema.blocks
        self._array_blocks = [name for name in blocks if name.startswith("array.")]
        self._columns = self._moving_columns()
        self._last_cell: tuple[Any, Array | None] = (None, None)
        self.odd_cell = False
        self.constant = self._is_constant()
        self.fixed_dimensions = self.dimensions(self.frame(0)) if self.constant else None

    def _is_constant(self) -> bool:
        if self.run.trajectory is None or self._keys or self._array_blocks or self._columns:
            return False
        changes = self.run.trajectory.box_updates.tolist()
        return not self.run.trajectory.meta_keys and changes in ([], [0])

    def _moving_columns(self) -> list[str]:
        """Return further columns of ``atoms`` that every frame restates: charges that fluctuate, quaternions."""
        if self.run.trajectory is None or self.run.schema is None or not len(self.run.ordinals):
            return []
        if len(self.run.trajectory.updates("atoms")) < 2:
            return []
        columns = self.run.schema.blocks["atoms"].columns
        return [
            name
            for name, spec in columns.items()
            if name not in _VECTORS and spec.dtype not in {"string", "u64"}
        ]

    def frame(self, ordinal: int) -> Frame:
        """Return the parts of a frame that are not vectors."""
        if self.run.trajectory is None:
            return self.run.single or Frame()
        return self.run.trajectory.frame(ordinal, self._array_blocks)

    def data(self, ordinal: int, frame: Frame, step: int) -> dict[str, Any]:
        """Return the keys ``ts.data`` gets: the step and what the record has for the frame."""
        meta = frame.meta
        document = meta.get("info")
        info = None if document is None else FrameInfo.from_json(document)
        missing = () if info is None else info.missing
        data: dict[str, Any] = {"step": host_step(step, meta)}
        for key, name, dtype, factor in self._keys:
            if key not in missing:
                value = meta[key]
                if dtype is not None:
                    value = restore_scalar(value, dtype)
                data[name] = value if factor == 1.0 else value * factor
        if self._array_blocks:
            data |= own_arrays(frame, self.run.n_atoms, self._dtypes)
        for name in self._columns:
            assert self.run.trajectory is not None
            values = self.run.trajectory.read("atoms", name, [ordinal])[0]
            data[name] = restore(values, None, self._dtypes.get(f"trajectory/atoms/{name}"))
        if info is not None:
            data |= info.values
            data |= info.arrays
        return data

    def dimensions(self, frame: Frame) -> Array | None:
        """Return lengths (Å) and angles (degrees) of the frame's cell, (6,) float32; None without one."""
        key = (frame.box, frame.meta.get("has_cell"), frame.meta.get("info"))
        zero = frame.meta.get("zero_vectors")
        plain = key[2] is None and (zero is None or not any(zero))
        if plain and frame.box is self._last_cell[0] and frame.box is not None and key[1] is not False:
            return self._last_cell[1]
        dimensions = self._dimensions(load_cell(frame))
        # Only a cell that never changes is the same object from frame to frame.
        self._last_cell = (frame.box, dimensions) if plain and key[1] is not False else (None, None)
        return dimensions

    def _dimensions(self, cell: HostCell) -> Array | None:
        if cell.lengths_angles is not None:
            given = np.array(cell.lengths_angles, dtype=np.float64)
            given[:3] *= self._length
            return given.astype(np.float32)
        if cell.vectors is None:
            return None
        if not self.odd_cell and cell.vectors.any(axis=0).all():
            self.odd_cell = not is_standard_cell(cell.vectors)
        return cell_lengths_angles(cell.vectors * self._length).astype(np.float32)
