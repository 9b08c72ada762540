"""The index of a shard: bytes to entries and back, torn ones included.

``sharding_indexed`` with a ``bytes`` (little) + ``crc32c`` index. A shard is what is
stored as one object; its inner chunks are what we call chunks. No I/O.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_core._codecs import Buffer, checksum

Array = np.ndarray[Any, Any]
EMPTY = 2**64 - 1
"""Offset and length of a chunk that is not stored and reads as the fill value."""
ENTRY_BYTES = 16
Entry = tuple[int, int]
EMPTY_ENTRY: Entry = (EMPTY, EMPTY)
_CRC = struct.Struct("<I")


@dataclass(slots=True)
class Shard:
    """What the writer knows of one shard file: its published entries and where it ends."""

    key: str
    entries: Array
    tail: int


@dataclass(frozen=True, slots=True)
class Pending:
    """Entries of one array that are landed and not yet published.

    Attributes
    ----------
    entries : dict of int to (offset, length)
        By chunk.
    replaced : tuple of str
        Shard files in which the entry of a chunk that holds a durable row changes.
    """

    entries: dict[int, Entry]
    replaced: tuple[str, ...] = ()


def index_bytes(n_chunks: int, *, crc: bool = True) -> int:
    """Length of the index of a shard of `n_chunks`."""
    return ENTRY_BYTES * n_chunks + (_CRC.size if crc else 0)


def empty_index(n_chunks: int) -> Array:
    """Return the entries of a shard without chunks: (n_chunks, 2) uint64, all ones."""
    return np.full((n_chunks, 2), EMPTY, dtype="<u8")


def encode_index(entries: Array) -> bytes:
    """Return the index as stored: the entries, then their crc32c."""
    body = entries.astype("<u8", copy=False).tobytes()
    return body + _CRC.pack(checksum(body))


def decode_index(data: Buffer, n_chunks: int, *, crc: bool = True) -> tuple[Array, bool]:
    """Return the entries and whether the checksum holds.

    A torn index is not a lost shard: each 16-byte entry is an old or a new one, so
    the caller may use the entries one by one and check the chunks behind them.
    """
    view = memoryview(data)
    body = view[: ENTRY_BYTES * n_chunks]
    entries = np.frombuffer(body, "<u8").reshape(n_chunks, 2).astype(np.uint64)
    sound = not crc or checksum(body) == _CRC.unpack(view[ENTRY_BYTES * n_chunks :])[0]
    return entries, sound


def is_empty(entry: Array) -> bool:
    """Whether an entry is empty; only a whole all-ones entry is."""
    return bool(entry[0] == EMPTY and entry[1] == EMPTY)
