"""Cells of images on their way into a record (sections 1, 4 and 6 of the host mapping)."""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import Atoms

from molrec_core import Box
from molrec_core.hosts import FrameInfo, store_cell

Array = np.ndarray[Any, Any]
Stored = tuple[Box | None, dict[str, Any], dict[str, Any]]


class CellWriter:
    """Says where each image's cell goes; one that stays is converted once and presented once.

    Parameters
    ----------
    length : float
        Record length units in an angstrom.
    has_box : bool
        Whether a frame of the record has a cell.
    """

    def __init__(self, length: float, *, has_box: bool) -> None:
        self._length = length
        self.has_box = has_box
        self._stored: Stored = (None, {}, {})
        self.forget()

    def forget(self) -> None:
        """Present the next cell whatever it is."""
        self._key: tuple[Any, ...] = ()
        self._presented: tuple[Any, ...] = ()

    def put(self, atoms: Atoms, meta: dict[str, Any], info: FrameInfo) -> Box | None:
        """Add an image's cell to `meta` and `info`; return its box, None where the last one carries forward."""
        vectors, pbc, corner = atoms.cell.array, atoms.pbc, atoms.get_celldisp()
        key = (vectors.tobytes(), pbc.tobytes(), corner.tobytes(), corner.shape)
        if key != self._key:
            self._key = key
            self._stored = self._store(vectors, pbc, corner)
        box, values, own = self._stored
        meta.update(values)
        info.own.update(own)
        if box is None or key == self._presented:
            return None
        self._presented = key
        self.has_box = True
        return box

    def _store(self, vectors: Array, pbc: Array, corner: Array) -> Stored:
        """Return box, meta keys, and what ASE alone knows of a cell given by rows."""
        origin = corner.reshape(-1) * self._length
        columns = vectors.T * self._length
        stored = store_cell(columns, boundary=pbc, origin=origin if origin.shape == (3,) else None)
        own = dict(stored.own)
        if corner.shape != (3, 1) or np.signbit(origin[origin == 0]).any():
            own["$celldisp"] = corner
        if np.signbit(vectors[~vectors.any(axis=1)]).any():
            # A zero vector is completed in the box, and would come back without its sign.
            own["cell"] = columns
        return stored.box, stored.meta, own
