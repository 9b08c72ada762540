"""The cell of a frame-shaped group: arrays, each only when off its default; and checks of stored cells.

Checklist B02 to B09.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_core._array import open_array
from molrec_core._box import Box
from molrec_core._dtypes import COLUMN_DTYPES, refuse
from molrec_core._fixed import get_array, write_array
from molrec_core._node import ArrayNode, GroupNode, group_document
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, join
from molrec_core.errors import FormatError, SchemaError

Array = np.ndarray[Any, Any]


def write_box(store: DirectoryStore, key: str, box: Box) -> None:
    """Write the cell of a frame-shaped group: arrays, each only when off its default (B02)."""
    write_array(store, join(key, "vectors"), box.vectors)
    if box.origin.tobytes() != np.zeros(3).tobytes():
        write_array(store, join(key, "origin"), box.origin)
    if not box.boundary.all():
        write_array(store, join(key, "boundary"), box.boundary)
    attributes = {} if box.cell_defined else {"cell_defined": False}
    store.replace(join(key, ZARR_JSON), group_document(attributes, key))


def read_cell_defined(attributes: dict[str, Any], loc: str) -> bool:
    """Return the flag of a cell group; absent means true (B08)."""
    flag = attributes.get("cell_defined", True)
    if not isinstance(flag, bool):
        raise refuse(loc, "cell_defined", f"cell_defined is {flag!r}; true or false is expected")
    return flag


def check_box_array(node: ArrayNode, trailing: tuple[int, ...], key: str, *, leading: bool) -> None:
    """Refuse a cell array of another shape or kind; integers are taken for numbers (B09)."""
    what = key.rpartition("/")[2]
    kinds = {"bool"} if what == "boundary" else {d for d in COLUMN_DTYPES if d[0] in "iu" or d == "f64"}
    shape = node.shape[1:] if leading and node.shape else node.shape
    if node.dtype not in kinds or shape != trailing or (leading and not node.shape):
        raise refuse(
            key, "box_shape", f"{node.data_type} of shape {list(node.shape)}; {'bool' if what == 'boundary' else 'float64'}"
            f" of shape {['n'] * leading + list(trailing)} is expected"
        )  # fmt: skip


def make_box(key: str, vectors: Array, origin: Array | None, boundary: Array | None, *, defined: bool) -> Box:
    """Build a cell from stored parts.

    Raises
    ------
    FormatError
        An undefined cell that is periodic, or parts of the wrong shape.
    """
    try:
        return Box(vectors, origin=origin, boundary=boundary, cell_defined=defined)
    except SchemaError as error:
        raise FormatError.one(key, error.kind, error.problems[0].message) from None


def read_box(store: Store, key: str, node: GroupNode) -> Box:
    """Read the cell of a frame-shaped group."""
    defined = read_cell_defined(node.attributes, key)
    parts: dict[str, Array | None] = {}
    for name, trailing in (("vectors", (3, 3)), ("origin", (3,)), ("boundary", (3,))):
        array = get_array(store, join(key, name))
        if array is not None:
            check_box_array(array, trailing, join(key, name), leading=False)
        parts[name] = None if array is None else open_array(store, join(key, name), array).all()
    vectors = parts["vectors"]
    if vectors is None:
        if defined:
            raise refuse(key, "box_shape", "the cell has no vectors")
        vectors = np.eye(3)
    return make_box(key, vectors, parts["origin"], parts["boundary"], defined=defined)
