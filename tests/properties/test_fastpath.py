"""The fast path gives what zarr-python gives, and bulk reads give what frame after frame gives."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from conformance.records import refused, unreadable
from molrec_core import (
    Block,
    Frame,
    SchemaError,
    SectionNotFoundError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
)
from molrec_core._array import ChunkedReader, open_array
from molrec_core._dtypes import COLUMN_DTYPES
from molrec_core._fixed import get_array
from molrec_core._rows import ZarrReader
from molrec_core._store import DirectoryStore
from molrec_core.testing.strategies import values_of
from properties.extents import small

# Of a codec behind the shards, which zarr-python finds slow.
pytestmark = pytest.mark.filterwarnings("ignore:Combining a .sharding_indexed.")

GZIP = {"name": "gzip", "configuration": {"level": 1}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
ZSTD_CHECKED = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
CRC = {"name": "crc32c"}
FILLS = {
    "f": [0.0, -0.0, 1.5, "NaN", "-Infinity"],
    "i": [0, -7, 5],
    "u": [0, 200],
    "b": [False, True],
    "T": ["", "x"],
}


def shuffle(size):
    return {"name": "numcodecs.shuffle", "configuration": {"elementsize": size}}


def head(dtype, endian):
    if dtype == "string":
        return {"name": "vlen-utf8"}
    size = COLUMN_DTYPES[dtype][0].itemsize
    return {"name": "bytes", "configuration": {"endian": endian}} if size > 1 else {"name": "bytes"}


LITTLE = [head("u64", "little"), CRC]


@st.composite
def chains(draw, dtype):
    """Codecs from an array to the bytes of a chunk, closed by a checksum or not."""
    size = 1 if dtype == "string" else COLUMN_DTYPES[dtype][0].itemsize
    middle = draw(
        st.sampled_from([[], [GZIP], [ZSTD], [shuffle(size), ZSTD], [shuffle(size), GZIP], [ZSTD_CHECKED]])
    )
    end = draw(st.sampled_from([[], [CRC]]))
    return [head(dtype, draw(st.sampled_from(["little", "big"]))), *middle, *end]


def sharding(inner, codecs, location, index):
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": inner,
            "codecs": codecs,
            "index_codecs": index,
            "index_location": location,
        },
    }


@st.composite
def documents(draw):
    """Array documents of every kind a Zarr writer may produce."""
    dtype = draw(st.sampled_from([*COLUMN_DTYPES, "f64"]))
    shape = draw(st.sampled_from([(17,), (17,), (9, 3), (5, 2, 2), (0,), (3, 0), (1,), ()]))
    kind = draw(
        st.sampled_from(
            ["plain", "plain", "shard", "shard", "shard", "transpose", "nested", "grid", "after", "order"]
        )
    )
    codecs = draw(chains(dtype))
    rows = draw(st.integers(1, 6))
    trailing = [max(1, n) for n in shape[1:]]
    outer = [rows, *trailing] if shape else []
    index = draw(st.sampled_from([LITTLE, LITTLE, LITTLE[:1], [head("u64", "big"), CRC]]))
    location = draw(st.sampled_from(["start", "end"]))
    if not shape:
        kind = "plain"
    if kind in {"shard", "after", "nested"}:
        inner = outer
        outer = [rows * draw(st.integers(1, 4)), *trailing]
        if kind == "nested":
            codecs = [sharding(inner, codecs, "end", index)]
            inner, outer = outer, [outer[0] * 2, *trailing]
        codecs = [sharding(inner, codecs, location, index), *([GZIP] if kind == "after" else [])]
    if kind in {"transpose", "order"}:
        codecs = [
            {
                "name": "transpose",
                "configuration": {"order": list(range(len(shape)))[:: -1 if kind == "order" else 1]},
            },
            *codecs,
        ]
    if kind == "grid" and len(shape) > 1:
        outer = [rows, *(max(1, n - 1) for n in shape[1:])]
    fill = draw(st.sampled_from(FILLS.get(COLUMN_DTYPES[dtype][0].kind, [[0.0, 0.0], ["NaN", 1.0]])))
    separator = draw(st.sampled_from(["/", "."]))
    encoding = draw(st.sampled_from(["default"] * 5 + ["v2"]))
    return dtype, {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": COLUMN_DTYPES[dtype][1],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": outer}},
        "chunk_key_encoding": {"name": encoding, "configuration": {"separator": separator}},
        "fill_value": fill,
        "codecs": codecs,
    }


def same(left, right):
    if left.dtype.kind == "T" or right.dtype.kind in "TO":
        return left.tolist() == right.tolist()
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def draw_until_seen(check, seen, kinds):
    """Repeat `check`, which draws anew each time, until it has seen enough of every kind."""
    for _ in range(5):
        check()
        if all(seen[kind] > 10 for kind in kinds):
            break
    print(f"\n{dict(seen)}")
    assert all(seen[kind] > 10 for kind in kinds)


def test_every_array_reads_as_through_zarr(tmp_path):
    """Big-endian, transposed, nested, foreign grids and fills, no checksums: one result, whichever way."""
    numbers, seen = itertools.count(), Counter()

    @given(described=documents(), seed=st.integers(0, 2**32 - 1), data=st.data())
    def check(described, seed, data):
        dtype, document = described
        key = str(next(numbers))
        (tmp_path / key).mkdir()
        (tmp_path / key / "zarr.json").write_text(json.dumps(document))
        array = zarr.open_array(str(tmp_path), path=key, mode="r+")
        rng = np.random.default_rng(seed)
        if array.shape and array.size and data.draw(st.booleans()):
            # Only some rows are stored; the rest reads as the fill value.
            lo = data.draw(st.integers(0, array.shape[0]))
            hi = data.draw(st.integers(lo, array.shape[0]))
            array[lo:hi] = values_of(rng, dtype, (hi - lo, *array.shape[1:]))
        elif array.size:
            array[...] = values_of(rng, dtype, array.shape)
        store = DirectoryStore(tmp_path)
        reader = open_array(store, key, get_array(store, key))
        seen[type(reader)] += 1
        want = np.asarray(array[...])
        assert same(np.asarray(reader.all()), want)
        for _ in range(3 if array.shape else 0):
            lo = data.draw(st.integers(0, array.shape[0]))
            hi = data.draw(st.integers(lo, array.shape[0]))
            assert same(reader.read(lo, hi), want[lo:hi])
            strided = np.empty((hi - lo, 2, *array.shape[1:]), reader.dtype)[:, 1]
            assert same(np.ascontiguousarray(reader.read(lo, hi, strided)), want[lo:hi])
        store.close()

    draw_until_seen(check, seen, [ChunkedReader, ZarrReader])


FAST = [head("f64", "little"), CRC]


@pytest.mark.parametrize(
    ("grid", "codecs", "fast"),
    [
        ([4, 3], FAST, True),
        ([4, 3], [head("f64", "big")], True),
        ([4, 3], [head("f64", "little"), GZIP], True),
        ([8, 3], [sharding([4, 3], FAST, "start", LITTLE)], True),
        ([8, 3], [sharding([4, 3], FAST, "end", LITTLE)], True),
        ([8, 3], [sharding([4, 3], FAST, "end", LITTLE[:1])], True),
        ([8, 3], [sharding([4, 3], FAST, "start", [head("u64", "big"), CRC])], False),
        ([8, 3], [sharding([4, 3], FAST, "start", LITTLE), GZIP], False),
        ([8, 3], [sharding([8, 3], [sharding([4, 3], FAST, "end", LITTLE)], "end", LITTLE)], False),
        ([4, 3], [{"name": "transpose", "configuration": {"order": [1, 0]}}, *FAST], False),
        ([4, 2], FAST, False),
        ([8, 3], [sharding([4, 1], FAST, "start", LITTLE)], False),
    ],
)
def test_which_way_an_array_is_read(tmp_path, grid, codecs, fast):
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [10, 3], "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0, "codecs": codecs,
    }  # fmt: skip
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(document))
    values = np.arange(30.0).reshape(10, 3)
    zarr.open_array(str(tmp_path), path="a", mode="r+")[...] = values
    store = DirectoryStore(tmp_path)
    reader = open_array(store, "a", get_array(store, "a"))
    assert isinstance(reader, ChunkedReader if fast else ZarrReader)
    assert np.array_equal(reader.all(), values)
    store.close()


# -- bulk reads


@st.composite
def plans(draw):
    """Row counts by frame, None where the frame omits the block; uniform, ragged or carried forward."""
    n = draw(st.integers(1, 4))
    count = st.just(n) if draw(st.booleans()) else st.integers(0, 5)
    first = draw(count)
    return [first, *draw(st.lists(st.one_of(count, count, st.none()), max_size=12))]


def frames_of(plan, seed):
    rng = np.random.default_rng(seed)
    for n in plan:
        if n is None:
            yield Frame()
            continue
        columns = {name: values_of(rng, "f64", (n,)) for name in "xyz"}
        columns |= {
            "v": values_of(rng, "f64", (n, 3)),
            "s": values_of(rng, "string", (n,)),
            "i": values_of(rng, "i32", (n,)),
        }
        yield Frame({"b": Block(columns)})


@st.composite
def frame_choices(draw, n):
    """Any slice, or any list of frames with repeats and negative ones."""
    if draw(st.booleans()):
        bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
        return slice(draw(bound), draw(bound), draw(st.one_of(st.none(), st.integers(-3, 3).filter(bool))))
    return draw(st.lists(st.integers(-n, n - 1), max_size=8))


@st.composite
def row_choices(draw, n):
    """None, a row, a slice or an index array."""
    choice = draw(st.sampled_from(["all", "one", "slice", "index", "mask"]))
    if choice == "one" and n:
        return draw(st.integers(-n, n - 1))
    if choice == "slice":
        return slice(
            draw(st.integers(0, 3)),
            draw(st.one_of(st.none(), st.integers(0, 5))),
            draw(st.sampled_from([None, 2])),
        )
    if choice == "index" and n:
        return np.array(draw(st.lists(st.integers(-n, n - 1), max_size=5)), int)
    if choice == "mask":
        return np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
    return None


def chosen(reader, frames):
    if isinstance(frames, slice):
        return list(reader[frames])
    return [reader[i] for i in frames]


@pytest.fixture
def bulk(tmp_path):
    """Make a record of frames, in chunks of a few frames, and open it."""
    numbers = itertools.count()

    def make(frames):
        record = tmp_path / f"{next(numbers)}.mrec"
        with small(on=True), TrajectoryWriter(record, SCHEMA) as writer:
            for frame in frames:
                writer.append(frame)
        return open_record(record)

    return make


SCHEMA = SequenceSchema.from_frames(frames_of([1], 0))
COLUMNS = st.sampled_from(["x", "i", "v", "s", ["x"], ["z", "x"], ["x", "y", "z"], ["v"], ["x", "x"]])


def stack(blocks, columns):
    """Return the columns of each block, one after the other in the axis behind the rows."""
    if isinstance(columns, str):
        return [block[columns] for block in blocks]
    return [np.stack([block[name] for name in columns], axis=1) for block in blocks]


def test_bulk_reads_are_frames_one_by_one(bulk):
    """Any frames, columns and rows, into any float dtype, scaled: what looping over frames would give."""
    seen = Counter()

    @given(plan=plans(), seed=st.integers(0, 2**32 - 1), columns=COLUMNS, data=st.data())
    def check(plan, seed, columns, data):
        with bulk(frames_of(plan, seed)) as record:
            reader = record.trajectory
            frames = data.draw(frame_choices(len(reader)))
            blocks = [frame["b"] for frame in chosen(reader, frames)]
            want = stack(blocks, columns)
            counts = [block.count for block in blocks]
            if len(set(counts)) > 1:
                seen["ragged"] += 1
                values, found = reader.read("b", columns, frames)
                assert found.tolist() == counts
                assert same(values, np.concatenate(want))
                return
            seen["uniform"] += 1
            rows = data.draw(row_choices(counts[0])) if counts else None
            found = reader.read("b", columns, frames, rows=rows)
            picked = [block if rows is None else block[rows] for block in want]
            assert len(found) == len(blocks)
            if picked:
                assert same(found, np.stack(picked))
            check_scaled(reader, columns, frames, rows, found, data)

    def check_scaled(reader, columns, frames, rows, found, data):
        if found.dtype.kind != "f":
            return
        dtype = data.draw(st.sampled_from([np.float32, np.float64, np.float16, None]))
        factor = data.draw(st.sampled_from([None, 1.0, 0.1, -2.5]))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scaled = reader.read("b", columns, frames, rows=rows, dtype=dtype, factor=factor)
            want = (found if factor is None else found * factor).astype(dtype or np.float64)
            out = np.full((*found.shape, 2), 7.0, dtype or np.float64)[..., 0]
            assert reader.read("b", columns, frames, rows=rows, out=out, factor=factor) is out
        assert same(scaled, want)
        assert same(np.ascontiguousarray(out), want)
        seen["scaled"] += 1

    draw_until_seen(check, seen, ["ragged", "uniform", "scaled"])


def test_bulk_read_of_an_absent_block(bulk):
    """A read that meets a frame without the block is refused; from the first update on it is not."""
    with bulk([Frame(), Frame(), *frames_of([2, None, 2], 0)]) as record:
        for frames in (None, slice(1, None), [3, 0]):
            with unreadable("block_absent", "trajectory/b"):
                record.trajectory.read("b", "x", frames)
        assert record.trajectory.read("b", "x", slice(2, None)).shape == (3, 2)


def test_bulk_read_of_no_frames(bulk):
    with bulk(frames_of([3, 3], 0)) as record:
        assert record.trajectory.read("b", ["x", "y"], []).shape == (0, 3, 2)
        assert record.trajectory.read("b", "v", slice(5, 9)).shape == (0, 3, 3)


@pytest.mark.parametrize(
    ("columns", "options", "error", "kind"),
    [
        (["x", "i"], {}, SchemaError, "columns"),
        (["x", "v"], {}, SchemaError, "columns"),
        ([], {}, SchemaError, "columns"),
        ("nope", {}, SectionNotFoundError, "section_not_found"),
        ("x", {"out": np.zeros((2, 2))}, SchemaError, "out_shape"),
        ("x", {"out": np.zeros((2, 3, 1))}, SchemaError, "out_shape"),
    ],
)
def test_bulk_read_that_cannot_be(bulk, columns, options, error, kind):
    loc = "trajectory/b/nope" if columns == "nope" else "trajectory/b"
    with bulk(frames_of([3, 3], 0)) as record, refused(error, kind, loc):
        record.trajectory.read("b", columns, **options)


@pytest.mark.parametrize("options", [{"rows": 0}, {"out": np.zeros((2, 3))}])
def test_bulk_read_of_ragged_frames_into_one_array(bulk, options):
    with bulk(frames_of([3, 2], 0)) as record, unreadable("ragged", "trajectory/b"):
        record.trajectory.read("b", "x", **options)


def test_bulk_read_of_a_block_that_is_not_declared(bulk):
    with (
        bulk(frames_of([3], 0)) as record,
        refused(SectionNotFoundError, "section_not_found", "trajectory/nope"),
    ):
        record.trajectory.read("nope", "x")
