"""Names and dtypes of a host's arrays in a record, and back (sections 1 and "Dtypes" of the host mapping)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from molrec_core._dtypes import (
    CANONICAL,
    CANONICAL_META,
    COLUMN_DTYPES,
    RESERVED_BLOCKS,
    RESERVED_COLUMNS,
    STRING,
    as_column,
    name_problem,
    tag_of,
)
from molrec_core._frame import Block
from molrec_core._names import decode_name, encode_name
from molrec_core.errors import FormatError, SchemaError

Array = np.ndarray[Any, Any]
Kind = Literal["column", "meta"]

PREFIX = "host."
_OWNED_PREFIXES = (PREFIX, "array.", "calc.", "$")
_OWNED: Mapping[Kind, frozenset[str]] = {
    "column": RESERVED_COLUMNS
    | CANONICAL.keys()
    | {"residue", "segment", "label", "res_seq", "seg_id", "value", "order", "order_label", "guessed"}
    | {"tag", "initial_magmom", "calc_charges", "calc_magmoms", "calc_stresses", "calc_energies"},
    "meta": CANONICAL_META
    | RESERVED_BLOCKS
    | {"has_cell", "zero_vectors", "source_step", "info", "cell", "pbc", "origin"}
    | {"free_energy", "magmom", "dipole", "stress"},
}


def store_name(name: str, kind: Kind = "column") -> str:
    """Return the name under which a host's own array (``column``) or key (``meta``) is stored.

    Itself, or ``host.`` + its safe name where the format refuses it or where it already
    means something: a canonical key, a name of the layout, or one of the host mapping.

    Raises
    ------
    TypeError
        `name` is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name {name!r} is not a string")
    # A backslash cannot be packed: it is no part of a zip member's name (checklist Z03).
    if name_problem(name) is None and "\\" not in name and host_name(name, kind) == name:
        return name
    # An empty text has no safe name, and the bare prefix names nothing else.
    return PREFIX + (encode_name(name) if name else "")


def host_name(stored: str, kind: Kind = "column") -> str | None:
    """Return the host's name of a stored column or meta key; None where it is not a host's own."""
    if stored.startswith(PREFIX):
        encoded = stored.removeprefix(PREFIX)
        try:
            return decode_name(encoded) if encoded else ""
        except FormatError:
            # Another tool's name that merely begins alike.
            return stored
    if stored in _OWNED[kind] or stored.startswith(_OWNED_PREFIXES):
        return None
    return stored


def array_block(name: str) -> str:
    """Return the block of a per-atom array that some frames lack: ``array.<name>``."""
    plain = (
        name and name_problem(f"array.{name}") is None and "\\" not in name and not name.startswith(PREFIX)
    )
    return f"array.{name}" if plain else f"array.{PREFIX}{encode_name(name) if name else ''}"


def array_name(block: str) -> str | None:
    """Return the host's array name of a block ``array.<name>``; None for any other block."""
    if not block.startswith("array."):
        return None
    name = block.removeprefix("array.")
    return host_name(name) if name.startswith(PREFIX) else name


@dataclass(frozen=True, slots=True)
class HostColumn:
    """A host's array as a column.

    Attributes
    ----------
    values : (n,) + trailing array of a column dtype
    validity : (n,) bool array or None
        False where the host had None; None when it nowhere had.
    host_dtype : str or None
        What to restore (``<f4``, ``<U4``, ``|O``); None when `values` have the host's dtype.
    """

    values: Array
    validity: Array | None
    host_dtype: str | None


def to_column(values: object, name: str) -> HostColumn:
    """Return a host's array in the narrowest column dtype that holds its dtype exactly.

    Parameters
    ----------
    values : array_like of bool, integers, floats up to 64 bits, complex or strings
        An object array may hold str and None; None becomes a null row.
    name : str
        Named by an error.

    Raises
    ------
    TypeError
        bytes, datetimes, extended floats, other objects, or None within a row; nothing
        of it can be stored exactly.
    """
    array = values if isinstance(values, np.ndarray) else _from_list(values)
    if array.ndim == 0:
        raise TypeError(f"{name}: a single value where one per row is expected")
    if array.dtype.kind in "OUT":
        return _string_column(array, name)
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        return HostColumn(array.astype(np.float64), None, array.dtype.str)
    try:
        column = as_column(array, name)
    except SchemaError:
        raise TypeError(f"{name}: values of dtype {array.dtype} have no exact place in a record") from None
    return HostColumn(column, None, None if column.dtype == array.dtype else array.dtype.str)


def _from_list(values: object) -> Array:
    array = np.asarray(values)
    # numpy turns a list that mixes strings with numbers or None into strings or objects.
    return np.array(values, dtype=object) if array.dtype.kind == "U" else array


def _string_column(array: Array, name: str) -> HostColumn:
    items = array.astype(object)
    flat = items.reshape(-1).tolist()
    for item in flat:
        if item is not None and not isinstance(item, str):
            raise TypeError(
                f"{name}: an object array holds a {type(item).__name__}; strings and None are what a record stores"
            )
    host_dtype = None if array.dtype == STRING else "|O" if array.dtype.kind == "T" else array.dtype.str
    null = np.array([item is None for item in flat], dtype=bool).reshape(array.shape)
    if not null.any():
        return HostColumn(_strings(items, name), None, host_dtype)
    rows = null.reshape(len(null), -1)
    if (rows.any(axis=1) != rows.all(axis=1)).any():
        raise TypeError(f"{name}: None stands within a row; only whole rows can be null")
    return HostColumn(_strings(np.where(null, "", items), name), ~rows.any(axis=1), host_dtype)


def _strings(items: Array, name: str) -> Array:
    if not all(map(_is_text, items.reshape(-1))):
        raise TypeError(f"{name}: a string holds a lone surrogate, which is not UTF-8")
    return as_column(items, name)


def to_canonical(key: str, values: object) -> HostColumn | None:
    """Return a host's values in the dtype of canonical `key`; None when that cannot hold them exactly.

    Negative or fractional ids, numbers as a ``type``, trailing axes are such: they go
    whole to ``host.<key>``, and the canonical column is left out.

    Raises
    ------
    TypeError
        As :func:`to_column`.
    """
    column = to_column(values, key)
    want = COLUMN_DTYPES[CANONICAL[key]][0]
    if column.values.ndim != 1:
        return None
    if column.values.dtype == want:
        return column
    found, target = column.values.dtype.kind, want.kind
    if target == "T" or found not in "iu" or target not in "iuf":
        return None
    cast = column.values.astype(want)
    if not np.array_equal(cast.astype(object), column.values.astype(object)):
        return None
    return HostColumn(cast, None, column.host_dtype or column.values.dtype.str)


def restore(values: Array, validity: Array | None = None, host_dtype: str | None = None) -> Array:
    """Return a stored column as the host's array.

    Parameters
    ----------
    values : (n,) + trailing array of a column dtype
    validity : (n,) bool array, optional
    host_dtype : str, optional
        What ``meta.host_dtypes`` remembers. Without it strings come back as ``<U``, or
        as objects where a row is null.

    Returns
    -------
    array
        Null rows are None in strings, NaN in floats, None in an object array of anything
        else. Values that the remembered dtype no longer holds keep the stored dtype.
    """
    null = None if validity is None or validity.all() else ~validity
    if values.dtype.kind == "T":
        items = values.astype(object)
        if null is not None:
            items[null] = None
        if null is not None or (host_dtype or "").endswith("O"):
            return items
        text = items.astype(np.str_) if items.size else np.empty(items.shape, dtype="<U1")
        dtype = _known(host_dtype)
        fits = dtype is not None and dtype.kind == "U" and dtype.itemsize >= text.dtype.itemsize
        fits = fits or (dtype is not None and dtype.kind == "U" and not items.size)
        return text.astype(dtype) if fits else text
    if null is not None:
        items = values.astype(np.float64 if values.dtype.kind == "f" else object)
        items[null] = np.nan if values.dtype.kind == "f" else None
        return items
    dtype = _known(host_dtype)
    if dtype is None or dtype.kind not in "biufc" or dtype == values.dtype:
        return values
    if values.dtype.kind == "f" and dtype.kind == "f":
        return values.astype(dtype)
    with np.errstate(all="ignore"):
        cast = values.astype(dtype)
        back = cast.astype(values.dtype)
    # An appended value may exceed what the first writer's dtype held, and sign counts.
    exact = np.array_equal(back, values) and np.array_equal(cast < 0, values < 0)
    return cast if exact or dtype.kind == "c" else values


def _known(host_dtype: str | None) -> np.dtype[Any] | None:
    if not isinstance(host_dtype, str):
        return None
    try:
        return np.dtype(host_dtype)
    except TypeError:
        return None


@dataclass(frozen=True, slots=True)
class HostScalar:
    """A host's per-frame value as a meta value: its tag, itself, and the numpy dtype to give back."""

    tag: str
    value: Any
    host_dtype: str | None


def to_scalar(value: object) -> HostScalar | None:
    """Return a per-frame value under a meta tag; None when only ``info`` can hold it exactly.

    Python bool, int (of 64 bits), float, str, numpy scalars, and numpy arrays whose
    shape a tag has (3, 6 or 9 numbers, 3 flags) have tags; lists, None and mappings have none.
    """
    if type(value) in (bool, float, str):
        return HostScalar(tag_of(value, ""), value, None) if _is_text(value) else None
    if type(value) is int:
        return HostScalar("i64", value, None) if -(2**63) <= value < 2**63 else None
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "biufU":
        return None
    if isinstance(value, np.ndarray) and (value.ndim != 1 or value.dtype.kind == "U"):
        return None
    stored: Any = value.item() if isinstance(value, np.str_) else value
    if isinstance(stored, str):
        return HostScalar("string", stored, value.dtype.str) if _is_text(stored) else None
    if value.dtype.kind == "f" and value.dtype.itemsize < 8:
        stored = value.astype(np.float64)
    elif value.dtype.kind in "iu" and value.dtype.itemsize < 4:
        stored = value.astype(np.int32 if value.dtype.kind == "i" else np.uint32)
    try:
        tag = tag_of(stored, "")
    except SchemaError:
        return None
    if isinstance(value, np.generic):
        return HostScalar(tag, stored.item(), value.dtype.str)
    native = COLUMN_DTYPES[{"b": "bool", "f": "f64"}.get(value.dtype.kind, tag.split("x")[0])][0]
    return HostScalar(tag, stored.astype(native), None if native == value.dtype else value.dtype.str)


def _is_text(value: object) -> bool:
    """Whether `value` is no string, or one that UTF-8 can spell."""
    try:
        return not isinstance(value, str) or value.encode("utf-8") is not None
    except UnicodeEncodeError:
        return False


def restore_scalar(value: Any, host_dtype: str | None = None) -> Any:
    """Return a stored meta value as the host's: a Python value, or of the remembered numpy dtype."""
    dtype = _known(host_dtype)
    if dtype is None:
        return value
    if isinstance(value, np.ndarray):
        return restore(value, None, host_dtype)
    if dtype.kind == "U":
        return np.str_(value)
    try:
        cast = dtype.type(value)
    except (OverflowError, ValueError, TypeError):
        return value
    return cast if dtype.kind == "f" or cast == value else value


class Columns(Mapping[str, Array]):
    """The columns of one block in the making; host dtypes are noted as they come.

    Parameters
    ----------
    path : str
        Place of the block in the record: ``system/atoms``, ``trajectory/identity``.
    host_dtypes : dict of str to str, optional
        Filled in place with ``<path>/<column>`` -> dtype; goes to ``meta.host_dtypes``.
    """

    def __init__(self, path: str, host_dtypes: dict[str, str] | None = None) -> None:
        self.path = path
        self.host_dtypes = {} if host_dtypes is None else host_dtypes
        self.validity: dict[str, Array] = {}
        self._columns: dict[str, Array] = {}

    def put(self, name: str, values: object) -> str:
        """Add a column the host mapping names; returns the name it got.

        That is ``host.<name>`` when `name` is canonical and cannot hold the values exactly.

        Raises
        ------
        TypeError
            As :func:`to_column`.
        """
        column = to_canonical(name, values) if name in CANONICAL else to_column(values, name)
        if column is None:
            return self._add(PREFIX + encode_name(name), to_column(values, name))
        return self._add(name, column)

    def put_host(self, name: str, values: object) -> str:
        """Add a host's own array under its stored name (:func:`store_name`); returns that name.

        Raises
        ------
        TypeError
            As :func:`to_column`.
        """
        return self._add(store_name(name), to_column(values, name))

    def _add(self, name: str, column: HostColumn) -> str:
        self._columns[name] = column.values
        if column.validity is not None:
            self.validity[name] = column.validity
        if column.host_dtype is not None:
            self.host_dtypes[f"{self.path}/{name}"] = column.host_dtype
        return name

    def block(self, *, count: int | None = None, targets: Mapping[str, str] | None = None) -> Block:
        """Return the block.

        Raises
        ------
        SchemaError
            Columns of different lengths.
        """
        return Block(self._columns, validity=self.validity, targets=targets, count=count)

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
