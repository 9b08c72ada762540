"""The rows of one stored array: what every reader of arrays offers, and the one through zarr-python."""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_core._dtypes import COLUMN_DTYPES, STRING, refuse
from molrec_core._node import ArrayNode
from molrec_core._store import Store
from molrec_core.errors import FormatError

Array = np.ndarray[Any, Any]


class ArrayReader:
    """Rows of one array.

    Attributes
    ----------
    key : str
        Key of the array in its store.
    node : ArrayNode
        What its ``zarr.json`` says.
    """

    def __init__(self, store: Store, key: str, node: ArrayNode) -> None:
        if node.dtype is None:
            raise refuse(key, "data_type", f"data type {node.data_type!r} is none of the column data types")
        self.store = store
        self.key = key
        self.node = node
        self.dtype = COLUMN_DTYPES[node.dtype][0]

    @property
    def rows(self) -> int:
        """Stored length of the leading axis; 1 for a 0-d array."""
        return self.node.rows

    def read(self, start: int, stop: int, out: Array | None = None) -> Array:
        """Return rows `start` to `stop`, shape (stop - start,) + trailing, into `out` when given.

        Raises
        ------
        ChecksumError
            Damaged bytes.
        FormatError
            Rows past the stored length.
        """
        if not 0 <= start <= stop <= self.rows:
            raise refuse(
                self.key, "array_short", f"rows {start} to {stop} are asked for, {self.rows} are stored"
            )
        if out is None:
            out = self._room((stop - start, *self.node.trailing))
        if out.size:
            self._fill(start, stop, out)
        return out

    def _room(self, shape: tuple[int, ...]) -> Array:
        try:
            return np.empty(shape, self.dtype)
        except (MemoryError, ValueError):
            raise refuse(
                self.key, "too_large", f"{list(shape)} values of {self.dtype} do not fit into memory"
            ) from None

    def all(self) -> Array:
        """Return the whole array; 0-d for a 0-d array."""
        rows = self.read(0, self.rows)
        return rows if self.node.shape else rows[0]

    def _fill(self, start: int, stop: int, out: Array) -> None:
        raise NotImplementedError

    def refresh(self, node: ArrayNode) -> None:
        """Take a newer document of the same array; what may have changed is read again."""
        self.node = node


_PIECE = 2**20


def index_values(reader: ArrayReader) -> Array:
    """Read an index array as far as it ascends, and a piece on: what is claimed behind that is refused unread."""
    parts = []
    for at in range(0, reader.rows, _PIECE):
        parts.append(reader.read(at, min(at + _PIECE, reader.rows)))
        if not (parts[-1][1:] > parts[-1][:-1]).all():
            break
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, reader.dtype), *parts])


class ZarrReader(ArrayReader):
    """Any other array, through zarr-python."""

    def __init__(self, store: Store, key: str, node: ArrayNode) -> None:
        super().__init__(store, key, node)
        self._array: Any = None

    def refresh(self, node: ArrayNode) -> None:
        """Take a newer document; the array is opened again."""
        super().refresh(node)
        self._array = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the open array."""
        return {**self.__dict__, "_array": None}

    def _fill(self, start: int, stop: int, out: Array) -> None:
        import zarr

        try:
            if self._array is None:
                self._array = zarr.open_array(self.store.zarr(), path=self.key, mode="r", zarr_format=3)
            values = np.asarray(self._array[start:stop] if self.node.shape else self._array[()])
            out[...] = values.astype(STRING) if self.dtype.kind == "T" else values.reshape(out.shape)
        except FormatError:
            raise
        except Exception as error:
            # Whatever a codec of zarr-python raises, the reader names the array and keeps the rest open.
            raise refuse(self.key, "codec", f"zarr-python cannot decode this array: {error!r}") from error
