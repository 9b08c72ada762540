"""Records another implementation wrote: they read back exactly what went in.

Each is read from its zip and unpacked; its content, written by us, reads equal in molrs
where that is installed.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from molrec_core import (
    Block,
    Box,
    ForceField,
    Frame,
    open_record,
    pack,
    unpack,
    validate,
    write_mrec,
)
from molrec_core._store import DirectoryStore
from molrec_core._zipstore import ZipStore
from molrec_core.testing.naive import NaiveTrajectory, plain_frame

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name.removesuffix(".mrec.zip") for path in GOLDEN.glob("*.mrec.zip"))
TRAJECTORIES = [name for name in NAMES if name not in {"frame-and-system", "forcefield"}]
DTYPES = {
    "element": "string", "type": "string", "tag": "string", "name": "string", "itom": "string", "jtom": "string",
    "mol_id": "u64", "atomi": "u64", "atomj": "u64", "atomk": "u64", "row": "u64", "id": "u64",
    "c_i8": "i1", "c_i16": "i2", "c_i32": "i4", "c_i64": "i8", "c_u8": "u1", "c_u16": "u2", "c_u32": "u4",
    "c_u64": "u8", "c_bool": "?", "c_string": "string",
}  # fmt: skip


def expected(name):
    return json.loads((GOLDEN / f"{name}.expected.json").read_text(encoding="utf-8"))


@pytest.fixture(params=["zip", "directory"])
def opened(request, tmp_path):
    """Open a golden record by name, packed or unpacked."""

    def find(name):
        packed = GOLDEN / f"{name}.mrec.zip"
        return packed if request.param == "zip" else unpack(packed, tmp_path / f"{name}.mrec")

    return find


def number(value):
    spelled = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    return spelled.get(value, value) if isinstance(value, str) else value


def column(name, values):
    """Return the array and the mask that a column of the expected values stands for."""
    dtype = {"string": np.dtypes.StringDType(), "u64": np.uint64}.get(
        DTYPES.get(name), DTYPES.get(name, "f8")
    )
    fills = ("" if DTYPES.get(name) == "string" else 0) if None in values else None
    mask = np.array([value is not None for value in values], bool)
    filled = [fills if value is None else value for value in values]
    if np.dtype(dtype) == np.float64:
        filled = [[number(v) for v in row] if isinstance(row, list) else number(row) for row in filled]
    return np.array(filled, dtype), mask


def block_of(columns):
    made, masks = {}, {}
    for name, values in columns.items():
        made[name], masks[name] = column(name, values)
    return Block(made, validity=masks)


def box_of(entry):
    if entry is None:
        return None
    return Box(
        np.array(entry["vectors"], float),
        origin=entry.get("origin"),
        boundary=entry.get("boundary"),
        cell_defined=entry.get("cell_defined", True),
    )


def frame_of(entry):
    meta = entry.get("meta", {})
    blocks = {name: block_of(columns) for name, columns in entry.items() if name not in {"meta", "box"}}
    return Frame(blocks, box=box_of(entry.get("box")), meta=meta)


def assert_block(found, want):
    """Null rows may hold anything; every other value, width and mask is as given."""
    assert set(found) == set(want)
    assert found.count == want.count
    assert found.validity.keys() == want.validity.keys()
    for name, values in want.items():
        valid = want.validity.get(name, np.ones(want.count, bool))
        assert found[name].dtype == values.dtype
        assert found[name].shape == values.shape
        if values.dtype.kind == "T":
            assert found[name][valid].tolist() == values[valid].tolist()
        else:
            assert found[name][valid].tobytes() == values[valid].tobytes()
        assert found.validity.get(name, np.ones(want.count, bool)).tolist() == valid.tolist()


def assert_frame(found, want):
    assert sorted(found) == sorted(want)
    for name in want:
        assert_block(found[name], want[name])
    assert found.box == want.box
    assert found.meta == want.meta
    assert found.meta_tags == want.meta_tags


def test_the_corpus_is_there():
    assert NAMES == [
        "aligned-targets", "every-dtype-nullable", "fixed-precision", "forcefield", "frame-and-system",
        "long-regular", "ragged-growth", "three-states", "undefined-cell",
    ]  # fmt: skip
    assert all((GOLDEN / f"{name}.expected.json").is_file() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_golden_is_sound(name, opened):
    assert validate(opened(name), deep=True) == []


def long_regular():
    # The formula leaves the cell out; the attributes of the record state it.
    box = Box(9 * np.eye(3))
    for i in range(5000):
        x = np.arange(3.0) + i / 4
        yield Frame({"atoms": {"x": x, "y": 2 * x, "z": -x}}, box=box)


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_golden_trajectory(name, opened):
    want = expected(name)
    with open_record(opened(name)) as record:
        reader = record.trajectory
        assert len(reader) == want["nstep"]
        if name == "long-regular":
            frames = list(long_regular())
            assert reader.steps.tolist() == [2 * i for i in range(5000)]
            stride = 0.001 * 1 - 0.001 * 0
            assert reader.times.tolist() == [0.0 + float(i) * stride for i in range(5000)]
        else:
            frames = [frame_of(entry) for entry in want["frames"]]
            assert reader.steps.tolist() == want["step"]
            assert (reader.times is None) == (want["time"] is None)
            assert reader.times is None or reader.times.tolist() == want["time"]
        for found, frame in zip(reader, frames, strict=True):
            assert_frame(found, frame)
        for i in (len(frames) - 1, 0, len(frames) // 2):
            assert_frame(reader[i], frames[i])


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_golden_trajectory_read_naively(name):
    naive = NaiveTrajectory(GOLDEN / f"{name}.mrec.zip")
    with open_record(GOLDEN / f"{name}.mrec.zip") as record:
        assert naive.nstep == len(record.trajectory)
        for i in range(0, naive.nstep, max(1, naive.nstep // 20)):
            assert naive.frame(i) == plain_frame(record.trajectory[i])


def test_golden_declarations(opened):
    with open_record(opened("fixed-precision")) as record:
        columns = record.trajectory.schema.blocks["atoms"].columns
        assert [columns[axis].precision for axis in "xyz"] == [1e-3] * 3
    with open_record(opened("aligned-targets")) as record:
        blocks = record.trajectory.schema.blocks
        assert blocks["atom_types"].aligned_with == "atoms"
        assert blocks["picks"].targets == {"row": "atoms"}
        assert record.trajectory.updates("atom_types").tolist() == [0, 2]
    with open_record(opened("every-dtype-nullable")) as record:
        assert record.trajectory.schema.blocks["atoms"].columns["charge"].nullable
    with open_record(opened("three-states")) as record:
        assert record.trajectory.counts("bonds").tolist() == [2, 2, 2, 3, 3, 0, 0]
        assert record.trajectory.counts("angles").tolist() == [-1, -1, 1, 1, 1, 1, 1]


def test_golden_frame_and_system(opened):
    want = expected("frame-and-system")
    frame = want["frame"]
    meta = {key: value for key, (_, value) in frame["meta"].items()}
    meta["bad"], meta["v"] = math.nan, np.array(meta["v"])
    tags = {key: tag for key, (tag, _) in frame["meta"].items()}
    with open_record(opened("frame-and-system")) as record:
        assert record.frame.meta_tags == tags
        assert plain_frame(record.frame)["meta"] == plain_frame(Frame(meta=meta, meta_tags=tags))["meta"]
        assert_block(record.frame["atoms"], block_of(frame["atoms"]))
        density = record.frame["density"]
        assert math.prod(density.structural_shape) == density.count == len(frame["density"]["rho"])
        assert density["rho"].tolist() == frame["density"]["rho"]
        assert record.frame.box == box_of(frame["box"])
        for name, columns in want["system"].items():
            assert_block(record.system[name], block_of(columns))
        assert set(record.system) == set(want["system"])


def test_golden_forcefield(opened):
    want = expected("forcefield")
    with open_record(opened("forcefield")) as record:
        assert record.meta["molrec_version"] == 2
        found = record.forcefield
        assert isinstance(found, ForceField)
        assert dict(found.document) == want["document"]
        assert set(found.tables) == set(want["tables"])
        for name, columns in want["tables"].items():
            assert_block(found.tables[name], block_of(columns))


# -- written again


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_golden_rewritten_reads_equal_in_molrs(name, tmp_path):
    pytest.importorskip("molrs")
    from properties.molrs_form import mrec, plain_of_molrs

    packed = GOLDEN / f"{name}.mrec.zip"
    with open_record(packed) as record:
        write_mrec(tmp_path / "ours.mrec", trajectory=record.trajectory, meta=record.meta)
    theirs = mrec.MrecReader(packed)
    for path in (tmp_path / "ours.mrec", pack(tmp_path / "ours.mrec")):
        ours = mrec.MrecReader(path)
        assert list(ours.step) == list(theirs.step)
        assert ours.time == theirs.time
        assert len(ours) == len(theirs)
        for i in range(0, len(ours), max(1, len(ours) // 100)):
            assert plain_of_molrs(ours[i]) == plain_of_molrs(theirs[i])
        assert plain_of_molrs(ours[len(ours) - 1]) == plain_of_molrs(theirs[len(ours) - 1])


def test_golden_sections_rewritten_read_equal_in_molrs(tmp_path):
    pytest.importorskip("molrs")
    from properties.molrs_form import mrec, plain_of_molrs

    packed = GOLDEN / "frame-and-system.mrec.zip"
    with open_record(packed) as record:
        write_mrec(tmp_path / "ours.mrec", frame=record.frame, system=record.system, meta=record.meta)
    theirs, ours = mrec.MrecFile(packed), mrec.MrecFile(tmp_path / "ours.mrec")
    assert ours.meta() == theirs.meta()
    assert plain_of_molrs(ours.frame()) == plain_of_molrs(theirs.frame())
    assert plain_of_molrs(ours.system()) == plain_of_molrs(theirs.system())
    assert ours.frame()["density"].structural_shape == theirs.frame()["density"].structural_shape


# -- and what it costs


class Counted:
    """Counts what is asked of a store; a subclass of each kind of store mixes it in."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.read_keys = []
        self.bytes_read = 0

    def get(self, key, *arguments, **options):
        data = super().get(key, *arguments, **options)
        self.read_keys.append(key)
        self.bytes_read += len(data or b"")
        return data

    def read(self, key, offset, length):
        self.read_keys.append(key)
        self.bytes_read += length
        return super().read(key, offset, length)

    def read_into(self, key, offset, buffers):
        self.read_keys.append(key)
        self.bytes_read += sum(memoryview(buffer).nbytes for buffer in buffers)
        return super().read_into(key, offset, buffers)


class CountedDirectory(Counted, DirectoryStore):
    pass


class CountedZip(Counted, ZipStore):
    pass


def last_frame(path):
    """Open a record, read its last frame, and return the keys and bytes that took."""
    from molrec_core._record import Record

    with contextlib.closing((CountedZip if str(path).endswith(".zip") else CountedDirectory)(path)) as store:
        reader = Record(store).trajectory
        opening = list(store.read_keys), store.bytes_read
        frame = reader[-1]
        chunks = store.read_keys[len(opening[0]) :], store.bytes_read - opening[1]
        return len(reader), frame, opening, chunks


def test_the_last_frame_of_many_touches_its_chunks_alone(opened):
    """Opening reads documents only; the frame then reads an index and a chunk of each column."""
    count, frame, (opening, _), (chunks, n_bytes) = last_frame(opened("long-regular"))
    assert count == 5000
    assert_frame(frame, list(long_regular())[-1])
    assert all(key.endswith("zarr.json") for key in opening)
    objects = [key for key in chunks if not key.endswith("zarr.json")]
    assert sorted(objects) == sorted(f"trajectory/atoms/{axis}/c/0" for axis in "xyz" for _ in range(2))
    one_index, one_chunk = 16 * 4096 + 4, 2049 * 8 + 4
    assert n_bytes <= 3 * (one_index + one_chunk)


def test_opening_does_not_depend_on_the_number_of_frames(tmp_path):
    frames = list(long_regular())
    costs = []
    for count in (50, 5000):
        write_mrec(tmp_path / f"{count}.mrec", trajectory=frames[:count])
        found, frame, opening, (chunks, n_bytes) = last_frame(tmp_path / f"{count}.mrec")
        assert (found, frame) == (count, frames[count - 1])
        costs.append((opening[0], chunks, n_bytes))
    assert costs[0] == costs[1]
