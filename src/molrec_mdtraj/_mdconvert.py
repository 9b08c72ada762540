"""What mdtraj's command ``mdconvert`` needs to know about records."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mdtraj.scripts import mdconvert

from molrec_mdtraj._file import MolrecTrajectoryFile
from molrec_mdtraj._load import is_record

FIELDS = ("xyz", "time", "step", "cell_lengths", "cell_angles", "velocities", "topology")
UNITS = "nanometers"
_H5_ENERGIES = {"potentialEnergy": "pe", "kineticEnergy": "ke", "temperature": "temp"}


def extension(_path: str) -> str:
    """Return the suffix under which mdconvert looks a record up."""
    return ".mrec"


def read(
    infile: MolrecTrajectoryFile, chunk: int | None, stride: int, atom_indices: Any
) -> tuple[Any, str, int]:
    """Return the next frames as mdconvert passes them around."""
    frames = infile.read(chunk, stride, atom_indices)
    data = {name: values for name, values in frames._asdict().items() if values is not None}
    data["step"] = data["step"].astype("int32", casting="unsafe")
    return data, UNITS, len(frames.xyz)


def write(outfile: MolrecTrajectoryFile, data: dict[str, Any]) -> None:
    """Append frames that mdconvert read from another format."""
    if not len(outfile):
        outfile.topology = data.get("topology")
    outfile.write(
        data["xyz"],
        data.get("time"),
        data.get("cell_lengths"),
        data.get("cell_angles"),
        data.get("step"),
        velocities=data.get("velocities"),
        energies=energies(data),
    )


def energies(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the per-step scalars among the fields of an mdtraj HDF5 file, by the names of a record."""
    return {ours: data[theirs] for theirs, ours in _H5_ENERGIES.items() if data.get(theirs) is not None}


def fields() -> tuple[str, ...]:
    """Return the fields a record takes from another format."""
    return (*FIELDS, *_H5_ENERGIES)


def files_and_records() -> Any:
    """Return ``os`` as mdconvert is to see it: a record is a file, though it may be a directory."""
    path = SimpleNamespace(**vars(os.path))
    path.isdir = lambda name: not is_record(name) and Path(name).is_dir()
    path.isfile = lambda name: Path(name).exists() if is_record(name) else Path(name).is_file()
    shim = SimpleNamespace(**vars(os))
    shim.path = path
    return shim


def parse_args() -> Any:
    """Parse the command line; a record that is read brings its own topology."""
    given = sys.argv
    sys.argv = _with_topology(given)
    try:
        return mdconvert.parse_args.__molrec_original__()
    finally:
        sys.argv = given


def _with_topology(arguments: Sequence[str]) -> list[str]:
    if any(argument.startswith(("-t", "--t")) for argument in arguments):
        return list(arguments)
    pairs = itertools.pairwise(arguments)
    read_from = [
        argument
        for before, argument in pairs
        if is_record(argument) and not before.startswith(("-o", "--o")) and Path(argument).exists()
    ]
    return [*arguments, "-t", read_from[0]] if read_from else list(arguments)
