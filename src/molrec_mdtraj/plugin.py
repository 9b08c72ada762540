"""What mdtraj gives the ``molrec`` command: formats it reads into a record and writes from one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mdtraj

from molrec_core import Frame
from molrec_core.hookspecs import Adapter, Source, hookimpl
from molrec_mdtraj._convert import FrameStream, checked
from molrec_mdtraj._file import MolrecTrajectoryFile, as_trajectory
from molrec_mdtraj._mdconvert import energies

_HDF5 = (".h5", ".hdf5")
_STEPPED = (".xtc", ".trr")
_TIMED = (*_HDF5, *_STEPPED, ".nc", ".netcdf", ".ncdf")
_STREAMED = (*_TIMED, ".dcd")
READS = (
    *_STREAMED,
    *(".pdb.gz", ".pdb", ".cif", ".gro", ".mol2", ".arc", ".hoomdxml", ".gsd"),
    *(".mdcrd", ".xyz", ".lammpstrj", ".dtr", ".rst7", ".ncrst"),
)
WRITES = (*_STREAMED, ".pdb.gz", ".pdb", ".gro", ".mdcrd", ".xyz", ".lammpstrj", ".dtr", ".rst7", ".ncrst")
_CHUNK_BYTES = 2**25

Arrays = dict[str, Any]


def read(path: Path, topology: Path | None, frames: slice) -> Source:
    """Read a file of another format; step numbers, and velocities and energies of HDF5 files, come along.

    Parameters
    ----------
    path : pathlib.Path
    topology : pathlib.Path or None
        Needed by formats that hold none.
    frames : slice
        With a step of at least 1.

    Raises
    ------
    OSError
        The format needs a topology and none was given.
    """
    top = mdtraj.load_topology(path if topology is None else topology)
    chunks = (
        _streamed(path, top) if path.suffix in _STREAMED else _whole(path, None if topology is None else top)
    )
    count = next(chunks)["count"]
    wanted = range(*frames.indices(count))
    if wanted.step < 1:
        msg = f"frames run from the first to the last; the step is {wanted.step}"
        raise ValueError(msg)
    stream = FrameStream(top)
    first = next(chunks, None)
    schema = stream.declare({} if first is None else first)
    system, meta = stream.system()
    return Source(_frames(stream, first, chunks, wanted), meta, system, schema, len(wanted))


def _frames(
    stream: FrameStream, first: Arrays | None, rest: Iterator[Arrays], wanted: range
) -> Iterator[tuple[Frame, int, float | None]]:
    start, chunk = 0, first
    while chunk is not None and start < wanted.stop:
        n = len(chunk["xyz"])
        picked = [i for i in range(n) if start + i in wanted]
        cut = {name: values[picked] for name, values in chunk.items() if name != "energies"}
        yield from stream.frames(
            cut | {"energies": {name: v[picked] for name, v in chunk["energies"].items()}}
        )
        start, chunk = start + n, next(rest, None)


def _streamed(path: Path, top: mdtraj.Topology) -> Iterator[Arrays]:
    """Yield the number of frames, then the arrays of many frames at a time."""
    size = max(1, _CHUNK_BYTES // max(1, top.n_atoms * 12))
    with mdtraj.open(str(path)) as file:
        yield {"count": len(file)}
        while True:
            if path.suffix in _HDF5:
                data = file.read(size)
                if not len(data):
                    return
                yield checked(
                    {
                        "xyz": data.coordinates,
                        "time": data.time,
                        "cell_lengths": data.cell_lengths,
                        "cell_angles": data.cell_angles,
                        "velocities": data.velocities,
                        "energies": energies(data._asdict()),
                    }
                )
                continue
            if path.suffix in _STEPPED:
                xyz, time, step, box = file.read(size)[:4]
                traj = mdtraj.Trajectory(xyz, top, time=time)
                traj.unitcell_vectors = box
            else:
                traj, step = file.read_as_traj(top, n_frames=size), None
            if not len(traj):
                return
            yield _arrays(traj, timed=path.suffix in _TIMED, step=step)


def _whole(path: Path, top: mdtraj.Topology | None) -> Iterator[Arrays]:
    # Of these formats some know their length only when they were read.
    traj = mdtraj.load(str(path), **({} if top is None else {"top": top}))
    yield {"count": len(traj)}
    yield _arrays(traj, timed=False)


def _arrays(traj: mdtraj.Trajectory, *, timed: bool, step: Any = None) -> Arrays:
    return checked(
        {
            "xyz": traj.xyz,
            # Other formats hold no times; mdtraj counts frames instead.
            "time": traj.time if timed else None,
            "cell_lengths": traj.unitcell_lengths,
            "cell_angles": traj.unitcell_angles,
            "step": step,
        }
    )


def write(record_path: Path, path: Path, frames: slice) -> None:
    """Export a record's frames to a file of a format that mdtraj writes."""
    with MolrecTrajectoryFile(record_path) as file:
        as_trajectory(file.pick(frames), file.topology).save(str(path))


def describe(path: str) -> str:
    """Return what mdtraj sees in a record, in one line."""
    with MolrecTrajectoryFile(path) as file:
        top = file.topology
        assert top is not None
        cell = "no cell" if file.pick(slice(0, 1)).cell_lengths is None else "cell"
        return (
            f"{len(file)} frames, {top.n_atoms} atoms, {top.n_residues} residues, {top.n_chains} chains, "
            f"{top.n_bonds} bonds, {cell}"
        )


@hookimpl
def molrec_adapters() -> list[Adapter]:
    """Return the one adapter."""
    return [
        Adapter(
            name="mdtraj",
            reads=READS,
            writes=WRITES,
            read=read,
            write=write,
            describe=describe,
            snippet='import mdtraj as md, molrec_mdtraj; traj = md.load("{path}")',
        )
    ]
