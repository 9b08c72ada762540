"""What a trajectory's groups say by themselves: the committed frames, and the declaration where its writer pinned none.

"The pinned declaration" of the ragged-trajectory chapter, last paragraph; checklist Q13.
"""

from __future__ import annotations

from typing import Any

from molrec_core._declaration import read_structural_shape
from molrec_core._dtypes import RESERVED_BLOCKS, RESERVED_COLUMNS, TAGS, refuse
from molrec_core._fixed import child_nodes, get_array, get_node
from molrec_core._group import VALIDITY, check_column
from molrec_core._node import ArrayNode, GroupNode
from molrec_core._schema import SequenceSchema
from molrec_core._store import Store, join
from molrec_core.errors import FormatError, SchemaError

KEY = "trajectory"


def read_nstep(store: Store, attributes: dict[str, Any]) -> int:
    """Return the committed frames: the marker, or the length of ``step`` where there is none (O02, O03)."""
    if "nstep" not in attributes:
        if {"step_progression", "time_progression"} & attributes.keys():
            raise refuse(
                KEY, "progression_without_nstep", "a progression without the nstep marker is malformed"
            )
        step = get_array(store, f"{KEY}/step")
        return 0 if step is None else step.rows
    nstep = attributes["nstep"]
    if type(nstep) is not int or not 0 <= nstep < 2**63:
        raise refuse(KEY, "nstep", f"nstep is {nstep!r}; an integer >= 0 is expected")
    return nstep


def derive_schema(store: Store, nstep: int) -> SequenceSchema:
    """Derive the declaration of a store without ``sequence_schema``.

    Raises
    ------
    FormatError
        A group that cannot be a block, or an array that cannot be a column or meta key.
    """
    schema = SequenceSchema()
    try:
        for name, node in child_nodes(store, KEY).items():
            if name not in RESERVED_BLOCKS and isinstance(node, GroupNode):
                _derive_block(store, schema, name, node)
        for key, node in child_nodes(store, f"{KEY}/meta").items():
            tag = node.attributes.get("meta_dtype")
            if isinstance(node, ArrayNode) and nstep:
                if tag not in TAGS:
                    raise refuse(
                        f"{KEY}/meta/{key}", "meta_dtype", f"meta_dtype is {tag!r}; one of the sixteen tags"
                    )
                schema.declare_meta(key, str(tag))
    except SchemaError as error:
        raise FormatError(error.problems) from None
    return schema


def _derive_block(store: Store, schema: SequenceSchema, name: str, node: GroupNode) -> None:
    schema.declare_block(name)
    key = join(KEY, name)
    masked = set()
    if isinstance(get_node(store, join(key, VALIDITY)), GroupNode):
        masked = set(store.children(join(key, VALIDITY))[0])
    for column, child in child_nodes(store, key).items():
        if column in RESERVED_COLUMNS or isinstance(child, GroupNode):
            continue
        place = join(key, column)
        check_column(place, column, child)
        if not child.shape:
            raise refuse(
                place, "schema_mismatch", "a column has a leading row axis; a single value is stored"
            )
        schema.declare_column(name, column, str(child.dtype), child.trailing, nullable=column in masked)
    shape = node.attributes.get("structural_shape")
    if shape is not None:
        schema.declare_structural_shape(name, read_structural_shape(shape, key))
