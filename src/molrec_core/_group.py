"""Frame-shaped groups, and fixed-size arrays: reading and writing.

"Frame-shaped group" of the root-layout chapter; checklist groups F, D, N, P, M, T and
B on the frame path. The force field uses the same reader and writer with a plain
document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from molrec_core._array import open_array
from molrec_core._cell import read_box, write_box
from molrec_core._change import rounded
from molrec_core._declaration import read_structural_shape, read_targets, target_problem
from molrec_core._dtypes import (
    TAGS,
    canonical_problem,
    dtype_name,
    name_problem,
    precision_problem,
    refuse,
)
from molrec_core._fixed import child_nodes, get_array, get_group, write_array
from molrec_core._frame import Block, Frame
from molrec_core._links import Sections, SystemRows, check_targets
from molrec_core._node import ArrayNode, GroupNode, group_document
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, join
from molrec_core._typedjson import decode, encode, infer
from molrec_core.errors import FormatError, Problems, SchemaError

Array = np.ndarray[Any, Any]
META_TYPES = "_meta_types"
VALIDITY = "_validity"
_OWN_ATTRIBUTES = frozenset({"count", "structural_shape", "targets"})


# -- frame-shaped groups: writing


def check_frame(frame: Frame, key: str) -> None:
    """Refuse a frame that a frame-shaped group cannot hold, before anything is written.

    Raises
    ------
    SchemaError
        Reserved names, canonical keys at another dtype, malformed targets.
    """
    if "box" in frame:
        raise SchemaError.one(
            join(key, "box"), "reserved_name", "a block named 'box' is refused: it is the cell's name"
        )
    if META_TYPES in frame.meta:
        raise SchemaError.one(key, "reserved_name", f"{META_TYPES!r} is not a meta key")
    for name, block in frame.items():
        _check_block(block, join(key, name))


def _check_block(block: Block, loc: str) -> None:
    for column, values in block.items():
        if column == VALIDITY:
            raise SchemaError.one(join(loc, column), "reserved_name", "'_validity' is the name of the masks")
        problem = canonical_problem(column, dtype_name(values.dtype) or "", values.shape[1:])
        if problem:
            raise SchemaError.one(join(loc, column), "canonical_dtype", problem)
    for column, target in block.targets.items():
        problem = target_problem(target)
        if problem:
            raise SchemaError.one(join(loc, column), "target_spelling", problem)
        if column not in block:
            raise SchemaError.one(
                join(loc, column), "target_column", "targets name a column the block does not have"
            )
        if block[column].dtype != np.uint64 or block[column].ndim != 1:
            raise SchemaError.one(join(loc, column), "target_dtype", "a row reference is u64, one per row")
    if clash := sorted(_OWN_ATTRIBUTES & block.attributes.keys()):
        raise SchemaError.one(loc, "reserved_name", f"the attributes {clash} belong to the layout")


def write_frame(
    store: DirectoryStore,
    key: str,
    frame: Frame,
    *,
    sections: Mapping[str, Frame],
    document: dict[str, Any] | None = None,
) -> None:
    """Write a frame-shaped group; its own document comes last.

    Parameters
    ----------
    sections : mapping of str to Frame
        Frame-shaped sections of the record, for absolute row references.
    document : dict, optional
        Plain JSON attributes instead of typed meta (the force field).
    """
    check_frame(frame, key)
    check_targets(frame, key, sections)
    store.mkdir(key)
    for name, block in frame.items():
        _write_block(store, join(key, name), block)
    if frame.box is not None:
        write_box(store, join(key, "box"), frame.box)
    attributes = _meta_attributes(frame) if document is None else document
    store.replace(join(key, ZARR_JSON), group_document(attributes, key))


def _meta_attributes(frame: Frame) -> dict[str, Any]:
    if not frame.meta:
        return {}
    attributes = {key: encode(value, frame.meta_tags[key]) for key, value in frame.meta.items()}
    return attributes | {META_TYPES: dict(frame.meta_tags)}


def _write_block(store: DirectoryStore, key: str, block: Block) -> None:
    store.mkdir(key)
    for column, values in block.items():
        precision = block.precision.get(column)
        stored = values if precision is None else rounded(values, precision)
        attributes = None if precision is None else {"precision": precision}
        write_array(store, join(key, column), stored, precision=precision, attributes=attributes)
    for column, mask in block.validity.items():
        write_array(store, join(key, VALIDITY, column), mask)
    if block.validity:
        store.replace(join(key, VALIDITY, ZARR_JSON), group_document({}, key))
    attributes = {"count": block.count}
    if block.structural_shape is not None:
        attributes["structural_shape"] = list(block.structural_shape)  # type: ignore[assignment]
    if block.targets:
        attributes["targets"] = dict(block.targets)  # type: ignore[assignment]
    store.replace(join(key, ZARR_JSON), group_document(attributes | block.attributes, key))


# -- frame-shaped groups: reading


def read_frame(
    store: Store, key: str, node: GroupNode, *, sections: Callable[[str], Frame | None], plain: bool = False
) -> Frame:
    """Read a frame-shaped group.

    Parameters
    ----------
    sections : callable
        Returns another frame-shaped section of the record by name, for absolute row
        references; None when the record does not have it.
    plain : bool
        The attributes are a plain document, not typed meta: they are left to the caller.

    Raises
    ------
    FormatError
        All problems of the section.
    """
    problems = Problems()
    blocks: dict[str, Block] = {}
    box = None
    for name, child in child_nodes(store, key).items():
        place = join(key, name)
        problem = name_problem(name, "block")
        try:
            if problem:
                raise refuse(place, "bad_name", problem)
            if isinstance(child, ArrayNode):
                raise refuse(place, "node_type", "an array is stored where a block is expected")
            if name == "box":
                box = read_box(store, place, child)
            else:
                blocks[name] = read_block(store, place, child)
        except (FormatError, SchemaError) as error:
            problems.found.extend(error.problems)
    meta, tags = ({}, {}) if plain else read_meta(node.attributes, key, problems)
    problems.raise_errors()
    frame = Frame._trusted(blocks, box, meta, tags)
    try:
        check_targets(frame, key, Sections(sections, {key: frame}))
    except SchemaError as error:
        raise FormatError(error.problems) from None
    return frame


def read_count(node: GroupNode, key: str) -> int:
    """Return the row count a block group states (F14 to F16)."""
    count = node.attributes.get("count")
    if type(count) is not int or count < 0:
        raise refuse(key, "count", f"the block's count is {count!r}; an integer >= 0 is expected")
    return count


def read_block(store: Store, key: str, node: GroupNode) -> Block:
    """Read one block of a frame-shaped group.

    Raises
    ------
    FormatError
        A count, column, mask or attribute that breaks the contract.
    """
    count = read_count(node, key)
    columns: dict[str, Array] = {}
    precision: dict[str, float] = {}
    masks: dict[str, Array] = {}
    for name, child in child_nodes(store, key).items():
        place = join(key, name)
        if name == VALIDITY:
            masks = _read_masks(store, place, child, count)
            continue
        if isinstance(child, GroupNode):
            # A group below a block is no column; it is unknown content and stays where it is.
            continue
        columns[name] = read_column(store, place, name, child, count)
        if "precision" in child.attributes:
            precision[name] = read_precision(child.attributes["precision"], child.dtype or "", place)
    for name in masks:
        if name not in columns:
            raise refuse(
                join(key, VALIDITY, name), "mask_without_column", "a mask names no column of the block"
            )
    shape = node.attributes.get("structural_shape")
    structural = None if shape is None else read_structural_shape(shape, key)
    if structural is not None and int(np.prod(structural, dtype=object)) != count:
        raise refuse(
            key, "structural_shape", f"structural_shape {list(structural)} does not hold {count} rows"
        )
    block = Block._trusted(columns, count, {n: m for n, m in masks.items() if not m.all()}, structural)
    block.precision = precision
    if "targets" in node.attributes:
        block.targets = _read_targets(node.attributes["targets"], columns, key)
    block.attributes = {k: v for k, v in node.attributes.items() if k not in _OWN_ATTRIBUTES}
    return block


def read_precision(value: object, dtype: str, loc: str) -> float:
    """Return a stored ``precision``; the stored values are never rounded again (P06, P09)."""
    problem = precision_problem(value, dtype)
    if problem:
        raise refuse(loc, "precision", problem)
    return float(value)  # type: ignore[arg-type]  # checked to be a number


def read_column(store: Store, key: str, name: str, node: ArrayNode, count: int) -> Array:
    """Read a column of `count` rows, checking dtype, canonical key and length."""
    check_column(key, name, node)
    if not node.shape or node.shape[0] != count:
        raise refuse(
            key, "row_count_mismatch", f"shape {list(node.shape)} where the block counts {count} rows"
        )
    return open_array(store, key, node).all()


def check_column(key: str, name: str, node: ArrayNode) -> None:
    """Refuse a column of a data type outside the thirteen, or a canonical key at another one (D03 to D10)."""
    problem = name_problem(name, "column")
    if problem:
        raise refuse(key, "bad_name", problem)
    if node.dtype is None:
        raise refuse(
            key,
            "data_type",
            f"data type {node.data_type!r} is none of the column data types; it is not widened",
        )
    problem = canonical_problem(name, node.dtype, node.shape[1:])
    if problem:
        raise refuse(key, "canonical_dtype", problem)


def _read_masks(store: Store, key: str, node: ArrayNode | GroupNode, count: int) -> dict[str, Array]:
    if isinstance(node, ArrayNode):
        raise refuse(key, "node_type", "_validity is an array; a group of masks is expected")
    masks = {}
    for name, child in child_nodes(store, key).items():
        place = join(key, name)
        if isinstance(child, GroupNode):
            raise refuse(place, "node_type", "a mask is an array; a group is stored")
        check_mask(child, place)
        if child.shape[0] != count:
            raise refuse(place, "mask_length", f"{child.shape[0]} flags for {count} rows")
        masks[name] = open_array(store, place, child).all()
    return masks


def check_mask(node: ArrayNode, loc: str) -> None:
    """Refuse a mask that is not a one-dimensional bool array (N07, N08)."""
    if node.dtype != "bool":
        raise refuse(loc, "mask_dtype", f"a mask is stored as {node.data_type}; bool is expected")
    if len(node.shape) != 1:
        raise refuse(loc, "mask_shape", f"a mask has shape {list(node.shape)}; one axis is expected")


def _read_targets(value: object, columns: dict[str, Array], key: str) -> dict[str, str]:
    targets = read_targets(value, key)
    for column, target in targets.items():
        loc = join(key, column)
        problem = target_problem(target)
        if problem:
            raise refuse(loc, "target_spelling", problem)
        if column not in columns:
            raise refuse(loc, "target_column", "targets name a column the block does not have")
        if columns[column].dtype != np.uint64 or columns[column].ndim != 1:
            raise refuse(
                loc, "target_dtype", f"a row reference is u64, one per row; found {columns[column].dtype}"
            )
    return targets


def read_meta(
    attributes: dict[str, Any], key: str, problems: Problems
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a typed meta document: tagged keys under their tag, the others by inference (M06 to M14)."""
    types = attributes.get(META_TYPES, {})
    if not isinstance(types, dict):
        problems.add(key, "meta_types", f"{META_TYPES} is {types!r}; an object of tags is expected")
        return {}, {}
    meta: dict[str, Any] = {}
    tags: dict[str, str] = {}
    for name, value in attributes.items():
        if name == META_TYPES:
            continue
        tag = types.get(name) if name in types else infer(value)
        if not isinstance(tag, str) or tag not in TAGS:
            problems.add(f"{key}/{name}", "meta_tag", f"the tag {tag!r} is none of the sixteen")
            continue
        try:
            meta[name] = decode(value, tag, f"{key}/{name}")
            tags[name] = tag
        except FormatError as error:
            problems.found.extend(error.problems)
    return meta, tags


def system_rows(store: Store, name: str) -> SystemRows | None:
    """Return row count and ids of a system block, reading nothing else; None when there is none."""
    key = join("system", name)
    node = get_group(store, key) if get_group(store, "system") is not None else None
    if node is None:
        return None
    count = read_count(node, key)
    array = get_array(store, join(key, "id"))
    return SystemRows(
        count, None if array is None else read_column(store, join(key, "id"), "id", array, count)
    )
