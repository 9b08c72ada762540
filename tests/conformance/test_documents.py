"""Checklist group U: documents, the record's root and unknown content."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import zarr

from conformance.records import (
    attributes,
    document,
    make_group,
    nodes,
    refused,
    remove,
    replace_array,
    set_attributes,
    unreadable,
)
from molrec_core import (
    Block,
    ForceField,
    FormatError,
    Frame,
    RecordNotFoundError,
    SchemaError,
    TrajectoryWriter,
    open_record,
    pack,
    unpack,
    validate,
    write_mrec,
)

FRAME = Frame({"atoms": Block({"x": [0.0, 1.0]})})
STATUS = {"state": "running"}
METHOD = {"type": "classical", "description": "NVT", "engine": {"name": "molrs"}}


def write(tmp_path, **sections):
    record = tmp_path / "run.mrec"
    write_mrec(record, overwrite=True, **({"frame": FRAME} | sections))
    return record


def assert_unreadable(record, section, kind, loc):
    """The section is refused and found by the validator; the frame still opens."""
    with open_record(record) as found:
        with unreadable(kind, loc):
            getattr(found, section)
        assert found.frame == FRAME
    assert (kind, loc) in [(p.kind, p.loc) for p in validate(record)]


def both_ways(tmp_path, section, accepted, change, loc, kind="document"):
    """`accepted` is carried; with `change` it is refused on writing and on reading."""
    record = write(tmp_path, **{section: accepted})
    stored = {k: v for k, v in getattr(open_record(record), section).items() if k != "molrec_version"}
    assert stored == accepted
    assert validate(record) == []
    malformed = {k: v for k, v in (accepted | change).items() if v is not ...}
    with refused(SchemaError, kind, loc):
        write_mrec(tmp_path / "refused.mrec", frame=FRAME, **{section: malformed})
    assert not (tmp_path / "refused.mrec").exists()
    with open(record / section / "zarr.json", "w", encoding="utf-8") as file:
        json.dump({"zarr_format": 3, "node_type": "group", "attributes": malformed}, file)
    assert_unreadable(record, section, kind, loc)


def test_U01_a_document_is_the_attributes_of_its_group(tmp_path):
    record = write(tmp_path, meta={"x": 1}, status=STATUS, method=METHOD)
    assert attributes(record, "meta") == {"x": 1, "molrec_version": 1}
    assert attributes(record, "status") == STATUS
    assert attributes(record, "method") == METHOD
    for section in ("meta", "status", "method"):
        assert document(record, section)["node_type"] == "group"
        assert nodes(record, section) == []
    remove(record, "status")
    replace_array(record, "status", np.zeros(2))
    assert_unreadable(record, "status", "node_type", "status")


def test_U02_unset_is_absent_and_unknown_is_verbatim(tmp_path):
    meta = {"x_vendor_version": 7, "x_reviewed": None}
    status = STATUS | {"x_note": None}
    record = write(tmp_path, meta=meta, status=status)
    assert attributes(record, "meta") == meta | {"molrec_version": 1}
    assert attributes(record, "status") == status
    with open_record(record) as found:
        assert found.meta == meta | {"molrec_version": 1}
        assert found.status == status
        found.meta["x_reviewed"] = 3
        found.status["x_note"] = 3
        assert (found.meta["x_reviewed"], found.status["x_note"]) == (None, None)


def test_U02_what_was_handed_out_belongs_to_the_caller(tmp_path):
    frame = Frame({"atoms": Block({"x": [0.0]}, attributes={"v": {"k": 1}})}, meta={"j": {"a": [1]}})
    record = write(
        tmp_path, meta={"units": {"length": "nm"}}, status={"state": "x", "progress": {"a": 1}}, frame=frame
    )
    with open_record(record) as found:
        found.meta["units"]["length"] = "m"
        found.status["progress"]["a"] = 2
        found.frame.meta["j"]["a"].append(2)
        found.frame["atoms"].attributes["v"]["k"] = 2
        assert found.meta["units"] == {"length": "nm"}
    with open_record(record) as found:
        assert (found.meta["units"], found.status["progress"]) == ({"length": "nm"}, {"a": 1})
        assert found.frame == frame


@pytest.mark.parametrize("section", ["meta", "status", "method"])
@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": {1: 2}}, object(), b"x", np.float64("nan")])
def test_U03_only_plain_finite_json(tmp_path, section, value):
    accepted = {"meta": {}, "status": STATUS, "method": METHOD}[section]
    with refused(SchemaError, "not_json", section):
        write_mrec(tmp_path / "refused.mrec", frame=FRAME, **{section: accepted | {"x": value}})
    assert not (tmp_path / "refused.mrec").exists()


def test_U03_a_stored_nan_token_is_refused(tmp_path):
    record = write(tmp_path, status=STATUS | {"x": 1.5})
    path = record / "status/zarr.json"
    path.write_text(path.read_text().replace("1.5", "NaN"))
    assert_unreadable(record, "status", "bad_json", "status")


def test_U04_meta_is_always_there_and_may_be_missing_on_reading(tmp_path):
    record = write(tmp_path)
    assert attributes(record, "meta") == {"molrec_version": 1}
    remove(record, "meta")
    with open_record(record) as found:
        assert found.meta == {}
        assert found.frame == FRAME


def test_U04_a_set_status_keeps_its_rules(tmp_path):
    record = tmp_path / "run.mrec"
    with TrajectoryWriter(record, status=STATUS) as writer:
        writer.append(FRAME)
        writer.set_status({"state": "succeeded", "x": None})
        with refused(SchemaError, "document", "status/state"):
            writer.set_status({})
    assert open_record(record).status == {"state": "succeeded", "x": None}


def test_U05_identity(tmp_path):
    meta = {"record_id": "8f14e45f-ea8f-4b6d-9c1a-000000000001", "content_hash": "sha256:" + "0" * 64}
    both_ways(tmp_path, "meta", meta, {"record_id": 3}, "meta/record_id")
    both_ways(tmp_path, "meta", meta, {"content_hash": None}, "meta/content_hash")


def test_U06_unknown_keys_of_meta(tmp_path):
    meta = {
        "creator": {"name": "molrec-suite", "version": "0.1.0"},
        "x_vendor_local": {"anything": [1, 2, 3]},
    }
    record = write(tmp_path, meta=meta)
    assert open_record(record).meta == meta | {"molrec_version": 1}


@pytest.mark.parametrize("key", ["creator", "author"])
@pytest.mark.parametrize("value", [{}, {"name": None}, {"name": 3}, "me", None])
def test_U07_creator_and_author_have_a_name(tmp_path, key, value):
    both_ways(tmp_path, "meta", {key: {"name": "me", "x": 1}}, {key: value}, f"meta/{key}")


@pytest.mark.parametrize("module", [{}, {"version": [1]}, {"version": [1, 0, 0]}, {"version": [1, "0"]}, {"version": [1, True]}, {"version": "1.0"}, 3, None])  # fmt: skip
def test_U07_a_module_states_two_integers(tmp_path, module):
    both_ways(
        tmp_path,
        "meta",
        {"modules": {"own": {"version": [1, 0], "x": None}}},
        {"modules": {"own": module}},
        "meta/modules/own",
    )


TIMES = [
    "2026-08-04T12:00:00Z",
    "2026-08-04T12:00:00.123456789+02:00",
    "2016-12-31T23:59:60Z",
    "2026-08-04T12:00:00-00:00",
]
NO_TIMES = ["2026-08-04T12:00:00", "2026-08-04 12:00:00Z", "2026-08-04", "2026-13-04T12:00:00Z", "2026-02-30T12:00:00Z",
            "2026-08-04T24:00:00Z", "2026-08-04T12:60:00Z", "2026-08-04T12:00:00+0200", "2026-08-04T12:00Z",
            "٢٠٢٦-08-04T12:00:00Z", "", 3, None]  # fmt: skip


@pytest.mark.parametrize("bad", NO_TIMES)
@pytest.mark.parametrize(
    ("section", "key"),
    [("meta", "created_at"), ("status", "started_at"), ("status", "updated_at"), ("status", "finished_at")],
)
def test_U08_times_have_an_offset(tmp_path, section, key, bad):
    accepted = {} if section == "meta" else STATUS
    both_ways(tmp_path, section, accepted | {key: TIMES[0]}, {key: bad}, f"{section}/{key}", "timestamp")


@pytest.mark.parametrize("time", TIMES)
def test_U08_times_are_kept_as_written(tmp_path, time):
    record = write(tmp_path, meta={"created_at": time}, status=STATUS | {"finished_at": time})
    with open_record(record) as found:
        assert (found.meta["created_at"], found.status["finished_at"]) == (time, time)


@pytest.mark.parametrize(
    "state", ["pending", "running", "succeeded", "failed", "cancelled", "skipped", "on-hold", ""]
)
def test_U09_any_word_is_a_state(tmp_path, state):
    assert open_record(write(tmp_path, status={"state": state})).status == {"state": state}


@pytest.mark.parametrize("state", [..., None, 3, ["running"]])
def test_U09_a_status_needs_a_state(tmp_path, state):
    both_ways(tmp_path, "status", STATUS, {"state": state}, "status/state")


STATUS_FIELDS = [
    ("epoch", -1), ("epoch", 1.0), ("epoch", True), ("epoch", None), ("global_step", -3), ("global_step", "3"),
    ("progress", [1]), ("progress", {"a": "1"}), ("progress", {"a": True}), ("progress", None),
    ("error", {}), ("error", {"message": None}), ("error", "boom"), ("error", None),
    ("stage", 3), ("message", ["a"]), ("message", None),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), STATUS_FIELDS)
def test_U10_fields_of_a_status(tmp_path, key, value):
    accepted = STATUS | {
        "epoch": 0, "global_step": 2**60, "progress": {"loss": 0.5, "n": 3}, "stage": "train", "message": "m",
        "error": {"message": "boom", "type": "E", "traceback": "t", "x": None},
    }  # fmt: skip
    both_ways(tmp_path, "status", accepted, {key: value}, f"status/{key}")


@pytest.mark.parametrize("key", ["type", "traceback"])
def test_U10_parts_of_an_error_are_strings(tmp_path, key):
    both_ways(tmp_path, "status", STATUS, {"error": {"message": "m", key: 3}}, f"status/error/{key}")


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"type": ...}, "method/type"),
        ({"type": None}, "method/type"),
        ({"description": ...}, "method/description"),
        ({"engine": ...}, "method/engine"),
        ({"engine": "molrs"}, "method/engine"),
        ({"engine": {}}, "method/engine"),
        ({"engine": {"name": "x", "version": 3}}, "method/engine"),
        ({"order": "a"}, "method/order"),
        ({"order": [1]}, "method/order"),
        ({"stages": []}, "method/stages"),
        ({"stages": {"a": METHOD, "b": 3}}, "method/stages/b"),
        ({"stages": {"a": METHOD | {"type": 3}}}, "method/stages/a/type"),
        (
            {"stages": {"a": METHOD | {"stages": {"b": METHOD | {"engine": {}}}}}},
            "method/stages/a/stages/b/engine",
        ),
    ],
)
def test_U11_a_method_and_its_stages(tmp_path, change, loc):
    accepted = METHOD | {
        "type": "workflow", "engine": {"name": "molexp", "version": "1", "x": None}, "order": ["a"],
        "stages": {"a": METHOD | {"stages": {"b": METHOD}}}, "x": None,
    }  # fmt: skip
    both_ways(tmp_path, "method", accepted, change, loc)


def test_U12_a_run_shaped_record(tmp_path):
    status = STATUS | {"stage": "train"}
    record = tmp_path / "run.mrec"
    write_mrec(record, status=status, method=METHOD)
    with open_record(record) as found:
        assert found.sections == ("meta", "status", "method")
        assert (found.status, found.method) == (status, METHOD)
    assert validate(record) == []


def forcefield():
    return ForceField({"name": "f", "units": {"preset": "real"}})


@pytest.mark.parametrize("section", ["frame", "system", "trajectory", "forcefield", "status"])
def test_U13_each_of_five_sections_is_enough(tmp_path, section):
    parts = {
        "frame": FRAME,
        "system": FRAME,
        "trajectory": [FRAME],
        "forcefield": forcefield(),
        "status": STATUS,
    }
    record = tmp_path / "run.mrec"
    write_mrec(record, **{section: parts[section]})
    assert open_record(record).sections == ("meta", section)
    assert validate(record) == []
    remove(record, section)
    with unreadable("no_section", str(record)):
        open_record(record)
    assert [p.kind for p in validate(record)] == ["no_section"]


def test_U13_none_of_them(tmp_path):
    with refused(SchemaError, "no_section", str(tmp_path / "run.mrec")):
        write_mrec(tmp_path / "run.mrec", meta={"a": 1}, method=METHOD)


def vendor(record):
    """A group of content nobody knows, with data types of which no column is made."""
    make_group(record, "x_vendor", tool="x", maybe=None)
    make_group(record, "x_vendor/inner", depth=2)
    replace_array(record, "x_vendor/grid", np.array([1, 2], np.int32))
    set_attributes(record, "x_vendor/grid", u=1)
    replace_array(record, "x_vendor/half", np.array([0.5], np.float16))
    (record / "x_vendor/notes.txt").write_text("plain")
    (record / "top.txt").write_text("top")


def files(record):
    return {p.relative_to(record).as_posix(): p.read_bytes() for p in record.rglob("*") if p.is_file()}


def test_U14_an_unknown_group_is_carried_through(tmp_path):
    record = tmp_path / "run.mrec"
    write_mrec(record, trajectory=[FRAME])
    vendor(record)
    before = files(record)
    with open_record(record) as found:
        assert found.sections == ("meta", "trajectory", "x_vendor")
    assert validate(record, deep=True) == []
    packed = pack(record)
    assert files(unpack(packed, tmp_path / "again.mrec")) == before
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(FRAME)
    after = files(record)
    kept = {name: data for name, data in before.items() if not name.startswith("trajectory/")}
    assert {name: after[name] for name in kept} == kept
    assert zarr.open_group(str(record), mode="r")["x_vendor/grid"][...].tolist() == [1, 2]


def test_U15_metrics_are_carried_as_they_are(tmp_path):
    record = write(tmp_path)
    make_group(record, "metrics", x_vendor=None)
    make_group(record, "metrics/own", a=1)
    (record / "metrics/metrics.jsonl").write_bytes(
        b'{"t":"scalar","k":"a","w":"2026-08-04T12:00:00Z","v":1.0}\n{torn'
    )
    before = files(record)
    assert files(unpack(pack(record), tmp_path / "again.mrec")) == before


@pytest.mark.parametrize("name", ["run.mrec", "run.zarr", "odd name", "run"])
def test_U16_any_name_opens_when_it_is_given(tmp_path, name):
    record = write(tmp_path).rename(tmp_path / f"moved-{name}")
    with open_record(record) as found:
        assert found.frame == FRAME
    (record / "zarr.json").unlink()
    with pytest.raises(RecordNotFoundError):
        open_record(record)


def test_U16_a_root_that_is_no_group(tmp_path):
    record = write(tmp_path)
    (record / "zarr.json").write_text("{}")
    with pytest.raises(FormatError) as caught:
        open_record(record)
    assert caught.value.kind == "not_zarr"
