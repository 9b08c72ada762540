"""Checklist items U14 to U16: unknown content is carried through; what makes a path a record."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.records import attributes, changed, make_group, refused, replace_array, write_record
from molrec_core import Frame, RecordNotFoundError, TrajectoryWriter, open_record, pack, unpack
from molrec_core._convert import convert

RUN = [Frame({"atoms": {"x": [float(i)]}}) for i in range(3)]


@pytest.fixture
def record(tmp_path):
    """A record with a producer's own group, array, plain file, attributes and metrics beside the sections."""
    path = write_record(tmp_path, frame=RUN[0], trajectory=RUN)
    with changed(path) as node:
        node["attributes"] = {"x_root": {"deep": [1, None, 2.0]}, "x_null": None}
        node["x_member"] = {"must_understand": False}
    make_group(path, "x_vendor", tool="x", maybe=None)
    replace_array(path, "x_vendor/grid", np.array([1, 2], np.int32))
    with changed(path, "x_vendor/grid") as node:
        node["attributes"]["u"] = 1
    make_group(path, "x_vendor/inner", depth=2)
    replace_array(path, "x_times", np.array([0, 1], "<M8[s]"))
    (path / "x_vendor" / "notes.txt").write_bytes(b"\x00not text\xff")
    (path / "README").write_bytes(b"plain")
    make_group(path, "metrics", series={"train/loss": {"type": "scalar"}})
    make_group(path, "metrics/series")
    replace_array(path, "metrics/series/train%2Floss", np.array([0.5, 0.25]))
    (path / "metrics" / "metrics.jsonl").write_bytes(b'{"t":"scalar"}\n{"t":')
    make_group(path, "trajectory/x_foreign", note=1)
    with changed(path, "trajectory") as node:
        node["attributes"]["x_attribute"] = "kept"
    return path


def outside(path):
    """Every file that belongs to no section we know."""
    known = ("zarr.json", "meta/", "frame/", "trajectory/")
    found = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(known)}


def check(path, original):
    assert outside(path) == original
    assert len(original) >= 11
    assert attributes(path) == {"x_root": {"deep": [1, None, 2.0]}, "x_null": None}
    assert json.loads((path / "zarr.json").read_text())["x_member"] == {"must_understand": False}
    assert attributes(path, "x_vendor") == {"tool": "x", "maybe": None}
    assert attributes(path, "x_vendor/grid") == {"u": 1}
    assert attributes(path, "x_vendor/inner") == {"depth": 2}
    assert attributes(path, "metrics") == {"series": {"train/loss": {"type": "scalar"}}}


def test_U14_U15_unknown_content_is_packed_and_unpacked(tmp_path, record):
    original = outside(record)
    archive = pack(record)
    with open_record(archive) as found:
        assert found.frame == RUN[0]
    check(unpack(archive, tmp_path / "again.mrec"), original)


def test_U14_U15_unknown_content_is_appended_beside(record):
    original = outside(record)
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(RUN[0])
        writer.set_status({"state": "running"})
    (record / "status" / "zarr.json").unlink()
    check(record, original)
    assert attributes(record, "trajectory")["x_attribute"] == "kept"
    assert attributes(record, "trajectory/x_foreign") == {"note": 1}
    assert [f["atoms"]["x"][0] for f in open_record(record).trajectory] == [0.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize("packed", [False, True])
def test_U14_U15_unknown_content_is_converted(tmp_path, record, packed):
    original = outside(record)
    source = pack(record) if packed else record
    target = convert(source, tmp_path / "again.mrec")
    check(target, original)
    assert [f["atoms"]["x"][0] for f in open_record(target).trajectory] == [0.0, 1.0, 2.0]


def test_U14_unknown_sections_are_named(record):
    with open_record(record) as found:
        assert found.sections == ("meta", "frame", "trajectory", "metrics", "x_times", "x_vendor")
        assert "x_vendor" not in found
        assert found.get("x_vendor") is None


@pytest.mark.parametrize("name", ["run.mrec", "run.zarr", "run", "run.mrec/", "a b", "h\u00e4m.mrec"])
def test_U16_a_path_given_explicitly_opens(tmp_path, record, name):
    path = tmp_path / name.rstrip("/")
    if path != record:
        record.rename(path)
    for given in (f"{tmp_path}/{name}", path, f"file://{tmp_path}/{name}"):
        with open_record(given) as found:
            assert found.frame == RUN[0]


def test_U16_a_zip_opens_whatever_its_name(tmp_path, record):
    with open_record(pack(record, tmp_path / "anything.bin")) as found:
        assert found.frame == RUN[0]


def test_U16_what_is_no_record(tmp_path, record):
    (record / "zarr.json").unlink()
    for path in (tmp_path, record, tmp_path / "nothing"):
        with refused(RecordNotFoundError, "not_found", str(path)) as caught:
            open_record(path)
        assert "a record is a directory with a zarr.json" in str(caught.value)
    for thing in (None, 3, np.zeros(3)):
        with refused(RecordNotFoundError, "not_found", repr(thing)):
            open_record(thing)
