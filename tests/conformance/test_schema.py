"""Checklist group Q: the pinned declaration of a trajectory."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    arrays,
    attributes,
    changed,
    document,
    make_group,
    nodes,
    read,
    refuse_last,
    remove,
    replace_array,
    set_attributes,
    u64,
    unreadable,
    unwritable,
    write,
)
from molrec_core import (
    Block,
    FormatError,
    Frame,
    SequenceSchema,
    TrajectoryWriter,
    mrec_sections,
    read_mrec_trajectory,
)


def x(*values, **others):
    return Frame({"atoms": {"x": np.array(values, float)}} | others)


def atoms_schema():
    return SequenceSchema().declare_block("atoms", {"x": "f64"})


def pin(record):
    return attributes(record, "trajectory")["sequence_schema"]


def test_Q01_pinned_declaration(tmp_path):
    schema = atoms_schema().declare_block("bonds", {"atomi": "u64"}).declare_meta("pe", "f64", fill=0.0)
    record = write(tmp_path, [x(1.0)], schema=schema)
    assert pin(record) == {
        "blocks": {
            "atoms": {"columns": {"x": {"dtype": "f64", "trailing": []}}},
            "bonds": {"columns": {"atomi": {"dtype": "u64", "trailing": []}}},
        },
        "meta": {"pe": {"dtype": "f64", "fill": 0.0}},
    }
    assert read_mrec_trajectory(record).schema == schema


def test_Q01_every_optional_entry(tmp_path):
    schema = (
        atoms_schema()
        .declare_column("atoms", "v", "f64", (3,), nullable=True)
        .declare_precision("atoms", "v", 0.5)
        .declare_block("types", {"type": "string"})
        .declare_aligned("types", "atoms")
        .declare_block("picks", {"row": "u64"})
        .declare_target("picks", "row", "atoms")
        .declare_block("density", {"rho": "f64"})
        .declare_structural_shape("density", (2, 2))
    )
    record = write(tmp_path, [Frame()], schema=schema)
    blocks = pin(record)["blocks"]
    assert blocks["atoms"]["columns"]["v"] == {
        "dtype": "f64", "trailing": [3], "nullable": True, "precision": 0.5,
    }  # fmt: skip
    assert blocks["types"]["aligned_with"] == "atoms"
    assert blocks["picks"]["targets"] == {"row": "atoms"}
    assert blocks["density"]["structural_shape"] == [2, 2]
    assert read_mrec_trajectory(record).schema == schema


def test_Q02_optional_entries_only_when_set(tmp_path):
    record = write(tmp_path, [Frame(meta={"pe": 1.0})], schema=atoms_schema().declare_meta("pe", "f64"))
    assert pin(record) == {
        "blocks": {"atoms": {"columns": {"x": {"dtype": "f64", "trailing": []}}}},
        "meta": {"pe": {"dtype": "f64"}},
    }


def test_Q02_optional_entries_read_as_absent(tmp_path):
    record = write(tmp_path, [x(1.0)])
    with changed(record, "trajectory") as found:
        del found["attributes"]["sequence_schema"]["blocks"]["atoms"]["columns"]["x"]["trailing"]
        found["attributes"]["sequence_schema"]["blocks"]["atoms"]["columns"]["x"]["nullable"] = False
    assert read_mrec_trajectory(record).schema == atoms_schema()


@pytest.mark.parametrize("name", ["step", "time", "meta", "box"])
def test_Q03_reserved_block_name(tmp_path, name):
    with unwritable("reserved_name", f"trajectory/{name}"):
        SequenceSchema().declare_block(name)
    writer = TrajectoryWriter(tmp_path / "run.mrec")
    with unwritable("reserved_name", f"trajectory/{name}"):
        writer.append(Frame({name: {"x": [1.0]}}))
    writer.close()


@pytest.mark.parametrize("name", ["step", "time", "meta", "box"])
def test_Q03_reserved_block_name_in_the_pin(tmp_path, name):
    record = write(tmp_path, [x(1.0)])
    with changed(record, "trajectory") as found:
        blocks = found["attributes"]["sequence_schema"]["blocks"]
        blocks[name] = {"columns": {}}
    with unreadable("reserved_name", f"trajectory/{name}"):
        read_mrec_trajectory(record)


@pytest.mark.parametrize("name", ["offset", "step_index", "_validity"])
def test_Q04_reserved_column_name(tmp_path, name):
    with unwritable("reserved_name", f"trajectory/atoms/{name}"):
        atoms_schema().declare_column("atoms", name, "u64")
    writer = TrajectoryWriter(tmp_path / "run.mrec")
    with unwritable("reserved_name", f"trajectory/atoms/{name}"):
        writer.append(Frame({"atoms": {name: u64(1)}}))
    writer.close()


@pytest.mark.parametrize("name", ["offset", "step_index", "_validity"])
def test_Q04_reserved_column_name_in_the_pin(tmp_path, name):
    record = write(tmp_path, [x(1.0)])
    with changed(record, "trajectory") as found:
        columns = found["attributes"]["sequence_schema"]["blocks"]["atoms"]["columns"]
        columns[name] = {"dtype": "u64", "trailing": []}
    with unreadable("reserved_name", f"trajectory/atoms/{name}"):
        read_mrec_trajectory(record)


def test_Q05_undeclared_block(tmp_path):
    second = x(2.0, bonds={"atomi": u64(0)})
    refuse_last(tmp_path, [x(1.0), second], "undeclared_block", "trajectory/bonds", schema=atoms_schema())


def test_Q06_undeclared_column(tmp_path):
    second = Frame({"atoms": {"x": [1.0], "y": [2.0]}})
    refuse_last(tmp_path, [x(1.0), second], "undeclared_column", "trajectory/atoms/y")


@pytest.mark.parametrize(
    ("second", "kind", "loc"),
    [
        ({"x": [1.0]}, "missing_column", "trajectory/atoms"),
        ({"x": [1.0], "q": np.array([1], np.int64)}, "column_type", "trajectory/atoms/q"),
        ({"x": [1.0], "q": np.array([[1, 2]], np.int32)}, "column_type", "trajectory/atoms/q"),
        ({}, "missing_column", "trajectory/atoms"),
    ],
)
def test_Q07_block_presented_whole_and_as_declared(tmp_path, second, kind, loc):
    first = Frame({"atoms": {"x": [0.0], "q": np.array([1], np.int32)}})
    refuse_last(tmp_path, [first, Frame({"atoms": second})], kind, loc)


def test_Q08_any_subset_of_blocks(tmp_path):
    schema = atoms_schema().declare_block("bonds", {"atomi": "u64"}).declare_block("angles", {"atomi": "u64"})
    bonds = {"bonds": {"atomi": u64(0)}}
    record = write(tmp_path, [Frame(), x(1.0), Frame(bonds), x(2.0, **bonds)], schema=schema)
    frames = read(record)[0]
    assert [sorted(frame) for frame in frames] == [[], ["atoms"], ["atoms", "bonds"], ["atoms", "bonds"]]


def density(shape, value):
    count = int(np.prod(shape))
    return Frame({"density": Block({"rho": np.full(count, value)}, structural_shape=shape)})


def test_Q09_structural_shape_row_count(tmp_path):
    refuse_last(
        tmp_path,
        [density((2, 2, 2), 0.25), density((3, 3, 3), 0.5)],
        "structural_shape",
        "trajectory/density",
    )


def test_Q09_structural_shape_of_the_same_product(tmp_path):
    refuse_last(
        tmp_path, [density((2, 2, 2), 0.25), density((4, 2), 0.5)], "structural_shape", "trajectory/density"
    )


def test_Q09_structural_shape_row_count_on_read(tmp_path):
    frames = [density((2, 2), 0.25), Frame(), density((2, 2), 0.5)]
    record = write(tmp_path, frames)
    assert len(read(record)[0]) == 3
    replace_array(record, "trajectory/density/offset", u64(0, 3, 8))
    with unreadable("structural_shape", "trajectory/density"):
        read(record)


def test_Q09_structural_shape_of_regular_updates_on_read(tmp_path):
    record = write(tmp_path, [density((2, 2), 0.25), density((2, 2), 0.5)])
    set_attributes(record, "trajectory/density", uniform_rows=2)
    with unreadable("structural_shape", "trajectory/density"):
        read(record)


def test_Q10_structural_shape_block(tmp_path):
    record = write(tmp_path, [density((2, 2, 2), 0.25), density((2, 2, 2), 0.5)])
    assert pin(record)["blocks"]["density"]["structural_shape"] == [2, 2, 2]
    assert attributes(record, "trajectory/density")["structural_shape"] == [2, 2, 2]
    assert read(record)[0] == [density((2, 2, 2), 0.25), density((2, 2, 2), 0.5)]


def test_Q11_declared_block_without_a_group_is_absent(tmp_path):
    bonds = {"bonds": {"atomi": u64(0)}}
    record = write(tmp_path, [x(1.0, **bonds), x(2.0)])
    assert sorted(read(record)[0][1]) == ["atoms", "bonds"]
    remove(record, "trajectory/bonds")
    assert read(record)[0] == [x(1.0), x(2.0)]
    assert list(read_mrec_trajectory(record).counts("bonds")) == [-1, -1]


def test_Q11_undeclared_group_is_no_block_and_stays(tmp_path):
    record = write(tmp_path, [x(1.0)])
    make_group(record, "trajectory/vendor", note="kept")
    replace_array(record, "trajectory/vendor/q", np.arange(3))
    assert read(record)[0] == [x(1.0)]
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(x(2.0))
    assert read(record)[0] == [x(1.0), x(2.0)]
    assert attributes(record, "trajectory/vendor") == {"note": "kept"}
    assert "vendor/q" in arrays(record, "trajectory")


def test_Q12_declared_block_is_an_array(tmp_path):
    record = write(tmp_path, [x(1.0)])
    remove(record, "trajectory/atoms")
    replace_array(record, "trajectory/atoms", np.arange(3.0))
    with unreadable("node_type", "trajectory/atoms"):
        read_mrec_trajectory(record)


def test_Q13_declaration_derived_from_the_groups(tmp_path):
    frames = [
        x(1.0, 2.0, density=Block({"rho": np.zeros(4), "v": np.ones((4, 3))}, structural_shape=(2, 2))),
        x(1.5, 2.0),
    ]
    record = write(tmp_path, frames, steps=[0, 5], times=[0.0, 0.5])
    expected = read(record)[0]
    set_attributes(record, "trajectory", sequence_schema=None)
    reader = read_mrec_trajectory(record)
    assert reader.schema == SequenceSchema.from_frames(frames)
    assert read(record)[0] == expected


def test_Q13_derived_declaration_knows_masks_and_meta(tmp_path):
    masked = Frame({"atoms": Block({"q": [1.0, 2.0]}, validity={"q": [True, False]})}, meta={"pe": 1.5})
    record = write(tmp_path, [masked])
    set_attributes(record, "trajectory", sequence_schema=None)
    assert read_mrec_trajectory(record).schema == SequenceSchema.from_frames(masked)
    assert read(record)[0] == [masked]


@pytest.mark.parametrize(
    ("change", "kind", "loc"),
    [
        (
            lambda r: replace_array(r, "trajectory/atoms/x", np.arange(4, dtype=np.int64)),
            "canonical_dtype",
            "x",
        ),
        (
            lambda r: replace_array(r, "trajectory/atoms/q", np.arange(4, dtype=np.int64)),
            "schema_mismatch",
            "q",
        ),
        (
            lambda r: replace_array(r, "trajectory/atoms/q", np.zeros((4, 2), np.int32)),
            "schema_mismatch",
            "q",
        ),
        (lambda r: remove(r, "trajectory/atoms/q"), "missing_array", "q"),
    ],
)
def test_Q14_pin_disagrees_with_a_column(tmp_path, change, kind, loc):
    def frame(v):
        return Frame({"atoms": {"x": [v, v], "q": np.array([1, 2], np.int32)}})

    record = write(tmp_path, [frame(0.0), frame(1.0)])
    assert read(record)[0][1] == frame(1.0)
    change(record)
    with unreadable(kind, f"trajectory/atoms/{loc}"):
        read_mrec_trajectory(record)


@pytest.mark.parametrize("shape", [None, [4], [2, 3], "2x2"])
def test_Q14_pin_disagrees_with_a_structural_shape(tmp_path, shape):
    record = write(tmp_path, [density((2, 2), 0.25)])
    set_attributes(record, "trajectory/density", structural_shape=shape)
    with unreadable("structural_shape", "trajectory/density"):
        read_mrec_trajectory(record)


def test_Q14_group_states_a_shape_the_pin_does_not(tmp_path):
    record = write(tmp_path, [x(1.0)])
    set_attributes(record, "trajectory/atoms", structural_shape=[1])
    with unreadable("structural_shape", "trajectory/atoms"):
        read_mrec_trajectory(record)


def test_Q14_pin_declares_a_canonical_key_otherwise(tmp_path):
    record = write(tmp_path, [x(1.0)])
    with changed(record, "trajectory") as found:
        found["attributes"]["sequence_schema"]["blocks"]["atoms"]["columns"]["x"]["dtype"] = "i64"
    with unreadable("canonical_dtype", "trajectory/atoms/x"):
        read_mrec_trajectory(record)


@pytest.mark.parametrize(
    ("column", "dtype"), [("x", "i64"), ("id", "i64"), ("atomi", "u32"), ("element", "i32"), ("free", "u8")]
)
def test_Q14_canonical_key_declared_otherwise(column, dtype):
    with unwritable("canonical_dtype", f"trajectory/atoms/{column}"):
        SequenceSchema().declare_column("atoms", column, dtype)


@pytest.mark.parametrize(
    ("entry", "kind", "loc"),
    [
        ([], "schema", "trajectory"),
        ({"blocks": [], "meta": {}}, "schema", "trajectory"),
        ({"blocks": {}, "meta": []}, "schema", "trajectory"),
        ({"blocks": {"atoms": {}}}, "schema", "trajectory/atoms"),
        ({"blocks": {"atoms": {"columns": {"x": "f64"}}}}, "schema", "trajectory/atoms/x"),
        ({"blocks": {"atoms": {"columns": {"x": {"dtype": "f32", "trailing": []}}}}}, "dtype", "trajectory/atoms/x"),
        ({"blocks": {"atoms": {"columns": {"x": {"dtype": "f64", "trailing": [-1]}}}}}, "schema", "trajectory/atoms/x"),
        (
            {"blocks": {"atoms": {"columns": {"q": {"dtype": "f64", "trailing": [], "nullable": 1}}}}},
            "schema",
            "trajectory/atoms/q",
        ),
        ({"blocks": {}, "meta": {"pe": "f64"}}, "schema", "trajectory/meta/pe"),
        ({"blocks": {"../x": {"columns": {}}}}, "bad_name", "trajectory/../x"),
        ({"blocks": {"atoms": {"columns": {"a/b": {"dtype": "f64", "trailing": []}}}}}, "bad_name", "trajectory/atoms/a/b"),
    ],
)  # fmt: skip
def test_Q14_malformed_pin(tmp_path, entry, kind, loc):
    record = write(tmp_path, [x(1.0)])
    set_attributes(record, "trajectory", sequence_schema=entry)
    with unreadable(kind, loc):
        read_mrec_trajectory(record)


def test_Q15_declared_block_never_presented(tmp_path):
    schema = (
        atoms_schema()
        .declare_block("bonds", {"atomi": "u64", "type": "string"})
        .declare_block("density", {"rho": "f64"})
        .declare_structural_shape("density", (2, 2))
    )
    record = write(tmp_path, [x(1.0), x(2.0)], schema=schema)
    assert attributes(record, "trajectory/bonds") == {}
    assert attributes(record, "trajectory/density") == {"structural_shape": [2, 2]}
    assert nodes(record, "trajectory/bonds") == ["atomi", "type"]
    assert [document(record, f"trajectory/bonds/{c}")["shape"] for c in ("atomi", "type")] == [[0], [0]]
    assert read(record)[0] == [x(1.0), x(2.0)]
    assert list(read_mrec_trajectory(record).updates("bonds")) == []


def test_Q15_rows_without_an_update_are_a_tail(tmp_path):
    schema = atoms_schema().declare_block("bonds", {"atomi": "u64"})
    record = write(tmp_path, [x(1.0)], schema=schema)
    replace_array(record, "trajectory/bonds/atomi", u64(1, 2, 3))
    assert read(record)[0] == [x(1.0)]


def test_Q16_trajectory_block_with_attributes(tmp_path):
    second = Frame({"atoms": Block({"x": [1.0]}, attributes={"vendor": 1})})
    refuse_last(tmp_path, [x(0.0), second], "block_attributes", "trajectory/atoms")


def test_Q17_unknown_keys_of_the_pin_are_kept(tmp_path):
    record = write(tmp_path, [Frame({"atoms": {"x": [1.0]}}, meta={"pe": 1.0})])
    with changed(record, "trajectory") as found:
        schema = found["attributes"]["sequence_schema"]
        schema["vendor"] = {"a": None}
        schema["blocks"]["atoms"]["vendor"] = 1
        schema["blocks"]["atoms"]["columns"]["x"]["vendor"] = [1.5]
        schema["meta"]["pe"]["vendor"] = "kept"
        found["attributes"]["vendor_attribute"] = True
        expected = {**schema}
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(Frame({"atoms": {"x": [2.0]}}, meta={"pe": 2.0}))
    assert pin(record) == expected
    assert attributes(record, "trajectory")["vendor_attribute"] is True
    assert read_mrec_trajectory(record).schema.copy().to_json() == expected


def test_Q18_trajectory_alone_is_a_record(tmp_path):
    record = write(tmp_path, [x(1.0)])
    assert mrec_sections(record) == ("meta", "trajectory")
    assert read(record)[0] == [x(1.0)]


def test_Q19_zero_frames(tmp_path):
    schema = atoms_schema().declare_meta("pe", "f64").declare_block("none")
    record = write(tmp_path, [], schema=schema)
    assert attributes(record, "trajectory").keys() == {"sequence_schema", "nstep"}
    assert attributes(record, "trajectory")["nstep"] == 0
    assert arrays(record, "trajectory") == ["atoms/x", "meta/pe"]
    assert document(record, "trajectory/atoms/x")["shape"] == [0]
    assert document(record, "trajectory/meta/pe")["shape"] == [0]
    reader = read_mrec_trajectory(record)
    assert len(reader) == 0
    assert list(reader.steps) == []
    assert reader.times is None
    assert reader.schema == schema


def test_Q19_zero_frames_are_appended_to(tmp_path):
    record = write(tmp_path, [], schema=atoms_schema())
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(x(1.0, 2.0))
    assert read(record)[0] == [x(1.0, 2.0)]
    assert pin(record) == atoms_schema().to_json()


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (True, "bool"),
        (3, "i64"),
        (2**63, "u64"),
        (1.5, "f64"),
        ("a", "string"),
        ({"a": 1}, "json"),
        ([1.0, 2.0, 3.0], "json"),
        (np.float64(1.5), "f64"),
        (np.int32(1), "i32"),
        (np.uint32(1), "u32"),
        (np.uint64(1), "u64"),
        (np.bool_(1), "bool"),
        (np.array([True, False, True]), "bool3"),
        (np.arange(3, dtype=np.int32), "i32x3"),
        (np.arange(3, dtype=np.int64), "i64x3"),
        (np.arange(3, dtype=np.uint32), "u32x3"),
        (np.arange(3, dtype=np.uint64), "u64x3"),
        (np.zeros(3), "f64x3"),
        (np.zeros(6), "f64x6"),
        (np.zeros(9), "f64x9"),
    ],
)
def test_Q20_declaration_derived_while_streaming(tmp_path, value, tag):
    record = write(tmp_path, [Frame(meta={"k": value})])
    assert pin(record)["meta"] == {"k": {"dtype": tag}}


def test_Q20_a_derived_key_has_no_fill(tmp_path):
    writer = TrajectoryWriter(tmp_path / "run.mrec")
    writer.append(Frame(meta={"k": 1}))
    with unwritable("missing_meta", "trajectory/meta/k"):
        writer.append(Frame())
    writer.close()


@pytest.mark.parametrize("value", [np.float32(1.0), np.zeros(4), np.int8(1), np.complex128(1)])
def test_Q20_no_tag_holds_the_numpy_value(value):
    with unwritable("meta_value", "meta/k"):
        Frame(meta={"k": value})


def test_pin_problems_are_reported_together(tmp_path):
    """A reader names every problem of the declaration, not the first alone."""
    record = write(tmp_path, [x(1.0)])
    set_attributes(
        record, "trajectory", sequence_schema={"blocks": {"box": {"columns": {}}, "a": {}}, "meta": {"pe": 1}}
    )
    with pytest.raises(FormatError) as caught:
        read_mrec_trajectory(record)
    assert {(p.kind, p.loc) for p in caught.value.problems} == {
        ("reserved_name", "trajectory/box"),
        ("schema", "trajectory/a"),
        ("schema", "trajectory/meta/pe"),
    }
