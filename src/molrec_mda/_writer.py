"""Writing a trajectory of MDAnalysis as a record."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from MDAnalysis.coordinates.base import WriterBase

from molrec_core import (
    Compression,
    ReadOnlyError,
    RecordExistsError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    pack,
)
from molrec_core.hosts import FORCES, POSITIONS, VELOCITIES, StepNumbers, host_dtypes_of
from molrec_core.units import MDANALYSIS, Units
from molrec_mda._frames import FrameBuilder, Presence, knows_time
from molrec_mda._reader import UNITS
from molrec_mda._topology import store_topology

Array = np.ndarray[Any, Any]

FLOAT32 = Compression.zstd(1, shuffle=True)
"""Halves the size of what MDAnalysis holds in float32 (9 to 10.6 bytes an atom and frame): the lower half of each
float64 is zeros, which the shuffle lays together. Not the default, because reading it back takes twice to five times
as long as reading plain columns."""

_PACKED = "mrec.zip"
_COLUMNS = {
    "positions": ("atoms", POSITIONS),
    "velocities": ("velocities", VELOCITIES),
    "forces": ("forces", FORCES),
}


class MrecWriter(WriterBase):
    """Writes a record: ``mda.Writer("run.mrec", n_atoms)`` after ``import molrec_mda``.

    The topology is that of the first group of atoms written. What was written is on disk
    after ``flush()`` and ``close()``, and `flush_seconds` after a frame at the latest.

    Parameters
    ----------
    filename : str or path-like
        ``*.mrec``, or ``*.mrec.zip``: then the record is written beside it and packed on ``close()``.
    n_atoms : int, optional
        Checked against every frame; by default that of the first one.
    append : bool
        Go on with the record that is there.
    overwrite : bool
        Replace the record that is there, once the new one holds frames.
    precision : float or mapping, optional
        Declared precision of positions, Å; or of each quantity:
        ``{"positions": 1e-3, "velocities": 1e-4, "forces": 1e-3}``. Lossless without.
    velocities, forces : bool or "auto"
        "auto": on the frames that have them. True: every frame must. False: never.
    times : bool or "auto"
        "auto": where the source knows its times. True: also the count of frames in ps
        that MDAnalysis gives else. False: never.
    convert_units : bool
        When appending: convert to the record's own units.
    compression : Compression, optional
        Of columns without a precision; none by default, `FLOAT32` halves the size.
    flush_every, flush_seconds, expected_frames
        As for :class:`molrec_core.TrajectoryWriter`; flushed every 5 s by default.
    meta : mapping, optional
        Further keys of the record's meta document.
    start, step, dt
        Accepted because MDAnalysis passes them; every frame brings its own.

    Raises
    ------
    RecordExistsError
        There is a record, and neither `append` nor `overwrite` was asked for.
    ReadOnlyError
        Appending to a packed record.
    ValueError
        The number of atoms differs from the record's, or settings contradict it.
    """

    format = ("MREC", "ZIP")
    multiframe = True
    units = UNITS

    def __init__(
        self,
        filename: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        append: bool = False,
        overwrite: bool = False,
        precision: float | Mapping[str, float] | None = None,
        velocities: Presence = "auto",
        forces: Presence = "auto",
        times: Presence = "auto",
        convert_units: bool = True,
        compression: Compression | None = None,
        flush_every: int | None = None,
        flush_seconds: float | None = 5.0,
        expected_frames: int | None = None,
        meta: Mapping[str, Any] | None = None,
        start: Any = None,
        step: Any = None,
        dt: Any = None,
    ) -> None:
        del start, step, dt
        self._writer: TrajectoryWriter | None = None
        self._builder: FrameBuilder | None = None
        self._group: Any = None
        self._rows: Array | None = None
        self._told = False
        self.filename = os.fspath(filename).rstrip("/")
        self.n_atoms = n_atoms
        self.convert_units = convert_units
        self._presence = {"velocities": velocities, "forces": forces, "times": times}
        self._precision = precision
        self._meta = dict(meta or {})
        self._overwrite = overwrite
        self._options: dict[str, Any] = {
            "compression": compression,
            "flush_every": flush_every,
            "flush_seconds": flush_seconds,
        }
        self._expected_frames = expected_frames
        self._archive, self._path = _split_archive(self.filename)
        self._check_place(append=append)
        if append:
            self._append()

    def _check_place(self, *, append: bool) -> None:
        if append and self._archive is not None:
            msg = "a packed record cannot be appended to; unpack it first: molrec unpack, or molrec_core.unpack(path)"
            raise ReadOnlyError(msg, loc=self.filename)
        if append and self._precision is not None:
            msg = "precision is fixed when a record is created; leave it out when appending"
            raise ValueError(msg)
        taken = [place for place in (self._archive, self._path) if place is not None and place.exists()]
        if taken and not append and not self._overwrite:
            msg = "it is there already; pass overwrite=True to replace it, or append=True to go on with it"
            raise RecordExistsError(msg, loc=str(taken[0]))

    # -- opening

    def _append(self) -> None:
        with open_record(self._path) as record:
            trajectory = record.get("trajectory")
            system = record.get("system")
            if trajectory is None or not len(trajectory):
                found = system["atoms"].count if system is not None and "atoms" in system else self.n_atoms
                self._check_count(found)
                self._writer = TrajectoryWriter.reopen(self._path, **self._options)
                return
            counts = trajectory.counts("atoms")
            self._check_count(int(counts[-1]))
            meta = record.meta
            self._builder = self._builder_over(trajectory, meta)
        self._writer = TrajectoryWriter.reopen(self._path, **self._options)

    def _builder_over(self, trajectory: Any, meta: Mapping[str, Any]) -> FrameBuilder:
        schema: SequenceSchema = trajectory.schema
        needed = {"x", "y", "z"}
        extra = schema.blocks["atoms"].columns.keys() - needed - set(VELOCITIES) - set(FORCES)
        if extra or not needed <= schema.blocks["atoms"].columns.keys() or "has_cell" not in schema.meta:
            msg = (
                f"{self._path}: the record was not declared for MDAnalysis (atoms holds "
                f"{', '.join(schema.blocks['atoms'].columns)}); copy it with molrec convert and append to the copy"
            )
            raise ValueError(msg)
        units = Units.from_meta(meta, host=MDANALYSIS, convert=self.convert_units, stacklevel=5)
        sources = trajectory.meta("source_step") if "source_step" in schema.meta else [None]
        steps = StepNumbers(int(trajectory.steps[-1]), broken=sources[-1] is not None)
        times = trajectory.times is not None
        return FrameBuilder(
            schema, host_dtypes_of(meta), MDANALYSIS.conversion(units), times=times, steps=steps
        )

    def _check_count(self, found: int | None) -> None:
        if self.n_atoms is None:
            self.n_atoms = found
        elif found is not None and found != self.n_atoms:
            msg = f"{self._path}: the record has {found} atoms, the writer was opened for {self.n_atoms}"
            raise ValueError(msg)

    def _begin(self, group: Any, ts: Any) -> FrameBuilder:
        """Create the record from the first group of atoms and its timestep."""
        topology = store_topology(group)
        builder = FrameBuilder.start(ts, self._rows, topology.host_dtypes, **self._presence)
        for block, column, value in self._precisions(builder):
            builder.schema.declare_precision(block, column, value)
        meta = {
            "creator": {"name": "molrec", "version": version("molrec")},
            "units": MDANALYSIS.to_meta(),
            **self._meta,
            "host_dtypes": topology.host_dtypes,
            "mdanalysis": {"guessed": topology.guessed},
        }
        if self._writer is not None:
            # A record of no frames, taken up to append: its pin is written anew.
            self._writer.close()
            self._writer = TrajectoryWriter.reopen(self._path, schema=builder.schema, **self._options)
        else:
            self._writer = TrajectoryWriter(
                self._path,
                builder.schema,
                meta=meta,
                system=topology.system,
                overwrite=self._overwrite,
                expected_frames=self._expected_frames,
                **self._options,
            )
        return builder

    def _precisions(self, builder: FrameBuilder) -> list[tuple[str, str, float]]:
        if self._precision is None:
            return []
        given = self._precision if isinstance(self._precision, Mapping) else {"positions": self._precision}
        found = []
        for quantity, value in given.items():
            if quantity not in _COLUMNS:
                msg = f"precision of {quantity!r}: there are {', '.join(_COLUMNS)}"
                raise ValueError(msg)
            block, columns = _COLUMNS[quantity]
            place = "atoms" if quantity in builder.columns else block
            if place not in builder.schema.blocks:
                msg = f"precision of {quantity}: they are not written ({quantity}=False)"
                raise ValueError(msg)
            found += [(place, column, value) for column in columns]
        return found

    # -- writing

    def _write_next_frame(self, obj: Any) -> None:
        try:
            group = obj.atoms
            ts = group.universe.trajectory.ts
        except AttributeError:
            msg = f"a {type(obj).__name__} was given; an AtomGroup or a Universe is written"
            raise TypeError(msg) from None
        self._take_group(group)
        builder = self._builder
        if builder is None:
            builder = self._builder = self._begin(group, ts)
        if self._presence["times"] == "auto" and builder.times != knows_time(ts):
            known, stored = (
                ("has a time", "none") if not builder.times else ("has no time of its own", "times")
            )
            msg = (
                f"frame {ts.frame} of the source {known}, but the record has {stored}: a record has times for "
                "every frame or for none. Pass times=True to take the count of frames where there is none"
                + (", or times=False to write none" if self._writer is None or not len(self._writer) else "")
            )
            raise ValueError(msg)
        if self._presence["times"] is not True or builder.times:
            frame, step, time = builder.build(ts, self._rows)
        else:
            msg = f"{self._path}: the record was begun without times, so times=True cannot be honoured"
            raise ValueError(msg)
        assert self._writer is not None
        self._writer.append(frame, step=step, time=time)

    def _take_group(self, group: Any) -> None:
        """Check the atoms and note where they are in their universe."""
        if group is self._group and not hasattr(group, "is_uptodate"):
            return
        if self.n_atoms is None:
            self.n_atoms = group.n_atoms
        if group.n_atoms != self.n_atoms:
            msg = f"{group.n_atoms} atoms were given, and the record is for {self.n_atoms}"
            raise ValueError(msg)
        rows = np.asarray(group.ix)
        if (
            self._group is not None
            and not self._told
            and not _same_atoms(group, rows, self._group, self._rows)
        ):
            self._told = True
            warnings.warn(
                f"{self.filename}: other atoms are written than before; the record keeps the topology of the first",
                stacklevel=5,
            )
        whole = len(rows) == len(group.universe.atoms) and bool((rows == np.arange(len(rows))).all())
        self._rows = None if whole else rows
        self._group = group

    def flush(self) -> None:
        """Put every frame written so far on disk."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Put all frames on disk and, for a ``*.mrec.zip``, pack the record. Closing twice is allowed."""
        writer, self._writer = getattr(self, "_writer", None), None
        if writer is None:
            return
        writer.close()
        if self._archive is not None:
            pack(self._path, self._archive, remove=True, overwrite=self._overwrite)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        """Close; after an error an old record stays if the new one was not begun, and nothing is packed."""
        if kind is None:
            self.close()
        elif self._writer is not None:
            writer, self._writer = self._writer, None
            writer.__exit__(kind, error, trace)
        return False


def _split_archive(filename: str) -> tuple[Path | None, Path]:
    """Return the archive to pack, if any, and the directory to write."""
    if not filename.lower().endswith(".zip"):
        return None, Path(filename)
    if not filename.lower().endswith(_PACKED):
        msg = f"{filename}: a packed record is named *.mrec.zip, a record *.mrec"
        raise ValueError(msg)
    return Path(filename), Path(filename[: -len(".zip")])


def _same_atoms(group: Any, rows: Array, before: Any, rows_before: Array | None) -> bool:
    same_universe = group.universe is before.universe
    old = np.asarray(before.ix) if rows_before is None else rows_before
    if same_universe or len(rows) != len(old):
        return bool(np.array_equal(rows, old))
    names = ("names", "resids", "resnames")
    return all(np.array_equal(_attribute(group, name), _attribute(before, name)) for name in names)


def _attribute(group: Any, name: str) -> Any:
    return getattr(group, name, None)
