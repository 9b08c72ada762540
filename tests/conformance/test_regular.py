"""Checklist group G: a regular block costs no index."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    EYE,
    arrays,
    attributes,
    changed,
    read,
    replace_array,
    set_attributes,
    stored,
    u64,
    unreadable,
    write,
)
from molrec_core import Block, Box, Frame, SequenceSchema, open_record

MARKERS = {"uniform_rows", "dense_updates"}


def x(*values):
    return Frame({"atoms": {"x": np.array(values, float)}})


def moving(n):
    return [x(float(i), float(i + 1)) for i in range(n)]


def updates(record, block="atoms"):
    with open_record(record) as found:
        return found.trajectory.updates(block).tolist()


def test_G01_markers_in_place_of_an_index(tmp_path):
    frames = [Frame({"atoms": f["atoms"], "bonds": {"atomi": u64(0)}}) for f in moving(3)]
    record = write(tmp_path, frames)
    assert attributes(record, "trajectory/atoms") == {"uniform_rows": 2, "dense_updates": True}
    assert arrays(record, "trajectory/atoms") == ["x"]
    assert attributes(record, "trajectory/bonds") == {"uniform_rows": 1, "dense_updates": True}
    assert arrays(record, "trajectory/bonds") == ["atomi"]
    assert read(record)[0] == frames


def test_G02_markers_never_ride_beside_an_index(tmp_path):
    frames = [x(1.0, 2.0), x(1.0, 2.0, 3.0)]
    record = write(tmp_path, frames)
    assert MARKERS.isdisjoint(attributes(record, "trajectory/atoms"))
    assert arrays(record, "trajectory/atoms") == ["offset", "step_index", "x"]
    assert stored(record, "trajectory/atoms/step_index").tolist() == [0, 1]
    assert stored(record, "trajectory/atoms/offset").tolist() == [0, 2, 5]


def test_G02_a_break_takes_back_markers_that_are_on_disk(tmp_path):
    frames = [*moving(3), x(1.0)]
    record = write(tmp_path, frames, flush_every=1)
    assert MARKERS.isdisjoint(attributes(record, "trajectory/atoms"))
    assert stored(record, "trajectory/atoms/offset").tolist() == [0, 2, 4, 6, 7]
    assert read(record)[0] == frames


def test_G03_updates_follow_from_the_shortest_column(tmp_path):
    def frame(i):
        return Frame({"atoms": {"x": [i, i], "y": [i, -i]}})

    record = write(tmp_path, [frame(float(i)) for i in range(4)])
    for name, rows in (("x", 8), ("y", 5)):
        with changed(record, f"trajectory/atoms/{name}") as found:
            found["shape"] = [rows]
    assert updates(record) == [0, 1]
    assert read(record)[0] == [frame(0.0), frame(1.0), frame(1.0), frame(1.0)]


def test_G03_updates_are_bound_by_nstep(tmp_path):
    record = write(tmp_path, moving(4))
    set_attributes(record, "trajectory", nstep=2)
    assert updates(record) == [0, 1]
    assert read(record)[0] == moving(2)


def test_G03_zero_updates_is_absent(tmp_path):
    record = write(tmp_path, moving(2))
    with changed(record, "trajectory/atoms/x") as found:
        found["shape"] = [1]
    assert updates(record) == []
    assert read(record)[0] == [Frame(), Frame()]


def test_G03_carries_forward_without_bound(tmp_path):
    record = write(tmp_path, moving(2))
    set_attributes(record, "trajectory", nstep=7, step_progression={"start": 0, "stride": 1})
    assert read(record)[0] == [*moving(2), *moving(2)[-1:] * 5]


@pytest.mark.parametrize(
    ("rows", "dense"),
    [
        (1, None),
        (None, True),
        (0, True),
        (-1, True),
        (1.0, True),
        (True, True),
        ("1", True),
        (1, False),
        (1, 1),
        (1, "true"),
    ],
)
def test_G04_half_an_elision(tmp_path, rows, dense):
    record = write(tmp_path, moving(2))
    set_attributes(record, "trajectory/atoms", uniform_rows=rows, dense_updates=dense)
    with unreadable("elision_markers", "trajectory/atoms"):
        read(record)


def test_G04_markers_on_a_block_without_columns(tmp_path):
    record = write(tmp_path, [Frame({"ghost": Block(count=3)})])
    assert read(record)[0] == [Frame({"ghost": Block(count=3)})]
    set_attributes(record, "trajectory/ghost", uniform_rows=3, dense_updates=True)
    for name in ("step_index", "offset"):
        (record / "trajectory/ghost" / name / "zarr.json").unlink()
    with unreadable("elision_markers", "trajectory/ghost"):
        read(record)


@pytest.mark.parametrize(
    "markers", [{"uniform_rows": 2, "dense_updates": True}, {"dense_updates": True}, {"uniform_rows": 99}]
)
def test_G05_arrays_win_over_markers(tmp_path, markers):
    frames = [x(1.0, 2.0), x(1.0, 2.0, 3.0)]
    record = write(tmp_path, frames)
    set_attributes(record, "trajectory/atoms", **markers)
    assert read(record)[0] == frames


def test_G06_neither_markers_nor_index(tmp_path):
    record = write(tmp_path, moving(2))
    set_attributes(record, "trajectory/atoms", uniform_rows=None, dense_updates=None)
    assert read(record)[0] == [Frame(), Frame()]
    assert updates(record) == []


ATOMS = SequenceSchema().declare_block("atoms", {"x": "f64"})
IRREGULAR = {
    "zero rows first": ([x(), x(1.0)], [0, 1], [0, 0, 1]),
    "row count changes": ([x(1.0), x(1.0, 2.0)], [0, 1], [0, 1, 3]),
    "a gap": ([x(1.0), Frame(), x(2.0)], [0, 2], [0, 1, 2]),
    "an unchanged frame is a gap": ([x(1.0), x(1.0), x(2.0)], [0, 2], [0, 1, 2]),
    "late": ([Frame(), x(1.0)], [1], [0, 1]),
    "emptied": ([x(1.0), x()], [0, 1], [0, 1, 1]),
}


@pytest.mark.parametrize("case", IRREGULAR)
@pytest.mark.parametrize("flush_every", [None, 1])
def test_G07_what_is_not_regular_keeps_an_index(tmp_path, case, flush_every):
    frames, step_index, offset = IRREGULAR[case]
    record = write(tmp_path, frames, schema=ATOMS, flush_every=flush_every)
    assert MARKERS.isdisjoint(attributes(record, "trajectory/atoms"))
    assert stored(record, "trajectory/atoms/step_index").tolist() == step_index
    assert stored(record, "trajectory/atoms/offset").tolist() == offset


def test_G07_block_without_columns_keeps_an_index(tmp_path):
    frames = [Frame({"ghost": Block(count=n)}) for n in (3, 3, 5)]
    record = write(tmp_path, frames)
    assert stored(record, "trajectory/ghost/step_index").tolist() == [0, 2]
    assert stored(record, "trajectory/ghost/offset").tolist() == [0, 3, 8]
    assert read(record)[0] == frames


def test_G08_the_common_run_is_one_array(tmp_path):
    frames = [Frame({"atoms": {"x": [i, i + 1.0]}}, box=Box(4 * EYE)) for i in range(3)]
    record = write(tmp_path, frames, steps=[0, 10, 20], times=[0.0, 0.25, 0.5])
    assert arrays(record, "trajectory") == ["atoms/x"]
    assert attributes(record, "trajectory").keys() == {
        "sequence_schema", "nstep", "step_progression", "time_progression",
    }  # fmt: skip
    found, steps, times, _ = read(record)
    assert found == frames
    assert steps.tolist() == [0, 10, 20]
    assert times.tolist() == [0.0, 0.25, 0.5]


def test_regular_block_reads_the_same_with_an_index(tmp_path):
    """Elision is a saving, not another meaning: the same updates with arrays give the same frames."""
    record = write(tmp_path, moving(5))
    replace_array(record, "trajectory/atoms/step_index", u64(0, 1, 2, 3, 4))
    replace_array(record, "trajectory/atoms/offset", u64(0, 2, 4, 6, 8, 10))
    set_attributes(record, "trajectory/atoms", uniform_rows=None, dense_updates=None)
    assert read(record)[0] == moving(5)
