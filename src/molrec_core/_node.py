"""``zarr.json``: what a stored node says, and how ours are spelled.

Knows the Zarr V3 metadata documents and nothing of files. An array that our fast
path covers (leading-axis chunks, must-decode codecs, plain or one level of sharding)
is described completely; anything else keeps ``layout`` None and is read through
zarr-python.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from molrec_core._codecs import Pipeline, parse_pipeline
from molrec_core._dtypes import COLUMN_DTYPES, ZARR_TO_COLUMN, refuse
from molrec_core._typedjson import dumps, loads
from molrec_core.errors import FormatError

MAX_DIMENSION = 2**62


@dataclass(frozen=True, slots=True)
class Layout:
    """How the rows of an array lie in stored objects.

    Attributes
    ----------
    chunk_rows : int
        Rows of an inner chunk.
    chunks_per_shard : int
        Inner chunks of a shard; 0 when each chunk is an object of its own.
    pipeline : Pipeline
        Codecs of one inner chunk.
    index_at_start, index_crc : bool
        Where the shard index lies, and whether a checksum closes it.
    separator : str
        Between the parts of a chunk key.
    """

    chunk_rows: int
    chunks_per_shard: int
    pipeline: Pipeline
    index_at_start: bool = True
    index_crc: bool = True
    separator: str = "/"

    def object_key(self, number: int, ndim: int) -> str:
        """Key, below the array, of stored object `number`."""
        if ndim == 0:
            return "c"
        return self.separator.join(["c", str(number), *["0"] * (ndim - 1)])


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """An array document.

    Attributes
    ----------
    shape : tuple of int
    dtype : str or None
        Column dtype; None for a Zarr data type outside the thirteen.
    data_type : object
        The stored ``data_type``.
    fill : object
        Fill value as a numpy scalar or str.
    layout : Layout or None
        None when zarr-python has to read it.
    attributes, document : dict
        Attributes, and the whole document as stored. Not to be changed in place.
    """

    shape: tuple[int, ...]
    dtype: str | None
    data_type: object
    fill: Any
    layout: Layout | None
    attributes: dict[str, Any]
    document: dict[str, Any]

    @property
    def rows(self) -> int:
        """Length of the leading axis; 1 for a 0-d array."""
        return self.shape[0] if self.shape else 1

    @property
    def trailing(self) -> tuple[int, ...]:
        """Shape of one row."""
        return self.shape[1:]


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A group document."""

    attributes: dict[str, Any]
    document: dict[str, Any] = field(default_factory=dict)


def parse_node(data: bytes, loc: str) -> ArrayNode | GroupNode:
    """Read a ``zarr.json``.

    Raises
    ------
    FormatError
        Not JSON, not Zarr V3, or an array document that contradicts itself.
    """
    try:
        node = _parse(data)
    except FormatError as error:
        first = error.problems[0]
        raise refuse(loc, first.kind, first.message) from None
    # The parsed node is shared; attributes are handed to callers, who may change what they were given.
    return replace(node, attributes=copy.deepcopy(node.attributes)) if node.attributes else node


@lru_cache(maxsize=512)
def _parse(data: bytes) -> ArrayNode | GroupNode:
    # Columns of one block share their documents byte for byte, so most opens hit the cache.
    document = loads(data, "")
    if not isinstance(document, dict) or document.get("zarr_format") != 3:
        raise refuse("", "not_zarr", "zarr.json is not a Zarr V3 document (zarr_format 3)")
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise refuse("", "not_zarr", "attributes is not an object")
    kind = document.get("node_type")
    if kind == "group":
        return GroupNode(attributes, document)
    if kind != "array":
        raise refuse("", "not_zarr", f"node_type is {kind!r}; 'group' or 'array' is expected")
    shape = _shape(document.get("shape"), "shape", 0)
    dtype = _column_dtype(document.get("data_type"))
    layout = None if dtype is None else _layout(document, shape, dtype)
    fill = None if dtype is None else _fill(document.get("fill_value"), dtype)
    return ArrayNode(shape, dtype, document.get("data_type"), fill, layout, attributes, document)


def _shape(value: object, what: str, least: int) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise refuse("", "array_shape", f"{what} is {value!r}; a list of integers is expected")
    for n in value:
        if isinstance(n, bool) or not isinstance(n, int) or not least <= n <= MAX_DIMENSION:
            raise refuse(
                "", "array_shape", f"{what} holds {n!r}; integers from {least} to 2**62 are expected"
            )
    return tuple(value)


def _column_dtype(data_type: object) -> str | None:
    if (
        isinstance(data_type, dict)
        and data_type.keys() <= {"name", "configuration"}
        and not data_type.get("configuration")
    ):
        data_type = data_type.get("name")
    return ZARR_TO_COLUMN.get(data_type) if isinstance(data_type, str) else None


_KNOWN_KEYS = frozenset(
    {
        "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
        "fill_value", "codecs", "attributes", "dimension_names", "storage_transformers",
    }
)  # fmt: skip


def _layout(document: dict[str, Any], shape: tuple[int, ...], dtype: str) -> Layout | None:
    if not document.keys() <= _KNOWN_KEYS or document.get("storage_transformers"):
        return None
    grid = _named(document.get("chunk_grid"), "regular")
    encoding = _named(document.get("chunk_key_encoding"), "default")
    if grid is None or encoding is None or encoding.get("separator", "/") not in ("/", "."):
        return None
    chunk = _shape(grid.get("chunk_shape"), "chunk_shape", 1)
    if len(chunk) != len(shape):
        raise refuse("", "array_shape", f"chunk_shape {list(chunk)} does not fit shape {list(shape)}")
    if 0 not in shape[1:] and chunk[1:] != shape[1:]:
        return None
    separator = encoding.get("separator", "/")
    codecs = document.get("codecs")
    rows = chunk[0] if chunk else 1
    if (
        isinstance(codecs, list)
        and len(codecs) == 1
        and (shard := _named(codecs[0], "sharding_indexed")) is not None
    ):
        return _sharded(shard, chunk, dtype, separator)
    pipeline = parse_pipeline(codecs, dtype, shape[1:])
    return None if pipeline is None else Layout(rows, 0, pipeline, separator=separator)


def _named(entry: object, name: str) -> dict[str, Any] | None:
    if (
        isinstance(entry, dict)
        and entry.get("name") == name
        and isinstance(entry.get("configuration", {}), dict)
    ):
        configuration: dict[str, Any] = entry.get("configuration", {})
        return configuration
    return None


def _sharded(shard: dict[str, Any], outer: tuple[int, ...], dtype: str, separator: str) -> Layout | None:
    inner = _shape(shard.get("chunk_shape"), "chunk_shape", 1)
    index = shard.get("index_codecs")
    crc = isinstance(index, list) and len(index) == 2 and _named(index[1], "crc32c") is not None
    plain = (
        isinstance(index, list)
        and len(index) == 1 + crc
        and (_named(index[0], "bytes") or {}).get("endian") == "little"
    )
    location = shard.get("index_location", "end")
    if not plain or location not in ("start", "end") or not outer:
        return None
    if len(inner) != len(outer) or inner[1:] != outer[1:] or outer[0] % inner[0]:
        return None
    pipeline = parse_pipeline(shard.get("codecs"), dtype, inner[1:])
    if pipeline is None:
        return None
    return Layout(inner[0], outer[0] // inner[0], pipeline, location == "start", crc, separator)


_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _fill(value: object, dtype: str) -> Any:
    numpy_dtype = COLUMN_DTYPES[dtype][0]
    try:
        if dtype == "string" and isinstance(value, str):
            return value
        if dtype == "bool" and isinstance(value, bool):
            return np.bool_(value)
        if (
            dtype[0] in "iu"
            and isinstance(value, int | float)
            and not isinstance(value, bool)
            and value == int(value)
        ):
            return numpy_dtype.type(int(value))
        if dtype == "f64":
            return np.float64(_fill_float(value, "<u8", np.float64))
        if dtype[0] == "c" and isinstance(value, list) and len(value) == 2:
            word, real = ("<u4", np.float32) if dtype == "c64" else ("<u8", np.float64)
            return numpy_dtype.type(complex(*(_fill_float(part, word, real) for part in value)))
    except (ValueError, OverflowError, TypeError):
        pass
    raise refuse("", "fill_value", f"the fill value {value!r} is not a {dtype}")


def _fill_float(value: object, word: str, dtype: type) -> float:
    if isinstance(value, str):
        if value in _SPELLED:
            return _SPELLED[value]
        return float(np.array([int(value, 16)], word).view(dtype)[0])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def group_document(attributes: dict[str, Any], loc: str, base: dict[str, Any] | None = None) -> bytes:
    """Spell a group; other members of the stored document `base` are kept, consolidated metadata is not."""
    document = {k: v for k, v in (base or {}).items() if k not in {"attributes", "consolidated_metadata"}}
    document |= {"zarr_format": 3, "node_type": "group"}
    if attributes:
        document["attributes"] = attributes
    return dumps(document, loc, indent=2).encode("utf-8")


def array_document(
    dtype: str, shape: Iterable[int], layout: Layout, attributes: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the document of an array of ours, as JSON to be spelled by :func:`spell`."""
    shape = list(shape)
    _, data_type, fill = COLUMN_DTYPES[dtype]
    trailing = [max(1, n) for n in shape[1:]]
    codecs: list[dict[str, Any]] = layout.pipeline.to_json()
    outer = layout.chunk_rows
    if layout.chunks_per_shard:
        outer *= layout.chunks_per_shard
        codecs = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [layout.chunk_rows, *trailing],
                    "codecs": codecs,
                    "index_codecs": [
                        {"name": "bytes", "configuration": {"endian": "little"}},
                        {"name": "crc32c"},
                    ],
                    "index_location": "start" if layout.index_at_start else "end",
                },
            }
        ]
    document: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [outer, *trailing] if shape else []},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": layout.separator}},
        "fill_value": fill,
        "codecs": codecs,
    }
    if attributes:
        document["attributes"] = attributes
    return document


def spell(document: dict[str, Any], loc: str) -> bytes:
    """Spell a document as stored."""
    return dumps(document, loc, indent=2).encode("utf-8")
