"""Frames of a LAMMPS text dump (``dump atom``, ``dump custom``), as they stand in the file."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from molrec_core import FormatError, Problem

Array = np.ndarray[Any, Any]

_TEXT = frozenset({"element", "typelabel"})
# Columns that hold numbers, whatever a broken row says.
_NUMERIC = frozenset(
    "id mol proc type q mass x y z xs ys zs xu yu zu xsu ysu zsu ix iy iz vx vy vz fx fy fz".split()  # noqa: SIM905 - read as LAMMPS lists them
)


class MolrecDumpWarning(UserWarning):
    """A dump is cut short, or lacks what tells its atoms or units apart."""


@dataclass(slots=True)
class DumpFrame:
    """One frame of a dump.

    Attributes
    ----------
    step : int
    count : int
    units : str
        The ``units`` style, empty where the dump does not say.
    time : float or None
    origin : (3,) float64 array
    vectors : (3, 3) float64 array
        Lattice vectors as COLUMNS; the bounding box of a triclinic cell is undone.
    boundary : (3,) bool array or None
        None in dumps of old releases.
    columns : dict of str to (count,) array
        float64, or strings, in the order of the file.
    """

    step: int
    count: int = 0
    units: str = ""
    time: float | None = None
    origin: Array = field(default_factory=lambda: np.zeros(3))
    vectors: Array = field(default_factory=lambda: np.zeros((3, 3)))
    boundary: Array | None = None
    columns: dict[str, Array] = field(default_factory=dict)


class _CutShortError(Exception):
    """The file ends within a frame."""


class DumpReader:
    """Reads a dump front to back.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    FormatError
        The file is no text dump of atoms, or breaks off its own form, naming the line.
    FileNotFoundError

    Warns
    -----
    MolrecDumpWarning
        The last frame is cut short, as a killed run leaves it; it is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._line = 0
        self._file: IO[str]
        self._units = ""

    def frames(self, wanted: range | None = None) -> Iterator[DumpFrame]:
        """Iterate over frames; those not in `wanted` are skipped unparsed."""
        with self.path.open(encoding="utf-8", errors="replace") as self._file:
            self._line = 0
            for number in itertools.count():
                if wanted is not None and (not wanted or number > max(wanted[0], wanted[-1])):
                    return
                try:
                    frame = self._frame(parse=wanted is None or number in wanted)
                except _CutShortError:
                    warnings.warn(
                        f"{self.path} ends within frame {number}, as a killed run leaves it; the frame is left out",
                        MolrecDumpWarning,
                        stacklevel=2,
                    )
                    return
                if frame is None:
                    return
                if wanted is None or number in wanted:
                    yield frame

    def count(self) -> int:
        """Return the number of whole frames."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MolrecDumpWarning)
            return sum(1 for _ in self._skimmed())

    def _skimmed(self) -> Iterator[None]:
        with self.path.open(encoding="utf-8", errors="replace") as self._file:
            self._line = 0
            try:
                while self._frame(parse=False) is not None:
                    yield None
            except _CutShortError:
                return

    # -- one frame

    def _next(self) -> str:
        line = self._file.readline()
        if not line.endswith("\n"):
            raise _CutShortError
        self._line += 1
        return line.rstrip()

    def _refuse(self, message: str) -> FormatError:
        return FormatError([Problem(f"{self.path}, line {self._line}", "dump", message)])

    def _frame(self, *, parse: bool) -> DumpFrame | None:
        """Read a frame up to its last row; None at the end of the file."""
        frame = DumpFrame(-1)
        line = self._file.readline()
        if not line:
            return None
        if self._line and not line.endswith("\n"):
            raise _CutShortError
        self._line += 1
        line = line.rstrip()
        while not line.startswith("ITEM: ATOMS"):
            self._item(frame, line)
            line = self._next()
        if frame.step < 0:
            raise self._refuse("ITEM: ATOMS before any ITEM: TIMESTEP")
        frame.units = self._units
        self._rows(frame, line.split()[2:], parse=parse)
        return frame

    def _item(self, frame: DumpFrame, line: str) -> None:
        item = line.removeprefix("ITEM: ") if line.startswith("ITEM: ") else ""
        try:
            if item == "TIMESTEP":
                frame.step = int(self._next())
            elif item == "NUMBER OF ATOMS":
                frame.count = int(self._next())
            elif item == "TIME":
                frame.time = float(self._next())
            elif item == "UNITS":
                # Stated once, before the first frame.
                self._units = self._next()
            elif item.startswith("BOX BOUNDS"):
                self._box(frame, item.split()[2:])
            else:
                raise self._refuse(f"found {line[:60]!r}; an ITEM of a dump of atoms is expected")
        except ValueError as error:
            if isinstance(error, FormatError):
                raise
            raise self._refuse(f"{item}: {error}") from None

    def _box(self, frame: DumpFrame, words: list[str]) -> None:
        rows = [[float(word) for word in self._next().split()] for _ in range(3)]
        flags = [word for word in words if len(word) == 2 and set(word) <= set("pfsm")][-3:]
        frame.boundary = np.array([flag[0] == "p" for flag in flags]) if len(flags) == 3 else None
        if "abc" in words:
            frame.vectors = np.array([row[:3] for row in rows]).T
            frame.origin = np.array([row[3] for row in rows])
            return
        tilts = [row[2] for row in rows] if len(rows[0]) == 3 else [0.0, 0.0, 0.0]
        xy, xz, yz = tilts
        low = np.array([rows[0][0] - min(0.0, xy, xz, xy + xz), rows[1][0] - min(0.0, yz), rows[2][0]])
        high = np.array([rows[0][1] - max(0.0, xy, xz, xy + xz), rows[1][1] - max(0.0, yz), rows[2][1]])
        edge = high - low
        frame.origin = low
        frame.vectors = np.array([[edge[0], xy, xz], [0.0, edge[1], yz], [0.0, 0.0, edge[2]]])

    def _rows(self, frame: DumpFrame, names: list[str], *, parse: bool) -> None:
        lines = list(itertools.islice(self._file, frame.count))
        self._line += len(lines)
        if len(lines) < frame.count or (lines and not lines[-1].endswith("\n")):
            raise _CutShortError
        if not parse:
            return
        if not names:
            raise self._refuse("ITEM: ATOMS names no columns")
        first = lines[0].split() if lines else []
        text = [
            name in _TEXT or (name not in _NUMERIC and not _is_number(value))
            for name, value in itertools.zip_longest(names, first[: len(names)], fillvalue="0")
        ]
        table = np.zeros(0) if any(text) else _numbers(lines)
        if table.size != frame.count * len(names):
            table = np.array(" ".join(lines).split(), dtype=object)
        if table.size != frame.count * len(names):
            raise self._refuse(
                f"{table.size} values in {frame.count} rows of {len(names)} columns ({' '.join(names)})"
            )
        table = table.reshape(frame.count, len(names))
        for i, name in enumerate(names):
            values = table[:, i]
            if text[i]:
                frame.columns[name] = values.astype(np.dtypes.StringDType())
                continue
            try:
                frame.columns[name] = values.astype(np.float64)
            except ValueError as error:
                raise self._refuse(f"column {name}: {error}") from None


def _numbers(lines: list[str]) -> Array:
    """Return the numbers of rows that hold nothing else; fewer where something else stands there."""
    # Before numpy 2.5 such text is a warning, and what comes before it is returned.
    with warnings.catch_warnings(), contextlib.suppress(ValueError):
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.fromstring(" ".join(lines), dtype=np.float64, sep=" ")
    return np.zeros(0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
