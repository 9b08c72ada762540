"""A state of a LAMMPS run as a frame (sections 1 to 4 and 7 of the host mapping)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from molrec_core import Block, Frame, SequenceSchema
from molrec_core.hosts import (
    ELEMENTS,
    FORCES,
    POSITIONS,
    VELOCITIES,
    StoredCell,
    array_block,
    declare_shared,
    element_numbers,
    store_cell,
    store_name,
)
from molrec_core.units import LAMMPS_VELOCITY, PRESETS, factor
from molrec_lammps._sample import RELATIONS, Sample

Array = np.ndarray[Any, Any]
Elements = Sequence[str] | Mapping[int | str, str]

IMAGES = ("ix", "iy", "iz")
_ENDPOINTS = ("atomi", "atomj", "atomk", "atoml")
_CANONICAL_KEY = {"vol": "volume"}
_VECTOR_NAMES = {"x": POSITIONS, "v": VELOCITIES, "f": FORCES, "image": IMAGES}


def velocity_factor(style: str) -> float:
    """Return what turns velocities of a ``units`` style into length/time of the record."""
    stated = LAMMPS_VELOCITY.get(style)
    preset = PRESETS[style]
    return 1.0 if stated is None else factor(stated, f"{preset['length']}/{preset['time']}")


class SampleConverter:
    """Turns samples into frames, restating only what has changed.

    Parameters
    ----------
    style : str
        The ``units`` style.
    labels : mapping
        Type labels: kind -> type -> label, as :func:`molrec_lammps._sample.type_labels` gives them.
    elements : sequence or mapping, optional
        Element symbol of each atom type: in order of the types, or by type or label.
    with_ids : bool
        False where the source has no ids; those of a sample only number its rows.

    Raises
    ------
    ValueError
        `elements` names what is no element.
    """

    def __init__(
        self,
        style: str,
        labels: Mapping[str, Mapping[int, str]],
        elements: Elements | None = None,
        *,
        with_ids: bool = True,
    ) -> None:
        self._with_ids = with_ids
        self._velocity = velocity_factor(style)
        self._labels = labels
        self._elements = None if elements is None else _by_type(elements, labels.get("atom", {}))
        self._identity: tuple[dict[str, Array] | None, bytes] = (None, b"")
        self._relations: dict[str, tuple[Array, bytes]] = {}
        self._cell: tuple[bytes, StoredCell] = (b"", StoredCell(None, {}))

    def declare(
        self, sample: Sample, *, precision: float | Mapping[str, float] | None = None
    ) -> SequenceSchema:
        """Return the declaration of frames like that of `sample`."""
        schema = SequenceSchema.from_frames(self.frame(sample))
        self.forget()
        schema.declare_aligned("identity", "atoms")
        declare_shared(schema, velocities="v" not in sample.atoms, forces="f" not in sample.atoms)
        if isinstance(precision, float | int):
            precision = {f"atoms.{name}": precision for name in POSITIONS}
        for place, value in (precision or {}).items():
            block, _, column = place.rpartition(".")
            schema.declare_precision(block, column, value)
        return schema

    def forget(self) -> None:
        """Present identity and relations once more with the next frame."""
        self._identity = (None, b"")
        self._relations.clear()

    def frame(self, sample: Sample, *, source_step: int | None = None) -> Frame:
        """Return the frame of a sample; identity and relations are in it only where they changed."""
        columns: dict[str, Array] = {}
        for name, values in sample.atoms.items():
            scaled = values * self._velocity if name == "v" and self._velocity != 1.0 else values
            columns.update(zip(_VECTOR_NAMES[name], scaled, strict=True))
        blocks = {"atoms": Block(columns)}
        identity = self._identify(sample)
        if identity is not None:
            blocks["identity"] = identity
        for name, rows in sample.relations.items():
            relation = self._relate(name, rows, sample.ids)
            if relation is not None:
                blocks[name] = relation
        for name, values in sample.arrays.items():
            blocks[array_block(name)] = Block({"value": np.array(values)})
        cell = self._place(sample)
        meta: dict[str, Any] = dict(cell.meta)
        tags = {key: {"has_cell": "bool", "zero_vectors": "bool3"}[key] for key in meta}
        for keyword, value in sample.thermo.items():
            meta[_key(keyword)], tags[_key(keyword)] = value, "f64"
        if source_step is not None:
            meta["source_step"], tags["source_step"] = source_step, "json"
        return Frame(blocks, box=cell.box, meta=meta, meta_tags=tags)

    def _place(self, sample: Sample) -> StoredCell:
        stamp = sample.origin.tobytes() + sample.vectors.tobytes() + sample.boundary.tobytes()
        if stamp != self._cell[0]:
            self._cell = stamp, store_cell(sample.vectors, boundary=sample.boundary, origin=sample.origin)
        return self._cell[1]

    def _identify(self, sample: Sample) -> Block | None:
        if sample.identity is self._identity[0]:
            return None
        stamp = b"|".join(_stamp(values) for values in (sample.ids, *sample.identity.values()))
        known = self._identity[1] == stamp
        self._identity = sample.identity, stamp
        if known:
            return None
        types = sample.identity.get("type")
        columns: dict[str, Array] = {}
        if self._with_ids:
            columns["id"] = sample.ids.astype(np.uint64)
        if types is not None:
            columns["type_id"] = types.astype(np.uint64)
        if "label" in sample.identity:
            columns["type"] = sample.identity["label"]
        elif types is not None:
            columns["type"] = self._names("atom", types)
        for name, stored, dtype in (
            ("molecule", "mol_id", np.uint64),
            ("q", "charge", np.float64),
            ("mass", "mass", np.float64),
        ):
            if name in sample.identity:
                columns[stored] = sample.identity[name].astype(dtype)
        if self._elements is not None and types is not None:
            columns["atomic_number"] = _look_up(self._elements, types).astype(np.uint64)
            columns["element"] = np.array(ELEMENTS, np.dtypes.StringDType())[
                columns["atomic_number"].astype(int)
            ]
        elif "element" in sample.identity:
            columns["element"] = sample.identity["element"]
            columns["atomic_number"] = element_numbers(columns["element"])
        return Block(columns, count=len(sample.ids))

    def _relate(self, name: str, rows: Array, ids: Array) -> Block | None:
        last = self._relations.get(name)
        if last is not None and last[0] is rows:
            return None
        stamp = rows.tobytes() + ids.tobytes()
        self._relations[name] = rows, stamp
        if last is not None and last[1] == stamp:
            return None
        ends = _ENDPOINTS[: RELATIONS[name]]
        at = np.searchsorted(ids, rows[:, 1:]).astype(np.uint64)
        columns: dict[str, Array] = {end: np.ascontiguousarray(at[:, i]) for i, end in enumerate(ends)}
        columns["type_id"] = rows[:, 0].astype(np.uint64)
        columns["type"] = self._names(name[:-1], rows[:, 0])
        return Block(columns, targets=dict.fromkeys(ends, "atoms"))

    def _names(self, kind: str, types: Array) -> Array:
        """Return the label of each type, the number itself where it has none."""
        labels = self._labels.get(kind, {})
        top = int(types.max(initial=0))
        names = np.array([labels.get(i, str(i)) for i in range(top + 1)], dtype=np.dtypes.StringDType())
        named: Array = names[types]
        return named


def _stamp(values: Array) -> bytes:
    """Return bytes that are equal where the values are."""
    return "\0".join(values.tolist()).encode() if values.dtype.kind == "T" else values.tobytes()


def _key(keyword: str) -> str:
    name = _CANONICAL_KEY.get(keyword, keyword)
    return name if name in {"pe", "ke", "etotal", "temp", "press", "volume"} else store_name(name, "meta")


def _by_type(elements: Elements, labels: Mapping[int, str]) -> dict[int, int]:
    """Return the atomic number of each type.

    Raises
    ------
    ValueError
        A symbol that is no element, or a label that no type has.
    """
    given = elements.items() if isinstance(elements, Mapping) else enumerate(elements, start=1)
    types = {label: number for number, label in labels.items()}
    found = {}
    for key, symbol in given:
        number = int(element_numbers([symbol])[0])
        if number == 0 and symbol != "X":
            raise ValueError(
                f"elements: {symbol!r}, given for type {key!r}, is no element; X stands for none"
            )
        if isinstance(key, str) and key not in types:
            raise ValueError(
                f"elements: no atom type is labelled {key!r}; there are {', '.join(types) or 'no labels'}"
            )
        found[types[key] if isinstance(key, str) else int(key)] = number
    return found


def _look_up(by_type: Mapping[int, int], types: Array) -> Array:
    table = np.array([by_type.get(i, 0) for i in range(int(types.max(initial=0)) + 1)], dtype=np.int64)
    found: Array = table[types]
    return found
