"""Loading records into mdtraj trajectories, and saving those."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import mdtraj
import numpy as np
from mdtraj.core.trajectory import Trajectory

from molrec_mdtraj._file import MolrecTrajectoryFile, as_trajectory, in_order, subset
from molrec_mdtraj._topology import StoredTopology

if TYPE_CHECKING:
    from mdtraj.core.topology import Topology

    from molrec_core import Compression

Array = np.ndarray[Any, Any]
Which = int | Sequence[int] | None
P = ParamSpec("P")
R = TypeVar("R")


def is_record(path: object) -> bool:
    """Whether a path or URL is named like a record: ``*.mrec``, with or without a slash, or ``*.mrec.zip``."""
    if not isinstance(path, str | os.PathLike):
        return False
    text = os.fspath(path)
    return isinstance(text, str) and text.rstrip("/").removesuffix(".zip").endswith(".mrec")


def lists_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Make the TypeError about an unknown keyword list those that `function` takes."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        unknown = [name for name in kwargs if name not in parameters]
        if unknown:
            msg = f"{function.__name__}() takes no keyword {unknown[0]!r} for a record; it takes {', '.join(parameters)}"
            raise TypeError(msg)
        return function(*args, **kwargs)

    return checked


@lists_keywords
def load_mrec(
    filename: str | os.PathLike[str],
    stride: int | None = None,
    atom_indices: Any = None,
    frame: Which = None,
    top: Topology | Trajectory | str | os.PathLike[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Load a record, whatever its name.

    Parameters
    ----------
    filename : path-like or URL
    stride : int, optional
        Only every `stride`-th frame.
    atom_indices : array_like of int or slice, optional
        Only these atoms; they come in the record's order.
    frame : int or sequence of int, optional
        Only this frame, or these; negative from the end. `stride` is ignored then.
    top : Topology, Trajectory or path-like, optional
        Not needed. It must have as many atoms as the record, and is used where it names the
        same atoms and residues, or where the record names none.
    storage_options : mapping, optional
        For a URL: passed to fsspec.

    Returns
    -------
    mdtraj.Trajectory
        ``xyz`` in nm, float32; ``time`` in ps, float64.

    Raises
    ------
    RecordNotFoundError, FormatError
    ValueError
        `top` has another number of atoms; `atom_indices` out of range.
    IndexError
        There is no such frame.
    """
    with MolrecTrajectoryFile(filename, storage_options=storage_options) as file:
        topology = file.checked_topology(None if top is None else _topology(top))
        atom_indices = in_order(atom_indices)
        return as_trajectory(
            file.pick(_which(file, stride, frame), atom_indices), subset(topology, atom_indices)
        )


def _topology(top: Any) -> Topology:
    return (
        getattr(top, "topology", top) if not isinstance(top, str | os.PathLike) else mdtraj.load_topology(top)
    )


def _which(file: MolrecTrajectoryFile, stride: int | None, frame: Which) -> slice | Array:
    if frame is None:
        return slice(None, None, 1 if stride is None else int(stride))
    wanted = np.atleast_1d(np.asarray(frame, dtype=np.int64))
    ordinals = np.where(wanted < 0, wanted + len(file), wanted)
    for given, ordinal in zip(wanted, ordinals, strict=True):
        if not 0 <= ordinal < len(file):
            msg = f"frame {given} of a record of {len(file)} frames"
            raise IndexError(msg)
    return ordinals


@lists_keywords
def load(
    filename_or_filenames: Any,
    discard_overlapping_frames: bool = False,
    *,
    stride: int | None = None,
    atom_indices: Any = None,
    frame: Which = None,
    top: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Load one record or several of the same atoms; ``mdtraj.load`` for records.

    Parameters
    ----------
    discard_overlapping_frames : bool
        Where a record begins at a step its predecessor reached, as after a restart, drop
        the predecessor's frames from that step on; else compare the frames at the border as mdtraj does.

    Raises
    ------
    ValueError
        The records name different atoms.
    """
    if isinstance(filename_or_filenames, str | os.PathLike):
        return load_mrec(
            filename_or_filenames, stride, atom_indices, frame, top, storage_options=storage_options
        )
    names = list(filename_or_filenames)
    if not all(map(is_record, names)):
        msg = f"each file is to be a record, {names[0]!s} is one; found {', '.join(map(str, names))}"
        raise TypeError(msg)
    rows = in_order(atom_indices)
    topology = None if top is None else _topology(top)
    parts: list[Trajectory] = []
    steps: list[Array] = []
    for name in names:
        with MolrecTrajectoryFile(name, storage_options=storage_options) as file:
            if topology is None or not parts:
                topology = file.checked_topology(topology)
            elif topology.n_atoms != file.n_atoms or not _agrees(file, topology):
                msg = f"{name} names other atoms than {names[0]}; load them one by one"
                raise ValueError(msg)
            frames = file.pick(_which(file, stride, frame), rows)
            parts.append(as_trajectory(frames, subset(topology, rows) if not parts else None))
            steps.append(frames.step)
    if discard_overlapping_frames:
        _discard_overlaps(parts, steps)
    if len(parts) == 1:
        return parts[0]
    whole = mdtraj.join(parts, check_topology=False)
    # mdtraj 1.10 forgets chain ids when it copies a topology.
    whole.topology = parts[0].topology
    return whole


def _agrees(file: MolrecTrajectoryFile, topology: Topology) -> bool:
    stored = StoredTopology.of(file._reading().record)  # noqa: SLF001 - one package
    return not stored.named or stored.describes(topology)


def _discard_overlaps(parts: list[Trajectory], steps: list[Array]) -> None:
    """Cut each part where the next one takes over: a run goes on from its restart, what came after is lost."""
    for i in range(len(parts) - 2, -1, -1):
        before, after = steps[i], steps[i + 1]
        if not len(before) or not len(after):
            continue
        if before[0] < after[0] <= before[-1]:
            keep = int(np.searchsorted(before, after[0]))
        else:
            same = (np.abs(parts[i + 1].xyz[0] - parts[i].xyz[-1]) < 2e-3).all()
            keep = len(before) - int(same)
        parts[i], steps[i] = parts[i][:keep], before[:keep]


@lists_keywords
def iterload(
    filename: str | os.PathLike[str],
    chunk: int = 100,
    *,
    stride: int | None = None,
    atom_indices: Any = None,
    skip: int = 0,
    top: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[Trajectory]:
    """Iterate over the frames ``[skip::stride]`` of a record in trajectories of `chunk` frames; 0 means one of all."""
    file = MolrecTrajectoryFile(filename, storage_options=storage_options)
    try:
        rows = in_order(atom_indices)
        topology = subset(file.checked_topology(None if top is None else _topology(top)), rows)
        file.seek(skip)
    except BaseException:
        file.close()
        raise
    return _chunks(file, chunk or None, stride, rows, topology)


def _chunks(
    file: MolrecTrajectoryFile,
    chunk: int | None,
    stride: int | None,
    rows: Any,
    topology: Topology,
) -> Iterator[Trajectory]:
    with file:
        while file.tell() < len(file):
            yield file.read_as_traj(chunk, stride, rows, topology)


@lists_keywords
def load_frame(
    filename: str | os.PathLike[str],
    index: Which,
    top: Any = None,
    atom_indices: Any = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Load one frame of a record, or the frames of a list; ``mdtraj.load_frame`` for records."""
    return load_mrec(filename, None, atom_indices, index, top, storage_options=storage_options)


@lists_keywords
def load_topology(
    filename: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> Topology:
    """Return a record's topology; ``mdtraj.load_topology`` for records."""
    with MolrecTrajectoryFile(filename, storage_options=storage_options) as file:
        return file.checked_topology(None)


@lists_keywords
def save_mrec(
    traj: Trajectory,
    filename: str | os.PathLike[str],
    force_overwrite: bool = True,
    *,
    precision: float | None = None,
    compression: Compression | None = None,
    meta: Mapping[str, Any] | None = None,
) -> None:
    """Save a trajectory as a record, whatever its name; ``*.zip`` is packed.

    An mdtraj trajectory holds no velocities, forces or energies, so neither does the record:
    :meth:`MolrecTrajectoryFile.write` takes them.

    Parameters
    ----------
    traj : mdtraj.Trajectory
    filename : path-like
    force_overwrite : bool
        Replace a record that is there.
    precision : float, optional
        Declared precision of the coordinates, nm. Without it they are exact.
    compression : molrec_core.Compression, optional
    meta : mapping, optional
        Added to the record's ``meta`` document.

    Raises
    ------
    RecordExistsError, CommitError
    """
    with MolrecTrajectoryFile(
        filename,
        "w",
        force_overwrite,
        precision=precision,
        compression=compression,
        meta=meta,
        expected_frames=len(traj),
    ) as file:
        file.topology = traj.topology
        file.write(traj.xyz, traj.time, traj.unitcell_lengths, traj.unitcell_angles)


def load_velocities(
    filename: str | os.PathLike[str],
    stride: int | None = None,
    atom_indices: Any = None,
    frame: Which = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Array:
    """Return a record's velocities, which an mdtraj trajectory has no place for.

    Parameters
    ----------
    filename, stride, atom_indices, frame, storage_options
        As for :func:`load_mrec`; the atoms come in its order.

    Returns
    -------
    (n_frames, n_atoms, 3) float64 array, nm/ps
        NaN in frames that do not have them.

    Raises
    ------
    SectionNotFoundError
        No frame has velocities.
    """
    with MolrecTrajectoryFile(filename, storage_options=storage_options) as file:
        return file.velocities(_which(file, stride, frame), in_order(atom_indices))


def load_forces(
    filename: str | os.PathLike[str],
    stride: int | None = None,
    atom_indices: Any = None,
    frame: Which = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Array:
    """Return a record's forces: (n_frames, n_atoms, 3) float64, kJ/mol/nm; otherwise as :func:`load_velocities`."""
    with MolrecTrajectoryFile(filename, storage_options=storage_options) as file:
        return file.forces(_which(file, stride, frame), in_order(atom_indices))


def load_energies(
    filename: str | os.PathLike[str],
    stride: int | None = None,
    frame: Which = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """Return a record's per-step scalars by name.

    Returns
    -------
    dict of str to (n_frames,) float64 array
        Those of ``pe``, ``ke``, ``etotal``, ``free_energy`` (kJ/mol), ``temp`` (K), ``press``
        (kJ/mol/nm^3) and ``volume`` (nm^3) that the record has; NaN in frames without one.
    """
    with MolrecTrajectoryFile(filename, storage_options=storage_options) as file:
        return file.energies(_which(file, stride, frame))
