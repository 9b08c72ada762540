"""The pinned declaration of a trajectory: which blocks, columns and meta keys it may carry.

"The pinned declaration" of the ragged-trajectory chapter; checklist groups Q, K, L and T.
A schema is built from frames or declared name by name, frozen by the writer at its
door, and stored as the attribute ``sequence_schema``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from molrec_core._declaration import (
    NO_FILL,
    BlockSchema,
    ColumnSchema,
    MetaSchema,
    check_blocks,
    is_shape,
    read_structural_shape,
    read_targets,
)
from molrec_core._dtypes import (
    CANONICAL_META,
    COLUMN_DTYPES,
    RESERVED_BLOCKS,
    RESERVED_COLUMNS,
    TAGS,
    canonical_problem,
    dtype_name,
    name_problem,
    precision_problem,
)
from molrec_core._frame import Block, Frame
from molrec_core._typedjson import coerce, decode, encode, same
from molrec_core.errors import FormatError, Problems, SchemaError


class SequenceSchema:
    """The set of blocks, columns and meta keys of a trajectory.

    The ``declare_*`` methods change the schema in place and return it, so that
    calls chain. Reserved and malformed names are refused at once; rules between
    blocks (targets, alignment) by :meth:`check`, which the writer calls.

    Attributes
    ----------
    blocks : dict of str to BlockSchema
    meta : dict of str to MetaSchema
    frame_rows : dict of str to int
        Rows of each block in a representative frame (the largest seen): a hint for
        the writer's chunk extents, not stored.
    """

    def __init__(self) -> None:
        self.blocks: dict[str, BlockSchema] = {}
        self.meta: dict[str, MetaSchema] = {}
        self.frame_rows: dict[str, int] = {}
        self.extra: dict[str, Any] = {}

    @classmethod
    def from_frames(cls, frames: Frame | Iterable[Frame]) -> SequenceSchema:
        """Derive the declaration from frames.

        A column masked in any frame is nullable; the first stated precision, targets
        and structural shape become the declaration's (checklist N11, P15, T15). A key
        derived this way has no fill.

        Raises
        ------
        SchemaError
            Frames that disagree, or names the layout owns.
        """
        schema = cls()
        for frame in [frames] if isinstance(frames, Frame) else frames:
            for name, block in frame.items():
                schema._derive_block(name, block)
            for key, tag in frame.meta_tags.items():
                if key not in schema.meta:
                    schema.declare_meta(key, tag)
                elif schema.meta[key].tag != tag:
                    raise SchemaError.one(
                        f"trajectory/meta/{key}",
                        "meta_tag",
                        f"one frame says {schema.meta[key].tag}, another {tag}",
                    )
        return schema

    def _derive_block(self, name: str, block: Block) -> None:
        new = name not in self.blocks
        if new:
            self.declare_block(name)
        spec = self.blocks[name]
        if new and block.structural_shape is not None:
            spec.structural_shape = block.structural_shape
        for column, values in block.items():
            if new:
                self.declare_column(name, column, _dtype_of(values, f"{name}/{column}"), values.shape[1:])
            if column in block.validity and column in spec.columns:
                spec.columns[column].nullable = True
        for column, precision in block.precision.items():
            stated = spec.columns[column].precision if column in spec.columns else None
            if stated is None:
                self.declare_precision(name, column, precision)
            elif stated != precision:
                raise SchemaError.one(
                    f"trajectory/{name}/{column}",
                    "precision",
                    f"one frame says {stated!r}, another {precision!r}",
                )
        if block.targets and not spec.targets:
            for column, target in block.targets.items():
                self.declare_target(name, column, target)
        self.frame_rows[name] = max(self.frame_rows.get(name, 0), block.count)

    def declare_block(self, name: str, columns: Mapping[str, str] | None = None) -> SequenceSchema:
        """Declare block `name`, with `columns` given as {name: dtype}."""
        problem = name_problem(name, "block")
        if problem:
            raise SchemaError.one(f"trajectory/{name}", "bad_name", problem)
        if name in RESERVED_BLOCKS:
            raise SchemaError.one(
                f"trajectory/{name}",
                "reserved_name",
                f"{name!r} is a name of the layout; call the block otherwise",
            )
        self.blocks.setdefault(name, BlockSchema())
        for column, dtype in (columns or {}).items():
            self.declare_column(name, column, dtype)
        return self

    def declare_column(
        self, block: str, column: str, dtype: str, trailing: Iterable[int] = (), *, nullable: bool = False
    ) -> SequenceSchema:
        """Declare a column of one of the thirteen dtypes and its trailing (per-row) shape."""
        loc = f"trajectory/{block}/{column}"
        self.declare_block(block)
        shape = tuple(int(n) for n in trailing)
        problem = name_problem(column, "column")
        if problem:
            raise SchemaError.one(loc, "bad_name", problem)
        if column in RESERVED_COLUMNS:
            raise SchemaError.one(
                loc, "reserved_name", f"{column!r} is a name of the layout; call the column otherwise"
            )
        if dtype not in COLUMN_DTYPES:
            raise SchemaError.one(
                loc, "dtype", f"{dtype!r} is none of the column dtypes {', '.join(COLUMN_DTYPES)}"
            )
        problem = canonical_problem(column, dtype, shape)
        if problem:
            raise SchemaError.one(loc, "canonical_dtype", problem)
        self.blocks[block].columns[column] = ColumnSchema(dtype, shape, nullable)
        return self

    def declare_meta(self, key: str, tag: str, *, fill: Any = NO_FILL) -> SequenceSchema:
        """Declare a per-step meta key; with a `fill`, frames may omit it."""
        loc = f"trajectory/meta/{key}"
        problem = name_problem(key, "meta key")
        if problem:
            raise SchemaError.one(loc, "bad_name", problem)
        if tag not in TAGS:
            raise SchemaError.one(loc, "meta_tag", f"{tag!r} is none of the meta tags {', '.join(TAGS)}")
        if key in CANONICAL_META and tag != "f64":
            raise SchemaError.one(
                loc, "canonical_dtype", f"canonical meta key {key!r} is always f64, not {tag}"
            )
        if fill is not NO_FILL:
            if fill is None and tag != "json":
                raise SchemaError.one(loc, "meta_fill", "only a json key takes a null fill")
            fill = coerce(fill, tag, loc)
        self.meta[key] = MetaSchema(tag, fill)
        return self

    def declare_precision(self, block: str, column: str, precision: float) -> SequenceSchema:
        """Declare the precision of an f64 column, in record units."""
        spec = self._column(block, column)
        problem = precision_problem(precision, spec.dtype)
        if problem:
            raise SchemaError.one(f"trajectory/{block}/{column}", "precision", problem)
        spec.precision = float(precision)
        return self

    def declare_target(self, block: str, column: str, target: str) -> SequenceSchema:
        """Declare that a u64 column holds row numbers of `target` (``block`` or ``/section/block``)."""
        self._column(block, column)
        self.blocks[block].targets[column] = target
        return self

    def declare_aligned(self, block: str, target: str) -> SequenceSchema:
        """Declare that the rows of `block` are the rows of block `target`, one for one."""
        self.declare_block(block)
        self.blocks[block].aligned_with = target
        return self

    def declare_structural_shape(self, block: str, shape: Iterable[int]) -> SequenceSchema:
        """Declare the fixed shape whose product every update of `block` holds."""
        self.declare_block(block)
        self.blocks[block].structural_shape = tuple(int(n) for n in shape)
        return self

    def _column(self, block: str, column: str) -> ColumnSchema:
        spec = self.blocks.get(block)
        if spec is None or column not in spec.columns:
            raise SchemaError.one(
                f"trajectory/{block}/{column}",
                "undeclared_column",
                "declare the column before what qualifies it",
            )
        return spec.columns[column]

    def check(self) -> None:
        """Check the rules between blocks.

        Raises
        ------
        SchemaError
            All problems found.
        """
        problems = Problems()
        check_blocks(self.blocks, problems)
        if problems.errors:
            raise SchemaError(problems.errors)

    def to_json(self) -> dict[str, Any]:
        """Return the document stored as ``sequence_schema``; optional entries only when set (Q02)."""
        blocks = {name: block.to_json() for name, block in self.blocks.items()}
        meta: dict[str, Any] = {}
        for key, spec in self.meta.items():
            meta[key] = {"dtype": spec.tag}
            if spec.has_fill:
                meta[key]["fill"] = encode(spec.fill, spec.tag)
            meta[key] |= spec.extra
        return {"blocks": blocks, "meta": meta} | copy.deepcopy(self.extra)

    @classmethod
    def from_json(cls, document: object, loc: str = "trajectory") -> SequenceSchema:
        """Read the pinned declaration, checking every rule about it.

        Raises
        ------
        FormatError
            All problems found.
        """
        problems = Problems()
        schema = cls()
        if not isinstance(document, dict):
            problems.add(
                loc, "schema", f"sequence_schema is a {type(document).__name__}; an object is expected"
            )
            problems.raise_errors()
        assert isinstance(document, dict)
        for part in ("blocks", "meta"):
            if not isinstance(document.get(part, {}), dict):
                problems.add(loc, "schema", f"sequence_schema.{part} is not an object")
        problems.raise_errors()
        schema.extra = {key: value for key, value in document.items() if key not in {"blocks", "meta"}}
        for name, entry in document.get("blocks", {}).items():
            _collect(problems, schema._read_block, name, entry)
        for key, entry in document.get("meta", {}).items():
            _collect(problems, schema._read_meta, key, entry)
        if not problems.errors:
            check_blocks(schema.blocks, problems)
        problems.raise_errors()
        return schema

    def _read_block(self, name: str, entry: object) -> None:
        loc = f"trajectory/{name}"
        columns = entry.get("columns") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(columns, dict):
            raise SchemaError.one(loc, "schema", "a declared block is an object with an object 'columns'")
        self.declare_block(name)
        block = self.blocks[name]
        block.extra = {k: v for k, v in entry.items() if k not in _BLOCK_KEYS}
        for column, spec in columns.items():
            self._read_column(name, column, spec)
        if "structural_shape" in entry:
            block.structural_shape = read_structural_shape(entry["structural_shape"], loc)
        if "targets" in entry:
            block.targets = read_targets(entry["targets"], loc)
        aligned = entry.get("aligned_with")
        if aligned is not None and not isinstance(aligned, str):
            raise SchemaError.one(
                loc, "aligned_target", f"aligned_with is {aligned!r}; a block name is expected"
            )
        block.aligned_with = aligned

    def _read_column(self, block: str, column: str, entry: object) -> None:
        loc = f"trajectory/{block}/{column}"
        if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
            raise SchemaError.one(loc, "schema", "a declared column is an object with a string 'dtype'")
        trailing = entry.get("trailing", [])
        if not is_shape(trailing):
            raise SchemaError.one(
                loc, "schema", f"trailing is {trailing!r}; a list of integers >= 0 is expected"
            )
        nullable = entry.get("nullable", False)
        if not isinstance(nullable, bool):
            raise SchemaError.one(loc, "schema", f"nullable is {nullable!r}; true or false is expected")
        self.declare_column(block, column, entry["dtype"], trailing, nullable=nullable)
        if "precision" in entry:
            self.declare_precision(block, column, entry["precision"])
        self.blocks[block].columns[column].extra = {k: v for k, v in entry.items() if k not in _COLUMN_KEYS}

    def _read_meta(self, key: str, entry: object) -> None:
        loc = f"trajectory/meta/{key}"
        if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
            raise SchemaError.one(loc, "schema", "a declared meta key is an object with a string 'dtype'")
        self.declare_meta(key, entry["dtype"])
        spec = self.meta[key]
        if "fill" in entry:
            if entry["fill"] is None and spec.tag != "json":
                raise SchemaError.one(loc, "meta_fill", "only a json key takes a null fill")
            try:
                spec.fill = decode(entry["fill"], spec.tag, loc)
            except FormatError as error:
                raise SchemaError.one(loc, "meta_fill", error.problems[0].message) from None
        spec.extra = {k: v for k, v in entry.items() if k not in {"dtype", "fill"}}

    def copy(self) -> SequenceSchema:
        """Return an independent copy; later edits of one do not touch the other."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SequenceSchema:
        """Copy declarations; the no-fill mark keeps its identity."""
        new = SequenceSchema()
        new.blocks = {
            name: replace(
                block,
                columns={c: replace(spec, extra=dict(spec.extra)) for c, spec in block.columns.items()},
                targets=dict(block.targets),
                extra=copy.deepcopy(block.extra, memo),
            )
            for name, block in self.blocks.items()
        }
        new.meta = {
            key: replace(spec, fill=copy.deepcopy(spec.fill, memo) if spec.has_fill else spec.fill)
            for key, spec in self.meta.items()
        }
        new.frame_rows = dict(self.frame_rows)
        new.extra = copy.deepcopy(self.extra, memo)
        return new

    def __eq__(self, other: object) -> bool:
        """Compare declarations exactly; precision and fills count (checklist P16, J09)."""
        return same(self.to_json(), other.to_json()) if isinstance(other, SequenceSchema) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # schemas are edited in place

    def __repr__(self) -> str:
        """Return the blocks with their columns, and the meta keys."""
        blocks = "; ".join(f"{name}: {', '.join(block.columns)}" for name, block in self.blocks.items())
        return f"SequenceSchema({blocks} | meta: {', '.join(self.meta)})"


_BLOCK_KEYS = frozenset({"columns", "structural_shape", "targets", "aligned_with"})
_COLUMN_KEYS = frozenset({"dtype", "trailing", "nullable", "precision"})


def _dtype_of(values: Any, loc: str) -> str:
    name = dtype_name(values.dtype)
    if name is None:
        raise SchemaError.one(loc, "dtype", f"dtype {values.dtype} is none of the column dtypes")
    return name


def _collect(problems: Problems, read: Any, name: str, entry: object) -> None:
    try:
        read(name, entry)
    except (SchemaError, FormatError) as error:
        problems.found.extend(error.problems)
