"""What ``molrec convert`` does with the formats MDAnalysis knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import MDAnalysis

from molrec_core import Frame
from molrec_core.hookspecs import Adapter, Source, hookimpl
from molrec_core.units import MDANALYSIS
from molrec_mda._frames import FrameBuilder
from molrec_mda._topology import store_topology

# Formats that are no files, or records themselves.
_NOT_FILES = {
    "CHAIN",
    "IMD",
    "MEMORY",
    "MINIMAL",
    "MREC",
    "NULL",
    "OPENMMSIMULATION",
    "OPENMMAPP",
    "OPENMMTOPOLOGY",
}
_NOT_FILES |= {"PARMED", "PERMISSIVE_PDB", "RDKIT", "ZIP", "DUMP", "CHEMFILES"}


def _suffixes(*registries: dict[str, Any]) -> tuple[str, ...]:
    names = {name for registry in registries for name in registry} - _NOT_FILES
    return tuple(sorted(f".{name.lower()}" for name in names if name))


def read(path: Path, topology: Path | None, frames: slice) -> Source:
    """Read what MDAnalysis reads, frame by frame.

    Parameters
    ----------
    path : Path
        A trajectory, a structure, or a topology alone.
    topology : Path, optional
        Where atoms are named, for a trajectory that does not.
    frames : slice

    Returns
    -------
    Source
        Å, ps, kJ/mol; nothing is guessed from names.

    Raises
    ------
    ValueError, TypeError, OSError
        What MDAnalysis says about a file it cannot read.
    """
    files = [str(path)] if topology is None else [str(topology), str(path)]
    universe = MDAnalysis.Universe(*files, to_guess=())
    stored = store_topology(universe.atoms)
    meta = {
        "units": MDANALYSIS.to_meta(),
        "host_dtypes": stored.host_dtypes,
        "mdanalysis": {"guessed": stored.guessed},
        "source": {
            "files": [Path(file).name for file in files],
            "tool": f"MDAnalysis {MDAnalysis.__version__}",
        },
    }
    if not hasattr(universe, "trajectory"):
        return Source((), meta, stored.system, n_frames=0)
    chosen = range(*frames.indices(len(universe.trajectory)))
    if not chosen:
        return Source((), meta, stored.system, n_frames=0)
    builder = FrameBuilder.start(universe.trajectory[chosen[0]], None, stored.host_dtypes)
    return Source(_frames(universe, chosen, builder), meta, stored.system, builder.schema, len(chosen))


def _frames(
    universe: Any, chosen: range, builder: FrameBuilder
) -> Iterator[tuple[Frame, int | None, float | None]]:
    for index in chosen:
        yield builder.build(universe.trajectory[index])


def write(record: Path, path: Path, frames: slice) -> None:
    """Export frames of a record to a format MDAnalysis writes.

    Raises
    ------
    ValueError
        Several frames for a format of one, naming the way out.
    """
    universe = MDAnalysis.Universe(str(record))
    chosen = range(*frames.indices(len(universe.trajectory)))
    name = path.suffix.removeprefix(".").upper()
    if len(chosen) > 1 and name not in MDAnalysis._MULTIFRAME_WRITERS:  # noqa: SLF001 - the registry of writers
        msg = f"{path.name}: {name} holds one frame and {len(chosen)} are selected; choose one, e.g. --frames 0:1"
        raise ValueError(msg)
    universe.atoms.write(str(path), frames=universe.trajectory[list(chosen)])


def describe(path: str) -> str:
    """Return what MDAnalysis sees when it opens a record."""
    universe = MDAnalysis.Universe(path, to_guess=())
    trajectory = universe.trajectory
    first = trajectory.ts
    has = [name for name in ("positions", "velocities", "forces") if getattr(first, f"has_{name}")]
    cell = "a cell" if first.dimensions is not None else "no cell"
    span = f" from {first.time:g} to {trajectory[-1].time:g} ps" if trajectory.has_times else ""
    return (
        f"{len(universe.atoms)} atoms, {len(universe.residues)} residues, "
        f"{trajectory.n_frames} frames{span}; {', '.join(has)}, {cell}"
    )


@hookimpl
def molrec_adapters() -> Iterable[Adapter]:
    """Offer the formats of MDAnalysis."""
    readers, parsers = MDAnalysis._READERS, MDAnalysis._PARSERS  # noqa: SLF001 - the registries of formats
    singles, multis = MDAnalysis._SINGLEFRAME_WRITERS, MDAnalysis._MULTIFRAME_WRITERS  # noqa: SLF001
    return [
        Adapter(
            name="mdanalysis",
            reads=_suffixes(readers, parsers),
            writes=_suffixes(singles, multis),
            read=read,
            write=write,
            describe=describe,
            snippet='import MDAnalysis, molrec_mda; u = MDAnalysis.Universe("{path}")',
        )
    ]
