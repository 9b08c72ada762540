"""What users of comparable tools suffered on append, overwrite and after a crash, asked of the core."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import time
import warnings

import numpy as np
import pytest

from molrec_core import (
    Block,
    Frame,
    ReadOnlyError,
    RecordError,
    RecordExistsError,
    RecordNotFoundError,
    TornIndexWarning,
    TrajectoryWriter,
    open_record,
    pack,
)


def frame(i, n=100):
    return Frame({"atoms": Block({axis: np.arange(n) * 0.25 + i for axis in "xyz"})}, meta={"pe": float(i)})


def write(path, numbers, **options):
    with TrajectoryWriter(path, **options) as writer:
        for i in numbers:
            writer.append(frame(i))
    return path


def energies(path):
    with open_record(path) as record:
        return [f.meta["pe"] for f in record.trajectory]


def bytes_of(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_P094_P098_an_existing_record_is_neither_cut_nor_replaced_unasked(tmp_path):
    path = write(tmp_path / "run.mrec", range(4))
    before = bytes_of(path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        TrajectoryWriter(path)
    assert bytes_of(path) == before


def test_P098_an_overwrite_that_fails_leaves_the_old_record(tmp_path):
    path = write(tmp_path / "run.mrec", range(4))
    before = bytes_of(path)

    def fail():
        with TrajectoryWriter(path, overwrite=True) as writer:
            writer.append(frame(9))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert bytes_of(path) == before
    assert os.listdir(tmp_path) == ["run.mrec"]
    assert energies(write(path, [7.0], overwrite=True)) == [7.0]
    assert os.listdir(tmp_path) == ["run.mrec"]


def test_P095_ten_and_ten_are_twenty(tmp_path):
    path = write(tmp_path / "run.mrec", range(10))
    with TrajectoryWriter.reopen(path) as writer:
        assert len(writer) == 10
        for i in range(10, 20):
            writer.append(frame(i))
    assert energies(path) == list(map(float, range(20)))


def test_P096_P097_a_closed_writer_lets_go(tmp_path):
    """flush, close and `with`; after that a new writer opens and the path can be renamed and removed."""
    path = tmp_path / "run.mrec"
    writer = TrajectoryWriter(path)
    writer.append(frame(0))
    writer.flush()
    assert energies(path) == [0.0]
    writer.close()
    writer.close()
    moved = tmp_path / "moved.mrec"
    path.rename(moved)
    with TrajectoryWriter.reopen(moved) as writer:
        writer.append(frame(1))
    assert energies(moved) == [0.0, 1.0]
    shutil.rmtree(moved)


def test_P100_every_way_of_opening_on_an_absent_and_an_existing_path(tmp_path):
    absent, there = tmp_path / "absent.mrec", tmp_path / "there.mrec"
    for call, on_absent, on_there in (
        (TrajectoryWriter, [5.0], RecordExistsError),
        (lambda p: TrajectoryWriter(p, overwrite=True), [5.0], [5.0]),
        (TrajectoryWriter.reopen, RecordNotFoundError, [0.0, 1.0, 5.0]),
    ):
        for path, outcome in ((absent, on_absent), (there, on_there)):
            shutil.rmtree(absent, ignore_errors=True)
            shutil.rmtree(there, ignore_errors=True)
            write(there, range(2))
            if isinstance(outcome, list):
                with call(path) as writer:
                    writer.append(frame(5))
                assert energies(path) == outcome
            else:
                with pytest.raises(outcome):
                    call(path)


def test_P102_what_is_stored_is_what_was_given(tmp_path):
    """The arrays may change before and after an append; what counts is the moment of it."""
    path = tmp_path / "run.mrec"
    x = np.zeros(5)
    with TrajectoryWriter(path) as writer:
        for _ in range(3):
            x += 1
            writer.append(Frame({"atoms": Block({"x": x})}))
        x[:] = -9
    assert [f["atoms"]["x"][0] for f in open_record(path).trajectory] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("nstep", [2**31, 2**62, -1, 1.5, "9", None, True])
def test_P106_a_marker_that_claims_what_is_not_there(tmp_path, nstep):
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        for i in range(5):
            writer.append(frame(i), step=i * i)
    marker = path / "trajectory" / "zarr.json"
    document = json.loads(marker.read_text())
    document["attributes"]["nstep"] = nstep
    marker.write_text(json.dumps(document))
    with pytest.raises(RecordError, match=r"trajectory"):
        open_record(path).trajectory[0]


def test_P107_a_reader_never_sees_part_of_a_frame(tmp_path):
    """After each flush every array holds the frame, or none does."""
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as writer:
        for i in range(50):
            writer.append(frame(i, 3 + i % 4))
            if i % 3 == 0:
                writer.flush()
                last = open_record(path).trajectory[-1]
                assert last.meta["pe"] == i
                assert all(len(last["atoms"][axis]) == 3 + i % 4 for axis in "xyz")
            assert len(open_record(path).trajectory) == writer.committed


def test_P109_a_shard_that_was_cut_raises_and_never_gives_wrong_numbers(tmp_path):
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path, expected_frames=200) as writer:
        for i in range(200):
            writer.append(frame(i))
    shard = path / "trajectory" / "atoms" / "x" / "c" / "0"
    whole = shard.read_bytes()
    rng = random.Random(109)
    refused = []
    for size in (0, 3, *(rng.randrange(len(whole)) for _ in range(20))):
        shard.write_bytes(whole[:size])
        reader = open_record(path).trajectory
        for i in range(0, 200, 7):
            try:
                found = reader[i]["atoms"]["x"]
            except RecordError as error:
                refused.append((error.kind, "atoms/x" in error.loc))
            else:
                assert found.tobytes() == frame(i)["atoms"]["x"].tobytes()
    assert len(refused) > 20
    assert {*refused} <= {(kind, True) for kind in ("checksum", "cut_short", "shard_index")}


def test_P112_no_file_is_opened_for_a_frame(tmp_path, monkeypatch):
    """In the steady state neither an append nor a read opens anything."""
    path = tmp_path / "run.mrec"
    opened = []
    real = os.open

    def count(*args, **kwargs):
        opened.append(args[0])
        return real(*args, **kwargs)

    with TrajectoryWriter(path) as writer:
        for i in range(200):
            writer.append(frame(i))
        writer.flush()
        writer._committer.stop()
        monkeypatch.setattr(os, "open", count)
        for i in range(200, 400):
            writer.append(frame(i))
        assert not opened
    reader = open_record(path).trajectory
    reader[0], reader[399]
    opened.clear()
    for i in range(400):
        reader[i]
    assert not opened


def test_K09_frames_land_within_seconds_by_the_clock(tmp_path):
    """A slow run loses seconds, not a buffer: flush_seconds commits though nothing more is appended."""
    path = tmp_path / "run.mrec"
    writer = TrajectoryWriter(path, flush_seconds=0.2)
    writer.append(frame(0))
    for _ in range(200):
        if writer.committed:
            break
        time.sleep(0.05)
    assert writer.committed == 1
    assert energies(path) == [0.0]
    writer.close()


def test_K10_paths_slices_pickles_and_archives(tmp_path):
    path = write(tmp_path / "run.mrec", range(9))
    for spelled in (str(path), path, f"{path}/", f"file://{path}"):
        assert energies(spelled) == list(map(float, range(9)))
    reader = open_record(path).trajectory
    assert [f.meta["pe"] for f in reader[1:8:3]] == [1.0, 4.0, 7.0]
    again = pickle.loads(pickle.dumps(reader))
    assert [f.meta["pe"] for f in again] == list(map(float, range(9)))
    archive = pack(path)
    assert path.exists(), "packing keeps the record unless it is told not to"
    with pytest.raises(ReadOnlyError, match=r"run\.mrec"):
        TrajectoryWriter.reopen(archive)
    archive.unlink()
    assert energies(pack(path, remove=True)) == list(map(float, range(9)))
    assert not path.exists()


def test_P108_a_torn_index_is_read_entry_by_entry_with_one_warning(tmp_path):
    path = write(tmp_path / "run.mrec", range(9))
    shard = path / "trajectory" / "atoms" / "x" / "c" / "0"
    data = bytearray(shard.read_bytes())
    size = json.loads((path / "trajectory/atoms/x/zarr.json").read_text())
    outer = size["chunk_grid"]["configuration"]["chunk_shape"][0]
    inner = size["codecs"][0]["configuration"]["chunk_shape"][0]
    data[16 * (outer // inner)] ^= 1
    shard.write_bytes(data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(energies(path)) == 9
    assert len(caught) == 1
    with pytest.warns(TornIndexWarning), TrajectoryWriter.reopen(path) as writer:
        writer.append(frame(9))
    assert energies(path) == list(map(float, range(10)))
