"""OpenMM as a plugin of molrec: what it sees of a record, and how it opens one."""

from __future__ import annotations

from molrec_core.hookspecs import Adapter, hookimpl
from molrec_openmm import load
from molrec_openmm._simulation import simulate


def describe(path: str) -> str:
    """Return one line on what OpenMM gets from the last frame of a record."""
    loaded = load(path)
    top = loaded.topology
    parts = [name for name in ("positions", "velocities", "forces") if getattr(loaded, name) is not None]
    cell = "periodic" if loaded.box_vectors is not None else "not periodic"
    counts = f"{top.getNumAtoms()} atoms, {top.getNumResidues()} residues, {top.getNumChains()} chains"
    return f"{counts}, {top.getNumBonds()} bonds; {', '.join(parts) or 'no vectors'}; {cell}"


@hookimpl
def molrec_adapters() -> tuple[Adapter, ...]:
    """Return the adapter of OpenMM."""
    return (
        Adapter(
            "openmm",
            describe=describe,
            snippet='molrec_openmm.load("{path}")  # topology, positions, velocities, box_vectors',
            simulate=simulate,
        ),
    )
