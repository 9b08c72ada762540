"""Frame and system sections, ours to an independent implementation and back, value for value."""

from __future__ import annotations

import numpy as np
import pytest

from molrec_core import Block, Box, Frame, open_record, validate, write_mrec

molrs = pytest.importorskip("molrs")

META = {
    "title": "test",
    "n": 7,
    "wide": 2**64 - 1,
    "energy": np.nan,
    "dipole": np.array([0.0, 0.5, np.nan]),
    "ok": True,
    "flags": np.array([True, False, True]),
    "tree": {"run": [1, 2.5, None, "x"], "deep": {"a": {}}},
}
TAGS = {"n": "i32", "wide": "u64"}


def u64(*values):
    return np.array(values, np.uint64)


def frame():
    """Every column dtype, a null row, references, a volumetric block, typed meta and a triclinic cell."""
    atoms = Block(
        {
            "x": [0.0, -0.0, np.inf],
            "element": ["H", "", "Ö"],
            "id": u64(1, 2, 2**64 - 1),
            "mol_id": u64(1, 1, 0),
            "a_i8": np.array([-128, 0, 127], np.int8),
            "a_i16": np.array([1, 2, 3], np.int16),
            "a_i32": np.array([1, 2, 3], np.int32),
            "a_i64": np.array([1, 2, -(2**63)], np.int64),
            "a_u8": np.array([0, 1, 255], np.uint8),
            "a_u16": np.array([0, 1, 2], np.uint16),
            "a_u32": np.array([0, 1, 2], np.uint32),
            "flag": [True, False, True],
            "c": np.array([1 + 2j, 0, -1j]),
            "c_narrow": np.array([1 + 2j, 0, -1j], np.complex64),
            "velocity": np.arange(9.0).reshape(3, 3),
            "rounded": [0.123046875, 0.0, 2.0],
        },
        validity={"mol_id": [True, True, False]},
        precision={"rounded": 1e-3},
    )
    members = Block(
        {"ibead": u64(0, 0, 1), "atom": u64(0, 1, 2)}, targets={"atom": "atoms", "ibead": "beads"}
    )
    box = Box(
        [[4.0, 1.0, 0.5], [0.0, 5.0, 0.25], [0.0, 0.0, 6.0]],
        origin=[1.0, 2.0, 3.0],
        boundary=[True, False, True],
    )
    blocks = {
        "atoms": atoms,
        "members": members,
        "beads": Block({"mass": [1.0, 2.0]}),
        "density": Block({"rho": np.arange(8.0)}, structural_shape=(2, 2, 2)),
        "empty": Block({"x": np.zeros(0)}),
    }
    return Frame(blocks, box=box, meta=META, meta_tags=TAGS)


def system():
    blocks = {
        "atoms": Block({"type": ["CT", "HC"], "charge": [0.5, -0.5]}),
        "bonds": Block({"atomi": u64(0), "atomj": u64(1), "order": [1.5]}),
    }
    return Frame(blocks, meta={"charge": -1}, meta_tags={"charge": "i32"})


def assert_same(ours, theirs):
    """Compare a frame of ours with one of theirs, exactly."""
    assert sorted(ours) == sorted(theirs.keys())
    for name, block in ours.items():
        other = theirs[name]
        assert sorted(block) == sorted(other.keys()), name
        assert block.count == other.n_rows
        assert block.targets == dict(other.targets())
        shape = other.structural_shape
        assert block.structural_shape == (None if shape is None else tuple(shape))
        for column, values in block.items():
            found = np.asarray(other[column])
            assert found.shape == values.shape
            if values.dtype.kind == "T":
                assert found.tolist() == values.tolist()
            else:
                assert (found.dtype, found.tobytes()) == (values.dtype, values.tobytes()), (name, column)
            mask = other.validity(column)
            assert (mask is None) == (column not in block.validity)
            assert mask is None or np.asarray(mask).tolist() == block.validity[column].tolist()
            assert other.precision(column) == block.precision.get(column)
    assert_same_meta(ours, theirs.meta)
    if ours.box is None:
        assert theirs.box is None
        return
    assert np.array_equal(np.asarray(theirs.box.matrix), ours.box.vectors)
    assert np.asarray(theirs.box.origin).tolist() == ours.box.origin.tolist()
    assert list(theirs.box.pbc) == ours.box.boundary.tolist()


def assert_same_meta(ours, meta):
    assert sorted(ours.meta) == sorted(meta.keys())
    for key, value in ours.meta.items():
        assert meta.dtype(key) == ours.meta_tags[key], key
        found = meta[key]
        if isinstance(value, np.ndarray):
            assert np.array_equal(np.array(found), value, equal_nan=value.dtype.kind == "f")
        elif isinstance(value, dict):
            assert plain(found) == value
        else:
            assert found == value or (found != found and value != value)


def plain(value):
    """Their frozen documents as plain JSON values."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if hasattr(value, "items") else value


def their_frame(ours):
    """Build one of theirs from ours."""
    theirs = molrs.Frame()
    for name, block in ours.items():
        made = molrs.Block()
        for column, values in block.items():
            array = values.astype(object).astype(str) if values.dtype.kind == "T" else values
            made.insert(column, array, block.validity.get(column))
            if column in block.precision:
                made.set_precision(column, block.precision[column])
        for column, target in block.targets.items():
            made.set_target(column, target)
        if block.structural_shape is not None:
            made.set_shape(list(block.structural_shape))
        theirs[name] = made
    for key, value in ours.meta.items():
        typed = tuple(value.tolist()) if isinstance(value, np.ndarray) else value
        theirs.meta[key] = molrs.core.MetaValue(ours.meta_tags[key], typed)
    return theirs


@pytest.mark.parametrize("form", ["directory", "packed"])
def test_they_read_ours(tmp_path, form):
    from molrec_core import pack

    record = tmp_path / "run.mrec"
    write_mrec(record, frame=frame(), system=system(), meta={"x": {"y": None}})
    source = record if form == "directory" else pack(record)
    found = molrs.io.mrec.MrecFile(source)
    assert found.sections() == ["frame", "meta", "system"]
    assert found.meta()["x"] == {"y": None}
    assert_same(frame(), found.frame())
    assert_same(system(), found.system())


def test_we_read_theirs(tmp_path):
    record = tmp_path / "theirs.mrec"
    given = Frame(dict(frame()), meta=META, meta_tags=TAGS)
    molrs.io.write_mrec(record, meta={"x": 1}, frame=their_frame(given), system=their_frame(system()))
    with open_record(record) as found:
        assert found.frame == given
        assert found.system == system()
        assert found.meta["x"] == 1
    assert [p for p in validate(record, deep=True) if p.severity == "error"] == []


def test_ours_comes_back_from_them(tmp_path):
    write_mrec(tmp_path / "a.mrec", frame=frame(), system=system())
    found = molrs.io.mrec.MrecFile(tmp_path / "a.mrec")
    molrs.io.write_mrec(tmp_path / "b.mrec", meta={}, frame=found.frame(), system=found.system())
    with open_record(tmp_path / "b.mrec") as record:
        assert record.frame == frame()
        assert record.system == system()
