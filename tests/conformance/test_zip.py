"""Checklist group Z: the at-rest form of a record, one ``*.mrec.zip``."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from conformance.records import document, refused, unreadable, write, write_record
from molrec_core import (
    Block,
    Frame,
    LockedError,
    ReadOnlyError,
    RecordExistsError,
    RecordNotFoundError,
    TrajectoryWriter,
    open_record,
    pack,
    repair,
    unpack,
    validate,
    write_mrec,
)

GOLDEN = Path(__file__).parent / "golden" / "fixed-precision.mrec.zip"


def files(record):
    return sorted(p.relative_to(record).as_posix() for p in record.rglob("*") if p.is_file())


def frames(n=4):
    rng = np.random.default_rng(5)
    return [
        Frame(
            {
                "atoms": Block(
                    {name: rng.normal(size=8) for name in "xyz"}, precision=dict.fromkeys("xyz", 1e-3)
                )
            }
        )
        for _ in range(n)
    ]


@pytest.fixture
def record(tmp_path):
    return write_record(tmp_path, frame=frames()[0], trajectory=frames(), status={"state": "succeeded"})


def frame_of(path):
    with open_record(path) as found:
        return found.frame


def build(path, members, **options):
    """Write an archive from {name: bytes}, the way another tool might."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=archive.compression)
    return path


def contents(record):
    return {name: (record / name).read_bytes() for name in files(record)}


def test_Z01_one_entry_a_file(tmp_path, record):
    archive = pack(record)
    assert archive == tmp_path / "run.mrec.zip"
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
        assert {"zarr.json", "meta/zarr.json", "trajectory/atoms/x/c/0"} <= set(names)
        assert sorted(names) == files(record)
        assert {name: opened.read(name) for name in names} == contents(record)
    assert record.is_dir()


def test_Z01_packed_reads_as_the_directory(record):
    archive = pack(record)
    with open_record(record) as directory, open_record(archive) as packed:
        assert packed.sections == directory.sections
        assert packed.frame == directory.frame
        assert list(packed.trajectory) == list(directory.trajectory)
        assert packed.status == directory.status


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
def test_Z01_any_zip_backed_store_opens_it(record):
    archive = pack(record)
    with zarr.storage.ZipStore(archive, mode="r") as store:
        found = zarr.open_array(store, path="trajectory/atoms/x", mode="r")[...]
    assert (
        found.tolist() == np.concatenate([f["atoms"]["x"] for f in open_record(record).trajectory]).tolist()
    )


def test_Z01_unpack_gives_the_same_files(tmp_path, record):
    archive = pack(record)
    again = unpack(archive, tmp_path / "again.mrec")
    assert contents(again) == contents(record)
    with TrajectoryWriter.reopen(again) as writer:
        writer.append(frames()[0])
    assert len(open_record(again).trajectory) == 5


def test_Z02_stored_sorted_and_stamped_alike(tmp_path, record):
    first, second = pack(record), pack(record, tmp_path / "second.mrec.zip")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as opened:
        infos = opened.infolist()
        assert [info.filename for info in infos] == sorted(info.filename for info in infos)
        for info in infos:
            assert info.compress_type == zipfile.ZIP_STORED
            assert not info.is_dir()
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.external_attr >> 16 == 0o100644


@pytest.mark.parametrize("limit", ["ZIP64_LIMIT", "ZIP_FILECOUNT_LIMIT"])
def test_Z02_zip64_when_needed(record, monkeypatch, limit):
    # The bounds of the classic format, made small enough to cross in a test.
    monkeypatch.setattr(zipfile, limit, 5)
    archive = pack(record)
    monkeypatch.undo()
    data = archive.read_bytes()
    assert b"PK\x06\x06" in data
    with open_record(archive) as packed:
        assert list(packed.trajectory) == list(open_record(record).trajectory)


def test_Z02_takes_the_writer_lock(tmp_path):
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        writer.append(frames()[0])
        writer.flush()
        with refused(LockedError, "locked", str(path)):
            pack(path)
    assert pack(path).exists()


def test_Z02_links_are_refused(tmp_path, record):
    outside = tmp_path / "outside"
    outside.write_text("secret")
    (record / "frame" / "link").symlink_to(outside)
    with unreadable("symlink", "frame/link"):
        pack(record)
    (record / "frame" / "link").unlink()
    (record / "linked").symlink_to(tmp_path, target_is_directory=True)
    with unreadable("symlink", "linked"):
        pack(record)
    assert not (tmp_path / "run.mrec.zip").exists()


def test_Z02_temporaries_stay_behind(record):
    (record / "frame" / "zarr.json.tmp").write_bytes(b"{}")
    with zipfile.ZipFile(pack(record)) as opened:
        assert "frame/zarr.json.tmp" not in opened.namelist()


def test_Z02_remove_after_the_archive_is_there(record):
    expected = contents(record)
    archive = pack(record, remove=True)
    assert not record.exists()
    assert contents(unpack(archive)) == expected


def test_Z02_what_is_there_stays(tmp_path, record):
    archive = pack(record)
    with refused(RecordExistsError, "exists", str(archive)):
        pack(record)
    assert pack(record, overwrite=True) == archive
    with refused(RecordExistsError, "exists", str(record)):
        unpack(archive)
    with refused(RecordNotFoundError, "not_found", str(tmp_path / "no.mrec")):
        pack(tmp_path / "no.mrec")
    with refused(RecordNotFoundError, "not_found", str(tmp_path)):
        pack(tmp_path)
    with refused(RecordNotFoundError, "not_found", str(record)):
        unpack(record)


def test_Z02_unpack_beside_a_foreign_name(tmp_path, record):
    archive = pack(record, tmp_path / "archive")
    assert unpack(archive) == tmp_path / "archive.mrec"


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../evil", "a/../../evil", "a\\b", "a//b", "./zarr.json", ".."]
)
def test_Z03_names_that_lead_out(tmp_path, record, name):
    members = contents(record)
    archive = build(tmp_path / "x.mrec.zip", members)
    assert frame_of(archive) == frame_of(record)
    evil = build(tmp_path / "evil.mrec.zip", members | {name: b"{}"})
    for read in (open_record, unpack):
        with unreadable("zip_member_name", str(evil)):
            read(evil)
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "evil.mrec").exists()


def test_Z03_a_name_with_nul(tmp_path, record):
    archive = build(tmp_path / "x.mrec.zip", contents(record) | {"aXb": b"{}"})
    archive.write_bytes(archive.read_bytes().replace(b"aXb", b"a\0b"))
    # zipfile cuts a name at a NUL, so what it lists is "a", which leads nowhere.
    assert frame_of(archive) == frame_of(record)


def test_Z03_the_directory_is_no_path_component(tmp_path, record):
    with zipfile.ZipFile(pack(record)) as opened:
        assert not any(name.startswith("run.mrec") for name in opened.namelist())
    members = {f"run.mrec/{name}": data for name, data in contents(record).items()}
    archive = build(tmp_path / "zipped-by-hand.mrec.zip", {"run.mrec/": b""} | members)
    with open_record(archive) as found:
        assert found.frame == open_record(record).frame
        assert list(found.trajectory) == list(open_record(record).trajectory)
    assert contents(unpack(archive)) == contents(record)


def test_Z03_two_leading_directories_are_no_record(tmp_path, record):
    members = {f"run.mrec/{name}": data for name, data in contents(record).items()} | {"__MACOSX/x": b""}
    archive = build(tmp_path / "two.mrec.zip", members)
    with refused(RecordNotFoundError, "not_found", str(archive)):
        open_record(archive)


def test_Z03_a_member_twice(tmp_path, record):
    members = [*contents(record).items(), ("meta/zarr.json", b"{}")]
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive = build(tmp_path / "twice.mrec.zip", members)
    with unreadable("zip_duplicate", str(archive)):
        open_record(archive)


def test_Z03_compressed_members(tmp_path, record):
    archive = build(tmp_path / "deflated.mrec.zip", contents(record), compression=zipfile.ZIP_DEFLATED)
    with unreadable("zip_compressed", files(record)[0]) as caught:
        open_record(archive)
    assert "pack it again" in str(caught.value)


def test_Z03_an_encrypted_member(tmp_path, record):
    archive = pack(record)
    data = bytearray(archive.read_bytes())
    entry = data.find(b"PK\1\2")
    data[entry + 8] |= 1
    archive.write_bytes(data)
    with unreadable("zip_compressed", files(record)[0]):
        open_record(archive)


def test_Z03_not_an_archive(tmp_path, record):
    archive = pack(record)
    broken = tmp_path / "broken.mrec.zip"
    broken.write_bytes(archive.read_bytes()[:-30])
    with unreadable("bad_zip", str(broken)):
        open_record(broken)
    broken.write_bytes(b"")
    with unreadable("bad_zip", str(broken)):
        open_record(broken)
    with refused(RecordNotFoundError, "not_found", str(build(tmp_path / "empty.zip", {}))):
        open_record(tmp_path / "empty.zip")


def test_Z03_a_directory_that_lies(record):
    archive = pack(record)
    data = bytearray(archive.read_bytes())
    entry = data.rfind(b"PK\1\2")
    # The offset of the last member's local header, 42 bytes into its entry.
    (offset,) = struct.unpack_from("<I", data, entry + 42)
    data[entry + 42 : entry + 46] = struct.pack("<I", offset + 1)
    archive.write_bytes(data)
    assert files(record)[-1] == "zarr.json"
    with unreadable("bad_zip", "zarr.json"):
        open_record(archive)


def test_Z03_members_that_share_bytes(record):
    """Unpacked, a small archive of one large member named many times would fill a disk."""
    archive = pack(record)
    data = bytearray(archive.read_bytes())
    entry = data.rfind(b"PK\1\2")
    data[entry + 42 : entry + 46] = struct.pack("<I", 0)
    archive.write_bytes(data)
    with unreadable("zip_overlap", str(archive)):
        open_record(archive)


def test_Z04_a_packed_record_is_read_only(record):
    archive = pack(record)
    before = archive.read_bytes()
    for write_to in (
        lambda: TrajectoryWriter(archive),
        lambda: TrajectoryWriter(archive, overwrite=True),
        lambda: TrajectoryWriter.reopen(archive),
        lambda: write_mrec(archive, frame=Frame(), overwrite=True),
        lambda: repair(archive),
        lambda: pack(archive),
    ):
        with refused(ReadOnlyError, "read_only", str(archive)):
            write_to()
    assert archive.read_bytes() == before
    assert [p.severity for p in validate(archive)] == []


def test_Z04_a_url_is_read_only():
    with refused(ReadOnlyError, "read_only", "s3://bucket/run.mrec"):
        TrajectoryWriter("s3://bucket/run.mrec")


def test_Z05_golden_precision(tmp_path):
    with zipfile.ZipFile(GOLDEN) as opened:
        assert {info.compress_type for info in opened.infolist()} == {zipfile.ZIP_STORED}
    with open_record(GOLDEN) as packed:
        columns, frames = packed.trajectory.schema.blocks["atoms"].columns, list(packed.trajectory)
    assert {name: columns[name].precision for name in "xyz"} == dict.fromkeys("xyz", 1e-3)
    plain = unpack(GOLDEN, tmp_path / "plain.mrec")
    node = document(plain, "trajectory/atoms/x")
    inner = [codec["name"] for codec in node["codecs"][0]["configuration"]["codecs"]]
    assert inner == ["bytes", "numcodecs.shuffle", "zstd", "crc32c"]
    assert list(open_record(plain).trajectory) == frames
    assert len(frames) > 0


def test_Z05_a_precision_record_of_ours(tmp_path):
    run = frames()
    record = write(tmp_path, run, steps=[0, 10, 20, 30])
    archive = pack(record)
    with open_record(archive) as packed:
        assert packed.trajectory.steps.tolist() == [0, 10, 20, 30]
        for found, given in zip(packed.trajectory, run, strict=True):
            for name in "xyz":
                assert found["atoms"][name].tolist() == (np.rint(given["atoms"][name] * 1024) / 1024).tolist()
