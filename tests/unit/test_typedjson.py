"""Typed JSON (checklist group J), and strict JSON for documents."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_core import FormatError, SchemaError
from molrec_core._dtypes import TAGS
from molrec_core._typedjson import (
    check_document,
    coerce,
    decode,
    dumps,
    element_array,
    element_value,
    encode,
    infer,
    loads,
    same,
)

NAN, INF = math.nan, math.inf
LOC = "trajectory/meta/key"


@pytest.mark.parametrize(
    ("tag", "value", "spelled"),
    [
        ("f64", 1.5, 1.5),
        ("f64", 1.0, 1.0),
        ("f64", -0.0, -0.0),
        ("f64", NAN, "NaN"),
        ("f64", INF, "Infinity"),
        ("f64", -INF, "-Infinity"),
        ("i64", 2**53, 2**53),
        ("i64", 2**53 + 1, "9007199254740993"),
        ("i64", -(2**53) - 1, "-9007199254740993"),
        ("u64", 2**64 - 1, "18446744073709551615"),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("bool", True, True),
        ("string", "NaN", "NaN"),
        ("json", {"a": [1, None, 2.0]}, {"a": [1, None, 2.0]}),
    ],
)
def test_J01_to_J05_forms(tag, value, spelled):
    assert same(encode(coerce(value, tag, LOC), tag), spelled)
    assert same(decode(spelled, tag, LOC), value)
    assert same(decode(loads(dumps(spelled, LOC), LOC), tag, LOC), value)


@pytest.mark.parametrize("tag", [tag for tag in TAGS if TAGS[tag].width])
def test_J05_vectors(tag):
    width, element = TAGS[tag].width, TAGS[tag].element
    value = [True] * width if element == "bool" else list(range(width))
    found = coerce(value, tag, LOC)
    assert found.shape == (width,)
    assert same(decode(encode(found, tag), tag, LOC), found)
    assert coerce(found, tag, LOC) is not found
    for wrong in (value[:-1], [*value, value[0]], value[0], [value], None, "x" * width):
        with pytest.raises(SchemaError) as written:
            coerce(wrong, tag, LOC)
        with pytest.raises(FormatError) as stored:
            decode(wrong, tag, LOC)
        assert (written.value.kind, stored.value.kind) == ("meta_value", "meta_value")


@pytest.mark.parametrize(
    ("tag", "form"),
    [
        ("f64", None),
        ("f64", "nan"),
        ("f64", "-NaN"),
        ("f64", "1"),
        ("f64", False),
        ("i32", 3.0),
        ("i32", 2**31),
        ("i32", -(2**31) - 1),
        ("i32", True),
        ("i64", "1"),
        ("i64", "9007199254740992"),
        ("i64", "0x20000000000001"),
        ("i64", "9_007_199_254_740_993"),
        ("i64", ""),
        ("i64", "-"),
        ("i64", "--9007199254740993"),
        ("i64", 2**63),
        ("u64", -1),
        ("bool", 0),
        ("bool", None),
        ("string", 1),
        ("string", None),
        ("string", "\ud800"),
    ],
)
def test_J06_other_forms_are_refused(tag, form):
    with pytest.raises(FormatError) as caught:
        decode(form, tag, LOC)
    assert (caught.value.kind, caught.value.loc) == ("meta_value", LOC)


def test_J04_J07_numbers_that_are_taken():
    assert same(decode(1, "f64", LOC), 1.0)
    assert decode(2**53 + 1, "u64", LOC) == 2**53 + 1
    with pytest.raises(FormatError):
        decode(10**400, "f64", LOC)


@pytest.mark.parametrize(
    "value", [NAN, INF, [NAN], {"a": {"b": -INF}}, {1: 2}, (1, {2}), b"x", np.float64(1), 1j, "\udc00"]
)
def test_J08_documents_are_plain_finite_json(value):
    if isinstance(value, np.floating):
        check_document(value, LOC)  # a numpy double is a float of Python
        return
    with pytest.raises(SchemaError) as caught:
        dumps(value, LOC)
    assert (caught.value.kind, caught.value.loc) == ("not_json", LOC)


def test_J08_depth_is_bounded():
    value = []
    for _ in range(199):
        value = [value]
    check_document(value, LOC)
    with pytest.raises(SchemaError, match="deeper than 200"):
        check_document([value], LOC)
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(FormatError) as caught:
        loads(deep, LOC)
    assert caught.value.kind == "bad_json"


def test_J08_serialisation_is_compact():
    document = {"b": [1, 2.0, None, True], "a": {"h\u00e4m": "\u2028"}}
    text = dumps(document, LOC)
    assert text == '{"b":[1,2.0,null,true],"a":{"h\u00e4m":"\u2028"}}'
    assert json.loads(dumps(document, LOC, indent=2)) == document


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b"\xff\xfe",
        b"{} {}",
        b"{'a': 1}",
        b"[1,]",
        b"\xef\xbb\xbf{}",
        b'["\t"]',
    ],
)
def test_strict_parsing(data):
    with pytest.raises(FormatError) as caught:
        loads(data, LOC)
    assert (caught.value.kind, caught.value.loc) == ("bad_json", LOC)


def test_parsing_keeps_kinds_of_numbers():
    assert same(loads(b'{"a": 1.0, "b": 1, "c": 18446744073709551615, "d": -0.0}', LOC), {
        "a": 1.0, "b": 1, "c": 2**64 - 1, "d": -0.0,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (NAN, NAN, True),
        (0.0, -0.0, False),
        (1, True, False),
        (1, 1.0, False),
        ("1", 1, False),
        (None, None, True),
        (None, False, False),
        ([1, [2]], [1, [2]], True),
        ([1, 2], [1], False),
        ([1], (1,), False),
        ({"a": NAN}, {"a": NAN}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"b": 1}, False),
        (np.array([1.0, NAN]), np.array([1.0, NAN]), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.array([1]), np.array([1.0]), False),
        (np.array([1]), [1], False),
        (np.array([1, 2]), np.array([[1, 2]]), False),
    ],
)
def test_J09_equality_is_strict(left, right, expected):
    assert same(left, right) is expected
    assert same(right, left) is expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_document_comes_back(document):
    assert same(loads(dumps(document, LOC), LOC), document)
    assert same(loads(dumps(document, LOC, indent=2).encode(), LOC), document)


@given(st.integers(-(2**70), 2**70))
def test_any_integer_comes_back_under_its_tag(value):
    tag = infer(value)
    if tag == "f64":
        assert not -(2**63) <= value < 2**64
    else:
        assert decode(encode(coerce(value, tag, LOC), tag), tag, LOC) == value


@pytest.mark.parametrize("tag", TAGS)
def test_columns_of_a_tag(tag):
    spec = TAGS[tag]
    one = {"bool": True, "string": "x", "f64": 0.5}.get(spec.element, 1)
    value = {"a": [1]} if tag == "json" else [one] * spec.width if spec.width else one
    coerced = coerce(value, tag, LOC)
    array = element_array([coerced, coerced], tag)
    assert array.shape == (2, *spec.trailing)
    assert same(element_value(array[1], tag, LOC), coerced)
    assert element_array([], tag).shape == (0, *spec.trailing)
