"""Images of ASE on their way out of a record: frames become Atoms.

A run of frames is taken, the updates of each block that those frames see are decoded at
once, and each image is put together from its share. The run grows while reading goes
on, so that one image costs one frame and many cost little each.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.cell import Cell
from ase.constraints import FixAtoms
from ase.data import atomic_masses
from ase.spacegroup import Spacegroup

from molrec_ase._constraints import read_constraints
from molrec_ase._image import make_atoms, make_calculator
from molrec_ase._memory import Arena
from molrec_ase._places import IDENTITY, RESULT_KEYS, Places
from molrec_ase._results import result_factors
from molrec_ase._updates import STACKS, Column, Part, Updates, part_of
from molrec_core import Box, Frame, Record, SectionNotFoundError, SequenceSchema
from molrec_core.hosts import FrameInfo, element_numbers, host_name, load_cell, restore, restore_scalar
from molrec_core.units import ASE, Units

Array = np.ndarray[Any, Any]
Columns = dict[str, Column]

_GROWTH, _LONGEST_RUN, _RUN_ATOMS = 8, 512, 2**17
_LARGE = 2**13
"""Atoms of an image that is read by itself: copying it out of a run costs more than the run saves."""
_HANDLED = {*STACKS, "element", "atomic_number", "mass", "free", "residue", "segment"}
_ARRAYS = {column: name for name, column in IDENTITY.items()}
_CANONICAL = {"ke": "energy", "etotal": "energy", "press": "pressure", "temp": "", "volume": "volume"}
_RESULTS = {stored: name for name, stored in RESULT_KEYS.items()}
_OWN_CELL = ("cell", "pbc", "origin", "$celldisp")


class UnknownElementsWarning(UserWarning):
    """A record says neither elements nor atomic numbers; its atoms are ``X``."""


class Decoder:
    """The images of an open record.

    Parameters
    ----------
    record : Record
    convert_units : bool
        False: take the numbers as they are.

    Raises
    ------
    FormatError, UnitError
    SectionNotFoundError
        The record has neither a trajectory nor a frame.
    """

    def __init__(self, record: Record, *, convert_units: bool = True) -> None:
        self._path = record.path
        meta = record.meta
        self._reader = record.get("trajectory")
        self._frame = None if self._reader is not None else record.frame
        schema = SequenceSchema() if self._reader is None else self._reader.schema
        self._places = Places.of(schema, meta)
        dtypes = self._places.host_dtypes
        stored = Units.from_meta(meta, host=ASE, convert=convert_units, stacklevel=5)
        self._conversion = stored.conversion(ASE)
        self._factors = result_factors(self._conversion)
        self._to_momentum = self._conversion.velocity / units.fs
        system = record.get("system")
        fixed = system.get("atoms") if system is not None else None
        self._fixed = None if fixed is None else part_of(fixed, "system/atoms", dtypes)
        self._aligned = [name for name, block in schema.blocks.items() if block.aligned_with == "atoms"]
        self._updates: dict[str, Updates] = {}
        if self._reader is not None:
            arrays = (*self._places.arrays.values(), *self._places.result_arrays.values())
            wanted = {
                "atoms",
                "velocities",
                "forces",
                "ase",
                *self._aligned,
                *(place.block for place in arrays),
            }
            self._updates = {
                name: Updates(self._reader, name, dtypes) for name in schema.blocks if name in wanted
            }
        keys = (
            self._reader.meta_keys
            if self._reader is not None
            else tuple(self._frame.meta if self._frame else ())
        )
        self._alone = False
        self._memory = Arena()
        self._unpinned = [key for key in keys if key not in schema.meta]
        self._cell_of: tuple[Box | None, bytes] | None = None
        self._cell: tuple[Array, Array, Array] = (np.zeros((3, 3)), np.zeros(3, bool), np.zeros((3, 1)))

    def __len__(self) -> int:
        """Return the number of images."""
        return 1 if self._reader is None else len(self._reader)

    def images(self, ordinals: Sequence[int]) -> Iterator[Atoms]:
        """Yield the images `ordinals`, none of them negative."""
        if self._reader is None:
            assert self._frame is not None
            parts = {name: part_of(block, f"frame/{name}", {}) for name, block in self._frame.items()}
            for _ in ordinals:
                yield self._image(self._frame, parts)
            return
        at, size = 0, 1
        while at < len(ordinals):
            run = ordinals[at : at + size]
            self._alone = len(run) == 1
            for updates in self._updates.values():
                updates.load(run, self._memory)
            images, failure = self._run(run)
            atoms = sum(map(len, images))
            yield from images
            if failure is not None:
                raise failure
            at += len(run)
            large = atoms >= _LARGE * len(run)
            if large:
                self._memory.open()
            size = (
                1
                if large
                else min(size * _GROWTH, _LONGEST_RUN, max(1, _RUN_ATOMS * len(run) // max(atoms, 1)))
            )
        self._memory.close()

    def _run(self, run: Sequence[int]) -> tuple[list[Atoms], Exception | None]:
        """Return the images of a run, and what stopped it."""
        images: list[Atoms] = []
        try:
            with nullcontext() if self._alone else _uncollected():
                for ordinal in run:
                    images.append(self._at(ordinal))  # noqa: PERF401 - those before a failure count
        except Exception as error:  # noqa: BLE001 - raised when the images before it are handed out
            return images, error
        return images, None

    def _at(self, ordinal: int) -> Atoms:
        assert self._reader is not None
        parts = {}
        for name, updates in self._updates.items():
            part = updates.at(ordinal)
            if part is not None:
                parts[name] = part
        lead = parts.get("atoms")
        if lead is not None and any(
            name in parts and parts[name].count != lead.count for name in self._aligned
        ):
            # The reader refuses the frame, and says where it is broken.
            self._reader.frame(ordinal)
        return self._image(self._reader.frame(ordinal, ()), parts)

    # -- one image

    def _image(self, frame: Frame, parts: dict[str, Part]) -> Atoms:
        document = frame.meta.get("info")
        info = FrameInfo() if document is None else FrameInfo.from_json(document)
        columns, count = self._joined(parts)
        positions = columns.get("positions")
        if positions is None:
            raise SectionNotFoundError("the image has no x, y and z", loc=f"{self._path}: atoms")
        length = self._conversion.length
        arrays: dict[str, Array] = {
            "numbers": self._numbers(columns, count),
            "positions": self._vectors(positions, parts, "atoms", "positions", length),
        }
        self._put_columns(arrays, columns, info)
        if self._places.arrays:
            self._put_arrays(arrays, parts, count)
        if info.arrays:
            arrays.update(info.arrays)
        self._put_momenta(arrays, columns, parts, count)
        cell, pbc, corner = self._geometry(frame, info)
        atoms = make_atoms(arrays, cell.copy(), pbc.copy(), corner.copy(), self._info(frame, info))
        constraints = self._constraints(parts, columns, info)
        if constraints:
            atoms.set_constraint(constraints)
        results = self._results(frame, parts, columns, info, count)
        if results:
            name = info.own.get("$calculator", self._places.calculator)
            atoms.calc = make_calculator(atoms, results, name, self._memory)
        return atoms

    def _vectors(
        self, given: Column, parts: Mapping[str, Part], block: str, name: str, factor: float
    ) -> Array:
        """Return vectors that belong to the image alone."""
        if factor != 1.0:
            return given.values * factor
        part = parts.get(block)
        own = self._alone and part is not None and part.columns.get(name) is given
        return given.values if own else given.values.copy()

    def _joined(self, parts: Mapping[str, Part]) -> tuple[Columns, int]:
        """Join all columns that describe the atoms, row by row; a later block wins a shared name."""
        lead = parts.get("atoms", self._fixed)
        if lead is None:
            return {}, 0
        columns: Columns = {}
        for part in (self._fixed, *(parts.get(name) for name in self._aligned), parts.get("atoms")):
            if part is not None and part.count == lead.count:
                columns |= part.columns
        return columns, lead.count

    def _numbers(self, columns: Columns, count: int) -> Array:
        known = columns.get("atomic_number")
        if known is not None and known.validity is None:
            return self._memory.copy(known.values, np.int64)
        symbols = columns.get("element")
        if symbols is not None:
            return element_numbers(restore(symbols.values, symbols.validity)).astype(np.int64)
        if known is not None:
            valid = True if known.validity is None else known.validity
            return np.where(valid, known.values, 0).astype(np.int64)
        if count:
            warnings.warn(
                f"{self._path}: the record names no elements; its atoms are 'X'",
                UnknownElementsWarning,
                stacklevel=2,
            )
        return np.zeros(count, np.int64)

    def _put_columns(self, arrays: dict[str, Array], columns: Columns, info: FrameInfo) -> None:
        """Add what the record keeps as columns beside elements and vectors."""
        mass = columns.get("mass")
        if mass is not None and info.own.get("$masses_set", self._places.masses_set):
            self._put_column(arrays, "masses", mass, self._conversion.mass)
        for name, column in columns.items():
            if name not in _HANDLED:
                factor = self._conversion.charge if name == "charge" else 1.0
                self._put_column(arrays, _ARRAYS.get(name) or host_name(name) or name, column, factor)

    @staticmethod
    def _put_column(arrays: dict[str, Array], name: str, column: Column, factor: float) -> None:
        if not len(column.values) or (column.validity is not None and not column.validity.any()):
            return
        values = restore(column.values, column.validity, column.host_dtype)
        if factor != 1.0:
            values = values * factor
        arrays[name] = values.copy() if values is column.values else values

    def _put_arrays(self, arrays: dict[str, Array], parts: Mapping[str, Part], count: int) -> None:
        for name, place in self._places.arrays.items():
            part = parts.get(place.block)
            if part is not None and part.count == count and count:
                self._put_column(arrays, name, part.columns["value"], 1.0)

    def _put_momenta(
        self, arrays: dict[str, Array], columns: Columns, parts: Mapping[str, Part], count: int
    ) -> None:
        own = parts.get("velocities")
        given = (
            own.columns["velocities"] if own is not None and own.count == count else columns.get("velocities")
        )
        if given is None or not count or "momenta" in arrays:
            return
        if "masses" in arrays:
            masses = arrays["masses"]
        elif "mass" in columns:
            masses = columns["mass"].values * self._conversion.mass
        else:
            masses = atomic_masses[arrays["numbers"]]
        arrays["momenta"] = given.values * self._to_momentum * masses[:, None]

    def _constraints(self, parts: Mapping[str, Part], columns: Columns, info: FrameInfo) -> list[Any]:
        text = info.own.get("$constraints")
        part = parts.get("ase")
        if text is None and part is not None and part.count:
            text = part.columns["constraints"].values[0]
        if text is not None:
            return read_constraints(text, self._path)
        free = columns.get("free")
        if free is None or "ase" in self._places.schema.blocks:
            return []
        fixed = ~free.values if free.validity is None else ~free.values & free.validity
        return [FixAtoms(mask=fixed)] if fixed.any() else []

    def _info(self, frame: Frame, info: FrameInfo) -> dict[Any, Any]:
        meta = frame.meta
        values: dict[Any, Any] = {}
        for name, place in self._places.info.items():
            if place.key not in info.missing:
                values[name] = _given(meta[place.key], place.host_dtype)
        for key, quantity in _CANONICAL.items():
            if key in meta and key not in info.missing:
                values[key] = meta[key] * (getattr(self._conversion, quantity) if quantity else 1.0)
        for key in self._unpinned:
            name_or_none = host_name(key, "meta")
            if name_or_none is not None:
                values[name_or_none] = _given(meta[key], None)
        if info.values:
            values.update(info.values)
        for key, number, setting in info.own.get("$spacegroups", ()):
            values[key] = Spacegroup(number, setting)
        return values

    def _results(
        self, frame: Frame, parts: Mapping[str, Part], columns: Columns, info: FrameInfo, count: int
    ) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for name, place in self._places.results.items():
            if place.key not in info.missing:
                results[name] = _given(frame.meta[place.key], place.host_dtype)
        own = parts.get("forces")
        forces = own.columns["forces"] if own is not None and own.count == count else columns.get("forces")
        if forces is not None and count:
            results["forces"] = self._vectors(forces, parts, "forces", "forces", 1.0)
        for name, home in self._places.result_arrays.items():
            part = parts.get(home.block)
            if part is not None and part.count == count and count:
                self._put_column(results, name, part.columns["value"], 1.0)
        for key, value in info.own.items():
            if key.startswith("calc."):
                results[key.removeprefix("calc.")] = value
            elif key in _RESULTS:
                results[_RESULTS[key]] = value
        for name, factor in self._factors.items():
            if name in results:
                results[name] = results[name] * factor
        return results

    def _geometry(self, frame: Frame, info: FrameInfo) -> tuple[Array, Array, Array]:
        """Return cell (rows), pbc and celldisp; a cell that stays is converted once."""
        meta = frame.meta
        plain = not info.own or not any(key in info.own for key in _OWN_CELL)
        if plain:
            box = frame.box if meta.get("has_cell", True) else None
            zero = meta.get("zero_vectors")
            key = (box, b"" if zero is None else zero.tobytes())
            if self._cell_of is not None and self._cell_of[0] is box and self._cell_of[1] == key[1]:
                return self._cell
            self._cell_of = key
        else:
            self._cell_of = None
        found = load_cell(frame, info)
        length = self._conversion.length
        cell = np.zeros((3, 3))
        if found.vectors is not None:
            cell = np.ascontiguousarray(found.vectors.T, dtype=np.float64) * length
        elif found.lengths_angles is not None:
            cell = Cell.new(
                np.asarray(found.lengths_angles, dtype=np.float64) * [*[length] * 3, 1.0, 1.0, 1.0]
            ).array
        corner = np.asarray(
            info.own.get("$celldisp", (found.origin * length).reshape(3, 1)), dtype=np.float64
        )
        self._cell = cell, np.asarray(found.boundary, dtype=bool), corner
        return self._cell


@contextmanager
def _uncollected() -> Iterator[None]:
    """Put off garbage collection: all that a run of images is made of is alive, and looking takes as long as making it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _given(value: Any, host_dtype: str | None) -> Any:
    if host_dtype is not None:
        value = restore_scalar(value, host_dtype)
    return value.copy() if isinstance(value, np.ndarray) else value
