"""Checklist group L: aligned blocks."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    attributes,
    changed,
    read,
    refuse_last,
    remove,
    replace_array,
    stored,
    u64,
    unreadable,
    unwritable,
    write,
)
from molrec_core import Block, Frame, SequenceSchema, TrajectoryWriter, open_record


def declared():
    return (
        SequenceSchema()
        .declare_block("atoms", {"x": "f64"})
        .declare_block("atom_types", {"type": "string"})
        .declare_aligned("atom_types", "atoms")
    )


def frame(i, n=None, types=None):
    blocks = {}
    if n is not None:
        blocks["atoms"] = {"x": np.arange(n) + 10.0 * i}
    if types is not None:
        blocks["atom_types"] = {"type": types}
    return Frame(blocks)


def types_of(record):
    return [f["atom_types"]["type"].tolist() if "atom_types" in f else None for f in read(record)[0]]


def test_L01_aligned_carries_forward(tmp_path):
    first, later = ["CT", "HC", "HC"], ["CT", "HC", "OH"]
    frames = [frame(i, 3, {0: first, 3: later}.get(i)) for i in range(5)]
    record = write(tmp_path, frames, schema=declared())
    assert types_of(record) == [first, first, first, later, later]
    assert stored(record, "trajectory/atom_types/step_index").tolist() == [0, 3]


def test_L02_aligned_restated_on_growth(tmp_path):
    first, grown = ["CT", "HC", "HC"], ["CT", "HC", "HC", "OH"]
    frames = [frame(0, 3, first), frame(1, 3), frame(2, 4, grown), frame(3, 4)]
    record = write(tmp_path, frames, schema=declared())
    assert types_of(record) == [first, first, grown, grown]


def test_L03_aligned_absent_then_present(tmp_path):
    frames = [frame(0, 3), frame(1, 3, ["a", "b", "c"]), frame(2, 3)]
    record = write(tmp_path, frames, schema=declared())
    assert types_of(record) == [None, ["a", "b", "c"], ["a", "b", "c"]]


def test_L04_aligned_empty_target(tmp_path):
    frames = [frame(0, 2, ["a", "b"]), frame(1, 2), frame(2, 0, []), frame(3), frame(4, 1, ["c"])]
    record = write(tmp_path, frames, schema=declared())
    assert types_of(record) == [["a", "b"], ["a", "b"], [], [], ["c"]]


def test_L05_aligned_not_restated(tmp_path):
    frames = [frame(0, 3, ["a", "b", "c"]), frame(1, 3), frame(2, 4)]
    refuse_last(tmp_path, frames, "aligned_count", "trajectory/atom_types", schema=declared())


def test_L05_aligned_restated_with_another_count(tmp_path):
    frames = [frame(0, 3, ["a", "b", "c"]), frame(1, 3, ["a", "b"])]
    refuse_last(tmp_path, frames, "aligned_count", "trajectory/atom_types", schema=declared())


def test_L05_on_read(tmp_path):
    frames = [frame(0, 3, ["a", "b", "c"]), frame(1, 3), frame(2, 4, ["a", "b", "c", "d"])]
    record = write(tmp_path, frames, schema=declared())
    replace_array(record, "trajectory/atom_types/step_index", u64(0, 3))
    with unreadable("aligned_count", "trajectory/atom_types"):
        read(record)


def aligned_twice(tmp_path):
    frames = [frame(i, 3, {0: ["a", "b", "c"], 2: ["d", "e", "f"]}.get(i)) for i in range(4)]
    return write(tmp_path, frames, schema=declared())


def test_L06_aligned_count_mismatch(tmp_path):
    record = aligned_twice(tmp_path)
    assert types_of(record)[3] == ["d", "e", "f"]
    replace_array(record, "trajectory/atom_types/offset", u64(0, 2, 6))
    with unreadable("aligned_count", "trajectory/atom_types"):
        read(record)


def test_L06_frames_before_the_mismatch_open(tmp_path):
    record = aligned_twice(tmp_path)
    replace_array(record, "trajectory/atom_types/offset", u64(0, 3, 5))
    with open_record(record) as found:
        assert found.trajectory[1]["atom_types"]["type"].tolist() == ["a", "b", "c"]
        with unreadable("aligned_count", "trajectory/atom_types"):
            found.trajectory[2]


def test_L06_reading_the_aligned_block_alone(tmp_path):
    record = aligned_twice(tmp_path)
    replace_array(record, "trajectory/atom_types/offset", u64(0, 3, 5))
    with open_record(record) as found, unreadable("aligned_count", "trajectory/atom_types"):
        found.trajectory.frame(2, blocks=["atom_types"])


def change_pin(record, block, **values):
    with changed(record, "trajectory") as found:
        found["attributes"]["sequence_schema"]["blocks"][block].update(values)


def test_L07_target_undeclared(tmp_path):
    with unwritable("aligned_target", "trajectory/atom_types"):
        TrajectoryWriter(tmp_path / "b.mrec", declared().declare_aligned("atom_types", "nope"))
    record = aligned_twice(tmp_path)
    change_pin(record, "atom_types", aligned_with="nope")
    with unreadable("aligned_target", "trajectory/atom_types"):
        read(record)


@pytest.mark.parametrize("value", [1, ["atoms"], True])
def test_L07_target_is_no_name(tmp_path, value):
    record = aligned_twice(tmp_path)
    change_pin(record, "atom_types", aligned_with=value)
    with unreadable("aligned_target", "trajectory/atom_types"):
        read(record)


def test_L08_chain(tmp_path):
    schema = declared().declare_block("charges", {"q": "f64"})
    record = write(tmp_path, [frame(0, 1, ["a"])], schema=schema)
    assert types_of(record) == [["a"]]
    with unwritable("aligned_chain", "trajectory/charges"):
        TrajectoryWriter(tmp_path / "b.mrec", schema.declare_aligned("charges", "atom_types"))
    change_pin(record, "charges", aligned_with="atom_types")
    with unreadable("aligned_chain", "trajectory/charges"):
        read(record)


def test_L09_shared_column(tmp_path):
    schema = declared().declare_column("atoms", "type", "string")
    with unwritable("aligned_shared_column", "trajectory/atom_types"):
        TrajectoryWriter(tmp_path / "b.mrec", schema)
    record = aligned_twice(tmp_path)
    columns = {"x": {"dtype": "f64", "trailing": []}, "type": {"dtype": "string", "trailing": []}}
    change_pin(record, "atoms", columns=columns)
    with unreadable("aligned_shared_column", "trajectory/atom_types"):
        read(record)


def test_L10_target_absent(tmp_path):
    frames = [Frame(), frame(1, None, ["a"])]
    refuse_last(tmp_path, frames, "aligned_target_absent", "trajectory/atom_types", schema=declared())


def test_L10_on_read(tmp_path):
    record = aligned_twice(tmp_path)
    remove(record, "trajectory/atoms")
    with unreadable("aligned_target_absent", "trajectory/atom_types"):
        read(record)


def test_L10_empty_beside_an_absent_target(tmp_path):
    frames = [frame(0, None, [])]
    refuse_last(tmp_path, frames, "aligned_target_absent", "trajectory/atom_types", schema=declared())


def test_L11_aligned_with_itself(tmp_path):
    with unwritable("aligned_self", "trajectory/atom_types"):
        TrajectoryWriter(tmp_path / "b.mrec", declared().declare_aligned("atom_types", "atom_types"))
    record = aligned_twice(tmp_path)
    change_pin(record, "atom_types", aligned_with="atom_types")
    with unreadable("aligned_self", "trajectory/atom_types"):
        read(record)


def test_L11_aligned_with_a_structural_shape(tmp_path):
    with unwritable("aligned_shape", "trajectory/atom_types"):
        TrajectoryWriter(tmp_path / "b.mrec", declared().declare_structural_shape("atom_types", (3,)))
    record = aligned_twice(tmp_path)
    change_pin(record, "atom_types", structural_shape=[3])
    with unreadable("aligned_shape", "trajectory/atom_types"):
        read(record)


def test_L12_alignment_is_declared_never_derived(tmp_path):
    record = write(tmp_path, [frame(0, 2, ["a", "b"])])
    blocks = attributes(record, "trajectory")["sequence_schema"]["blocks"]
    assert all("aligned_with" not in block for block in blocks.values())
    record = write(tmp_path, [frame(0, 2, ["a", "b"])], schema=declared(), name="b.mrec")
    blocks = attributes(record, "trajectory")["sequence_schema"]["blocks"]
    assert [block.get("aligned_with") for block in blocks.values()] == [None, "atoms"]


def test_L12_two_blocks_come_back(tmp_path):
    record = write(tmp_path, [frame(0, 2, ["a", "b"])], schema=declared())
    assert read(record)[0][0]["atoms"] == Block({"x": [0.0, 1.0]})


def test_the_rule_holds_after_a_reopen(tmp_path):
    """What is aligned on disk binds the first appended frame, too."""
    record = write(tmp_path, [frame(0, 2, ["a", "b"])], schema=declared())
    with TrajectoryWriter.reopen(record) as writer:
        with unwritable("aligned_count", "trajectory/atom_types"):
            writer.append(frame(1, 3))
        writer.append(frame(1, 3, ["a", "b", "c"]))
    assert types_of(record) == [["a", "b"], ["a", "b", "c"]]
