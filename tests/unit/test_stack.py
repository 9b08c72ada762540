"""Frames appended at once: the record is, byte for byte, the one that appending them one by one gives."""

from __future__ import annotations

import numpy as np
import pytest

from molrec_core import (
    Block,
    Box,
    Frame,
    FrameStack,
    SchemaError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
)

CELL = Box(np.diag([9.0, 9.0, 9.0]))


def tree(record):
    return {str(p.relative_to(record)): p.read_bytes() for p in sorted(record.rglob("*")) if p.is_file()}


def ragged(i):
    """Frames of 0 to 4 atoms, names that differ or not, charges masked or not."""
    n = [3, 3, 0, 0, 4, 4, 1][i % 7]
    names = np.array(["C", "O", "長い", "Cl"][:n] if i % 3 else ["N"] * n, np.dtypes.StringDType())
    charge = np.zeros(n)
    mask = {"charge": np.arange(n) % 2 == 0} if i % 2 else None
    x = np.arange(n) + (i // 3) * 0.1
    return Frame(
        {"atoms": Block({"x": x, "name": names, "charge": charge}, validity=mask)},
        box=CELL if i % 5 == 0 else None,
        meta={"pe": i / 4, "label": f"frame {i // 4}"},
    )


def schema(**more):
    declared = SequenceSchema()
    declared.declare_block("atoms", {"x": "f64", "name": "string"})
    declared.declare_column("atoms", "charge", "f64", nullable=True)
    declared.declare_meta("pe", "f64")
    declared.declare_meta("label", "string", fill="")
    return declared


@pytest.mark.parametrize("precision", [None, 0.25])
@pytest.mark.parametrize("size", [1, 4, 40])
def test_the_same_bytes_as_one_by_one(tmp_path, size, precision):
    frames = [ragged(i) for i in range(40)]
    settings = {"precision": None if precision is None else {"atoms.x": precision}}
    with TrajectoryWriter(tmp_path / "one.mrec", schema(), **settings) as writer:
        for i, frame in enumerate(frames):
            writer.append(frame, i * i, i / 8)
    with TrajectoryWriter(tmp_path / "many.mrec", schema(), **settings) as writer:
        for at in range(0, 40, size):
            part = range(at, min(at + size, 40))
            writer.extend(
                FrameStack.from_frames(frames[at : at + size]), [i * i for i in part], [i / 8 for i in part]
            )
    assert tree(tmp_path / "many.mrec") == tree(tmp_path / "one.mrec")


def test_frames_of_equal_size_need_no_counts(tmp_path):
    """A stack of (n_frames, rows) columns; what goes past the buffers of the writer is landed on the way."""
    x = np.arange(3000 * 100, dtype=float).reshape(3000, 100)
    names = np.full((3000, 100), "Cl")
    with TrajectoryWriter(tmp_path / "a.mrec") as writer:
        writer.extend(FrameStack(3000, {"atoms": {"x": x, "y": x, "z": -x, "name": names}}))
        assert len(writer) == 3000
    with open_record(tmp_path / "a.mrec") as record:
        reader = record.trajectory
        assert np.array_equal(reader.read("atoms", ["x", "y", "z"]), np.stack([x, x, -x], axis=-1))
        assert set(reader[2999]["atoms"]["name"]) == {"Cl"}
        assert reader.steps.tolist() == list(range(3000))


def test_still_frames_are_no_updates(tmp_path):
    still = np.tile([1.0, 2.0], (5, 1))
    still[3] += 1
    with TrajectoryWriter(tmp_path / "a.mrec") as writer:
        writer.extend(FrameStack(5, {"atoms": {"x": still}}))
        writer.extend(FrameStack(2, {"atoms": {"x": np.tile([1.0, 2.0], (2, 1))}}))
    with open_record(tmp_path / "a.mrec") as record:
        assert record.trajectory.updates("atoms").tolist() == [0, 3, 4]
        assert [f["atoms"]["x"].tolist() for f in record.trajectory] == [*still.tolist(), [1, 2], [1, 2]]


def test_flush_every_and_the_first_frame(tmp_path):
    with TrajectoryWriter(tmp_path / "a.mrec", flush_every=3) as writer:
        writer.extend(FrameStack(0, {}))
        assert len(writer) == 0
        writer.extend(FrameStack(2, {"atoms": {"x": np.ones((2, 1))}}))
        assert writer.committed == 0
        writer.extend(FrameStack(2, {"atoms": {"x": np.ones((2, 1))}}))
        assert writer.committed == len(writer) == 4


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"blocks": {"atoms": {"x": np.zeros((3, 2), np.int64)}}}, "column_type"),
        ({"blocks": {"bonds": {"x": np.zeros((3, 2))}}}, "undeclared_block"),
        ({"blocks": {"atoms": {"x": np.zeros((3, 2)), "y": np.zeros((3, 2))}}}, "undeclared_column"),
        ({"meta": [{}, {"pe": 1.0}, {"pe": 1}]}, "missing_meta"),
        ({"meta": [{"pe": 1.0}, {"pe": 1.0}, {"pe": "one"}]}, "meta_value"),
        ({"meta": [{"pe": 1.0}, {"pe": 1.0, "ke": 1.0}, {"pe": 1.0}]}, "undeclared_meta"),
        ({"boxes": [None, CELL, Box(np.eye(3), cell_defined=False)]}, "cell_defined"),
        ({"steps": [7, 9, 8]}, "step_order"),
        ({"steps": [1, 2, 3]}, "step_order"),
        ({"steps": [7, 8]}, "stack"),
        ({"steps": None}, "step_given"),
        ({"times": [0.0, 1.0, 2.0]}, "time_presence"),
    ],
)  # fmt: skip
def test_a_refused_stack_takes_nothing(tmp_path, change, kind):
    declared = SequenceSchema()
    declared.declare_block("atoms", {"x": "f64"})
    declared.declare_meta("pe", "f64")
    with TrajectoryWriter(tmp_path / "a.mrec", declared) as writer:
        writer.append(Frame({"atoms": {"x": [1.0]}}, meta={"pe": 0.5}), 5)
        given = {
            "blocks": {"atoms": {"x": np.zeros((3, 2))}},
            "meta": [{"pe": 1.0}] * 3,
            "steps": [7, 8, 9],
        } | change
        steps, times = given.pop("steps"), given.pop("times", None)
        with pytest.raises(SchemaError) as caught:
            writer.extend(FrameStack(3, **given), steps, times)
        assert caught.value.problems[0].kind == kind
        assert len(writer) == 1
        writer.append(Frame({"atoms": {"x": [2.0]}}, meta={"pe": 0.5}), 6)
    with open_record(tmp_path / "a.mrec") as record:
        assert [f["atoms"]["x"].tolist() for f in record.trajectory] == [[1.0], [2.0]]


def test_a_refused_first_stack_pins_nothing(tmp_path):
    with TrajectoryWriter(tmp_path / "a.mrec") as writer:
        with pytest.raises(SchemaError, match="pe"):
            writer.extend(FrameStack(2, {"atoms": {"x": np.zeros((2, 1))}}, meta=[{"pe": 1.0}, {}]))
        assert writer.schema is None
        assert not (tmp_path / "a.mrec" / "trajectory").exists()
        writer.append(Frame({"ions": {"y": [1.0]}}))
    with open_record(tmp_path / "a.mrec") as record:
        assert list(record.trajectory[0]) == ["ions"]


def test_a_stack_says_what_it_holds():
    stack = FrameStack(2, {"atoms": {"x": np.zeros((2, 3))}, "bonds": {"atomi": np.zeros((2, 1), np.uint64)}})
    assert repr(stack) == "FrameStack(2 frames: atoms[6], bonds[2])"


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"blocks": {"atoms": {"x": np.zeros(6)}}}, "stack"),
        ({"blocks": {"atoms": {"x": np.zeros((2, 3))}}}, "stack"),
        ({"blocks": {"atoms": {}}}, "stack"),
        ({"blocks": {"atoms": {"x": np.zeros(6)}}, "counts": {"atoms": [1, 2]}}, "stack"),
        ({"blocks": {"atoms": {"x": np.zeros(6)}}, "counts": {"atoms": [1, 2, -2]}}, "stack"),
        ({"blocks": {"atoms": {"x": np.zeros(6)}}, "counts": {"atoms": [1, 2, 2]}}, "row_count_mismatch"),
        ({"blocks": {}, "counts": {"atoms": [1, 2, 2]}}, "stack"),
        ({"blocks": {}, "boxes": [None]}, "stack"),
        ({"blocks": {"__a": {"x": np.zeros((3, 1))}}}, "bad_name"),
        ({"blocks": {"a": {"__x": np.zeros((3, 1))}}}, "bad_name"),
        ({"blocks": {"a": {"x": np.zeros((3, 1), np.float16)}}}, "dtype"),
        ({"blocks": {"a": {"x": np.zeros((3, 1))}}, "validity": {"a": {"x": np.zeros(2, bool)}}}, "mask_length"),
    ],
)  # fmt: skip
def test_stacks_that_cannot_be(given, kind):
    with pytest.raises(SchemaError) as caught:
        FrameStack(3, **given)
    assert caught.value.problems[0].kind == kind


def test_stack_of_frames_with_other_columns():
    with pytest.raises(SchemaError, match="atoms"):
        FrameStack.from_frames([Frame({"atoms": {"x": [1.0]}}), Frame({"atoms": {"y": [1.0]}})])


def test_rules_between_blocks(tmp_path):
    """Aligned blocks, row references and the system's rows are asked of each frame of a stack."""
    declared = SequenceSchema()
    declared.declare_block("atoms", {"x": "f64"})
    declared.declare_block("names", {"element": "string"})
    declared.declare_aligned("names", "atoms")
    declared.declare_block("bonds", {"atom_i": "u64"})
    declared.declare_target("bonds", "atom_i", "atoms")
    x, names = np.arange(5.0), np.array(["C"] * 5)
    with TrajectoryWriter(tmp_path / "a.mrec", declared) as writer:
        both = {"atoms": {"x": x}, "names": {"element": names}}
        counts = {"atoms": [2, 3], "names": [2, 3]}
        bonds = {"bonds": {"atom_i": np.array([1, 2], np.uint64)}}
        with pytest.raises(SchemaError, match="row 2 of 'atoms', which has 2 rows"):
            writer.extend(FrameStack(2, both | bonds, counts=counts | {"bonds": [2, 0]}))
        with pytest.raises(SchemaError, match="aligned"):
            writer.extend(FrameStack(2, both, counts={"atoms": [2, 3], "names": [3, 2]}))
        writer.extend(FrameStack(2, both | bonds, counts=counts | {"bonds": [0, 2]}))
        # Fewer atoms now than the bonds that carry forward refer to.
        with pytest.raises(SchemaError, match="row 2"):
            writer.extend(FrameStack(1, {"atoms": {"x": x[None, :2]}, "names": {"element": names[None, :2]}}))
        assert len(writer) == 2
    system = Frame({"atoms": {"id": np.array([1, 2], np.uint64)}})
    with TrajectoryWriter(tmp_path / "b.mrec", system=system) as writer:
        writer.extend(FrameStack(2, {"atoms": {"x": x[:4].reshape(2, 2)}}))
        with pytest.raises(SchemaError, match="3 rows"):
            writer.extend(FrameStack(2, {"atoms": {"x": x}}, counts={"atoms": [2, 3]}))
