"""Checklist group Y: system and trajectory side by side."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    changed,
    read,
    refuse_last,
    replace_array,
    set_attributes,
    u64,
    unreadable,
    unwritable,
    write,
)
from molrec_core import (
    Frame,
    SequenceSchema,
    TrajectoryWriter,
    mrec_sections,
    open_record,
    read_mrec_system,
    write_mrec,
    write_mrec_system,
)


def topology(n=3, **columns):
    return Frame(
        {"atoms": {"type": ["ht", "ot", "ht"][:n]} | columns, "bonds": {"atomi": u64(0), "atomj": u64(1)}}
    )


def x(n, start=0.0, **columns):
    return Frame({"atoms": {"x": start + np.arange(n, dtype=float)} | columns})


def test_Y01_system_and_frame(tmp_path):
    frame = Frame({"atoms": {"x": [0.0, 1.0], "element": ["O", "H"]}})
    write_mrec(tmp_path / "run.mrec", system=topology(), frame=frame)
    with open_record(tmp_path / "run.mrec") as record:
        assert record.sections == ("meta", "system", "frame")
        assert record.system == topology()
        assert record.frame == frame


def test_Y02_row_count_of_the_system_block(tmp_path):
    refuse_last(tmp_path, [x(3), x(4)], "system_rows", "trajectory/atoms", system=topology())


def test_Y02_zero_rows_beside_a_system_block(tmp_path):
    refuse_last(tmp_path, [x(3), x(0)], "system_rows", "trajectory/atoms", system=topology())


def test_Y02_on_read(tmp_path):
    record = write(tmp_path, [x(3), x(3, 1.0)], system=topology())
    assert len(read(record)[0]) == 2
    for name in ("type",):
        replace_array(record, f"system/atoms/{name}", np.array(["a", "b"]))
    set_attributes(record, "system/atoms", count=2)
    with unreadable("system_rows", "trajectory/atoms"):
        read(record)


def test_Y02_every_resolved_update_is_checked(tmp_path):
    schema = SequenceSchema().declare_block("atoms", {"x": "f64"})
    record = write(tmp_path, [Frame(), x(3), Frame(), x(3, 5.0)], schema=schema, system=topology())
    assert len(read(record)[0]) == 4
    replace_array(record, "trajectory/atoms/offset", u64(0, 3, 5))
    with open_record(record) as found:
        assert found.trajectory[2]["atoms"].count == 3
        with unreadable("system_rows", "trajectory/atoms"):
            found.trajectory[3]


def test_Y03_ids_are_equal_row_for_row(tmp_path):
    system = topology(id=u64(7, 9, 8))
    frames = [x(3, id=u64(7, 9, 8)), x(3, id=u64(9, 7, 8))]
    refuse_last(tmp_path, frames, "system_id", "trajectory/atoms/id", system=system)


def test_Y03_on_read(tmp_path):
    record = write(tmp_path, [x(3, id=u64(7, 9, 8))], system=topology(id=u64(7, 9, 8)))
    assert len(read(record)[0]) == 1
    replace_array(record, "system/atoms/id", u64(7, 8, 9))
    with unreadable("system_id", "trajectory/atoms/id"):
        read(record)


def test_Y03_an_id_on_one_side_binds_nothing(tmp_path):
    record = write(tmp_path, [x(3, id=u64(1, 2, 3))], system=topology())
    assert len(read(record)[0]) == 1


ALIGNED = (
    SequenceSchema()
    .declare_block("sites", {"x": "f64"})
    .declare_block("atoms", {"q": "f64"})
    .declare_aligned("atoms", "sites")
)


def test_Y04_aligned_block_named_as_a_system_block(tmp_path):
    frame = Frame({"sites": {"x": [1.0, 2.0, 3.0]}, "atoms": {"q": [1.0, 2.0, 3.0]}})
    assert len(read(write(tmp_path, [frame], schema=ALIGNED))[0]) == 1
    with TrajectoryWriter(tmp_path / "b.mrec", ALIGNED) as writer:
        writer.append(frame)
    writer = TrajectoryWriter(tmp_path / "c.mrec", ALIGNED, system=topology())
    with unwritable("aligned_system_name", "trajectory/atoms"):
        writer.append(frame)
    writer.abandon()


def test_Y04_on_read(tmp_path):
    frame = Frame({"sites": {"x": [1.0, 2.0, 3.0]}, "atoms": {"q": [1.0, 2.0, 3.0]}})
    schema = SequenceSchema.from_frames(frame)
    record = write(tmp_path, [frame], schema=schema, system=topology())
    assert len(read(record)[0]) == 1
    with changed(record, "trajectory") as found:
        found["attributes"]["sequence_schema"]["blocks"]["atoms"]["aligned_with"] = "sites"
    with unreadable("aligned_system_name", "trajectory/atoms"):
        read(record)


def test_Y04_the_target_may_share_its_name(tmp_path):
    schema = (
        SequenceSchema()
        .declare_block("atoms", {"x": "f64"})
        .declare_block("types", {"type": "string"})
        .declare_aligned("types", "atoms")
    )
    frame = x(3)
    frame = Frame({**frame, "types": {"type": ["a", "b", "c"]}})
    record = write(tmp_path, [frame], schema=schema, system=topology())
    assert read(record)[0] == [frame]


def test_Y05_trajectory_without_a_system(tmp_path):
    record = write(tmp_path, [x(3)])
    assert mrec_sections(record) == ("meta", "trajectory")


def test_Y05_system_without_a_trajectory(tmp_path):
    write_mrec_system(tmp_path / "run.mrec", topology())
    assert mrec_sections(tmp_path / "run.mrec") == ("meta", "system")
    assert read_mrec_system(tmp_path / "run.mrec") == topology()


def test_Y05_blocks_on_one_side_only(tmp_path):
    frames = [Frame({"sites": {"x": np.arange(n, dtype=float)}}) for n in (1, 4)]
    record = write(tmp_path, frames, system=topology())
    assert read(record)[0] == frames


@pytest.mark.parametrize("frames", [[x(4)], [x(3, id=u64(1, 2, 4))]], ids=["rows", "id"])
def test_the_rule_holds_after_a_reopen(tmp_path, frames):
    """The system on disk binds appended frames as the one handed to the writer did."""
    with_id = "id" in frames[0]["atoms"]
    first = x(3, id=u64(1, 2, 3)) if with_id else x(3)
    record = write(tmp_path, [first], system=topology(id=u64(1, 2, 3)))
    kind, loc = ("system_id", "trajectory/atoms/id") if with_id else ("system_rows", "trajectory/atoms")
    with TrajectoryWriter.reopen(record) as writer, unwritable(kind, loc):
        writer.append(frames[0])
    assert read(record)[0] == [first]
