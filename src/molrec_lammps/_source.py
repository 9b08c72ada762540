"""A LAMMPS dump as the source of a record: ids sorted, forms of coordinates told apart."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from molrec_core import FormatError, Frame, Problem, SequenceSchema
from molrec_core.hookspecs import Source
from molrec_core.hosts import StepNumbers
from molrec_core.units import Units
from molrec_lammps._convert import SampleConverter
from molrec_lammps._data import DataFile, read_data
from molrec_lammps._dump import DumpFrame, DumpReader, MolrecDumpWarning
from molrec_lammps._sample import Sample, sorted_relations

Array = np.ndarray[Any, Any]

# Positions, the form first that says most: wrapped, wrapped and scaled, unwrapped, unwrapped and scaled.
_FORMS = {
    "wrapped": ("x", "y", "z"),
    "scaled": ("xs", "ys", "zs"),
    "unwrapped": ("xu", "yu", "zu"),
    "scaled unwrapped": ("xsu", "ysu", "zsu"),
}
_VECTORS = {"v": ("vx", "vy", "vz"), "f": ("fx", "fy", "fz")}
_IMAGES = ("ix", "iy", "iz")
_IDENTITY = {
    "type": "type",
    "mol": "molecule",
    "q": "q",
    "mass": "mass",
    "element": "element",
    "typelabel": "label",
}


def read(path: Path, topology: Path | None, frames: slice) -> Source:
    """Read a text dump, and a data file that goes with it.

    Parameters
    ----------
    path : Path
        Of ``dump atom`` or ``dump custom``.
    topology : Path, optional
        A data file: masses, type labels, molecules, charges, bonds, angles, dihedrals, impropers.
    frames : slice
        Which frames.

    Returns
    -------
    Source
        Rows sorted by id. Units are those the dump states (``dump_modify units yes``), else
        those of the data file. Scaled coordinates become lengths; image flags stand beside
        wrapped coordinates alone, so that nothing is unwrapped twice.

    Raises
    ------
    FormatError
        No text dump of atoms, no complete positions, ids that repeat, or frames of other columns.
    UnitError
        A units style that there is not.

    Warns
    -----
    MolrecDumpWarning
        Neither file states the units; the dump has no ids; its last frame is cut short.
    """
    reader = DumpReader(Path(path))
    data = DataFile() if topology is None else read_data(Path(topology))
    bounded = (
        (frames.start or 0) >= 0 and (frames.stop is None or frames.stop >= 0) and (frames.step or 1) > 0
    )
    wanted: range | None = None
    if frames != slice(None):
        wanted = range(*frames.indices(2**62 if bounded else reader.count()))
        if wanted and wanted[0] > wanted[-1]:
            raise FormatError(
                [Problem(str(path), "dump", "a dump is read front to back; the frames run backwards")]
            )
    first = next(reader.frames(wanted), None)
    if first is None:
        return Source(iter(()), meta=_meta(Units().to_meta(), None))
    convert = _DumpConverter(Path(path), first, data)
    return Source(
        convert.frames(reader.frames(wanted)),
        meta=_meta(convert.units, convert.form),
        schema=convert.schema,
        n_frames=None,
    )


def _meta(units: Mapping[str, str] | None, form: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"creator": {"name": "molrec_lammps", "version": version("molrec")}}
    if units is not None:
        document["units"] = dict(units)
    if form is not None:
        document["lammps"] = {"coordinates": form}
    return document


class _DumpConverter:
    """Turns frames of one dump into frames of a record; the first one fixes what they hold."""

    schema: SequenceSchema

    def __init__(self, path: Path, first: DumpFrame, data: DataFile) -> None:
        self._path = path
        self._data = data
        self._names = list(first.columns)
        style = first.units or data.units
        self.units = Units.lammps(style).to_meta() if style else None
        if not style:
            self._warn(
                "states no units (dump_modify units yes), nor does a data file; readers will assume angstrom and ps"
            )
        if "id" not in first.columns:
            self._warn(
                "has no ids, so that rows keep the order of the file, which LAMMPS may change from frame to frame"
            )
        forms = [form for form, names in _FORMS.items() if all(name in first.columns for name in names)]
        if not forms:
            raise self._refuse(
                first, f"no complete x y z, xs ys zs, xu yu zu or xsu ysu zsu among {' '.join(self._names)}"
            )
        self.form = forms[0]
        self._timed = first.time is not None
        self._convert = SampleConverter(style or "lj", data.labels, with_ids="id" in first.columns)
        self.schema = self._convert.declare(self._sample(first))

    def frames(self, dump: Iterator[DumpFrame]) -> Iterator[tuple[Frame, int, float | None]]:
        """Iterate over frames with their steps and times."""
        steps = StepNumbers()
        for found in dump:
            if list(found.columns) != self._names:
                raise self._refuse(
                    found, f"columns {' '.join(found.columns)}, the first frame has {' '.join(self._names)}"
                )
            step, source = steps.store(found.step)
            time = found.time if self._timed else None
            yield self._convert.frame(self._sample(found), source_step=source), step, time

    def _warn(self, message: str) -> None:
        warnings.warn(f"{self._path} {message}", MolrecDumpWarning, stacklevel=5)

    def _refuse(self, frame: DumpFrame, message: str) -> FormatError:
        return FormatError([Problem(f"{self._path}, step {frame.step}", "dump", message)])

    def _sample(self, found: DumpFrame) -> Sample:
        columns = dict(found.columns)
        ids = np.arange(1, found.count + 1)
        order: Array = np.arange(found.count)
        if "id" in columns:
            given = columns.pop("id").astype(np.int64)
            order = np.argsort(given, kind="stable")
            ids = given[order]
            if (ids[1:] == ids[:-1]).any():
                raise self._refuse(found, f"id {int(ids[1:][ids[1:] == ids[:-1]][0])} stands for two atoms")
        take = {name: values[order] for name, values in columns.items()}
        boundary = np.ones(3, bool) if found.boundary is None else found.boundary
        sample = Sample(found.step, 0.0, ids, found.origin, found.vectors, boundary)
        self._place(sample, take, found)
        for name, names in _VECTORS.items():
            if all(n in take for n in names):
                sample.atoms[name] = _stack(take, names)
        for name, key in _IDENTITY.items():
            if name in take:
                values = take.pop(name)
                sample.identity[key] = values.astype(np.int64) if name in {"type", "mol"} else values
        self._complete(sample)
        sample.arrays = take
        return sample

    def _place(self, sample: Sample, take: dict[str, Array], found: DumpFrame) -> None:
        """Set positions as lengths, and image flags where they are theirs."""
        given = _stack(take, _FORMS[self.form])
        sample.atoms["x"] = (
            found.vectors @ given + found.origin[:, None] if self.form.startswith("scaled") else given
        )
        if self.form in {"wrapped", "scaled"} and all(name in take for name in _IMAGES):
            sample.atoms["image"] = _stack(take, _IMAGES).astype(np.int32)

    def _complete(self, sample: Sample) -> None:
        """Add what the data file knows of these atoms."""
        data = self._data
        at = np.searchsorted(data.ids, sample.ids)
        known = at < len(data.ids)
        known[known] = data.ids[at[known]] == sample.ids[known]
        for name, values in data.atoms.items():
            if name not in sample.identity and known.all() and self._convert_ids:
                sample.identity[name] = values[at]
        types = sample.identity.get("type")
        if types is not None and "mass" not in sample.identity and data.masses:
            table = np.array([data.masses.get(i, 0.0) for i in range(int(types.max(initial=0)) + 1)])
            sample.identity["mass"] = table[types]
        if self._convert_ids:
            relations = {name: rows for name, rows in data.relations.items() if len(rows)}
            sample.relations = {name: sorted_relations(rows, sample.ids) for name, rows in relations.items()}

    @property
    def _convert_ids(self) -> bool:
        return "id" in self._names


def _stack(columns: dict[str, Array], names: tuple[str, ...]) -> Array:
    """Take columns out as one (3, n) array."""
    return np.stack([columns.pop(name) for name in names])
