"""A frame of any record as OpenMM's own objects: Topology, positions, velocities, box vectors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from openmm import Vec3, unit
from openmm.app import Topology, element, topology

from molrec_core import Record, SectionNotFoundError, open_record
from molrec_core.hosts import (
    AtomView,
    Hierarchy,
    atoms_of,
    host_dtypes_of,
    load_cell,
    load_hierarchy,
    own_values,
)
from molrec_core.units import OPENMM, Units

if TYPE_CHECKING:
    import os

    from molrec_core import Block, Frame

Array = np.ndarray[Any, Any]

_BOND_TYPES = {name: getattr(topology, name) for name in ("Single", "Double", "Triple", "Aromatic", "Amide")}
_TYPE_OF_CODE = {1: topology.Single, 2: topology.Double, 3: topology.Triple, 4: topology.Aromatic}


class MolrecCellWarning(UserWarning):
    """A record's cell is not one OpenMM takes as it is."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One frame of a record in OpenMM's units.

    Attributes
    ----------
    topology : openmm.app.Topology
    positions, velocities, forces : Quantity or None
        Arrays of shape (n_atoms, 3), float64: nm, nm/ps, kJ/(mol nm). None where the frame has none.
    box_vectors : Quantity or None
        Three Vec3 in nm; None without a cell that is periodic on every axis.
    step : int
        0 for a record without a trajectory.
    time : Quantity or None
        In ps.
    """

    topology: Any
    positions: Any
    velocities: Any
    forces: Any
    box_vectors: Any
    step: int
    time: Any


def load(path: str | os.PathLike[str] | Record, frame: int = -1, *, convert_units: bool = True) -> Loaded:
    """Return one frame of a record as OpenMM's objects.

    Parameters
    ----------
    path : path-like or Record
    frame : int
        Negative from the end.
    convert_units : bool
        False takes the numbers as they are, in nm, ps and kJ/mol.

    Raises
    ------
    SectionNotFoundError
        The record holds no atoms.
    IndexError, FormatError, UnitError

    Warns
    -----
    MolrecCellWarning
        The cell is not in the reduced form OpenMM asks for; it is given as it is.
    """
    if not isinstance(path, Record):
        with open_record(path) as record:
            return load(record, frame, convert_units=convert_units)
    record = path
    moving, schema, step, time = record.get("frame"), None, 0, None
    if "trajectory" in record and len(record.trajectory):
        trajectory = record.trajectory
        moving, schema = trajectory.frame(frame), trajectory.schema
        step = int(trajectory.steps[frame])
        time = None if trajectory.times is None else float(trajectory.times[frame])
    system = record.get("system")
    atoms = atoms_of(system, moving, schema)
    if not atoms.count:
        msg = "the record holds no atoms"
        raise SectionNotFoundError(msg, loc=record.path)
    factors = Units.from_meta(record.meta, host=OPENMM, convert=convert_units).conversion(OPENMM)
    box = None if moving is None else _box_vectors(moving, factors.length)
    top = _topology(atoms, system, moving, host_dtypes_of(record.meta))
    if box is not None and _is_reduced(box):
        top.setPeriodicBoxVectors(box)
    positions = np.stack([atoms[c] for c in "xyz"], axis=1) if all(c in atoms for c in "xyz") else None
    velocities, forces = (
        None if moving is None else own_values(moving, name, atoms.count) for name in ("velocities", "forces")
    )
    return Loaded(
        top,
        _quantity(positions, factors.length, unit.nanometer),
        _quantity(velocities, factors.velocity, unit.nanometer / unit.picosecond),
        _quantity(forces, factors.force, unit.kilojoule_per_mole / unit.nanometer),
        box,
        step,
        _quantity(time, factors.time, unit.picosecond),
    )


def _quantity(values: Any, factor: float, dimension: Any) -> Any:
    return None if values is None else unit.Quantity(values * factor, dimension)


def _box_vectors(frame: Frame, factor: float) -> Any:
    cell = load_cell(frame)
    if cell.vectors is None or not cell.boundary.all():
        return None
    rows = cell.vectors.T * factor
    box = unit.Quantity([Vec3(*map(float, row)) for row in rows], unit.nanometer)
    if not _is_reduced(box):
        warnings.warn(
            "the cell is not in the reduced form OpenMM asks for (a along x, b in the xy plane, small tilts); "
            "it is given as it is, the topology has none, and a Context will refuse it",
            MolrecCellWarning,
            stacklevel=4,
        )
    return box


def _is_reduced(box: Any) -> bool:
    """Whether OpenMM takes these vectors, with the noise that a conversion leaves."""
    a, b, c = box.value_in_unit(unit.nanometer)
    tilts = ((b[0], a[0]), (c[0], a[0]), (c[1], b[1]))
    return (
        not (a[1] or a[2] or b[2])
        and min(a[0], b[1], c[2]) > 0
        and all(abs(x) <= bound / 2 * (1 + 1e-6) for x, bound in tilts)
    )


def _topology(atoms: AtomView, system: Frame | None, moving: Frame | None, dtypes: dict[str, str]) -> Any:
    place, section = (
        (system, "system") if system is not None and "residues" in system else (moving, "trajectory")
    )
    hierarchy = load_hierarchy(atoms, place, dtypes, section)
    if hierarchy is None:
        hierarchy = Hierarchy(np.zeros(atoms.count, np.int64), np.zeros(1, np.int64), n_segments=1)
    residues, chains = _columns(hierarchy)
    top = Topology()
    for chain in chains:
        top.addChain(chain)
    chain_list = list(top.chains())
    residue_list = [top.addResidue(name, chain_list[s], label, icode) for name, s, label, icode in residues]
    found = atoms.elements()
    symbols = [None] * atoms.count if found is None else found[0].tolist()
    names, ids = atoms.host("name"), atoms.host("id")
    made = []
    for row, symbol in enumerate(symbols):
        name = str(names[row]) if names is not None else str(symbol or "X")
        label = None if ids is None else str(ids[row])
        made.append(top.addAtom(name, _element(symbol), residue_list[int(hierarchy.residue[row])], label))
    bonds = next((f["bonds"] for f in (system, moving) if f is not None and "bonds" in f), None)
    if bonds is not None:
        _add_bonds(top, made, bonds)
    return top


def _columns(hierarchy: Hierarchy) -> tuple[list[tuple[str, int, str | None, str]], list[str | None]]:
    """Return (name, chain row, id, insertion code) of each residue, and the id of each chain."""
    count = len(hierarchy.segment)

    def column(table: dict[str, Array], name: str, n: int) -> list[Any]:
        values = table.get(name)
        return [None] * n if values is None else values.tolist()

    labels = [
        label if label is not None else None if number is None else str(number)
        for label, number in zip(
            column(hierarchy.residues, "label", count),
            column(hierarchy.residues, "res_seq", count),
            strict=True,
        )
    ]
    names = [name or "UNK" for name in column(hierarchy.residues, "res_name", count)]
    codes = [code or "" for code in column(hierarchy.residues, "icode", count)]
    chains = column(hierarchy.segments, "chain", hierarchy.n_segments)
    return list(zip(names, hierarchy.segment.tolist(), labels, codes, strict=True)), chains


def _element(symbol: str | None) -> Any:
    """Return the element of a symbol; None for what is none, as for an extra particle."""
    try:
        return element.Element.getBySymbol(symbol or "")
    except KeyError:
        return None


def _add_bonds(top: Any, made: list[Any], bonds: Block) -> None:
    count = bonds.count
    orders: list[Any] = bonds["order"].tolist() if "order" in bonds else [None] * count
    for row in np.flatnonzero(~bonds.validity.get("order", np.ones(count, bool))):
        orders[row] = None
    types: list[Any] = bonds["type"].tolist() if "type" in bonds else [None] * count
    codes: list[Any] = bonds["bond_type"].tolist() if "bond_type" in bonds else [0] * count
    for i, j, kind, code, order in zip(bonds["atomi"], bonds["atomj"], types, codes, orders, strict=True):
        bond_type = _BOND_TYPES.get(kind) or _TYPE_OF_CODE.get(code)
        whole = int(order) if order is not None and float(order).is_integer() else None
        top.addBond(made[int(i)], made[int(j)], bond_type, whole)
