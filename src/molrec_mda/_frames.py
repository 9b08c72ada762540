"""Timesteps of MDAnalysis to frames of a record.

The declaration is fixed at the first timestep; what a later one has beyond it goes to
that frame's ``info`` (section 1 of the host mapping).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from molrec_core import Block, Box, Frame, SequenceSchema
from molrec_core.hosts import (
    FORCES,
    POSITIONS,
    SHARED_TAGS,
    VELOCITIES,
    FrameInfo,
    StepNumbers,
    array_name,
    cell_vectors,
    declare_array,
    declare_shared,
    host_name,
    own_array,
    own_block,
    store_cell,
    store_name,
    to_column,
    to_scalar,
)
from molrec_core.units import Conversion
from molrec_mda._data import CANONICAL_META, RESERVED, meta_factor

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray[Any, Any]
Presence = bool | Literal["auto"]

_OWN = {"velocities": VELOCITIES, "forces": FORCES}
_FILLS: dict[str, Any] = {"bool": False, "string": "", "f64": float("nan")}
_WIDTHS = {"bool3": 3, "i32x3": 3, "i64x3": 3, "u32x3": 3, "u64x3": 3, "f64x3": 3, "f64x6": 6, "f64x9": 9}


def _fill(tag: str) -> Any:
    """Return what stands where a frame lacks a declared key; ``info`` says that it does."""
    if tag in _WIDTHS:
        return [_FILLS.get({"b": "bool", "f": "f64"}.get(tag[0], ""), 0)] * _WIDTHS[tag]
    return _FILLS.get(tag, 0)


def knows_time(ts: Any) -> bool:
    """Whether the source of a timestep knows its time; MDAnalysis else counts frames of 1 ps."""
    if "time" in ts.data:
        return True
    link = getattr(ts, "_reader", None)
    reader = None if link is None else link()
    told = getattr(reader, "has_times", None)
    return bool(told) if told is not None else "dt" in ts.data or hasattr(reader, "_get_dt")


@dataclass(slots=True)
class Pinned:
    """A key of ``ts.data`` that has a typed place: its stored name, tag, dtype to give back, and factor."""

    stored: str
    tag: str
    host_dtype: str | None
    factor: float


class FrameBuilder:
    """Builds the frames of one record.

    Parameters
    ----------
    schema : SequenceSchema
        The record's declaration.
    host_dtypes : dict of str to str
        The record's ``meta.host_dtypes``.
    conversion : Conversion
        From the units of MDAnalysis to the record's.
    times : bool
        Whether the record holds times.
    steps : StepNumbers
    """

    def __init__(
        self,
        schema: SequenceSchema,
        host_dtypes: Mapping[str, str],
        conversion: Conversion,
        *,
        times: bool,
        steps: StepNumbers,
    ) -> None:
        self.schema = schema
        self.times = times
        self.steps = steps
        self._conversion = conversion
        atoms = schema.blocks["atoms"].columns
        self.columns = {name: columns for name, columns in _OWN.items() if set(columns) <= atoms.keys()}
        self.own = {n: c for n, c in _OWN.items() if n in schema.blocks and n not in self.columns}
        self._shown = dict.fromkeys(self.own, False)
        self._factors = {"velocities": conversion.velocity, "forces": conversion.force}
        self._keys = {
            _data_name(key): Pinned(
                key, spec.tag, host_dtypes.get(f"trajectory/meta/{key}"), meta_factor(key, conversion)
            )
            for key, spec in schema.meta.items()
            if key not in SHARED_TAGS
        }
        self._arrays = {
            name: host_dtypes.get(f"trajectory/{block}/value")
            for block in schema.blocks
            if (name := array_name(block)) is not None
        }
        self._cell: tuple[bytes | None, Any] = (b"", None)

    @classmethod
    def start(
        cls,
        ts: Any,
        rows: Array | None,
        host_dtypes: dict[str, str],
        *,
        velocities: Presence = "auto",
        forces: Presence = "auto",
        times: Presence = "auto",
    ) -> FrameBuilder:
        """Declare a new record from its first timestep.

        Parameters
        ----------
        ts : Timestep
        rows : (n,) array of int, optional
            The atoms that are written; all by default.
        host_dtypes : dict of str to str
            Filled in place.
        velocities, forces : bool or "auto"
            True: columns of ``atoms``, on every frame. "auto": blocks of their own, where
            a frame has them. False: not written.
        times : bool or "auto"
            "auto": where the source knows them.
        """
        schema = SequenceSchema()
        columns = [*POSITIONS]
        for wanted, names in ((velocities, VELOCITIES), (forces, FORCES)):
            columns += names if wanted is True else ()
        schema.declare_block("atoms", dict.fromkeys(columns, "f64"))
        declare_shared(schema, velocities=velocities == "auto", forces=forces == "auto")
        for key, value in ts.data.items():
            if key in RESERVED:
                continue
            scalar = to_scalar(value) if isinstance(key, str) else None
            if scalar is not None:
                canonical = key in CANONICAL_META and scalar.tag == "f64"
                stored = key if canonical else store_name(key, "meta")
                schema.declare_meta(stored, scalar.tag, fill=_fill(scalar.tag))
                if scalar.host_dtype is not None:
                    host_dtypes[f"trajectory/meta/{stored}"] = scalar.host_dtype
            elif isinstance(key, str) and _per_atom(value, ts.n_atoms):
                column = to_column(value if rows is None else value[rows], key)
                declare_array(schema, key, column, host_dtypes=host_dtypes)
        with_times = knows_time(ts) if times == "auto" else times
        return cls(schema, host_dtypes, Conversion(), times=with_times, steps=StepNumbers())

    def build(self, ts: Any, rows: Array | None = None) -> tuple[Frame, int, float | None]:
        """Return a timestep as a frame, with its step and its time in record units.

        Raises
        ------
        NoDataError
            The timestep has no positions.
        ValueError
            It has no velocities or forces where the record has columns for them.
        TypeError
            A value of ``ts.data`` that does not come back exactly, naming it.
        """
        info = FrameInfo()
        meta: dict[str, Any] = {}
        atoms = _split(ts.positions, rows, POSITIONS, self._conversion.length)
        blocks: dict[str, Block] = {}
        for name, columns in self.columns.items():
            if not getattr(ts, f"has_{name}"):
                msg = f"frame {ts.frame} has no {name}, and the record has columns for them; write it with {name}='auto'"
                raise ValueError(msg)
            atoms |= _split(getattr(ts, name), rows, columns, self._factors[name])
        blocks["atoms"] = Block(atoms)
        for name, columns in self.own.items():
            if getattr(ts, f"has_{name}"):
                blocks[name] = Block(_split(getattr(ts, name), rows, columns, self._factors[name]))
                self._shown[name] = True
            elif self._shown[name]:
                # Emptied once; the emptied block carries forward.
                blocks[name] = own_block(columns, None)
                self._shown[name] = False
        box = self._box(ts.dimensions, meta, info)
        if len(ts.data) > 0:
            self._take_data(ts, rows, meta, info, blocks)
        step, source = self.steps.store(_step(ts))
        if source is not None:
            meta["source_step"] = source
        document = info.to_json()
        if document is not None:
            meta["info"] = document
        tags = {key: SHARED_TAGS.get(key) or self.schema.meta[key].tag for key in meta}
        time = ts.time * self._conversion.time if self.times else None
        return Frame(blocks, box=box, meta=meta, meta_tags=tags), step, time

    def _box(self, dimensions: Array | None, meta: dict[str, Any], info: FrameInfo) -> Box | None:
        key = None if dimensions is None else dimensions.tobytes()
        if key != self._cell[0]:
            self._cell = (key, self._store_cell(dimensions))
        stored = self._cell[1]
        meta |= stored.meta
        info.own |= stored.own
        box: Box | None = stored.box
        return box

    def _store_cell(self, dimensions: Array | None) -> Any:
        if dimensions is None:
            return store_cell(None)
        exact = np.array(dimensions, dtype=np.float64)
        exact[:3] *= self._conversion.length
        vectors = cell_vectors(exact[:3], exact[3:])
        return store_cell(vectors, as_given=exact if vectors is None else None)

    def _take_data(
        self, ts: Any, rows: Array | None, meta: dict[str, Any], info: FrameInfo, blocks: dict[str, Block]
    ) -> None:
        """Place each key of ``ts.data``: a typed key, a block of its own, or ``info``."""
        arrays = {}
        for key, value in ts.data.items():
            if key in RESERVED:
                continue
            pinned = self._keys.get(key)
            scalar = to_scalar(value)
            if (
                pinned is not None
                and scalar is not None
                and (scalar.tag, scalar.host_dtype) == (pinned.tag, pinned.host_dtype)
            ):
                meta[pinned.stored] = scalar.value if pinned.factor == 1.0 else scalar.value * pinned.factor
            elif scalar is None and _per_atom(value, ts.n_atoms):
                arrays[key] = value if rows is None else value[rows]
            else:
                info.values[key] = value
        info.missing += [p.stored for p in self._keys.values() if p.stored not in meta]
        for name, host_dtype in self._arrays.items():
            column = to_column(arrays[name], name) if name in arrays else None
            spec = self.schema.blocks[_block_of(name, self.schema)].columns["value"]
            fits = (
                column is not None
                and (column.host_dtype, column.values.shape[1:]) == (host_dtype, spec.trailing)
                and (column.validity is None or spec.nullable)
            )
            if fits:
                arrays.pop(name)
            blocks[_block_of(name, self.schema)] = own_array(self.schema, name, column if fits else None)
        info.arrays |= arrays


def _block_of(name: str, schema: SequenceSchema) -> str:
    return next(block for block in schema.blocks if array_name(block) == name)


def _data_name(stored: str) -> str:
    return stored if host_name(stored, "meta") is None else str(host_name(stored, "meta"))


def _per_atom(value: Any, n_atoms: int) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == n_atoms


def _step(ts: Any) -> int | None:
    step = ts.data.get("step")
    return int(step) if isinstance(step, int | np.integer) else None


def _split(values: Array, rows: Array | None, names: tuple[str, ...], factor: float) -> dict[str, Array]:
    """Return the three columns of an (n, 3) array in float64."""
    columns = np.empty((3, len(values) if rows is None else len(rows)))
    columns[...] = (values if rows is None else values[rows]).T
    if factor != 1.0:
        columns *= factor
    return dict(zip(names, columns, strict=True))
