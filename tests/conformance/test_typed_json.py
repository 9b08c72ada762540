"""Checklist group J: typed JSON values."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.records import attributes, refused, set_attributes, unreadable
from molrec_core import Block, FormatError, Frame, SchemaError, open_record, write_mrec
from molrec_core._node import parse_node
from molrec_core._typedjson import coerce, decode, dumps, encode, infer, loads, same

INTEGERS = {
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
}
VECTORS = {
    "bool3": [True, False, True],
    "i32x3": [-1, 0, 1],
    "i64x3": [-(2**40), 0, 2**40],
    "u32x3": [1, 2, 3],
    "u64x3": [0, 2**63, 2**64 - 1],
    "f64x3": [0.0, 0.5, 1.0],
    "f64x6": [1.0, 2.0, 3.0, 0.1, 0.2, 0.3],
    "f64x9": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
}


def reads(value, tag):
    return decode(json.loads(dumps(value, "here")), tag, "here")


def refuse(value, tag):
    with refused(FormatError, "meta_value", "here"):
        decode(value, tag, "here")


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (1.5, 1.5),
        (-0.0, -0.0),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (1.0, 1.0),
    ],
)
def test_J01_f64(value, spelled):
    assert same(encode(value, "f64"), spelled)
    assert same(reads(encode(value, "f64"), "f64"), value)


@given(st.floats())
def test_J01_every_f64_comes_back(value):
    assert same(reads(encode(value, "f64"), "f64"), value)


@pytest.mark.parametrize(
    ("spelled", "value"),
    [([1.0, 2.0], 1 + 2j), (["NaN", "-Infinity"], complex(math.nan, -math.inf)), ([0.0, 0.0], 0j)],
)
@pytest.mark.parametrize("data_type", ["complex64", "complex128"])
def test_J02_complex_is_a_pair(data_type, spelled, value):
    """No meta tag is complex; a complex value is spelled where an array states its fill value."""
    fill = parse_node(array_of(data_type, spelled), "here").fill
    assert fill.dtype == data_type
    assert np.array_equal(fill, np.array(value, data_type), equal_nan=True)


def array_of(data_type, fill):
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [1],
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        }
    ).encode()


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(2**53, 2**53), (2**53 + 1, str(2**53 + 1)), (2**64 - 1, "18446744073709551615"), (7, 7)],
)
def test_J03_wide_integers_are_strings(value, spelled):
    assert same(encode(value, "u64"), spelled)
    assert reads(spelled, "u64") == value
    if value < 2**63:
        negative = f"-{spelled}" if isinstance(spelled, str) else -spelled
        assert same(encode(-value, "i64"), negative)
        assert reads(negative, "i64") == -value


@given(
    st.sampled_from(sorted(INTEGERS)).flatmap(
        lambda tag: st.tuples(st.just(tag), st.integers(*INTEGERS[tag]))
    )
)
def test_J03_every_integer_comes_back(pair):
    tag, value = pair
    assert same(reads(encode(value, tag), tag), value)


def test_J04_an_exact_wide_number_is_read_too(tmp_path):
    assert reads(2**64 - 1, "u64") == 2**64 - 1
    assert reads(-(2**63), "i64") == -(2**63)
    record = tmp_path / "run.mrec"
    write_mrec(
        record, frame=Frame({"atoms": Block({"x": [0.0]})}, meta={"n": 2**64 - 1}, meta_tags={"n": "u64"})
    )
    assert attributes(record, "frame")["n"] == "18446744073709551615"
    set_attributes(record, "frame", n=2**64 - 2)
    assert open_record(record).frame.meta["n"] == 2**64 - 2


@pytest.mark.parametrize("tag", VECTORS)
def test_J05_vectors(tag):
    values = VECTORS[tag]
    spelled = encode(coerce(values, tag, "here"), tag)
    assert len(spelled) == len(values)
    back = reads(spelled, tag)
    assert back.dtype == coerce(values, tag, "here").dtype
    assert back.tolist() == values


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (True, "bool"),
        (False, "bool"),
        ("NaN", "string"),
        ("", "string"),
        ({"a": [1, None, 1.5, "x"]}, "json"),
        (None, "json"),
    ],
)
def test_J05_themselves(value, tag):
    assert same(encode(value, tag), value)
    assert same(reads(value, tag), value)


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (None, "f64"), (None, "i32"), (None, "bool"), (None, "string"), (None, "f64x3"),
        ("nan", "f64"), ("1.5", "f64"), ("inf", "f64"), ("", "f64"),
        (True, "f64"), (True, "i64"), (1, "bool"), (0.0, "bool"), ("true", "bool"),
        (3.0, "i32"), (1.5, "i64"), (2**31, "i32"), (-1, "u32"), (2**32, "u32"), (2**64, "u64"), (2**63, "i64"),
        ("5", "i64"), (str(2**53), "u64"), ("0" + str(2**60), "u64"), (f"+{2**60}", "u64"), (str(2**64), "u64"), ("1e300", "u64"),
        (3, "string"), ([1.0, 2.0], "f64x3"), ([1.0, 2.0, 3.0, 4.0], "f64x3"), (1.0, "f64x3"),
        ([1, 2, 3.0], "i32x3"), ([True, False, 1], "bool3"), ([[1.0], 2.0, 3.0], "f64x3"), ("abc", "f64x3"),
    ],
)  # fmt: skip
def test_J06_any_other_form_is_refused(value, tag):
    refuse(value, tag)


@pytest.mark.parametrize("fill", [[0.0], [0.0, 0.0, 0.0], 0.0, [True, 0.0], ["nan", 0.0], None])
def test_J06_a_complex_of_another_form(fill):
    with unreadable("fill_value", "here"):
        parse_node(array_of("complex128", fill), "here")


def test_J07_an_integer_is_taken_for_a_number():
    assert same(reads(1, "f64"), 1.0)
    assert same(reads(2**60 + 1, "f64"), float(2**60))
    refuse(10**400, "f64")


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, {"a": [math.nan]}, {1: 2}, (object(),), {"k": b"x"}, "\ud800"]
)
def test_J08_documents_are_plain_and_finite(value):
    with refused(SchemaError, "not_json", "here"):
        dumps(value, "here")


def test_J08_nesting_has_an_end():
    value = []
    for _ in range(250):
        value = [value]
    with refused(SchemaError, "not_json", "here"):
        dumps(value, "here")


def test_J08_compact_and_without_tokens(tmp_path):
    assert dumps({"a": [1, 2.0, None, "ü"]}, "here") == '{"a":[1,2.0,null,"ü"]}'
    record = tmp_path / "run.mrec"
    write_mrec(record, frame=Frame({"atoms": Block({"x": [0.0]})}, meta={"e": math.nan}))
    assert "NaN" in (record / "frame/zarr.json").read_text(encoding="utf-8")
    assert loads((record / "frame/zarr.json").read_bytes(), "here")["attributes"]["e"] == "NaN"


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", '{"a":1,"a":2}', "{", b"\xff", "[" * 100000])
def test_J08_strict_on_reading(text):
    with unreadable("bad_json", "here"):
        loads(text, "here")


def test_J09_equality_is_type_strict():
    assert same(math.nan, math.nan)
    assert same({"a": [math.nan, 1]}, {"a": [math.nan, 1]})
    for left, right in (
        (True, 1),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        (None, False),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1.0}),
    ):
        assert not same(left, right)
        assert same(left, left)
    assert not same(np.array([1]), np.array([1.0]))
    assert same(np.array([math.nan]), np.array([math.nan]))


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (True, "bool"),
        (1, "i64"),
        (1.0, "f64"),
        (2**63, "u64"),
        ("a", "string"),
        ([1.0], "json"),
        (None, "json"),
    ],
)
def test_J09_a_declared_fill_keeps_its_type(value, tag):
    """What a declaration is compared by tells true from 1 from 1.0, as the inferred tags do."""
    assert infer(value) == tag
    others = [v for v in (True, 1, 1.0, "1") if not same(v, value)]
    assert all(not same({"fill": value}, {"fill": other}) for other in others)
