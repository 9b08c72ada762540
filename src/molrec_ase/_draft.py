"""Images that are encoded and wait to be appended together: their parts become one stack of frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from molrec_core import Block, Box, Frame, FrameStack, SequenceSchema
from molrec_core.hosts import ELEMENTS

Array = np.ndarray[Any, Any]
Columns = dict[Any, Any]
"""Columns of a block by name; by three names the columns of an array of vectors, (n, 3)."""

# What lies beyond the table is clipped to its end.
_SYMBOLS = np.array([*ELEMENTS, ELEMENTS[0]])
_TEXTS = _SYMBOLS.astype(np.dtypes.StringDType())
_FULL_ATOMS, _FULL_IMAGES = 2**16, 2**10
_LARGE = 2**13
"""Atoms of an image that gains nothing from being appended together with others."""
_DTYPES = {"f64": np.float64, "i64": np.int64, "bool": np.bool_}


class Draft:
    """The frames of a few images.

    Parameters
    ----------
    schema : SequenceSchema
        The record's pin.
    factors : mapping of str to float
        Of columns of ``identity`` in other units.
    """

    def __init__(self, schema: SequenceSchema, factors: Mapping[str, float]) -> None:
        self._identity = schema.blocks["identity"].columns if "identity" in schema.blocks else {}
        self._tags = schema.meta
        self._factors = factors
        self._clear()

    def _clear(self) -> None:
        self.images = self._atoms = 0
        self._parts: dict[str, list[Columns]] = {}
        self._counts: dict[str, list[int]] = {}
        self._boxes: list[Box | None] = []
        self._meta: list[dict[str, Any]] = []

    @property
    def full(self) -> bool:
        """Whether more images would gain nothing."""
        return self._atoms >= _FULL_ATOMS or self.images >= _FULL_IMAGES

    def keep(self) -> None:
        """Make the last image taken its own: whoever gave it is going to change it."""
        if not self.images or self.full:
            return
        for name, parts in self._parts.items():
            if len(self._counts[name]) == self.images:
                parts[-1] = _copied(parts[-1])
        self._meta[-1] = _copied(self._meta[-1])

    def add(
        self, blocks: dict[str, tuple[int, Columns]], box: Box | None, meta: dict[str, Any], n_atoms: int
    ) -> None:
        """Take the parts of an image: rows and columns of each block that its frame presents."""
        at = self.images
        for name, (count, columns) in blocks.items():
            counts = self._counts.get(name)
            if counts is None:
                counts = self._counts[name] = []
                self._parts[name] = []
            if len(counts) < at:
                counts += [-1] * (at - len(counts))
            counts.append(count)
            self._parts[name].append(columns)
        self._boxes.append(box)
        self._meta.append(meta)
        self.images = at + 1
        self._atoms += n_atoms if n_atoms < _LARGE else _FULL_ATOMS

    def take(self) -> FrameStack:
        """Return the frames of the images taken, and begin anew, also where they are refused."""
        images = self.images
        try:
            blocks, validity = self._joined(_SYMBOLS)
            for counts in self._counts.values():
                counts.extend([-1] * (images - len(counts)))
            return FrameStack(
                images, blocks, counts=self._counts, validity=validity, boxes=self._boxes, meta=self._meta
            )
        finally:
            self._clear()

    def take_one(self) -> Frame:
        """Return the frame of the one image taken, and begin anew: a stack of one costs more."""
        try:
            columns, validity = self._joined(_TEXTS)
            blocks = {name: Block(columns[name], validity=validity.get(name)) for name in columns}
            (meta,), (box,) = self._meta, self._boxes
            return Frame(blocks, box=box, meta=meta, meta_tags={key: self._tags[key].tag for key in meta})
        finally:
            self._clear()

    def _joined(self, symbols: Array) -> tuple[dict[str, dict[str, Array]], dict[str, dict[str, Array]]]:
        """Return columns and masks of each block, the rows of all images one after another."""
        columns: dict[str, dict[str, Array]] = {}
        masks: dict[str, dict[str, Array]] = {}
        for name, parts in self._parts.items():
            if name == "identity":
                columns[name], masks[name] = self._identity_columns(parts, symbols)
            else:
                columns[name] = _joined(parts)
        return columns, masks

    def _identity_columns(
        self, parts: list[Columns], symbols: Array
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        numbers = _concatenated([part["numbers"] for part in parts])
        columns = {
            "atomic_number": numbers.astype(np.uint64),
            "element": symbols.take(numbers, mode="clip"),
        }
        masks = {}
        for name, spec in list(self._identity.items())[2:]:
            given = [part.get(name) for part in parts]
            rows = [len(part["numbers"]) for part in parts]
            values = [
                np.zeros((n, *spec.trailing), _DTYPES[spec.dtype]) if value is None else value
                for value, n in zip(given, rows, strict=True)
            ]
            columns[name] = _concatenated(values)
            factor = self._factors.get(name, 1.0)
            if factor != 1.0:
                columns[name] = columns[name] * factor
            if any(value is None for value in given):
                masks[name] = np.repeat([value is not None for value in given], rows)
        return columns, masks


def _copied(values: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in values.items()}


def _joined(parts: list[Columns]) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    for key in parts[0]:
        values = _concatenated([part[key] for part in parts])
        if isinstance(key, tuple):
            columns.update(zip(key, values.T, strict=True))
        else:
            columns[key] = values
    return columns


def _concatenated(arrays: list[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
