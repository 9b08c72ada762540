"""The index of a shard: bytes to entries and back."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from molrec_core._codecs import checksum
from molrec_core._shard import EMPTY, decode_index, empty_index, encode_index, index_bytes, is_empty

WORD = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(WORD, WORD), max_size=20))
def test_entries_come_back(pairs):
    entries = np.array(pairs, np.uint64).reshape(-1, 2)
    stored = encode_index(entries)
    assert len(stored) == index_bytes(len(pairs)) == 16 * len(pairs) + 4
    found, sound = decode_index(stored, len(pairs))
    assert sound
    assert found.tolist() == entries.tolist()


def test_an_index_as_it_is_spelled():
    stored = encode_index(np.array([[1, 2], [EMPTY, EMPTY]], np.uint64))
    assert stored[:32] == struct.pack("<4Q", 1, 2, EMPTY, EMPTY)
    assert stored[32:] == struct.pack("<I", checksum(stored[:32]))


@pytest.mark.parametrize("bit", [0, 3, 64, 255, 256, 287])
def test_a_torn_index_is_told_and_still_read(bit):
    entries = np.array([[10, 20], [30, 40]], np.uint64)
    stored = bytearray(encode_index(entries))
    stored[bit // 8] ^= 1 << bit % 8
    found, sound = decode_index(stored, 2)
    assert not sound
    assert (found != entries).sum() == (bit < 256)


def test_an_index_without_a_checksum():
    entries = np.array([[10, 20]], np.uint64)
    found, sound = decode_index(encode_index(entries)[:16], 1, crc=False)
    assert sound
    assert found.tolist() == [[10, 20]]
    assert index_bytes(3, crc=False) == 48


def test_only_a_whole_all_ones_entry_is_empty():
    entries = empty_index(3)
    assert entries.shape == (3, 2)
    assert all(is_empty(entry) for entry in entries)
    entries[1, 0] = 0
    entries[2, 1] = 0
    assert [is_empty(entry) for entry in entries] == [True, False, False]


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_zarr_python(tmp_path, location):
    values = np.arange(40.0)
    values[8:12] = 0.0
    array = zarr.create_array(
        tmp_path, shape=(40,), dtype="f8", chunks=(4,), shards={"shape": (40,), "index_location": location}
    )
    array[...] = values
    stored = (tmp_path / "c" / "0").read_bytes()
    length = index_bytes(10)
    entries, sound = decode_index(stored[:length] if location == "start" else stored[-length:], 10)
    assert sound
    assert [i for i, entry in enumerate(entries) if is_empty(entry)] == [2]
    assert sum(int(size) for _, size in entries if size != EMPTY) == len(stored) - length
