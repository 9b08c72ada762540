"""Codecs and pipelines, each against numcodecs or zarr-python, and what lying bytes come to."""

from __future__ import annotations

import gzip
import json
import threading

import numcodecs
import numpy as np
import pytest
import zarr
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from molrec_core._codecs import (
    Compression,
    Gzip,
    Pipeline,
    Shuffle,
    Zstd,
    checksum,
    parse_pipeline,
    pipeline_for,
)
from molrec_core._dtypes import COLUMN_DTYPES, STRING
from molrec_core._strings import _COUNTS_NULS, decode_strings, encode_strings, packed_strings
from molrec_core.errors import CodecError

SAMPLE = np.arange(5000, dtype="<f8").tobytes()
CODECS = {
    "gzip": (Gzip(1), numcodecs.GZip(1)),
    "gzip-9": (Gzip(9), numcodecs.GZip(9)),
    "zstd": (Zstd(3), numcodecs.Zstd(3)),
    "zstd-checksum": (Zstd(1, checksum=True), numcodecs.Zstd(1, checksum=True)),
    **{f"shuffle-{n}": (Shuffle(n), numcodecs.Shuffle(n)) for n in (1, 2, 4, 8, 16)},
}


# -- one codec


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("size", [16, 64, len(SAMPLE)])
def test_each_reads_what_the_other_wrote(name, size):
    ours, theirs = CODECS[name]
    data = SAMPLE[:size]
    assert bytes(theirs.decode(bytes(ours.encode(data)))) == data
    assert bytes(ours.decode(bytes(theirs.encode(data)), size)) == data


@given(st.binary(max_size=200), st.integers(1, 16))
def test_shuffle_of_any_length(data, elementsize):
    codec = Shuffle(elementsize)
    encoded = bytes(codec.encode(data))
    assert len(encoded) == len(data)
    assert sorted(encoded) == sorted(data)
    assert bytes(codec.decode(encoded, len(data))) == data


@pytest.mark.parametrize("count", [1, 8191, 8192, 20000])
@pytest.mark.parametrize("zeros", [(), (0, 1, 2), (7,), range(8)])
@pytest.mark.parametrize("rest", [0, 3])
def test_shuffle_joins_planes_of_zeros_too(count, zeros, rest):
    """Large chunks are joined plane by plane, and planes of zeros are filled: the bytes are the same."""
    data = np.random.default_rng(count).integers(1, 256, count * 8 + rest).astype(np.uint8)
    data[: count * 8].reshape(-1, 8)[:, list(zeros)] = 0
    encoded = numcodecs.Shuffle(8).encode(data[: count * 8])
    out = np.full(len(data), 77, np.uint8)
    Shuffle(8).decode_into(bytes(encoded) + data[count * 8 :].tobytes(), out)
    assert np.array_equal(out, data)


def test_shuffle_by_example():
    data = bytes([1, 2, 3, 4, 5, 6, 7])
    assert bytes(Shuffle(3).encode(data)) == bytes([1, 4, 2, 5, 3, 6, 7])


def test_checksum_is_crc32c():
    assert checksum(b"123456789") == 0xE3069283
    assert zarr.codecs.Crc32cCodec.__name__ == "Crc32cCodec"


@pytest.mark.parametrize("codec", [Gzip(1), Zstd(3)])
@pytest.mark.parametrize("limit", [0, 1, len(SAMPLE) - 1])
def test_no_more_than_the_chunk_holds(codec, limit):
    encoded = bytes(codec.encode(SAMPLE))
    with pytest.raises(CodecError, match=r"holds|claimed"):
        codec.decode(encoded, limit)
    assert bytes(codec.decode(encoded, len(SAMPLE))) == SAMPLE


def test_a_bomb_is_not_inflated():
    bomb = gzip.compress(bytes(2**26), 9)
    with pytest.raises(CodecError, match="more than the 1000 bytes"):
        Gzip(1).decode(bomb, 1000)
    frame = zstandard.ZstdCompressor().compress(bytes(2**26))
    with pytest.raises(CodecError, match="67108864 bytes claimed"):
        Zstd(3).decode(frame, 1000)


def test_a_zstd_frame_that_does_not_tell_its_size():
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(SAMPLE)
    assert zstandard.frame_content_size(streamed) == -1
    assert Zstd(3).decode(streamed, len(SAMPLE)) == SAMPLE
    for limit in (0, 1, len(SAMPLE) // 2):
        with pytest.raises(CodecError, match="zstd"):
            Zstd(3).decode(streamed, limit)
    empty = zstandard.ZstdCompressor(write_content_size=False).compress(b"")
    assert Zstd(3).decode(empty, 0) == b""


@pytest.mark.parametrize("codec", [Gzip(1), Zstd(3)])
def test_damaged_bytes(codec):
    encoded = bytes(codec.encode(SAMPLE))
    for damaged in (encoded[:-5], encoded[:7], b"not compressed at all", b"\0" * 40):
        with pytest.raises(CodecError) as caught:
            codec.decode(damaged, len(SAMPLE))
        assert caught.value.kind == "codec"


def test_gzip_members_follow_one_another():
    parts = gzip.compress(SAMPLE[:1000]) + gzip.compress(SAMPLE[1000:])
    assert Gzip(1).decode(parts, len(SAMPLE)) == SAMPLE
    with pytest.raises(CodecError, match="more than"):
        Gzip(1).decode(parts, len(SAMPLE) - 1)
    with pytest.raises(CodecError, match="cut short"):
        Gzip(1).decode(parts[:-9], len(SAMPLE))


def test_zstd_contexts_are_not_shared_between_threads():
    data = [np.random.default_rng(i).bytes(50_000) for i in range(8)]
    results = {}

    def work(i):
        for _ in range(20):
            results[i] = Zstd(3).decode(bytes(Zstd(3).encode(data[i])), 50_000) == data[i]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(8), True)


# -- strings

TEXTS = ["", "CA", "h\u00e4m", "\U0001f600", "null\0inside", "x" * 1000, "CA"]


def test_strings_as_numcodecs_spells_them():
    stored = encode_strings(np.array(TEXTS, STRING))
    assert numcodecs.VLenUTF8().decode(stored).tolist() == TEXTS
    assert decode_strings(numcodecs.VLenUTF8().encode(np.array(TEXTS, object)), len(TEXTS)) == TEXTS
    assert stored == bytes(numcodecs.VLenUTF8().encode(np.array(TEXTS, object)))
    assert encode_strings(np.array([], STRING)) == b"\0\0\0\0"


@given(st.lists(st.text()) | st.lists(st.text("\0ACH1 ", max_size=5), max_size=40))
def test_any_text_comes_back(texts):
    stored = encode_strings(np.array(texts, STRING))
    assert stored == bytes(numcodecs.VLenUTF8().encode(np.array(texts, object)))
    assert decode_strings(stored, len(texts)) == texts


@given(st.lists(st.text() | st.text("\0ACH1 ", max_size=5), max_size=20), st.sampled_from("TU"))
def test_packed_strings_are_the_same_strings(texts, kind):
    """Strings that bytes of one width would change are not packed."""
    array = np.array(texts, STRING if kind == "T" else "U")
    packed = packed_strings(array)
    if packed is not None:
        assert [text.decode("ascii") for text in packed.tolist()] == array.tolist()
        assert encode_strings(packed) == encode_strings(array)
    elif kind == "U":
        assert not all(text.isascii() for text in texts) or max(map(len, texts), default=0) in {
            0,
            *range(17, 999),
        }


@pytest.mark.parametrize("kind", ["T", "U"] if _COUNTS_NULS else ["U"])
def test_short_names_are_packed(kind):
    array = np.array([["C", "Cl"], ["", "A\0B"]], STRING if kind == "T" else "U")
    assert packed_strings(array).tolist() == [[b"C", b"Cl"], [b"", b"A\0B"]]
    assert packed_strings(np.array(["C", "é"], array.dtype if kind == "T" else "U")) is None


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"\1\0\0", 1),
        (b"\2\0\0\0" + b"\1\0\0\0a", 2),
        (b"\1\0\0\0" + b"\1\0\0\0a", 2),
        (b"\xff\xff\xff\xff" + b"\1\0\0\0a", 1),
        (b"\1\0\0\0" + b"\xff\xff\xff\xffa", 1),
        (b"\1\0\0\0" + b"\2\0\0\0a", 1),
        (b"\1\0\0\0" + b"\1\0\0\0ab", 1),
        (b"\1\0\0\0" + b"\1\0\0\0\xff", 1),
        (b"\0\0\0\0" + b"x", 0),
    ],
)
def test_strings_that_lie(data, count):
    with pytest.raises(CodecError, match="vlen-utf8"):
        decode_strings(data, count)


# -- pipelines


def values(dtype, n=12, trailing=()):
    shape = (n, *trailing)
    size = int(np.prod(shape))
    if dtype == "string":
        return np.array([f"s{i % 5}" for i in range(size)], STRING).reshape(shape)
    return (np.arange(size) % 100).astype(COLUMN_DTYPES[dtype][0]).reshape(shape)


def encoded(pipeline, rows):
    return b"".join(bytes(piece) for piece in pipeline.encode(rows))


CHAINS = {
    "plain": (),
    "gzip": (Gzip(1),),
    "zstd": (Zstd(3),),
    "shuffle": (Shuffle(8),),
    "shuffle-zstd": (Shuffle(8), Zstd(3)),
    "gzip-shuffle-gzip": (Gzip(1), Shuffle(4), Gzip(1)),
}


@pytest.mark.parametrize("dtype", COLUMN_DTYPES)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    ("crc", "endian", "trailing"), [(True, "little", ()), (False, "big", (3,)), (True, "big", (2, 2))]
)
def test_a_chunk_comes_back(dtype, chain, crc, endian, trailing):
    pipeline = Pipeline(dtype, trailing, CHAINS[chain], crc, endian)
    rows = values(dtype, trailing=trailing)
    stored = encoded(pipeline, rows)
    found = pipeline.decode(stored, len(rows))
    assert found.dtype == rows.dtype
    assert found.tolist() == rows.tolist()
    assert encoded(pipeline, rows[::-1]) == encoded(pipeline, rows[::-1].copy())


@pytest.mark.parametrize("dtype", COLUMN_DTYPES)
@pytest.mark.parametrize("chain", ["plain", "gzip", "zstd"])
@pytest.mark.parametrize("crc", [True, False])
def test_zarr_python_reads_and_writes_the_same_chunks(tmp_path, dtype, chain, crc):
    rows = values(dtype)
    pipeline = Pipeline(dtype, (), CHAINS[chain], crc)
    theirs = {"gzip": [zarr.codecs.GzipCodec(level=1)], "zstd": [zarr.codecs.ZstdCodec(level=3)]}.get(
        chain, []
    )
    compressors = [*theirs, *([zarr.codecs.Crc32cCodec()] if crc else [])]
    name = "string" if dtype == "string" else rows.dtype
    array = zarr.create_array(
        tmp_path, shape=rows.shape, dtype=name, chunks=rows.shape, compressors=compressors
    )
    array[...] = rows
    chunk = tmp_path / "c" / "0"
    assert pipeline.decode(chunk.read_bytes(), len(rows)).tolist() == rows.tolist()
    chunk.write_bytes(encoded(pipeline, rows[::-1]))
    assert np.asarray(zarr.open_array(tmp_path, mode="r")[...]).tolist() == rows[::-1].tolist()
    spelled = json.loads((tmp_path / "zarr.json").read_text())["codecs"]
    assert parse_pipeline(spelled, dtype, ()) == pipeline


@pytest.mark.parametrize("dtype", ["f64", "string", "u8"])
@pytest.mark.parametrize("chain", ["plain", "gzip", "shuffle-zstd"])
def test_another_number_of_rows_than_stored(dtype, chain):
    pipeline = Pipeline(dtype, (), CHAINS[chain])
    stored = encoded(pipeline, values(dtype, 12))
    for n_rows in (0, 1, 11, 13, 1000):
        with pytest.raises(CodecError) as caught:
            pipeline.decode(stored, n_rows)
        assert caught.value.kind == "codec"


@pytest.mark.parametrize("chain", CHAINS)
def test_a_flipped_bit_fails_the_checksum(chain):
    pipeline = Pipeline("f64", (), CHAINS[chain])
    stored = encoded(pipeline, values("f64"))
    for place in (0, len(stored) // 2, len(stored) - 1):
        damaged = bytearray(stored)
        damaged[place] ^= 4
        with pytest.raises(CodecError) as caught:
            pipeline.decode(damaged, 12)
        assert caught.value.kind == "checksum"
    for short in (b"", b"abc", stored[:-1]):
        with pytest.raises(CodecError) as caught:
            pipeline.decode(short, 12)
        assert caught.value.kind == "checksum"


def test_decoding_into_the_callers_array():
    pipeline = Pipeline("f64", (3,), (Shuffle(8), Zstd(3)))
    rows = values("f64", trailing=(3,))
    out = np.zeros((20, 3))
    pipeline.decode_into(encoded(pipeline, rows), out[4:16])
    assert out[4:16].tolist() == rows.tolist()
    assert not out[:4].any()
    assert not out[16:].any()


@pytest.mark.parametrize("trailing", [(), (3,)])
def test_chunks_encoded_together_are_those_encoded_one_by_one(trailing):
    pipeline = pipeline_for("f64", trailing, precision=True)
    assert pipeline.gathers
    chunks = np.rint(np.random.default_rng(0).normal(scale=99, size=(5, 700, *trailing))) / 64
    together = pipeline.encode_run(chunks)
    assert [[bytes(piece) for piece in run] for run in together] == [
        [bytes(piece) for piece in pipeline.encode(chunk)] for chunk in chunks
    ]
    assert not pipeline_for("f64").gathers
    assert not pipeline_for("i64").gathers


def test_raw_pipelines_store_memory():
    assert Pipeline("f64").raw
    assert Pipeline("u8", endian="big").raw
    assert not Pipeline("f64", endian="big").raw
    assert not Pipeline("string").raw
    assert not Pipeline("f64", codecs=(Gzip(1),)).raw
    rows = values("f64")
    assert encoded(Pipeline("f64", crc=False), rows) == rows.tobytes()


# -- which pipeline


NAMES = {
    ("f64", "plain"): ["bytes", "crc32c"],
    ("c64", "plain"): ["bytes", "crc32c"],
    ("c128", "plain"): ["bytes", "crc32c"],
    ("i32", "plain"): ["bytes", "gzip", "crc32c"],
    ("bool", "plain"): ["bytes", "gzip", "crc32c"],
    ("string", "plain"): ["vlen-utf8", "gzip", "crc32c"],
    ("f64", "dense"): ["bytes", "gzip", "crc32c"],
    ("f64", "precision"): ["bytes", "numcodecs.shuffle", "zstd", "crc32c"],
}


@pytest.mark.parametrize(("dtype", "kind"), NAMES)
def test_the_reference_pipelines(dtype, kind):
    pipeline = pipeline_for(dtype, (3,), precision=kind == "precision", dense=kind == "dense")
    spelled = pipeline.to_json()
    assert [codec["name"] for codec in spelled] == NAMES[dtype, kind]
    assert parse_pipeline(spelled, dtype, (3,)) == pipeline


def test_the_knob_leaves_other_columns_alone():
    knob = Compression.zstd(19, shuffle=True)
    assert pipeline_for("i32", compression=knob) == pipeline_for("i32")
    assert pipeline_for("f64", dense=True, compression=knob) == pipeline_for("f64", dense=True)
    assert pipeline_for("c128", compression=knob).codecs == (Shuffle(16), Zstd(19))
    assert pipeline_for("f64", precision=True, compression=Compression.none()).codecs == (Shuffle(8),)


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}


@pytest.mark.parametrize(
    ("codecs", "dtype"),
    [
        (None, "f64"),
        ([], "f64"),
        ({}, "f64"),
        (["unheard_of"], "f64"),
        ([3], "f64"),
        ([{"name": 3}], "f64"),
        ([{"name": "bytes", "configuration": []}], "f64"),
        ([{"name": "bytes", "configuration": {"endian": "middle"}}], "f64"),
        ([{"name": "bytes", "x_key": 1}], "f64"),
        ([LITTLE, "unheard_of"], "f64"),
        ([LITTLE, {"name": "transpose", "configuration": {"order": [0]}}], "f64"),
        ([{"name": "transpose", "configuration": {"order": [0]}}, LITTLE], "f64"),
        ([LITTLE, CRC, {"name": "gzip", "configuration": {"level": 1}}], "f64"),
        ([LITTLE, CRC, CRC], "f64"),
        ([LITTLE, {"name": "gzip"}], "f64"),
        ([LITTLE, {"name": "gzip", "configuration": {"level": "1"}}], "f64"),
        ([LITTLE, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 0}}], "f64"),
        ([LITTLE, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 17}}], "f64"),
        ([LITTLE], "string"),
        ([{"name": "vlen-utf8"}], "f64"),
    ],
)
def test_what_is_left_to_zarr_python(codecs, dtype):
    assert parse_pipeline(codecs, dtype, ()) is None


@pytest.mark.parametrize(
    ("codecs", "dtype", "expected"),
    [
        ([LITTLE], "f64", Pipeline("f64", crc=False)),
        (["bytes", "crc32c"], "u8", Pipeline("u8")),
        ([{"name": "bytes"}, CRC], "bool", Pipeline("bool")),
        ([{"name": "bytes", "configuration": {"endian": None}}, CRC], "bool", Pipeline("bool")),
        (
            [{"name": "bytes", "configuration": {"endian": "big"}}],
            "i16",
            Pipeline("i16", crc=False, endian="big"),
        ),
        (["vlen-utf8", CRC], "string", Pipeline("string")),
        (
            [LITTLE, {"name": "zstd", "configuration": {"level": 0, "checksum": True}}],
            "f64",
            Pipeline("f64", codecs=(Zstd(0, checksum=True),), crc=False),
        ),
        (
            [LITTLE, {"name": "gzip", "configuration": {"level": 99}}],
            "f64",
            Pipeline("f64", codecs=(Gzip(9),), crc=False),
        ),
    ],
)
def test_spellings_of_other_writers(codecs, dtype, expected):
    assert parse_pipeline(codecs, dtype, ()) == expected
