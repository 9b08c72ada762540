"""Checklist group D: column data types and canonical keys."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from conformance.records import (
    attributes,
    changed,
    codecs,
    document,
    read,
    replace_array,
    set_attributes,
    u64,
    unreadable,
    unwritable,
    write,
    write_record,
)
from molrec_core import Block, Frame, SequenceSchema, TrajectoryWriter, open_record, write_mrec

#: Table TB5: column dtype -> values, Zarr data_type, codec head, fill value.
DTYPES = {
    "f64": (np.array([1.008, 15.999]), "float64", "bytes", 0.0),
    "i8": (np.array([-128, 127], np.int8), "int8", "bytes", 0),
    "i16": (np.array([-32768, 32767], np.int16), "int16", "bytes", 0),
    "i32": (np.array([-1, 7], np.int32), "int32", "bytes", 0),
    "i64": (np.array([-1, 7], np.int64), "int64", "bytes", 0),
    "u8": (np.array([0, 255], np.uint8), "uint8", "bytes", 0),
    "u16": (np.array([0, 65535], np.uint16), "uint16", "bytes", 0),
    "u32": (np.array([1, 2], np.uint32), "uint32", "bytes", 0),
    "u64": (np.array([1, 2], np.uint64), "uint64", "bytes", 0),
    "bool": (np.array([True, False]), "bool", "bytes", False),
    "string": (np.array(["H", "O"], np.dtypes.StringDType()), "string", "vlen-utf8", ""),
    "c64": (np.array([1 + 2j, 0 - 3j], np.complex64), "complex64", "bytes", [0.0, 0.0]),
    "c128": (np.array([1 + 2j, 0 - 3j], np.complex128), "complex128", "bytes", [0.0, 0.0]),
}
EVERY = Frame({"atoms": {f"a_{name}": values for name, (values, *_) in DTYPES.items()}})

#: Table TB4: dtype -> canonical keys.
CANONICAL = {
    "f64": "x y z vx vy vz fx fy fz charge mass quatw quati quatj quatk mux muy muz axis_x axis_y axis_z "
    "occupancy b_factor",
    "u64": "id atomic_number type_id mol_id res_id atomi atomj atomk atoml atomm ibead bond_type bond_number atom_map",
    "i64": "formal_charge",
    "i32": "ix iy iz",
    "bool": "free is_14 exclude_14",
    "string": "element type name res_name bead_type chain icode altloc style",
}
KEYS = [(key, dtype) for dtype, keys in CANONICAL.items() for key in keys.split()]
#: A dtype a careless writer would take instead; those under u64 are not widened, as they are signed.
INSTEAD = {"f64": "i64", "u64": "i64", "i64": "i32", "i32": "i64", "bool": "u8", "string": "i64"}


def check_every(block):
    assert set(block) == {f"a_{name}" for name in DTYPES}
    for name, (values, *_) in DTYPES.items():
        assert block[f"a_{name}"].dtype == values.dtype
        assert block[f"a_{name}"].tolist() == values.tolist()


def check_stored(record, key):
    for name, (_, data_type, head, fill) in DTYPES.items():
        node = document(record, f"{key}/a_{name}")
        assert (node["data_type"], node["fill_value"]) == (data_type, fill)
        assert type(node["fill_value"]) is type(fill)
        first = codecs(record, f"{key}/a_{name}")[0]
        assert first["name"] == head
        if name not in {"i8", "u8", "bool", "string"}:
            assert first["configuration"] == {"endian": "little"}


def test_D01_every_dtype(tmp_path):
    record = write_record(tmp_path, frame=EVERY)
    found = open_record(record).frame["atoms"]
    check_every(found)
    check_stored(record, "frame/atoms")


def test_D01_every_dtype_in_a_trajectory(tmp_path):
    record = write(tmp_path, [EVERY])
    frames, *_ = read(record)
    check_every(frames[0]["atoms"])
    check_stored(record, "trajectory/atoms")
    pin = attributes(record, "trajectory")["sequence_schema"]["blocks"]["atoms"]["columns"]
    assert {name: entry["dtype"] for name, entry in pin.items()} == {f"a_{name}": name for name in DTYPES}


def test_D02_no_silent_widening(tmp_path):
    columns = {"step": np.array([0, 1, 2], np.int32), "flag": np.array([0, 1, 255], np.uint8)}
    found = open_record(write_record(tmp_path, frame=Frame({"atoms": columns}))).frame["atoms"]
    assert found["step"].dtype == np.int32
    assert found["step"].tolist() == [0, 1, 2]
    assert found["flag"].dtype == np.uint8
    assert found["flag"].tolist() == [0, 1, 255]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("column", ["x", "x_vendor"])
def test_D03_narrow_float(tmp_path, dtype, column):
    frame = Frame({"atoms": {column: [0.5, 1.5]}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    replace_array(record, f"frame/atoms/{column}", [0.5, 1.5], dtype=dtype)
    with unreadable("data_type", f"frame/atoms/{column}"):
        _ = open_record(record).frame
    replace_array(record, f"trajectory/atoms/{column}", [0.5, 1.5], dtype=dtype)
    with unreadable("data_type", f"trajectory/atoms/{column}"):
        _ = open_record(record).trajectory
    with unwritable("dtype", column) as caught:
        Block({column: np.array([0.5, 1.5], dtype)})
    assert "float64" in str(caught.value)


def test_D04_fixed_length_string(tmp_path):
    frame = Frame({"atoms": {"element": ["H", "O"]}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    for section in ("frame", "trajectory"):
        replace_array(record, f"{section}/atoms/element", np.array(["H", "O"], object), dtype="<U4")
        assert document(record, f"{section}/atoms/element")["data_type"]["name"] == "fixed_length_utf32"
        with unreadable("data_type", f"{section}/atoms/element"):
            getattr(open_record(record), section)


STRUCTURED = np.array([(1, 2.0), (3, 4.0)], [("a", "<i4"), ("b", "<f8")])


@pytest.mark.parametrize(
    "values",
    [
        np.array([b"ab", b"cd"], "V2"),
        np.array([b"ab", b"cd"], "S2"),
        np.array([0, 1], "<M8[s]"),
        np.array([0, 1], "<m8[s]"),
        STRUCTURED,
        np.array([0, 1], np.float16),
        np.array([0, 1], np.float32),
    ],
    ids=lambda values: str(values.dtype),
)
def test_D05_other_data_types(tmp_path, values):
    frame = Frame({"atoms": {"x_vendor": [0.5, 1.5]}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    for section in ("frame", "trajectory"):
        replace_array(record, f"{section}/atoms/x_vendor", values)
        with unreadable("data_type", f"{section}/atoms/x_vendor"):
            getattr(open_record(record), section)
    with unwritable("dtype", "x_vendor"):
        Block({"x_vendor": values})


@pytest.mark.parametrize(
    "data_type", ["r16", "bytes", "int2", None, {"name": "float64", "configuration": {"a": 1}}]
)
def test_D05_other_data_types_by_name(tmp_path, data_type):
    record = write_record(tmp_path, frame=Frame({"atoms": {"x_vendor": [0.5, 1.5]}}))
    with changed(record, "frame/atoms/x_vendor") as node:
        node["data_type"] = data_type
    with unreadable("data_type", "frame/atoms/x_vendor"):
        _ = open_record(record).frame


@pytest.mark.parametrize("name", [name for name in DTYPES if name not in {"i8", "u8", "bool", "string"}])
def test_D06_either_endianness(tmp_path, name):
    values = DTYPES[name][0]
    big = values.astype(values.dtype.newbyteorder(">"))
    frame = Frame({"atoms": {"a": big}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    for section in ("frame", "trajectory"):
        assert codecs(record, f"{section}/atoms/a")[0]["configuration"] == {"endian": "little"}
        replace_array(record, f"{section}/atoms/a", values, serializer=zarr.codecs.BytesCodec(endian="big"))
        assert codecs(record, f"{section}/atoms/a")[0]["configuration"] == {"endian": "big"}
    with open_record(record) as found:
        for block in (found.frame["atoms"], found.trajectory[0]["atoms"]):
            assert block["a"].dtype == values.dtype
            assert block["a"].tolist() == values.tolist()


def test_D07_narrow_identifier(tmp_path):
    record = write_record(tmp_path, frame=Frame({"bonds": {"atomi": u64(0, 1)}}))
    replace_array(record, "frame/bonds/atomi", np.array([0, 1], np.uint32))
    with unreadable("canonical_dtype", "frame/bonds/atomi"):
        _ = open_record(record).frame


def test_D08_signed_identifier(tmp_path):
    record = write_record(tmp_path, frame=Frame({"bonds": {"atomic_number": u64(0, 1)}}))
    replace_array(record, "frame/bonds/atomic_number", np.array([0, 1], np.int64))
    with unreadable("canonical_dtype", "frame/bonds/atomic_number"):
        _ = open_record(record).frame


def test_D09_narrow_endpoint(tmp_path):
    record = write(tmp_path, [Frame({"bonds": {"atomi": u64(0, 1)}})])
    replace_array(record, "trajectory/bonds/atomi", np.array([0, 1], np.uint32))
    with unreadable("canonical_dtype", "trajectory/bonds/atomi"):
        _ = open_record(record).trajectory


def canonical_cases(key, dtype):
    right, wrong = DTYPES[dtype][0], DTYPES[INSTEAD[dtype]][0]
    return right, [wrong, np.stack([right, right], axis=1)]


@pytest.mark.parametrize(("key", "dtype"), KEYS)
def test_D10_canonical_keys(tmp_path, key, dtype):
    right, cases = canonical_cases(key, dtype)
    record = write_record(tmp_path, frame=Frame({"any_block": {key: right}}))
    pin = {"blocks": {"any_block": {"columns": {key: {"dtype": dtype, "trailing": []}}}}, "meta": {}}
    assert SequenceSchema.from_json(pin).to_json() == pin
    for values in cases:
        frame = Frame({"any_block": {key: values}})
        trailing = list(values.shape[1:])
        with unwritable("canonical_dtype", f"frame/any_block/{key}"):
            write_mrec(tmp_path / "no.mrec", frame=frame)
        with unwritable("canonical_dtype", f"system/any_block/{key}"):
            write_mrec(tmp_path / "no.mrec", system=frame)
        with unwritable("canonical_dtype", f"trajectory/any_block/{key}"):
            SequenceSchema.from_frames(frame)
        replace_array(record, f"frame/any_block/{key}", values)
        with unreadable("canonical_dtype", f"frame/any_block/{key}"):
            _ = open_record(record).frame
        tampered = json.loads(json.dumps(pin))
        wrong = INSTEAD[dtype] if not trailing else dtype
        tampered["blocks"]["any_block"]["columns"][key] |= {"dtype": wrong, "trailing": trailing}
        with unreadable("canonical_dtype", f"trajectory/any_block/{key}"):
            SequenceSchema.from_json(tampered)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.dtype(">u2")])
def test_D11_exact_widening_of_unsigned(tmp_path, dtype):
    frame = Frame({"bonds": {"atomi": np.array([0, 1], dtype), "note": np.array([0, 1], dtype)}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    with open_record(record) as found:
        for block in (found.frame["bonds"], found.trajectory[0]["bonds"]):
            assert block["atomi"].dtype == np.uint64
            assert block["atomi"].tolist() == [0, 1]
            assert block["note"].dtype == np.dtype(dtype).newbyteorder("=")


def canonical_topology():
    def f64(*values):
        return np.array(values, np.float64)

    kinds = {
        "f64": f64(0.5, 1.5, -2.5),
        "u64": u64(1, 8, 1),
        "i64": np.array([0, -1, 1], np.int64),
        "i32": np.array([0, -1, 1], np.int32),
        "bool": np.array([True, False, True]),
        "string": np.array(["H", "O", "H"]),
    }
    relation = [f"atom{letter}" for letter in "ijklm"]
    atoms = {
        key: kinds[dtype] for key, dtype in KEYS if key not in {*relation, "is_14", "exclude_14", "style"}
    }

    def related(n, **columns):
        ends = {name: u64(min(i, 2)) for i, name in enumerate(relation[:n])}
        named = {"type": np.array(["t"]), "type_id": u64(1), "style": np.array(["harmonic"])}
        return ends | named | columns

    sites = {"atomi": u64(2), "atomj": u64(0), "atomk": u64(1), "atoml": u64(0)}
    return Frame(
        {
            "atoms": atoms,
            "bonds": related(2, bond_type=u64(1), bond_number=u64(1)),
            "angles": related(3),
            "dihedrals": related(4, exclude_14=np.array([True])),
            "impropers": related(4),
            "pairs": related(2, is_14=np.array([True])),
            "exclusions": related(2),
            "constraints": related(2, r0=f64(1.0)),
            "virtual_sites": Block(sites, validity={"atoml": [False]}),
            "drudes": related(2),
            "members": {"ibead": u64(0, 0, 1), "atom": u64(0, 1, 2)},
        }
    )


def test_D12_canonical_topology(tmp_path):
    frame = canonical_topology()
    record = write_record(tmp_path, frame=frame, system=frame, trajectory=[frame])
    with open_record(record) as found:
        assert found.frame == frame
        assert found.system == frame
        assert dict(found.trajectory[0]) == dict(frame)
        sites = found.frame["virtual_sites"]
        assert sites.validity["atoml"].tolist() == [False]
        for block in found.frame.values():
            for key, dtype in KEYS:
                if key in block:
                    assert block[key].dtype == DTYPES[dtype][0].dtype


STRINGS = ["", "CA", "häm", "\U0001d6fc", "a" * 300, "null\0inside"]


@pytest.mark.parametrize(
    "values",
    [
        STRINGS,
        tuple(STRINGS),
        np.array(STRINGS),
        np.array(STRINGS, object),
        np.array(STRINGS, np.dtypes.StringDType()),
        np.array(STRINGS, ">U300"),
    ],
    ids=["list", "tuple", "unicode", "object", "variable", "big-endian"],
)
def test_D14_spellings_of_strings(tmp_path, values):
    frame = Frame({"atoms": {"name": values}})
    record = write_record(tmp_path, frame=frame, trajectory=[frame])
    with open_record(record) as found:
        for block in (found.frame["atoms"], found.trajectory[0]["atoms"]):
            assert isinstance(block["name"].dtype, np.dtypes.StringDType)
            assert block["name"].tolist() == STRINGS


@pytest.mark.parametrize(
    "values",
    [
        np.array([b"CA", b"CB"]),
        [b"CA", b"CB"],
        np.array(["CA", 1], object),
        np.array(["CA", None], object),
        np.array(["CA", b"CB"], object),
        ["CA", 1],
        ["CA", 1.5],
        ["CA", "\ud800"],
        np.array(["CA", "\ud800"]),
    ],
)
def test_D14_what_is_no_string(values):
    with unwritable("dtype", "name"):
        Block({"name": values})


@pytest.mark.parametrize("values", [[1 << 70, 1], [object()], [{"a": 1}]])
def test_D14_what_is_no_column(values):
    with unwritable("dtype", "a"):
        Block({"a": values})


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2], np.int64),
        np.array([1, 2], np.complex128),
        np.array(["a", "b"]),
        np.array([[1.0], [2.0]]),
        np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]),
    ],
)
def test_D15_values_other_than_declared(tmp_path, values):
    schema = (
        SequenceSchema().declare_column("vectors", "q", "f64", (2,)).declare_column("scalars", "q", "f64")
    )
    with TrajectoryWriter(tmp_path / "run.mrec", schema) as writer:
        writer.append(Frame({"vectors": {"q": np.zeros((3, 2))}, "scalars": {"q": [1.0, 2.0]}}))
        for name in ("vectors", "scalars"):
            with unwritable("column_type", f"trajectory/{name}/q"):
                writer.append(Frame({name: {"q": values}}))
    assert len(open_record(tmp_path / "run.mrec").trajectory) == 1


def test_D15_stored_other_than_declared(tmp_path):
    record = write(tmp_path, [Frame({"atoms": {"q": [1.0, 2.0]}})])
    replace_array(record, "trajectory/atoms/q", np.array([1, 2], np.int64))
    with unreadable("schema_mismatch", "trajectory/atoms/q"):
        _ = open_record(record).trajectory


def test_D15_declared_dtype_outside_the_thirteen(tmp_path):
    with unwritable("dtype", "trajectory/atoms/q"):
        SequenceSchema().declare_column("atoms", "q", "f32")
    record = write(tmp_path, [Frame({"atoms": {"q": [1.0, 2.0]}})])
    pin = attributes(record, "trajectory")["sequence_schema"]
    for dtype in ("f32", "json", "float64"):
        pin["blocks"]["atoms"]["columns"]["q"]["dtype"] = dtype
        set_attributes(record, "trajectory", sequence_schema=pin)
        with unreadable("dtype", "trajectory/atoms/q"):
            _ = open_record(record).trajectory
