"""Checklist group T: row references, in frames and in trajectories."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    attributes,
    read,
    remove,
    replace_array,
    set_attributes,
    u64,
    unreadable,
    unwritable,
    write,
    write_record,
)
from molrec_core import (
    Block,
    Frame,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    validate,
    write_mrec,
    write_mrec_trajectory,
)


def atoms(n):
    return {"x": np.arange(float(n))}


def members(ibead=(0, 0, 1), atom=(7, 8, 9), *, targets=None, validity=None):
    targets = {"ibead": "atoms"} if targets is None else targets
    return Block({"ibead": u64(*ibead), "atom": u64(*atom)}, targets=targets, validity=validity)


def frame(n_atoms=3, **options):
    return Frame({"atoms": atoms(n_atoms), "members": members(**options)})


# -- frames


def test_T01_targets_declared(tmp_path):
    record = write_record(tmp_path, frame=frame())
    assert open_record(record).frame == frame()
    assert attributes(record, "frame/members") == {"count": 3, "targets": {"ibead": "atoms"}}
    assert "targets" not in attributes(record, "frame/atoms")


def test_T02_target_out_of_range(tmp_path):
    record = write_record(tmp_path, frame=frame())
    replace_array(record, "frame/members/ibead", u64(0, 0, 5))
    with unreadable("target_out_of_range", "frame/members/ibead"):
        _ = open_record(record).frame
    with unwritable("target_out_of_range", "frame/members/ibead"):
        write_mrec(tmp_path / "no.mrec", frame=frame(ibead=(0, 5, 0)))
    with unwritable("target_out_of_range", "frame/members/ibead"):
        write_mrec(tmp_path / "no.mrec", frame=frame(ibead=(0, 3, 0)))
    with unwritable("target_out_of_range", "frame/members/ibead"):
        write_mrec(tmp_path / "no.mrec", frame=frame(ibead=(0, 2**64 - 1, 0)))


def test_T03_target_block_is_missing(tmp_path):
    record = write_record(tmp_path, frame=frame())
    set_attributes(record, "frame/members", targets={"ibead": "sites"})
    with unreadable("target_missing_block", "frame/members/ibead"):
        _ = open_record(record).frame
    with unwritable("target_missing_block", "frame/members/ibead"):
        write_mrec(tmp_path / "no.mrec", frame=frame(targets={"ibead": "sites"}))


def test_T04_target_column_is_u64(tmp_path):
    host = Frame({"atoms": atoms(3), "guests": {"host": np.array([0, 1], np.int64)}})
    record = write_record(tmp_path, frame=host)
    set_attributes(record, "frame/guests", targets={"host": "atoms"})
    with unreadable("target_dtype", "frame/guests/host"):
        _ = open_record(record).frame
    block = Block({"host": np.array([0, 1], np.int64)}, targets={"host": "atoms"})
    with unwritable("target_dtype", "frame/guests/host"):
        write_mrec(tmp_path / "no.mrec", frame=Frame({"atoms": atoms(3), "guests": block}))
    schema = SequenceSchema.from_frames(host).declare_target("guests", "host", "atoms")
    with unwritable("target_dtype", "trajectory/guests/host"):
        schema.check()


def test_T05_target_of_no_column(tmp_path):
    record = write_record(tmp_path, frame=frame())
    set_attributes(record, "frame/members", targets={"host": "atoms"})
    with unreadable("target_column", "frame/members/host"):
        _ = open_record(record).frame
    with unwritable("target_column", "frame/members/host"):
        write_mrec(tmp_path / "no.mrec", frame=frame(targets={"host": "atoms"}))
    with unwritable("undeclared_column", "trajectory/members/host"):
        SequenceSchema.from_frames(frame()).declare_target("members", "host", "atoms")
    with unwritable("undeclared_column", "trajectory/members/host"):
        SequenceSchema.from_frames(frame(targets={"host": "atoms"}))


def test_T05_target_column_with_trailing_axes(tmp_path):
    pairs = u64(0, 1, 1, 2).reshape(2, 2)
    record = write_record(tmp_path, frame=Frame({"atoms": atoms(3), "pairs": {"ends": pairs}}))
    set_attributes(record, "frame/pairs", targets={"ends": "atoms"})
    with unreadable("target_dtype", "frame/pairs/ends"):
        _ = open_record(record).frame
    block = Block({"ends": pairs}, targets={"ends": "atoms"})
    with unwritable("target_dtype", "frame/pairs/ends"):
        write_mrec(tmp_path / "no.mrec", frame=Frame({"atoms": atoms(3), "pairs": block}))
    schema = SequenceSchema().declare_block("atoms").declare_column("pairs", "ends", "u64", (2,))
    with unwritable("target_dtype", "trajectory/pairs/ends"):
        schema.declare_target("pairs", "ends", "atoms").check()


def test_T05_pin_names_no_column(tmp_path):
    record = write(tmp_path, [frame()])
    pin = attributes(record, "trajectory")["sequence_schema"]
    pin["blocks"]["members"]["targets"] = {"host": "atoms"}
    set_attributes(record, "trajectory", sequence_schema=pin)
    with unreadable("target_column", "trajectory/members/host"):
        _ = open_record(record).trajectory


def test_T06_null_rows_are_exempt(tmp_path):
    masked = frame(ibead=(0, 99, 1), validity={"ibead": [True, False, True]})
    record = write_record(tmp_path, frame=masked, trajectory=[masked])
    assert open_record(record).frame == masked
    assert read(record)[0][0]["members"]["ibead"].tolist() == [0, 99, 1]


def test_T06_no_rows_need_no_target(tmp_path):
    empty = members((), (), targets={"ibead": "sites"})
    record = write_record(tmp_path, frame=Frame({"members": empty}))
    assert open_record(record).frame["members"].targets == {"ibead": "sites"}
    with unwritable("target_missing_block", "frame/members/ibead"):
        write_mrec(tmp_path / "no.mrec", frame=Frame({"members": members(targets={"ibead": "sites"})}))


ABSOLUTE = {"ibead": "atoms", "atom": "/frame/atoms"}


def bead_system(atom=(0, 1, 2), targets=ABSOLUTE):
    return Frame({"atoms": atoms(2), "members": members(atom=atom, targets=targets)})


def test_T07_targets_absolute(tmp_path):
    record = write_record(tmp_path, system=bead_system(), frame=Frame({"atoms": atoms(3)}))
    assert open_record(record).system == bead_system()
    assert attributes(record, "system/members")["targets"] == ABSOLUTE


def test_T08_absolute_target_out_of_range(tmp_path):
    record = write_record(tmp_path, system=bead_system(), frame=Frame({"atoms": atoms(3)}))
    replace_array(record, "system/members/atom", u64(0, 1, 3))
    with unreadable("target_out_of_range", "system/members/atom"):
        _ = open_record(record).system
    with unwritable("target_out_of_range", "system/members/atom"):
        write_mrec(tmp_path / "no.mrec", system=bead_system((0, 1, 3)), frame=Frame({"atoms": atoms(3)}))


BAD_SPELLINGS = [
    "/trajectory/atoms",
    "",
    "/",
    "a/b",
    "atoms/",
    "/frame",
    "/frame/",
    "//atoms",
    "/frame/atoms/x",
    "/meta/atoms",
    "/forcefield/atoms",
    "/observables/atoms",
]


@pytest.mark.parametrize("target", BAD_SPELLINGS)
def test_T09_T10_spelling(tmp_path, target):
    """T09 is the first of them: rows of a trajectory cannot be referenced."""
    record = write_record(tmp_path, frame=frame(), trajectory=[frame()])
    set_attributes(record, "frame/members", targets={"ibead": target})
    with unreadable("target_spelling", "frame/members/ibead"):
        _ = open_record(record).frame
    pin = attributes(record, "trajectory")["sequence_schema"]
    pin["blocks"]["members"]["targets"] = {"ibead": target}
    set_attributes(record, "trajectory", sequence_schema=pin)
    with unreadable("target_spelling", "trajectory/members/ibead"):
        _ = open_record(record).trajectory
    with unwritable("target_spelling", "frame/members/ibead"):
        write_mrec(tmp_path / "no.mrec", frame=frame(targets={"ibead": target}))
    schema = SequenceSchema.from_frames(frame(targets={})).declare_target("members", "ibead", target)
    with unwritable("target_spelling", "trajectory/members/ibead"):
        TrajectoryWriter(tmp_path / "no.mrec", schema)
    assert not (tmp_path / "no.mrec").exists()


@pytest.mark.parametrize("targets", [[], "atoms", {"ibead": 1}, {"ibead": None}, 1])
def test_T10_targets_is_an_object_of_strings(tmp_path, targets):
    record = write_record(tmp_path, frame=frame(), trajectory=[frame()])
    set_attributes(record, "frame/members", targets=targets)
    with unreadable("target_spelling", "frame/members"):
        _ = open_record(record).frame
    pin = attributes(record, "trajectory")["sequence_schema"]
    pin["blocks"]["members"]["targets"] = targets
    set_attributes(record, "trajectory", sequence_schema=pin)
    with unreadable("target_spelling", "trajectory/members"):
        _ = open_record(record).trajectory


def test_T11_section_that_is_not_there_is_not_checked(tmp_path):
    record = write_record(tmp_path, system=bead_system((0, 1, 99)))
    assert open_record(record).system == bead_system((0, 1, 99))


def test_T11_block_that_is_not_in_the_section(tmp_path):
    record = write_record(tmp_path, system=bead_system(), frame=Frame({"atoms": atoms(3)}))
    remove(record, "frame/atoms")
    with unreadable("target_missing_block", "system/members/atom"):
        _ = open_record(record).system
    with unwritable("target_missing_block", "system/members/atom"):
        write_mrec(tmp_path / "no.mrec", system=bead_system(), frame=Frame({"sites": atoms(3)}))


def test_T11_two_sections_may_refer_to_each_other(tmp_path):
    system = bead_system()
    back = Frame({"atoms": atoms(3), "members": members(ibead=(0, 1, 1), targets={"ibead": "/system/atoms"})})
    record = write_record(tmp_path, system=system, frame=back)
    with open_record(record) as found:
        assert (found.system, found.frame) == (system, back)
    replace_array(record, "frame/members/ibead", u64(0, 1, 2))
    with open_record(record) as found:
        assert found.system == system
        with unreadable("target_out_of_range", "frame/members/ibead"):
            _ = found.frame


# -- trajectories


def growing(*counts, ibead=(0, 0, 1)):
    first = {"members": members(ibead, (10, 11, 12))}
    return [Frame({"atoms": atoms(n), **(first if i == 0 else {})}) for i, n in enumerate(counts)]


def test_T12_targets_pinned(tmp_path):
    record = write(tmp_path, growing(2, 3, 2))
    pin = attributes(record, "trajectory")["sequence_schema"]["blocks"]["members"]
    assert pin["targets"] == {"ibead": "atoms"}
    assert attributes(record, "trajectory/members") == {"uniform_rows": 3, "dense_updates": True}
    frames, *_ = read(record)
    assert [f["members"]["ibead"].tolist() for f in frames] == [[0, 0, 1]] * 3
    assert [f["members"].targets for f in frames] == [{}, {}, {}]


def test_T12_absolute_target_of_a_trajectory(tmp_path):
    system = Frame({"beads": atoms(2)})
    run = Frame({"members": members(targets={"ibead": "/system/beads"})})
    record = write_record(tmp_path, system=system, trajectory=[run])
    replace_array(record, "trajectory/members/ibead", u64(0, 0, 2))
    with unreadable("target_out_of_range", "trajectory/members/ibead"):
        read(record)
    with TrajectoryWriter(tmp_path / "no.mrec", system=system) as writer:
        writer.append(run)
        with unwritable("target_out_of_range", "trajectory/members/ibead"):
            writer.append(Frame({"members": members((0, 0, 2), targets={})}))
    with TrajectoryWriter(tmp_path / "free.mrec") as writer:
        writer.append(Frame({"members": members((0, 0, 99), targets={"ibead": "/system/beads"})}))
    assert read(tmp_path / "free.mrec")[0][0]["members"]["ibead"].tolist() == [0, 0, 99]


def test_T13_out_of_range_as_resolved(tmp_path):
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        first, second, shrunk = growing(2, 3, 1)
        writer.append(first)
        writer.append(second)
        with unwritable("target_out_of_range", "trajectory/members/ibead"):
            writer.append(shrunk)
        with unwritable("target_out_of_range", "trajectory/members/ibead"):
            writer.append(Frame({"members": members((0, 0, 3), targets={})}))
        writer.append(Frame({"atoms": atoms(1), "members": members((0, 0, 0), targets={})}))
    assert len(read(tmp_path / "run.mrec")[0]) == 3


def test_T13_target_block_absent(tmp_path):
    schema = SequenceSchema.from_frames(growing(2))
    with TrajectoryWriter(tmp_path / "run.mrec", schema) as writer:
        with unwritable("target_missing_block", "trajectory/members/ibead"):
            writer.append(Frame({"members": members()}))
        writer.append(growing(2)[0])


def test_T13_target_block_is_declared(tmp_path):
    schema = SequenceSchema.from_frames(Frame({"members": members(targets={"ibead": "atoms"})}))
    with unwritable("target_missing_block", "trajectory/members/ibead"):
        TrajectoryWriter(tmp_path / "run.mrec", schema)
    record = write(tmp_path, growing(2))
    pin = attributes(record, "trajectory")["sequence_schema"]
    pin["blocks"]["members"]["targets"] = {"ibead": "sites"}
    set_attributes(record, "trajectory", sequence_schema=pin)
    with unreadable("target_missing_block", "trajectory/members/ibead"):
        _ = open_record(record).trajectory


def test_T13_reopened_writer_knows_the_last_references(tmp_path):
    record = write(tmp_path, growing(3, 3, ibead=(0, 0, 2)))
    with TrajectoryWriter.reopen(record) as writer:
        with unwritable("target_out_of_range", "trajectory/members/ibead"):
            writer.append(Frame({"atoms": atoms(2)}))
        writer.append(Frame({"atoms": atoms(4)}))
    assert len(read(record)[0]) == 3


def test_T14_out_of_range_on_disk(tmp_path):
    record = write(tmp_path, growing(2, 3, 2))
    replace_array(record, "trajectory/members/ibead", u64(0, 0, 2))
    reader = open_record(record).trajectory
    with unreadable("target_out_of_range", "trajectory/members/ibead"):
        _ = reader[0]
    assert reader[1]["members"]["ibead"].tolist() == [0, 0, 2]
    with unreadable("target_out_of_range", "trajectory/members/ibead"):
        _ = reader[2]


def test_T14_target_block_absent_on_disk(tmp_path):
    frames = [Frame({"atoms": atoms(2)}), Frame({"atoms": atoms(3), "members": members()})]
    write_mrec_trajectory(tmp_path / "run.mrec", frames)
    record = tmp_path / "run.mrec"
    read(record)
    remove(record, "trajectory/atoms")
    reader = open_record(record).trajectory
    assert dict(reader[0]) == {}
    with unreadable("target_missing_block", "trajectory/members/ibead"):
        _ = reader[1]


def test_T15_frame_restates_other_targets(tmp_path):
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        writer.append(Frame({"atoms": atoms(3), "sites": atoms(3), "members": members()}))
        writer.append(Frame({"members": members((0, 0, 0))}))
        with unwritable("targets", "trajectory/members/ibead"):
            writer.append(Frame({"members": members(targets={"ibead": "sites"})}))
        with unwritable("targets", "trajectory/members/atom"):
            writer.append(Frame({"members": members(targets={"atom": "atoms"})}))


def test_T15_first_stated_becomes_the_declarations(tmp_path):
    frames = [Frame({"atoms": atoms(3), "members": members(targets={})}), frame(), frame(targets={})]
    assert SequenceSchema.from_frames(frames).blocks["members"].targets == {"ibead": "atoms"}
    write_mrec_trajectory(tmp_path / "run.mrec", frames)
    assert [f["members"].targets for f in read(tmp_path / "run.mrec")[0]] == [{}, {}, {}]


# -- conventional endpoints


def test_T16_endpoints_past_the_atoms_are_reported_not_refused(tmp_path):
    bonds = {"atomi": u64(0, 1), "atomj": u64(1, 7)}
    record = write_record(tmp_path, frame=Frame({"atoms": atoms(3), "bonds": bonds}))
    assert open_record(record).frame["bonds"]["atomj"].tolist() == [1, 7]
    found = [(p.kind, p.loc, p.severity) for p in validate(record)]
    assert found == [("endpoint_out_of_range", "frame/bonds/atomj", "warning")]
