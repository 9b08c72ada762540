"""An OpenMM Topology and System as the ``system`` of a record, and what ran as its ``method``.

Sections 2 and 7 of the host mapping. Nothing is guessed: an extra particle has no
element, and a bond has the order and the type the Topology gives it, or none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import openmm
from openmm import unit

from molrec_core import Block, Frame
from molrec_core.hosts import Columns, Hierarchy, store_hierarchy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Array = np.ndarray[Any, Any]

_BOND_CODES = {"Single": 1, "Double": 2, "Triple": 3, "Aromatic": 4}
_ENDPOINTS = ("atomi", "atomj", "atomk", "atoml")
_SITE_STYLES = {
    "TwoParticleAverageSite": "average2",
    "ThreeParticleAverageSite": "average3",
    "OutOfPlaneSite": "outofplane3",
}


def subset_rows(subset: Iterable[int] | None, n_atoms: int) -> Array:
    """Return the rows an ``atomSubset`` chooses, shape (n,), int64; all without one.

    Raises
    ------
    ValueError
        Indices that are not integers, out of range, repeated or not ascending.
    """
    if subset is None:
        return np.arange(n_atoms)
    given = np.asarray(list(subset))
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(f"atomSubset holds {given.dtype}; atom indices are integers")
    rows = given.astype(np.int64)
    if rows.size and (rows.min() < 0 or rows.max() >= n_atoms):
        raise ValueError(
            f"atomSubset reaches from {rows.min()} to {rows.max()}; the topology has {n_atoms} atoms"
        )
    if (np.diff(rows) <= 0).any():
        raise ValueError(
            "atomSubset must be strictly ascending: rows of a record keep the order of the topology"
        )
    return rows


def build_system(topology: Any, system: Any, rows: Array) -> tuple[Frame, dict[str, str]]:
    """Return the ``system`` of a record for the atoms at `rows`, and its host dtypes.

    Parameters
    ----------
    topology : openmm.app.Topology
    system : openmm.System
        Masses, charges of its NonbondedForce, and virtual sites with their parents.
    rows : (n,) array of int64
        Ascending. What refers to any other atom is left out.

    Raises
    ------
    ValueError
        Topology and System differ in their number of particles.
    """
    every = list(topology.atoms())
    if len(every) != system.getNumParticles():
        raise ValueError(
            f"the topology has {len(every)} atoms, the System {system.getNumParticles()} particles"
        )
    chosen = [every[i] for i in rows]
    place = np.full(len(every), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    dtypes: dict[str, str] = {}
    atoms = Columns("system/atoms", dtypes)
    atoms.put("name", _text([atom.name for atom in chosen]))
    elements = [atom.element for atom in chosen]
    atoms.put("element", _text([None if e is None else e.symbol for e in elements]))
    atoms.put(
        "atomic_number", np.array([0 if e is None else e.atomic_number for e in elements], dtype=np.uint64)
    )
    _put_ids(atoms, [atom.id for atom in chosen])
    masses = [system.getParticleMass(int(i)).value_in_unit(unit.dalton) for i in rows]
    atoms.put("mass", np.array(masses, dtype=np.float64))
    charges = _charges(system, rows)
    if charges is not None:
        atoms.put("charge", charges)
    blocks = _store_residues(topology, chosen, atoms, complete=len(rows) == len(every))
    blocks["bonds"] = _bonds(topology, place, dtypes)
    sites = _virtual_sites(system, place)
    if sites is not None:
        blocks["virtual_sites"] = sites
    return Frame({"atoms": atoms.block(targets={"residue": "residues"}), **blocks}), dtypes


def _text(values: Sequence[str | None]) -> Array:
    return np.array(values, dtype=object if None in values else np.dtypes.StringDType())


def _put_ids(atoms: Columns, ids: list[Any]) -> None:
    """Store atom ids as numbers where they spell numbers; any others go to ``host.id`` whole."""
    numeric = all(isinstance(i, str) and i.isdecimal() and str(int(i)) == i for i in ids)
    fits = numeric and all(int(i) < 2**63 for i in ids)
    atoms.put(
        "id", np.array([int(i) for i in ids], dtype=np.uint64) if fits else _text([str(i) for i in ids])
    )


def _charges(system: Any, rows: Array) -> Array | None:
    """Return the particle charges in e; None where no single NonbondedForce has them."""
    forces = [f for f in system.getForces() if isinstance(f, openmm.NonbondedForce)]
    if len(forces) != 1:
        return None
    parameters = forces[0].getParticleParameters
    charges = [parameters(int(i))[0].value_in_unit(unit.elementary_charge) for i in rows]
    return np.array(charges, dtype=np.float64)


def _store_residues(topology: Any, chosen: list[Any], atoms: Columns, *, complete: bool) -> dict[str, Block]:
    """Store residues and chains; empty ones too, unless the atoms are a subset."""
    if complete:
        residues, chains = list(topology.residues()), list(topology.chains())
    else:
        residues = list(dict.fromkeys(atom.residue for atom in chosen))
        chains = list(dict.fromkeys(residue.chain for residue in residues))
    residue_row = {residue: row for row, residue in enumerate(residues)}
    chain_row = {chain: row for row, chain in enumerate(chains)}
    labels = [str(residue.id) for residue in residues]
    hierarchy = Hierarchy(
        residue=np.array([residue_row[atom.residue] for atom in chosen], dtype=np.int64),
        segment=np.array([chain_row[residue.chain] for residue in residues], dtype=np.int64),
        residues={
            "res_name": _text([residue.name for residue in residues]),
            "icode": _text([residue.insertionCode for residue in residues]),
            "label": _text(labels),
            "res_seq": np.array([_number(label) for label in labels], dtype=object),
        },
        segments={"chain": _text([str(chain.id) for chain in chains])},
        n_segments=len(chains),
    )
    return store_hierarchy(hierarchy, atoms)


def _number(label: str) -> int | None:
    """Return the integer a residue id spells; None where it spells none."""
    try:
        number = int(label)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None


def _bonds(topology: Any, place: Array, dtypes: dict[str, str]) -> Block:
    columns = Columns("system/bonds", dtypes)
    bonds = list(topology.bonds())
    pairs = np.array([(bond[0].index, bond[1].index) for bond in bonds], dtype=np.int64).reshape(-1, 2)
    ends = place[pairs]
    kept = np.flatnonzero((ends >= 0).all(axis=1))
    columns.put("atomi", ends[kept, 0].astype(np.uint64))
    columns.put("atomj", ends[kept, 1].astype(np.uint64))
    orders = [bonds[i].order for i in kept]
    if any(order is not None for order in orders):
        known = np.array([order is not None for order in orders], dtype=bool)
        columns.put("order", np.array([0.0 if order is None else float(order) for order in orders]))
        if not known.all():
            columns.validity["order"] = known
    types = [None if bonds[i].type is None else str(bonds[i].type) for i in kept]
    if any(types):
        columns.put("type", _text(types))
        columns.put(
            "bond_type", np.array([_BOND_CODES.get(name or "", 0) for name in types], dtype=np.uint64)
        )
    return columns.block(targets={"atomi": "atoms", "atomj": "atoms"})


def _virtual_sites(system: Any, place: Array) -> Block | None:
    """Return each virtual site with its parents, as far as all of them are among the atoms; None without any.

    ``parents`` holds all of them as a JSON list where a site has more than fit beside it.
    """
    found: list[tuple[list[int], str]] = []
    for i in np.flatnonzero(place >= 0):
        if not system.isVirtualSite(int(i)):
            continue
        site = system.getVirtualSite(int(i))
        members = place[[int(i), *(site.getParticle(k) for k in range(site.getNumParticles()))]]
        if (members >= 0).all():
            kind = type(site).__name__
            found.append((members.tolist(), _SITE_STYLES.get(kind, kind)))
    if not found:
        return None
    columns: dict[str, Array] = {}
    validity: dict[str, Array] = {}
    for k, name in enumerate(_ENDPOINTS):
        valid = np.array([k < len(members) for members, _ in found], dtype=bool)
        if valid.any():
            values = [members[k] if k < len(members) else 0 for members, _ in found]
            columns[name] = np.array(values, dtype=np.uint64)
            validity[name] = valid
    columns["style"] = _text([style for _, style in found])
    long = [len(members) > len(_ENDPOINTS) for members, _ in found]
    if any(long):
        columns["parents"] = _text([json.dumps(members[1:]) for members, _ in found])
    return Block(columns, validity=validity, targets={n: "atoms" for n in _ENDPOINTS if n in columns})


def build_method(simulation: Any) -> dict[str, Any]:
    """Return the ``method`` document: engine, platform, integrator, step size, temperature, forces."""
    system, integrator = simulation.system, simulation.integrator
    step = integrator.getStepSize().value_in_unit(unit.picosecond)
    about: dict[str, Any] = {"name": type(integrator).__name__, "step_size": step, "step_size_unit": "ps"}
    for name, getter, dimension in (
        ("temperature", "getTemperature", unit.kelvin),
        ("friction", "getFriction", unit.picosecond**-1),
    ):
        if hasattr(integrator, getter):
            about[name] = getattr(integrator, getter)().value_in_unit(dimension)
            about[f"{name}_unit"] = "K" if name == "temperature" else "1/ps"
    return {
        "type": "classical",
        "description": "molecular dynamics; velocities are those State.getVelocities returns, which a leapfrog "
        "integrator keeps half a step behind the positions",
        "engine": {
            "name": "OpenMM",
            "version": openmm.Platform.getOpenMMVersion(),
            "platform": simulation.context.getPlatform().getName(),
        },
        "integrator": about,
        "forces": [type(force).__name__ for force in system.getForces()],
        "constraints": system.getNumConstraints(),
        "periodic": bool(system.usesPeriodicBoundaryConditions()),
    }


def degrees_of_freedom(system: Any) -> int:
    """Return the degrees of freedom a temperature is shared by.

    Three for each particle with a mass, less the constraints among them, less three
    where the motion of the centre of mass is removed.
    """
    massive = [system.getParticleMass(i)._value > 0 for i in range(system.getNumParticles())]  # noqa: SLF001 - a tenth of the time
    freedom = 3 * sum(massive)
    for i in range(system.getNumConstraints()):
        first, second, _ = system.getConstraintParameters(i)
        freedom -= massive[first] or massive[second]
    if any(isinstance(force, openmm.CMMotionRemover) for force in system.getForces()):
        freedom -= 3
    return int(freedom)
