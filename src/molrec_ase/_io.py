"""``ase.io.read``, ``iread`` and ``write`` for the format ``mrec``: what ASE calls by these names."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ase import Atoms
from ase.io.formats import UnknownFileTypeError

from molrec_ase._decode import Decoder
from molrec_ase._writer import ImageWriter
from molrec_core import Compression, open_record, pack, unpack


def read_mrec(filename: str, index: Any = slice(None), *, convert_units: bool = True) -> Iterator[Atoms]:
    """Read images of a record, one after the other, decoding no more than what is asked for.

    Parameters
    ----------
    filename : str
        A directory (a trailing slash is fine), a ``*.mrec.zip``, or a URL.
    index : int or slice
        Which images.
    convert_units : bool
        False: take the numbers as they are.

    Yields
    ------
    ase.Atoms
        With a ``SinglePointCalculator`` of exactly the results stored for it, or none.

    Raises
    ------
    RecordNotFoundError
        There is no record; the message says what was found.
    FormatError
        The record breaks the contract.
    IndexError
        There is no such image.
    """
    with open_record(filename) as record:
        decoder = Decoder(record, convert_units=convert_units)
        if isinstance(index, slice):
            start = index.start
            # ASE asks for image -3 of two by a slice from there on, and takes its first.
            if index.stop is None and index.step is None and start is not None and start < -len(decoder):
                raise IndexError(f"image {start} of a record of {len(decoder)} images")
            ordinals = range(len(decoder))[index]
        else:
            ordinals = range(len(decoder))[index : (index + 1) or None]
        yield from decoder.images(ordinals)


def write_mrec(
    filename: str,
    images: Atoms | Iterable[Atoms],
    append: bool = False,
    *,
    precision: float | Mapping[str, float] | None = None,
    compression: Compression | None = None,
) -> None:
    """Write images to a record; one that is there is replaced, or appended to.

    Parameters
    ----------
    filename : str
        A directory ``*.mrec`` (a trailing slash is fine), or ``*.mrec.zip`` for the packed form.
    images : Atoms, or iterable of Atoms
        Of a list all images are looked at before the first is written, of a generator the first.
    append : bool
        Go on after the last image.
    precision : float or mapping, optional
        Precision of the positions, angstrom, or of ``{"block.column": precision}``.
        Exact by default.
    compression : Compression, optional
        Of float columns.

    Raises
    ------
    TypeError
        A value that no place of a record holds exactly, naming it.
    RecordExistsError
        Something that is no record is there.
    """
    if filename.endswith("/") and not filename.rstrip("/").endswith(".mrec"):
        raise UnknownFileTypeError(
            f"{filename}: a record is named *.mrec; or pass format='mrec' without the slash"
        )
    images = [images] if isinstance(images, Atoms) else images
    options = {"precision": precision, "compression": compression}
    if not filename.endswith(".zip"):
        _write_directory(filename, images, append=append, **options)
        return
    target = Path(filename)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        directory = Path(scratch, target.name.removesuffix(".zip"))
        if append and target.exists():
            unpack(target, directory)
        _write_directory(directory, images, append=append, **options)
        pack(directory, target, overwrite=True)


def _write_directory(path: str | Path, images: Iterable[Atoms], *, append: bool, **options: Any) -> None:
    with ImageWriter(path, append=append, **options) as writer:
        writer.write_all(images)
