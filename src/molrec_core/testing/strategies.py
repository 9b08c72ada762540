"""Hypothesis strategies for frames, declarations and whole runs.

:func:`runs` draws a declaration and the frames appended under it, with everything the
format knows in them: ragged, emptied, absent and carried-forward blocks, null rows,
aligned blocks, row references, precisions, cells that change or are undefined, meta of
every tag, steps and times that are a progression or cease to be one. Structure is
drawn and shrinks; values come from a generator seeded by a draw.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from molrec_core import Block, Box, Frame, SequenceSchema
from molrec_core._declaration import ColumnSchema, MetaSchema
from molrec_core._dtypes import CANONICAL, COLUMN_DTYPES, TAGS
from molrec_core.testing._run import Run

__all__ = [
    "Run",
    "boxes",
    "column_schemas",
    "meta_value",
    "runs",
    "schemas",
    "steps_of",
    "times_of",
    "values_of",
]

Array = np.ndarray[Any, Any]
Draw = Any

_STRINGS = ("", "H", "O", "CA", "日本", "Å", "a b\n", "𐌰𐌱", "x" * 40)
_FLOATS = np.array(
    [0.0, -0.0, 1.0, -1e-4, np.nan, np.inf, -np.inf, 5e-324, 1.7976931348623157e308, 2.0**43 + 2**-9]
)
_TRAILING = ((), (), (), (3,), (2, 2), (1,))
_PRECISIONS = (1e-3, 0.01, 0.37, 0.5, 5.0, 2.0**-20)
_CANONICAL = {"atoms": ("x", "charge", "element", "id", "ix", "free", "formal_charge", "type_id")}
_DOCUMENTS: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    1.0,
    -2.5,
    "",
    "é",
    [],
    {},
    {"a": [1, {"b": None}]},
    [1.5, "x", False],
)


# -- values


def values_of(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return values of a column dtype: ordinary ones, extremes, and now and then all fill."""
    numpy_dtype = COLUMN_DTYPES[dtype][0]
    kind = numpy_dtype.kind
    if rng.random() < 0.15:
        return np.full(shape, "" if kind == "T" else 0, numpy_dtype)
    if kind == "T":
        return np.array(
            [_STRINGS[i] for i in rng.integers(0, len(_STRINGS), int(np.prod(shape)))], numpy_dtype
        ).reshape(shape)
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        bounds = np.iinfo(numpy_dtype)
        drawn = rng.integers(bounds.min, bounds.max, shape, numpy_dtype, endpoint=True)
        extreme = numpy_dtype.type((bounds.min, bounds.max, 0)[rng.integers(3)])
        return np.where(rng.random(shape) < 0.3, extreme, drawn)
    drawn = _floats(rng, shape)
    if kind == "c":
        with np.errstate(over="ignore"):
            return (drawn + np.where(np.isfinite(drawn), 1j, 0) * rng.normal(size=shape)).astype(numpy_dtype)
    return drawn


def _floats(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = rng.normal(scale=10.0, size=shape)
    return np.where(rng.random(shape) < 0.2, _FLOATS[rng.integers(0, len(_FLOATS), shape)], drawn)


def meta_value(rng: np.random.Generator, tag: str) -> Any:
    """Return a value of a meta tag in its in-memory form."""
    if tag == "json":
        return _DOCUMENTS[rng.integers(0, len(_DOCUMENTS))]
    spec = TAGS[tag]
    drawn = values_of(rng, spec.element, spec.trailing)
    return drawn if spec.width else drawn.item()


def boxes(rng: np.random.Generator, *, defined: bool) -> Box:
    """Return a cell of positive volume, or an origin without one."""
    origin = rng.normal(size=3) if rng.random() < 0.5 else None
    if not defined:
        return Box(np.eye(3), origin=origin, cell_defined=False)
    vectors = np.diag(rng.uniform(1, 30, 3)) + np.triu(rng.normal(size=(3, 3)), 1) * (rng.random() < 0.5)
    boundary = rng.random(3) < 0.5 if rng.random() < 0.5 else None
    return Box(vectors, origin=origin, boundary=boundary)


# -- declarations


@st.composite
def column_schemas(draw: Draw, *, strings_with_axes: bool = True) -> ColumnSchema:
    """Draw the declaration of a column."""
    dtype = draw(st.sampled_from([*COLUMN_DTYPES, "f64", "f64"]))
    trailing = draw(st.sampled_from(_TRAILING))
    if dtype == "string" and not strings_with_axes:
        trailing = ()
    precision = draw(st.sampled_from([None, *_PRECISIONS])) if dtype == "f64" else None
    return ColumnSchema(dtype, trailing, draw(st.booleans()), precision)


@st.composite
def schemas(draw: Draw, *, strings_with_axes: bool = True) -> SequenceSchema:
    """Draw a declaration: up to three free blocks, an aligned one, a referring one, meta keys."""
    schema = SequenceSchema()
    for name in draw(
        st.lists(st.sampled_from(["atoms", "bonds", "grid", "é b"]), min_size=1, max_size=3, unique=True)
    ):
        schema.declare_block(name)
        columns = schema.blocks[name].columns
        for column in draw(st.lists(st.sampled_from(_CANONICAL.get(name, ("q",))), max_size=3, unique=True)):
            columns[column] = ColumnSchema(CANONICAL.get(column, "f64"), (), draw(st.booleans()), None)
        for i in range(draw(st.integers(0, 6))):
            columns[f"c{i}"] = draw(column_schemas(strings_with_axes=strings_with_axes))
        if name == "grid":
            schema.declare_structural_shape(name, draw(st.sampled_from([(2, 2), (3,), (1, 2, 2)])))
    first = next(iter(schema.blocks))
    if draw(st.booleans()):
        schema.declare_column("labels", "label", "string", nullable=draw(st.booleans())).declare_aligned(
            "labels", first
        )
    if draw(st.booleans()):
        schema.declare_column("picks", "row", "u64", nullable=draw(st.booleans()))
        schema.declare_target("picks", "row", draw(st.sampled_from([first, "/system/sites"])))
    for tag in draw(st.permutations(sorted(TAGS)))[: draw(st.integers(0, 16))]:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        key = f"k_{tag}"
        schema.meta[key] = MetaSchema(tag)
        if draw(st.booleans()):
            schema.declare_meta(key, tag, fill=meta_value(rng, tag))
    return schema


# -- runs


@st.composite
def steps_of(draw: Draw, count: int) -> tuple[int, ...] | None:
    """Draw step numbers: none, a progression, one that breaks, or any."""
    kind = draw(st.sampled_from(["none", "progression", "break", "any"]))
    if kind == "none":
        return None
    start, stride = draw(st.integers(-(2**40), 2**40)), draw(st.integers(1, 10**6))
    steps = [start + i * stride for i in range(count)]
    if kind == "break" and count > 2:
        at = draw(st.integers(2, count - 1))
        steps[at:] = [step + 1 for step in steps[at:]]
    if kind == "any":
        gaps = draw(st.lists(st.integers(1, 2**30), min_size=count, max_size=count))
        steps = [start + sum(gaps[:i]) for i in range(count)]
    return tuple(steps)


@st.composite
def times_of(draw: Draw, count: int) -> tuple[float, ...] | None:
    """Draw times: none, exactly a progression, accumulated, or any, non-finite ones included."""
    kind = draw(st.sampled_from(["none", "progression", "accumulated", "any"]))
    if kind == "none":
        return None
    start, stride = (
        draw(st.sampled_from([0.0, -0.0, 0.1, 1e9])),
        draw(st.sampled_from([0.5, 0.1, 1e-9, -2.0])),
    )
    if kind == "progression":
        stride = (start + stride) - start
        return tuple(start + float(i) * stride for i in range(count))
    if kind == "accumulated":
        times = [start]
        while len(times) < count:
            times.append(times[-1] + stride)
        return tuple(times[:count])
    return tuple(draw(st.lists(st.floats(allow_nan=True, width=64), min_size=count, max_size=count)))


@st.composite
def runs(draw: Draw, *, max_frames: int = 10, strings_with_axes: bool = True) -> Run:
    """Draw a declaration, the frames under it, steps and times, and sometimes a system."""
    schema = draw(schemas(strings_with_axes=strings_with_axes))
    count = draw(st.integers(0, max_frames))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    system = None
    if any(t.startswith("/system") for b in schema.blocks.values() for t in b.targets.values()) or draw(
        st.booleans()
    ):
        system = Frame({"sites": {"kind": ["a", "b", "c"]}}, meta={"n": 3})
    plan = {name: draw(st.sampled_from(["regular", "constant", "any"])) for name in schema.blocks}
    rows = {name: draw(st.integers(1, 5)) for name in schema.blocks}
    cells = draw(st.sampled_from(["none", "fixed", "changing", "late", "undefined"]))
    story = _Story(schema, rng, plan, rows)
    frames = []
    for i in range(count):
        blocks = {name: story.block(name, draw) for name in schema.blocks}
        meta = {
            key: meta_value(rng, spec.tag)
            for key, spec in schema.meta.items()
            if not spec.has_fill or draw(st.booleans())
        }
        present = {name: block for name, block in blocks.items() if block is not None}
        tags = {key: schema.meta[key].tag for key in meta}
        frames.append(Frame(present, box=story.box(cells, i, draw), meta=meta, meta_tags=tags))
    return Run(schema, tuple(frames), draw(steps_of(count)), draw(times_of(count)), system)


class _Story:
    """The frames so far, as far as the next one depends on them."""

    def __init__(
        self, schema: SequenceSchema, rng: np.random.Generator, plan: dict[str, str], rows: dict[str, int]
    ) -> None:
        self.schema = schema
        self.rng = rng
        self.plan = plan
        self.rows = rows
        self.last: dict[str, Block] = {}
        self.cell: Box | None = None

    def block(self, name: str, draw: Draw) -> Block | None:
        """Draw what the next frame presents of a block; None omits it."""
        spec = self.schema.blocks[name]
        last = self.last.get(name)
        action = self._action(name, last, draw)
        if spec.aligned_with is not None:
            count = self._rows_of(spec.aligned_with)
            if count is None:
                return None
            if last is not None and last.count != count:
                action = "new"
        elif spec.structural_shape is not None:
            count = math.prod(spec.structural_shape)
        elif action == "empty":
            count = 0
        else:
            count = self.rows[name] if self.plan[name] != "any" else draw(st.integers(0, 5))
        if spec.targets and not self._fits(name, last):
            action = "new"
        if action == "omit" or (action == "same" and last is None):
            return None
        if action == "same":
            return last
        block = self.last[name] = self._new(name, count)
        return block

    def _action(self, name: str, last: Block | None, draw: Draw) -> str:
        if self.plan[name] == "regular":
            return "new"
        if self.plan[name] == "constant":
            return "new" if last is None else draw(st.sampled_from(["omit", "same"]))
        action: str = draw(st.sampled_from(["new", "new", "same", "omit", "omit", "empty"]))
        return action

    def _rows_of(self, target: str) -> int | None:
        if target.startswith("/"):
            return 3
        return self.last[target].count if target in self.last else None

    def _fits(self, name: str, last: Block | None) -> bool:
        """Whether the carried-forward references still lie within their target."""
        for column, target in self.schema.blocks[name].targets.items() if last is not None else ():
            assert last is not None
            mask = last.validity.get(column, np.ones(last.count, bool))
            values = last[column][mask]
            if len(values) and values.max() >= (self._rows_of(target) or 0):
                return False
        return True

    def _new(self, name: str, count: int) -> Block:
        spec = self.schema.blocks[name]
        for target in spec.targets.values():
            if not self._rows_of(target):
                count = 0
        columns, validity = {}, {}
        for column, c in spec.columns.items():
            columns[column] = values_of(self.rng, c.dtype, (count, *c.trailing))
            if column in spec.targets and count:
                columns[column] = self.rng.integers(0, self._rows_of(spec.targets[column]), count, np.uint64)
            if c.nullable and self.rng.random() < 0.6:
                validity[column] = self.rng.random(count) < 0.6
        return Block(columns, validity=validity, structural_shape=spec.structural_shape, count=count)

    def box(self, kind: str, i: int, draw: Draw) -> Box | None:
        """Draw the cell the next frame states; None states none."""
        if kind == "none" or (kind == "late" and i < 2):
            return None
        if self.cell is None or (kind != "fixed" and draw(st.booleans())):
            self.cell = boxes(self.rng, defined=kind != "undefined")
        return draw(st.sampled_from([self.cell, self.cell, None])) if i else self.cell
