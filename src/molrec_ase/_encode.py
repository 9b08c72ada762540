"""Images of ASE on their way into a record: each Atoms becomes a frame of a stack.

An :class:`Encoder` knows what the previous frame presented, so that what has not
changed (elements, tags, constraints, cell) is neither encoded nor compared again, and
what an image lacks is emptied once. It is told to forget when an append failed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import Atoms, units
from ase.data import atomic_masses
from ase.spacegroup import Spacegroup

from molrec_ase._cells import CellWriter
from molrec_ase._constraints import constraints_text, free_atoms
from molrec_ase._draft import Columns, Draft
from molrec_ase._places import IDENTITY, Places, is_result_array
from molrec_ase._results import calculator_name, current_results, result_factors
from molrec_core import Frame, FrameStack
from molrec_core.hosts import FORCES, POSITIONS, VELOCITIES, FrameInfo
from molrec_core.units import ASE, Units

Array = np.ndarray[Any, Any]
Blocks = dict[str, tuple[int, Columns]]
"""Rows and columns of the blocks that an image presents."""
_EXACT = 1e-15
_UNKNOWN: Any = object()


class Encoder:
    """Turns images into frames of one record.

    Parameters
    ----------
    places : Places
        Of the record's pin.
    stored : Units
        The record's units.
    fresh : bool
        Whether the record has no frame yet; else nothing is known of its last one.
    has_box : bool
        Whether a frame of the record has a cell.
    """

    def __init__(
        self, places: Places, stored: Units = ASE, *, fresh: bool = True, has_box: bool = False
    ) -> None:
        self.places = places
        conversion = ASE.conversion(stored)
        self._cells = CellWriter(conversion.length, has_box=has_box)
        self._length = conversion.length
        self._draft = Draft(places.schema, {"mass": conversion.mass, "charge": conversion.charge})
        self._factors = result_factors(conversion)
        self._to_velocity = units.fs * conversion.velocity
        self._to_momentum = stored.conversion(ASE).velocity / units.fs
        blocks = places.schema.blocks
        self._columns = tuple(blocks["identity"].columns) if "identity" in blocks else ()
        self._optional = self._empty_blocks()
        self._scalars = {place.key for place in (*places.info.values(), *places.results.values())}
        self.forget()
        if fresh:
            self._open: set[str] = set()
            self._constraints: str | None = None

    def _empty_blocks(self) -> Blocks:
        schema = self.places.schema
        empty: Blocks = {
            name: (0, {columns: np.empty((0, 3))})
            for name, columns in (("velocities", VELOCITIES), ("forces", FORCES))
            if name in schema.blocks
        }
        for place in (*self.places.arrays.values(), *self.places.result_arrays.values()):
            empty[place.block] = 0, {"value": np.empty((0, *place.trailing), place.dtype)}
        return empty

    def forget(self) -> None:
        """Present everything anew with the next image."""
        self._open = set(self._optional)
        self._constraints = _UNKNOWN
        self._identity: tuple[Any, ...] | None = None
        self._strings: dict[str, Array] = {}
        self._cells.forget()

    def add(self, atoms: Atoms) -> None:
        """Encode an image.

        Raises
        ------
        TypeError
            A value that no place of a record holds exactly, naming it; nothing of the image is taken.
        """
        arrays = atoms.arrays
        positions = arrays["positions"]
        count = len(positions)
        info = FrameInfo()
        meta: dict[str, Any] = {}
        blocks: Blocks = {"atoms": (count, self._atoms_columns(atoms, positions))}
        present: set[str] = set()
        momenta = arrays.get("momenta")
        self._put_identity(atoms, count, blocks, info)
        if momenta is not None:
            self._put_momenta(atoms, momenta, blocks, present, info)
        if len(arrays) > 2:
            self._put_arrays(arrays, count, blocks, present, info)
        self._put_constraints(atoms, blocks, info)
        if atoms.info:
            self._put_info(atoms.info, meta, info)
        results = current_results(atoms)
        if results:
            self._put_results(atoms, results, blocks, present, meta, info)
        if len(meta) < len(self._scalars):
            info.missing = sorted(self._scalars - meta.keys())
        for name in self._open - present:
            blocks[name] = self._optional[name]
        self._open = present
        box = self._cells.put(atoms, meta, info)
        document = info.to_json()
        if document is not None:
            meta["info"] = document
        if not meta.keys() <= self.places.schema.meta.keys():
            self._check_declared(meta, document)
        self._draft.add(blocks, box, meta, count)

    @property
    def images(self) -> int:
        """Images encoded and not yet taken."""
        return self._draft.images

    @property
    def full(self) -> bool:
        """Whether the images encoded are enough to be appended together."""
        return self._draft.full

    def keep(self) -> None:
        """Copy the last image encoded, which is about to change, unless it is to be taken now."""
        self._draft.keep()

    def take(self) -> FrameStack:
        """Return the frames of the images encoded since the last call."""
        return self._draft.take()

    def take_one(self) -> Frame:
        """Return the frame of the one image encoded since the last call."""
        return self._draft.take_one()

    def _check_declared(self, meta: dict[str, Any], document: dict[str, Any] | None) -> None:
        """Refuse what the pin of another tool cannot hold; drop what goes without saying."""
        declared = self.places.schema.meta
        if not self._cells.has_box and "has_cell" not in declared:
            meta.pop("has_cell", None)
        if document is not None and document.keys() == {"$missing"} and "info" not in declared:
            del meta["info"]
        lacking = meta.keys() - declared.keys()
        if lacking:
            told = ", ".join(sorted(document or ())) if lacking == {"info"} else ", ".join(sorted(lacking))
            raise TypeError(
                f"the record was declared without a place for {told} of this image; write to a new record"
            )

    def _atoms_columns(self, atoms: Atoms, positions: Array) -> Columns:
        if positions.dtype != np.float64:
            # Beside others that are float64 they would come back as such.
            raise TypeError(
                f"positions are {positions.dtype}; a record holds float64, cast them first (exact)"
            )
        if self._length != 1.0:
            positions = positions * self._length
        columns: Columns = {POSITIONS: positions}
        declared = self.places.schema.blocks["atoms"].columns
        if len(declared) > len(POSITIONS):
            columns |= self._moving_columns(atoms, set(declared) - set(POSITIONS))
        return columns

    def _moving_columns(self, atoms: Atoms, wanted: set[str]) -> dict[str, Array]:
        """Return the velocities and forces a record of another tool has for every frame."""
        columns: dict[str, Array] = {}
        momenta, forces = atoms.arrays.get("momenta"), current_results(atoms).get("forces")
        if momenta is not None and wanted & set(VELOCITIES):
            velocities, _ = self._velocities(momenta, atoms.get_masses())
            columns |= dict(zip(VELOCITIES, velocities.T, strict=True))
        if forces is not None and wanted & set(FORCES):
            forces = np.asarray(forces, dtype=np.float64) * self._factors.get("forces", 1.0)
            columns |= dict(zip(FORCES, forces.T, strict=True))
        if not wanted <= columns.keys():
            lacking = ", ".join(sorted(wanted - columns.keys()))
            raise TypeError(
                f"atoms: every frame of the record has {lacking}, and this image does not; write to a new record"
            )
        return {name: columns[name] for name in wanted}

    # -- identity

    def _put_identity(self, atoms: Atoms, count: int, blocks: Blocks, info: FrameInfo) -> None:
        arrays = atoms.arrays
        numbers = arrays["numbers"]
        given: dict[str, Array] = {}
        for name in IDENTITY:
            values = arrays.get(name)
            if values is None:
                continue
            place = self.places.identity.get(name)
            held = None if place is None or not count else place.hold(values, count)
            if held is None or place is None:
                info.arrays[name] = values
            else:
                given[place.column] = held
        if (
            "masses" in arrays
            if not self.places.masses_set
            else ("masses" not in arrays and "momenta" in arrays)
        ):
            info.own["$masses_set"] = "masses" in arrays
        if "mass" in self._columns and "mass" not in given and count and "momenta" in arrays:
            masses = _default_masses(numbers)
            if masses is not None:
                given["mass"] = masses
        if "free" in self._columns and atoms.constraints and (free := free_atoms(atoms)) is not None:
            given["free"] = free
        if numbers.size and int(numbers.min()) < 0:
            info.arrays["numbers"] = numbers
            numbers = np.where(numbers < 0, 0, numbers)
        key = (numbers.tobytes(), *((name, values.tobytes()) for name, values in given.items()))
        if key != self._identity:
            self._identity = key
            if self._columns:
                blocks["identity"] = count, {"numbers": numbers, **given}
            else:
                # The atoms are named in the record's system: what differs from it is this image's own.
                info.arrays["numbers"] = numbers
        elif not self._columns:
            info.arrays["numbers"] = numbers

    # -- arrays

    def _velocities(self, momenta: Array, masses: Array) -> tuple[Array, bool]:
        """Return velocities in the record's units, and whether they give the momenta back."""
        with np.errstate(all="ignore"):
            velocities = momenta / masses[:, None] * self._to_velocity
            back = velocities * self._to_momentum * masses[:, None]
            exact = bool((np.abs(back - momenta) <= _EXACT * np.abs(momenta)).all())
        return velocities, exact and bool(np.isfinite(velocities).all())

    def _put_momenta(
        self, atoms: Atoms, momenta: Array, blocks: Blocks, present: set[str], info: FrameInfo
    ) -> None:
        count = len(atoms.arrays["positions"])
        masses = atoms.arrays.get("masses", _default_masses(atoms.arrays["numbers"]))
        fits = count and momenta.shape == (count, 3) and momenta.dtype == np.float64 and masses is not None
        if fits and "velocities" in self._optional:
            velocities, exact = self._velocities(momenta, masses)
            if exact:
                blocks["velocities"] = count, {VELOCITIES: velocities}
                present.add("velocities")
                return
        elif fits and "vx" in self.places.schema.blocks["atoms"].columns:
            return
        self._put_array("momenta", momenta, count, blocks, present, info)

    def _put_arrays(
        self,
        arrays: dict[str, Array],
        count: int,
        blocks: Blocks,
        present: set[str],
        info: FrameInfo,
    ) -> None:
        for name, values in arrays.items():
            if name not in {"numbers", "positions", "momenta"} and name not in IDENTITY:
                self._put_array(name, values, count, blocks, present, info)

    def _put_array(
        self,
        name: str,
        values: Array,
        count: int,
        blocks: Blocks,
        present: set[str],
        info: FrameInfo,
    ) -> None:
        place = self.places.arrays.get(name) if count and not is_result_array(name) else None
        if place is None:
            info.arrays[name] = values
            return
        before = self._strings.get(name)
        if before is not None and place.block in self._open and _equal(before, values):
            present.add(place.block)
            return
        held = place.hold(values, count)
        if held is None:
            info.arrays[name] = values
            return
        if values.dtype.kind == "U":
            # Strings are dear to encode and seldom change.
            self._strings[name] = values.copy()
        blocks[place.block] = count, {"value": held}
        present.add(place.block)

    def _put_constraints(self, atoms: Atoms, blocks: Blocks, info: FrameInfo) -> None:
        text = constraints_text(atoms.constraints)
        if "ase" not in self.places.schema.blocks:
            if text is not None:
                info.own["$constraints"] = text
        elif text != self._constraints:
            self._constraints = text
            rows = np.array([] if text is None else [text], dtype=np.dtypes.StringDType())
            blocks["ase"] = len(rows), {"constraints": rows}

    # -- scalars

    def _put_info(self, values: dict[Any, Any], meta: dict[str, Any], info: FrameInfo) -> None:
        for key, value in values.items():
            place = self.places.info.get(key)
            held = None if place is None else place.hold(value)
            if type(value) is Spacegroup:
                info.own.setdefault("$spacegroups", []).append([key, value.no, value.setting])
            elif held is None or place is None:
                info.values[key] = value
            else:
                meta[place.key] = held.value

    def _put_results(
        self,
        atoms: Atoms,
        results: dict[str, Any],
        blocks: Blocks,
        present: set[str],
        meta: dict[str, Any],
        info: FrameInfo,
    ) -> None:
        name = calculator_name(atoms)
        if name is not None and name != self.places.calculator:
            info.own["$calculator"] = name
        count = len(atoms.arrays["positions"])
        for prop, value in results.items():
            factor = self._factors.get(prop, 1.0) if self._factors else 1.0
            if factor != 1.0:
                value = value * factor  # noqa: PLW2901 - the same result in the record's units
            if prop == "forces" and "forces" in self._optional and _is_forces(value, count):
                blocks["forces"] = count, {FORCES: value}
                present.add("forces")
                continue
            scalar = self.places.results.get(prop)
            if scalar is not None and (held := scalar.hold(value)) is not None:
                meta[scalar.key] = held.value
                continue
            place = self.places.result_arrays.get(prop) if count else None
            if place is not None and (column := place.hold(value, count)) is not None:
                blocks[place.block] = count, {"value": column}
                present.add(place.block)
            elif prop != "forces" or "fx" not in self.places.schema.blocks["atoms"].columns:
                info.own[f"calc.{prop}"] = value


def _default_masses(numbers: Array) -> Array | None:
    """Return ASE's masses of the elements, dalton; None where it has none for one of them."""
    if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) >= len(atomic_masses)):
        return None
    masses: Array = atomic_masses[numbers]
    return masses


def _is_forces(values: object, count: int) -> bool:
    return (
        isinstance(values, np.ndarray)
        and count > 0
        and values.shape == (count, 3)
        and values.dtype == np.float64
    )


def _equal(left: Array, right: Array) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and bool((left == right).all())
