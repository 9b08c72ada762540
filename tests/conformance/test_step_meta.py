"""Checklist group K: per-step meta, its sixteen tags and its fills."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.records import (
    arrays,
    attributes,
    changed,
    make_group,
    read,
    refuse_last,
    remove,
    replace_array,
    set_attributes,
    stored,
    unreadable,
    unwritable,
    write,
)
from molrec_core import Frame, SequenceSchema, TrajectoryWriter, open_record

TAGGED = {
    "bool": True,
    "i32": -7,
    "i64": -(2**40),
    "u32": 7,
    "u64": 2**64 - 1,
    "f64": -1.25,
    "string": "nvt",
    "json": {"restarts": [1, 2]},
    "bool3": np.array([True, False, True]),
    "i32x3": np.array([-1, 0, 1], np.int32),
    "i64x3": np.array([-(2**40), 0, 2**40]),
    "u32x3": np.array([1, 2, 3], np.uint32),
    "u64x3": np.array([0, 2**63, 2**64 - 1], np.uint64),
    "f64x3": np.array([0.0, 0.5, 1.0]),
    "f64x6": np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3]),
    "f64x9": np.eye(3).ravel(),
}
ELEMENT = {
    "bool": "bool", "i32": "int32", "i64": "int64", "u32": "uint32", "u64": "uint64", "f64": "float64",
    "string": "string", "json": "string",
}  # fmt: skip
ZEROS = {
    "bool": np.zeros(2, bool), "int32": np.zeros(2, np.int32), "int64": np.zeros(2, np.int64),
    "uint32": np.zeros(2, np.uint32), "uint64": np.zeros(2, np.uint64), "float64": np.zeros(2),
}  # fmt: skip


def meta(**values):
    return Frame(meta=values)


def declared(**keys):
    schema = SequenceSchema()
    for key, (tag, *fill) in keys.items():
        schema.declare_meta(key, tag, **({"fill": fill[0]} if fill else {}))
    return schema


def pin(record):
    return attributes(record, "trajectory")["sequence_schema"]["meta"]


def values(record, key):
    return [frame.meta[key] for frame in read(record)[0]]


def test_K01_per_step_meta(tmp_path):
    schema = declared(temperature=("f64",), pressure=("f64", 0.0), ensemble=("string",))
    frames = [
        meta(temperature=300.0, pressure=1.0, ensemble="nvt"),
        meta(temperature=301.5, ensemble="nvt"),
        meta(temperature=299.25, pressure=1.25, ensemble="npt"),
    ]
    record = write(tmp_path, frames, schema=schema)
    assert values(record, "temperature") == [300.0, 301.5, 299.25]
    assert values(record, "pressure") == [1.0, 0.0, 1.25]
    assert values(record, "ensemble") == ["nvt", "nvt", "npt"]
    series = read(record)[3]
    assert series["pressure"].tolist() == [1.0, 0.0, 1.25]
    assert series["ensemble"].tolist() == ["nvt", "nvt", "npt"]


def test_K02_vector_meta(tmp_path):
    frames = [
        meta(
            com=np.array([i, 0.5, np.nan]), stress=np.arange(6.0) + i, flags=np.array([True, False, bool(i)])
        )
        for i in range(2)
    ]
    record = write(tmp_path, frames)
    assert {key: entry["dtype"] for key, entry in pin(record).items()} == {
        "com": "f64x3", "stress": "f64x6", "flags": "bool3",
    }  # fmt: skip
    assert read(record)[0] == frames
    assert read(record)[3]["stress"].shape == (2, 6)


@pytest.mark.parametrize("tag", TAGGED)
def test_K03_every_meta_tag(tmp_path, tag):
    frame = Frame(meta={"k": TAGGED[tag]}, meta_tags={"k": tag})
    record = write(tmp_path, [frame, frame])
    assert pin(record) == {"k": {"dtype": tag}}
    assert read(record)[0] == [frame, frame]


def test_K04_json_null_fill(tmp_path, tmp_path_factory):
    record = write(tmp_path, [meta(k={"a": 1}), Frame()], schema=declared(k=("json", None)))
    assert pin(record) == {"k": {"dtype": "json", "fill": None}}
    assert values(record, "k") == [{"a": 1}, None]
    refuse_last(
        tmp_path_factory.mktemp("other"),
        [Frame()],
        "missing_meta",
        "trajectory/meta/k",
        schema=declared(k=("json",)),
    )


def test_K05_json_meta(tmp_path):
    schema = declared(k=("json", {"phase": None}))
    documents = [{"phase": "a", "n": [1, 2.5, None, True, "é"]}, [], None]
    record = write(
        tmp_path, [meta(k=documents[0]), Frame(), *(meta(k=d) for d in documents[1:])], schema=schema
    )
    assert values(record, "k") == [documents[0], {"phase": None}, [], None]
    assert read(record)[3]["k"] == [documents[0], {"phase": None}, [], None]


@pytest.mark.parametrize("tag", TAGGED)
def test_K06_storage(tmp_path, tag):
    frame = Frame(meta={"k": TAGGED[tag]}, meta_tags={"k": tag})
    record = write(tmp_path, [frame, frame, frame])
    width = [int(tag[-1])] if tag[-1] in "369" else []
    document = read_document(record, "trajectory/meta/k")
    assert document["shape"] == [3, *width]
    assert document["data_type"] == ELEMENT[tag.rstrip("369").removesuffix("x") if width else tag]
    assert document["attributes"] == {"meta_dtype": tag}


def read_document(record, key):
    with changed(record, key) as found:
        return found


def test_K06_json_is_compact_text(tmp_path):
    record = write(tmp_path, [Frame(meta={"k": {"a": [1, 2.0], "b": "é"}})])
    assert stored(record, "trajectory/meta/k").tolist() == ['{"a":[1,2.0],"b":"é"}']


def test_K07_undeclared_meta_key(tmp_path):
    refuse_last(tmp_path, [Frame(), meta(temperature=1.0)], "undeclared_meta", "trajectory/meta/temperature")


def test_K08_omitted_meta_without_fill(tmp_path):
    frames = [meta(temperature=1.0), Frame()]
    refuse_last(tmp_path, frames, "missing_meta", "trajectory/meta/temperature")


NOT_OF_TAG = [
    ("i32", 1.0), ("i32", 1.5), ("i32", True), ("i32", "1"), ("i32", 2**31), ("i32", -(2**31) - 1), ("i32", None),
    ("i64", 2**63), ("i64", 3.0), ("u32", -1), ("u32", 2**32), ("u64", -1), ("u64", 2**64), ("u64", False),
    ("f64", "NaN"), ("f64", True), ("f64", None), ("f64", 1j), ("f64", [1.0]),
    ("bool", 1), ("bool", 0.0), ("bool", "true"), ("string", 1), ("string", b"a"), ("string", "\ud800"),
    ("json", math.nan), ("json", {"a": math.inf}), ("json", {1: 2}), ("json", {"a": object}),
    ("f64x3", [1.0, 2.0]), ("f64x3", np.zeros(4)), ("f64x3", 1.0), ("f64x3", np.zeros((3, 1))),
    ("bool3", [1, 0, 1]), ("i32x3", [1, 2, 2**31]), ("u64x3", [0, 1, -1]), ("f64x6", np.zeros(9)),
    ("f64x9", np.zeros(6)), ("i64x3", [1.0, 2.0, 3.0]),
]  # fmt: skip


class AnyValue(Frame):
    """A frame whose meta is not checked when it is built, so that append has to."""

    def __init__(self, **values):
        super().__init__()
        self.meta = values


@pytest.mark.parametrize(("tag", "value"), NOT_OF_TAG, ids=lambda v: repr(v).splitlines()[0][:24])
def test_K09_value_not_of_the_tag(tmp_path, tag, value):
    good = Frame(meta={"k": TAGGED[tag]}, meta_tags={"k": tag})
    kind = "not_json" if tag == "json" or (tag, value) == ("string", "\ud800") else "meta_value"
    refuse_last(tmp_path, [good, AnyValue(k=value)], kind, "trajectory/meta/k", schema=declared(k=(tag,)))
    with unwritable(kind, "meta/k"):
        Frame(meta={"k": value}, meta_tags={"k": tag})


@pytest.mark.parametrize(
    ("tag", "fill", "kind"),
    [
        ("f64", None, "meta_fill"),
        ("string", None, "meta_fill"),
        ("f64", "NaN", "meta_value"),
        ("i32", 2**31, "meta_value"),
        ("i32", 1.0, "meta_value"),
        ("f64x3", [1.0], "meta_value"),
        ("json", math.nan, "not_json"),
    ],
)
def test_K10_fill_not_of_the_tag(tag, fill, kind):
    with unwritable(kind, "trajectory/meta/k"):
        SequenceSchema().declare_meta("k", tag, fill=fill)


@pytest.mark.parametrize(
    ("tag", "fill"),
    [
        ("f64", None),
        ("string", None),
        ("bool3", None),
        ("f64", "nan"),
        ("i32", 1.5),
        ("u64", "5"),
        ("f64x3", [1.0]),
    ],
)
def test_K10_stored_fill_not_of_the_tag(tmp_path, tag, fill):
    frame = Frame(meta={"k": TAGGED[tag]}, meta_tags={"k": tag})
    record = write(tmp_path, [frame])
    assert read(record)[0] == [frame]
    with changed(record, "trajectory") as found:
        found["attributes"]["sequence_schema"]["meta"]["k"]["fill"] = fill
    with unreadable("meta_fill", "trajectory/meta/k"):
        read(record)


@pytest.mark.parametrize("meta_dtype", [None, "f32", "float64", "i64", 1, "c128"])
def test_K11_meta_dtype(tmp_path, meta_dtype):
    record = write(tmp_path, [meta(k=1.0), meta(k=2.0)])
    set_attributes(record, "trajectory/meta/k", meta_dtype=meta_dtype)
    with unreadable("meta_dtype", "trajectory/meta/k"):
        read(record)


def test_K11_tag_outside_the_sixteen(tmp_path):
    with unwritable("meta_tag", "trajectory/meta/k"):
        SequenceSchema().declare_meta("k", "f32")
    record = write(tmp_path, [meta(k=1.0)])
    with changed(record, "trajectory") as found:
        found["attributes"]["sequence_schema"]["meta"]["k"]["dtype"] = "f32"
    with unreadable("meta_tag", "trajectory/meta/k"):
        read(record)


@pytest.mark.parametrize(
    "stored_as", [np.zeros(2, np.float32), np.zeros(2, np.int64), np.zeros((2, 3)), np.zeros((2, 1))], ids=str
)
def test_K11_stored_as_another_dtype_or_shape(tmp_path, stored_as):
    record = write(tmp_path, [meta(k=1.0), meta(k=2.0)])
    replace_array(record, "trajectory/meta/k", stored_as)
    with unreadable("schema_mismatch", "trajectory/meta/k"):
        read(record)


def test_K12_shorter_than_nstep(tmp_path):
    record = write(tmp_path, [meta(k=1.0), meta(k=2.0)])
    replace_array(record, "trajectory/meta/k", np.array([1.0]))
    with unreadable("array_short", "trajectory/meta/k"):
        read(record)


def test_K12_longer_than_nstep_is_cut(tmp_path):
    record = write(tmp_path, [meta(k=1.0), meta(k=2.0)])
    replace_array(record, "trajectory/meta/k", np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert values(record, "k") == [1.0, 2.0]
    assert read(record)[3]["k"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("tag", "fill", "spelled"),
    [
        ("f64", math.nan, "NaN"),
        ("f64", -math.inf, "-Infinity"),
        ("u64", 2**64 - 1, "18446744073709551615"),
        ("i64", -(2**53) - 1, "-9007199254740993"),
        ("i64", 2**53, 2**53),
        ("f64x3", [math.nan, 1.0, math.inf], ["NaN", 1.0, "Infinity"]),
        ("u64x3", [1, 2**60, 3], [1, str(2**60), 3]),
        ("string", "NaN", "NaN"),
        ("bool3", [True, False, True], [True, False, True]),
    ],
)
def test_K13_fills_are_in_the_array_and_in_the_pin(tmp_path, tag, fill, spelled):
    given = Frame(meta={"k": TAGGED[tag]}, meta_tags={"k": tag})
    schema = declared(k=(tag, fill))
    record = write(tmp_path, [given, Frame(), given], schema=schema)
    assert pin(record) == {"k": {"dtype": tag, "fill": spelled}}
    filled = Frame(meta={"k": fill}, meta_tags={"k": tag})
    assert read(record)[0] == [given, filled, given]
    as_stored = stored(record, "trajectory/meta/k")[1]
    assert np.array_equal(as_stored, fill, equal_nan=tag.startswith("f64"))
    with open_record(record) as found:
        assert found.trajectory.schema == schema


@pytest.mark.parametrize("key", ["pe", "ke", "etotal", "temp", "press", "volume"])
def test_K14_canonical_keys_are_f64(tmp_path, key):
    with unwritable("canonical_dtype", f"trajectory/meta/{key}"):
        SequenceSchema().declare_meta(key, "i64")
    record = write(tmp_path, [meta(**{key: 1.0})])
    with changed(record, "trajectory") as found:
        found["attributes"]["sequence_schema"]["meta"][key]["dtype"] = "f64x3"
    with unreadable("canonical_dtype", f"trajectory/meta/{key}"):
        read(record)


def test_K15_meta_array_the_pin_does_not_name(tmp_path):
    record = write(tmp_path, [meta(k=1.0, n=3), meta(k=2.0, n=4)])
    with changed(record, "trajectory") as found:
        del found["attributes"]["sequence_schema"]["meta"]["n"]
    assert values(record, "n") == [3, 4]
    with open_record(record) as found:
        assert found.trajectory[0].meta_tags == {"k": "f64", "n": "i64"}
        assert "n" not in found.trajectory.schema.meta


def test_K15_it_has_to_have_a_tag(tmp_path):
    record = write(tmp_path, [meta(k=1.0)])
    replace_array(record, "trajectory/meta/other", np.zeros(1))
    with unreadable("meta_dtype", "trajectory/meta/other"):
        read(record)


def test_K15_appending_is_refused_while_it_is_there(tmp_path):
    record = write(tmp_path, [meta(k=1.0, n=3)])
    with changed(record, "trajectory") as found:
        del found["attributes"]["sequence_schema"]["meta"]["n"]
    with unreadable("undeclared_meta", "trajectory/meta/n"):
        TrajectoryWriter.reopen(record)


def test_K16_integer_for_f64_only_where_exact(tmp_path, tmp_path_factory):
    schema = declared(k=("f64",))
    frames = [Frame(meta={"k": value}) for value in (1, 2**53, 2**60, -3)]
    record = write(tmp_path, frames, schema=schema)
    assert values(record, "k") == [1.0, 2.0**53, 2.0**60, -3.0]
    assert all(type(v) is float for v in values(record, "k"))
    for value in (2**53 + 1, 10**400):
        with unwritable("meta_value", "meta/k"):
            Frame(meta={"k": value}, meta_tags={"k": "f64"})
    refuse_last(
        tmp_path_factory.mktemp("other"),
        [AnyValue(k=2**53 + 1)],
        "meta_value",
        "trajectory/meta/k",
        schema=schema,
    )


def test_a_declared_key_without_its_array(tmp_path):
    """Decision 6: a pinned key whose array is missing is refused once there are frames."""
    record = write(tmp_path, [meta(k=1.0)])
    remove(record, "trajectory/meta/k")
    with unreadable("missing_array", "trajectory/meta/k"):
        read(record)


def test_a_group_below_meta_is_no_key(tmp_path):
    record = write(tmp_path, [meta(k=1.0)])
    make_group(record, "trajectory/meta/vendor")
    replace_array(record, "trajectory/meta/vendor/q", np.zeros(3))
    assert read(record)[0] == [meta(k=1.0)]
    assert arrays(record, "trajectory") == ["meta/k", "meta/vendor/q"]


@pytest.mark.parametrize("tag", TAGGED)
def test_values_survive_past_a_chunk_border(tmp_path, tag):
    """A dense array holds 1024 rows a chunk; reading crosses the border and comes back."""
    if tag == "json":
        pool = [{"n": i} for i in range(1030)]
    elif tag == "string":
        pool = [f"s{i}" for i in range(1030)]
    else:
        sample = np.asarray(TAGGED[tag])
        pool = [(sample ^ (i % 2 == 1)) if sample.dtype == bool else (sample * 0 + i) for i in range(1030)]
        pool = [np.array(v, sample.dtype) if sample.ndim else np.array(v, sample.dtype).item() for v in pool]
    frames = [Frame(meta={"k": v}, meta_tags={"k": tag}) for v in pool]
    record = write(tmp_path, frames)
    with open_record(record) as found:
        reader = found.trajectory
        for i in (1029, 0, 1024, 1023, 512):
            assert reader[i] == frames[i]
