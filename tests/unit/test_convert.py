"""Conversion: what is asked for changes, all else passes verbatim, and a failure leaves nothing behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from conformance.interrupted import interrupted, tree
from conformance.records import attributes, changed, codecs, document, make_group, replace_array, write
from conformance.whole import frames, resolved, schema, system, write_whole
from molrec_core import (
    Block,
    Box,
    ChecksumError,
    CommitError,
    Compression,
    Frame,
    RecordError,
    RecordExistsError,
    SchemaError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    plugins,
    validate,
)
from molrec_core._convert import Options, convert, find_adapter, is_record_name, parse_precision
from molrec_core.hookspecs import Adapter, Source


def run(n):
    rng = np.random.default_rng(n)
    return [
        Frame(
            {"atoms": Block({k: rng.random(5) * 9 for k in "xyz"})},
            box=Box(np.eye(3) * 9),
            meta={"pe": float(i)},
        )
        for i in range(n)
    ]


def names(directory):
    return sorted(p.name for p in Path(directory).iterdir())


def trajectory(path):
    with open_record(path) as found:
        reader = found.trajectory
        return list(reader), reader.steps.tolist(), None if reader.times is None else reader.times.tolist()


# -- from record to record


def test_everything_else_passes_verbatim(tmp_path):
    record = write_whole(tmp_path)
    make_group(record, "x_vendor", maybe=None)
    replace_array(record, "x_vendor/half", np.arange(4, dtype=np.float16))
    (record / "notes.txt").write_bytes(b"\r\n\x00")
    with changed(record, "trajectory") as node:
        node["attributes"]["x_attribute"] = {"a": None}
    with changed(record, "trajectory/atoms") as node:
        node["attributes"]["x_of_atoms"] = 1
    with changed(record, "trajectory/box") as node:
        node["attributes"]["x_of_box"] = [1]
    make_group(record, "trajectory/x_foreign", note=1)
    # The sections but the trajectory and unknown nodes; of the metrics their plain log too.
    before = {k: v for k, v in tree(record).items() if not k.startswith("trajectory/")}
    target = convert(record, tmp_path / "b.mrec", Options(frames=slice(1, 3)))
    assert {k: v for k, v in tree(target).items() if not k.startswith("trajectory/")} == before
    assert any(k.startswith("metrics/metrics.jsonl") for k in before)
    assert attributes(target, "trajectory")["x_attribute"] == {"a": None}
    assert attributes(target, "trajectory/atoms")["x_of_atoms"] == 1
    assert attributes(target, "trajectory/box")["x_of_box"] == [1]
    assert attributes(target, "trajectory/x_foreign") == {"note": 1}
    assert validate(target, deep=True) == []


@pytest.mark.parametrize(
    "chosen", [slice(None), slice(1, 4), slice(None, None, 2), slice(-2, None), slice(3, 3)]
)
def test_frames(tmp_path, chosen):
    record = write_whole(tmp_path)
    wanted, steps, times = trajectory(record)
    found = trajectory(convert(record, tmp_path / "b.mrec", Options(frames=chosen)))
    assert found[:2] == (wanted[chosen], steps[chosen])
    assert (found[2] or []) == times[chosen]


def test_blocks(tmp_path):
    record = write(tmp_path, frames(), schema=schema(), system=system())
    target = convert(record, tmp_path / "b.mrec", Options(blocks=["atoms", "contacts"]))
    with open_record(target) as found:
        assert set(found.trajectory.schema.blocks) == {"atoms", "contacts"}
        for got, frame in zip(found.trajectory, resolved(), strict=True):
            assert dict(got) == {name: frame[name] for name in got}
            assert (got.box, got.meta["pe"]) == (frame.box, frame.meta["pe"])
    assert not (target / "trajectory" / "labels").exists()
    with pytest.raises(SchemaError, match="no blocks") as caught:
        convert(record, tmp_path / "c.mrec", Options(blocks=["bonds"]))
    assert caught.value.kind == "undeclared_block"
    assert names(tmp_path) == ["b.mrec", "run.mrec"]


def test_a_block_that_another_follows_is_not_left_out_alone(tmp_path):
    """Forces follow atoms row by row; without atoms they would say nothing."""
    record = write(tmp_path, frames(), schema=schema(), system=system())
    with pytest.raises(SchemaError, match="atoms"):
        convert(record, tmp_path / "b.mrec", Options(blocks=["forces"]))
    assert names(tmp_path) == ["run.mrec"]


@pytest.mark.parametrize(
    ("given", "declared"),
    [(1e-3, dict.fromkeys("xyz", 1e-3)), ({"atoms.x": 0.25}, {"x": 0.25, "y": None, "z": None})],
)
def test_precision(tmp_path, given, declared):
    record = write(tmp_path, run(4))
    target = convert(record, tmp_path / "b.mrec", Options(precision=given))
    with open_record(target) as found:
        columns = found.trajectory.schema.blocks["atoms"].columns
        assert {name: columns[name].precision for name in "xyz"} == declared
        for got, frame in zip(found.trajectory, run(4), strict=True):
            for name, precision in declared.items():
                values = frame["atoms"][name]
                if precision is None:
                    assert got["atoms"][name].tobytes() == values.tobytes()
                else:
                    quantum = 2.0 ** np.floor(np.log2(precision))
                    assert got["atoms"][name].tolist() == (np.rint(values / quantum) * quantum).tolist()
    assert validate(target, deep=True) == []


@pytest.mark.parametrize(
    ("compression", "inner"),
    [
        (Compression.none(), ["bytes", "crc32c"]),
        (Compression.gzip(6), ["bytes", "gzip", "crc32c"]),
        (Compression.zstd(7, shuffle=True), ["bytes", "numcodecs.shuffle", "zstd", "crc32c"]),
    ],
)
def test_compression(tmp_path, compression, inner):
    record = write(tmp_path, run(4))
    target = convert(record, tmp_path / "b.mrec", Options(compression=compression))
    assert [codec["name"] for codec in codecs(target, "trajectory/atoms/x")] == inner
    assert trajectory(target) == trajectory(record)


def test_dead_bytes_are_reclaimed(tmp_path):
    record = tmp_path / "run.mrec"
    with TrajectoryWriter(record) as writer:
        for frame in run(12):
            writer.append(frame)
            writer.flush()
    assert [p.kind for p in validate(record)] == ["dead_bytes"]
    target = convert(record, tmp_path / "b.mrec")
    assert validate(target, deep=True) == []
    assert trajectory(target) == trajectory(record)

    def size(path):
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())

    dead = int(validate(record)[0].message.partition(" ")[0])
    assert size(record) - size(target) >= dead > 0


def test_what_an_interrupted_run_left_is_not_carried(tmp_path):
    record = interrupted(tmp_path, run(6), 4, steps=[0, 1, 2, 3, 5, 9])
    target = convert(record, tmp_path / "b.mrec")
    assert validate(target, deep=True) == []
    assert not (target / "trajectory" / "step").exists()
    assert trajectory(target) == trajectory(record)
    assert len(trajectory(target)[0]) == 4


def test_a_record_that_is_not_named_as_one_converts_too(tmp_path):
    record = write(tmp_path, run(2))
    record.rename(tmp_path / "results")
    target = convert(tmp_path / "results", tmp_path / "b.mrec")
    assert trajectory(target) == trajectory(tmp_path / "results")


def test_progress_is_told_frame_by_frame(tmp_path):
    record = write(tmp_path, run(7))
    told = []
    convert(
        record,
        tmp_path / "b.mrec",
        Options(frames=slice(2, None)),
        start=lambda n: told.append(n) or told.append,
    )
    assert told == [5, 1, 1, 1, 1, 1]


# -- through an adapter


@pytest.fixture
def adapter(monkeypatch):
    """An adapter of a third party's, in place of those installed."""

    def install(*adapters):
        monkeypatch.setattr(plugins, "adapters", lambda: {a.name: a for a in adapters})

    return install


def numbers(path, topology, chosen):
    """Read the format ``.numbers``: a number a line, each an atom's x in a frame of its own."""
    lines = path.read_text().splitlines()[chosen]
    system = None if topology is None else Frame({"atoms": Block({"element": [topology.read_text()]})})

    def stream():
        for i, line in enumerate(lines):
            blocks = {"atoms": Block({"x": [float(line)]}), "extra": Block({"n": [i]})}
            yield Frame(blocks), 10 * i, 0.5 * i

    declared = SequenceSchema.from_frames([Frame({"atoms": {"x": [0.0]}, "extra": {"n": [0]}})])
    return Source(stream(), {"title": path.stem}, system, declared, len(lines))


NUMBERS = Adapter("numbers", reads=("numbers",), read=numbers)


def test_a_foreign_file_becomes_a_record(tmp_path, adapter):
    adapter(NUMBERS)
    (tmp_path / "a.numbers").write_text("1.5\n2.5\n3.75\n")
    (tmp_path / "a.top").write_text("He")
    told = []
    target = convert(
        tmp_path / "a.numbers",
        tmp_path / "a.mrec",
        Options(top=tmp_path / "a.top", frames=slice(1, None), precision={"atoms.x": 0.5}, blocks=["atoms"]),
        start=lambda n: told.append(n) or told.append,
    )
    with open_record(target) as found:
        assert found.meta["title"] == "a"
        assert found.system["atoms"]["element"].tolist() == ["He"]
        assert [dict(f) for f in found.trajectory] == [{"atoms": Block({"x": [x]})} for x in (2.5, 4.0)]
        assert (found.trajectory.steps.tolist(), found.trajectory.times.tolist()) == ([0, 10], [0.0, 0.5])
    assert told == [2, 1, 1]
    assert validate(target, deep=True) == []


def test_a_foreign_file_becomes_a_packed_record(tmp_path, adapter):
    adapter(NUMBERS)
    (tmp_path / "A.NUMBERS").write_text("1.5\n")
    target = convert(tmp_path / "A.NUMBERS", tmp_path / "a.mrec.zip")
    assert trajectory(target)[0][0]["atoms"]["x"].tolist() == [1.5]
    assert names(tmp_path) == ["A.NUMBERS", "a.mrec.zip"]


def test_a_record_becomes_a_foreign_file(tmp_path, adapter):
    def export(record, path, chosen):
        with open_record(record) as found:
            path.write_text("".join(f"{frame['atoms']['x'][0]}\n" for frame in found.trajectory[chosen]))

    adapter(Adapter("numbers", writes=(".numbers",), write=export))
    record = write(tmp_path, [Frame({"atoms": {"x": [float(i)]}}) for i in range(4)])
    assert (
        convert(record, tmp_path / "out.numbers", Options(frames=slice(None, None, 2))).read_text()
        == "0.0\n2.0\n"
    )


def test_which_adapter_is_asked(tmp_path, adapter):
    other = Adapter("another", reads=("numbers", "tar.numbers"), writes=("pdb",), read=numbers)
    adapter(other, NUMBERS)
    assert find_adapter("a.numbers", "reads").name == "another"
    assert find_adapter("a.numbers", "reads", "numbers").name == "numbers"
    assert find_adapter("a.pdb", "writes").name == "another"
    for path, way, name, said in [
        ("a.xyz", "reads", None, r"no adapter reads 'a\.xyz'; installed: another, numbers"),
        ("a.numbers", "writes", None, "no adapter writes"),
        ("a.numbers", "reads", "none", "no adapter 'none'; installed: another, numbers"),
    ]:
        with pytest.raises(RecordError, match=said) as caught:
            find_adapter(path, way, name)
        assert caught.value.kind == "no_adapter"
    with pytest.raises(RecordError, match="neither") as caught:
        convert(tmp_path / "a.numbers", tmp_path / "b.pdb")
    assert caught.value.kind == "no_record_named"


# -- a failure leaves nothing behind


def failing(after, error):
    def read(path, topology, chosen):
        def stream():
            for i in range(after):
                yield Frame({"atoms": Block({"x": [float(i)]})}), i, None
            raise error

        return Source(stream())

    return Adapter("failing", reads=("numbers",), read=read)


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("name", ["a.mrec", "a.mrec.zip"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("line 3"), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(5, "I/O"), CommitError),
    ],
)
def test_a_source_that_fails_leaves_nothing(tmp_path, adapter, after, name, error, raised):
    adapter(failing(after, error))
    (tmp_path / "a.numbers").write_text("")
    with pytest.raises(raised):
        convert(tmp_path / "a.numbers", tmp_path / name)
    assert names(tmp_path) == ["a.numbers"]


@pytest.mark.parametrize("name", ["b.mrec", "b.mrec.zip"])
def test_damage_on_the_way_leaves_the_old_record(tmp_path, name):
    old = write(tmp_path, run(2), name="old.mrec")
    target = convert(old, tmp_path / name)
    shutil.rmtree(old)
    before = tree(tmp_path)
    record = write(tmp_path, run(9))
    path = record / "trajectory" / "atoms" / "y" / "c" / "0"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ChecksumError, match="trajectory/atoms/y"):
        convert(record, target, Options(overwrite=True))
    with pytest.raises(RecordExistsError):
        convert(record, target)
    shutil.rmtree(record)
    assert tree(tmp_path) == before
    assert trajectory(target)[0] == run(2)


def test_an_archive_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    record = write(tmp_path, run(2))
    monkeypatch.setattr("molrec_core._pack.write_zip", full)
    with pytest.raises(OSError, match="No space"):
        convert(record, tmp_path / "b.mrec.zip")
    assert names(tmp_path) == ["run.mrec"]


# -- what a command line says


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], None),
        (["1e-3"], {"atoms.x": 1e-3, "atoms.y": 1e-3, "atoms.z": 1e-3}),
        (["x=0.1", "velocities.vx=1e-4"], {"atoms.x": 0.1, "velocities.vx": 1e-4}),
        (["1e-3", "z=1"], {"atoms.x": 1e-3, "atoms.y": 1e-3, "atoms.z": 1.0}),
    ],
)
def test_precision_as_it_is_typed(given, meant):
    assert parse_precision(given) == meant


def test_precision_that_is_no_number():
    with pytest.raises(ValueError, match="fine"):
        parse_precision(["x=fine"])


@pytest.mark.parametrize(
    ("path", "named"),
    [("a.mrec", True), ("a.mrec/", True), ("a.mrec.zip", True), (Path("x") / "a.mrec", True), ("a.zip", False),
     ("a.pdb", False), ("mrec", False)],
)  # fmt: skip
def test_what_is_named_like_a_record(path, named):
    assert is_record_name(path) is named


def test_documents_are_those_of_a_record_written_at_once(tmp_path):
    """A short record does not carry the index of a long one after conversion either."""
    record = write(tmp_path, run(3))
    target = convert(record, tmp_path / "b.mrec")
    again = convert(target, tmp_path / "c.mrec")
    assert tree(again) == tree(target)
    assert document(target, "trajectory/atoms/x")["shape"] == [15]
