"""Where the parts of an image stand in a record: declared from images, derived from a pin.

Section 6 of the host mapping. A pin is fixed at the first frame, so everything is
declared before it is needed; what a later image has beyond it goes to that frame's
``info``. Encoder and decoder both ask the :class:`Places` of the pin, so that they
cannot disagree, and appending needs nothing but what is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ase import Atoms
from ase.constraints import FixAtoms

from molrec_ase._results import calculator_name, current_results
from molrec_core import SequenceSchema
from molrec_core.hosts import (
    POSITIONS,
    HostScalar,
    array_block,
    array_name,
    declare_array,
    declare_shared,
    host_dtypes_of,
    host_name,
    own_array,
    store_name,
    to_column,
    to_scalar,
)
from molrec_core.units import ASE

Array = np.ndarray[Any, Any]

IDENTITY = {"masses": "mass", "tags": "tag", "initial_charges": "charge", "initial_magmoms": "initial_magmom"}
"""ASE's per-atom arrays that have a column of ``identity``."""
_IDENTITY_DTYPES = {"mass": "f64", "tag": "i64", "charge": "f64", "initial_magmom": "f64"}

RESULT_KEYS = {
    "energy": "pe",
    "free_energy": "free_energy",
    "magmom": "magmom",
    "dipole": "dipole",
    "stress": "stress",
}
_RESULT_TAGS = {"pe": "f64", "free_energy": "f64", "magmom": "f64", "dipole": "f64x3", "stress": "f64x6"}
RESULT_ARRAYS = {name: f"calc_{name}" for name in ("charges", "magmoms", "stresses", "energies")}
_FILLS = {"f": np.nan, "s": "", "b": False, "i": 0, "u": 0}
_PLAIN = {float: "f64", int: "i64", bool: "bool"}


@dataclass(frozen=True, slots=True)
class ScalarPlace:
    """A per-step meta key: its tag, and the host dtype that is given back."""

    key: str
    tag: str
    host_dtype: str | None

    def hold(self, value: object) -> HostScalar | None:
        """Return `value` as the key holds it; None where it would not come back exactly."""
        if self.host_dtype is None and _PLAIN.get(type(value)) == self.tag and type(value) is not int:
            return HostScalar(self.tag, value, None)
        found = to_scalar(value)
        same = found is not None and found.tag == self.tag and found.host_dtype == self.host_dtype
        return found if same else None


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """A column of per-atom values: dtype, trailing shape, and the host dtype that is given back."""

    block: str
    column: str
    dtype: np.dtype[Any]
    trailing: tuple[int, ...]
    host_dtype: str | None

    def hold(self, values: object, count: int) -> Array | None:
        """Return `values` as the column holds them; None where they would not come back exactly."""
        if (
            not isinstance(values, np.ndarray)
            or values.shape != (count, *self.trailing)
            or values.dtype.kind == "T"
        ):
            return None
        if values.dtype == self.dtype and self.host_dtype is None:
            return values
        found = to_column(values, self.column)
        if found.values.dtype != self.dtype or found.validity is not None:
            return None
        return found.values if string_dtype(values, found.host_dtype) == self.host_dtype else None


def string_dtype(values: Array, host_dtype: str | None) -> str | None:
    """Return what to remember of an array's dtype: nothing where strings are as wide as the longest."""
    if values.dtype.kind != "U" or not values.size:
        return host_dtype
    widest = max(1, int(np.strings.str_len(values).max()))
    return None if values.dtype == np.dtype(f"=U{widest}") else host_dtype


def is_result_array(name: str) -> bool:
    """Whether ``array.<name>`` is a calculator's: a user's array of that name goes to ``info``."""
    return name in RESULT_ARRAYS.values() or name.startswith("calc.")


@dataclass(slots=True)
class Places:
    """What a pin has a place for.

    Attributes
    ----------
    identity : dict of str to ArrayPlace
        By name of the array of Atoms; empty where another tool keeps identity elsewhere.
    arrays, result_arrays : dict of str to ArrayPlace
        By name of the array of Atoms, of the calculator's result.
    info, results : dict of str to ScalarPlace
        By key of ``atoms.info``, by name of the calculator's result.
    """

    schema: SequenceSchema
    host_dtypes: dict[str, str]
    masses_set: bool
    calculator: str | None
    identity: dict[str, ArrayPlace] = field(default_factory=dict)
    arrays: dict[str, ArrayPlace] = field(default_factory=dict)
    result_arrays: dict[str, ArrayPlace] = field(default_factory=dict)
    info: dict[str, ScalarPlace] = field(default_factory=dict)
    results: dict[str, ScalarPlace] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: SequenceSchema, meta: Mapping[str, Any]) -> Places:
        """Derive the places from a pin and the record's ``meta`` document."""
        ours = meta.get("ase")
        # Masses that another tool wrote are set.
        ours = ours if isinstance(ours, dict) else {"masses_set": True}
        places = cls(schema, host_dtypes_of(meta), ours.get("masses_set") is True, ours.get("calculator"))
        columns = schema.blocks["identity"].columns if "identity" in schema.blocks else {}
        for name, column in IDENTITY.items():
            if column in columns:
                places.identity[name] = places._array("identity", column)
        for block, spec in schema.blocks.items():
            array = array_name(block)
            if array is not None and list(spec.columns) == ["value"]:
                places._add_array(array, block)
        for key, tag in ((key, spec.tag) for key, spec in schema.meta.items()):
            places._add_key(key, tag)
        return places

    def _array(self, block: str, column: str) -> ArrayPlace:
        spec = self.schema.blocks[block].columns[column]
        dtype = own_array(_lone(spec.dtype), "x", None)["value"].dtype
        return ArrayPlace(
            block, column, dtype, spec.trailing, self.host_dtypes.get(f"trajectory/{block}/{column}")
        )

    def _add_array(self, name: str, block: str) -> None:
        place = self._array(block, "value")
        if name.startswith("calc."):
            self.result_arrays[name.removeprefix("calc.")] = place
        elif name in RESULT_ARRAYS.values():
            self.result_arrays[name.removeprefix("calc_")] = place
        else:
            self.arrays[name] = place

    def _add_key(self, key: str, tag: str) -> None:
        place = ScalarPlace(key, tag, self.host_dtypes.get(f"trajectory/meta/{key}"))
        own = {stored: name for name, stored in RESULT_KEYS.items()}
        if key in own:
            self.results[own[key]] = place
        elif key.startswith("calc."):
            self.results[key.removeprefix("calc.")] = place
        elif (name := host_name(key, "meta")) is not None:
            self.info[name] = place


def _lone(dtype: str) -> SequenceSchema:
    """Return a schema of one array, which knows the numpy dtype of a column dtype."""
    return SequenceSchema().declare_column("array.x", "value", dtype)


class Survey:
    """What images have, gathered to declare a pin that holds them.

    Parameters
    ----------
    complete : bool
        Whether every image of the record will have been seen. Where not, what any image
        of ASE may have next is declared as well.
    """

    def __init__(self, *, complete: bool) -> None:
        self.complete = complete
        self.rows = 0
        self.images = 0
        self.arrays: dict[str, Array] = {}
        self.result_arrays: dict[str, Array] = {}
        self.info: dict[str, HostScalar | None] = {}
        self.results: dict[str, HostScalar | None] = {}
        self.constraints = self.fixed = False
        self.masses_set = False
        self.calculator: str | None = None
        self._seen: set[Any] = set()

    def add(self, atoms: Atoms) -> None:
        """Note one image."""
        count = len(atoms)
        self.rows = max(self.rows, count)
        self.images += 1
        if count:
            for name, values in atoms.arrays.items():
                if name not in self.arrays:
                    self.arrays[name] = values
        if atoms.constraints:
            self.constraints = True
            self.fixed = self.fixed or any(isinstance(c, FixAtoms) for c in atoms.constraints)
        for key, value in atoms.info.items():
            self._note(self.info, key, value)
        # Whether they still hold for the atoms is asked when they are written.
        results = getattr(atoms.calc, "results", None)
        if not isinstance(results, dict):
            results = current_results(atoms)
        if results and self.calculator is None:
            self.calculator = calculator_name(atoms)
        for name, value in results.items():
            if isinstance(value, np.ndarray) and name not in RESULT_KEYS:
                if count and value.shape[:1] == (count,) and name not in self.result_arrays:
                    self.result_arrays[name] = value
            elif name in RESULT_KEYS:
                self._note_standard(name, value)
            else:
                self._note(self.results, name, value)

    def _note_standard(self, name: str, value: object) -> None:
        """Keep the first value of a standard result that is of its own tag."""
        if self.results.get(name) is None:
            found = to_scalar(value)
            if found is not None and found.tag == _RESULT_TAGS[RESULT_KEYS[name]]:
                self.results[name] = found

    def _note(self, noted: dict[str, HostScalar | None], key: Any, value: object) -> None:
        """Keep the tag of a key while every image agrees on it."""
        kind = type(value)
        known = noted.get(key, value)
        if known is None or type(key) is not str:
            return
        if (
            kind in _PLAIN
            and isinstance(known, HostScalar)
            and known.host_dtype is None
            and kind is type(known.value)
        ):
            return
        found = to_scalar(value)
        agreed = known is value or (
            isinstance(known, HostScalar)
            and found is not None
            and (found.tag, found.host_dtype) == (known.tag, known.host_dtype)
        )
        noted[key] = found if agreed else None

    def declare(self) -> tuple[SequenceSchema, dict[str, Any]]:
        """Return the pin and the record's ``meta`` document."""
        schema = SequenceSchema()
        host_dtypes: dict[str, str] = {}
        forces = not self.complete or "forces" in self.result_arrays
        momenta = not self.complete or "momenta" in self.arrays
        schema.declare_block("atoms", dict.fromkeys(POSITIONS, "f64"))
        self._declare_identity(schema, momenta=momenta)
        declare_shared(schema, velocities=momenta, forces=forces)
        if momenta:
            schema.declare_column(array_block("momenta"), "value", "f64", (3,))
        if self.constraints or not self.complete:
            schema.declare_block("ase", {"constraints": "string"})
        self._declare_arrays(schema, host_dtypes)
        self._declare_keys(schema, host_dtypes)
        schema.frame_rows = dict.fromkeys(schema.blocks, self.rows) | (
            {"ase": 1} if "ase" in schema.blocks else {}
        )
        ours: dict[str, Any] = {"masses_set": "masses" in self.arrays}
        if self.calculator is not None:
            ours["calculator"] = self.calculator
        meta: dict[str, Any] = {"units": ASE.to_meta(), "ase": ours}
        if host_dtypes:
            meta["host_dtypes"] = host_dtypes
        return schema, meta

    def _declare_identity(self, schema: SequenceSchema, *, momenta: bool) -> None:
        schema.declare_block("identity", {"atomic_number": "u64", "element": "string"})
        for name, column in IDENTITY.items():
            values = self.arrays.get(name)
            trailing = values.shape[1:] if values is not None and column == "initial_magmom" else ()
            if values is not None or (column == "mass" and momenta):
                schema.declare_column("identity", column, _IDENTITY_DTYPES[column], trailing, nullable=True)
        if self.fixed:
            schema.declare_column("identity", "free", "bool", nullable=True)
        schema.declare_aligned("identity", "atoms")

    def _declare_arrays(self, schema: SequenceSchema, host_dtypes: dict[str, str]) -> None:
        for name, values in self.arrays.items():
            if name not in {"numbers", "positions", "momenta", *IDENTITY} and not is_result_array(name):
                _declare_array(schema, name, values, host_dtypes)
        for name, values in self.result_arrays.items():
            if name != "forces" and self.results.get(name) is None:
                _declare_array(schema, RESULT_ARRAYS.get(name, f"calc.{name}"), values, host_dtypes)

    def _declare_keys(self, schema: SequenceSchema, host_dtypes: dict[str, str]) -> None:
        keys: list[tuple[str, HostScalar | None, Callable[[str], str]]] = [
            *((key, found, _info_key) for key, found in self.info.items()),
            *((key, found, _result_key) for key, found in self.results.items()),
        ]
        for name, found, stored in keys:
            if found is None:
                continue
            key = stored(name)
            if any(c in key for c in "/\\\0"):
                continue
            schema.declare_meta(key, found.tag, fill=_fill(found.tag))
            if found.host_dtype is not None:
                host_dtypes[f"trajectory/meta/{key}"] = found.host_dtype


def _info_key(name: str) -> str:
    return store_name(name, "meta")


def _result_key(name: str) -> str:
    return RESULT_KEYS.get(name, f"calc.{name}")


def _fill(tag: str) -> Any:
    element, _, width = tag.partition("x")
    fill = _FILLS[element[0]]
    width = width or (element[-1] if element == "bool3" else "")
    return [fill] * int(width) if width else fill


def _declare_array(schema: SequenceSchema, name: str, values: Array, host_dtypes: dict[str, str]) -> None:
    if 0 in values.shape or values.dtype.kind == "T":
        return
    column = to_column(values, name)
    block = declare_array(schema, name, column, nullable=False)
    remembered = string_dtype(values, column.host_dtype)
    if remembered is not None:
        host_dtypes[f"trajectory/{block}/value"] = remembered


def survey(images: Iterable[Atoms], *, complete: bool) -> tuple[SequenceSchema, dict[str, Any]]:
    """Declare the pin of `images` and return it with the record's ``meta`` document."""
    found = Survey(complete=complete)
    for atoms in images:
        found.add(atoms)
    return found.declare()
