"""A record as one of mdtraj's trajectory files: read, write, seek, tell."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import mdtraj
import numpy as np
from mdtraj.utils import cast_indices

from molrec_core import RecordExistsError
from molrec_mdtraj._frames import RecordFrames
from molrec_mdtraj._topology import MolrecTopologyWarning, StoredTopology
from molrec_mdtraj._writer import FrameWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from mdtraj.core.topology import Topology
    from mdtraj.core.trajectory import Trajectory

    from molrec_core import Compression

Array = np.ndarray[Any, Any]


class Frames(NamedTuple):
    """What :meth:`MolrecTrajectoryFile.read` returns.

    Attributes
    ----------
    xyz : (n_frames, n_atoms, 3) float32 array, nm
    time : (n_frames,) float64 array, ps
    step : (n_frames,) int64 array
    cell_lengths : (n_frames, 3) float32 array, nm, or None
    cell_angles : (n_frames, 3) float32 array, degrees, or None
    """

    xyz: Array
    time: Array
    step: Array
    cell_lengths: Array | None
    cell_angles: Array | None


class MolrecTrajectoryFile:
    """A record, opened the way mdtraj opens trajectory files.

    Parameters
    ----------
    filename : path-like or URL
        ``run.mrec``, ``run.mrec/`` or ``run.mrec.zip``; any name will do.
    mode : {"r", "w", "a"}
        Read, write anew, or write on after the last frame. An archive is written when the
        file is closed, and cannot be appended to.
    force_overwrite : bool
        In mode "w", replace what is there.
    precision : float, optional
        In mode "w": declared precision of the coordinates, nm. Without it they are exact.
    compression : molrec_core.Compression, optional
        Of floats, when writing.
    after_step : int, optional
        In mode "a": drop the frames past this step first, to go on from there.
    meta : mapping, optional
        In mode "w": added to the record's ``meta`` document.
    flush_every : int, optional
        Commit every n frames, before ``write`` returns.
    expected_frames : int, optional
        A hint that keeps the indexes of a short record small.
    storage_options : mapping, optional
        For a URL: passed to fsspec.

    Raises
    ------
    RecordNotFoundError, RecordExistsError, FormatError, LockedError, ReadOnlyError
    """

    distance_unit = "nanometers"

    def __init__(
        self,
        filename: str | os.PathLike[str],
        mode: str = "r",
        force_overwrite: bool = True,
        *,
        precision: float | None = None,
        compression: Compression | None = None,
        after_step: int | None = None,
        meta: Mapping[str, Any] | None = None,
        flush_every: int | None = None,
        expected_frames: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.mode = mode
        self._frames: RecordFrames | None = None
        self._writer: FrameWriter | None = None
        self._topology: Topology | None = None
        self._position = 0
        there = mode != "r" and os.path.lexists(Path(filename))
        if mode == "r":
            self._frames = RecordFrames(filename, storage_options)
        elif mode == "a" and there:
            self._writer = FrameWriter.reopen(
                filename, after_step=after_step, compression=compression, flush_every=flush_every
            )
        elif mode in {"w", "a"}:
            if there and not force_overwrite:
                msg = "it is there already; force_overwrite=True replaces it"
                raise RecordExistsError(msg, loc=os.fspath(filename))
            self._writer = FrameWriter(
                filename,
                overwrite=force_overwrite,
                precision=precision,
                compression=compression,
                meta=meta,
                flush_every=flush_every,
                expected_frames=expected_frames,
            )
        else:
            msg = f"mode is {mode!r}; 'r', 'w' or 'a' is expected"
            raise ValueError(msg)

    # -- what is in it

    def _reading(self) -> RecordFrames:
        if self._frames is None:
            msg = f"the file is open in mode {self.mode!r}, or closed; open it with 'r' to read"
            raise ValueError(msg)
        return self._frames

    def _writing(self) -> FrameWriter:
        if self._writer is None:
            msg = f"the file is open in mode {self.mode!r}, or closed; open it with 'w' or 'a' to write"
            raise ValueError(msg)
        return self._writer

    @property
    def topology(self) -> Topology | None:
        """The topology; to be set before the first frame is written."""
        if self._writer is not None:
            return self._writer.topology
        if self._topology is None:
            self._topology = StoredTopology.of(self._reading().record).build()
        return self._topology

    @topology.setter
    def topology(self, top: Topology | None) -> None:
        self._writing().topology = top

    def checked_topology(self, top: Topology | None) -> Topology:
        """Return `top` where it describes the record's atoms, or where the record does not name them; else the stored one.

        Raises
        ------
        ValueError
            `top` has another number of atoms.

        Warns
        -----
        MolrecTopologyWarning
            `top` names other atoms or residues; the stored topology is used.
        """
        frames = self._reading()
        if top is None:
            stored = self.topology
            assert stored is not None
            return stored
        if top.n_atoms != frames.n_atoms:
            msg = f"top has {top.n_atoms} atoms, {frames.record.path} has {frames.n_atoms}"
            raise ValueError(msg)
        stored_topology = StoredTopology.of(frames.record)
        if not stored_topology.named or stored_topology.describes(top):
            return top
        warnings.warn(
            f"top= names other atoms or residues than {frames.record.path}; the record's own topology is used",
            MolrecTopologyWarning,
            stacklevel=3,
        )
        return self.checked_topology(None)

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self._reading().n_atoms

    @property
    def precision(self) -> float | None:
        """The declared precision of the coordinates, nm; None where they are exact."""
        return self._reading().precision

    # -- reading

    def read(
        self, n_frames: int | None = None, stride: int | None = None, atom_indices: Any = None
    ) -> Frames:
        """Read frames from where the file stands.

        Parameters
        ----------
        n_frames : int, optional
            How many frames to return; all that are left by default.
        stride : int, optional
            Take every `stride`-th frame; the next read goes on in that rhythm.
        atom_indices : array_like of int or slice, optional
            Atoms to return, in the order given; the others' values are skipped over.

        Returns
        -------
        Frames
        """
        frames = self._reading()
        step = 1 if stride is None else int(stride)
        if step < 1 or (n_frames is not None and n_frames < 0):
            msg = f"stride is {stride} and n_frames is {n_frames}; at least 1 and 0 are expected"
            raise ValueError(msg)
        start = self._position
        stop = frames.n_frames if n_frames is None else start + int(n_frames) * step
        self._position = min(max(stop, start), frames.n_frames)
        return self.pick(slice(start, stop, step), atom_indices)

    def pick(self, which: slice | Array, atom_indices: Any = None) -> Frames:
        """Read the frames `which`, a slice or ordinals, decoding nothing else; the position stays."""
        frames = self._reading()
        rows = _checked_indices(atom_indices, frames.n_atoms)
        lengths, angles = frames.cells(which)
        return Frames(
            frames.positions(which, rows), frames.times(which), frames.steps(which), lengths, angles
        )

    def read_as_traj(
        self,
        n_frames: int | None = None,
        stride: int | None = None,
        atom_indices: Any = None,
        topology: Topology | None = None,
    ) -> Trajectory:
        """Read frames from where the file stands, as :meth:`read` does, as an mdtraj trajectory.

        Parameters
        ----------
        topology : mdtraj.Topology, optional
            Of the atoms that are read; by default the record's own, cut to `atom_indices`.
            Both come in the record's order, whatever the order of `atom_indices`.
        """
        atom_indices = in_order(atom_indices)
        if topology is None:
            topology = subset(self.checked_topology(None), atom_indices)
        return as_trajectory(self.read(n_frames, stride, atom_indices), topology)

    def velocities(self, frames: slice | Array = slice(None), atom_indices: Any = None) -> Array:
        """Return velocities: (n_frames, n_atoms, 3) float64, nm/ps; NaN in frames without them."""
        return self._vectors("velocities", frames, atom_indices)

    def forces(self, frames: slice | Array = slice(None), atom_indices: Any = None) -> Array:
        """Return forces: (n_frames, n_atoms, 3) float64, kJ/mol/nm; NaN in frames without them."""
        return self._vectors("forces", frames, atom_indices)

    def _vectors(self, name: str, frames: slice | Array, atom_indices: Any) -> Array:
        reading = self._reading()
        return reading.vectors(name, frames, _checked_indices(atom_indices, reading.n_atoms))

    def energies(self, frames: slice | Array = slice(None)) -> dict[str, Array]:
        """Return the per-step scalars by name: (n_frames,) float64, in kJ/mol, K, kJ/mol/nm^3 and nm^3."""
        return self._reading().scalars(frames)

    def seek(self, offset: int, whence: int = 0) -> None:
        """Move to frame `offset`, counted from the start (0), from here (1) or from the end (2)."""
        base = {0: 0, 1: self._position, 2: len(self)}.get(whence)
        if base is None or base + offset < 0:
            msg = f"offset {offset} with whence {whence} is before the first frame, or whence is none of 0, 1, 2"
            raise OSError(msg)
        self._reading()
        self._position = min(base + int(offset), len(self))

    def tell(self) -> int:
        """Return the frame the file stands at."""
        return self._position if self._writer is None else len(self._writer)

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._reading().n_frames if self._writer is None else len(self._writer)

    # -- writing

    def write(
        self,
        xyz: object,
        time: object = None,
        cell_lengths: object = None,
        cell_angles: object = None,
        step: object = None,
        *,
        velocities: object = None,
        forces: object = None,
        energies: Mapping[str, object] | None = None,
    ) -> None:
        """Append frames; what the first call gives is what every call gives.

        Parameters
        ----------
        xyz : (n_frames, n_atoms, 3) array_like of float, nm
            float32 comes back bit for bit, float64 is stored to one ulp.
        time : (n_frames,) array_like of float, ps, optional
        cell_lengths, cell_angles : (n_frames, 3) array_like of float, nm and degrees, optional
        step : (n_frames,) array_like of int, optional
            0, 1, 2 ... by default.
        velocities, forces : (n_frames, n_atoms, 3) array_like of float, nm/ps and kJ/mol/nm, optional
        energies : mapping of str to (n_frames,) array_like of float, optional
            ``pe``, ``ke``, ``etotal`` (kJ/mol), ``temp`` (K), ``press`` (kJ/mol/nm^3), ``volume`` (nm^3);
            any other name is stored as it is.

        Raises
        ------
        ValueError
            Shapes that do not fit each other, or the number of atoms.
        SchemaError
            Something the first frames did not have.
        """
        given = {
            "xyz": xyz,
            "time": time,
            "cell_lengths": cell_lengths,
            "cell_angles": cell_angles,
            "step": step,
        }
        self._writing().write(given | {"velocities": velocities, "forces": forces, "energies": energies})

    def flush(self) -> None:
        """Make every frame written durable."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Close; closing twice is allowed."""
        self._close(abandon=False)

    def _close(self, *, abandon: bool) -> None:
        frames, writer = self._frames, self._writer
        self._frames = self._writer = None
        if frames is not None:
            frames.close()
        if writer is not None:
            writer.close(abandon=abandon)

    def __enter__(self) -> Self:
        """Return the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an error, an archive in the making is given up and a directory keeps the frames written."""
        self._close(abandon=kind is not None)


def _checked_indices(atom_indices: Any, n_atoms: int) -> Any:
    rows = cast_indices(atom_indices)
    if rows is None or isinstance(rows, slice):
        return rows
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < n_atoms:
        msg = f"atom_indices run from {rows.min()} to {rows.max()}; the record has atoms 0 to {n_atoms - 1}"
        raise ValueError(msg)
    return rows


def in_order(atom_indices: Any) -> Any:
    """Return indices ascending: the atoms of an mdtraj topology cannot be put into another order."""
    rows = cast_indices(atom_indices)
    return rows if rows is None or isinstance(rows, slice) else np.sort(rows)


def subset(topology: Topology, atom_indices: Any) -> Topology:
    """Return the topology of chosen atoms, or all of it."""
    if atom_indices is None:
        return topology
    if isinstance(atom_indices, slice):
        atom_indices = np.arange(topology.n_atoms)[atom_indices]
    return topology.subset(atom_indices)


def as_trajectory(frames: Frames, topology: Topology | None) -> Trajectory:
    """Return frames as an mdtraj trajectory."""
    return mdtraj.Trajectory(
        frames.xyz,
        topology,
        time=frames.time,
        unitcell_lengths=frames.cell_lengths,
        unitcell_angles=frames.cell_angles,
    )
