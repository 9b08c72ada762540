"""Where the frames that mdtraj writes go: a new record, an archive, or one that is there."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molrec_core import Compression, TrajectoryWriter, open_record, pack
from molrec_core.hosts import StepNumbers
from molrec_core.units import MDTRAJ, Units
from molrec_mdtraj._convert import TO_STORED, FrameStream, checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mdtraj.core.topology import Topology


class FrameWriter:
    """Writes mdtraj's arrays to a record, which is laid down with the first frames.

    Parameters
    ----------
    path : path-like
        A directory; or ``*.zip``, which is packed on close.
    overwrite : bool
        Replace a record that is there.
    meta : mapping, optional
        Added to the record's ``meta`` document.
    precision : float, optional
        Declared precision of the coordinates, nm; they are exact without it.
    compression, flush_every, expected_frames
        As for :class:`molrec_core.TrajectoryWriter`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        meta: Mapping[str, Any] | None = None,
        precision: float | None = None,
        compression: Compression | None = None,
        flush_every: int | None = None,
        expected_frames: int | None = None,
    ) -> None:
        self._target = Path(path)
        self._overwrite = overwrite
        self._extra = dict(meta or {})
        self._options: dict[str, Any] = {
            "precision": None if precision is None else precision * TO_STORED.length,
            "compression": compression,
            "flush_every": flush_every,
            "expected_frames": expected_frames,
        }
        self._writer: TrajectoryWriter | None = None
        self._spare: Path | None = None
        self._stream = FrameStream()

    @classmethod
    def reopen(
        cls, path: str | os.PathLike[str], *, after_step: int | None = None, **options: Any
    ) -> FrameWriter:
        """Go on with a record, in its own units; see :meth:`molrec_core.TrajectoryWriter.reopen`."""
        self = cls(path)
        self._writer = TrajectoryWriter.reopen(path, after_step=after_step, **options)
        try:
            with open_record(path) as record:
                units = Units.from_meta(record.meta, host=MDTRAJ, stacklevel=5)
                trajectory = record.trajectory
                counts = trajectory.counts("atoms").tolist()
                sources = trajectory.meta("source_step") if "source_step" in trajectory.meta_keys else ()
                self._stream = FrameStream(
                    schema=self._writer.schema if len(trajectory) else None,
                    scale=MDTRAJ.conversion(units),
                    steps=StepNumbers(self._writer.last_step, broken=any(s is not None for s in sources)),
                    n_atoms=counts[0] if counts else None,
                    has_cell=len(trajectory.box_updates) > 0,
                )
        except BaseException:
            self._writer.close()
            raise
        return self

    @property
    def topology(self) -> Topology | None:
        """Of the record that is started."""
        return self._stream.topology

    @topology.setter
    def topology(self, top: Topology | None) -> None:
        if self._writer is not None:
            msg = "the topology is set before the first frame is written; a record's system does not change"
            raise ValueError(msg)
        self._stream.topology = top

    def __len__(self) -> int:
        """Return the number of frames in the record."""
        return 0 if self._writer is None else len(self._writer)

    def write(self, given: Mapping[str, Any]) -> None:
        """Append frames; see :func:`molrec_mdtraj._convert.checked`."""
        arrays = checked(given)
        writer = self._writer or self._start(arrays)
        for stack, steps, times in self._stream.stacks(arrays):
            writer.extend(stack, steps, times)

    def _start(self, arrays: Mapping[str, Any]) -> TrajectoryWriter:
        schema = self._stream.declare(arrays)
        system, meta = self._stream.system()
        path = self._target
        if path.name.endswith(".zip"):
            self._spare = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.absolute().parent))
            path = self._spare / path.name.removesuffix(".zip")
        self._writer = TrajectoryWriter(
            path, schema, meta=self._extra | meta, system=system, overwrite=self._overwrite, **self._options
        )
        return self._writer

    def flush(self) -> None:
        """Make every frame written durable."""
        if self._writer is not None:
            self._writer.flush()

    def close(self, *, abandon: bool = False) -> None:
        """Commit; an archive is packed now. `abandon` gives an archive up instead, and a record without frames."""
        try:
            if self._writer is None and abandon:
                return
            writer = self._writer or self._start({})
            try:
                # Raises where a commit behind an earlier append failed, which closing alone keeps to itself.
                writer.flush()
            finally:
                writer.close()
            if self._spare is not None and not abandon:
                pack(writer.path, self._target, overwrite=self._overwrite)
        finally:
            if self._spare is not None:
                shutil.rmtree(self._spare, ignore_errors=True)
                self._spare = None
