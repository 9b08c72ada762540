"""The frames of a record as mdtraj takes them: fixed atoms, nanometers, picoseconds.

Coordinates are stored in float64, a float32 in nm as ten times its value in angstrom.
Both steps are exact: ten times a float32 needs 28 of 53 bits, and 0.1 times that lies
within 2**-52 of the float32 it came from, which is therefore the nearest one.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from molrec_core import FormatError, Frame, SectionNotFoundError, open_record
from molrec_core.hosts import (
    FORCES,
    POSITIONS,
    VELOCITIES,
    FrameInfo,
    HostCell,
    host_step,
    is_standard_cell,
    load_cell,
)
from molrec_core.units import MDTRAJ, Units

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

Array = np.ndarray[Any, Any]
PathLike = str | os.PathLike[str]

SCALARS = {
    "pe": "energy",
    "ke": "energy",
    "etotal": "energy",
    "free_energy": "energy",
    "temp": None,
    "press": "pressure",
    "volume": "volume",
}
"""Per-step scalars and what they measure; a temperature is in K everywhere."""
_VECTORS = {"velocities": (VELOCITIES, "velocity"), "forces": (FORCES, "force")}


class MolrecCellWarning(UserWarning):
    """A record's cells are not all there, or not as mdtraj would orient them."""


class RecordFrames:
    """Reads what mdtraj needs of a record, for many frames at once.

    Parameters
    ----------
    path : path-like, URL or zarr store
        As for :func:`molrec_core.open_record`.
    storage_options : mapping, optional
        For a URL: passed to fsspec.

    Attributes
    ----------
    record : Record
    n_atoms, n_frames : int

    Raises
    ------
    RecordNotFoundError, FormatError
    FormatError
        ``ragged``: atom counts differ between frames, which an mdtraj trajectory cannot hold.
    """

    def __init__(self, path: Any, storage_options: Mapping[str, Any] | None = None) -> None:
        self.record = open_record(path, storage_options=storage_options)
        try:
            # Before the trajectory, whose links would read it without keeping it.
            self.record.get("system")
            self._trajectory = self.record.trajectory if "trajectory" in self.record else None
            # A record of a single state has a frame section and no trajectory.
            self._single: Frame | None = None if self._trajectory is not None else self.record.get("frame")
            self.n_frames = self._count_frames()
            self.n_atoms = self._count_atoms()
            self._units = Units.from_meta(self.record.meta, host=MDTRAJ, stacklevel=5)
            self._factors = self._units.conversion(MDTRAJ)
        except BaseException:
            self.record.close()
            raise

    def _count_frames(self) -> int:
        if self._trajectory is not None:
            return len(self._trajectory)
        return 0 if self._single is None or "x" not in self._single.get("atoms", ()) else 1

    def _count_atoms(self) -> int:
        if self._trajectory is not None and self.n_frames and "atoms" in self._trajectory.schema.blocks:
            counts = self._trajectory.counts("atoms")
            odd = np.flatnonzero(counts != counts[0])
            if len(odd):
                raise FormatError.one(
                    "trajectory/atoms",
                    "ragged",
                    f"frame {odd[0]} has {counts[odd[0]]} atoms, frame 0 has {counts[0]}; an mdtraj trajectory holds "
                    "one number of atoms. Read such a record with molrec_core or ASE",
                )
            return max(0, int(counts[0]))
        system = self._single if self._single is not None else self.record.get("system")
        return 0 if system is None or "atoms" not in system else system["atoms"].count

    @property
    def precision(self) -> float | None:
        """The declared precision of the coordinates, in nm; None where they are exact."""
        if self._trajectory is None or "atoms" not in self._trajectory.schema.blocks:
            return None
        columns = self._trajectory.schema.blocks["atoms"].columns
        stored = [columns[name].precision for name in POSITIONS if name in columns]
        to_record = MDTRAJ.conversion(self._units).length
        return max((p / to_record for p in stored if p is not None), default=None)

    def positions(self, frames: slice | Array, rows: Any = None) -> Array:
        """Return coordinates: shape (frames, rows, 3), float32, nm."""
        if self._trajectory is None:
            return self._single_state(POSITIONS, self._factors.length, frames, rows).astype(np.float32)
        if not self.n_frames:
            return np.empty(
                (0, len(np.empty(self.n_atoms)[slice(None) if rows is None else rows]), 3), np.float32
            )
        values: Array = self._trajectory.read(
            "atoms", POSITIONS, _frames(frames), rows, dtype=np.float32, factor=self._factors.length
        )
        return values

    def _single_state(self, names: tuple[str, ...], factor: float, frames: slice | Array, rows: Any) -> Array:
        if self._single is None or not self.n_frames:
            msg = "the record has neither a trajectory nor a frame with coordinates"
            raise SectionNotFoundError(msg, loc=self.record.path)
        atoms = self._single["atoms"]
        values = np.stack([atoms[name] for name in names], axis=1)[None] * factor
        return values[frames][:, slice(None) if rows is None else rows]

    def ordinals(self, frames: slice | Array) -> Array:
        """Return the ordinals that `frames` selects."""
        return np.arange(self.n_frames)[frames]

    def times(self, frames: slice | Array) -> Array:
        """Return times: shape (frames,), float64, ps; the frames' ordinals where the run has none."""
        times = None if self._trajectory is None else self._trajectory.times
        if times is None:
            return self.ordinals(frames).astype(np.float64)
        return np.asarray(times[frames] * self._factors.time)

    def steps(self, frames: slice | Array) -> Array:
        """Return step numbers: shape (frames,), int64; the source's own where the record kept them."""
        if self._trajectory is None:
            return self.ordinals(frames)
        steps = self._trajectory.steps[frames]
        if "source_step" not in self._trajectory.meta_keys:
            return steps
        sources = self._trajectory.meta("source_step")
        found = [
            host_step(int(step), {"source_step": sources[i]})
            for step, i in zip(steps, self.ordinals(frames), strict=True)
        ]
        return np.array(found, dtype=np.int64)

    def vectors(self, name: str, frames: slice | Array, rows: Any = None) -> Array:
        """Return ``velocities`` (nm/ps) or ``forces`` (kJ/mol/nm): shape (frames, rows, 3), float64.

        NaN in frames that do not have them.

        Raises
        ------
        SectionNotFoundError
            No frame of the record has them.
        """
        columns, quantity = _VECTORS[name]
        factor = getattr(self._factors, quantity)
        if self._trajectory is None:
            self._require(name, self._single is not None and columns[0] in self._single.get("atoms", ()))
            return self._single_state(columns, factor, frames, rows)
        blocks = self._trajectory.schema.blocks
        if name in blocks:
            counts = self._trajectory.counts(name)
            self._require(name, bool((counts == self.n_atoms).any()))
            ordinals = self.ordinals(frames)
            has = counts[ordinals] == self.n_atoms
            n_rows = self.n_atoms if rows is None else len(np.empty(self.n_atoms)[rows])
            values = np.full((len(ordinals), n_rows, 3), np.nan)
            values[has] = self._trajectory.read(name, columns, ordinals[has].tolist(), rows, factor=factor)
            return values
        self._require(name, "atoms" in blocks and columns[0] in blocks["atoms"].columns)
        stored: Array = self._trajectory.read("atoms", columns, _frames(frames), rows, factor=factor)
        return stored

    def _require(self, name: str, there: bool) -> None:
        if not there:
            raise SectionNotFoundError(f"no frame of the record has {name}", loc=self.record.path)

    def scalars(self, frames: slice | Array) -> dict[str, Array]:
        """Return the per-step scalars the record has: float64, kJ/mol, K, kJ/mol/nm^3 and nm^3; NaN where a frame has none."""
        ordinals = self.ordinals(frames)
        if self._trajectory is None:
            return {}
        infos = self._infos(ordinals)
        found = {}
        for name, quantity in SCALARS.items():
            values = np.full(len(ordinals), np.nan)
            if name in self._trajectory.meta_keys:
                values = np.array(self._trajectory.meta(name), dtype=np.float64)[ordinals]
                missing = [i for i, info in infos.items() if name in info.missing]
                values[missing] = np.nan
            for i, info in infos.items():
                if name in info.own:
                    values[i] = info.own[name]
            if not np.isnan(values).all() or (name in self._trajectory.meta_keys and not len(values)):
                found[name] = values * (1.0 if quantity is None else getattr(self._factors, quantity))
        return found

    def _infos(self, ordinals: Array) -> dict[int, FrameInfo]:
        """Return what the chosen frames hold beyond the pin, by place in `ordinals`."""
        if self._trajectory is None or "info" not in self._trajectory.meta_keys:
            return {}
        documents = self._trajectory.meta("info")
        return {
            i: FrameInfo.from_json(documents[ordinal])
            for i, ordinal in enumerate(ordinals.tolist())
            if documents[ordinal] is not None
        }

    def cells(self, frames: slice | Array) -> tuple[Array | None, Array | None]:
        """Return cell lengths (nm) and angles (degrees): shape (frames, 3), float32; None where no frame has a cell.

        Warns
        -----
        MolrecCellWarning
            Some frames have no cell: theirs is NaN. A cell is not in mdtraj's orientation.
        """
        ordinals = self.ordinals(frames)
        table = np.full((len(ordinals), 6), np.nan)
        if self._trajectory is not None:
            self._stored_cells(ordinals, table)
        elif self._single is not None and len(ordinals):
            table[:] = _one_cell(load_cell(self._single))
        absent = np.isnan(table).all(axis=1)
        if absent.all():
            return None, None
        if absent.any():
            warnings.warn(
                f"{int(absent.sum())} of {len(absent)} frames have no cell; lengths and angles are NaN there",
                MolrecCellWarning,
                stacklevel=4,
            )
        table[:, :3] *= self._factors.length
        return table[:, :3].astype(np.float32), table[:, 3:].astype(np.float32)

    def _stored_cells(self, ordinals: Array, table: Array) -> None:
        trajectory = self._trajectory
        assert trajectory is not None
        keys = trajectory.meta_keys
        seen = np.searchsorted(trajectory.box_updates, ordinals, side="right") - 1
        if "has_cell" in keys:
            seen[~np.asarray(trajectory.meta("has_cell"))[ordinals]] = -1
        present = np.flatnonzero(seen >= 0)
        updates, inverse = np.unique(seen[present], return_inverse=True)
        boxes = [trajectory.box(int(trajectory.box_updates[update])) for update in updates]
        if boxes:
            vectors = np.array(
                [np.full((3, 3), np.nan) if b is None or not b.cell_defined else b.vectors for b in boxes]
            )
            _warn_of_orientation(vectors)
            table[present] = lengths_and_angles(vectors)[inverse]
        # Zero vectors, and cells that have no matrix, are kept beside the box.
        special = {i for i, info in self._infos(ordinals).items() if "cell" in info.own}
        if "zero_vectors" in keys:
            special |= set(
                np.flatnonzero(np.asarray(trajectory.meta("zero_vectors"))[ordinals].any(axis=1)).tolist()
            )
        for i in special:
            table[i] = _one_cell(load_cell(trajectory.frame(int(ordinals[i]), ())))

    def close(self) -> None:
        """Close the record."""
        self.record.close()

    def __enter__(self) -> Self:
        """Return the frames."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the record."""
        self.close()


def _frames(frames: slice | Array) -> slice | list[int]:
    return frames if isinstance(frames, slice) else frames.tolist()


def lengths_and_angles(vectors: Array) -> Array:
    """Return lengths and angles of many cells.

    Parameters
    ----------
    vectors : (n, 3, 3) float64 array
        Lattice vectors as COLUMNS; NaN for no cell.

    Returns
    -------
    (n, 6) float64 array
        As :func:`molrec_core.hosts.cell_lengths_angles` gives them for one.
    """
    a, b, c = np.moveaxis(vectors, 2, 0)
    angles = np.empty((len(vectors), 3))
    for column, (u, v) in enumerate(((b, c), (a, c), (a, b))):
        dot = np.einsum("ij,ij->i", u, v)
        angles[:, column] = np.degrees(np.arctan2(np.linalg.norm(np.cross(u, v), axis=1), dot))
        angles[dot == 0, column] = 90.0
    return np.hstack([np.linalg.norm(vectors, axis=1), angles])


def _one_cell(cell: HostCell) -> Array:
    table = np.full((1, 6), np.nan)
    if cell.vectors is not None:
        table = lengths_and_angles(cell.vectors[None])
    elif cell.lengths_angles is not None:
        table[0] = cell.lengths_angles
    return table


def _warn_of_orientation(vectors: Array) -> None:
    # Exact zeros, which right-handed writers store, spare the look at each cell.
    exact = (vectors[:, 1, 0] == 0) & (vectors[:, 2, 0] == 0) & (vectors[:, 2, 1] == 0)
    exact &= (np.diagonal(vectors, axis1=1, axis2=2) > 0).all(axis=1)
    doubtful = vectors[~exact & ~np.isnan(vectors).any(axis=(1, 2))]
    if not all(map(is_standard_cell, doubtful)):
        warnings.warn(
            "the record's cell is not in mdtraj's orientation (a along x, b in the xy plane); "
            "mdtraj keeps lengths and angles alone, so it and the coordinates no longer fit",
            MolrecCellWarning,
            stacklevel=6,
        )
