"""mdtraj topologies in a record, and back (sections 2 and 7 of the host mapping).

Nothing is guessed from names: an atom is a virtual site where the record says that it
has no element, and a bond has the order and the type that were stored, or None.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from mdtraj.core import element, topology
from mdtraj.core.topology import Topology

from molrec_core import Frame
from molrec_core.hosts import (
    AtomView,
    Columns,
    Hierarchy,
    array_name,
    atoms_of,
    host_dtypes_of,
    load_hierarchy,
    store_hierarchy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from molrec_core import Block, Record

Array = np.ndarray[Any, Any]

HAS_FORMAL_CHARGE = "formal_charge" in inspect.signature(Topology.add_atom).parameters
"""Whether this mdtraj keeps formal charges (1.11 does, 1.10 does not)."""

_BOND_TYPES = {
    repr(t): t for t in (topology.Single, topology.Double, topology.Triple, topology.Aromatic, topology.Amide)
}
_BOND_CODES = {"Single": 1, "Double": 2, "Triple": 3, "Aromatic": 4}
_TYPE_OF_CODE = {code: _BOND_TYPES[name] for name, code in _BOND_CODES.items()}
_TYPE_OF_LABEL = {"ar": topology.Aromatic, "am": topology.Amide}
_MOVING = frozenset({"x", "y", "z", "vx", "vy", "vz", "fx", "fy", "fz"})


class MolrecTopologyWarning(UserWarning):
    """A record's topology holds less, more, or something else than mdtraj or the caller expects."""


def topology_to_system(top: Topology) -> tuple[Frame, dict[str, str]]:
    """Return the ``system`` of a record that holds `top`, and the host dtypes for ``meta.host_dtypes``.

    Raises
    ------
    TypeError
        A value that no column holds exactly, naming it.
    """
    atoms_of_top = [top.atom(i) for i in range(top.n_atoms)]
    residues = [top.residue(i) for i in range(top.n_residues)]
    chains = list(top.chains)
    dtypes: dict[str, str] = {}
    atoms = Columns("system/atoms", dtypes)
    atoms.put("name", _text([atom.name for atom in atoms_of_top]))
    elements = [atom.element or element.virtual for atom in atoms_of_top]
    atoms.put("element", _text([None if e is element.virtual else e.symbol for e in elements]))
    atoms.put("atomic_number", np.array([e.number for e in elements], dtype=np.uint64))
    _put_optional(atoms, "id", [atom.serial for atom in atoms_of_top])
    if HAS_FORMAL_CHARGE:
        _put_optional(atoms, "formal_charge", [atom.formal_charge for atom in atoms_of_top])
    chain_ids = [chain.chain_id for chain in chains]
    hierarchy = Hierarchy(
        residue=np.array([atom.residue.index for atom in atoms_of_top], dtype=np.int64),
        segment=np.array([residue.chain.index for residue in residues], dtype=np.int64),
        residues={
            "res_name": _text([residue.name for residue in residues]),
            "res_seq": np.array([residue.resSeq for residue in residues], dtype=object),
            "seg_id": np.array([residue.segment_id for residue in residues], dtype=object),
        },
        segments={
            "chain": _text(chain_ids),
            "seg_id": _text([_common_segment(chain) or chain.chain_id for chain in chains]),
        },
        n_segments=len(chains),
    )
    blocks = store_hierarchy(hierarchy, atoms)
    blocks["bonds"] = _bonds_to_block(list(top.bonds), dtypes)
    return Frame({"atoms": atoms.block(targets={"residue": "residues"}), **blocks}), dtypes


def _common_segment(chain: Any) -> str | None:
    """Return the segment id all residues of a chain share; None where they share none."""
    ids = {residue.segment_id for residue in chain.residues}
    return ids.pop() if len(ids) == 1 else None


def _text(values: Sequence[str | None]) -> Array:
    return np.array(values, dtype=object if None in values else np.dtypes.StringDType())


def _put_optional(columns: Columns, name: str, values: Sequence[Any]) -> None:
    """Add a numeric column in which None is a null row; all None is no column."""
    valid = np.array([value is not None for value in values], dtype=bool)
    if valid.any():
        stored = columns.put(name, np.array([0 if value is None else value for value in values]))
        if not valid.all():
            columns.validity[stored] = valid


def _bonds_to_block(bonds: Sequence[Any], dtypes: dict[str, str]) -> Block:
    columns = Columns("system/bonds", dtypes)
    pairs = np.array([(bond[0].index, bond[1].index) for bond in bonds], dtype=np.uint64).reshape(-1, 2)
    columns.put("atomi", pairs[:, 0].copy())
    columns.put("atomj", pairs[:, 1].copy())
    _put_optional(columns, "order", [None if bond.order is None else float(bond.order) for bond in bonds])
    types = [None if bond.type is None else repr(bond.type) for bond in bonds]
    if any(types):
        columns.put("type", _text(types))
        columns.put(
            "bond_type", np.array([_BOND_CODES.get(name or "", 0) for name in types], dtype=np.uint64)
        )
    return columns.block()


@dataclass(slots=True)
class StoredTopology:
    """What a record says about its atoms, before it becomes an mdtraj topology.

    Attributes
    ----------
    atoms : AtomView
    hierarchy : Hierarchy
        One residue ``UNK`` in one chain where the record names none.
    bonds : Block or None
    host_dtypes : dict of str to str
    """

    atoms: AtomView
    hierarchy: Hierarchy
    bonds: Block | None
    host_dtypes: dict[str, str]

    @classmethod
    def of(cls, record: Record) -> StoredTopology:
        """Gather it from the system, from the blocks of the first frame, or from the frame section."""
        system = record.get("system")
        frame, schema = record.get("frame"), None
        if "trajectory" in record:
            trajectory = record.trajectory
            schema = trajectory.schema
            frame = trajectory.frame(0, _identity_blocks(system, schema)) if len(trajectory) else None
        dtypes = host_dtypes_of(record.meta)
        atoms = atoms_of(system, frame, schema)
        place, section = (
            (system, "system") if system is not None and "residues" in system else (frame, "trajectory")
        )
        hierarchy = load_hierarchy(atoms, place, dtypes, section)
        if hierarchy is None:
            hierarchy = Hierarchy(
                np.zeros(atoms.count, np.int64),
                np.zeros(min(1, atoms.count), np.int64),
                n_segments=min(1, atoms.count),
            )
        bonds = next((s["bonds"] for s in (system, frame) if s is not None and "bonds" in s), None)
        return cls(atoms, hierarchy, bonds, dtypes)

    def names(self) -> list[str]:
        """Return the atoms' names; the element's symbol, then nothing, where the record has none."""
        names = self.atoms.host("name", self.host_dtypes)
        if names is None:
            found = self.atoms.elements()
            return (
                [""] * self.atoms.count if found is None else [symbol or "" for symbol in found[0].tolist()]
            )
        return [name or "" for name in names.tolist()]

    def residue_names(self) -> list[str]:
        """Return the residues' names, ``UNK`` where the record has none."""
        names = self.hierarchy.residues.get("res_name")
        if names is None:
            return ["UNK"] * len(self.hierarchy.segment)
        return [name or "" for name in names.tolist()]

    def describes(self, top: Topology) -> bool:
        """Whether `top` has the same atoms: their names, in residues of the same names."""
        atoms = [top.atom(i) for i in range(top.n_atoms)]
        return (
            [atom.residue.index for atom in atoms] == self.hierarchy.residue.tolist()
            and [top.residue(i).name for i in range(top.n_residues)] == self.residue_names()
            and [atom.name for atom in atoms] == self.names()
        )

    @property
    def named(self) -> bool:
        """Whether the record names its atoms at all."""
        return "name" in self.atoms

    def build(self) -> Topology:
        """Return the topology.

        Warns
        -----
        MolrecTopologyWarning
            The record has no elements; a bond order that mdtraj cannot hold.
        """
        top = Topology()
        chains = [top.add_chain() for _ in range(self.hierarchy.n_segments)]
        for chain, chain_id in zip(
            chains, _values(self.hierarchy.segments.get("chain"), len(chains)), strict=True
        ):
            chain.chain_id = chain_id
        residues = self._add_residues(top, chains)
        self._add_atoms(top, residues)
        if self.bonds is not None:
            self._add_bonds(top, self.bonds)
        return top

    def _add_residues(self, top: Topology, chains: list[Any]) -> list[Any]:
        segments = self.hierarchy.segment.tolist()
        given = self.hierarchy.residues
        numbers = _values(given.get("res_seq"), len(segments))
        ids = _values(given.get("seg_id"), len(segments))
        return [
            top.add_residue(name, chains[segment], resSeq=number, segment_id="" if seg_id is None else seg_id)
            for name, segment, number, seg_id in zip(
                self.residue_names(), segments, numbers, ids, strict=True
            )
        ]

    def _add_atoms(self, top: Topology, residues: list[Any]) -> None:
        count = self.atoms.count
        serials = _values(self.atoms.host("id", self.host_dtypes), count)
        rows = zip(self.names(), self._elements(), self.hierarchy.residue.tolist(), serials, strict=True)
        charges = self.atoms.host("formal_charge", self.host_dtypes) if HAS_FORMAL_CHARGE else None
        if charges is None:
            for name, symbol, residue, serial in rows:
                top.add_atom(name, symbol, residues[residue], serial=serial)
            return
        for (name, symbol, residue, serial), charge in zip(rows, _values(charges, count), strict=True):
            top.add_atom(name, symbol, residues[residue], serial=serial, formal_charge=charge)

    def _elements(self) -> list[Any]:
        found = self.atoms.elements()
        if found is None:
            if self.atoms.count:
                warnings.warn(
                    "the record has neither elements nor atomic numbers; its atoms are read as virtual sites",
                    MolrecTopologyWarning,
                    stacklevel=2,
                )
            return [element.virtual] * self.atoms.count
        known: dict[tuple[Any, Any], Any] = {}
        pairs = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
        for pair in set(pairs):
            known[pair] = _element(*pair)
        return [known[pair] for pair in pairs]

    def _add_bonds(self, top: Topology, block: Block) -> None:
        atoms = [top.atom(i) for i in range(top.n_atoms)]
        rows = zip(block["atomi"].tolist(), block["atomj"].tolist(), *_orders_and_types(block), strict=True)
        refused = 0
        for i, j, order, kind in rows:
            held = order is None or 1 <= order <= 3
            refused += not held
            top.add_bond(atoms[i], atoms[j], type=kind, order=order if held else None)
        if refused:
            warnings.warn(
                f"{refused} bonds have an order that mdtraj does not admit (1 to 3); it is None there",
                MolrecTopologyWarning,
                stacklevel=2,
            )


def _identity_blocks(system: Frame | None, schema: Any) -> list[str]:
    """Return the blocks that may describe atoms; coordinates are left out where the system has the atoms."""
    atoms = schema.blocks.get("atoms")
    moving = (
        system is not None and "atoms" in system and atoms is not None and atoms.columns.keys() <= _MOVING
    )
    left_out = {"velocities", "forces"} | ({"atoms"} if moving else set())
    return [name for name in schema.blocks if name not in left_out and array_name(name) is None]


def _values(column: Array | None, count: int) -> list[Any]:
    return [None] * count if column is None else column.tolist()


def _element(symbol: str | None, number: int) -> Any:
    """Return mdtraj's element; the number helps where mdtraj calls it otherwise, as 112 ``Uub``."""
    for find, key in (
        (element.Element.getBySymbol, symbol or ""),
        (element.Element.getByAtomicNumber, number),
    ):
        with contextlib.suppress(KeyError):
            return find(key)
    return element.virtual


def _orders_and_types(block: Block) -> tuple[list[Any], list[Any]]:
    labels = _nullable(block, "order_label")
    orders = [_number(order) for order in _nullable(block, "order")]
    if "order" not in block:
        numbers = [number or None for number in _nullable(block, "bond_number")]
        orders = [
            number if label is None else _number(label) for number, label in zip(numbers, labels, strict=True)
        ]
    names = [_BOND_TYPES.get(str(name).capitalize()) for name in _nullable(block, "type")]
    codes = [_TYPE_OF_CODE.get(code) for code in _nullable(block, "bond_type")]
    types = [a or b or _TYPE_OF_LABEL.get(label) for a, b, label in zip(names, codes, labels, strict=True)]
    return orders, types


def _nullable(block: Block, name: str) -> list[Any]:
    if name not in block:
        return [None] * block.count
    values = block[name].tolist()
    valid = block.validity.get(name)
    return (
        values if valid is None else [v if ok else None for v, ok in zip(values, valid.tolist(), strict=True)]
    )


def _number(value: Any) -> float | int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else number
