"""What a LAMMPS data file adds to a dump: masses, labels, molecules, charges, bonds and their like."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from molrec_core import FormatError, Problem
from molrec_lammps._dump import MolrecDumpWarning
from molrec_lammps._sample import RELATIONS

Array = np.ndarray[Any, Any]

# Columns of the Atoms section after the id, as far as they are taken.
_STYLES = {
    "atomic": ("type",),
    "angle": ("molecule", "type"),
    "bond": ("molecule", "type"),
    "charge": ("type", "q"),
    "dipole": ("type", "q"),
    "ellipsoid": ("type",),
    "full": ("molecule", "type", "q"),
    "molecular": ("molecule", "type"),
    "sphere": ("type",),
}
_SECTION = re.compile(r"^\s*([A-Z][A-Za-z]*(?: [A-Z][A-Za-z]*)*)\s*(?:#\s*(\S+).*)?$")
_KINDS = {"Atom": "atom", "Bond": "bond", "Angle": "angle", "Dihedral": "dihedral", "Improper": "improper"}


@dataclass(slots=True)
class DataFile:
    """The parts of a data file that a record of a dump takes.

    Attributes
    ----------
    units : str
        From the first line, where LAMMPS wrote it; else empty.
    labels : dict
        Kind -> type -> label.
    masses : dict of int to float
        By type.
    ids : (n,) int64 array
        Ascending; the rows of `atoms`.
    atoms : dict of str to (n,) array
        ``type``, ``molecule``, ``q``, as the atom style has them.
    relations : dict of str to (m, 1 + k) int64 array
        Type and atom ids.
    """

    units: str = ""
    labels: dict[str, dict[int, str]] = field(default_factory=dict)
    masses: dict[int, float] = field(default_factory=dict)
    ids: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    atoms: dict[str, Array] = field(default_factory=dict)
    relations: dict[str, Array] = field(default_factory=dict)


def read_data(path: Path) -> DataFile:
    """Read a data file.

    Raises
    ------
    FormatError
        A section that is not in the form its name says.

    Warns
    -----
    MolrecDumpWarning
        The Atoms section does not name its style, so that molecules and charges are not known.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    stated = re.search(r"units\s*=\s*(\w+)", lines[0]) if lines else None
    data = DataFile(stated.group(1) if stated else "")
    sections = _sections(lines[1:])
    for name, kind in _KINDS.items():
        rows = sections.get(f"{name} Type Labels", ("", []))[1]
        data.labels[kind] = {int(row[0]): row[1] for row in rows}
    try:
        for row in sections.get("Masses", ("", []))[1]:
            data.masses[_type(row[0], data.labels["atom"])] = float(row[1])
        _read_atoms(path, data, *sections.get("Atoms", ("", [])))
        for name, width in RELATIONS.items():
            rows = sections.get(name.capitalize(), ("", []))[1]
            labels = data.labels[name[:-1]]
            found = [[_type(row[1], labels), *map(int, row[2 : 2 + width])] for row in rows]
            data.relations[name] = np.array(found, dtype=np.int64).reshape(-1, 1 + width)
    except (ValueError, IndexError, KeyError) as error:
        raise FormatError(
            [Problem(str(path), "data_file", f"{error!r} where a number or a known label is expected")]
        ) from None
    return data


def _sections(lines: list[str]) -> dict[str, tuple[str, list[list[str]]]]:
    """Return each section's style comment and its rows as words."""
    found: dict[str, tuple[str, list[list[str]]]] = {}
    rows: list[list[str]] = []
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            rows = []
            found[heading.group(1)] = heading.group(2) or "", rows
        elif words := line.split("#")[0].split():
            rows.append(words)
    return found


def _type(word: str, labels: dict[int, str]) -> int:
    if word.isdecimal():
        return int(word)
    return {label: number for number, label in labels.items()}[word]


def _read_atoms(path: Path, data: DataFile, style: str, rows: list[list[str]]) -> None:
    if not rows:
        return
    if style not in _STYLES:
        warnings.warn(
            f"{path}: the Atoms section {f'is of style {style!r}' if style else 'names no style'}; molecules and "
            f"charges are taken from sections marked 'Atoms # full' or one of {', '.join(_STYLES)}",
            MolrecDumpWarning,
            stacklevel=4,
        )
        return
    ids = np.array([int(row[0]) for row in rows], dtype=np.int64)
    order = np.argsort(ids)
    data.ids = ids[order]
    for column, name in enumerate(_STYLES[style], start=1):
        words = [row[column] for row in rows]
        if name == "q":
            data.atoms[name] = np.array(words, dtype=np.float64)[order]
        else:
            numbers = [_type(word, data.labels["atom"]) if name == "type" else int(word) for word in words]
            data.atoms[name] = np.array(numbers, dtype=np.int64)[order]
