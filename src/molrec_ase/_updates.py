"""The updates of one block that a run of frames sees, decoded at once.

What carries forward over many frames is decoded once and handed out to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from molrec_ase._memory import Arena
from molrec_core import Block, TrajectoryReader
from molrec_core.hosts import FORCES, POSITIONS, VELOCITIES

Array = np.ndarray[Any, Any]

STACKS = {"positions": POSITIONS, "velocities": VELOCITIES, "forces": FORCES}
"""Vectors that a record keeps as three columns, and an image as one array."""


class Column(NamedTuple):
    """Values of one column, which rows are valid (None: all), and the host dtype to give back."""

    values: Array
    validity: Array | None
    host_dtype: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """One update of a block: its rows, columns by name, three of a vector stacked under its name."""

    count: int
    columns: dict[str, Column]


def part_of(block: Block, path: str, host_dtypes: Mapping[str, str]) -> Part:
    """Return a whole block as a part; `path` is its place in the record."""
    stacked = [name for columns in STACKS.values() if all(c in block for c in columns) for name in columns]
    columns = {
        name: Column(np.stack([block[c] for c in parts], axis=1), None, None)
        for name, parts in STACKS.items()
        if all(c in block for c in parts)
    }
    for name, values in block.items():
        if name not in stacked:
            columns[name] = Column(values, block.validity.get(name), host_dtypes.get(f"{path}/{name}"))
    return Part(block.count, columns)


class Updates:
    """One block of a trajectory, read by runs of frames.

    Parameters
    ----------
    reader : TrajectoryReader
    name : str
        A declared block.
    host_dtypes : mapping of str to str
        The record's ``meta.host_dtypes``.
    """

    def __init__(self, reader: TrajectoryReader, name: str, host_dtypes: Mapping[str, str]) -> None:
        self._reader = reader
        self._name = name
        self._host_dtypes = host_dtypes
        self._ordinals = reader.updates(name)
        self._parts: dict[int, Part] = {}
        self._seen: dict[int, int] = {}
        columns = reader.schema.blocks[name].columns
        self._nullable = {name for name, spec in columns.items() if spec.nullable}
        self._stacks = {
            stack: parts for stack, parts in STACKS.items() if all(part in columns for part in parts)
        }
        stacked = {part for parts in self._stacks.values() for part in parts}
        self._single = [column for column in columns if column not in stacked]
        if "atomic_number" in columns:
            # The symbols say the same again, and strings are dear.
            self._single = [column for column in self._single if column != "element"]

    def load(self, run: Sequence[int], memory: Arena) -> None:
        """Decode what the frames `run` see, in the order in which it is stored."""
        updates = (self._ordinals.searchsorted(np.asarray(run), side="right") - 1).tolist()
        self._seen = dict(zip(run, updates, strict=True))
        needed = set(updates)
        needed.discard(-1)
        self._parts = {update: part for update, part in self._parts.items() if update in needed}
        missing = sorted(needed - self._parts.keys())
        if not missing:
            return
        self._parts.update(zip(missing, self._read(self._ordinals[missing].tolist(), memory), strict=True))

    def _read(self, frames: list[int], memory: Arena) -> Iterator[Part]:
        columns: dict[str, Array] = {}
        masks: dict[str, Array] = {}
        counts = np.zeros(len(frames), np.int64)
        for name in self._single:
            if name in self._nullable:
                masks[name], counts = _flat(self._reader.validity(self._name, name, frames))
        for name, parts in self._stacks.items():
            out = None
            if memory.opened and len(frames) == 1:
                # The vectors of a single frame become the image's own.
                out = memory.empty((1, int(self._reader.counts(self._name, frames)[0]), len(parts)))
            columns[name], counts = _flat(self._reader.read(self._name, parts, frames, out=out))
        for name in self._single:
            # Where no row holds a value the column might as well not be there.
            if name not in masks or masks[name].any():
                columns[name], counts = _flat(self._reader.read(self._name, name, frames))
        dtypes = {name: self._host_dtypes.get(f"trajectory/{self._name}/{name}") for name in columns}
        stop = 0
        for count in counts.tolist():
            start, stop = stop, stop + count
            validity = {name: part for name, mask in masks.items() if not (part := mask[start:stop]).all()}
            yield Part(
                count,
                {
                    name: Column(values[start:stop], validity.get(name), dtypes[name])
                    for name, values in columns.items()
                },
            )

    def at(self, ordinal: int) -> Part | None:
        """Return the block as a frame of the last run sees it; None where it is absent.

        Of a run of one frame the vectors are given away: they are the caller's own.
        """
        update = self._seen[ordinal]
        if self._stacks and len(self._seen) == 1:
            return self._parts.pop(update, None)
        return self._parts.get(update)


def _flat(found: Any) -> tuple[Array, Array]:
    """Return the rows of a bulk read one after the other, and the rows of each frame."""
    if isinstance(found, tuple):
        rows, counts = found
        return rows, counts
    return found.reshape(-1, *found.shape[2:]), np.full(len(found), found.shape[1])
