"""The catch-all ``info`` of a frame: any value of a host as typed JSON, exactly (section 1 of the host mapping).

Plain JSON stands for None, bool, int, finite float, str, list, and dict with string
keys none of which starts with ``$``. Everything else is an object with one marker::

    {"$f": "NaN" | "Infinity" | "-Infinity"}      a float that JSON has no number for
    {"$tuple": [v, ...]}                          a tuple
    {"$dict": [[k, v], ...]}                      a dict with any other keys, order kept
    {"$np": [dtype, v]}                           a numpy scalar
    {"$nd": [dtype, shape, base64]}               an array, C order, in the byte order dtype says
    {"$nd": ["|O", shape, [v, ...]]}              an object array of str and None

A dict whose own key starts with ``$`` is spelled as ``$dict``, so no value of a user is
ever taken for a marker.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_core._dtypes import refuse
from molrec_core._hosts_columns import PREFIX, host_name, store_name

Array = np.ndarray[Any, Any]

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DEPTH = 40
_MARKERS = frozenset({"$f", "$tuple", "$dict", "$np", "$nd"})


def encode_value(value: object, key: str, depth: int = 0) -> Any:
    """Return `value` as typed JSON.

    Raises
    ------
    TypeError
        A type that does not come back exactly (subclasses of the ones above too), naming `key`.
    """
    if depth > _DEPTH:
        raise TypeError(f"{key}: nested deeper than {_DEPTH} levels")
    if isinstance(value, np.generic):
        return _encode_numpy_scalar(value, key)
    if type(value) is np.ndarray:
        return _encode_array(value, key)
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return _checked_int(value, key)
    if kind is float:
        return _encode_float(value)  # type: ignore[arg-type]
    if kind is str:
        return _checked_str(value, key)
    if isinstance(value, list) and kind is list:
        return [encode_value(item, key, depth + 1) for item in value]
    if isinstance(value, tuple) and kind is tuple:
        return {"$tuple": [encode_value(item, key, depth + 1) for item in value]}
    if isinstance(value, dict) and kind is dict:
        if all(type(k) is str and not k.startswith("$") for k in value):
            return {
                _checked_str(k, key): encode_value(item, f"{key}.{k}", depth + 1) for k, item in value.items()
            }
        pairs = [
            [encode_value(k, key, depth + 1), encode_value(v, f"{key}.{k}", depth + 1)]
            for k, v in value.items()
        ]
        return {"$dict": pairs}
    raise TypeError(
        f"{key}: a {kind.__module__}.{kind.__qualname__} has no exact place in a record; "
        "use plain Python or numpy values"
    )


def _encode_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return {"$f": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def _checked_int(value: Any, key: str) -> int:
    # Python itself refuses to print or read integers of more than 4300 digits.
    if value.bit_length() > 14000:
        raise TypeError(f"{key}: an integer of {value.bit_length()} bits is too long for JSON")
    return int(value)


def _checked_str(value: Any, key: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise TypeError(f"{key}: a string holds a lone surrogate, which is not UTF-8") from None
    return str(value)


def _encode_numpy_scalar(value: np.generic, key: str) -> Any:
    dtype = value.dtype
    if not _storable(dtype):
        raise TypeError(f"{key}: a numpy {dtype} has no exact place in a record")
    item = value.item()
    if isinstance(item, complex):
        return {"$np": [dtype.str, [_encode_float(item.real), _encode_float(item.imag)]]}
    return {"$np": [dtype.str, encode_value(item, key)]}


def _encode_array(array: Array, key: str) -> Any:
    if array.dtype.kind == "O":
        items = array.reshape(-1).tolist()
        if not all(item is None or type(item) is str for item in items):
            raise TypeError(f"{key}: an object array may hold only strings and None")
        return {"$nd": ["|O", list(array.shape), [encode_value(item, key) for item in items]]}
    if not _storable(array.dtype):
        raise TypeError(f"{key}: an array of {array.dtype} has no exact place in a record")
    text = base64.b64encode(array.tobytes(order="C")).decode("ascii")
    return {"$nd": [array.dtype.str, list(array.shape), text]}


def _storable(dtype: np.dtype[Any]) -> bool:
    if dtype.names is not None:
        return False
    return (
        dtype.kind in "biuU"
        or (dtype.kind == "f" and dtype.itemsize <= 8)
        or (dtype.kind == "c" and dtype.itemsize <= 16)
    )


def decode_value(value: Any, key: str = "info") -> Any:
    """Return the value typed JSON stands for; an object with an unknown ``$`` key is a plain dict.

    Raises
    ------
    FormatError
        ``info``: a marker whose content is malformed, naming `key`.
    """
    if isinstance(value, list):
        return [decode_value(item, key) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (marker := next(iter(value))) in _MARKERS:
        try:
            return _decode_marker(marker, value[marker], key)
        except (ValueError, TypeError, KeyError, OverflowError, binascii.Error) as error:
            raise refuse(key, "info", f"{marker} holds {value[marker]!r:.80}: {error}") from None
    return {name: decode_value(item, key) for name, item in value.items()}


def _decode_marker(marker: str, content: Any, key: str) -> Any:
    if marker == "$f":
        return _NON_FINITE[content]
    if marker == "$tuple":
        return tuple(decode_value(content, key))
    if marker == "$dict":
        return {decode_value(k, key): decode_value(v, key) for k, v in content}
    if marker == "$np":
        return _decode_numpy_scalar(content, key)
    dtype, shape, data = content
    if dtype == "|O":
        items = np.empty(len(data), dtype=object)
        items[:] = [decode_value(item, key) for item in data]
        return items.reshape(shape)
    return np.frombuffer(base64.b64decode(data, validate=True), dtype=_dtype(dtype)).reshape(shape).copy()


def _decode_numpy_scalar(content: Any, key: str) -> Any:
    spelling, item = content
    dtype = _dtype(spelling)
    if dtype.kind == "c":
        real, imag = (decode_value(part, key) for part in item)
        return dtype.type(complex(real, imag))
    return dtype.type(decode_value(item, key))


def _dtype(spelling: Any) -> np.dtype[Any]:
    dtype = np.dtype(spelling) if isinstance(spelling, str) else None
    if dtype is None or not _storable(dtype):
        raise TypeError(f"{spelling!r} is no dtype of typed JSON")
    return dtype


@dataclass(slots=True)
class FrameInfo:
    """What one frame holds beyond the pin; the content of its ``info`` key.

    Attributes
    ----------
    values : dict
        The host's own keys and values, under the host's names; they override typed keys.
    own : dict of str to value
        Names of the host mapping the pin had no place for: ``cell``, ``pbc``, ``pe``, ``calc.x``.
    arrays : dict of str to array
        Per-atom arrays the pin had no place for, or that a frame of zero atoms had.
    missing : list of str
        Stored names of declared scalars this frame did not have.
    """

    values: dict[Any, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def to_json(self) -> Any:
        """Return the document to store under ``info``; None when there is nothing to say.

        Raises
        ------
        TypeError
            A value that does not come back exactly, naming its key.
        """
        named = {store_name(k, "meta") if type(k) is str else k: v for k, v in self.values.items()}
        document: dict[str, Any] = {}
        for key, value in (named | self.own).items():
            if type(key) is str:
                document[key] = encode_value(value, key)
            else:
                pair = [encode_value(key, repr(key)), encode_value(value, repr(key))]
                document.setdefault("$dict", []).append(pair)
        if self.arrays:
            document["$arrays"] = {
                name if name and not name.startswith(("$", PREFIX)) else store_name(name): encode_value(
                    array, name
                )
                for name, array in self.arrays.items()
            }
        if self.missing:
            document["$missing"] = list(self.missing)
        return document or None

    @classmethod
    def from_json(cls, document: Any) -> FrameInfo:
        """Read a stored ``info``; anything but an object says nothing.

        Raises
        ------
        FormatError
            ``info``: malformed typed JSON.
        """
        info = cls()
        if not isinstance(document, dict):
            return info
        for key, value in document.items():
            if key == "$missing":
                info.missing = [str(name) for name in value]
            elif key == "$arrays":
                info.arrays = {
                    (host_name(name) or "") if name.startswith("host.") else name: np.asarray(
                        decode_value(v, name)
                    )
                    for name, v in value.items()
                }
            elif key == "$dict":
                info.values |= decode_value({"$dict": value})
            elif (name := host_name(key, "meta")) is None:
                info.own[key] = decode_value(value, key)
            else:
                info.values[name] = decode_value(value, key)
        return info
