"""One record being written image by image: new, in place of an old one, or appended to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ase import Atoms

from molrec_ase._encode import Encoder
from molrec_ase._places import Places, survey
from molrec_core import RecordNotFoundError, SchemaError, TrajectoryWriter, open_record
from molrec_core.units import ASE, Units


class ImageWriter:
    """Writes images to a record.

    Parameters
    ----------
    path : path-like
        A directory; what is there is replaced unless `append`.
    append : bool
        Go on after the last image of a record that is there.
    after_step : int, optional
        When appending: drop the images past this step first.
    precision : float or mapping, optional
        Declared precision of a new record, as of :class:`molrec_core.TrajectoryWriter`.
    **options
        ``compression``, ``flush_every`` and ``flush_seconds`` of that writer.

    Raises
    ------
    RecordExistsError
        Something that is no record is there.
    SchemaError
        ``precision`` for a record that has its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        append: bool = False,
        after_step: int | None = None,
        precision: float | Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        self.path = path
        self._precision = precision
        self._options = options
        self._meta: dict[str, Any] | None = None
        self._writer: TrajectoryWriter | None = None
        self._encoder: Encoder | None = None
        self._has_box = False
        if append:
            self._find(after_step)

    def _find(self, after_step: int | None) -> None:
        """Look at what is there to append to."""
        try:
            with open_record(self.path) as record:
                frames = len(record.trajectory) if "trajectory" in record else 0
                bare = set(record.sections) <= {"meta", "trajectory"}
                self._has_box = bool(frames) and len(record.trajectory.box_updates) > 0
                self._meta = record.meta
        except RecordNotFoundError:
            if Path(self.path).exists() and (not Path(self.path).is_dir() or any(Path(self.path).iterdir())):
                raise
            return
        if frames:
            if self._precision is not None:
                raise SchemaError.one(
                    os.fspath(self.path),
                    "precision",
                    "the precision of a record is fixed by its first frame; leave it out",
                )
            self._writer = TrajectoryWriter.reopen(self.path, after_step=after_step, **self._options)
            schema = self._writer.schema
            assert schema is not None
            places = Places.of(schema, self._meta)
            self._encoder = Encoder(places, self._units(), fresh=False, has_box=self._has_box)
        elif bare:
            # Only its meta says which types its arrays had, and an empty record has no say in that.
            self._meta = None

    def _units(self) -> Units:
        return Units.from_meta(self._meta, host=ASE, stacklevel=5)

    def declare(self, images: Iterable[Atoms], *, complete: bool) -> None:
        """Pin what the record may hold, unless its first frame has done so.

        Parameters
        ----------
        images : iterable of Atoms
        complete : bool
            Whether these are all the images that will come.
        """
        if self._encoder is not None:
            return
        schema, meta = survey(images, complete=complete)
        if self._meta is None:
            self._writer = TrajectoryWriter(
                self.path, schema, meta=meta, overwrite=True, precision=self._precision, **self._options
            )
            self._encoder = Encoder(Places.of(schema, meta))
        else:
            self._writer = TrajectoryWriter.reopen(self.path, schema=schema, **self._options)
            self._encoder = Encoder(Places.of(schema, self._meta), self._units())

    def write(self, atoms: Atoms, step: int | None = None, time: float | None = None) -> None:
        """Append one image.

        Raises
        ------
        TypeError
            A value that no place of a record holds exactly, naming it; nothing of the image is written.
        SchemaError, CommitError
        """
        self._encode(atoms)
        self._append(step, time)

    def write_all(self, images: Iterable[Atoms]) -> None:
        """Append images; small ones are gathered and appended together.

        Raises
        ------
        TypeError
            A value that no place of a record holds exactly, naming it; the images before it are written.
        SchemaError, CommitError
        """
        given = isinstance(images, Sequence)
        if given:
            self.declare(images, complete=True)
        try:
            for atoms in images:
                encoder = self._encode(atoms)
                if encoder.full:
                    self._append()
                elif not given:
                    # A generator may hand out the same image again and again.
                    encoder.keep()
        finally:
            self._append()

    def _encode(self, atoms: Atoms) -> Encoder:
        if self._encoder is None:
            self.declare([atoms], complete=False)
        assert self._encoder is not None
        try:
            self._encoder.add(atoms)
        except BaseException:
            self._encoder.forget()
            raise
        return self._encoder

    def _append(self, step: int | None = None, time: float | None = None) -> None:
        """Append what is encoded; step and time are those of a single image."""
        if self._encoder is None or self._writer is None:
            return
        try:
            if self._encoder.images == 1:
                self._writer.append(self._encoder.take_one(), step, time)
            elif self._encoder.images:
                self._writer.extend(self._encoder.take())
        except BaseException:
            self._encoder.forget()
            raise

    def flush(self) -> None:
        """Commit every image written, durably."""
        if self._writer is not None:
            self._writer.flush()

    @property
    def last_step(self) -> int | None:
        """Step of the last image; None before the first."""
        return None if self._writer is None else self._writer.last_step

    def __len__(self) -> int:
        """Return the number of images, those that were there included."""
        return 0 if self._writer is None else len(self._writer)

    def __bool__(self) -> bool:
        """Say yes: a writer is something before its first image."""
        return True

    def close(self) -> None:
        """Commit and give the record up; without an image an empty record is made."""
        if self._writer is None and self._meta is None:
            self.declare([], complete=True)
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an error a new record that is not committed yet is given up, and an old one stays."""
        if kind is None:
            self.close()
        elif self._writer is not None:
            self._writer.__exit__(kind, error, trace)
