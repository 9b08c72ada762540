"""What molrec's command line asks ASE for: formats to read and write, and how ASE opens a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import ase.io
from ase import Atoms

from molrec_ase._encode import Encoder
from molrec_ase._places import Places, survey
from molrec_ase._simulation import simulate
from molrec_ase._trajectory import MolrecTrajectory
from molrec_core import Frame
from molrec_core.hookspecs import Adapter, Source, hookimpl

READS = (
    "extxyz",
    "traj",
    "xyz",
    "cif",
    "vasp",
    "poscar",
    "xdatcar",
    "outcar",
    "xsf",
    "gen",
    "cube",
    "json",
    "db",
)
WRITES = ("extxyz", "traj")


def read(path: Path, topology: Path | None, frames: slice) -> Source:
    """Return the images of any file ASE reads, twice read: once to declare, once to write.

    Raises
    ------
    ValueError
        A topology was given; ASE takes none.
    """
    if topology is not None:
        raise ValueError(f"ASE reads {path.name} without a topology; leave {topology.name} out")
    count = 0

    def counted() -> Iterator[Atoms]:
        nonlocal count
        for atoms in _images(path, frames):
            count += 1
            yield atoms

    schema, meta = survey(counted(), complete=True)
    encoder = Encoder(Places.of(schema, meta))

    def converted() -> Iterator[tuple[Frame, int | None, float | None]]:
        for atoms in _images(path, frames):
            encoder.add(atoms)
            yield encoder.take_one(), None, None

    return Source(converted(), meta=meta, schema=schema, n_frames=count)


def _images(path: Path, frames: slice) -> Iterator[Atoms]:
    yield from ase.io.iread(str(path), frames, do_not_split_by_at_sign=True)


def write(record_path: Path, path: Path, frames: slice) -> None:
    """Export images of a record to a format of ASE, one in memory at a time."""
    with MolrecTrajectory(record_path) as trajectory:
        images: Iterable[Atoms] = trajectory[frames]
        ase.io.write(str(path), images)


def describe(path: str) -> str:
    """Return one line on what ASE sees when it opens a record."""
    with MolrecTrajectory(path) as trajectory:
        if not len(trajectory):
            return "no images"
        first = trajectory[0]
        results = ", ".join(first.calc.results) if first.calc is not None else "no results"
        return f"{len(trajectory)} images; the first is {first.get_chemical_formula()} with {results}"


@hookimpl
def molrec_adapters() -> Iterable[Adapter]:
    """Return ASE's adapter."""
    return (
        Adapter(
            "ase",
            reads=READS,
            writes=WRITES,
            read=read,
            write=write,
            describe=describe,
            snippet='ase.io.read("{path}", ":")',
            simulate=simulate,
        ),
    )
