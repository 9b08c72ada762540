"""Column dtypes, meta tags, canonical keys and names: pure tables and the checks over them.

Tables TB3 to TB5 of the checklist and "Data types on Zarr V3" of the root-layout
chapter. The mapping column dtype <-> Zarr ``data_type`` is total and exact in both
directions; nothing is widened on read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from molrec_core.errors import FormatError, Problem, SchemaError

STRING = np.dtypes.StringDType()
"""The one in-memory string dtype; every numpy spelling of a string is cast to it."""

#: Column dtype -> (numpy dtype in memory, Zarr V3 data_type, fill value as JSON).
COLUMN_DTYPES: dict[str, tuple[np.dtype[Any], str, Any]] = {
    "f64": (np.dtype(np.float64), "float64", 0.0),
    "i8": (np.dtype(np.int8), "int8", 0),
    "i16": (np.dtype(np.int16), "int16", 0),
    "i32": (np.dtype(np.int32), "int32", 0),
    "i64": (np.dtype(np.int64), "int64", 0),
    "u8": (np.dtype(np.uint8), "uint8", 0),
    "u16": (np.dtype(np.uint16), "uint16", 0),
    "u32": (np.dtype(np.uint32), "uint32", 0),
    "u64": (np.dtype(np.uint64), "uint64", 0),
    "bool": (np.dtype(np.bool_), "bool", False),
    "string": (STRING, "string", ""),
    "c64": (np.dtype(np.complex64), "complex64", [0.0, 0.0]),
    "c128": (np.dtype(np.complex128), "complex128", [0.0, 0.0]),
}
ZARR_TO_COLUMN = {zarr: name for name, (_, zarr, _) in COLUMN_DTYPES.items()}
NUMPY_TO_COLUMN = {dtype: name for name, (dtype, _, _) in COLUMN_DTYPES.items()}
FLOATS = frozenset({"f64", "c64", "c128"})


@dataclass(frozen=True, slots=True)
class Tag:
    """One of the sixteen per-step meta tags: element dtype and width (0 for a scalar)."""

    name: str
    element: str
    width: int

    @property
    def trailing(self) -> tuple[int, ...]:
        """Trailing shape of the stored array."""
        return (self.width,) if self.width else ()


TAGS: dict[str, Tag] = {
    name: Tag(name, element, width)
    for name, element, width in [
        ("bool", "bool", 0),
        ("i32", "i32", 0),
        ("i64", "i64", 0),
        ("u32", "u32", 0),
        ("u64", "u64", 0),
        ("f64", "f64", 0),
        ("string", "string", 0),
        ("json", "string", 0),
        ("bool3", "bool", 3),
        ("i32x3", "i32", 3),
        ("i64x3", "i64", 3),
        ("u32x3", "u32", 3),
        ("u64x3", "u64", 3),
        ("f64x3", "f64", 3),
        ("f64x6", "f64", 6),
        ("f64x9", "f64", 9),
    ]
}
_TAG_OF_ARRAY = {(t.element, t.width): t.name for t in TAGS.values() if t.name != "json"}

#: Canonical column keys -> dtype; one value per row, in any block of any section (TB4).
CANONICAL: dict[str, str] = {
    key: dtype
    for dtype, keys in {
        "f64": "x y z vx vy vz fx fy fz charge mass quatw quati quatj quatk mux muy muz "
        "axis_x axis_y axis_z occupancy b_factor",
        "u64": "id atomic_number type_id mol_id res_id atomi atomj atomk atoml atomm ibead "
        "bond_type bond_number atom_map",
        "i64": "formal_charge",
        "i32": "ix iy iz",
        "bool": "free is_14 exclude_14",
        "string": "element type name res_name bead_type chain icode altloc style",
    }.items()
    for key in keys.split()
}
CANONICAL_META = frozenset({"pe", "ke", "etotal", "temp", "press", "volume"})

RESERVED_BLOCKS = frozenset({"step", "time", "meta", "box"})
RESERVED_COLUMNS = frozenset({"offset", "step_index", "_validity"})

PRECISION_MIN, PRECISION_MAX = 2.0**-1000, 2.0**1000


def quantum(precision: float) -> float:
    """Return the largest power of two not above `precision` (checklist P01)."""
    return math.ldexp(1.0, math.frexp(precision)[1] - 1)


def precision_problem(precision: object, dtype: str) -> str | None:
    """Say what is wrong with a declared precision on a column of `dtype`; None when nothing is."""
    if dtype != "f64":
        return f"a precision is declared on a {dtype} column; only f64 columns take one"
    if isinstance(precision, bool) or not isinstance(precision, int | float):
        return f"precision is {precision!r}; a number is expected"
    if not PRECISION_MIN <= precision <= PRECISION_MAX:
        return f"precision is {precision!r}; it must lie between 2**-1000 and 2**1000"
    return None


def name_problem(name: object, what: str = "name") -> str | None:
    """Say why `name` may not name a node or key of a record; None when it may (checklist F21)."""
    return _name_problem(name, what) if isinstance(name, str) else f"{what} {name!r} is not a string"


@lru_cache(maxsize=4096)
def _name_problem(name: str, what: str) -> str | None:
    if name in {"", ".", "..", "zarr.json"} or name.startswith("__"):
        return f"{what} {name!r} is not allowed (empty, '.', '..', 'zarr.json' or a leading '__')"
    if "/" in name or "\0" in name:
        return f"{what} {name!r} holds '/' or NUL"
    if not name.isascii():
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            return f"{what} {name!r} holds a lone surrogate, which is not UTF-8"
    return None


def canonical_problem(column: str, dtype: str, trailing: tuple[int, ...]) -> str | None:
    """Say how a column breaks the canonical-key table; None when it does not (checklist D10)."""
    want = CANONICAL.get(column)
    if want is None or (want == dtype and not trailing):
        return None
    shape = f" with trailing shape {list(trailing)}" if trailing else ""
    return f"canonical key {column!r} is {dtype}{shape}; it is always {want}, one value per row"


def dtype_name(dtype: np.dtype[Any]) -> str | None:
    """Return the column dtype of a numpy dtype, byte order aside; None outside the thirteen."""
    name = NUMPY_TO_COLUMN.get(dtype)
    if name is None and dtype.kind in "iufcb":
        name = NUMPY_TO_COLUMN.get(dtype.newbyteorder("="))
    if name is None and isinstance(dtype, np.dtypes.StringDType):
        return "string"
    return name


def as_column(values: object, loc: str, column: str = "") -> np.ndarray[Any, Any]:
    """Return `values` as an array of one of the thirteen column dtypes.

    Parameters
    ----------
    values : array_like
        Native or foreign byte order; any numpy spelling of strings. An unsigned
        array under a canonical u64 key is widened exactly (checklist D11).
    loc : str
        Place named by an error.
    column : str
        Name of the column, for the canonical widening.

    Raises
    ------
    SchemaError
        The dtype is none of the thirteen; float32 and float16 are never widened.
    """
    if type(values) is np.ndarray and NUMPY_TO_COLUMN.get(values.dtype, "u")[0] != "u":
        # Nothing to widen, and numpy's string dtype takes no lone surrogate.
        return values
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.size == 0 and isinstance(values, list | tuple):
        # An empty list says no dtype; the canonical key does.
        return array.astype(COLUMN_DTYPES[CANONICAL.get(column, "f64")][0])
    if array.dtype in NUMPY_TO_COLUMN and array.dtype.kind != "T":
        name = NUMPY_TO_COLUMN[array.dtype]
        if name[0] == "u" and name != "u64" and CANONICAL.get(column) == "u64":
            return array.astype(np.uint64)
        return array
    if array.dtype.kind in "UOT":
        return _as_strings(array, values, loc)
    name_or_none = dtype_name(array.dtype)
    if name_or_none is None:
        hint = "; cast to float64 first (exact)" if array.dtype.kind == "f" else ""
        raise SchemaError.one(
            loc, "dtype", f"dtype {array.dtype} is none of the column dtypes {', '.join(COLUMN_DTYPES)}{hint}"
        )
    return as_column(array.astype(array.dtype.newbyteorder("=")), loc, column)


def _as_strings(array: np.ndarray[Any, Any], values: object, loc: str) -> np.ndarray[Any, Any]:
    if array.dtype.kind == "O":
        for item in array.ravel().tolist():
            if not isinstance(item, str):
                raise SchemaError.one(
                    loc, "dtype", f"an object array holds {type(item).__name__}; only str is a column value"
                )
    elif array.dtype.kind == "U" and not isinstance(values, np.ndarray):
        # A list that mixes str with numbers becomes strings in numpy; that is never what was meant.
        return _as_strings(np.array(values, dtype=object), values, loc)
    if not array.dtype.isnative:
        # numpy before 2.5 misreads foreign byte order in the cast to its string dtype.
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        strings = array.astype(STRING)
        "".join(strings.ravel().tolist()).encode("utf-8")
    except (UnicodeEncodeError, TypeError):
        # numpy raises a TypeError where it casts fixed-width strings itself.
        raise SchemaError.one(loc, "dtype", "a string holds a lone surrogate, which is not UTF-8") from None
    return strings


def tag_of(value: object, loc: str) -> str:
    """Infer the tag of a meta value: the numpy dtype decides, Python values follow M07.

    Raises
    ------
    SchemaError
        A numpy dtype or shape that no tag holds.
    """
    if isinstance(value, np.ndarray | np.generic):
        element = "string" if value.dtype.kind in "UT" else dtype_name(value.dtype)
        width = value.size if value.ndim == 1 else 0 if value.ndim == 0 else -1
        tag = _TAG_OF_ARRAY.get((element or "", width)) if width or value.ndim == 0 else None
        if tag is None:
            raise SchemaError.one(
                loc,
                "meta_value",
                f"no meta tag holds dtype {value.dtype} of shape {value.shape}; use a column or json",
            )
        return tag
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return "i64" if value < 2**63 else "u64"
        return "f64"
    if isinstance(value, float):
        return "f64"
    return "string" if isinstance(value, str) else "json"


def refuse(loc: str, kind: str, message: str) -> FormatError:
    """Build the error of one stored value that breaks the contract."""
    return FormatError([Problem(loc, kind, message)])
