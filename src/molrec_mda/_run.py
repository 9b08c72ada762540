"""A record as a host sees whose atoms never change: which frames, how many atoms, which units.

Reader and parser open records through here, so that they refuse the same ones: a
changing number of atoms, and a topology that changes, each with the frame where it
does and the way out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from molrec_core import Frame, Record, SectionNotFoundError, SequenceSchema, TrajectoryReader, open_record
from molrec_core.hosts import FORCES, POSITIONS, VELOCITIES, host_dtypes_of
from molrec_core.units import MDANALYSIS, Conversion, Units
from molrec_mda._connections import CONNECTIONS

Array = np.ndarray[Any, Any]

QUANTITIES: Mapping[str, Sequence[str]] = {"positions": POSITIONS, "velocities": VELOCITIES, "forces": FORCES}
"""Vectors of a timestep and their columns."""

_IDENTITY = frozenset({"id", "atomic_number", "type_id", "mol_id", "res_id", "residue"})
_STEP = 4096
_SUFFIXES = (".mrec", ".mrec.zip")


def is_record_path(thing: object) -> bool:
    """Whether `thing` is named like a record: a path or URL that ends in ``.mrec`` or ``.mrec.zip``."""
    if not isinstance(thing, str | os.PathLike):
        return False
    text = os.fspath(thing)
    return isinstance(text, str) and text.rstrip("/").lower().endswith(_SUFFIXES)


class Run:
    """An open record, seen as frames of one number of atoms.

    Parameters
    ----------
    path : str, path-like or zarr store
    n_atoms : int, optional
        Select the frames of this count where the number of atoms changes.
    allow_changing_topology : bool
        Take the topology of the first frame for all.
    convert_units : bool
    storage_options : mapping, optional
        For a URL.

    Attributes
    ----------
    record : Record
    trajectory : TrajectoryReader or None
        None for a record that holds a single ``frame``, or no frames at all.
    ordinals : range or (n_frames,) int64 array
        Frames of the record that the host sees.
    n_atoms : int
    left_out : int
        Frames of another count.

    Raises
    ------
    ValueError
        The number of atoms or the topology changes, or no frame has `n_atoms`.
    """

    def __init__(
        self,
        path: Any,
        *,
        n_atoms: int | None = None,
        allow_changing_topology: bool = False,
        convert_units: bool = True,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.record: Record = open_record(path, storage_options=storage_options)
        try:
            self.meta = self.record.meta
            self._convert = convert_units
            self.system: Frame | None = self.record.get("system")
            self.trajectory: TrajectoryReader | None = self.record.get("trajectory")
            self.left_out = 0
            self.ordinals: range | Array = range(0)
            self.n_atoms = 0
            self._choose(n_atoms)
            if not allow_changing_topology:
                self._check_topology()
        except BaseException:
            self.record.close()
            raise

    @cached_property
    def single(self) -> Frame | None:
        """The ``frame`` section, for a record without a trajectory."""
        frame: Frame | None = None if self.trajectory is not None else self.record.get("frame")
        return frame

    @property
    def schema(self) -> SequenceSchema | None:
        """The pin."""
        return None if self.trajectory is None else self.trajectory.schema

    @property
    def host_dtypes(self) -> dict[str, str]:
        """``meta.host_dtypes``."""
        return host_dtypes_of(self.meta)

    def first_frame(self) -> Frame | None:
        """Return the first frame the host sees; None without frames."""
        if self.trajectory is None:
            return self.single
        return self.trajectory.frame(int(self.ordinals[0])) if len(self.ordinals) else None

    def conversion(self, *, warn: bool) -> Conversion:
        """Return the factors from the record's units to those of MDAnalysis; `warn` where it states none."""
        meta: Mapping[str, Any] = self.meta
        stated = meta.get("units") or {}
        if not warn and isinstance(stated, dict) and "preset" not in stated:
            meta = {"units": MDANALYSIS.to_meta() | stated}
        units = Units.from_meta(meta, host=MDANALYSIS, convert=self._convert, stacklevel=5)
        return units.conversion(MDANALYSIS)

    # -- frames

    def _choose(self, n_atoms: int | None) -> None:
        if self.trajectory is None or not len(self.trajectory):
            lead = self.single if self.single is not None else self.system
            self.n_atoms = lead["atoms"].count if lead is not None and "atoms" in lead else 0
            self.ordinals = range(0 if self.single is None else 1)
            return
        try:
            counts = self.trajectory.counts("atoms")
        except SectionNotFoundError:
            msg = f"{self.record.path}: no block atoms is declared, so there are no positions to read"
            raise ValueError(msg) from None
        differs = counts != counts[0]
        if counts[0] >= 0 and not differs.any():
            self.n_atoms = int(counts[0])
            self.ordinals = range(len(counts))
            return
        if n_atoms is None:
            raise ValueError(_ragged(self.record.path, counts, int(np.argmax(differs))))
        chosen = np.flatnonzero(counts == n_atoms)
        if not len(chosen):
            found = ", ".join(str(n) for n in np.unique(counts[counts >= 0])[:8])
            msg = f"{self.record.path}: no frame has {n_atoms} atoms; there are frames of {found}"
            raise ValueError(msg)
        self.n_atoms = n_atoms
        self.ordinals = chosen
        self.left_out = len(counts) - len(chosen)

    def refresh(self) -> None:
        """Take up what a writer has committed since."""
        if self.trajectory is not None:
            before = len(self.trajectory)
            if self.trajectory.refresh() != before:
                self._choose(self.n_atoms if self.n_atoms or before else None)

    # -- a topology that changes

    def _check_topology(self) -> None:
        change = self._first_change() if self.trajectory is not None and len(self.ordinals) > 1 else None
        if change is not None:
            name, ordinal = change
            msg = (
                f"{self.record.path}: the topology changes at frame {ordinal} (block {name}), and MDAnalysis keeps one "
                "topology for all frames; pass allow_changing_topology=True to take that of the first frame, "
                "or read the frames with ASE or molrec_core"
            )
            raise ValueError(msg)

    def _first_change(self) -> tuple[str, int] | None:
        assert self.trajectory is not None
        ordinals = np.asarray(self.ordinals)
        changes = []
        for name, block in self.trajectory.schema.blocks.items():
            if block.aligned_with == "atoms" or name in {"residues", "segments", *CONNECTIONS}:
                updates = self.trajectory.updates(name)
                changes.append((name, self._changed_block(name, updates, ordinals)))
        if "atoms" in self.trajectory.schema.blocks and len(self.trajectory.updates("atoms")) > 1:
            for name, column in self.trajectory.schema.blocks["atoms"].columns.items():
                if column.dtype == "string" or name in _IDENTITY:
                    changes.append((f"atoms, column {name}", self._changed_column(name, ordinals)))
        found = [(name, at) for name, at in changes if at is not None]
        return min(found, key=lambda item: item[1]) if found else None

    def _changed_block(self, name: str, updates: Array, ordinals: Array) -> int | None:
        assert self.trajectory is not None
        seen = np.searchsorted(updates, ordinals, side="right")
        first = self.trajectory.frame(int(ordinals[0]), [name]).get(name)
        for at in np.unique(seen, return_index=True)[1]:
            if seen[at] != seen[0] and self.trajectory.frame(int(ordinals[at]), [name]).get(name) != first:
                return int(ordinals[at])
        return None

    def _changed_column(self, name: str, ordinals: Array) -> int | None:
        assert self.trajectory is not None
        first = self.trajectory.read("atoms", name, ordinals[:1].tolist())
        for start in range(0, len(ordinals), _STEP):
            part = self.trajectory.read("atoms", name, ordinals[start : start + _STEP].tolist())
            differs = (part != first).reshape(len(part), -1).any(axis=1)
            if differs.any():
                return int(ordinals[start + int(differs.argmax())])
        return None


def _ragged(path: str, counts: Array, at: int) -> str:
    def told(frame: int) -> str:
        return "no atoms block" if counts[frame] < 0 else f"{counts[frame]} atoms"

    return (
        f"{path}: frame {at} has {told(at)}, the first has {told(0)}, and MDAnalysis keeps one number of atoms; "
        "pass n_atoms= to read the frames of that count, or read all of them with ASE: "
        "ase.io.read(path, ':')"
    )


def places(run: Run) -> dict[str, tuple[str, Sequence[str]]]:
    """Return where positions, velocities and forces stand: quantity -> block, columns."""
    if run.schema is not None:
        have = {name: set(block.columns) for name, block in run.schema.blocks.items()}
    else:
        have = {name: set(block) for name, block in (run.single or Frame()).items()}
    found: dict[str, tuple[str, Sequence[str]]] = {}
    for quantity, columns in QUANTITIES.items():
        for block in ("atoms", quantity):
            if set(columns) <= have.get(block, set()):
                found.setdefault(quantity, (block, columns))
    return found
