"""Checklist group C: sparse updates and the three states of a block."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    arrays,
    attributes,
    read,
    refuse_last,
    remove,
    replace_array,
    stored,
    u64,
    unreadable,
    write,
)
from molrec_core import Block, Frame, SequenceSchema, open_record


def atoms(n, start=0.0):
    return {"x": start + np.arange(n, dtype=float)}


def bonds(*pairs):
    left, right = zip(*pairs, strict=True) if pairs else ((), ())
    return {"atomi": u64(*left), "atomj": u64(*right)}


def schema():
    return (
        SequenceSchema()
        .declare_block("atoms", {"x": "f64"})
        .declare_block("bonds", {"atomi": "u64", "atomj": "u64"})
    )


def ragged(tmp_path):
    return write(tmp_path, [Frame({"atoms": atoms(n, i)}) for i, n in enumerate((3, 5, 4))])


def index(record, block):
    key = f"trajectory/{block}"
    return stored(record, f"{key}/step_index").tolist(), stored(record, f"{key}/offset").tolist()


def test_C01_ragged_frames(tmp_path):
    frames = [Frame({"atoms": atoms(n, i)}) for i, n in enumerate((3, 5, 4))]
    record = write(tmp_path, frames)
    assert index(record, "atoms") == ([0, 1, 2], [0, 3, 8, 12])
    assert stored(record, "trajectory/atoms/x").shape == (12,)
    assert read(record)[0] == frames


def test_C02_constant_block(tmp_path):
    frames = [Frame({"atoms": atoms(3, i), "bonds": bonds((0, 1), (1, 2))}) for i in range(4)]
    record = write(tmp_path, frames)
    assert read(record)[0] == frames
    assert stored(record, "trajectory/bonds/atomi").tolist() == [0, 1]
    with open_record(record) as found:
        assert list(found.trajectory.updates("bonds")) == [0]
        assert list(found.trajectory.updates("atoms")) == [0, 1, 2, 3]


def test_C03_block_appears_late(tmp_path):
    frames = [Frame({"atoms": atoms(3)}), Frame({"atoms": atoms(3, 1), "bonds": bonds((0, 1))})]
    record = write(tmp_path, frames, schema=schema())
    assert read(record)[0] == frames
    assert "bonds" not in read(record)[0][0]
    assert index(record, "bonds") == ([1], [0, 1])


def test_C04_omitted_block_carries_forward(tmp_path):
    first = Frame({"atoms": atoms(3), "bonds": bonds((0, 1))})
    record = write(tmp_path, [first, Frame({"atoms": atoms(3, 1)}), Frame()])
    found = read(record)[0]
    assert [frame["bonds"] for frame in found] == [first["bonds"]] * 3
    assert [frame["atoms"]["x"][0] for frame in found] == [0.0, 1.0, 1.0]


def test_C05_zero_row_update_is_present_and_empty(tmp_path):
    frames = [Frame({"bonds": bonds(*pairs)}) for pairs in ([(0, 1), (1, 2)], [])]
    record = write(tmp_path, [*frames, Frame(), frames[0]])
    found = read(record)[0]
    assert [frame["bonds"].count for frame in found] == [2, 0, 0, 2]
    assert list(found[1]["bonds"]) == ["atomi", "atomj"]
    assert found[1]["bonds"]["atomi"].dtype == np.uint64
    assert found[2] == frames[1]
    assert index(record, "bonds") == ([0, 1, 3], [0, 2, 2, 4])
    with open_record(record) as opened:
        assert opened.trajectory.counts("bonds").tolist() == [2, 0, 0, 2]


def test_C05_emptied_and_absent_are_told_apart(tmp_path):
    frames = [Frame({"atoms": atoms(1)}), Frame({"bonds": bonds()}), Frame({"bonds": bonds((0, 1))})]
    record = write(tmp_path, frames, schema=schema())
    found = read(record)[0]
    assert ["bonds" in frame for frame in found] == [False, True, True]
    with open_record(record) as opened:
        assert opened.trajectory.counts("bonds").tolist() == [-1, 0, 1]


def test_C06_resolution_is_the_last_update_at_or_before(tmp_path):
    presented = {2: bonds((0, 1)), 5: bonds((0, 2), (1, 2)), 6: bonds((2, 0))}
    frames = [
        Frame({"atoms": atoms(3, i)} | ({"bonds": presented[i]} if i in presented else {})) for i in range(9)
    ]
    record = write(tmp_path, frames, schema=schema())
    assert index(record, "bonds") == ([2, 5, 6], [0, 1, 3, 4])
    for i, frame in enumerate(read(record)[0]):
        before = [j for j in presented if j <= i]
        if before:
            assert frame["bonds"] == Block(presented[max(before)])
        else:
            assert "bonds" not in frame


def test_C07_no_tombstones(tmp_path):
    frames = [Frame({"bonds": bonds((0, 1))}), Frame(), Frame(), Frame({"bonds": bonds()}), Frame()]
    record = write(tmp_path, frames)
    assert [frame["bonds"].count for frame in read(record)[0]] == [1, 1, 1, 0, 0]
    assert index(record, "bonds") == ([0, 3], [0, 1, 1])


CHANGES = [
    pytest.param([1.0, 2.0], [1.0, 2.0], False, id="same"),
    pytest.param([1.0, 2.0], [1.0, 2.5], True, id="value"),
    pytest.param([1.0, 2.0], [1.0, 2.0, 3.0], True, id="count"),
    pytest.param([1.0, np.nan], [1.0, np.nan], False, id="repeated NaN"),
    pytest.param([1.0, 0.0], [1.0, -0.0], True, id="zero to minus zero"),
    pytest.param([], [], False, id="still empty"),
]


@pytest.mark.parametrize(("first", "second", "update"), CHANGES)
def test_C08_update_only_on_change(tmp_path, first, second, update):
    frames = [Frame({"b": {"q": np.array(values, float)}}) for values in (first, second)]
    record = write(tmp_path, frames)
    with open_record(record) as found:
        assert list(found.trajectory.updates("b")) == ([0, 1] if update else [0])
    assert read(record)[0] == frames


def test_C08_another_NaN_is_a_change(tmp_path):
    quiet, payload = (np.array([bits], np.uint64).view(float) for bits in (0x7FF8 << 48, (0x7FF8 << 48) + 1))
    record = write(tmp_path, [Frame({"b": {"q": values}}) for values in (quiet, payload, payload)])
    with open_record(record) as found:
        assert list(found.trajectory.updates("b")) == [0, 1]
        assert found.trajectory[2]["b"]["q"].tobytes() == payload.tobytes()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["H", "O"], ["H", "o"]),
        (np.array([1 + 2j, 0j]), np.array([1 + 2j, complex(0.0, -0.0)])),
        (np.array([1, 2], np.int8), np.array([1, 3], np.int8)),
        (np.array([True, False]), np.array([True, True])),
        (np.zeros((2, 3)), np.array([[0.0, 0, 0], [0, 0, 1]])),
    ],
    ids=["string", "complex", "integer", "bool", "trailing"],
)
def test_C08_change_of_every_kind(tmp_path, first, second):
    frames = [Frame({"b": {"q": values}}) for values in (first, first, second)]
    record = write(tmp_path, frames)
    with open_record(record) as found:
        assert list(found.trajectory.updates("b")) == [0, 2]
    assert read(record)[0] == frames


def test_C08_mask_alone_is_a_change(tmp_path):
    def frame(*mask):
        return Frame({"b": Block({"q": [1.0, 2.0]}, validity={"q": list(mask)})})

    frames = [frame(True, False), frame(True, False), frame(True, True), frame(False, True)]
    record = write(tmp_path, frames)
    with open_record(record) as found:
        assert list(found.trajectory.updates("b")) == [0, 2, 3]
    assert read(record)[0] == frames


def test_C08_change_below_the_quantum_is_none(tmp_path):
    q = 2.0**-10
    frames = [Frame({"atoms": {"x": np.array([0.125, -1.0]) + d}}) for d in (0.0, 0.4 * q, -0.4 * q, 0.6 * q)]
    record = write(tmp_path, frames, precision=1e-3)
    with open_record(record) as found:
        assert list(found.trajectory.updates("atoms")) == [0, 3]
        assert found.trajectory[3]["atoms"]["x"].tolist() == [0.125 + q, -1.0 + q]


def test_C08_one_changed_column_restates_the_block(tmp_path):
    frames = [Frame({"b": {"p": [1.0], "q": [value]}}) for value in (1.0, 2.0, 2.0)]
    record = write(tmp_path, frames)
    assert stored(record, "trajectory/b/p").tolist() == [1.0, 1.0]
    assert read(record)[0] == frames


@pytest.mark.parametrize("offset", [[0, 8, 3, 12], [0, 3, 12, 8], [0, 3, 8, 2]])
def test_C09_non_monotonic_offset(tmp_path, offset):
    record = ragged(tmp_path)
    assert [frame["atoms"].count for frame in read(record)[0]] == [3, 5, 4]
    replace_array(record, "trajectory/atoms/offset", u64(*offset))
    with unreadable("offset", "trajectory/atoms/offset"):
        read(record)


def test_C09_non_monotonic_offset_never_wraps(tmp_path):
    frames = [Frame({"atoms": atoms(2)}), Frame({"atoms": atoms(3)})]
    record = write(tmp_path, frames)
    replace_array(record, "trajectory/atoms/offset", u64(0, 5, 2))
    with open_record(record) as found, unreadable("offset", "trajectory/atoms/offset"):
        found.trajectory.counts("atoms")


def test_C10_offset_starts_at_zero(tmp_path):
    record = ragged(tmp_path)
    replace_array(record, "trajectory/atoms/offset", u64(1, 3, 8, 12))
    with unreadable("offset", "trajectory/atoms/offset"):
        read(record)


def test_C11_offset_too_short(tmp_path):
    record = ragged(tmp_path)
    replace_array(record, "trajectory/atoms/offset", u64(0, 3, 8))
    with unreadable("offset", "trajectory/atoms/offset"):
        read(record)


def test_C11_step_index_without_offset(tmp_path):
    record = ragged(tmp_path)
    remove(record, "trajectory/atoms/offset")
    with unreadable("missing_array", "trajectory/atoms/offset"):
        read(record)


def test_C11_offset_without_step_index_is_ignored(tmp_path):
    frames = [Frame({"atoms": atoms(2, i)}) for i in range(3)]
    record = write(tmp_path, frames)
    replace_array(record, "trajectory/atoms/offset", u64(0, 1, 2))
    assert read(record)[0] == frames


@pytest.mark.parametrize("step_index", [[0, 1, 1], [0, 2, 1], [1, 0, 2]])
def test_C12_step_index_ascends_strictly(tmp_path, step_index):
    record = ragged(tmp_path)
    replace_array(record, "trajectory/atoms/step_index", u64(*step_index))
    with unreadable("step_index", "trajectory/atoms/step_index"):
        read(record)


def test_C13_column_shorter_than_offset_says(tmp_path):
    record = ragged(tmp_path)
    replace_array(record, "trajectory/atoms/x", np.arange(11.0))
    with unreadable("array_short", "trajectory/atoms/x"):
        read(record)


@pytest.mark.parametrize("name", ["offset", "step_index"])
@pytest.mark.parametrize("dtype", ["i64", "u32", "two axes"])
def test_C14_index_is_u64(tmp_path, name, dtype):
    record = ragged(tmp_path)
    values = stored(record, f"trajectory/atoms/{name}")
    as_stored = {
        "i64": values.astype(np.int64),
        "u32": values.astype(np.uint32),
        "two axes": values[:, None],
    }[dtype]
    replace_array(record, f"trajectory/atoms/{name}", as_stored)
    with unreadable("index_dtype", f"trajectory/atoms/{name}"):
        read(record)


def test_C14_tail_past_the_committed_prefix(tmp_path):
    record = ragged(tmp_path)
    expected = read(record)[0]
    replace_array(record, "trajectory/atoms/step_index", u64(0, 1, 2, 3, 4, 2))
    replace_array(record, "trajectory/atoms/offset", u64(0, 3, 8, 12, 14, 13, 0))
    replace_array(record, "trajectory/atoms/x", np.append(stored(record, "trajectory/atoms/x"), [7.0, 8.0]))
    assert read(record)[0] == expected


def test_C15_worked_example(tmp_path):
    counts = [2, 2, 5, *range(6, 22)]

    def frame(i):
        n = counts[i]
        columns = atoms(n, i) | {"element": ["C"] * n, "mol_id": np.arange(n, dtype=np.uint64)}
        return Frame({"atoms": columns}, meta={"pe": -float(i)})

    frames = [frame(i) for i in range(19)]
    record = write(tmp_path, frames, steps=range(0, 190, 10), schema=SequenceSchema.from_frames(frames))
    step_index, offset = index(record, "atoms")
    assert offset[:4] == [0, 2, 4, 9]
    assert step_index == list(range(19))
    assert len(offset) == 20
    assert {"uniform_rows", "dense_updates"}.isdisjoint(attributes(record, "trajectory/atoms"))
    assert attributes(record, "trajectory")["step_progression"] == {"start": 0, "stride": 10}
    assert arrays(record, "trajectory") == [
        "atoms/element", "atoms/mol_id", "atoms/offset", "atoms/step_index", "atoms/x", "meta/pe",
    ]  # fmt: skip
    assert read(record)[0] == frames


def test_frame_that_is_refused_leaves_no_trace(tmp_path):
    """What is refused at append changes neither the frames before it nor those after it."""
    good, bad = Frame({"atoms": atoms(3)}), Frame({"atoms": {"x": np.arange(3, dtype=np.float64)[:, None]}})
    refuse_last(tmp_path, [good, good, bad], "column_type", "trajectory/atoms/x")
