"""Checklist group P: declared precision, in frames and in trajectories."""

from __future__ import annotations

import math
from fractions import Fraction

import numcodecs
import numpy as np
import pytest

from conformance.records import (
    attributes,
    changed,
    codecs,
    nodes,
    read,
    replace_array,
    set_attributes,
    stored,
    unreadable,
    unwritable,
    write,
    write_record,
)
from molrec_core import (
    Block,
    Box,
    ForceField,
    FormatError,
    Frame,
    SchemaError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    write_mrec,
    write_mrec_trajectory,
)
from molrec_core._change import rounded
from molrec_core._dtypes import quantum

Q = 2.0**-10
NAN, INF = math.nan, math.inf


def frame_of(values, precision=None, **columns):
    stated = {} if precision is None else {"x": precision}
    return Frame({"atoms": Block({"x": values, **columns}, precision=stated)})


def same_bits(left, right):
    return np.asarray(left, np.float64).tobytes() == np.asarray(right, np.float64).tobytes()


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        (1e-3, 2.0**-10),
        (1e-2, 2.0**-7),
        (0.5, 0.5),
        (0.75, 0.5),
        (1.0, 1.0),
        (2.0**-1000, 2.0**-1000),
        (2.0**1000, 2.0**1000),
    ],
)
def test_P01_quantum(tmp_path, precision, expected):
    assert quantum(precision) == expected
    values = np.array([3.0, 2.5, 1.5, -2.5]) * expected
    record = write_record(tmp_path, frame=frame_of(values, precision))
    assert stored(record, "frame/atoms/x").tolist() == [
        3 * expected,
        2 * expected,
        2 * expected,
        -2 * expected,
    ]


def test_P02_rounds_on_write(tmp_path):
    record = write_record(tmp_path, frame=frame_of([0.12345678, -1.00049, 2.718281828, 1e-5], 1e-3))
    expected = [126 * Q, -1025 * Q, 2784 * Q, 0.0]
    assert expected == [0.123046875, -1.0009765625, 2.71875, 0.0]
    assert same_bits(stored(record, "frame/atoms/x"), expected)
    assert same_bits(open_record(record).frame["atoms"]["x"], expected)


def test_P03_declaration_survives(tmp_path):
    frame = frame_of([0.0, 1.5, -3.25], 0.01, charge=[0.4, -0.8, 0.4])
    record = write_record(tmp_path, frame=frame)
    found = open_record(record).frame
    assert found == frame
    assert found["atoms"].precision == {"x": 0.01}
    assert "precision" not in attributes(record, "frame/atoms/charge")
    assert found["atoms"]["charge"].tolist() == [0.4, -0.8, 0.4]


EDGES = [NAN, INF, -INF, -0.0, -1e-4, 2.0**43 + 2.0**-9, 2.5 * Q, 3.5 * Q, -2.5 * Q]
EDGES_STORED = [NAN, INF, -INF, -0.0, -0.0, 2.0**43 + 2.0**-9, 2 * Q, 4 * Q, -2 * Q]


def test_P04_edge_values(tmp_path):
    frame = frame_of(EDGES, 1e-3)
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    assert same_bits(open_record(record).frame["atoms"]["x"], EDGES_STORED)
    assert same_bits(open_record(record).trajectory[0]["atoms"]["x"], EDGES_STORED)


def test_P04_a_quotient_that_overflows(tmp_path):
    largest = np.finfo(np.float64).max
    record = write_record(tmp_path, frame=frame_of([largest, -largest, 0.3, -1e-302, -0.0], 2.0**-1000))
    assert same_bits(open_record(record).frame["atoms"]["x"], [largest, -largest, 0.3, -0.0, -0.0])


def test_P05_shuffle_and_zstd_decode(tmp_path):
    values = np.cumsum(np.full(192, 0.0123456789))
    record = write_record(tmp_path, frame=frame_of(values, 1e-3))
    rounding = rounded(values, 1e-3)
    replace_array(record, "frame/atoms/x", rounding, chunks=(192,), compressors=None)
    with changed(record, "frame/atoms/x") as node:
        node["codecs"] += [
            {"name": "numcodecs.shuffle", "configuration": {"elementsize": 8}},
            {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
        ]
    chunk = record / "frame/atoms/x/c/0"
    chunk.write_bytes(
        numcodecs.Zstd(level=3).encode(numcodecs.Shuffle(elementsize=8).encode(chunk.read_bytes()))
    )
    found = open_record(record).frame["atoms"]
    assert same_bits(found["x"], rounding)
    assert found.precision == {"x": 1e-3}


def test_P06_reader_keeps_stored_values(tmp_path):
    record = write_record(tmp_path, frame=frame_of([0.0, 0.5, 1.0], 1e-3))
    replace_array(record, "frame/atoms/x", np.array([0.1, 0.2, 0.3]))
    found = open_record(record).frame["atoms"]
    assert found["x"].tolist() == [0.1, 0.2, 0.3]
    assert found.precision == {"x": 1e-3}


def test_P06_reader_keeps_stored_values_of_a_trajectory(tmp_path):
    record = write(tmp_path, [frame_of([0.0, 0.5, 1.0], 1e-3)])
    replace_array(record, "trajectory/atoms/x", np.array([0.1, 0.2, 0.3]))
    frames, *_ = read(record)
    assert frames[0]["atoms"]["x"].tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    "values", [np.array([1, 2], np.int64), np.array([1, 2], np.complex128), ["a", "b"], [True, False]]
)
def test_P07_only_on_f64(values):
    with unwritable("precision", "n"):
        Block({"n": values}, precision={"n": 1e-3})
    schema = SequenceSchema.from_frames(Frame({"atoms": {"n": values}}))
    with unwritable("precision", "trajectory/atoms/n"):
        schema.declare_precision("atoms", "n", 1e-3)


def test_P07_of_no_column():
    with unwritable("precision", "y"):
        Block({"x": [1.0]}, precision={"y": 1e-3})
    with unwritable("undeclared_column", "trajectory/atoms/y"):
        SequenceSchema().declare_column("atoms", "x", "f64").declare_precision("atoms", "y", 1e-3)


OUT_OF_BOUNDS = [0.0, -1.0, INF, NAN, 2.0**-1001, 2.0**1000 * 1.5, True, "0.1", None]


@pytest.mark.parametrize("precision", OUT_OF_BOUNDS)
def test_P08_bounds(tmp_path, precision):
    with unwritable("precision", "x"):
        frame_of([1.0], precision) if precision is not None else Block({"x": [1.0]}, precision={"x": None})
    schema = SequenceSchema().declare_column("atoms", "x", "f64")
    with unwritable("precision", "trajectory/atoms/x"):
        schema.declare_precision("atoms", "x", precision)
    if precision is not None:
        with unwritable("precision", "trajectory/atoms/x"):
            TrajectoryWriter(tmp_path / "run.mrec", schema, precision=precision)
        assert not (tmp_path / "run.mrec").exists()


@pytest.mark.parametrize("precision", [2.0**-1000, 2.0**1000, 1])
def test_P08_bounds_are_admitted(tmp_path, precision):
    record = write_record(
        tmp_path, frame=frame_of([0.0, 1.5], precision), trajectory=[frame_of([0.0, 1.5], precision)]
    )
    assert open_record(record).frame["atoms"].precision == {"x": precision}
    assert open_record(record).trajectory.schema.blocks["atoms"].columns["x"].precision == precision


@pytest.mark.parametrize(
    "precision", [0.0, -1.0, "NaN", "Infinity", 2.0**-1001, 2.0**1001, True, None, [0.1]]
)
def test_P09_stored_out_of_bounds(tmp_path, precision):
    frame = frame_of([1.0], 1e-3)
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    with changed(record, "frame/atoms/x") as node:
        node["attributes"]["precision"] = precision
    with unreadable("precision", "frame/atoms/x"):
        _ = open_record(record).frame
    pin = attributes(record, "trajectory")["sequence_schema"]
    pin["blocks"]["atoms"]["columns"]["x"]["precision"] = precision
    set_attributes(record, "trajectory", sequence_schema=pin)
    with unreadable("precision", "trajectory/atoms/x"):
        _ = open_record(record).trajectory


def test_P09_stored_on_another_dtype(tmp_path):
    frame = Frame({"atoms": {"n": np.array([1, 2], np.int64)}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    set_attributes(record, "frame/atoms/n", precision=1e-3)
    with unreadable("precision", "frame/atoms/n"):
        _ = open_record(record).frame
    pin = attributes(record, "trajectory")["sequence_schema"]
    pin["blocks"]["atoms"]["columns"]["n"]["precision"] = 1e-3
    set_attributes(record, "trajectory", sequence_schema=pin)
    with unreadable("precision", "trajectory/atoms/n"):
        _ = open_record(record).trajectory


def test_P10_attribute_and_pipeline(tmp_path):
    record = write_record(tmp_path, frame=frame_of(np.arange(9.0), 1e-3, y=np.arange(9.0)))
    assert attributes(record, "frame/atoms/x") == {"precision": 1e-3}
    assert codecs(record, "frame/atoms/x") == [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "numcodecs.shuffle", "configuration": {"elementsize": 8}},
        {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
        {"name": "crc32c"},
    ]
    assert [codec["name"] for codec in codecs(record, "frame/atoms/y")] == ["bytes", "crc32c"]


# -- trajectories

RUN = [[0.12345678, -1.00049, 2.718281828], [0.2468, -1.0011, 2.7]]
RUN_STORED = [[126 * Q, -1025 * Q, 2784 * Q], [253 * Q, -1025 * Q, 2765 * Q]]


def test_P11_precision_in_sequence_schema(tmp_path):
    record = write(tmp_path, [frame_of(RUN[0], 1e-3), frame_of(RUN[1], 1e-3)])
    pin = attributes(record, "trajectory")["sequence_schema"]["blocks"]["atoms"]["columns"]["x"]
    assert pin == {"dtype": "f64", "trailing": [], "precision": 0.001}
    assert attributes(record, "trajectory/atoms/x") == {}
    assert RUN_STORED[1] == [0.2470703125, -1.0009765625, 2.7001953125]
    frames, *_ = read(record)
    assert [frame["atoms"]["x"].tolist() for frame in frames] == RUN_STORED


def test_P12_sub_quantum_carries_forward(tmp_path):
    base = np.array([0.125, -1.0, 2.75])
    moves = np.array([0.4, -0.4, 0.4]) * Q
    record = write(
        tmp_path, [frame_of(base, 1e-3), frame_of(base + moves, 1e-3), frame_of(base - moves, 1e-3)]
    )
    assert stored(record, "trajectory/atoms/x").tolist() == base.tolist()
    frames, *_ = read(record)
    assert [frame["atoms"]["x"].tolist() for frame in frames] == [base.tolist()] * 3
    assert open_record(record).trajectory.updates("atoms").tolist() == [0]


def test_P12_half_a_quantum_is_a_change(tmp_path):
    record = write(tmp_path, [frame_of([0.125], 1e-3), frame_of([0.125 + 0.6 * Q], 1e-3)])
    assert stored(record, "trajectory/atoms/x").tolist() == [0.125, 0.125 + Q]


def test_P13_frame_disagrees_with_the_pin(tmp_path):
    schema = SequenceSchema().declare_column("atoms", "x", "f64").declare_precision("atoms", "x", 1e-3)
    with TrajectoryWriter(tmp_path / "run.mrec", schema) as writer:
        writer.append(frame_of([0.5], 1e-3))
        with unwritable("precision", "trajectory/atoms/x"):
            writer.append(frame_of([0.75], 1e-2))


def test_P14_frame_states_what_the_pin_does_not(tmp_path):
    schema = SequenceSchema().declare_column("atoms", "x", "f64")
    with TrajectoryWriter(tmp_path / "run.mrec", schema) as writer:
        writer.append(frame_of([0.5]))
        with unwritable("precision", "trajectory/atoms/x"):
            writer.append(frame_of([0.75], 1e-3))


def test_P14_frames_disagree_under_a_derived_declaration():
    frames = [frame_of([0.5], 1e-3), frame_of([0.5], 1e-2)]
    with unwritable("precision", "trajectory/atoms/x"):
        SequenceSchema.from_frames(frames)


def test_P15_first_stated_becomes_the_columns(tmp_path):
    frames = [frame_of([0.1234]), frame_of([0.2468], 1e-3), frame_of([2.7])]
    write_mrec_trajectory(tmp_path / "run.mrec", frames)
    assert open_record(tmp_path / "run.mrec").trajectory.schema.blocks["atoms"].columns["x"].precision == 1e-3
    found, *_ = read(tmp_path / "run.mrec")
    assert [frame["atoms"]["x"].tolist() for frame in found] == [[126 * Q], [253 * Q], [2765 * Q]]
    assert [frame["atoms"].precision for frame in found] == [{}, {}, {}]


def test_P15_frame_states_none_under_a_pinned_precision(tmp_path):
    xyz = {name: [0.12345678] for name in "xyz"}
    with TrajectoryWriter(tmp_path / "run.mrec", precision=1e-3) as writer:
        writer.append(Frame({"atoms": {**xyz, "q": [0.12345678]}}))
        writer.append(Frame({"atoms": {**xyz, "x": [0.2468], "q": [0.12345678]}}))
    found, *_ = read(tmp_path / "run.mrec")
    assert [found[1]["atoms"][name].tolist() for name in "xyzq"] == [
        [253 * Q],
        [126 * Q],
        [126 * Q],
        [0.12345678],
    ]


def test_P15_writer_states_precision_by_column(tmp_path):
    with TrajectoryWriter(tmp_path / "run.mrec", precision={"sites.q": 1e-3}) as writer:
        writer.append(Frame({"sites": {"q": [0.12345678]}, "atoms": {"x": [0.12345678]}}))
    found, *_ = read(tmp_path / "run.mrec")
    assert found[0]["sites"]["q"].tolist() == [126 * Q]
    assert found[0]["atoms"]["x"].tolist() == [0.12345678]
    with (
        unwritable("undeclared_column", "trajectory/sites/p"),
        TrajectoryWriter(tmp_path / "no.mrec", precision={"sites.p": 1e-3}) as writer,
    ):
        writer.append(Frame({"sites": {"q": [0.1]}}))


def test_P16_declarations_that_differ_in_precision(tmp_path):
    plain, fine, coarse = (SequenceSchema.from_frames(frame_of([0.5], p)) for p in (None, 1e-3, 1e-2))
    assert plain != fine
    assert fine != coarse
    assert fine == SequenceSchema.from_frames(frame_of([1.5], 1e-3))
    assert "precision" not in plain.to_json()["blocks"]["atoms"]["columns"]["x"]
    assert frame_of([0.5], 1e-3) != frame_of([0.5], 1e-2)
    frame = frame_of([0.5], 1e-3)
    first = write_record(tmp_path, frame=frame, trajectory=[frame])
    with open_record(first) as found:
        second = write_record(tmp_path, name="again.mrec", frame=found.frame, trajectory=found.trajectory)
    assert attributes(second, "frame/atoms/x") == {"precision": 1e-3}
    assert open_record(second).trajectory.schema == fine


@pytest.mark.parametrize("precision", [1e-3, 1e-2, 0.37, 5.0])
def test_P17_sweep(tmp_path, precision):
    rng = np.random.default_rng(17)
    q = quantum(precision)
    values = np.concatenate(
        [
            rng.uniform(-100, 100, 300),
            rng.normal(0, q, 300),
            np.exp(rng.uniform(-30, 30, 300)),
            (np.arange(-20, 20) + 0.5) * q,
        ]
    )
    kept = stored(write_record(tmp_path, frame=frame_of(values, precision)), "frame/atoms/x")
    for value, found in zip(values.tolist(), kept.tolist(), strict=True):
        # Fraction rounds half to even and knows no rounding errors.
        exact = round(Fraction(value) / Fraction(q)) * Fraction(q)
        assert Fraction(found) == exact
        assert abs(Fraction(value) - exact) <= Fraction(q) / 2 <= Fraction(precision) / 2
        assert math.copysign(1.0, found) == math.copysign(1.0, value)
    assert same_bits(rounded(kept, precision), kept)


def test_P18_size(tmp_path):
    rng = np.random.default_rng(18)
    n_atoms, n_frames = 3000, 40
    walk = np.cumsum(rng.normal(0, 0.05, (n_frames, n_atoms, 3)), axis=0) + rng.uniform(0, 40, (n_atoms, 3))
    frames = [Frame({"atoms": dict(zip("xyz", frame.T.copy(), strict=True))}) for frame in walk]
    sizes = {}
    for precision in (None, 1e-3, 1e-2):
        record = write(
            tmp_path, frames, name=f"{precision}.mrec", precision=precision, expected_frames=n_frames
        )
        files = (record / "trajectory" / "atoms").rglob("*")
        sizes[precision] = sum(file.stat().st_size for file in files if file.is_file()) / (n_atoms * n_frames)
    assert sizes[None] > 23.5
    assert sizes[1e-3] < 8.0
    assert sizes[1e-2] < 6.2


def test_P19_null_rows_cells_and_meta_are_not_constrained(tmp_path):
    odd = 0.12345678
    block = Block({"x": [odd, odd]}, validity={"x": [True, False]}, precision={"x": 1e-3})
    frame = Frame({"atoms": block}, box=Box(np.eye(3) * odd, origin=[odd, 0, 0]), meta={"pe": odd})
    record = write_record(tmp_path, frame=frame, trajectory=[frame, frame])
    with open_record(record) as found:
        for kept in (found.frame, found.trajectory[1]):
            assert kept["atoms"]["x"][0] == 126 * Q
            assert kept["atoms"].validity["x"].tolist() == [True, False]
            assert kept.meta == {"pe": odd}
            assert kept.box == frame.box
    # A stored value under a null row may lie anywhere.
    replace_array(record, "frame/atoms/x", np.array([126 * Q, NAN]))
    assert math.isnan(open_record(record).frame["atoms"]["x"][1])


def test_P19_dense_arrays_carry_no_precision(tmp_path):
    boxes = [Box(np.eye(3) * size) for size in (1.0, 2.0)]
    frames = [Frame({"atoms": {"x": [float(i)]}}, box=box, meta={"pe": 0.1}) for i, box in enumerate(boxes)]
    record = write(tmp_path, frames, precision={"atoms.x": 1e-3})
    for key in nodes(record, "trajectory"):
        assert "precision" not in attributes(record, f"trajectory/{key}")


def test_P19_value_in_memory_is_not_changed(tmp_path):
    values = np.array([0.12345678])
    frame = frame_of(values, 1e-3)
    write_mrec(tmp_path / "run.mrec", frame=frame, trajectory=[frame])
    assert values.tolist() == [0.12345678]


def test_P20_no_precision_in_a_force_field(tmp_path):
    """Held on read and on write; what is refused besides, group X shows."""
    table = {"name": ["CT-HC"], "itom": ["CT"], "jtom": ["HC"], "k": [340.0], "r0": [1.09]}
    plain = ForceField({"name": "demo", "units": {"preset": "real"}})
    plain.add_style("bond", "harmonic", table)
    record = tmp_path / "run.mrec"
    write_mrec(record, forcefield=plain)
    assert open_record(record).forcefield.tables["bond.harmonic"]["k"].tolist() == [340.0]
    set_attributes(record, "forcefield/bond.harmonic/k", precision=1e-3)
    with pytest.raises(FormatError) as caught:
        _ = open_record(record).forcefield
    assert caught.value.loc == "forcefield/bond.harmonic/k"
    stated = ForceField({"name": "demo", "units": {"preset": "real"}})
    stated.add_style("bond", "harmonic", Block(table, precision={"k": 1e-3}))
    with pytest.raises(SchemaError) as caught:
        write_mrec(tmp_path / "no.mrec", forcefield=stated)
    assert caught.value.loc == "forcefield/bond.harmonic/k"
