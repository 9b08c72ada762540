"""Records as one data set for machine learning: a sequence of images, read in batches.

No framework is imported. A PyTorch ``DataLoader`` takes a :class:`MolrecDataset` as a
map-style data set and fetches whole batches by ``__getitems__``.
"""

from __future__ import annotations

import copy
import glob
import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

import numpy as np
from ase import Atoms

from molrec_ase._decode import Decoder
from molrec_core import RecordNotFoundError, open_record

PathLike = str | os.PathLike[str]


class MolrecDataset(Sequence[Atoms]):
    """The images of one or many records as one sequence.

    Parameters
    ----------
    path_or_paths : path-like, or iterable of path-like
        A record (``*.mrec``, ``*.mrec.zip``), a directory of records, a pattern
        (``data/*.mrec``), or several of these; directories and patterns are sorted.
    convert_units : bool
        False: take the numbers as they are.

    Raises
    ------
    RecordNotFoundError
        A path that holds no record, a pattern that matches none.
    IndexError
        From indexing, past the end.

    Notes
    -----
    Pickles by its paths, and opens the records anew in another process, forked or
    spawned. A batch is read record by record in the order in which it is stored, so that
    each chunk is decoded once, whatever the order that was asked for.

    Examples
    --------
    >>> from ase.build import molecule
    >>> from ase.io import write
    >>> write("train.mrec", [molecule(name) for name in ("H2O", "CH4", "NH3")])
    >>> dataset = MolrecDataset("train.mrec")
    >>> [len(atoms) for atoms in dataset[[2, 0]]]
    [4, 3]
    """

    def __init__(self, path_or_paths: PathLike | Iterable[PathLike], *, convert_units: bool = True) -> None:
        given = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else list(path_or_paths)
        self.paths = tuple(found for path in given for found in _records(os.fspath(path)))
        self._convert_units = convert_units
        self._start_anew()
        self._ends = list(accumulate(len(self._decoder(number)) for number in range(len(self.paths))))

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._open: dict[int, tuple[Any, Decoder]] = {}

    def _decoder(self, number: int) -> Decoder:
        if number not in self._open:
            record = open_record(self.paths[number])
            self._open[number] = record, Decoder(record, convert_units=self._convert_units)
        return self._open[number][1]

    def __len__(self) -> int:
        """Return the number of images in all records."""
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Atoms: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> list[Atoms]: ...
    def __getitem__(self, index: int | slice | Sequence[int]) -> Atoms | list[Atoms]:
        """Return an image (negative from the end), or the list of images of a slice or of indexes."""
        if isinstance(index, slice):
            return self._batch(range(len(self))[index])
        if isinstance(index, int | np.integer):
            return self._batch([index])[0]
        chosen = np.asarray(index)
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise IndexError(f"a mask of shape {chosen.shape} for {len(self)} images")
            chosen = np.flatnonzero(chosen)
        return self._batch(chosen.tolist())

    def __getitems__(self, indices: Sequence[int]) -> list[Atoms]:
        """Return a batch; the name by which a PyTorch ``DataLoader`` asks for one."""
        return self._batch(indices)

    def __iter__(self) -> Iterator[Atoms]:
        """Iterate over all images in order, record by record."""
        for number in range(len(self.paths)):
            with open_record(self.paths[number]) as record:
                decoder = Decoder(record, convert_units=self._convert_units)
                yield from decoder.images(range(len(decoder)))

    def _batch(self, indices: Sequence[int]) -> list[Atoms]:
        by_record: dict[int, dict[int, list[int]]] = {}
        for place, index in enumerate(indices):
            ordinal = index + len(self) if index < 0 else index
            if not 0 <= ordinal < len(self):
                raise IndexError(f"image {index} of {len(self)} images")
            number = bisect_right(self._ends, ordinal)
            ordinal -= self._ends[number - 1] if number else 0
            by_record.setdefault(number, {}).setdefault(ordinal, []).append(place)
        if self._pid != os.getpid():
            # A lock that another thread held at the fork would never be released here.
            self._start_anew()
        images: list[Any] = [None] * len(indices)
        with self._lock:
            for number, places in sorted(by_record.items()):
                ordinals = sorted(places)
                for ordinal, atoms in zip(ordinals, self._decoder(number).images(ordinals), strict=True):
                    first, *others = places[ordinal]
                    images[first] = atoms
                    for place in others:
                        images[place] = copy.deepcopy(atoms)
        return images

    def close(self) -> None:
        """Close files; they are opened again when an image is asked for."""
        with self._lock:
            for record, _ in self._open.values():
                record.close()
            self._open.clear()

    def __del__(self) -> None:
        """Close files: a data set lives as long as its training loop and is seldom closed by hand."""
        for record, _ in getattr(self, "_open", {}).values():
            record.close()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the paths and the lengths."""
        return {"paths": self.paths, "_convert_units": self._convert_units, "_ends": self._ends}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the records anew when they are asked for."""
        self.__dict__.update(state)
        self._start_anew()

    def __repr__(self) -> str:
        """Return the number of images and of records."""
        return f"MolrecDataset({len(self)} images in {len(self.paths)} records)"


def _records(path: str) -> list[str]:
    """Return the records that a path, a directory of records or a pattern stands for."""
    if glob.has_magic(path) and not Path(path).exists():
        found = sorted(glob.glob(path))  # noqa: PTH207 - Path.glob takes no absolute pattern
        if not found:
            raise RecordNotFoundError("no record matches the pattern", loc=path)
        return found
    directory = Path(path)
    if directory.is_dir() and not (directory / "zarr.json").exists():
        found = sorted(str(p) for p in directory.iterdir() if p.name.endswith((".mrec", ".mrec.zip")))
        if not found:
            raise RecordNotFoundError("the directory holds no *.mrec and no *.mrec.zip", loc=path)
        return found
    return [path]
