"""Checklist group S: step numbers and times."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.records import (
    attributes,
    nodes,
    read,
    refuse_last,
    replace_array,
    set_attributes,
    stored,
    unreadable,
    unwritable,
    write,
)
from molrec_core import Frame, TrajectoryWriter, open_record, write_mrec_trajectory


def frames(n):
    return [Frame({"atoms": {"x": [float(i)]}}) for i in range(n)]


def progression(record, name):
    return attributes(record, "trajectory").get(f"{name}_progression")


def series_arrays(record):
    return [node for node in nodes(record, "trajectory") if node in {"step", "time"}]


def test_S01_step_numbers_and_times(tmp_path):
    record = write(tmp_path, frames(3), steps=[0, 5, 10], times=[0.0, 0.5, 1.0])
    _, steps, times, _ = read(record)
    assert steps.dtype == np.int64
    assert steps.tolist() == [0, 5, 10]
    assert times.dtype == np.float64
    assert times.tolist() == [0.0, 0.5, 1.0]


def test_S02_progressions_are_attributes(tmp_path):
    record = write(tmp_path, frames(3), steps=[0, 10, 20], times=[0.0, 0.25, 0.5])
    assert progression(record, "step") == {"start": 0, "stride": 10}
    assert progression(record, "time") == {"start": 0.0, "stride": 0.25}
    assert series_arrays(record) == []


def test_S02_steps_by_default(tmp_path):
    record = write(tmp_path, frames(3))
    assert progression(record, "step") == {"start": 0, "stride": 1}
    assert progression(record, "time") is None
    assert read(record)[2] is None


def test_S03_one_frame_has_no_stride(tmp_path):
    record = write(tmp_path, frames(1), steps=[7], times=[0.5])
    assert progression(record, "step") == {"start": 7}
    assert progression(record, "time") == {"start": 0.5}
    assert read(record)[1].tolist() == [7]
    assert read(record)[2].tolist() == [0.5]


def test_S03_zero_frames_have_neither(tmp_path):
    record = write(tmp_path, [])
    assert progression(record, "step") is progression(record, "time") is None
    assert series_arrays(record) == []


def test_S04_integers_are_exact(tmp_path):
    values = [-(2**63), -(2**63) + (2**62 + 1), -(2**63) + 2 * (2**62 + 1)]
    record = write(tmp_path, frames(3), steps=values)
    assert progression(record, "step") == {"start": values[0], "stride": 2**62 + 1}
    assert read(record)[1].tolist() == values


def test_S04_times_bit_for_bit_without_fused_multiply_add(tmp_path):
    start, stride = 0.1, 0.7
    values = [start + float(i) * stride for i in range(50)]
    stride = values[1] - values[0]
    values = [start + float(i) * stride for i in range(50)]
    record = write(tmp_path, frames(50), times=values)
    assert progression(record, "time") == {"start": start, "stride": stride}
    assert read(record)[2].tobytes() == np.array(values).tobytes()


def test_S04_an_accumulated_time_goes_to_the_array(tmp_path):
    values, now = [], 0.0
    for _ in range(20):
        values.append(now)
        now += 0.1
    assert any(v != 0.1 * i for i, v in enumerate(values))
    record = write(tmp_path, frames(20), times=values)
    assert progression(record, "time") is None
    assert stored(record, "trajectory/time").tobytes() == np.array(values).tobytes()
    assert read(record)[2].tobytes() == np.array(values).tobytes()


@pytest.mark.parametrize(
    "values",
    [
        [math.nan],
        [0.0, math.inf],
        [0.0, 1.0, math.nan],
        [-math.inf, 0.0],
        [-1.7e308, 1.7e308],
        [0.0, 1.0, -0.0],
        [1.0, 0.0, -1.0, -2.0000000000000004],
    ],
)
def test_S04_what_no_progression_expresses(tmp_path, values):
    record = write(tmp_path, frames(len(values)), times=values)
    assert progression(record, "time") is None
    assert stored(record, "trajectory/time").tobytes() == np.array(values).tobytes()
    assert read(record)[2].tobytes() == np.array(values).tobytes()


@pytest.mark.parametrize(
    "values", [[-0.0], [-0.0, 1.0], [0.0, -0.0], [5.0, 5.0, 5.0], [1e300, 2e300], [3.0, 1.0, -1.0]]
)
def test_S04_signed_zero_and_constant_times_survive(tmp_path, values):
    record = write(tmp_path, frames(len(values)), times=values)
    assert read(record)[2].tobytes() == np.array(values).tobytes()


def test_S05_irregular_series_are_arrays(tmp_path):
    times = [0.0, 0.1, 0.30000000000000004 + 1e-9]
    record = write(tmp_path, frames(3), steps=[0, 1, 5], times=times)
    assert progression(record, "step") is progression(record, "time") is None
    step, time = stored(record, "trajectory/step"), stored(record, "trajectory/time")
    assert (step.dtype, step.tolist()) == (np.int64, [0, 1, 5])
    assert (time.dtype, time.tolist()) == (np.float64, times)
    assert read(record)[1].tolist() == [0, 1, 5]
    assert read(record)[2].tolist() == times


@pytest.mark.parametrize("flush_every", [None, 1])
def test_S05_a_late_break_backfills_the_history(tmp_path, flush_every):
    steps = [*range(0, 40, 4), 37, 1000]
    times = [0.5 * i for i in range(11)] + [99.0]
    record = write(tmp_path, frames(12), steps=steps, times=times, flush_every=flush_every)
    assert stored(record, "trajectory/step").tolist() == steps
    assert stored(record, "trajectory/time").tolist() == times
    assert progression(record, "step") is progression(record, "time") is None


def test_S06_duplicate_step(tmp_path):
    refuse_last(tmp_path, frames(2), "step_order", "trajectory/step", steps=[4, 4])


@pytest.mark.parametrize("second", [3, -1])
def test_S16_decreasing_step(tmp_path, second):
    refuse_last(tmp_path, frames(2), "step_order", "trajectory/step", steps=[4, second])


def test_S07_time_gained_midway(tmp_path):
    refuse_last(tmp_path, frames(2), "time_presence", "trajectory/time", times=[None, 0.5])


def test_S08_time_dropped_midway(tmp_path):
    refuse_last(tmp_path, frames(2), "time_presence", "trajectory/time", times=[0.0, None])


@pytest.mark.parametrize(("first", "second"), [(None, 0.5), (0.0, None)], ids=["S07", "S08"])
def test_S07_S08_hold_after_a_reopen(tmp_path, first, second):
    record = write(tmp_path, frames(1), times=[first])
    with TrajectoryWriter.reopen(record) as writer, unwritable("time_presence", "trajectory/time"):
        writer.append(frames(1)[0], time=second)


@pytest.mark.parametrize("series", [{"steps": [0, 1]}, {"times": [0.0]}, {"steps": [0, 1, 2, 3]}])
def test_S09_series_of_another_length(tmp_path, series):
    with unwritable("series_length", "trajectory"):
        write_mrec_trajectory(tmp_path / "run.mrec", frames(3), **series)
    assert not (tmp_path / "run.mrec").exists()


@pytest.mark.parametrize("steps", [[0, 5, 5], [0, 5, 4], [3, 2, 9]])
def test_S10_stored_steps_increase_strictly(tmp_path, steps):
    record = write(tmp_path, frames(3), steps=[0, 1, 5])
    replace_array(record, "trajectory/step", np.array(steps, np.int64))
    with unreadable("step_order", "trajectory/step"):
        read(record)


@pytest.mark.parametrize("name", ["step", "time"])
def test_S10_series_shorter_than_nstep(tmp_path, name):
    record = write(tmp_path, frames(3), steps=[0, 1, 5], times=[0.0, 1.0, 5.0])
    values = stored(record, f"trajectory/{name}")
    replace_array(record, f"trajectory/{name}", values[:2])
    with unreadable("array_short", f"trajectory/{name}"):
        read(record)
    replace_array(record, f"trajectory/{name}", np.append(values, values[:1]))
    assert len(read(record)[1]) == 3


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("step", np.array([0.0, 1.0, 5.0])),
        ("step", np.array([0, 1, 5], np.int32)),
        ("step", np.array([0, 1, 5], np.uint64)),
        ("time", np.array([0.0, 1.0, 5.0], np.float32)),
        ("time", np.array([0, 1, 5])),
        ("time", np.array([[0.0], [1.0], [5.0]])),
    ],
)
def test_S10_series_of_another_dtype(tmp_path, name, values):
    record = write(tmp_path, frames(3), steps=[0, 1, 5], times=[0.0, 1.0, 5.0])
    replace_array(record, f"trajectory/{name}", values)
    with unreadable("series_dtype", f"trajectory/{name}"):
        read(record)


@pytest.mark.parametrize("name", ["step", "time"])
@pytest.mark.parametrize(
    "value",
    [
        [0, 1],
        0,
        "0",
        {},
        {"stride": 1},
        {"start": 0},
        {"start": "0", "stride": 1},
        {"start": True, "stride": 1},
    ],
)
def test_S11_malformed_progression(tmp_path, name, value):
    record = write(tmp_path, frames(3), times=[0.0, 1.0, 2.0])
    set_attributes(record, "trajectory", **{f"{name}_progression": value})
    with unreadable("progression", "trajectory"):
        read(record)


def test_S11_one_frame_needs_no_stride(tmp_path):
    record = write(tmp_path, frames(1), steps=[3])
    assert read(record)[1].tolist() == [3]


@pytest.mark.parametrize("name", ["step", "time"])
def test_S12_progression_without_the_marker(tmp_path, name):
    record = write(tmp_path, frames(3), steps=[0, 1, 5], times=[0.0, 1.0, 5.0])
    set_attributes(record, "trajectory", nstep=None)
    assert len(read(record)[0]) == 3
    set_attributes(record, "trajectory", **{f"{name}_progression": {"start": 0, "stride": 1}})
    with unreadable("progression_without_nstep", "trajectory"):
        read(record)


def test_S13_no_step_series_at_all(tmp_path):
    record = write(tmp_path, frames(3))
    set_attributes(record, "trajectory", step_progression=None)
    with unreadable("step_missing", "trajectory"):
        read(record)


def test_S14_attribute_wins_over_array(tmp_path):
    record = write(tmp_path, frames(3), steps=[0, 10, 20], times=[0.0, 0.5, 1.0])
    replace_array(record, "trajectory/step", np.array([9, 8, 7], np.int64))
    replace_array(record, "trajectory/time", np.array([9.0, 8.0, 7.0]))
    _, steps, times, _ = read(record)
    assert steps.tolist() == [0, 10, 20]
    assert times.tolist() == [0.0, 0.5, 1.0]


def test_S14_reopening_removes_the_array_beside_its_attribute(tmp_path):
    record = write(tmp_path, frames(3), steps=[0, 10, 20], times=[0.0, 0.5, 1.0])
    replace_array(record, "trajectory/step", np.array([9, 8, 7], np.int64))
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(frames(1)[0], step=30, time=1.5)
    assert series_arrays(record) == []
    assert read(record)[1].tolist() == [0, 10, 20, 30]


def test_S15_zero_frames_with_times_read_without(tmp_path):
    record = write(tmp_path, frames(2), times=[0.0, 1.0])
    TrajectoryWriter.reopen(record, after_step=-1).close()
    assert attributes(record, "trajectory").keys() == {"sequence_schema", "nstep"}
    assert read(record)[2] is None


@pytest.mark.parametrize(
    "value",
    [
        {"start": 0, "stride": 0},
        {"start": 0, "stride": -1},
        {"start": 0.0, "stride": 1},
        {"start": 0, "stride": 1.0},
        {"start": 2**63, "stride": 1},
        {"start": 2**63 - 2, "stride": 1},
        {"start": -(2**63) - 1, "stride": 1},
    ],
)
def test_S17_step_progression_that_is_no_step_series(tmp_path, value):
    record = write(tmp_path, frames(3))
    set_attributes(record, "trajectory", step_progression=value)
    with unreadable("progression", "trajectory"):
        read(record)


def test_S17_the_last_step_that_fits(tmp_path):
    record = write(tmp_path, frames(3))
    set_attributes(record, "trajectory", step_progression={"start": 2**63 - 3, "stride": 1})
    assert read(record)[1].tolist() == [2**63 - 3, 2**63 - 2, 2**63 - 1]


def test_time_progression_takes_integers_and_any_stride(tmp_path):
    """Times need not increase: only steps do."""
    record = write(tmp_path, frames(3), times=[0.0, 1.0, 2.0])
    set_attributes(record, "trajectory", time_progression={"start": 4, "stride": -2})
    assert read(record)[2].tolist() == [4.0, 2.0, 0.0]
    set_attributes(record, "trajectory", time_progression={"start": 4, "stride": 10**400})
    with unreadable("progression", "trajectory"):
        read(record)


@pytest.mark.parametrize("step", [1.0, True, "1", 2**63, -(2**63) - 1])
def test_step_is_an_integer_of_64_bits(tmp_path, step):
    refuse_last(tmp_path, frames(1), "step_type", "trajectory/step", steps=[step])


@pytest.mark.parametrize("time", ["0", True, 2**53 + 1])
def test_time_is_exactly_a_binary64(tmp_path, time):
    refuse_last(tmp_path, frames(1), "meta_value", "trajectory/time", times=[time])


def test_steps_given_once_are_given_always(tmp_path):
    refuse_last(tmp_path, frames(2), "step_given", "trajectory/step", steps=[3, None])


def test_series_are_read_only(tmp_path):
    record = write(tmp_path, frames(3), times=[0.0, 1.0, 5.0])
    with open_record(record) as found:
        for series in (found.trajectory.steps, found.trajectory.times):
            with pytest.raises(ValueError, match="read-only"):
                series[0] = 7
