"""Bonds, angles, dihedrals and their like: MDAnalysis attributes to blocks, and back.

A block holds endpoints ``atomi atomj ...`` (order kept), and only where MDAnalysis has
them ``type``, ``order`` or ``order_label``, ``bond_type``, ``bond_number``, ``guessed``
(section 5 of the host mapping).
"""

from __future__ import annotations

import json
import numbers
from typing import Any

import numpy as np
from MDAnalysis.core.topologyattrs import (
    Angles,
    Bonds,
    CMaps,
    Dihedrals,
    Impropers,
    UreyBradleys,
    _Connection,
)

from molrec_core import Block, Frame
from molrec_core.hosts import Columns, decode_value, encode_value

Array = np.ndarray[Any, Any]

CONNECTIONS: dict[str, tuple[type[Any], int]] = {
    "bonds": (Bonds, 2),
    "angles": (Angles, 3),
    "dihedrals": (Dihedrals, 4),
    "impropers": (Impropers, 4),
    "ureybradleys": (UreyBradleys, 2),
    "cmaps": (CMaps, 5),
}
"""Block and attribute name -> attribute class, number of endpoints."""

ENDPOINTS = ("atomi", "atomj", "atomk", "atoml", "atomm")
_BOND_TYPES = {1: 1, 2: 2, 3: 3, 1.5: 4, "1": 1, "2": 2, "3": 3, "ar": 4}
_ORDERS = {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.5}


def is_connection(attr: object) -> bool:
    """Whether a topology attribute connects atoms."""
    return isinstance(attr, _Connection)


def store_connection(attr: Any, rows: Array, n_atoms: int, host_dtypes: dict[str, str]) -> Block:
    """Return the block of a connectivity attribute for the atoms at `rows`.

    Parameters
    ----------
    attr : _Connection
        Of a universe of `n_atoms` atoms.
    rows : (n,) array of int
        Universe index of each atom of the record; what connects any other atom is left out.
    n_atoms : int
    host_dtypes : dict of str to str
        Filled in place.

    Raises
    ------
    TypeError
        A type or order that no JSON holds exactly.
    """
    _, width = CONNECTIONS[attr.attrname]
    ends = np.array(attr.values, dtype=np.int64).reshape(-1, width)
    place = np.full(n_atoms, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    ends = place[ends]
    kept = np.flatnonzero((ends >= 0).all(axis=1))
    types, orders, guessed = ([values[i] for i in kept] for values in (attr.types, attr.order, attr._guessed))  # noqa: SLF001 - MDAnalysis keeps the flags there
    columns = Columns(f"system/{attr.attrname}", host_dtypes)
    for name, values in zip(ENDPOINTS, ends[kept].T.astype(np.uint64), strict=False):
        columns.put(name, values)
    if any(value is not None for value in types):
        columns.put("type", np.array([None if t is None else _type_text(t) for t in types], dtype=object))
    if any(value is not None for value in orders):
        _put_orders(columns, orders)
    if any(guessed):
        columns.put("guessed", np.array(guessed, dtype=bool))
    return columns.block(targets=dict.fromkeys(ENDPOINTS[:width], "atoms"))


def _put_orders(columns: Columns, orders: list[Any]) -> None:
    if all(o is None or (isinstance(o, numbers.Real) and not isinstance(o, bool)) for o in orders):
        columns.put("order", np.array([0.0 if o is None else float(o) for o in orders]))
        known = np.array([o is not None for o in orders], dtype=bool)
        if not known.all():
            columns.validity["order"] = known
    else:
        columns.put("order_label", np.array([None if o is None else str(o) for o in orders], dtype=object))
    columns.put("bond_type", np.array([_BOND_TYPES.get(o, 0) for o in orders], dtype=np.uint64))
    numbered = [_BOND_TYPES.get(o, 0) for o in orders]
    columns.put("bond_number", np.array([0 if n == 4 else n for n in numbered], dtype=np.uint64))


def _type_text(value: Any) -> str:
    """Spell a type: a string as itself, a tuple as a JSON list, anything else as an object."""
    if isinstance(value, str) and not value.startswith(("[", "{")):
        return value
    if isinstance(value, tuple):
        return json.dumps(encode_value(list(value), "type"))
    return json.dumps({"value": encode_value(value, "type")})


def _type_value(text: str | None) -> Any:
    if text is None or not text.startswith(("[", "{")):
        return text
    try:
        parsed = json.loads(text)
    except ValueError:
        # Another tool's type that merely begins alike.
        return text
    if isinstance(parsed, list):
        return tuple(decode_value(parsed, "type"))
    return decode_value(parsed["value"], "type") if parsed.keys() == {"value"} else text


def load_connection(name: str, block: Block, n_atoms: int) -> Any:
    """Return the attribute of a block ``bonds``, ``angles``, ...

    Raises
    ------
    ValueError
        An endpoint beyond the atoms, or a block without its endpoints.
    """
    kind, width = CONNECTIONS[name]
    missing = [end for end in ENDPOINTS[:width] if end not in block]
    if missing:
        msg = f"{name}: the block has no column {missing[0]}; it needs {', '.join(ENDPOINTS[:width])}"
        raise ValueError(msg)
    ends = np.stack([block[end] for end in ENDPOINTS[:width]], axis=1).astype(np.int64)
    if ends.size and ends.max() >= n_atoms:
        row = int(ends.max(axis=1).argmax())
        msg = f"{name}: row {row} names atom {int(ends[row].max())}, but there are {n_atoms} atoms"
        raise ValueError(msg)
    values = [tuple(row) for row in ends.tolist()]
    types = [_type_value(text) for text in _items(block, "type")] if "type" in block else None
    guessed: Any = block["guessed"].tolist() if "guessed" in block else False
    return kind(values, types=types, guessed=guessed, order=_orders(block))


def _orders(block: Block) -> list[Any] | None:
    for name in ("order", "order_label"):
        if name in block:
            return _items(block, name)
    if "bond_type" in block:
        return [None if n is None else _ORDERS.get(n) for n in _items(block, "bond_type")]
    return None


def _items(block: Block, name: str) -> list[Any]:
    items: list[Any] = block[name].tolist()
    mask = block.validity.get(name)
    return items if mask is None else [x if ok else None for x, ok in zip(items, mask.tolist(), strict=True)]


def virtual_bonds(block: Block) -> list[tuple[int, int]]:
    """Return a bond from each virtual site to its first parent, from the block ``virtual_sites``."""
    return list(zip(block["atomi"].astype(int).tolist(), block["atomj"].astype(int).tolist(), strict=True))


def connections_of(*frames: Frame | None) -> dict[str, Block]:
    """Return the connectivity blocks of the first frame that has each."""
    found: dict[str, Block] = {}
    for frame in frames:
        for name in CONNECTIONS:
            if frame is not None and name in frame and name not in found:
                found[name] = frame[name]
    return found
