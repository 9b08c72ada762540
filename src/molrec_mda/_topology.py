"""Topology attributes of MDAnalysis to ``system``, and back (section 5 of the host mapping)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import MDAnalysis
import numpy as np
from MDAnalysis.core.topology import Topology
from MDAnalysis.core.topologyattrs import (
    AtomAttr,
    Atomids,
    Atomindices,
    Bonds,
    Charges,
    Masses,
    Resids,
    ResidueAttr,
    Resindices,
    Resnums,
    Segids,
    Segindices,
    SegmentAttr,
)

from molrec_core import Frame
from molrec_core.hosts import (
    AtomView,
    Columns,
    Hierarchy,
    atoms_of,
    host_dtypes_of,
    load_hierarchy,
    store_hierarchy,
)
from molrec_mda._connections import (
    connections_of,
    is_connection,
    load_connection,
    store_connection,
    virtual_bonds,
)

if TYPE_CHECKING:
    from molrec_core import SequenceSchema
    from molrec_core.units import Conversion

Array = np.ndarray[Any, Any]

ATOM_COLUMNS = {
    "names": "name",
    "types": "type",
    "elements": "element",
    "masses": "mass",
    "charges": "charge",
    "formalcharges": "formal_charge",
    "ids": "id",
    "altLocs": "altloc",
    "tempfactors": "b_factor",
    "occupancies": "occupancy",
    "chainIDs": "chain",
}
"""MDAnalysis attribute -> column of ``atoms``; any other goes under its singular name."""

RESIDUE_COLUMNS = {"resids": "res_seq", "resnames": "res_name", "icodes": "icode"}
SEGMENT_COLUMNS = {"segids": "seg_id"}
_INDICES = (Atomindices, Resindices, Segindices)


@dataclass(slots=True)
class StoredTopology:
    """The ``system`` of a group of atoms.

    Attributes
    ----------
    system : Frame
    host_dtypes : dict of str to str
        For ``meta.host_dtypes``.
    guessed : list of str
        Attributes that MDAnalysis guessed.
    """

    system: Frame
    host_dtypes: dict[str, str] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)


def store_topology(group: Any) -> StoredTopology:
    """Return what a group of atoms is: attributes, residues, segments, bonds.

    Parameters
    ----------
    group : AtomGroup
        In the order in which its atoms are written. Residues and segments of the whole
        universe are kept, empty ones too; of a part of it, those of its atoms.

    Raises
    ------
    TypeError
        An attribute whose values no column holds exactly, naming it.
    """
    topology = group.universe._topology  # noqa: SLF001 - the attributes have no other door
    rows = np.asarray(group.ix)
    whole = len(rows) == topology.n_atoms and bool((rows == np.arange(len(rows))).all())
    stored = StoredTopology(Frame())
    atoms = Columns("system/atoms", stored.host_dtypes)
    of_atoms = topology.tt.atoms2residues(rows)
    residues = np.arange(topology.n_residues) if whole else np.unique(of_atoms)
    of_residues = topology.tt.residues2segments(residues)
    segments = np.arange(topology.n_segments) if whole else np.unique(of_residues)
    hierarchy = Hierarchy(
        np.searchsorted(residues, of_atoms), np.searchsorted(segments, of_residues), n_segments=len(segments)
    )
    blocks = {}
    for attr in topology.attrs:
        name = attr.attrname
        if isinstance(attr, _INDICES):
            continue
        if is_connection(attr):
            blocks[name] = store_connection(attr, rows, topology.n_atoms, stored.host_dtypes)
            continue
        if attr.is_guessed:
            stored.guessed.append(name)
        if isinstance(attr, AtomAttr):
            values = _plain(attr.values[rows], name)
            if name in ATOM_COLUMNS:
                atoms.put(ATOM_COLUMNS[name], values)
            else:
                atoms.put_host(attr.singular, values)
        elif isinstance(attr, ResidueAttr):
            values = _plain(attr.values[residues], name)
            hierarchy.residues[RESIDUE_COLUMNS.get(name, attr.singular)] = values
        elif isinstance(attr, SegmentAttr):
            hierarchy.segments[SEGMENT_COLUMNS.get(name, attr.singular)] = _plain(attr.values[segments], name)
    parts = store_hierarchy(hierarchy, atoms)
    stored.system = Frame(
        {"atoms": atoms.block(count=len(rows), targets={"residue": "residues"}), **parts, **blocks}
    )
    return stored


def _plain(values: Any, name: str) -> Array:
    """Turn an object array of numbers into an array of numbers; strings and None stay objects."""
    array = np.asarray(values)
    if array.dtype.kind != "O" or all(item is None or isinstance(item, str) for item in array.flat):
        return array
    numbers = np.array(array.tolist())
    if numbers.dtype.kind in "biuf" and numbers.shape == array.shape:
        return numbers
    kinds = sorted({type(item).__name__ for item in array.flat})
    msg = f"{name}: values of types {', '.join(kinds)} in one attribute; a record stores strings or numbers"
    raise TypeError(msg)


def load_topology(
    system: Frame | None,
    frame: Frame | None,
    schema: SequenceSchema | None,
    meta: Mapping[str, Any],
    conversion: Conversion,
    *,
    virtual_site_bonds: bool = False,
) -> Topology:
    """Return the topology a record states.

    Parameters
    ----------
    system : Frame, optional
        The record's system.
    frame : Frame, optional
        The frame whose atoms count.
    schema : SequenceSchema, optional
    meta : mapping
        The record's meta document.
    conversion : Conversion
        From the record's units to those of MDAnalysis: masses and charges.
    virtual_site_bonds : bool
        Bond each virtual site to its first parent.

    Raises
    ------
    ValueError
        A reference beyond the atoms.

    Warns
    -----
    UserWarning
        The record says nothing about its atoms but their number.
    """
    view = atoms_of(system, frame, schema)
    host_dtypes = host_dtypes_of(meta)
    document = meta.get("mdanalysis")
    guessed = document.get("guessed", []) if isinstance(document, dict) else []
    attrs = _atom_attrs(view, host_dtypes, conversion, guessed)
    if not attrs and "mdanalysis" not in meta:
        warnings.warn(
            f"the record does not say what its {view.count} atoms are; only their number is known",
            stacklevel=2,
        )
    in_frame = (system is None or "residues" not in system) and frame is not None
    hierarchy = load_hierarchy(
        view, frame if in_frame else system, host_dtypes, "trajectory" if in_frame else "system"
    )
    if not any(isinstance(attr, Atomids) for attr in attrs):
        attrs.append(Atomids(np.arange(1, view.count + 1)))
    attrs += _group_attrs(hierarchy, guessed)
    attrs += _bonded(system, frame, view.count, virtual_site_bonds=virtual_site_bonds)
    return Topology(
        view.count,
        *((1, 1) if hierarchy is None else (len(hierarchy.segment), hierarchy.n_segments)),
        attrs=attrs,
        atom_resindex=None if hierarchy is None else hierarchy.residue,
        residue_segindex=None if hierarchy is None else hierarchy.segment,
    )


def _bonded(
    system: Frame | None, frame: Frame | None, n_atoms: int, *, virtual_site_bonds: bool
) -> list[Any]:
    bonded = {
        name: load_connection(name, block, n_atoms) for name, block in connections_of(system, frame).items()
    }
    if virtual_site_bonds:
        _add_virtual_bonds(bonded, system, frame)
    return list(bonded.values())


def _atom_attrs(
    view: AtomView, host_dtypes: Mapping[str, str], conversion: Conversion, guessed: list[str]
) -> list[Any]:
    attrs = []
    factors = {Masses: conversion.mass, Charges: conversion.charge}
    for name, column in ATOM_COLUMNS.items():
        values = _elements(view) if name == "elements" else view.host(column, host_dtypes)
        if values is not None:
            attrs.append(_attr(name, values, name in guessed, factors))
    for own, stored in view.host_names().items():
        kind = MDAnalysis._TOPOLOGY_ATTRS.get(own)  # noqa: SLF001 - the registry of attributes
        # A column of another host has no attribute here and stays in the record.
        if kind is not None and issubclass(kind, AtomAttr) and kind.singular == own:
            values = view.host(stored, host_dtypes)
            attrs.append(_attr(kind.attrname, values, kind.attrname in guessed, factors))
    return attrs


def _elements(view: AtomView) -> Array | None:
    found = view.elements()
    if found is None:
        return None
    symbols = np.asarray(found[0]).astype(object)
    if "element" not in view:
        # An atomic number of 0 is no element, which MDAnalysis spells as an empty string.
        symbols[symbols == "X"] = ""
    return symbols


def _attr(name: str, values: Any, guessed: bool, factors: Mapping[type[Any], float]) -> Any:
    kind = MDAnalysis._TOPOLOGY_ATTRS[name]  # noqa: SLF001 - the registry of attributes
    array = np.asarray(values)
    if array.dtype.kind in "OU":
        array = array.astype(object)
        # Selections compare strings, so what is unknown is an empty one here.
        array[array == None] = ""  # noqa: E711 - elementwise
    factor = factors.get(kind, 1.0)
    return kind(array if factor == 1.0 else array * factor, guessed=guessed)


def _group_attrs(hierarchy: Hierarchy | None, guessed: list[str]) -> list[Any]:
    """Return residue and segment attributes; those MDAnalysis takes for granted get its usual defaults."""
    if hierarchy is None:
        return [Resids(np.array([1])), Resnums(np.array([1])), Segids(np.array(["SYSTEM"], dtype=object))]
    residues, segments = dict(hierarchy.residues), dict(hierarchy.segments)
    seqs = residues.pop("res_seq", None)
    if seqs is None:
        seqs = np.arange(1, len(hierarchy.segment) + 1)
    elif seqs.dtype.kind == "O":
        seqs = np.array([row + 1 if seq is None else seq for row, seq in enumerate(seqs.tolist())])
    attrs = [_attr("resids", seqs, "resids" in guessed, {})]
    for names, table, level in (
        (RESIDUE_COLUMNS, residues, ResidueAttr),
        (SEGMENT_COLUMNS, segments, SegmentAttr),
    ):
        columns = {column: name for name, column in names.items()}
        for column, values in table.items():
            kind = MDAnalysis._TOPOLOGY_ATTRS.get(columns.get(column, column))  # noqa: SLF001 - the registry of attributes
            if kind is not None and issubclass(kind, level):
                attrs.append(_attr(kind.attrname, values, kind.attrname in guessed, {}))
    present = {attr.attrname for attr in attrs}
    if "resnums" not in present:
        attrs.append(Resnums(np.array(seqs)))
    if "segids" not in present:
        attrs.append(Segids(np.full(hierarchy.n_segments, "", dtype=object)))
    return attrs


def _add_virtual_bonds(bonded: dict[str, Any], system: Frame | None, frame: Frame | None) -> None:
    for part in (system, frame):
        block = part.get("virtual_sites") if part is not None else None
        if block is not None:
            bonds = bonded.setdefault("bonds", Bonds([]))
            extra = virtual_bonds(block)
            bonds._add_bonds(extra, types=["virtual_site"] * len(extra), guessed=False)  # noqa: SLF001 - as Universe does
            return
