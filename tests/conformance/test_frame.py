"""Checklist group F: frame-shaped groups."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.records import (
    attributes,
    document,
    make_group,
    nodes,
    remove,
    replace_array,
    set_attributes,
    unreadable,
    unwritable,
    write_record,
)
from molrec_core import (
    Block,
    Box,
    Frame,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    write_mrec,
)

COORDINATES = {"x": [0.0, 1.5, 3.0], "y": [0.0, 0.0, 0.0], "z": [0.0, -1.5, 0.0]}
BAD_NAMES = ["", ".", "..", "a/b", "../../etc", "a\0b", "__block", "\ud800", "zarr.json"]


def u64(*values):
    return np.array(values, np.uint64)


def rewritten(tmp_path, frame):
    """Write a frame, read it, write what was read, and read that."""
    first = open_record(write_record(tmp_path, frame=frame)).frame
    again = open_record(write_record(tmp_path, name="again.mrec", frame=first)).frame
    assert again == first
    return first


def test_F01_empty_frame(tmp_path):
    record = write_record(tmp_path, frame=Frame())
    frame = open_record(record).frame
    assert frame == Frame()
    assert (len(frame), frame.box, frame.meta) == (0, None, {})
    assert nodes(record, "frame") == []


def test_F02_coordinates(tmp_path):
    frame = rewritten(tmp_path, Frame({"atoms": COORDINATES}))
    assert frame["atoms"].count == 3
    assert list(frame["atoms"]) == ["x", "y", "z"]
    for name, values in COORDINATES.items():
        assert frame["atoms"][name].dtype == np.float64
        assert frame["atoms"][name].tolist() == values


def test_F03_block_without_columns(tmp_path):
    frame = Frame({"atoms": Block(count=5)})
    assert rewritten(tmp_path, frame) == frame
    assert attributes(tmp_path / "run.mrec", "frame/atoms") == {"count": 5}


def test_F04_independent_block_counts(tmp_path):
    frame = Frame({"atoms": COORDINATES, "bonds": {"atomi": u64(0, 1), "atomj": u64(1, 2)}})
    found = rewritten(tmp_path, frame)
    assert found == frame
    assert (found["atoms"].count, found["bonds"].count) == (3, 2)


def test_F05_trailing_axis(tmp_path):
    frame = Frame({"atoms": {"velocity": np.arange(6.0).reshape(2, 3)}})
    found = rewritten(tmp_path, frame)
    assert found["atoms"]["velocity"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert found["atoms"].count == 2


def density(*shape):
    return Frame({"density": Block({"electron_density": np.full(64, 0.25)}, structural_shape=shape)})


def test_F06_structural_shape(tmp_path):
    found = rewritten(tmp_path, density(4, 4, 4))
    assert found["density"].structural_shape == (4, 4, 4)
    assert (found["density"]["electron_density"] == 0.25).all()
    expected = {"count": 64, "structural_shape": [4, 4, 4]}
    assert attributes(tmp_path / "run.mrec", "frame/density") == expected


def test_F07_structural_shape_product(tmp_path):
    record = write_record(tmp_path, frame=density(4, 4, 4))
    set_attributes(record, "frame/density", structural_shape=[4, 4, 5])
    with unreadable("structural_shape", "frame/density"):
        _ = open_record(record).frame
    with unwritable("structural_shape", ""):
        density(4, 4, 5)


@pytest.mark.parametrize("shape", [64, "64", [4, 4, 4.0], [-8, -8], [True, 64], {"x": 64}])
def test_F07_structural_shape_is_a_list_of_integers(tmp_path, shape):
    record = write_record(tmp_path, frame=density(4, 4, 4))
    set_attributes(record, "frame/density", structural_shape=shape)
    with unreadable("structural_shape", "frame/density"):
        _ = open_record(record).frame


@pytest.mark.parametrize("shape", [(4.0, 16.0), (-8, -8), (True, 64), "abc"])
def test_F07_structural_shape_in_memory(shape):
    with unwritable("structural_shape", ""):
        Block({"rho": np.zeros(64)}, structural_shape=shape)


def test_F08_block_named_meta(tmp_path):
    frame = Frame({"meta": {"whatever": np.array([2], np.int64)}}, box=Box(np.eye(3)), meta={"title": "t"})
    found = rewritten(tmp_path, frame)
    assert found == frame
    assert found["meta"]["whatever"].tolist() == [2]
    assert found.box == Box(np.eye(3))


@pytest.mark.parametrize("box", [None, Box(np.eye(3))])
def test_F09_block_named_box(tmp_path, box):
    write_record(tmp_path, frame=Frame({"boxes": {"x": [1.0]}}, box=box))
    with unwritable("reserved_name", "frame/box"):
        write_mrec(tmp_path / "other.mrec", frame=Frame({"box": {"x": [1.0]}}, box=box))
    assert not (tmp_path / "other.mrec").exists()


def test_F10_column_named_validity(tmp_path):
    write_record(tmp_path, frame=Frame({"atoms": {"validity": [True]}}))
    with unwritable("reserved_name", "frame/atoms/_validity"):
        write_mrec(tmp_path / "other.mrec", frame=Frame({"atoms": {"_validity": [True]}}))


def test_F11_nothing_else_is_reserved(tmp_path):
    columns = {
        name: np.array([1, 2], np.int64) for name in ("step", "offset", "step_index", "time", "meta", "box")
    }
    frame = Frame({"step": columns, "time": columns, "atoms": columns, "values": columns})
    assert rewritten(tmp_path, frame) == frame


def test_F12_unknown_names_preserved(tmp_path):
    frame = Frame(
        {
            "atoms": {"x": [0.0, 1.0], "x_vendor_local": np.array([9, 9], np.int64)},
            "nobody_knows_this_block": {"whatever": np.array([42], np.int64)},
        }
    )
    found = rewritten(tmp_path, frame)
    assert found["atoms"]["x_vendor_local"].tolist() == [9, 9]
    assert found["nobody_knows_this_block"]["whatever"].tolist() == [42]
    assert found == frame


def test_F13_block_attributes(tmp_path):
    flagged = Block(
        {"x": [0.0]}, attributes={"x_vendor_flag": True, "x_null": None, "x_deep": {"a": [1, 2.0]}}
    )
    found = rewritten(tmp_path, Frame({"flagged": flagged, "plain": {"x": [0.0]}}))
    assert found["flagged"].attributes == {"x_vendor_flag": True, "x_null": None, "x_deep": {"a": [1, 2.0]}}
    assert found["plain"].attributes == {}
    assert attributes(tmp_path / "run.mrec", "frame/flagged") == {"count": 1} | flagged.attributes
    assert attributes(tmp_path / "run.mrec", "frame/plain") == {"count": 1}


@pytest.mark.parametrize("name", ["count", "structural_shape", "targets"])
def test_F13_block_attributes_of_the_layout(tmp_path, name):
    block = Block({"x": [0.0]}, attributes={name: 1})
    with unwritable("reserved_name", "frame/atoms"):
        write_mrec(tmp_path / "run.mrec", frame=Frame({"atoms": block}))


def test_F14_row_count_mismatch(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.0, 1.0]}}))
    set_attributes(record, "frame/atoms", count=9)
    with unreadable("row_count_mismatch", "frame/atoms/x"):
        _ = open_record(record).frame
    with unwritable("row_count_mismatch", "y"):
        Block({"x": [0.0, 1.0], "y": [0.0]})
    with unwritable("row_count_mismatch", "x"):
        Block({"x": [0.0, 1.0]}, count=9)
    with unwritable("column_shape", "x"):
        Block({"x": 1.0})


def test_F14_column_without_a_row_axis(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.5]}}))
    replace_array(record, "frame/atoms/x", np.float64(0.5))
    with unreadable("row_count_mismatch", "frame/atoms/x"):
        _ = open_record(record).frame


def test_F15_block_without_count(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.0, 1.0]}}))
    set_attributes(record, "frame/atoms", count=None)
    with unreadable("count", "frame/atoms"):
        _ = open_record(record).frame


@pytest.mark.parametrize("count", [True, 2.0, "2", -2, [2]])
def test_F16_count_is_an_integer(tmp_path, count):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.0, 1.0]}}))
    set_attributes(record, "frame/atoms", count=count)
    with unreadable("count", "frame/atoms"):
        _ = open_record(record).frame
    if count != 2.0:
        with unwritable("count", ""):
            Block(count=count)


def test_F17_children_of_a_frame_group(tmp_path):
    frame = Frame(
        {"atoms": Block({"x": [0.5, 1.5]}, validity={"x": [True, False]})},
        box=Box(np.eye(3)),
        meta={"title": "t"},
    )
    record = write_record(tmp_path, frame=frame)
    make_group(record, "frame/foreign", count=2)
    replace_array(record, "frame/foreign/y", np.array([1.0, 2.0]))
    found = open_record(record).frame
    assert set(found) == {"atoms", "foreign"}
    assert set(found["atoms"]) == {"x"}
    assert found["foreign"]["y"].tolist() == [1.0, 2.0]


def test_F17_array_in_place_of_a_block(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.0]}}))
    replace_array(record, "frame/loose", np.array([1.0]))
    with unreadable("node_type", "frame/loose"):
        _ = open_record(record).frame


def test_F17_array_in_place_of_the_section(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.0]}}), status={"state": "running"})
    replace_array(record, "frame", np.array([1.0]))
    with open_record(record) as found:
        assert found.status == {"state": "running"}
        with unreadable("node_type", "frame"):
            _ = found.frame


def test_F17_group_below_a_block_is_unknown_content(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.5]}}))
    make_group(record, "frame/atoms/x_vendor", note=1)
    assert set(open_record(record).frame["atoms"]) == {"x"}


def test_F18_frame_meta_preserved(tmp_path):
    meta = {"title": "test", "source": {"tool": "molrec", "run": 3}}
    found = rewritten(tmp_path, Frame(meta=meta))
    assert found.meta == meta
    assert type(found.meta["source"]["run"]) is int
    assert found.meta_tags == {"title": "string", "source": "json"}


def test_F19_no_attributes_of_its_own(tmp_path):
    record = write_record(
        tmp_path, frame=Frame({"atoms": {"x": [0.0]}}, box=Box(np.eye(3))), system=Frame(meta={"a": 1})
    )
    assert "attributes" not in document(record, "frame") or attributes(record, "frame") == {}
    assert attributes(record, "system") == {"a": 1, "_meta_types": {"a": "i64"}}
    set_attributes(record, "frame", layout="v7")
    assert open_record(record).frame.meta == {"layout": "v7"}


def test_F20_overwrite_leaves_no_stale_node(tmp_path):
    full = Frame(
        {"atoms": Block({"x": [0.5], "y": [1.0]}, validity={"y": [False]}), "bonds": {"atomi": u64(0)}}
    )
    record = write_record(
        tmp_path, frame=full, system=full, status={"state": "running"}, trajectory=[Frame(full)]
    )
    write_mrec(record, frame=Frame({"atoms": {"x": [0.25]}}), overwrite=True)
    assert nodes(record) == ["frame", "frame/atoms", "frame/atoms/x", "meta"]
    assert open_record(record).frame["atoms"]["x"].tolist() == [0.25]
    assert [p.name for p in tmp_path.iterdir()] == ["run.mrec"]


# -- F21: names


@pytest.mark.parametrize("name", BAD_NAMES)
def test_F21_names_refused_at_write(name):
    with unwritable("bad_name", name):
        Frame({name: Block()})
    with unwritable("bad_name", name):
        Block({name: [1.0]})
    with unwritable("bad_name", f"trajectory/{name}"):
        SequenceSchema().declare_block(name)
    with unwritable("bad_name", f"meta/{name}"):
        Frame(meta={name: 1})
    with unwritable("bad_name", f"trajectory/atoms/{name}"):
        SequenceSchema().declare_column("atoms", name, "f64")
    with unwritable("bad_name", f"trajectory/meta/{name}"):
        SequenceSchema().declare_meta(name, "f64")


def test_F21_names_that_are_not_strings():
    with unwritable("bad_name", "1"):
        Frame({1: Block()})
    with unwritable("bad_name", "1"):
        Block({1: [1.0]})


def test_F21_names_refused_on_read(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.5]}}))
    make_group(record, "frame/__block", count=0)
    with unreadable("bad_name", "frame/__block"):
        _ = open_record(record).frame
    remove(record, "frame/__block")
    replace_array(record, "frame/atoms/__x", np.array([0.5]))
    with unreadable("bad_name", "frame/atoms/__x"):
        _ = open_record(record).frame


@pytest.mark.parametrize("name", BAD_NAMES)
def test_F21_names_refused_in_the_pin(tmp_path, name):
    frame = Frame({"atoms": {"x": [0.5]}})
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        writer.append(frame)
    pin = attributes(tmp_path / "run.mrec", "trajectory")["sequence_schema"]
    column = {"dtype": "f64", "trailing": []}
    for blocks, meta, loc in (
        ({name: {"columns": {"x": column}}}, {}, f"trajectory/{name}"),
        ({"atoms": {"columns": {"x": column, name: column}}}, {}, f"trajectory/atoms/{name}"),
        ({}, {name: {"dtype": "f64"}}, f"trajectory/meta/{name}"),
    ):
        changed = json.loads(json.dumps(pin))
        changed["blocks"] |= blocks
        changed["meta"] |= meta
        set_attributes(tmp_path / "run.mrec", "trajectory", sequence_schema=changed)
        with unreadable("bad_name", loc):
            _ = open_record(tmp_path / "run.mrec").trajectory
