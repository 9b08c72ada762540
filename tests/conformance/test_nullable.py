"""Checklist group N: nullable columns and their masks, in frames and in trajectories."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    attributes,
    make_group,
    nodes,
    read,
    remove,
    replace_array,
    set_attributes,
    stored,
    u64,
    unreadable,
    unwritable,
    write,
    write_record,
)
from molrec_core import Block, Frame, SequenceSchema, TrajectoryWriter, open_record, write_mrec_trajectory

T, F = True, False
MASKS = {"charge": [T, F, T], "element": [F, T, T], "mol_id": [T, T, F]}


def nullable_columns():
    atoms = Block(
        {"x": [0.0, 1.0, 2.0], "charge": [0.5, 0.0, -0.5], "element": ["", "H", "O"], "mol_id": u64(1, 1, 0)},
        validity=MASKS,
    )
    return Frame({"atoms": atoms, "bonds": Block({"bond_type": u64(0, 1)}, validity={"bond_type": [F, T]})})


def charges(values, mask=None):
    return Frame({"atoms": Block({"q": values}, validity=None if mask is None else {"q": mask})})


# -- frames


def test_N01_nullable_columns(tmp_path):
    frame = nullable_columns()
    found = open_record(write_record(tmp_path, frame=frame)).frame
    assert found == frame
    assert {name: mask.tolist() for name, mask in found["atoms"].validity.items()} == MASKS
    assert found["bonds"].validity["bond_type"].tolist() == [F, T]
    assert found["atoms"]["x"].tolist() == [0.0, 1.0, 2.0]


def test_N02_mask_beside_its_column(tmp_path):
    record = write_record(tmp_path, frame=nullable_columns())
    mask = stored(record, "frame/atoms/_validity/charge")
    assert mask.dtype == np.bool_
    assert mask.tolist() == [T, F, T]
    assert attributes(record, "frame/atoms/_validity") == {}


def test_N03_no_masks_no_group(tmp_path):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x": [0.0, 1.0]}}))
    assert nodes(record, "frame/atoms") == ["x"]


def test_N04_all_true_is_no_mask(tmp_path):
    atoms = Block({"x": [0.0, 1.0], "q": [0.5, 1.0]}, validity={"x": [T, T], "q": [T, F]})
    assert set(atoms.validity) == {"q"}
    record = write_record(tmp_path, frame=Frame({"atoms": atoms}))
    assert nodes(record, "frame/atoms/_validity") == ["q"]
    replace_array(record, "frame/atoms/_validity/x", np.array([T, T]))
    assert open_record(record).frame["atoms"] == atoms


def test_N04_empty_mask_of_an_empty_block(tmp_path):
    block = Block({"x": np.zeros(0)}, validity={"x": []})
    assert block.validity == {}
    assert nodes(write_record(tmp_path, frame=Frame({"atoms": block})), "frame/atoms") == ["x"]


def test_N05_value_under_a_null_row_is_carried(tmp_path):
    block = Block(
        {"q": [np.nan, 7.25, 0.0], "name": ["lost", "", "x"]}, validity={"q": [F, F, T], "name": [F, T, T]}
    )
    found = open_record(write_record(tmp_path, frame=Frame({"atoms": block}))).frame["atoms"]
    assert np.isnan(found["q"][0])
    assert found["q"][1:].tolist() == [7.25, 0.0]
    assert found["name"].tolist() == ["lost", "", "x"]


def test_N06_mask_length(tmp_path):
    record = write_record(tmp_path, frame=nullable_columns())
    replace_array(record, "frame/atoms/_validity/charge", np.array([T, F]))
    with unreadable("mask_length", "frame/atoms/_validity/charge"):
        _ = open_record(record).frame
    with unwritable("mask_length", "q"):
        Block({"q": [0.0, 1.0, 2.0]}, validity={"q": [T, F]})


def test_N07_mask_not_bool(tmp_path):
    record = write_record(tmp_path, frame=nullable_columns())
    replace_array(record, "frame/atoms/_validity/charge", np.array([1, 0, 1], np.uint8))
    with unreadable("mask_dtype", "frame/atoms/_validity/charge"):
        _ = open_record(record).frame
    with unwritable("mask_dtype", "q"):
        Block({"q": [0.0, 1.0, 2.0]}, validity={"q": np.array([1, 0, 1], np.uint8)})


def test_N08_mask_of_two_axes(tmp_path):
    record = write_record(tmp_path, frame=nullable_columns())
    replace_array(record, "frame/atoms/_validity/charge", np.array([[T], [F], [T]]))
    with unreadable("mask_shape", "frame/atoms/_validity/charge"):
        _ = open_record(record).frame
    with unwritable("mask_length", "q"):
        Block({"q": [0.0, 1.0, 2.0]}, validity={"q": np.array([[T], [F], [T]])})


def test_N08_array_in_place_of_the_masks(tmp_path):
    record = write_record(tmp_path, frame=nullable_columns())
    replace_array(record, "frame/atoms/_validity", np.array([T, F, T]))
    with unreadable("node_type", "frame/atoms/_validity"):
        _ = open_record(record).frame


def test_N08_group_in_place_of_a_mask(tmp_path):
    record = write_record(tmp_path, frame=nullable_columns())
    remove(record, "frame/atoms/_validity/charge")
    make_group(record, "frame/atoms/_validity/charge")
    with unreadable("node_type", "frame/atoms/_validity/charge"):
        _ = open_record(record).frame


def test_N08_mask_of_no_column(tmp_path):
    record = write_record(tmp_path, frame=nullable_columns())
    replace_array(record, "frame/atoms/_validity/spin", np.array([T, F, T]))
    with unreadable("mask_without_column", "frame/atoms/_validity/spin"):
        _ = open_record(record).frame
    with unwritable("mask_without_column", "spin"):
        Block({"q": [0.0]}, validity={"spin": [F]})


# -- trajectories


NULLABLE_RUN = [
    ([0.5, 0.0], [T, F]),
    ([0.5, -0.5, 0.25], None),
    ([0.0, 0.0, 1.0], [F, F, T]),
    (np.zeros(0), None),
]


def test_N09_nullable_column(tmp_path):
    record = tmp_path / "run.mrec"
    write_mrec_trajectory(record, [charges(values, mask) for values, mask in NULLABLE_RUN])
    frames, *_ = read(record)
    for frame, (values, mask) in zip(frames, NULLABLE_RUN, strict=True):
        block = frame["atoms"]
        assert block["q"].tolist() == list(values)
        assert ({} if mask is None else {"q": mask}) == {
            name: m.tolist() for name, m in block.validity.items()
        }
    assert frames[3]["atoms"].count == 0


def test_N10_mask_grows_with_the_values(tmp_path):
    record = write(tmp_path, [charges([0.5, 0.0], [F, T]), charges([1.0, 2.0])])
    mask = stored(record, "trajectory/atoms/_validity/q")
    assert mask.dtype == np.bool_
    assert mask.tolist() == [F, T, T, T]
    pin = attributes(record, "trajectory")["sequence_schema"]["blocks"]["atoms"]["columns"]["q"]
    assert pin == {"dtype": "f64", "trailing": [], "nullable": True}


def test_N10_mask_alone_is_a_change(tmp_path):
    record = write(tmp_path, [charges([0.5, 0.0], [F, T]), charges([0.5, 0.0]), charges([0.5, 0.0])])
    assert stored(record, "trajectory/atoms/_validity/q").tolist() == [F, T, T, T]
    frames, *_ = read(record)
    assert [sorted(frame["atoms"].validity) for frame in frames] == [["q"], [], []]


def test_N11_derived_from_all_frames(tmp_path):
    frames = [charges([0.5, 1.0]), charges([0.0, 1.0], [F, T])]
    assert SequenceSchema.from_frames(frames).blocks["atoms"].columns["q"].nullable
    record = tmp_path / "run.mrec"
    write_mrec_trajectory(record, frames)
    assert stored(record, "trajectory/atoms/_validity/q").tolist() == [T, T, F, T]
    found, *_ = read(record)
    assert found[0]["atoms"].validity == {}
    assert found[1]["atoms"].validity["q"].tolist() == [F, T]


def test_N11_a_stream_pins_its_first_frame(tmp_path):
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        writer.append(charges([0.5, 1.0]))
        with unwritable("mask_not_nullable", "trajectory/atoms/q"):
            writer.append(charges([0.0, 1.0], [F, T]))


def test_N12_mask_on_a_non_nullable_column(tmp_path):
    schema = SequenceSchema().declare_column("atoms", "q", "f64")
    with TrajectoryWriter(tmp_path / "run.mrec", schema) as writer:
        writer.append(charges([0.5, 0.0], [T, T]))
        with unwritable("mask_not_nullable", "trajectory/atoms/q"):
            writer.append(charges([0.5, 0.0], [T, F]))


@pytest.fixture
def masked_run(tmp_path):
    return write(tmp_path, [charges([0.5, 0.0], [F, T]), charges([1.0, 2.0])])


def test_N13_mask_not_bool(masked_run):
    replace_array(masked_run, "trajectory/atoms/_validity/q", np.array([1, 0, 1, 1], np.uint8))
    with unreadable("mask_dtype", "trajectory/atoms/_validity/q"):
        _ = open_record(masked_run).trajectory


def test_N13_mask_of_two_axes(masked_run):
    replace_array(masked_run, "trajectory/atoms/_validity/q", np.array([[F], [T], [T], [T]]))
    with unreadable("mask_shape", "trajectory/atoms/_validity/q"):
        _ = open_record(masked_run).trajectory


def test_N14_mask_shorter_than_its_rows(masked_run):
    replace_array(masked_run, "trajectory/atoms/_validity/q", np.array([F, T, T]))
    with unreadable("mask_length", "trajectory/atoms/_validity/q"):
        read(masked_run)


def test_N14_mask_shorter_than_offset_claims(tmp_path):
    record = write(tmp_path, [charges([0.5, 0.0], [F, T]), charges([1.0])])
    assert stored(record, "trajectory/atoms/offset").tolist() == [0, 2, 3]
    replace_array(record, "trajectory/atoms/_validity/q", np.array([F, T]))
    with unreadable("mask_length", "trajectory/atoms/_validity/q"):
        read(record)


def test_N14_mask_of_no_column(masked_run):
    replace_array(masked_run, "trajectory/atoms/_validity/spin", np.array([T, T, T, T]))
    with unreadable("mask_without_column", "trajectory/atoms/_validity/spin"):
        _ = open_record(masked_run).trajectory


def test_N14_false_flag_without_nullable(masked_run):
    pin = attributes(masked_run, "trajectory")["sequence_schema"]
    del pin["blocks"]["atoms"]["columns"]["q"]["nullable"]
    set_attributes(masked_run, "trajectory", sequence_schema=pin)
    with unreadable("mask_not_nullable", "trajectory/atoms/_validity/q"):
        read(masked_run)
    replace_array(masked_run, "trajectory/atoms/_validity/q", np.array([T, T, T, T]))
    frames, *_ = read(masked_run)
    assert frames[0]["atoms"].validity == {}


def test_N14_array_in_place_of_the_masks(masked_run):
    replace_array(masked_run, "trajectory/atoms/_validity", np.array([F, T, T, T]))
    with unreadable("node_type", "trajectory/atoms/_validity"):
        _ = open_record(masked_run).trajectory


def test_N14_group_in_place_of_a_mask(masked_run):
    remove(masked_run, "trajectory/atoms/_validity/q")
    make_group(masked_run, "trajectory/atoms/_validity/q")
    with unreadable("node_type", "trajectory/atoms/_validity/q"):
        _ = open_record(masked_run).trajectory


@pytest.mark.parametrize("nullable", [1, "true", None])
def test_N14_nullable_is_a_boolean(masked_run, nullable):
    pin = attributes(masked_run, "trajectory")["sequence_schema"]
    pin["blocks"]["atoms"]["columns"]["q"]["nullable"] = nullable
    set_attributes(masked_run, "trajectory", sequence_schema=pin)
    with unreadable("schema", "trajectory/atoms/q"):
        _ = open_record(masked_run).trajectory


@pytest.mark.parametrize("key", ["trajectory/atoms/_validity/q", "trajectory/atoms/_validity"])
def test_N15_absent_mask_reads_as_valid(masked_run, key):
    remove(masked_run, key)
    frames, *_ = read(masked_run)
    assert [frame["atoms"].validity for frame in frames] == [{}, {}]


def test_N15_rows_past_the_committed_are_ignored(masked_run):
    replace_array(masked_run, "trajectory/atoms/_validity/q", np.array([F, T, T, T, F, F]))
    replace_array(masked_run, "trajectory/atoms/q", np.array([0.5, 0.0, 1.0, 2.0, 9.0, 9.0]))
    frames, *_ = read(masked_run)
    assert [frame["atoms"]["q"].tolist() for frame in frames] == [[0.5, 0.0], [1.0, 2.0]]
    assert frames[0]["atoms"].validity["q"].tolist() == [F, T]
    assert frames[1]["atoms"].validity == {}
