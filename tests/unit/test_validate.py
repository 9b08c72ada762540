"""The validator: every warning out of a situation that brings it about, every door, every bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from conformance.interrupted import interrupted, tear_index
from conformance.records import (
    agreeing,
    arrays,
    changed,
    document,
    read,
    remove,
    replace_array,
    set_attributes,
    stored,
    write,
)
from conformance.whole import frames, schema, system, write_whole
from molrec_core import (
    Block,
    Box,
    Frame,
    MetricsWriter,
    RecordNotFoundError,
    SequenceSchema,
    TrajectoryWriter,
    _extents,
    fold_metrics,
    open_record,
    pack,
    validate,
    write_mrec,
)

EYE = np.eye(3)


def run(n, *, cell=None):
    """Frames of two atoms that move."""
    return [Frame({"atoms": Block({"x": [i + 0.5, -i]})}, box=cell) for i in range(n)]


def found(record, **options):
    return [(p.kind, p.loc, p.severity) for p in validate(record, **options)]


def warning(kind, loc):
    return (kind, loc, "warning")


DEAD = warning("dead_bytes", "")
"""Of an explicit flush within a chunk."""


def assert_opens_as(record, n):
    """What the validator only warns of is read."""
    with agreeing(record):
        assert len(read(record)[0]) == n


# -- one situation for each warning


def test_values_off_the_grid_of_a_precision(tmp_path):
    """A tool put raw values into a column that declares a precision; a null row may hold anything."""
    atoms = Block({"x": [0.5, 1.0, 0.0]}, precision={"x": 0.25}, validity={"x": [True, True, False]})
    write_mrec(tmp_path / "run.mrec", frame=Frame({"atoms": atoms}), trajectory=frames(), schema=schema())
    record = tmp_path / "run.mrec"
    replace_array(record, "frame/atoms/x", [0.3, 1.0, 0.3])
    assert found(record) == [warning("off_grid", "frame/atoms/x")]
    assert "1 values" in validate(record)[0].message
    with changed(record, "trajectory") as node:
        node["attributes"]["sequence_schema"]["blocks"]["atoms"]["columns"]["y"]["precision"] = 2.0
    assert found(record) == [warning("off_grid", "frame/atoms/x")]
    kinds = found(record, deep=True)
    assert warning("off_grid", "trajectory/atoms/y") in kinds
    assert warning("off_grid", "trajectory/atoms/x") not in kinds
    assert_opens_as(record, 5)


def test_type_names_that_the_force_field_lacks(tmp_path):
    record = write_whole(tmp_path)
    assert found(record) == []
    replace_array(record, "system/bonds/type", ["CT-HC", "CT-OH"])
    assert found(record) == [warning("unresolved_type", "system/bonds/type")]
    assert "CT-OH" in validate(record)[0].message


def test_an_endpoint_past_the_atoms(tmp_path):
    """The connectivity names row 7 of two atoms, and says nothing of what it refers to."""
    bonds = Block({"atomi": np.array([0], np.uint64), "atomj": np.array([7], np.uint64)})
    atoms = Block({"x": [0.0, 1.0]})
    write_mrec(tmp_path / "run.mrec", system=Frame({"atoms": atoms, "bonds": bonds}))
    assert found(tmp_path / "run.mrec") == [warning("endpoint_out_of_range", "system/bonds/atomj")]
    record = write(tmp_path, [Frame({"atoms": atoms, "bonds": bonds})] * 2, name="moving.mrec")
    assert found(record) == [warning("endpoint_out_of_range", "trajectory/bonds/atomj")]
    assert_opens_as(record, 2)


def test_references_of_a_block_that_comes_later(tmp_path):
    """Where it is absent there is nothing to check, though its rows fill a chunk to the last."""
    declared = SequenceSchema().declare_block("picks", {"row": "u64"}).declare_block("others", {"x": "f64"})
    declared.declare_target("picks", "row", "/system/sites")
    sites = Frame({"sites": {"n": np.arange(4.0)}})
    record = tmp_path / "r.mrec"
    with (
        mock.patch.multiple(_extents, COLUMN_CHUNK_BYTES=64),
        TrajectoryWriter(record, declared, system=sites) as writer,
    ):
        for rows in (None, [0, 1], [2, 3, 1], [0, 1, 2]):
            blocks = (
                {"others": {"x": [0.0]}} if rows is None else {"picks": {"row": np.array(rows, np.uint64)}}
            )
            writer.append(Frame(blocks))
    assert open_record(record).trajectory.updates("picks").tolist() == [1, 2, 3]
    assert validate(record, deep=True) == []


def test_a_column_that_the_declaration_does_not_name(tmp_path):
    record = write(tmp_path, run(3))
    shutil.copytree(record / "trajectory" / "atoms" / "x", record / "trajectory" / "atoms" / "extra")
    assert found(record) == [warning("unknown_column", "trajectory/atoms/extra")]
    assert_opens_as(record, 3)


def test_a_type_of_a_key_that_is_gone(tmp_path):
    write_mrec(tmp_path / "run.mrec", system=Frame({"atoms": Block({"x": [0.0]})}, meta={"a": 1, "b": 2}))
    set_attributes(tmp_path / "run.mrec", "system", b=None)
    assert found(tmp_path / "run.mrec") == [warning("stale_meta_type", "system/b")]


def test_bytes_of_chunks_that_were_replaced(tmp_path):
    """Flushing within a chunk encodes it anew each time."""
    record = tmp_path / "run.mrec"
    with TrajectoryWriter(record, compression=None) as writer:
        for frame in run(4):
            writer.append(frame)
            writer.flush()
    problems = validate(record)
    assert [(p.kind, p.loc, p.severity) for p in problems] == [DEAD]
    dead = int(problems[0].message.partition(" ")[0])
    # One chunk for each of three flushes whose chunk was replaced.
    path = record / "trajectory" / "atoms" / "x" / "c" / "0"
    chunk = 4 + 8 * document(record, "trajectory/atoms/x")["codecs"][0]["configuration"]["chunk_shape"][0]
    assert dead == 3 * chunk
    assert path.stat().st_size > dead
    assert_opens_as(record, 4)


@pytest.mark.parametrize(
    "key", ["trajectory/atoms/x", "trajectory/step", "trajectory/contacts/_validity/distance"]
)
def test_an_index_that_was_torn(tmp_path, key):
    record = write_whole(tmp_path)
    path = tear_index(record, key)
    assert found(record) == [warning("torn_index", key)]
    assert path.relative_to(record).as_posix() in validate(record)[0].message
    assert found(record, deep=True) == [warning("torn_index", key)]


def test_a_torn_index_outside_the_trajectory_is_placed_too(tmp_path):
    rho = np.random.default_rng(0).random(400_000)
    write_mrec(tmp_path / "run.mrec", frame=Frame({"grid": Block({"rho": rho})}))
    path = tmp_path / "run.mrec" / "frame" / "grid" / "rho" / "c" / "0"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert found(tmp_path / "run.mrec") == [warning("torn_index", "frame/grid/rho")]


def test_a_step_array_beside_its_progression(tmp_path):
    """The progression broke, the array landed, the marker did not."""
    record = interrupted(tmp_path, run(4), 3, steps=[0, 10, 20, 25], times=[0.0, 1.0, 2.0, 2.25])
    assert set(found(record)) == {
        warning("leftover", "trajectory/step"),
        warning("leftover", "trajectory/time"),
        DEAD,
        warning("uncommitted_tail", "trajectory/atoms"),
    }
    assert_opens_as(record, 3)


def test_an_offset_without_a_step_index(tmp_path):
    """The offset of a block that ceases to be regular landed; its step_index did not."""
    grown = Frame({"atoms": Block({"x": [1.0, 2.0, 3.0]})})
    record = interrupted(tmp_path, [*run(2), grown], 2, keep=["trajectory/atoms/zarr.json"])
    remove(record, "trajectory/atoms/step_index")
    assert set(found(record)) == {
        warning("leftover", "trajectory/atoms/offset"),
        DEAD,
        warning("uncommitted_tail", "trajectory/atoms"),
    }
    assert_opens_as(record, 2)


def test_a_temporary_of_a_replacement(tmp_path):
    record = write(tmp_path, run(2))
    for key in ("trajectory", "trajectory/atoms/x"):
        (record / key / "zarr.json.tmp").write_bytes(b'{"zarr_fo')
    assert found(record) == [
        warning("leftover", "trajectory/zarr.json.tmp"),
        warning("leftover", "trajectory/atoms/x/zarr.json.tmp"),
    ]
    assert_opens_as(record, 2)


def test_rows_past_the_marker(tmp_path):
    record = interrupted(tmp_path, run(5), 2)
    assert found(record) == [warning("uncommitted_tail", "trajectory/atoms"), DEAD]
    assert_opens_as(record, 2)


# -- every door


def damaged_record(tmp_path):
    """Five sections and a file, each with something wrong."""
    record = write_whole(tmp_path)
    set_attributes(record, "status", state=3)
    set_attributes(record, "system/atoms", count=4)
    set_attributes(record, "observables/meta/energy", kind=None)
    set_attributes(record, "forcefield", name=None)
    set_attributes(record, "trajectory/meta/pe", meta_dtype=None)
    set_attributes(record, "frame", _meta_types={"energy": "f64", "dipole": "f64x3", "gone": "i64"})
    with (record / "metrics" / "metrics.jsonl").open("ab") as log:
        log.write(b"not json\n")
    (record / "x_vendor").mkdir()
    (record / "x_vendor" / "zarr.json.tmp").write_bytes(b"")
    return record


EXPECTED = {
    ("error", "status/state"),
    ("error", "system/atoms/id"),
    ("error", "system/atoms/_validity/charge"),
    ("error", "observables/meta/energy/kind"),
    ("error", "forcefield/name"),
    ("error", "trajectory/meta/pe"),
    ("error", "metrics/metrics.jsonl, line 6"),
    ("warning", "frame/gone"),
    ("warning", "x_vendor/zarr.json.tmp"),
}


def test_one_run_reports_every_section(tmp_path):
    problems = validate(damaged_record(tmp_path))
    places = {(p.severity, p.loc) for p in problems}
    assert places >= EXPECTED, sorted(places)
    assert all(p.message and p.kind for p in problems)
    assert len(problems) == len(set(problems))


def test_a_packed_record_is_validated_as_it_lies(tmp_path):
    record = damaged_record(tmp_path)
    archive = pack(record)
    # A temporary is not packed.
    expected = [p for p in validate(record, deep=True) if not p.loc.endswith(".tmp")]
    assert validate(archive, deep=True) == expected


def memory_store(record):
    """The files of a record in a store of zarr-python that holds them in memory."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    wrap = default_buffer_prototype().buffer.from_bytes
    files = (p for p in Path(record).rglob("*") if p.is_file())
    return MemoryStore({p.relative_to(record).as_posix(): wrap(p.read_bytes()) for p in files})


@pytest.mark.parametrize("deep", [False, True])
def test_a_remote_record_is_validated_as_a_local_one(tmp_path, deep):
    sound = write_whole(tmp_path)
    assert validate(memory_store(sound), deep=deep) == []
    shutil.rmtree(sound)
    record = damaged_record(tmp_path)
    assert set(validate(memory_store(record), deep=deep)) == set(validate(record, deep=deep))


def test_what_cannot_be_opened_at_all_is_a_finding(tmp_path):
    (tmp_path / "bad.mrec.zip").write_bytes(b"no archive")
    assert found(tmp_path / "bad.mrec.zip") == [("bad_zip", str(tmp_path / "bad.mrec.zip"), "error")]
    with pytest.raises(RecordNotFoundError):
        validate(tmp_path / "missing.mrec")


# -- every bit

CHUNKED = "sharding_indexed"


def stored_files(record, key):
    return [p for p in Path(record, key).rglob("*") if p.is_file() and p.name != "zarr.json"]


def first_chunk(record, key):
    """Return the file and the place of an array's first stored chunk."""
    node = document(record, key)
    path = min(stored_files(record, key))
    if node["codecs"][0]["name"] != CHUNKED:
        return path, 0, path.stat().st_size
    outer = node["chunk_grid"]["configuration"]["chunk_shape"][0]
    settings = node["codecs"][0]["configuration"]
    chunks = outer // settings["chunk_shape"][0]
    data = path.read_bytes()
    index = data[: 16 * chunks] if settings["index_location"] == "start" else data[-16 * chunks - 4 : -4]
    entries = np.frombuffer(index, "<u8").reshape(-1, 2)
    offset, length = next((int(o), int(n)) for o, n in entries if o != 2**64 - 1)
    return path, offset, length


def test_deep_finds_a_flipped_bit_in_every_array(tmp_path):
    record = write_whole(tmp_path)
    keys = [key for key in arrays(record) if stored_files(record, key)]
    # A chunk of nothing but fill is not stored.
    assert set(arrays(record)) - set(keys) == {"system/bonds/atomi"}
    assert len(keys) > 40
    assert validate(record, deep=True) == []
    rng = np.random.default_rng(5)
    for key in keys:
        path, offset, length = first_chunk(record, key)
        sound = path.read_bytes()
        for at in {0, int(rng.integers(length)), length - 1}:
            data = bytearray(sound)
            data[offset + at] ^= 1 << int(rng.integers(8))
            path.write_bytes(data)
            problems = [p for p in validate(record, deep=True) if p.severity == "error"]
            assert [p.loc for p in problems if p.kind == "checksum"] == [f"{key}, chunk 0"], (
                key,
                at,
                problems,
            )
        path.write_bytes(sound)
    assert validate(record, deep=True) == []


def test_a_look_without_deep_decodes_no_column_of_the_trajectory(tmp_path):
    record = write(tmp_path, run(3))
    path, offset, _ = first_chunk(record, "trajectory/atoms/x")
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    assert validate(record) == []
    assert [p.kind for p in validate(record, deep=True)] == ["checksum"]


def test_a_run_with_a_cell_and_references_is_sound(tmp_path):
    """What the situations above start from brings no finding of its own."""
    record = write(tmp_path, frames(), schema=schema(), system=system())
    assert validate(record, deep=True) == []
    record = write(tmp_path, run(3, cell=Box(EYE)), name="cell.mrec")
    assert validate(record, deep=True) == []
    assert stored(record, "trajectory/atoms/x").tolist() == [0.5, 0, 1.5, -1, 2.5, -2]
    assert json.loads((record / "trajectory/zarr.json").read_text())["attributes"]["nstep"] == 3


def test_a_log_that_is_shorter_than_what_was_folded(tmp_path):
    with TrajectoryWriter(tmp_path / "run.mrec") as writer:
        writer.append(Frame({"atoms": Block({"x": [0.0]})}))
    with MetricsWriter(tmp_path / "run.mrec") as log:
        for step in range(5):
            log.append("loss", 1.0 / (step + 1), step=step)
    fold_metrics(tmp_path / "run.mrec")
    assert validate(tmp_path / "run.mrec") == []
    path = tmp_path / "run.mrec" / "metrics" / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:20])
    found = [(p.kind, p.loc, p.severity) for p in validate(tmp_path / "run.mrec")]
    assert found == [("log_short", "metrics/metrics.jsonl", "warning")]
