"""A trajectory to attach to a dynamics or an optimizer, in the manner of ``ase.io.Trajectory``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, overload

from ase import Atoms
from ase.parallel import world

from molrec_ase._decode import Decoder
from molrec_ase._image import make_calculator
from molrec_ase._results import calculator_name, current_results
from molrec_ase._writer import ImageWriter
from molrec_core import ClosedError, Compression, ReadOnlyError, Record, open_record

FLUSH_SECONDS = 5.0
"""A run that is killed loses no more than this."""


class MolrecTrajectory(Sequence[Atoms]):
    """Images of one record, read or written one by one.

    Parameters
    ----------
    path : path-like
        A directory ``*.mrec``; for reading a ``*.mrec.zip`` or a URL as well.
    mode : {"r", "w", "a"}
        Read, write anew (what is there is replaced by the first commit), or go on after the last image.
    atoms : Atoms, optional
        What ``write()`` writes when it is called without atoms, as a dynamics does.
    after_step : int, optional
        With ``"a"``: drop the images past this step first, those written after the
        checkpoint that the run restarts from.
    properties : sequence of str, optional
        Results of the calculator to write; all it has by default.
    precision : float or mapping, optional
        Precision of the positions, angstrom, or of ``{"block.column": precision}``; exact by default.
    compression : Compression, optional
    flush_every : int, optional
        Commit every n images, before ``write`` returns.
    flush_seconds : float, optional
        Commit at the latest this long after an image came, by a timer.
    master : bool, optional
        Whether this process writes; by default the first of ``ase.parallel.world``.
    convert_units : bool
        Reading only. False: take the numbers as they are.

    Raises
    ------
    RecordNotFoundError, RecordExistsError, LockedError

    Examples
    --------
    >>> from ase.build import molecule
    >>> with MolrecTrajectory("water.mrec", "w") as trajectory:
    ...     trajectory.write(molecule("H2O"))
    >>> len(MolrecTrajectory("water.mrec"))
    1
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "r",
        atoms: Atoms | None = None,
        *,
        after_step: int | None = None,
        properties: Sequence[str] | None = None,
        precision: float | Mapping[str, float] | None = None,
        compression: Compression | None = None,
        flush_every: int | None = None,
        flush_seconds: float | None = FLUSH_SECONDS,
        master: bool | None = None,
        convert_units: bool = True,
    ) -> None:
        if mode not in {"r", "w", "a"}:
            raise ValueError(f"mode {mode!r}: 'r' reads, 'w' writes anew, 'a' appends")
        if after_step is not None and mode != "a":
            raise ValueError(
                f"after_step drops images of a record that is appended to (mode 'a'), not in mode {mode!r}"
            )
        self.path = os.fspath(path)
        self.mode = mode
        self.atoms = atoms
        self.properties = properties
        self._record: Record | None = None
        self._decoder: Decoder | None = None
        self._writer: ImageWriter | None = None
        self._closed = False
        if mode == "r":
            self._record = open_record(path)
            self._decoder = Decoder(self._record, convert_units=convert_units)
        elif world.rank == 0 if master is None else master:
            self._writer = ImageWriter(
                path,
                append=mode == "a",
                after_step=after_step,
                precision=precision,
                compression=compression,
                flush_every=flush_every,
                flush_seconds=None if flush_every is not None else flush_seconds,
            )

    # -- writing

    def write(
        self,
        atoms: Atoms | None = None,
        *,
        step: int | None = None,
        time: float | None = None,
        **results: Any,
    ) -> None:
        """Append an image.

        Parameters
        ----------
        atoms : Atoms, optional
            Those given at creation by default.
        step : int, optional
            Step number; by default 0 and then one more than the last. Given once means given always.
        time : float, optional
            fs, in a record that ASE began; given for every image or for none.
        **results
            Results beside those of the calculator: ``energy=-3.2``.

        Raises
        ------
        TypeError
            A value that no place of a record holds exactly, naming it; nothing of the image is written.
        SchemaError, CommitError, ClosedError, ReadOnlyError
        """
        self._check_open()
        if self.mode == "r":
            raise ReadOnlyError(
                "the trajectory was opened for reading; open it with 'a' to append", loc=self.path
            )
        atoms = self.atoms if atoms is None else atoms
        if atoms is None:
            raise ValueError(f"{self.path}: write() needs atoms, here or when the trajectory is made")
        if self._writer is None:
            return
        for image in atoms.iterimages():
            if results or self.properties is not None:
                image = _with_results(image, results, self.properties)  # noqa: PLW2901 - the same image
            self._writer.write(image, step, time)

    def flush(self) -> None:
        """Commit every image written; when it returns they survive a power loss."""
        if self._writer is not None:
            self._writer.flush()

    @property
    def last_step(self) -> int | None:
        """Step of the last image written; None before the first, and while reading."""
        return None if self._writer is None else self._writer.last_step

    # -- reading

    def __len__(self) -> int:
        """Return the number of images, those not yet committed included."""
        if self._decoder is not None:
            return len(self._decoder)
        return 0 if self._writer is None else len(self._writer)

    @overload
    def __getitem__(self, index: int) -> Atoms: ...
    @overload
    def __getitem__(self, index: slice) -> ImageView: ...
    def __getitem__(self, index: int | slice) -> Atoms | ImageView:
        """Return image `index` (negative from the end), or a lazy view of a slice."""
        decoder = self._reading()
        if isinstance(index, slice):
            return ImageView(decoder, range(len(decoder))[index])
        return ImageView(decoder, range(len(decoder)))[index]

    def __iter__(self) -> Iterator[Atoms]:
        """Iterate over the images in order."""
        decoder = self._reading()
        return decoder.images(range(len(decoder)))

    def _reading(self) -> Decoder:
        self._check_open()
        if self._decoder is None:
            raise ReadOnlyError(
                f"the trajectory was opened with {self.mode!r}; close it and open it with 'r' to read",
                kind="write_only",
                loc=self.path,
            )
        return self._decoder

    # -- the end

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the trajectory is closed; open it again", loc=self.path)

    def close(self) -> None:
        """Commit and give the record up; closing twice is allowed."""
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        if self._record is not None:
            self._record.close()

    def __enter__(self) -> Self:
        """Return the trajectory."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; images written before an error stay."""
        if self._writer is not None and not self._closed:
            self._closed = True
            self._writer.__exit__(kind, error, trace)
        self.close()

    def __repr__(self) -> str:
        """Return path, mode and number of images."""
        return f"MolrecTrajectory({self.path!r}, {self.mode!r}: {len(self)} images)"


class ImageView(Sequence[Atoms]):
    """A lazy slice of a trajectory; images are decoded when they are asked for."""

    def __init__(self, decoder: Decoder, ordinals: range) -> None:
        self._decoder = decoder
        self._ordinals = ordinals

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._ordinals)

    @overload
    def __getitem__(self, index: int) -> Atoms: ...
    @overload
    def __getitem__(self, index: slice) -> ImageView: ...
    def __getitem__(self, index: int | slice) -> Atoms | ImageView:
        """Return an image of the view, or a view of it."""
        if isinstance(index, slice):
            return ImageView(self._decoder, self._ordinals[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"image {index} of {len(self)} images")
        return next(self._decoder.images((self._ordinals[index],)))

    def __iter__(self) -> Iterator[Atoms]:
        """Iterate over the images of the view."""
        return self._decoder.images(self._ordinals)


def _with_results(atoms: Atoms, results: Mapping[str, Any], properties: Sequence[str] | None) -> Atoms:
    """Return a copy of an image whose calculator holds more results, or only some."""
    held = {**current_results(atoms), **results}
    if properties is not None:
        held = {name: value for name, value in held.items() if name in properties}
    image = atoms.copy()
    image.calc = make_calculator(image, held, calculator_name(atoms))
    return image
