"""Checklist group M: the typed meta document of a frame-shaped group."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.records import (
    attributes,
    changed,
    document,
    set_attributes,
    unreadable,
    unwritable,
    write_record,
)
from molrec_core import Frame, open_record, write_mrec
from molrec_core._typedjson import same

NAN, INF = math.nan, math.inf


def array(dtype, *values):
    return np.array(values, dtype)


#: tag -> (value in memory, its typed JSON)
EVERY_TAG = {
    "bool": (True, True),
    "i32": (-7, -7),
    "i64": (-(2**40), -(2**40)),
    "u32": (7, 7),
    "u64": (2**64 - 1, "18446744073709551615"),
    "f64": (-1.25, -1.25),
    "string": ("nvt", "nvt"),
    "json": ({"restarts": [1, 2]}, {"restarts": [1, 2]}),
    "bool3": (array(bool, True, False, True), [True, False, True]),
    "i32x3": (array(np.int32, -1, 0, 1), [-1, 0, 1]),
    "i64x3": (array(np.int64, -(2**40), 0, 2**40), [-(2**40), 0, 2**40]),
    "u32x3": (array(np.uint32, 1, 2, 3), [1, 2, 3]),
    "u64x3": (array(np.uint64, 0, 2**63, 2**64 - 1), [0, "9223372036854775808", "18446744073709551615"]),
    "f64x3": (array(float, 0.0, 0.5, 1.0), [0.0, 0.5, 1.0]),
    "f64x6": (array(float, 1, 2, 3, 0.1, 0.2, 0.3), [1.0, 2.0, 3.0, 0.1, 0.2, 0.3]),
    "f64x9": (np.eye(3).ravel(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]),
}


def typed(tag, value):
    return Frame(meta={"key": value}, meta_tags={"key": tag})


def kept(tmp_path, frame):
    record = write_record(tmp_path, frame=frame)
    return record, open_record(record).frame


def test_M01_typed_meta_every_tag(tmp_path):
    meta = {f"k_{tag}": value for tag, (value, _) in EVERY_TAG.items()}
    tags = {f"k_{tag}": tag for tag in EVERY_TAG}
    record, found = kept(tmp_path, Frame(meta=meta, meta_tags=tags))
    assert found.meta_tags == tags
    for key, value in meta.items():
        assert same(found.meta[key], value)
        assert not isinstance(value, np.ndarray) or found.meta[key].dtype == value.dtype
    on_disk = attributes(record, "frame")
    for tag, (_, spelled) in EVERY_TAG.items():
        assert same(on_disk[f"k_{tag}"], spelled)


def test_M02_tags_of_every_key(tmp_path):
    record, _ = kept(tmp_path, Frame(meta={"title": "t", "n": 3, "ratio": 0.5}))
    assert attributes(record, "frame")["_meta_types"] == {"title": "string", "n": "i64", "ratio": "f64"}


def test_M02_no_tags_of_an_empty_document(tmp_path):
    record, found = kept(tmp_path, Frame({"atoms": {"x": [0.0]}}))
    assert "attributes" not in document(record, "frame")
    assert (found.meta, found.meta_tags) == ({}, {})


def test_M03_non_finite(tmp_path):
    meta = {"a": NAN, "b": INF, "c": -INF, "v": array(float, NAN, 0.0, 1.0)}
    record, found = kept(tmp_path, Frame(meta=meta))
    on_disk = attributes(record, "frame")
    assert [on_disk[key] for key in "abcv"] == ["NaN", "Infinity", "-Infinity", ["NaN", 0.0, 1.0]]
    assert found.meta_tags == {"a": "f64", "b": "f64", "c": "f64", "v": "f64x3"}
    assert all(same(found.meta[key], meta[key]) for key in meta)


def test_M04_wide_integers(tmp_path):
    meta = {"a": 2**64 - 1, "b": -(2**63), "c": 2**53 + 1, "d": 2**53}
    tags = {"a": "u64", "b": "i64", "c": "u64", "d": "u64"}
    record, found = kept(tmp_path, Frame(meta=meta, meta_tags=tags))
    on_disk = attributes(record, "frame")
    assert [on_disk[key] for key in "abcd"] == [
        "18446744073709551615",
        "-9223372036854775808",
        "9007199254740993",
        9007199254740992,
    ]
    assert found.meta == meta
    assert found.meta_tags == tags


def test_M05_integral_float(tmp_path):
    record, found = kept(tmp_path, Frame(meta={"f": 1.0, "i": 3}, meta_tags={"f": "f64", "i": "i32"}))
    assert same(found.meta, {"f": 1.0, "i": 3})
    assert same(attributes(record, "frame")["f"], 1.0)
    assert found.meta_tags == {"f": "f64", "i": "i32"}


def test_M06_untyped_meta_infers(tmp_path):
    record = write_record(tmp_path, frame=Frame(meta={"seen": 1}))
    untyped = {"n": 3, "t": 2.0, "v": [1.0, 2.0, 3.0], "name": "a", "ok": True}
    with changed(record, "frame") as node:
        node["attributes"] = untyped
    found = open_record(record).frame
    assert found.meta_tags == {"n": "i64", "t": "f64", "v": "json", "name": "string", "ok": "bool"}
    assert same(found.meta, untyped)


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (True, "bool"),
        (-(2**63), "i64"),
        (2**63 - 1, "i64"),
        (2**63, "u64"),
        (2**64 - 1, "u64"),
        (2**64, "f64"),
        (-(2**63) - 1024 * 2, "f64"),
        (1.5, "f64"),
        (-0.0, "f64"),
        ("NaN", "string"),
        ("", "string"),
        ([], "json"),
        ({}, "json"),
        (None, "json"),
    ],
)
def test_M07_inference(tmp_path, value, tag):
    record = write_record(tmp_path, frame=Frame(meta={"seen": 1}))
    with changed(record, "frame") as node:
        node["attributes"] = {"key": value}
    found = open_record(record).frame
    assert found.meta_tags == {"key": tag}
    assert same(found.meta["key"], float(value) if tag == "f64" else value)
    assert Frame(meta={"key": value}).meta_tags == {"key": tag}


def test_M08_stale_tag_is_ignored(tmp_path):
    record = write_record(tmp_path, frame=Frame(meta={"n": 3}))
    set_attributes(record, "frame", _meta_types={"n": "i64", "gone": "f64x9"})
    found = open_record(record).frame
    assert (found.meta, found.meta_tags) == ({"n": 3}, {"n": "i64"})


def test_M09_tag_mismatch(tmp_path):
    record = write_record(tmp_path, frame=typed("i32", 1))
    set_attributes(record, "frame", key=1.5)
    with unreadable("meta_value", "frame/key"):
        _ = open_record(record).frame
    with unwritable("meta_value", "meta/key"):
        typed("i32", 1.5)


def test_M10_out_of_range(tmp_path):
    record = write_record(tmp_path, frame=typed("i32", 1))
    set_attributes(record, "frame", key=2**40)
    with unreadable("meta_value", "frame/key"):
        _ = open_record(record).frame
    with unwritable("meta_value", "meta/key"):
        typed("i32", 2**40)


def test_M11_reserved_key(tmp_path):
    for section in ("frame", "system"):
        with unwritable("reserved_name", section):
            write_mrec(tmp_path / "run.mrec", **{section: Frame(meta={"_meta_types": {}})})


@pytest.mark.parametrize(
    "value", [{"x": NAN}, [INF], {"x": {"y": [-INF]}}, {1: 2}, {"x": {1, 2}}, {"x": b"a"}, ["\ud800"]]
)
def test_M12_json_that_is_not_finite_json(value):
    with unwritable("not_json", "meta/key"):
        typed("json", value)


def test_M12_json_nested_without_end():
    value = []
    for _ in range(300):
        value = [value]
    with unwritable("not_json", "meta/key"):
        typed("json", value)


@pytest.mark.parametrize("types", [[], "i64", 1, True])
def test_M13_meta_types_is_an_object(tmp_path, types):
    record = write_record(tmp_path, frame=Frame(meta={"n": 3}))
    set_attributes(record, "frame", _meta_types=types)
    with unreadable("meta_types", "frame"):
        _ = open_record(record).frame


@pytest.mark.parametrize("tag", ["f32", "c128", "u8", "", 1, None, ["i64"]])
def test_M13_tag_outside_the_sixteen(tmp_path, tag):
    record = write_record(tmp_path, frame=Frame(meta={"n": 3}))
    set_attributes(record, "frame", _meta_types={"n": tag})
    with unreadable("meta_tag", "frame/n"):
        _ = open_record(record).frame
    set_attributes(record, "frame", _meta_types={"n": "i64", "stale": tag})
    assert open_record(record).frame.meta == {"n": 3}
    with unwritable("meta_tag", "meta/key"):
        Frame(meta={"key": 3}, meta_tags={"key": str(tag)})


OTHER_FORMS = [
    ("f64", None),
    ("f64", "nan"),
    ("f64", "1.0"),
    ("f64", True),
    ("f64", [1.0]),
    ("bool", 1),
    ("bool", "true"),
    ("string", 1),
    ("string", None),
    ("i32", True),
    ("i32", 3.0),
    ("i32", 2**31),
    ("i64", None),
    ("i64", "5"),
    ("i64", "1e20"),
    ("i64", "9223372036854775808"),
    ("u32", -1),
    ("u64", "-9007199254740993"),
    ("u64", "09007199254740993"),
    ("u64", "+9007199254740993"),
    ("u64", "99999999999999999999999999"),
    ("u64", "18446744073709551616"),
    ("u64", "٩٠٠٧١٩٩٢٥٤٧٤٠٩٩٣"),
    ("f64x3", [0.0, 1.0]),
    ("f64x3", [0.0, 1.0, 2.0, 3.0]),
    ("f64x3", [0.0, 1.0, None]),
    ("f64x3", 1.0),
    ("bool3", [1, 0, 1]),
    ("i32x3", [1, 2, 2**31]),
    ("u64x3", [0, 0, "1"]),
    ("f64x9", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
]


@pytest.mark.parametrize(("tag", "form"), OTHER_FORMS)
def test_M14_only_the_tags_own_form(tmp_path, tag, form):
    value, spelled = EVERY_TAG[tag]
    record = write_record(tmp_path, frame=typed(tag, value))
    assert attributes(record, "frame")["key"] == spelled
    with changed(record, "frame") as node:
        node["attributes"]["key"] = form
    with unreadable("meta_value", "frame/key"):
        _ = open_record(record).frame


def test_M14_every_problem_is_named(tmp_path):
    record = write_record(tmp_path, frame=Frame(meta={"a": 1, "b": 2}))
    set_attributes(record, "frame", a="x", b=1.5)
    with pytest.raises(ValueError) as caught:
        _ = open_record(record).frame
    assert {(p.kind, p.loc) for p in caught.value.problems} == {
        ("meta_value", "frame/a"),
        ("meta_value", "frame/b"),
    }


@pytest.mark.parametrize(
    ("tag", "form", "value"),
    [
        ("f64", 1, 1.0),
        ("f64", 2**53 + 1, 2.0**53),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("i64", -(2**63), -(2**63)),
        ("f64x3", [1, 2.5, "Infinity"], array(float, 1.0, 2.5, INF)),
    ],
)
def test_M14_exact_numbers_are_taken(tmp_path, tag, form, value):
    record = write_record(tmp_path, frame=typed(tag, EVERY_TAG[tag][0]))
    set_attributes(record, "frame", key=form)
    assert same(open_record(record).frame.meta["key"], value)


def test_M14_a_number_beyond_binary64(tmp_path):
    record = write_record(tmp_path, frame=typed("f64", 1.0))
    set_attributes(record, "frame", key=10**400)
    with unreadable("meta_value", "frame/key"):
        _ = open_record(record).frame


def test_M15_tag_without_its_key():
    with unwritable("meta_tag", "meta/gone"):
        Frame(meta={"n": 3}, meta_tags={"gone": "i64"})
    with unwritable("meta_tag", "meta/gone"):
        Frame(meta_tags={"gone": "i64"})


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("i32", True),
        ("i32", 1.0),
        ("i32", np.float64(1)),
        ("u32", -1),
        ("u64", 2**64),
        ("bool", 1),
        ("string", 1),
        ("f64", "NaN"),
        ("f64", True),
        ("f64", 2**53 + 1),
        ("f64", 10**400),
        ("f64", None),
        ("f64x3", [1.0, 2.0]),
        ("f64x3", np.zeros((1, 3))),
        ("f64x3", 1.0),
        ("f64x3", ["a", "b", "c"]),
        ("bool3", [1, 0, 1]),
        ("i32x3", np.array([0, 0, 2**31])),
    ],
)
def test_M15_value_that_is_not_of_its_tag(tag, value):
    with unwritable("meta_value", "meta/key"):
        typed(tag, value)


@pytest.mark.parametrize("value", ["\ud800", "a\ud800"])
def test_M15_text_that_is_not_utf8(value):
    with unwritable("not_json", "meta/key"):
        typed("string", value)


@pytest.mark.parametrize(
    "value",
    [np.float32(1), np.uint8(1), np.zeros(4), np.zeros((3, 3)), np.zeros(3, np.complex128), np.zeros(0)],
)
def test_M15_numpy_value_that_no_tag_holds(value):
    with unwritable("meta_value", "meta/key"):
        Frame(meta={"key": value})


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (np.int32(3), "i32"),
        (np.uint64(3), "u64"),
        (np.bool_(True), "bool"),
        (np.float64(0.5), "f64"),
        (np.str_("a"), "string"),
        (np.array(0.5), "f64"),
        (np.zeros(6), "f64x6"),
        (np.zeros(3, np.int32), "i32x3"),
        (np.zeros(3, ">i4"), "i32x3"),
    ],
)
def test_M15_numpy_dtype_decides_the_tag(tmp_path, value, tag):
    _, found = kept(tmp_path, Frame(meta={"key": value}))
    assert found.meta_tags == {"key": tag}
    assert np.array_equal(found.meta["key"], value)


def test_M16_system_typed_meta(tmp_path):
    meta = {"charge": -1, "dipole": array(float, 0.0, 0.5, NAN), "energy": NAN, "name": "ion"}
    tags = {"charge": "i32", "dipole": "f64x3", "energy": "f64", "name": "string"}
    record = write_record(tmp_path, system=Frame(meta=meta, meta_tags=tags))
    found = open_record(record).system
    assert found.meta_tags == tags
    assert all(same(found.meta[key], meta[key]) for key in meta)
    assert attributes(record, "system")["_meta_types"] == tags


def test_M17_tags_of_a_trajectory_come_from_its_declaration(tmp_path):
    frames = [typed("i32", i) for i in range(2)]
    record = write_record(tmp_path, trajectory=frames)
    with open_record(record) as found:
        assert [frame.meta_tags for frame in found.trajectory] == [{"key": "i32"}] * 2
        assert [frame.meta for frame in found.trajectory] == [{"key": 0}, {"key": 1}]
    assert "_meta_types" not in attributes(record, "trajectory")
    assert attributes(record, "trajectory/meta") == {}


def test_M17_documents_are_plain_json(tmp_path):
    method = {"type": "classical", "description": "NVT", "engine": {"name": "molrs"}}
    record = write_record(tmp_path, frame=Frame(), meta={"n": 1}, status={"state": "running"}, method=method)
    for section in ("meta", "status", "method"):
        assert "_meta_types" not in attributes(record, section)
    assert attributes(record, "meta") == {"n": 1, "molrec_version": 1}
    assert attributes(record, "status") == {"state": "running"}
    assert attributes(record, "method") == method
