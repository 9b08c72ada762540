"""Nodes of a store, and arrays of a fixed size: written with the reference extents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from molrec_core._codecs import pipeline_for
from molrec_core._dtypes import COLUMN_DTYPES, dtype_name, refuse
from molrec_core._encoding import is_fill
from molrec_core._extents import fixed_extents, row_bytes
from molrec_core._node import ArrayNode, GroupNode, Layout, array_document, parse_node, spell
from molrec_core._shard import EMPTY, empty_index, encode_index
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, join
from molrec_core.errors import RecordError, SchemaError

Array = np.ndarray[Any, Any]


def get_node(store: Store, key: str) -> ArrayNode | GroupNode | None:
    """Return the node at `key`; None when there is none."""
    data = store.get(join(key, ZARR_JSON))
    return None if data is None else parse_node(data, key)


def get_group(store: Store, key: str) -> GroupNode | None:
    """Return the group at `key`; None when there is none.

    Raises
    ------
    FormatError
        ``node_type``: there is an array.
    """
    node = get_node(store, key)
    if isinstance(node, ArrayNode):
        raise refuse(key, "node_type", "an array is stored where a group is expected")
    return node


def get_array(store: Store, key: str) -> ArrayNode | None:
    """Return the array at `key`; None when there is none.

    Raises
    ------
    FormatError
        ``node_type``: there is a group.
    """
    node = get_node(store, key)
    if isinstance(node, GroupNode):
        raise refuse(key, "node_type", "a group is stored where an array is expected")
    return node


def listed(store: Store, key: str) -> list[str]:
    """Return the names of the directories right below `key`; none where the store cannot list."""
    try:
        return store.children(key)[0]
    except RecordError as error:
        if error.kind != "no_listing":
            raise
        return []


def child_nodes(
    store: Store, key: str, expected: Iterable[str] | None = None
) -> dict[str, ArrayNode | GroupNode]:
    """Return the nodes right below `key`; directories without a ``zarr.json`` are no nodes.

    Parameters
    ----------
    expected : iterable of str, optional
        Asked for by name whatever a listing says, so that a store that cannot list will do.
    """
    names = store.children(key)[0] if expected is None else listed(store, key)
    found = {}
    for name in dict.fromkeys((*(expected or ()), *names)):
        node = get_node(store, join(key, name))
        if node is not None:
            found[name] = node
    return found


# -- fixed-size arrays


def write_array(
    store: DirectoryStore, key: str, values: Array, *, precision: float | None = None, attributes: Any = None
) -> None:
    """Write a fixed-size array of any column dtype and shape, with the reference extents (H11, H12)."""
    dtype = dtype_name(values.dtype)
    if dtype is None:
        raise SchemaError.one(key, "dtype", f"dtype {values.dtype} is none of the column dtypes")
    shape = values.shape
    values = np.ascontiguousarray(values, COLUMN_DTYPES[dtype][0]).reshape(shape)
    trailing = shape[1:]
    pipeline = pipeline_for(dtype, trailing, precision=precision is not None)
    rows = shape[0] if shape else 1
    if dtype == "string" or not shape or values.size == 0:
        chunk, shard = max(rows, 1), 0
    else:
        chunk, shard = fixed_extents(rows, row_bytes(dtype, trailing))
    layout = Layout(chunk, shard // chunk, pipeline, index_at_start=False)
    store.mkdir(key)
    if values.size:
        _write_chunks(store, key, values.reshape(rows, *trailing), layout, len(shape))
    document = array_document(dtype, shape, layout, attributes)
    store.replace(join(key, ZARR_JSON), spell(document, key))


def _write_chunks(store: DirectoryStore, key: str, values: Array, layout: Layout, ndim: int) -> None:
    rows = layout.chunk_rows
    shard: list[Any] = []
    entries = empty_index(layout.chunks_per_shard)
    at = 0
    for chunk in range(-(-len(values) // rows)):
        part = values[chunk * rows : (chunk + 1) * rows]
        if is_fill(part):
            continue
        if len(part) < rows:
            padded = np.zeros((rows, *part.shape[1:]), part.dtype)
            padded[: len(part)] = part
            part = padded
        pieces = layout.pipeline.encode(part)
        if not layout.chunks_per_shard:
            name = join(key, layout.object_key(chunk, ndim))
            store.create(name, b"".join(bytes(piece) for piece in pieces))
            continue
        length = sum(memoryview(piece).nbytes for piece in pieces)
        entries[chunk] = (at, length)
        at += length
        shard += pieces
    if (entries != EMPTY).any():
        name = join(key, layout.object_key(0, ndim))
        store.write(name, 0, [*shard, encode_index(entries)])
        store.release(name)
