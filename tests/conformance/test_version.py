"""Checklist group V: the contract version key."""

from __future__ import annotations

import pytest

from conformance.records import attributes, changed, refused, set_attributes
from molrec_core import (
    Block,
    Frame,
    MetricsWriter,
    SchemaError,
    TrajectoryWriter,
    UnsupportedVersionError,
    fold_metrics,
    open_record,
    pack,
    read_mrec_meta,
    validate,
    write_mrec,
)

FRAME = Frame({"atoms": Block({"x": [0.0]})})


def write(tmp_path, **meta):
    record = tmp_path / "run.mrec"
    write_mrec(record, frame=FRAME, meta=meta)
    return record


def assert_refused(tmp_path, version):
    """Neither a reader nor a writer takes it, not even one that only adds frames."""
    record = tmp_path / "run.mrec"
    with TrajectoryWriter(record) as writer:
        writer.append(FRAME)
    assert open_record(record).meta["molrec_version"] == 1
    with changed(record, "meta") as found:
        found["attributes"]["molrec_version"] = version
    for path in (record, pack(record)):
        with refused(UnsupportedVersionError, "unsupported_version", "meta"):
            open_record(path)
    for add in (TrajectoryWriter.reopen, MetricsWriter, fold_metrics):
        with refused(UnsupportedVersionError, "unsupported_version", "meta"):
            add(record)
    assert ("unsupported_version", "meta") in [(p.kind, p.loc) for p in validate(record)]
    with refused(SchemaError, "unsupported_version", "meta"):
        write(tmp_path / "..", molrec_version=version)


def test_V01_a_writer_stamps_the_version(tmp_path):
    record = write(tmp_path, title="t")
    assert attributes(record, "meta") == {"title": "t", "molrec_version": 1}
    with TrajectoryWriter(tmp_path / "t.mrec") as writer:
        writer.append(FRAME)
    assert attributes(tmp_path / "t.mrec", "meta") == {"molrec_version": 1}


@pytest.mark.parametrize("version", [1, 2])
def test_V01_a_valid_version_of_the_producer_stays(tmp_path, version):
    given = {"molrec_version": version}
    record = write(tmp_path, **given)
    assert attributes(record, "meta") == {"molrec_version": version}
    assert given == {"molrec_version": version}


@pytest.mark.parametrize("version", [1, 2])
def test_V02_the_version_is_handed_back(tmp_path, version):
    record = write(tmp_path, molrec_version=version)
    assert open_record(record).meta == {"molrec_version": version}
    assert read_mrec_meta(record) == {"molrec_version": version}
    assert validate(record) == []


def test_V03_an_absent_version_opens(tmp_path):
    record = write(tmp_path, title="t")
    set_attributes(record, "meta", molrec_version=None)
    with open_record(record) as found:
        assert found.meta == {"title": "t"}
        assert found.frame == FRAME
    assert validate(record) == []


def test_V04_zero(tmp_path):
    assert_refused(tmp_path, 0)


def test_V04_negative(tmp_path):
    assert_refused(tmp_path, -1)


@pytest.mark.parametrize("version", [3, 2**70])
def test_V07_newer_than_what_is_known(tmp_path, version):
    assert_refused(tmp_path, version)
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        open_record(tmp_path / "run.mrec")


def test_V08_null(tmp_path):
    assert_refused(tmp_path, None)


@pytest.mark.parametrize("version", ["1", 1.0, 2.0, True, False, [1], {}])
def test_V09_anything_but_an_integer(tmp_path, version):
    assert_refused(tmp_path, version)


def test_V09_the_stored_number_1_0_is_not_1(tmp_path):
    record = write(tmp_path)
    path = record / "meta/zarr.json"
    text = path.read_text()
    assert '"molrec_version": 1\n' in text
    path.write_text(text.replace('"molrec_version": 1\n', '"molrec_version": 1.0\n'))
    with refused(UnsupportedVersionError, "unsupported_version", "meta"):
        open_record(record)
