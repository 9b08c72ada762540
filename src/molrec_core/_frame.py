"""The values of a record: :class:`Frame` and :class:`Block`; the cell is in :mod:`molrec_core._box`.

A frame is a mapping of blocks with a cell and a typed meta document; a block is a
mapping of columns that share one row count; a box holds lattice vectors as columns.
They know nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from molrec_core._box import Box
from molrec_core._dtypes import TAGS, as_column, name_problem, precision_problem, tag_of
from molrec_core._typedjson import coerce, same
from molrec_core.errors import SchemaError

Array = np.ndarray[Any, Any]


class Block(Mapping[str, Array]):
    """A mapping of columns that share one row count.

    Parameters
    ----------
    columns : mapping of str to array_like
        Arrays of shape (count,) + trailing in one of the thirteen column dtypes.
    validity : mapping of str to (count,) array_like of bool, optional
        Masks of nullable columns; an all-true mask is the same as none.
    precision : mapping of str to float, optional
        Declared precision of float64 columns, in record units.
    targets : mapping of str to str, optional
        Row references: column -> ``block`` or ``/section/block``.
    structural_shape : sequence of int, optional
        Shape whose product is `count` (a volumetric block).
    count : int, optional
        Row count; needed only for a block without columns.
    attributes : mapping, optional
        A producer's own block attributes (frame-shaped sections only).

    Raises
    ------
    SchemaError
        Row counts differ, a name or dtype is not allowed, a mask or precision does not fit.
    """

    __slots__ = ("_columns", "attributes", "count", "precision", "structural_shape", "targets", "validity")

    _columns: dict[str, Array]
    validity: dict[str, Array]
    precision: dict[str, float]
    targets: dict[str, str]
    structural_shape: tuple[int, ...] | None
    count: int
    attributes: dict[str, Any]

    def __init__(
        self,
        columns: Mapping[str, object] | None = None,
        *,
        validity: Mapping[str, object] | None = None,
        precision: Mapping[str, float] | None = None,
        targets: Mapping[str, str] | None = None,
        structural_shape: object = None,
        count: int | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self._columns = {}
        for name, values in (columns or {}).items():
            problem = name_problem(name, "column")
            if problem:
                raise SchemaError.one(str(name), "bad_name", problem)
            array = as_column(values, name, name)
            if array.ndim == 0:
                raise SchemaError.one(
                    name, "column_shape", "a column needs a leading row axis; found a single value"
                )
            if count is None:
                count = array.shape[0]
            elif array.shape[0] != count:
                raise SchemaError.one(
                    name, "row_count_mismatch", f"{array.shape[0]} rows where the block has {count}"
                )
            self._columns[name] = array
        self.count = _count(count)
        self.validity = self._masks(validity) if validity else {}
        self.precision = dict(precision) if precision else {}
        self.targets = dict(targets) if targets else {}
        self.structural_shape = _structural_shape(structural_shape, self.count)
        self.attributes = dict(attributes) if attributes else {}
        for name, value in self.precision.items():
            column = self._columns.get(name)
            kind = "f64" if column is not None and column.dtype == np.float64 else "other"
            problem = f"no column {name!r}" if column is None else precision_problem(value, kind)
            if problem:
                raise SchemaError.one(name, "precision", problem)

    def _masks(self, validity: Mapping[str, object]) -> dict[str, Array]:
        masks: dict[str, Array] = {}
        for name, values in validity.items():
            mask = np.asarray(values)
            if mask.size == 0 and mask.ndim == 1:
                mask = mask.astype(np.bool_)
            if name not in self._columns:
                raise SchemaError.one(str(name), "mask_without_column", "a mask names no column of the block")
            if mask.dtype != np.bool_:
                raise SchemaError.one(name, "mask_dtype", f"a mask is {mask.dtype}; bool is expected")
            if mask.shape != (self.count,):
                raise SchemaError.one(
                    name, "mask_length", f"a mask of shape {mask.shape} for {self.count} rows"
                )
            if not mask.all():
                masks[name] = mask
        return masks

    @classmethod
    def _trusted(
        cls,
        columns: dict[str, Array],
        count: int,
        validity: dict[str, Array] | None = None,
        structural_shape: tuple[int, ...] | None = None,
    ) -> Block:
        """Build a block from arrays the reader has checked already."""
        block = cls.__new__(cls)
        block._columns = columns
        block.count = count
        block.validity = {} if validity is None else validity
        block.precision = {}
        block.targets = {}
        block.structural_shape = structural_shape
        block.attributes = {}
        return block

    def __getitem__(self, name: str) -> Array:
        """Return the column `name`, shape (count,) + trailing."""
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the column names."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns; the number of rows is `count`."""
        return len(self._columns)

    def __bool__(self) -> bool:
        """Return True: without content it is something still."""
        return True

    def __eq__(self, other: object) -> bool:
        """Compare blocks exactly and type-strictly, masks and declarations included."""
        if not isinstance(other, Block):
            return NotImplemented
        return (
            self.count == other.count
            and self._columns.keys() == other._columns.keys()
            and all(same_array(self[name], other[name]) for name in self)
            and self.validity.keys() == other.validity.keys()
            and all(np.array_equal(self.validity[name], other.validity[name]) for name in self.validity)
            and self.precision == other.precision
            and self.targets == other.targets
            and self.structural_shape == other.structural_shape
            and same(self.attributes, other.attributes)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays are mutable

    def __repr__(self) -> str:
        """Return row count and columns."""
        return f"Block({self.count} rows: {', '.join(self._columns)})"


def same_array(left: Array, right: Array) -> bool:
    """Whether two columns hold the same dtype, shape and bits."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind == "T":
        return bool((left == right).all())
    return left.tobytes() == right.tobytes()


def _count(count: object) -> int:
    if count is None:
        return 0
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise SchemaError.one("", "count", f"count is {count!r}; an integer >= 0 is expected")
    return int(count)


def _structural_shape(shape: object, count: int) -> tuple[int, ...] | None:
    if shape is None:
        return None
    items: list[Any] = list(shape) if isinstance(shape, list | tuple | np.ndarray) else [shape]
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in items):
        raise SchemaError.one(
            "", "structural_shape", f"structural_shape is {shape!r}; integers >= 0 are expected"
        )
    product = 1
    for n in items:
        product *= int(n)
    if product != count:
        raise SchemaError.one(
            "",
            "structural_shape",
            f"structural_shape {shape!r} holds {product} rows where the block has {count}",
        )
    return tuple(int(n) for n in items)


class Frame(Mapping[str, Block]):
    """A mapping of blocks, with a cell and a typed meta document.

    Parameters
    ----------
    blocks : mapping of str to Block or mapping of columns
        A plain mapping of columns becomes a :class:`Block`.
    box : Box, optional
        The cell; None states none (in a trajectory the previous one carries forward).
    meta : mapping of str to value, optional
        The frame's meta document.
    meta_tags : mapping of str to str, optional
        Tags of meta keys; the others follow from their value.

    Raises
    ------
    SchemaError
        A name that is not allowed, a value that is not of its tag, a tag without its key.
    """

    __slots__ = ("_blocks", "box", "meta", "meta_tags")

    _blocks: dict[str, Block]
    box: Box | None
    meta: dict[str, Any]
    meta_tags: dict[str, str]

    def __init__(
        self,
        blocks: Mapping[str, Block | Mapping[str, object]] | None = None,
        *,
        box: Box | None = None,
        meta: Mapping[str, Any] | None = None,
        meta_tags: Mapping[str, str] | None = None,
    ) -> None:
        self._blocks = {}
        for name, block in (blocks or {}).items():
            problem = name_problem(name, "block")
            if problem:
                raise SchemaError.one(str(name), "bad_name", problem)
            self._blocks[name] = block if isinstance(block, Block) else _named_block(name, block)
        if box is not None and not isinstance(box, Box):
            raise SchemaError.one("box", "box_shape", f"box is a {type(box).__name__}; a Box is expected")
        self.box = box
        self.meta = {}
        self.meta_tags = {}
        if meta or meta_tags:
            self._set_meta(meta or {}, meta_tags or {})

    def _set_meta(self, meta: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        for key in tags:
            if key not in meta:
                raise SchemaError.one(
                    f"meta/{key}", "meta_tag", "a tag is given for a key the document does not have"
                )
            if tags[key] not in TAGS:
                raise SchemaError.one(f"meta/{key}", "meta_tag", f"{tags[key]!r} is none of the meta tags")
        for key, value in meta.items():
            problem = name_problem(key, "meta key")
            if problem:
                raise SchemaError.one(f"meta/{key}", "bad_name", problem)
            tag = tags.get(key) or tag_of(value, f"meta/{key}")
            self.meta[key] = coerce(value, tag, f"meta/{key}")
            self.meta_tags[key] = tag

    @classmethod
    def _trusted(
        cls, blocks: dict[str, Block], box: Box | None, meta: dict[str, Any], meta_tags: dict[str, str]
    ) -> Frame:
        """Build a frame from parts the reader has checked already."""
        frame = cls.__new__(cls)
        frame._blocks = blocks
        frame.box = box
        frame.meta = meta
        frame.meta_tags = meta_tags
        return frame

    def __getitem__(self, name: str) -> Block:
        """Return the block `name`."""
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the block names."""
        return iter(self._blocks)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._blocks)

    def __bool__(self) -> bool:
        """Return True: without content it is something still."""
        return True

    def __eq__(self, other: object) -> bool:
        """Compare frames exactly and type-strictly."""
        if not isinstance(other, Frame):
            return NotImplemented
        return (
            self._blocks == other._blocks
            and self.box == other.box
            and self.meta_tags == other.meta_tags
            and same(self.meta, other.meta)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays are mutable

    def __repr__(self) -> str:
        """Return the blocks with their row counts, the cell and the meta keys."""
        blocks = ", ".join(f"{name}[{block.count}]" for name, block in self._blocks.items())
        box = f", {self.box!r}" if self.box is not None else ""
        meta = f", meta: {', '.join(self.meta)}" if self.meta else ""
        return f"Frame({blocks}{box}{meta})"


def _named_block(name: str, columns: Mapping[str, object]) -> Block:
    try:
        return Block(columns)
    except SchemaError as error:
        first = error.problems[0]
        raise SchemaError.one(f"{name}/{first.loc}", first.kind, first.message) from None
