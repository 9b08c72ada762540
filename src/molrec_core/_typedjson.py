"""Typed JSON: how a value of a tag is spelled in a document, and strict JSON for documents.

Checklist groups J and M. Numbers of a document are finite; a 1.0 is told apart from
a 1; integers past 2**53 and non-finite floats are spelled as strings under their tag.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from molrec_core._dtypes import COLUMN_DTYPES, STRING, TAGS, refuse
from molrec_core.errors import SchemaError

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT = 2**53
_MAX_DEPTH = 200
_BOUNDS = {
    name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    for name, (dtype, _, _) in COLUMN_DTYPES.items()
    if dtype.kind in "iu"
}


def loads(data: bytes | str, loc: str) -> Any:
    """Parse strict JSON: UTF-8, no NaN tokens, no duplicate keys, no numbers that overflow.

    Raises
    ------
    FormatError
        ``bad_json`` at `loc`.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise refuse(loc, "bad_json", f"not valid JSON: {error}") from None
    if text.count("[") + text.count("{") > _MAX_DEPTH and _deeper(value, _MAX_DEPTH):
        raise refuse(loc, "bad_json", f"nested deeper than {_MAX_DEPTH} levels")
    return value


def _deeper(value: object, levels: int) -> bool:
    """Whether arrays and objects stand in each other more than `levels` deep; without recursion of its own."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            item
            for node in layer
            for item in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]
        if not layer:
            return False
    return True


def _finite(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        msg = f"the number {token} does not fit a binary64"
        raise ValueError(msg)
    return number


def _no_constant(token: str) -> float:
    msg = f"{token} is not JSON"
    raise ValueError(msg)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        msg = "an object holds a key twice"
        raise ValueError(msg)
    return result


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_unique)


def dumps(value: object, loc: str, *, indent: int | None = None) -> str:
    """Serialise `value` as JSON: compact unless `indent`, key order kept, never a NaN token.

    Raises
    ------
    SchemaError
        ``not_json``: a NaN or infinity, a key that is no string, or a value that is not JSON.
    """
    check_document(value, loc)
    return json.dumps(
        value,
        ensure_ascii=False,
        allow_nan=False,
        indent=indent,
        separators=(",", ": ") if indent else (",", ":"),
    )


def check_document(value: object, loc: str, depth: int = 0) -> None:
    """Refuse anything but plain finite JSON (checklist U03, J08)."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise SchemaError.one(loc, "not_json", "a string holds a lone surrogate") from None
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaError.one(loc, "not_json", f"{value} cannot be spelled in a JSON document")
    elif isinstance(value, int):
        return
    elif depth >= _MAX_DEPTH:
        raise SchemaError.one(loc, "not_json", f"nested deeper than {_MAX_DEPTH} levels")
    elif isinstance(value, list | tuple):
        for item in value:
            check_document(item, loc, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise SchemaError.one(loc, "not_json", f"the key {key!r} is not a string")
            check_document(key, loc, depth + 1)
            check_document(item, loc, depth + 1)
    else:
        raise SchemaError.one(loc, "not_json", f"a {type(value).__name__} is not a JSON value")


def coerce(value: object, tag: str, loc: str) -> Any:
    """Return `value` as the in-memory form of `tag`, only where that is exact (ragged chapter).

    Scalars come back as Python values, vectors as an array of the tag's dtype.

    Raises
    ------
    SchemaError
        ``meta_value``: not of the tag; ``not_json``: what no JSON document holds.
    """
    spec = TAGS[tag]
    if tag == "json":
        check_document(value, loc)
        return value
    if spec.width:
        return _coerce_vector(value, tag, loc)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic):
        value = value.item()
    return _scalar(value, spec.element, tag, loc)


def _coerce_vector(value: object, tag: str, loc: str) -> np.ndarray[Any, Any]:
    spec = TAGS[tag]
    dtype = COLUMN_DTYPES[spec.element][0]
    if isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == (spec.width,):
        return value.copy()
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(items, list | tuple) or len(items) != spec.width:
        raise SchemaError.one(
            loc, "meta_value", f"{value!r} is not a {tag}: {spec.width} values are expected"
        )
    items = [item.item() if isinstance(item, np.generic) else item for item in items]
    return np.array([_scalar(item, spec.element, tag, loc) for item in items], dtype=dtype)


def _scalar(value: object, element: str, tag: str, loc: str) -> Any:
    if element == "bool":
        if isinstance(value, bool):
            return value
    elif element == "string":
        if isinstance(value, str):
            check_document(value, loc)
            return value
    elif element == "f64":
        if isinstance(value, float):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and _is_exact_float(value):
            return float(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        low, high = _BOUNDS[element]
        if low <= value <= high:
            return value
    raise SchemaError.one(loc, "meta_value", f"{value!r} ({type(value).__name__}) is not exactly a {tag}")


def _is_exact_float(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def encode(value: object, tag: str) -> Any:
    """Spell a coerced value of `tag` in typed JSON (checklist J01 to J05)."""
    if tag == "json":
        return value
    spec = TAGS[tag]
    if spec.width:
        return [_encode_scalar(item, spec.element) for item in np.asarray(value).tolist()]
    return _encode_scalar(value, spec.element)


def _encode_scalar(value: Any, element: str) -> Any:
    if element == "f64" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if element in _BOUNDS and abs(value) > _EXACT:
        return str(value)
    return value


def decode(value: object, tag: str, loc: str) -> Any:
    """Read typed JSON back under `tag`; any other form is refused (checklist J04, J06, J07).

    Raises
    ------
    FormatError
        ``meta_value`` at `loc`.
    """
    spec = TAGS[tag]
    if tag == "json":
        return value
    if not spec.width:
        return _decode_scalar(value, spec.element, tag, loc)
    if not isinstance(value, list) or len(value) != spec.width:
        raise refuse(loc, "meta_value", f"{value!r} is not a {tag}: an array of {spec.width} is expected")
    items = [_decode_scalar(item, spec.element, tag, loc) for item in value]
    return np.array(items, dtype=COLUMN_DTYPES[spec.element][0])


def _decode_scalar(value: object, element: str, tag: str, loc: str) -> Any:
    if element == "f64" and isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if element == "f64" and isinstance(value, int) and not isinstance(value, bool):
        # 1 and 1.0 are one number of JSON; a real number tag takes either (J07).
        try:
            return float(value)
        except OverflowError:
            raise refuse(loc, "meta_value", f"{value} does not fit a binary64") from None
    if element in _BOUNDS and isinstance(value, str):
        value = _wide_integer(value, tag, loc)
    try:
        return _scalar(value, element, tag, loc)
    except SchemaError as error:
        raise refuse(loc, "meta_value", error.problems[0].message) from None


def _wide_integer(text: str, tag: str, loc: str) -> int:
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 20 and digits[0] != "0":
        number = int(text)
        if abs(number) > _EXACT:
            return number
    raise refuse(
        loc, "meta_value", f"the string {text!r} is not an integer beyond 2**53, which a {tag} takes"
    )


def infer(value: object) -> str:
    """Infer the tag of an untagged JSON value (checklist M07)."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return "i64" if value < 2**63 else "u64"
    if isinstance(value, int | float):
        return "f64"
    return "string" if isinstance(value, str) else "json"


def same(left: object, right: object) -> bool:
    """Compare two values exactly and type-strictly: NaN equals NaN, true is not 1, 1 is not 1.0 (J09)."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return (
            isinstance(left, np.ndarray)
            and isinstance(right, np.ndarray)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and same(left.tolist(), right.tolist())
        )
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, float) and isinstance(right, float):
        return (left != left and right != right) or (
            left == right and math.copysign(1.0, left) == math.copysign(1.0, right)
        )
    return bool(left == right)


def element_array(values: list[Any], tag: str) -> np.ndarray[Any, Any]:
    """Return coerced values of one tag as the array that is stored: shape (n,) + trailing."""
    spec = TAGS[tag]
    if tag == "json":
        # Most values of an optional key are its null fill.
        return np.array(["null" if value is None else dumps(value, "meta") for value in values], dtype=STRING)
    dtype = COLUMN_DTYPES[spec.element][0]
    return np.array(values, dtype=dtype).reshape(len(values), *spec.trailing)


def element_value(item: Any, tag: str, loc: str) -> Any:
    """Return one stored item of a meta array as the in-memory value of its tag."""
    if tag == "json":
        # As in `element_array`.
        return None if item == "null" else loads(str(item), loc)
    if TAGS[tag].width:
        return np.array(item)
    return item.item() if isinstance(item, np.generic) else item
