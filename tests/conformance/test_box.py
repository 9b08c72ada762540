"""Checklist group B: the cell, of a frame and of a trajectory."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    arrays,
    attributes,
    changed,
    codecs,
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
from molrec_core import Box, Frame, TrajectoryWriter, open_record

TRICLINIC = [[1.0, 0.5, 0.0], [0.0, 0.8660254, 0.0], [0.0, 0.0, 1.0]]
"""Rows of the matrix; its columns are the lattice vectors (1,0,0), (.5,.8660254,0), (0,0,1)."""
EYE = np.eye(3)
BOX = "frame/box"
T, F = True, False


def frame_box(tmp_path, box):
    record = write_record(tmp_path, frame=Frame(box=box))
    return record, open_record(record).frame.box


def run_of(*boxes):
    """One moving atom, and the cell of each frame."""
    return [Frame({"atoms": {"x": [float(i)]}}, box=box) for i, box in enumerate(boxes)]


def boxes_of(record):
    return [frame.box for frame in read(record)[0]]


# -- frames


def test_B01_triclinic_box(tmp_path):
    box = Box(TRICLINIC, boundary=[T, T, F])
    record, found = frame_box(tmp_path, box)
    assert found == box
    assert found.vectors[:, 1].tolist() == [0.5, 0.8660254, 0.0]
    assert stored(record, f"{BOX}/vectors").tolist() == TRICLINIC
    assert (found.origin.tolist(), found.boundary.tolist(), found.cell_defined) == (
        [0.0, 0.0, 0.0],
        [T, T, F],
        True,
    )
    run = write(tmp_path, run_of(box), name="trajectory.mrec")
    assert boxes_of(run) == [box]
    assert attributes(run, "trajectory/box")["vectors"] == TRICLINIC


@pytest.mark.parametrize(
    ("box", "children", "own"),
    [
        (Box(EYE), ["vectors"], {}),
        (Box(EYE, origin=[1, 2, 3]), ["origin", "vectors"], {}),
        (Box(EYE, boundary=[T, F, T]), ["boundary", "vectors"], {}),
        (Box(EYE, origin=[0, 0, -0.0]), ["origin", "vectors"], {}),
        (Box(EYE, cell_defined=False), ["boundary", "vectors"], {"cell_defined": False}),
    ],
)
def test_B02_arrays_only_off_their_defaults(tmp_path, box, children, own):
    record, found = frame_box(tmp_path, box)
    assert found == box
    assert nodes(record, BOX) == children
    assert attributes(record, BOX) == own
    dtypes = {"vectors": np.float64, "origin": np.float64, "boundary": np.bool_}
    shapes = {"vectors": (3, 3), "origin": (3,), "boundary": (3,)}
    for name in children:
        values = stored(record, f"{BOX}/{name}")
        assert (values.dtype, values.shape) == (dtypes[name], shapes[name])


def test_B03_defaults(tmp_path):
    record, _ = frame_box(tmp_path, Box(2 * EYE, origin=[1, 2, 3], boundary=[T, F, F]))
    remove(record, f"{BOX}/boundary")
    assert open_record(record).frame.box == Box(2 * EYE, origin=[1, 2, 3])
    remove(record, f"{BOX}/origin")
    assert open_record(record).frame.box == Box(2 * EYE)


def test_B03_no_box_group(tmp_path):
    record, _ = frame_box(tmp_path, Box(EYE))
    remove(record, BOX)
    assert open_record(record).frame.box is None


def test_B03_box_without_vectors(tmp_path):
    record, _ = frame_box(tmp_path, Box(EYE))
    remove(record, f"{BOX}/vectors")
    with unreadable("box_shape", BOX):
        _ = open_record(record).frame


def test_B04_undefined_cell(tmp_path):
    box = Box(np.zeros((3, 3)), origin=[1, 2, 3], boundary=[F, F, F], cell_defined=False)
    record, found = frame_box(tmp_path, box)
    assert stored(record, f"{BOX}/vectors").tolist() == EYE.tolist()
    assert found.vectors.tolist() == EYE.tolist()
    assert (found.origin.tolist(), found.boundary.tolist(), found.cell_defined) == (
        [1.0, 2.0, 3.0],
        [F, F, F],
        False,
    )


def test_B05_undefined_cell_ignores_vectors(tmp_path):
    box = Box(EYE, origin=[1, 2, 3], cell_defined=False)
    record, _ = frame_box(tmp_path, box)
    replace_array(record, f"{BOX}/vectors", np.zeros((3, 3)))
    assert open_record(record).frame.box == box
    remove(record, f"{BOX}/vectors")
    assert open_record(record).frame.box == box


def test_B05_undefined_cell_ignores_vectors_of_a_trajectory(tmp_path):
    first, second = Box(EYE, cell_defined=False), Box(EYE, origin=[1, 0, 0], cell_defined=False)
    record = write(tmp_path, run_of(first, first, second))
    assert stored(record, "trajectory/box/step_index").tolist() == [0, 2]
    replace_array(record, "trajectory/box/vectors", np.zeros((2, 3, 3)))
    assert boxes_of(record) == [first, first, second]


def test_B06_undefined_cell_is_periodic_nowhere_by_default(tmp_path):
    assert Box(EYE, cell_defined=False).boundary.tolist() == [F, F, F]
    record, _ = frame_box(tmp_path, Box(EYE, cell_defined=False))
    remove(record, f"{BOX}/boundary")
    assert open_record(record).frame.box.boundary.tolist() == [F, F, F]
    run = write(tmp_path, run_of(Box(EYE, cell_defined=False)), name="trajectory.mrec")
    set_attributes(run, "trajectory/box", boundary=None)
    assert boxes_of(run)[0].boundary.tolist() == [F, F, F]


def test_B07_undefined_cell_with_a_periodic_axis(tmp_path):
    with unwritable("undefined_cell_periodic", "box"):
        Box(EYE, boundary=[F, F, T], cell_defined=False)
    record, _ = frame_box(tmp_path, Box(EYE, cell_defined=False))
    replace_array(record, f"{BOX}/boundary", np.array([F, F, T]))
    with unreadable("undefined_cell_periodic", BOX):
        _ = open_record(record).frame


def test_B07_undefined_cell_with_a_periodic_axis_in_a_trajectory(tmp_path):
    first, second = Box(EYE, cell_defined=False), Box(EYE, origin=[1, 0, 0], cell_defined=False)
    fixed = write(tmp_path, run_of(first), name="fixed.mrec")
    set_attributes(fixed, "trajectory/box", boundary=[F, T, F])
    with unreadable("undefined_cell_periodic", "trajectory/box"):
        read(fixed)
    changing = write(tmp_path, run_of(first, second))
    replace_array(changing, "trajectory/box/boundary", np.array([[F, F, F], [F, T, F]]))
    with unreadable("undefined_cell_periodic", "trajectory/box"):
        read(changing)


@pytest.mark.parametrize("flag", [0, 1, "false", None, []])
def test_B08_cell_defined_is_a_boolean(tmp_path, flag):
    frame = Frame({"atoms": {"x": [0.0]}}, box=Box(EYE))
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    for key in (BOX, "trajectory/box"):
        with changed(record, key) as node:
            node["attributes"]["cell_defined"] = flag
    with unreadable("cell_defined", BOX):
        _ = open_record(record).frame
    with unreadable("cell_defined", "trajectory/box"):
        _ = open_record(record).trajectory
    with unwritable("cell_defined", "box"):
        Box(EYE, cell_defined=flag)


PARTS = [
    ("vectors", np.zeros((3, 2))),
    ("vectors", np.zeros(3)),
    ("vectors", np.zeros((1, 3, 3))),
    ("vectors", np.eye(3, dtype=np.float32)),
    ("vectors", np.eye(3, dtype=bool)),
    ("vectors", np.full((3, 3), "1.0")),
    ("vectors", np.eye(3, dtype=complex)),
    ("origin", np.zeros(2)),
    ("origin", np.zeros((1, 3))),
    ("origin", np.zeros(3, np.float16)),
    ("origin", np.zeros(3, bool)),
    ("origin", np.array(["0"] * 3)),
    ("boundary", np.array([T, T])),
    ("boundary", np.array(T)),
    ("boundary", np.array([1, 1, 0])),
    ("boundary", np.array([1.0, 1.0, 0.0])),
    ("boundary", np.array([[T, T, T]])),
]


@pytest.mark.parametrize(("name", "values"), PARTS)
def test_B09_shapes_and_kinds(tmp_path, name, values):
    record, _ = frame_box(tmp_path, Box(EYE, origin=[1, 2, 3], boundary=[T, F, T]))
    replace_array(record, f"{BOX}/{name}", values)
    with unreadable("box_shape", f"{BOX}/{name}"):
        _ = open_record(record).frame
    with unwritable("box_shape", "box"):
        Box(**{"vectors": EYE, name: values})


def test_B09_box_is_a_box():
    with unwritable("box_shape", "box"):
        Frame(box=EYE)


@pytest.mark.parametrize("name", ["vectors", "origin", "boundary"])
def test_B09_group_in_place_of_an_array(tmp_path, name):
    record, _ = frame_box(tmp_path, Box(EYE, origin=[1, 2, 3], boundary=[T, F, T]))
    remove(record, f"{BOX}/{name}")
    make_group(record, f"{BOX}/{name}")
    with unreadable("node_type", f"{BOX}/{name}"):
        _ = open_record(record).frame


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64])
def test_B09_integers_are_exact_numbers(tmp_path, dtype):
    record, _ = frame_box(tmp_path, Box(EYE, origin=[1, 2, 3]))
    replace_array(record, f"{BOX}/vectors", 7 * np.eye(3, dtype=dtype))
    replace_array(record, f"{BOX}/origin", np.array([4, 5, 6], dtype))
    assert open_record(record).frame.box == Box(7 * EYE, origin=[4, 5, 6])
    assert Box(7 * np.eye(3, dtype=dtype), origin=np.array([4, 5, 6], dtype)) == Box(
        7 * EYE, origin=[4, 5, 6]
    )


@pytest.mark.parametrize("box", [Box(EYE), None])
def test_B09_array_in_place_of_the_box(tmp_path, box):
    record = write_record(tmp_path, frame=Frame(box=box))
    replace_array(record, BOX, EYE)
    with unreadable("node_type", BOX):
        _ = open_record(record).frame


CHANGING = (
    Box(EYE, origin=[1, 0, 0], boundary=[T, F, T]),
    Box(2 * EYE, origin=[1, 0, 0], boundary=[T, F, T]),
)


@pytest.mark.parametrize(("name", "values"), PARTS)
def test_B09_shapes_and_kinds_of_a_trajectory(tmp_path, name, values):
    record = write(tmp_path, run_of(*CHANGING))
    replace_array(record, f"trajectory/box/{name}", np.stack([values, values]))
    with unreadable("box_shape", f"trajectory/box/{name}"):
        _ = open_record(record).trajectory


def test_B09_integers_of_a_trajectory(tmp_path):
    record = write(tmp_path, run_of(*CHANGING))
    replace_array(record, "trajectory/box/vectors", np.stack([3 * np.eye(3, dtype=np.int32)] * 2))
    assert boxes_of(record)[1].vectors.tolist() == (3 * EYE).tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vectors", [1, 2, 3]),
        ("vectors", [[1, 0, 0], [0, 1, 0]]),
        ("vectors", [[1, 0, 0], [0, 1, 0], [0, 0]]),
        ("vectors", [[1, 0, 0], [0, 1, 0], [0, 0, "1"]]),
        ("vectors", [[True, False, False], [False, True, False], [False, False, True]]),
        ("vectors", "identity"),
        ("origin", [0, 0]),
        ("origin", [0, 0, None]),
        ("origin", 0),
        ("boundary", [True, True]),
        ("boundary", [1, 1, 0]),
        ("boundary", True),
    ],
)
def test_B09_attributes_of_a_fixed_cell(tmp_path, name, value):
    record = write(tmp_path, run_of(CHANGING[0]))
    set_attributes(record, "trajectory/box", **{name: value})
    with unreadable("box_shape", "trajectory/box"):
        _ = open_record(record).trajectory


# -- trajectories


def test_B10_fixed_cell(tmp_path):
    box = Box(np.diag([10.0, 10.0, 12.0]), boundary=[T, T, F])
    record = write(tmp_path, run_of(*[box] * 6))
    assert boxes_of(record) == [box] * 6
    assert nodes(record, "trajectory/box") == []


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        (Box(4 * EYE), {}),
        (Box(4 * EYE, origin=[0, 1, 0]), {"origin": [0.0, 1.0, 0.0]}),
        (Box(4 * EYE, boundary=[T, T, F]), {"boundary": [T, T, F]}),
        (Box(4 * EYE, origin=[0, -0.0, 0]), {"origin": [0.0, -0.0, 0.0]}),
    ],
)
def test_B11_fixed_cell_is_attributes(tmp_path, box, expected):
    record = write(tmp_path, run_of(box, box, None))
    own = attributes(record, "trajectory/box")
    assert own == {"vectors": (4 * EYE).tolist()} | expected
    assert str(own.get("origin")) == str(expected.get("origin"))
    assert arrays(record, "trajectory/box") == []
    assert boxes_of(record) == [box] * 3


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (Box(2 * EYE), ["step_index", "vectors"]),
        (Box(EYE, origin=[1, 0, 0]), ["origin", "step_index", "vectors"]),
        (Box(EYE, boundary=[T, F, T]), ["boundary", "step_index", "vectors"]),
    ],
)
def test_B12_changing_cell_is_arrays(tmp_path, second, expected):
    record = write(tmp_path, run_of(Box(EYE), None, second))
    assert arrays(record, "trajectory/box") == expected
    assert attributes(record, "trajectory/box") == {}
    assert boxes_of(record) == [Box(EYE), Box(EYE), second]
    index = stored(record, "trajectory/box/step_index")
    assert (index.dtype, index.tolist()) == (np.uint64, [0, 2])
    shapes = {
        "vectors": (np.float64, (2, 3, 3)),
        "origin": (np.float64, (2, 3)),
        "boundary": (np.bool_, (2, 3)),
    }
    for name in expected:
        if name != "step_index":
            values = stored(record, f"trajectory/box/{name}")
            assert (values.dtype, values.shape) == shapes[name]
            assert [codec["name"] for codec in codecs(record, f"trajectory/box/{name}")] == [
                "bytes",
                "gzip",
                "crc32c",
            ]


def test_B12_default_parts_come_late(tmp_path):
    """An origin that leaves its default at the third update is backfilled with zeros."""
    cells = [Box(EYE), Box(2 * EYE), Box(2 * EYE, origin=[1, 0, 0])]
    record = tmp_path / "run.mrec"
    with TrajectoryWriter(record, flush_every=1) as writer:
        for frame in run_of(*cells):
            writer.append(frame)
    assert stored(record, "trajectory/box/origin").tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert boxes_of(record) == cells


def test_B12_cell_that_comes_late_is_arrays(tmp_path):
    record = write(tmp_path, run_of(None, Box(EYE), None))
    assert stored(record, "trajectory/box/step_index").tolist() == [1]
    assert boxes_of(record) == [None, Box(EYE), Box(EYE)]


def test_B13_index_of_one_update(tmp_path):
    record = write(tmp_path, run_of(Box(EYE), Box(2 * EYE)))
    replace_array(record, "trajectory/box/vectors", 3 * EYE[None])
    remove(record, "trajectory/box/step_index")
    assert boxes_of(record) == [Box(3 * EYE)] * 2


def test_B14_undefined_cell_of_a_trajectory(tmp_path):
    first, second = Box(np.zeros((3, 3)), cell_defined=False), Box(EYE, origin=[1, 0, 0], cell_defined=False)
    record = write(tmp_path, run_of(first, None, second))
    assert attributes(record, "trajectory/box") == {"cell_defined": False}
    assert stored(record, "trajectory/box/step_index").tolist() == [0, 2]
    assert stored(record, "trajectory/box/vectors").tolist() == [EYE.tolist()] * 2
    found = boxes_of(record)
    assert [box.origin.tolist() for box in found] == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert all(box.vectors.tolist() == EYE.tolist() and not box.boundary.any() for box in found)
    assert not any(box.cell_defined for box in found)


def test_B14_fixed_undefined_cell(tmp_path):
    box = Box(EYE, origin=[1, 2, 3], cell_defined=False)
    record = write(tmp_path, run_of(box, box))
    assert attributes(record, "trajectory/box") == {
        "cell_defined": False,
        "vectors": EYE.tolist(),
        "origin": [1.0, 2.0, 3.0],
        "boundary": [F, F, F],
    }
    assert boxes_of(record) == [box, box]


def test_B15_identical_updates_are_dropped(tmp_path):
    record = write(tmp_path, run_of(Box(EYE), Box(2 * EYE), Box(2 * EYE), None, Box(EYE)))
    assert stored(record, "trajectory/box/step_index").tolist() == [0, 1, 4]
    assert boxes_of(record) == [Box(EYE), Box(2 * EYE), Box(2 * EYE), Box(2 * EYE), Box(EYE)]
    signed = write(tmp_path, run_of(Box(EYE), Box(EYE, origin=[-0.0, 0, 0])), name="signed.mrec")
    assert stored(signed, "trajectory/box/step_index").tolist() == [0, 1]
    assert np.signbit(boxes_of(signed)[1].origin[0])


def test_B16_a_frame_without_a_cell_carries_the_previous_one(tmp_path):
    """An update sits at the ordinal of its frame, so ordinals ascend by construction."""
    record = write(tmp_path, run_of(None, Box(EYE), None, Box(2 * EYE), None))
    assert boxes_of(record) == [None, Box(EYE), Box(EYE), Box(2 * EYE), Box(2 * EYE)]
    assert stored(record, "trajectory/box/step_index").tolist() == [1, 3]


def test_B17_step_index_ascends(tmp_path):
    record = write(tmp_path, run_of(Box(EYE), Box(2 * EYE), Box(3 * EYE)))
    for entries in ((0, 0, 1), (0, 2, 1), (1, 0, 2)):
        replace_array(record, "trajectory/box/step_index", u64(*entries))
        with unreadable("step_index", "trajectory/box/step_index"):
            read(record)


@pytest.mark.parametrize(
    "values", [np.array([0, 1], np.int64), np.array([0, 1], np.uint32), u64(0, 1).reshape(2, 1)]
)
def test_B17_step_index_is_u64(tmp_path, values):
    record = write(tmp_path, run_of(Box(EYE), Box(2 * EYE)))
    replace_array(record, "trajectory/box/step_index", values)
    with unreadable("index_dtype", "trajectory/box/step_index"):
        _ = open_record(record).trajectory


@pytest.mark.parametrize("name", ["vectors", "origin", "boundary"])
def test_B17_arrays_shorter_than_their_updates(tmp_path, name):
    record = write(tmp_path, run_of(*CHANGING))
    replace_array(record, f"trajectory/box/{name}", stored(record, f"trajectory/box/{name}")[:1])
    with unreadable("array_short", f"trajectory/box/{name}"):
        read(record)


def test_B17_entries_past_the_marker_are_ignored(tmp_path):
    record = write(tmp_path, run_of(Box(EYE), Box(2 * EYE), Box(3 * EYE)))
    set_attributes(record, "trajectory", nstep=2)
    assert boxes_of(record) == [Box(EYE), Box(2 * EYE)]
    replace_array(record, "trajectory/box/step_index", u64(0, 1, 7, 3))
    assert boxes_of(record) == [Box(EYE), Box(2 * EYE)]


def test_B18_no_committed_update_is_no_cell(tmp_path):
    record = write(tmp_path, run_of(Box(EYE), None))
    set_attributes(record, "trajectory/box", vectors=None)
    assert boxes_of(record) == [None, None]
    late = write(tmp_path, run_of(None, None, Box(EYE)), name="late.mrec")
    set_attributes(late, "trajectory", nstep=2)
    assert boxes_of(late) == [None, None]
    none = write(tmp_path, run_of(Box(EYE)), name="none.mrec")
    set_attributes(none, "trajectory", nstep=0, step_progression=None)
    reader = open_record(none).trajectory
    assert len(reader) == 0
    never = write(tmp_path, run_of(None), name="never.mrec")
    assert "box" not in nodes(never, "trajectory")
    assert boxes_of(never) == [None]


def test_B19_one_flag_covers_the_run(tmp_path):
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        first, second, third = run_of(Box(EYE), Box(EYE, cell_defined=False), Box(2 * EYE))
        writer.append(first)
        with unwritable("cell_defined", "trajectory/box"):
            writer.append(second)
        writer.append(third)
    with (
        TrajectoryWriter.reopen(tmp_path / "run.mrec") as writer,
        unwritable("cell_defined", "trajectory/box"),
    ):
        writer.append(second)
    assert boxes_of(tmp_path / "run.mrec") == [Box(EYE), Box(2 * EYE)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_B20_non_finite_cell_is_arrays(tmp_path, value):
    for box in (Box(np.diag([value, 1.0, 1.0])), Box(EYE, origin=[value, 0, 0])):
        record = write(tmp_path, run_of(box, box), overwrite=True)
        assert attributes(record, "trajectory/box") == {}
        assert stored(record, "trajectory/box/step_index").tolist() == [0]
        assert boxes_of(record) == [box, box]


def test_B20_minus_zero_is_not_the_default_origin(tmp_path):
    first = Box(EYE, origin=[-0.0, 0, 0])
    record = write(tmp_path, run_of(first, Box(2 * EYE, origin=[-0.0, 0, 0])))
    assert "origin" in arrays(record, "trajectory/box")
    assert np.signbit(boxes_of(record)[0].origin[0])
