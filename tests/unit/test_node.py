"""``zarr.json``: what is refused of a node, and what is left to zarr-python."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from molrec_core import FormatError
from molrec_core._codecs import Pipeline
from molrec_core._node import ArrayNode, GroupNode, Layout, array_document, group_document, parse_node, spell

KEY = "frame/atoms/x"


def array(**changes):
    """A document of ours with some members changed; None removes one."""
    document = array_document("f64", (10, 3), Layout(4, 0, Pipeline("f64", (3,)))) | changes
    return {name: value for name, value in document.items() if value is not None}


def parsed(document):
    return parse_node(json.dumps(document).encode(), KEY)


def test_an_array_of_ours():
    node = parsed(array(attributes={"precision": 1e-3}))
    assert isinstance(node, ArrayNode)
    assert (node.shape, node.rows, node.trailing, node.dtype) == ((10, 3), 10, (3,), "f64")
    assert node.layout == Layout(4, 0, Pipeline("f64", (3,)))
    assert node.attributes == {"precision": 1e-3}
    assert parse_node(spell(array(), KEY), KEY) == parsed(array())


def test_a_group():
    node = parse_node(group_document({"a": 1}, "", {"x_member": 2, "consolidated_metadata": {}}), "")
    assert isinstance(node, GroupNode)
    assert node.attributes == {"a": 1}
    assert node.document == {"x_member": 2, "zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "group",
        {},
        {"zarr_format": 2, "node_type": "group"},
        {"zarr_format": "3", "node_type": "group"},
        {"zarr_format": 3},
        {"zarr_format": 3, "node_type": "table"},
        {"zarr_format": 3, "node_type": "group", "attributes": []},
        {"zarr_format": 3, "node_type": "group", "attributes": None},
        array(attributes=3),
    ],
)
def test_not_a_node(document):
    with pytest.raises(FormatError) as caught:
        parsed(document)
    assert (caught.value.kind, caught.value.loc) == ("not_zarr", KEY)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"zarr_format": 3, "zarr_format": 3}'])
def test_not_json(data):
    with pytest.raises(FormatError) as caught:
        parse_node(data, KEY)
    assert (caught.value.kind, caught.value.loc) == ("bad_json", KEY)


def grid(*shape):
    return {"name": "regular", "configuration": {"chunk_shape": list(shape)}}


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": None},
        {"shape": "10"},
        {"shape": [10.0, 3]},
        {"shape": [-1, 3]},
        {"shape": [True, 3]},
        {"shape": [2**63, 3]},
        {"chunk_grid": grid(4)},
        {"chunk_grid": grid(4, 3, 1)},
        {"chunk_grid": grid(0, 3)},
        {"chunk_grid": {"name": "regular", "configuration": {}}},
    ],
)
def test_shapes_that_are_none(changes):
    with pytest.raises(FormatError) as caught:
        parsed(array(**changes))
    assert (caught.value.kind, caught.value.loc) == ("array_shape", KEY)


@pytest.mark.parametrize(
    ("dtype", "fill", "expected"),
    [
        ("float64", 0, 0.0),
        ("float64", "NaN", math.nan),
        ("float64", "-Infinity", -math.inf),
        ("float64", "0x7ff8000000000000", math.nan),
        ("float64", "0x3ff0000000000000", 1.0),
        ("int32", 7, 7),
        ("int32", 7.0, 7),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("bool", True, True),
        ("string", "x", "x"),
        ("complex64", [1.0, "NaN"], complex(1.0, math.nan)),
        ("complex128", [1, "0x3ff0000000000000"], 1 + 1j),
    ],
)
def test_fill_values(dtype, fill, expected):
    node = parsed(array(data_type=dtype, fill_value=fill))
    assert isinstance(node, ArrayNode)
    assert np.array_equal(
        np.array([node.fill]), np.array([expected]), equal_nan=not isinstance(expected, str)
    )


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("float64", "nan"),
        ("float64", None),
        ("float64", True),
        ("float64", [0.0, 0.0]),
        ("int8", 300),
        ("int32", 1.5),
        ("int32", "1"),
        ("int32", True),
        ("uint8", -1),
        ("bool", 1),
        ("string", 0),
        ("complex128", 1.0),
        ("complex128", [1.0]),
        ("complex128", [1.0, None]),
    ],
)
def test_fill_values_of_another_type(dtype, fill):
    document = array(data_type=dtype)
    document["fill_value"] = fill
    with pytest.raises(FormatError) as caught:
        parsed(document)
    assert (caught.value.kind, caught.value.loc) == ("fill_value", KEY)


def sharded(**changes):
    configuration = {
        "chunk_shape": [2, 3],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    } | changes
    return {"codecs": [{"name": "sharding_indexed", "configuration": configuration}]}


def test_shards():
    node = parsed(array(**sharded()))
    assert isinstance(node, ArrayNode)
    assert node.layout == Layout(2, 2, Pipeline("f64", (3,), crc=False), index_at_start=False)
    start = parsed(
        array(
            **sharded(
                index_location="start", index_codecs=[sharded()["codecs"][0]["configuration"]["codecs"][0]]
            )
        )
    )
    assert isinstance(start, ArrayNode)
    assert start.layout == Layout(
        2, 2, Pipeline("f64", (3,), crc=False), index_at_start=True, index_crc=False
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"x_member": 1},
        {"storage_transformers": [{"name": "x"}]},
        {"chunk_grid": {"name": "rectilinear"}},
        {"chunk_grid": grid(4, 2)},
        {"chunk_key_encoding": {"name": "v2"}},
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "-"}}},
        {"codecs": []},
        sharded(index_location="middle"),
        sharded(index_codecs=[]),
        sharded(index_codecs=[{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}]),
        sharded(chunk_shape=[3, 3]),
        sharded(chunk_shape=[2, 1]),
        sharded(chunk_shape=[2]),
        sharded(codecs=[{"name": "unheard_of"}]),
        {"codecs": [*sharded()["codecs"], {"name": "crc32c"}]},
    ],
)
def test_what_is_left_to_zarr_python(changes):
    node = parsed(array(**changes))
    assert isinstance(node, ArrayNode)
    assert node.layout is None


@pytest.mark.parametrize(
    "data_type", ["float32", "r16", None, 3, {"name": "numpy.datetime64", "configuration": {"unit": "s"}}]
)
def test_other_data_types_have_no_column_dtype(data_type):
    document = array()
    document["data_type"] = data_type
    node = parsed(document)
    assert isinstance(node, ArrayNode)
    assert (node.dtype, node.layout) == (None, None)


def test_a_data_type_may_be_spelled_as_an_object():
    node = parsed(array(data_type={"name": "float64", "configuration": {}}))
    assert isinstance(node, ArrayNode)
    assert node.dtype == "f64"
