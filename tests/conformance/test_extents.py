"""Checklist group H: chunk extents and codecs of the reference writer, and what a reader opens besides."""

from __future__ import annotations

import numcodecs
import numpy as np
import pytest
import zarr

from conformance.records import (
    arrays,
    changed,
    codecs,
    document,
    nodes,
    read,
    replace_array,
    stored,
    u64,
    unreadable,
    write,
    write_record,
)
from molrec_core import Block, Box, Compression, Frame, SequenceSchema, TrajectoryWriter, open_record
from molrec_core._group import write_array
from molrec_core._store import DirectoryStore

MUST_DECODE = {
    "bytes",
    "gzip",
    "zstd",
    "numcodecs.shuffle",
    "crc32c",
    "vlen-utf8",
    "sharding_indexed",
    "transpose",
}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
SHUFFLE = {"name": "numcodecs.shuffle", "configuration": {"elementsize": 8}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
STRINGS = {"name": "vlen-utf8"}


def rich_frames():
    """Frames that make every kind of array appear: ragged, masked, irregular steps and times, a changing cell."""
    return [
        Frame(
            {
                "atoms": Block(
                    {
                        "x": np.arange(n) * 0.3,
                        "q": np.arange(n) * 1.5,
                        "z2": np.full(n, 1j),
                        "element": ["C"] * n,
                        "mol_id": u64(*range(n)),
                        "free": [True] * n,
                    },
                    validity={"q": [False] * n},
                    precision={"x": 1e-3},
                )
            },
            box=Box(np.eye(3) * n, origin=[n, 0, 0], boundary=[True, False, n > 2]),
            meta={"pe": n / 3, "stress": np.zeros(6) + n, "note": f"n={n}", "doc": {"n": n}},
        )
        for n in (2, 3, 2)
    ]


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    path = tmp_path_factory.mktemp("rich")
    return write(path, rich_frames(), steps=[0, 1, 5], times=[0.0, 0.1, 0.7])


def names(chain):
    return [codec["name"] for codec in chain]


def extents(record, key):
    """Return (chunk shape, shard shape or None) of an array."""
    node = document(record, key)
    outer = node["chunk_grid"]["configuration"]["chunk_shape"]
    first = node["codecs"][0]
    if first["name"] == "sharding_indexed":
        return first["configuration"]["chunk_shape"], outer
    return outer, None


def zeros_frame(**columns):
    return Frame({"b": columns})


# -- codecs


def test_H01_writers_use_the_must_decode_set(tmp_path, rich):
    frame = rich_frames()[0]
    whole = write_record(tmp_path, frame=frame, system=frame)
    for record in (rich, whole):
        seen = set()
        for key in nodes(record):
            node = document(record, key)
            if node["node_type"] == "array":
                seen |= set(names(node["codecs"])) | set(names(codecs(record, key)))
        assert seen <= MUST_DECODE


VALUES = np.arange(60.0).reshape(20, 3)


@pytest.mark.parametrize(
    "options",
    [
        {"compressors": None},
        {"compressors": zarr.codecs.GzipCodec(level=5)},
        {"compressors": zarr.codecs.ZstdCodec(level=1, checksum=True)},
        {"compressors": zarr.codecs.Crc32cCodec()},
        {"compressors": [zarr.codecs.GzipCodec(), zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
        {"compressors": [zarr.codecs.Crc32cCodec(), zarr.codecs.GzipCodec()]},
        {"serializer": zarr.codecs.BytesCodec(endian="big")},
        {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
        {"chunks": (4, 3)},
        {"chunks": (7, 3)},
        {"chunks": (7, 2)},
        {"chunks": (4, 3), "shards": (8, 3)},
        {"chunks": (4, 1), "shards": (8, 3)},
        {"chunks": (2, 3), "shards": {"shape": (8, 3), "index_location": "start"}},
        {"chunks": (4, 3), "chunk_key_encoding": {"name": "default", "separator": "."}},
        {"chunks": (4, 3), "chunk_key_encoding": {"name": "v2", "separator": "."}},
        {"chunks": (4, 3), "fill_value": 7.0},
    ],
    ids="-".join,
)
def test_H01_readers_open_any_chunking(tmp_path, options):
    frame = Frame({"atoms": {"velocity": VALUES}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    for section in ("frame", "trajectory"):
        replace_array(record, f"{section}/atoms/velocity", VALUES, **options)
    with open_record(record) as found:
        assert found.frame["atoms"]["velocity"].tolist() == VALUES.tolist()
        assert found.trajectory[0]["atoms"]["velocity"].tolist() == VALUES.tolist()


@pytest.mark.parametrize(
    "options", [{}, {"chunks": (4,)}, {"chunks": (2,), "shards": (8,)}, {"compressors": None}]
)
def test_H01_strings_in_any_chunking(tmp_path, options):
    texts = np.array(["", "CA", "h\u00e4m", "x" * 300] * 5, np.dtypes.StringDType())
    record = write_record(tmp_path, frame=Frame({"atoms": {"name": texts}}))
    replace_array(record, "frame/atoms/name", texts, **options)
    assert open_record(record).frame["atoms"]["name"].tolist() == texts.tolist()


def test_H01_a_fill_value_of_another_writer(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"velocity": VALUES}}))
    replace_array(record, "frame/atoms/velocity", np.full((20, 3), 7.0), chunks=(4, 3), fill_value=7.0)
    chunks = [p for p in (record / "frame/atoms/velocity/c").rglob("*") if p.is_file()]
    for chunk in chunks:
        chunk.unlink()
    assert open_record(record).frame["atoms"]["velocity"].tolist() == np.full((20, 3), 7.0).tolist()


def test_H01_shuffle_of_another_writer(tmp_path):
    values = np.arange(50, dtype=np.int32)
    record = write_record(tmp_path, frame=Frame({"atoms": {"n": values}}))
    replace_array(record, "frame/atoms/n", values, chunks=(50,), compressors=None)
    with changed(record, "frame/atoms/n") as node:
        node["codecs"] += [{"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}, GZIP]
    chunk = record / "frame/atoms/n/c/0"
    chunk.write_bytes(numcodecs.GZip(1).encode(numcodecs.Shuffle(4).encode(chunk.read_bytes())))
    assert open_record(record).frame["atoms"]["n"].tolist() == values.tolist()


def test_H02_every_trajectory_array_is_sharded(rich):
    keys = arrays(rich, "trajectory")
    expected = {
        "step",
        "time",
        "meta/pe",
        "atoms/x",
        "atoms/_validity/q",
        "atoms/offset",
        "box/vectors",
        "box/boundary",
    }
    assert expected <= set(keys)
    for key in keys:
        chain = document(rich, f"trajectory/{key}")["codecs"]
        assert names(chain) == ["sharding_indexed"]
        configuration = chain[0]["configuration"]
        assert configuration["index_location"] == "start"
        assert configuration["index_codecs"] == [LITTLE, CRC]
        assert configuration["codecs"][-1] == CRC


def test_H03_pipelines_of_a_trajectory(rich):
    little_8 = [LITTLE, GZIP, CRC]
    expected = {
        "atoms/x": [LITTLE, SHUFFLE, ZSTD, CRC],
        "atoms/q": [LITTLE, CRC],
        "atoms/z2": [LITTLE, CRC],
        "atoms/element": [STRINGS, GZIP, CRC],
        "atoms/mol_id": little_8,
        "atoms/free": [{"name": "bytes"}, GZIP, CRC],
        "atoms/_validity/q": [{"name": "bytes"}, GZIP, CRC],
        "atoms/offset": little_8,
        "atoms/step_index": little_8,
        "meta/pe": little_8,
        "meta/stress": little_8,
        "meta/note": [STRINGS, GZIP, CRC],
        "meta/doc": [STRINGS, GZIP, CRC],
        "step": little_8,
        "time": little_8,
        "box/vectors": little_8,
        "box/origin": little_8,
        "box/step_index": little_8,
        "box/boundary": [{"name": "bytes"}, GZIP, CRC],
    }
    assert {key: codecs(rich, f"trajectory/{key}") for key in arrays(rich, "trajectory")} == expected


def test_H03_pipelines_of_fixed_arrays(tmp_path):
    record = write_record(tmp_path, frame=rich_frames()[0])
    expected = {
        "atoms/x": [LITTLE, SHUFFLE, ZSTD, CRC],
        "atoms/q": [LITTLE, CRC],
        "atoms/z2": [LITTLE, CRC],
        "atoms/element": [STRINGS, GZIP, CRC],
        "atoms/mol_id": [LITTLE, GZIP, CRC],
        "atoms/free": [{"name": "bytes"}, GZIP, CRC],
        "atoms/_validity/q": [{"name": "bytes"}, GZIP, CRC],
        "box/vectors": [LITTLE, CRC],
        "box/origin": [LITTLE, CRC],
        "box/boundary": [{"name": "bytes"}, GZIP, CRC],
    }
    assert {key: document(record, f"frame/{key}")["codecs"] for key in arrays(record, "frame")} == expected


# -- extents of a trajectory


def test_H04_each_constant_at_its_edge(tmp_path):
    frames = [zeros_frame(s=np.array(["a"]))] * 3
    record = write(tmp_path, frames, steps=[0, 1, 5])
    # 16 KiB of strings of 16 bytes; at most 4096 chunks though 256 MiB would hold more.
    assert extents(record, "trajectory/b/s") == ([1024], [1024 * 4096])
    assert extents(record, "trajectory/step") == ([1024], [262144])
    wide = write(tmp_path, [zeros_frame(q=np.zeros((1, 2**15)))], name="wide.mrec")
    # Chunks of 256 KiB fill a shard of 256 MiB before there are 4096 of them.
    assert extents(wide, "trajectory/b/q") == ([1, 2**15], [1024, 2**15])
    rows = 512 * 1024 // 8
    fixed = {"at": np.zeros(4 * rows), "past": np.zeros(4 * rows + 1)}
    for name, values in fixed.items():
        kept = write_record(tmp_path, name=f"{name}.mrec", frame=zeros_frame(q=values))
        assert extents(kept, "frame/b/q") == ([rows], [5 * rows] if name == "past" else None)


@pytest.mark.parametrize(
    ("rows", "trailing", "chunk"),
    [
        (3, (), 2049),
        (2, (), 2048),
        (5, (), 2050),
        (1000, (), 3000),
        (3000, (), 3000),
        (0, (), 2048),
        (3, (2,), 1026),
        (3, (3,), 684),
        (3, (3000,), 3),
        (0, (3000,), 1),
    ],
)
def test_H06_column_rows_per_chunk(tmp_path, rows, trailing, chunk):
    record = write(tmp_path, [zeros_frame(q=np.zeros((rows, *trailing)))])
    assert extents(record, "trajectory/b/q")[0] == [chunk, *trailing]


def test_H05_H07_narrowest_column_rules_the_block(tmp_path):
    columns = {
        "flag": np.zeros(3, np.uint8),
        "q": np.zeros(3),
        "v": np.zeros((3, 3)),
        "s": np.array(["a", "b", "c"]),
        "empty": np.zeros((3, 0)),
    }
    record = write(tmp_path, [zeros_frame(**columns)])
    # 16386 rows of 1, 8, 24 and (estimated) 16 bytes; a row of no bytes counts 1.
    per_shard = {"flag": 4096, "q": 2047, "v": 682, "s": 1023, "empty": 4096}
    trailing = {"v": [3], "empty": [1]}
    for name, chunks in per_shard.items():
        tail = trailing.get(name, [])
        assert extents(record, f"trajectory/b/{name}") == ([16386, *tail], [16386 * chunks, *tail])


@pytest.mark.parametrize(
    ("dtype", "chunk"), [("U1", 1026), (np.uint16, 8193), (bool, 16386), (np.complex128, 1026)]
)
def test_H05_row_bytes(tmp_path, dtype, chunk):
    record = write(tmp_path, [zeros_frame(q=np.zeros(3, dtype))])
    assert extents(record, "trajectory/b/q")[0] == [chunk]


def test_H06_largest_frame_of_a_derived_declaration(tmp_path):
    frames = [zeros_frame(q=np.zeros(n)) for n in (3, 1000, 2)]
    record = write_record(tmp_path, trajectory=frames)
    assert extents(record, "trajectory/b/q")[0] == [3000]


@pytest.mark.parametrize(("rows", "per_shard"), [(100_000, 335), (3, 4096), (40_000_000, 1)])
def test_H08_chunks_per_shard(tmp_path, rows, per_shard):
    schema = SequenceSchema().declare_column("b", "q", "f64")
    schema.frame_rows["b"] = rows
    record = write(tmp_path, [], schema=schema)
    (chunk,), (shard,) = extents(record, "trajectory/b/q")
    assert shard == chunk * per_shard


def test_H08_expected_frames_shrinks_the_shard(tmp_path):
    record = write(tmp_path, [zeros_frame(q=np.zeros(1000))], expected_frames=10)
    assert extents(record, "trajectory/b/q") == ([3000], [3000 * 4])
    more = [zeros_frame(q=np.full(1000, float(i))) for i in range(20)]
    longer = write(tmp_path, more, expected_frames=10, name="longer.mrec")
    assert stored(longer, "trajectory/b/q").tolist() == np.repeat(np.arange(20.0), 1000).tolist()


def test_H09_masks_share_the_rows_of_their_block(tmp_path):
    block = Block({"q": np.ones(3)}, validity={"q": [True, False, True]})
    record = write(tmp_path, [Frame({"b": block})])
    assert extents(record, "trajectory/b/q") == ([2049], [2049 * 4096])
    assert extents(record, "trajectory/b/_validity/q") == ([2049], [2049 * 4096])
    schema = SequenceSchema().declare_column("b", "q", "f64", nullable=True)
    schema.frame_rows["b"] = 100_000
    large = write(tmp_path, [], schema=schema, name="large.mrec")
    assert extents(large, "trajectory/b/q") == ([100_000], [100_000 * 335])
    assert extents(large, "trajectory/b/_validity/q") == ([100_000], [100_000 * 2684])


def test_H10_dense_arrays(rich):
    for key in arrays(rich, "trajectory"):
        if key.startswith(("step", "time", "meta", "box")) or key.endswith(("offset", "step_index")):
            chunk, shard = extents(rich, f"trajectory/{key}")
            trailing = {
                "meta/stress": [6],
                "box/vectors": [3, 3],
                "box/origin": [3],
                "box/boundary": [3],
            }.get(key, [])
            assert (chunk, shard) == ([1024, *trailing], [262144, *trailing])


# -- extents of fixed arrays


@pytest.mark.parametrize(
    ("values", "chunk", "shard"),
    [
        (np.zeros(65536), [65536], None),
        (np.zeros(262144), [65536], None),
        (np.zeros(262145), [65536], [327680]),
        (np.zeros((1_000_000, 3)), [21845, 3], [1004870, 3]),
        (np.zeros(3), [3], None),
        (np.zeros((3, 100_000)), [1, 100_000], None),
        (np.zeros(524288, np.uint8), [524288], None),
        (np.zeros(600_000, bool), [524288], None),
        (np.zeros((4, 0)), [4, 1], None),
    ],
    ids=lambda value: str(getattr(value, "shape", value)),
)
def test_H11_fixed_arrays(tmp_path, values, chunk, shard):
    record = write_record(tmp_path, frame=zeros_frame(q=values), system=zeros_frame(q=values))
    for section in ("frame", "system"):
        assert extents(record, f"{section}/b/q") == (chunk, shard)
    if shard:
        assert document(record, "frame/b/q")["codecs"][0]["configuration"]["index_location"] == "end"


@pytest.mark.parametrize("rows", [65537, 262144, 262145, 700_000])
def test_H11_fixed_arrays_hold_their_values(tmp_path, rows):
    values = np.arange(rows) * 0.5
    record = write_record(tmp_path, frame=zeros_frame(q=values))
    assert np.array_equal(stored(record, "frame/b/q"), values)
    assert np.array_equal(open_record(record).frame["b"]["q"], values)


def test_H12_one_chunk(tmp_path):
    texts = np.array(["abc"] * 300_000)
    record = write_record(
        tmp_path, frame=Frame({"s": {"s": texts}, "e": {"e": np.zeros((0, 3))}, "n": {"n": texts[:0]}})
    )
    assert extents(record, "frame/s/s") == ([300_000], None)
    assert extents(record, "frame/e/e") == ([1, 3], None)
    assert extents(record, "frame/n/n") == ([1], None)
    found = open_record(record).frame
    assert found["e"]["e"].shape == (0, 3)
    assert len(found["s"]["s"]) == 300_000


def test_H12_a_single_value(tmp_path):
    record = write_record(tmp_path, frame=Frame())
    write_array(DirectoryStore(record), "frame/value", np.array(-76.4))
    assert extents(record, "frame/value") == ([], None)
    assert float(stored(record, "frame/value")) == -76.4


# -- frozen extents, flushes


def test_H13_extents_are_frozen(tmp_path):
    record = write(tmp_path, [zeros_frame(q=np.ones((3, 3)))])
    before = extents(record, "trajectory/b/q")
    assert before == ([684, 3], [684 * 4096, 3])
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(zeros_frame(q=np.full((5000, 3), 2.0)))
    assert extents(record, "trajectory/b/q") == before
    frames, *_ = read(record)
    assert frames[1]["b"]["q"].tolist() == np.full((5000, 3), 2.0).tolist()


@pytest.mark.parametrize(
    ("n_atoms", "frames"),
    [(1000, 177), (3, 4096), (200_000, 1), (100_000, 2)],
)
def test_H14_automatic_flush(tmp_path, n_atoms, frames):
    columns = {name: np.zeros(n_atoms) for name in "xyz"}
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        writer.append(Frame({"atoms": columns}))
        assert writer._automatic == frames


def test_H14_largest_block_rounds_the_flush(tmp_path):
    big, small = np.zeros((1000, 3)), np.zeros(7)
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        writer.append(Frame({"big": {"v": big}, "small": {"q": small}}))
        # ceil(4 MiB / 24056) frames are 175; the large block's chunk holds one frame.
        assert writer._automatic == 175


# -- the compression knob


@pytest.mark.parametrize(
    ("compression", "precise", "plain"),
    [
        (None, [SHUFFLE, ZSTD], []),
        (Compression.none(), [SHUFFLE], []),
        (Compression.gzip(1), [SHUFFLE, GZIP], [GZIP]),
        (Compression.zstd(3), [SHUFFLE, ZSTD], [ZSTD]),
        (Compression.zstd(3, shuffle=True), [SHUFFLE, ZSTD], [SHUFFLE, ZSTD]),
        (Compression.none(shuffle=True), [SHUFFLE], [SHUFFLE]),
    ],
)
def test_H15_H17_compression_knob(tmp_path, compression, precise, plain):
    """H15: shuffle and gzip 1 is what a writer without a zstd encoder stores."""
    columns = {"x": [0.3, 1.7], "q": [0.3, 1.7], "n": np.array([1, 2])}
    frame = Frame({"atoms": Block(columns, precision={"x": 1e-3})})
    record = write(tmp_path, [frame], compression=compression)
    assert codecs(record, "trajectory/atoms/x") == [LITTLE, *precise, CRC]
    assert codecs(record, "trajectory/atoms/q") == [LITTLE, *plain, CRC]
    assert codecs(record, "trajectory/atoms/n") == [LITTLE, GZIP, CRC]
    expected = [307 * 2.0**-10, 1741 * 2.0**-10]
    assert stored(record, "trajectory/atoms/q").tolist() == [0.3, 1.7]
    assert read(record)[0][0]["atoms"]["x"].tolist() == expected


@pytest.mark.parametrize(
    ("make", "levels"), [(Compression.gzip, (-1, 10, True, 1.0)), (Compression.zstd, (0, 23, "3"))]
)
def test_H17_levels(make, levels):
    for level in levels:
        with pytest.raises(ValueError, match="compression level"):
            make(level)


# -- what older and other writers left


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (4,), "compressors": zarr.codecs.GzipCodec(level=1)},
        {"chunks": (4,), "shards": (12,), "compressors": zarr.codecs.GzipCodec(level=1)},
        {"chunks": (12,), "compressors": zarr.codecs.GzipCodec(level=1)},
    ],
    ids=["slabs", "index-at-end", "one-chunk"],
)
def test_H16_older_layouts_open(tmp_path, options):
    frames = [zeros_frame(q=np.arange(4.0) + i) for i in range(3)]
    record = write(tmp_path, frames)
    values = stored(record, "trajectory/b/q")
    replace_array(record, "trajectory/b/q", values, **options)
    found, *_ = read(record)
    assert [f["b"]["q"].tolist() for f in found] == [f["b"]["q"].tolist() for f in frames]


@pytest.mark.parametrize(
    "change",
    [
        {"codecs": [LITTLE, {"name": "numcodecs.unheard_of", "configuration": {}}]},
        {"codecs": [{"name": "unheard_of"}]},
        {"codecs": []},
        {"chunk_grid": {"name": "unheard_of", "configuration": {}}},
        {"chunk_key_encoding": {"name": "unheard_of"}},
        {"storage_transformers": [{"name": "unheard_of"}]},
        {"must_understand_this": {"must_understand": True}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_H18_codec_that_nobody_decodes(tmp_path, change):
    frame = Frame({"atoms": {"q": [0.5, 1.5]}})
    record = write_record(
        tmp_path, frame=frame, system=frame, trajectory=[frame], status={"state": "running"}
    )
    for section in ("frame", "trajectory"):
        with changed(record, f"{section}/atoms/q") as node:
            node.update(change)
    with open_record(record) as found:
        with unreadable("codec", "frame/atoms/q"):
            _ = found.frame
        reader = found.trajectory
        with unreadable("codec", "trajectory/atoms/q"):
            _ = reader[0]
        assert (found.system, found.status) == (frame, {"state": "running"})


# -- decisions 7 and 8: fill


def test_chunks_of_fill_are_not_written(tmp_path):
    """A chunk that is bitwise all fill is not stored; one that holds a -0.0 is not such a chunk."""
    frame = Frame({"zero": {"q": [0.0, 0.0]}, "minus": {"q": [0.0, -0.0]}, "empty": {"s": ["", ""]}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    for section in ("frame", "trajectory"):
        assert {chunk.parents[2].name for chunk in (record / section).rglob("c/0")} == {"minus"}
    with open_record(record) as found:
        for block in (found.frame["minus"], found.trajectory[0]["minus"]):
            assert np.signbit(block["q"]).tolist() == [False, True]
        assert found.frame == frame
