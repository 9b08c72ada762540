"""Damaged bytes: what a reader says of a chunk or an index that is not what it was, and that the rest still opens."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from conformance.records import refused, replace_array, unreadable, write
from molrec_core import ChecksumError, Frame, TornIndexWarning, _array, open_record
from molrec_core._array import open_array
from molrec_core._node import ArrayNode, parse_node
from molrec_core._store import DirectoryStore

ROWS = 2048
CHUNKS = 8
ENTRY = struct.Struct("<2Q")
EMPTY = 2**64 - 1


@pytest.fixture(params=["raw", "encoded"])
def column(request):
    """The name of a column: one stored as memory, one through gzip."""
    return request.param


@pytest.fixture
def record(tmp_path):
    frames = [
        Frame({"b": {"raw": np.arange(ROWS) * (i + 0.5), "encoded": np.arange(ROWS) * (i + 1)}})
        for i in range(6)
    ]
    return write(tmp_path, frames, expected_frames=CHUNKS)


def shard(record, column):
    return record / "trajectory" / "b" / column / "c" / "0"


def entry(record, column, chunk):
    return ENTRY.unpack_from(shard(record, column).read_bytes(), 16 * chunk)


def overwrite(record, column, at, data):
    path = shard(record, column)
    stored = bytearray(path.read_bytes())
    stored[at : at + len(data)] = data
    path.write_bytes(stored)


def set_entry(record, column, chunk, offset, length):
    """Change an entry of the index; its checksum no longer holds."""
    overwrite(record, column, 16 * chunk, ENTRY.pack(offset, length))


def frame(record, column, i):
    with open_record(record) as found:
        return found.trajectory.read("b", column, frames=slice(i, i + 1))[0]


def everything(record, column):
    with open_record(record) as found:
        return found.trajectory.read("b", column)


def damaged(record, column, chunk, kind="checksum"):
    key = f"trajectory/b/{column}"
    return refused(ChecksumError, kind, f"{key}, chunk {chunk}" if chunk >= 0 else f"{key}, shard index")


def test_a_flipped_bit_names_its_chunk(record, column):
    offset, length = entry(record, column, 3)
    byte = shard(record, column).read_bytes()[offset + length // 2]
    overwrite(record, column, offset + length // 2, bytes([byte ^ 1]))
    with damaged(record, column, 3):
        everything(record, column)
    with damaged(record, column, 3):
        frame(record, column, 3)
    assert frame(record, column, 2)[1] in {2.5, 3}
    other = {"raw": "encoded", "encoded": "raw"}[column]
    assert len(everything(record, other)) == 6


def test_a_shard_that_is_cut_short(record, column):
    path = shard(record, column)
    offset, length = entry(record, column, 4)
    path.write_bytes(path.read_bytes()[: offset + length // 2])
    with damaged(record, column, 4, "cut_short"):
        everything(record, column)
    with damaged(record, column, 5, "cut_short"):
        frame(record, column, 5)
    assert frame(record, column, 3)[1] in {3.5, 4}


def test_a_shard_without_room_for_its_index(record, column):
    shard(record, column).write_bytes(b"\0" * (16 * CHUNKS + 3))
    with damaged(record, column, -1):
        everything(record, column)


@pytest.mark.parametrize(
    ("offset", "length"), [(132, 2**63), (2**63, 100), (EMPTY, 100), (132, EMPTY), (EMPTY - 1, EMPTY - 1)]
)
def test_an_entry_that_points_nowhere(record, column, offset, length):
    set_entry(record, column, 2, offset, length)
    with pytest.warns(TornIndexWarning), damaged(record, column, 2, "shard_index"):
        everything(record, column)
    with pytest.warns(TornIndexWarning):
        assert frame(record, column, 1)[1] in {1.5, 2}


def test_an_entry_past_the_end(record, column):
    _, length = entry(record, column, 2)
    set_entry(record, column, 2, 2**40, length)
    with pytest.warns(TornIndexWarning), damaged(record, column, 2, "cut_short"):
        everything(record, column)


def test_an_entry_of_another_chunk_length(record):
    offset, length = entry(record, "raw", 2)
    set_entry(record, "raw", 2, offset, length - 8)
    with pytest.warns(TornIndexWarning), damaged(record, "raw", 2, "shard_index"):
        everything(record, "raw")


def test_a_torn_index_is_used_entry_by_entry(record, column):
    expected = everything(record, column)
    set_entry(record, column, 7, 5, 5)
    with pytest.warns(TornIndexWarning, match=r"molrec repair"):
        found = everything(record, column)
    assert found.tolist() == expected.tolist()


def test_only_a_whole_all_ones_entry_is_fill(record, column):
    set_entry(record, column, 2, EMPTY, EMPTY)
    with pytest.warns(TornIndexWarning):
        assert not frame(record, column, 2).any()


def test_a_shard_that_is_not_there_is_fill(record, column):
    shard(record, column).unlink()
    assert not everything(record, column).any()


def test_a_damaged_chunk_of_a_plain_array(record):
    replace_array(record, "trajectory/b/encoded", np.arange(6 * ROWS), chunks=(ROWS,))
    chunk = record / "trajectory/b/encoded/c/3"
    chunk.write_bytes(chunk.read_bytes()[:-4])
    with damaged(record, "encoded", 3, "codec"):
        everything(record, "encoded")


def test_a_chunk_larger_than_any_encoder_makes_it(record):
    replace_array(record, "trajectory/b/encoded", np.arange(6 * ROWS), chunks=(ROWS,))
    with (record / "trajectory/b/encoded/c/3").open("ab") as file:
        file.truncate(10**6)
    with unreadable("too_large", "trajectory/b/encoded/c/3"):
        everything(record, "encoded")


def test_rows_that_are_not_there(record):
    store = DirectoryStore(record)
    key = "trajectory/b/raw"
    node = parse_node(store.get(f"{key}/zarr.json"), key)
    assert isinstance(node, ArrayNode)
    reader = open_array(store, key, node)
    for start, stop in ((0, 6 * ROWS + 1), (-1, 3), (3, 2)):
        with unreadable("array_short", key):
            reader.read(start, stop)
    assert reader.read(5, 5).shape == (0,)


def test_one_torn_index_of_an_array_is_waited_for(record, column, monkeypatch):
    """However many shards of it are torn."""
    waits = []
    monkeypatch.setattr(_array, "sleep", waits.append)
    set_entry(record, column, 7, 5, 5)
    with open_record(record) as found:
        reader = found.trajectory._blocks["b"].columns[column]
        for _ in range(3):
            with pytest.warns(TornIndexWarning):
                reader.entries(0)
            reader.refresh(reader.node)
    assert len(waits) == len(_array._PATIENCE)


@pytest.mark.parametrize("meanwhile", [b"", "torn"])
def test_an_index_that_a_live_writer_is_at_is_read_again(record, column, monkeypatch, meanwhile):
    """A file that is empty yet, entries whose checksum comes next: neither is an error, nor a torn index."""
    path = shard(record, column)
    whole = path.read_bytes()
    path.write_bytes(meanwhile if meanwhile == b"" else bytes([whole[0] ^ 1]) + whole[1:])
    waits = []

    def complete(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            path.write_bytes(whole)

    monkeypatch.setattr(_array, "sleep", complete)
    assert np.array_equal(everything(record, column)[1], np.arange(ROWS) * (1.5 if column == "raw" else 2))
    assert len(waits) == 2
