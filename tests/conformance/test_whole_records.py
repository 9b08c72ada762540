"""Records with every section: through an independent implementation, through zarr-python, through every rewrite."""

from __future__ import annotations

import json
import shutil
from unittest import mock

import numpy as np
import pytest
import zarr

from conformance.records import agreeing, arrays, changed, document, make_group, replace_array
from conformance.whole import (
    META,
    METHOD,
    STATUS,
    STEPS,
    TIMES,
    forcefield,
    frames,
    observables,
    resolved,
    schema,
    state,
    system,
    write_whole,
)
from molrec_core import (
    Compression,
    Frame,
    MetricsWriter,
    TrajectoryWriter,
    _extents,
    _series,
    fold_metrics,
    open_record,
    pack,
    repair,
    unpack,
    validate,
    write_mrec,
)
from molrec_core._array import open_array
from molrec_core._convert import Options, convert
from molrec_core._fixed import get_array
from molrec_core.testing.naive import plain_block, plain_frame

pytestmark = [
    # A record may hold plain files, the metrics log among them; zarr-python warns of each.
    pytest.mark.filterwarnings("ignore:Object at .* is not recognized:UserWarning"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part:UserWarning"),
]


def assert_whole(path, *, later=()):
    """The record holds every section of :mod:`conformance.whole`, value for value."""
    with agreeing(path), open_record(path) as found:
        assert found.meta == META | {"molrec_version": 1}
        assert (found.status, found.method) == (STATUS, METHOD)
        assert (found.system, found.frame) == (system(), state())
        assert list(found.trajectory) == [*resolved(), *later]
        assert found.trajectory.schema == schema()
        assert found.trajectory.steps.tolist() == [*STEPS, *range(41, 41 + len(later))]
        assert found.trajectory.times[:5].tolist() == TIMES
        assert found.forcefield == forcefield()
        assert found.observables == observables()


# -- molrs


def test_whole_record_of_ours_reads_equal_in_molrs(tmp_path):
    from properties.molrs_form import mrec, plain_of_molrs

    record = write_whole(tmp_path)
    for path in (record, pack(record)):
        found = mrec.MrecFile(path)
        known = ["forcefield", "frame", "meta", "method", "metrics", "observables", "status", "system"]
        assert found.sections() == [*known, "trajectory"]
        assert found.meta() == META | {"molrec_version": 1}
        assert plain_of_molrs(found.frame()) == plain_frame(state())
        assert plain_of_molrs(found.system()) == plain_frame(system())
        section = found.forcefield()
        section.validate()
        assert section.document == forcefield().document
        assert plain_tables(section) == {name: plain_table(b) for name, b in forcefield().tables.items()}
        reader = mrec.MrecReader(path)
        assert [plain_of_molrs(frame) for frame in reader] == [plain_frame(frame) for frame in resolved()]
        assert (list(reader.step), list(reader.time)) == (STEPS, TIMES)


def test_whole_record_of_molrs_reads_equal_here(tmp_path):
    from properties.molrs_form import molrs, molrs_block, molrs_frame, mrec

    record = tmp_path / "theirs.mrec"
    tables = {name: molrs_block(table) for name, table in forcefield().tables.items()}
    molrs.io.write_mrec(
        record,
        meta=META,
        frame=molrs_frame(state()),
        system=molrs_frame(system()),
        trajectory=molrs.Trajectory(
            [molrs_frame(frame) for frame in resolved()], np.array(STEPS), np.array(TIMES)
        ),
        forcefield=mrec.ForceFieldSection(forcefield().document, tables),
    )
    with agreeing(record), open_record(record) as found:
        assert found.sections == ("meta", "system", "frame", "trajectory", "forcefield")
        assert found.meta == META
        assert plain_frame(found.frame) == plain_frame(state())
        assert found.system == system()
        assert [plain_frame(frame) for frame in found.trajectory] == [plain_frame(f) for f in resolved()]
        assert (found.trajectory.steps.tolist(), found.trajectory.times.tolist()) == (STEPS, TIMES)
        assert found.forcefield == forcefield()


def plain_table(block):
    return plain_block(block.count, dict(block), block.validity)


def plain_tables(section):
    found = {}
    for name, block in section.tables.items():
        columns = {key: np.asarray(block[key]) for key in block.keys()}  # noqa: SIM118 - it is not iterable
        masks = {key: np.asarray(m) for key in columns if (m := block.validity(key)) is not None}
        found[name] = plain_block(block.n_rows, columns, masks)
    return found


# -- zarr-python


def growing(path, *, close=True, **options):
    """A run in extents so small that it has many chunks and shards; flushed, and left open or closed."""
    record = path / "growing.mrec"
    columns = mock.patch.multiple(_extents, COLUMN_CHUNK_BYTES=48, SHARD_BYTES=4 * 48, FLUSH_BYTES=200)
    dense = mock.patch.multiple(_series, DENSE_CHUNK_ROWS=2, DENSE_CHUNKS_PER_SHARD=2, _SPILL=2)
    with columns, dense:
        writer = TrajectoryWriter(record, schema(), system=system(), **options)
        for repeat in range(4):
            for i, frame in enumerate(frames()):
                writer.append(frame, step=repeat**3 + 5 * repeat + i, time=float(i) + 7 * repeat)
            writer.flush()
        if close:
            writer.close()
            return record
        shutil.copytree(record, path / "live.mrec")
        writer.close()
    return path / "live.mrec"


def no_frames(path):
    with TrajectoryWriter(path / "none.mrec", schema(), system=system()):
        pass
    return path / "none.mrec"


def forcefield_and_log(path):
    record = path / "log.mrec"
    write_mrec(record, forcefield=forcefield(), status=STATUS)
    with MetricsWriter(record) as log:
        log.append("loss", 1.0, 0)
    return record


def reopened(path):
    record = growing(path)
    with TrajectoryWriter.reopen(record, after_step=11) as writer:
        writer.append(frames()[4], step=50, time=-1.0)
    return record


RECORDS = {
    "whole": write_whole,
    "many shards": growing,
    "uncompressed": lambda path: growing(path, compression=Compression.none()),
    "gzip": lambda path: growing(path, compression=Compression.gzip(1)),
    "zstd": lambda path: growing(path, compression=Compression.zstd(1, shuffle=True)),
    "rounded": lambda path: growing(path, precision={"atoms.y": 0.01}),
    "still written": lambda path: growing(path, close=False),
    "reopened": reopened,
    "no frames": no_frames,
    "force field and log": forcefield_and_log,
    "converted": lambda path: convert(write_whole(path), path / "converted.mrec"),
    "unpacked": lambda path: unpack(pack(write_whole(path)), path / "unpacked.mrec"),
}


def values_of(record):
    """Every array of a record as our reader decodes it."""
    with open_record(record) as found:
        return {
            key: open_array(found.store, key, get_array(found.store, key)).all() for key in arrays(record)
        }


def assert_zarr_reads(store, expected, **options):
    group = zarr.open_group(store, mode="r", zarr_format=3, **options)
    members = {key: node for key, node in group.members(max_depth=None) if isinstance(node, zarr.Array)}
    assert members.keys() == expected.keys()
    for key, array in members.items():
        found, wanted = np.asarray(array[...]), expected[key]
        assert found.shape == wanted.shape, key
        if wanted.dtype.kind == "T":
            assert found.tolist() == wanted.tolist(), key
        else:
            assert (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes()), key
    return group


@pytest.mark.parametrize("kind", RECORDS)
def test_zarr_reads_every_array_consolidated_or_not(tmp_path, kind):
    record = RECORDS[kind](tmp_path)
    expected = values_of(record)
    assert expected
    assert_zarr_reads(zarr.storage.LocalStore(record, read_only=True), expected, use_consolidated=False)
    with zarr.storage.ZipStore(pack(record), read_only=True) as packed:
        assert_zarr_reads(packed, expected)
    before = validate(record, deep=True)
    zarr.consolidate_metadata(zarr.storage.LocalStore(record))
    for path in (record, pack(record, overwrite=True)):
        kept = {key: values.tolist() for key, values in expected.items()}
        assert str({key: values.tolist() for key, values in values_of(record).items()}) == str(kept)
        assert validate(path, deep=True) == before
    group = assert_zarr_reads(zarr.storage.LocalStore(record), expected, use_consolidated=True)
    assert group.metadata.consolidated_metadata is not None


def consolidated(tmp_path):
    record = write_whole(tmp_path)
    zarr.consolidate_metadata(zarr.storage.LocalStore(record))
    with changed(record) as node:
        node["attributes"]["x_root"] = [None]
    return record


def append(record):
    with TrajectoryWriter.reopen(record) as writer:
        writer.append(
            Frame(dict(frames()[0]), meta={"pe": 0.0, "note": None, "virial": np.zeros(6)}), step=41, time=9.0
        )
    return record


def mend(record):
    # A torn tail: one row more than is committed.
    with changed(record, "trajectory/atoms/x") as node:
        node["shape"] = [18]
    assert repair(record) != []
    return record


def fold(record):
    assert fold_metrics(record) == 1
    return record


def log_again(record):
    shutil.rmtree(record / "metrics")
    zarr.consolidate_metadata(zarr.storage.LocalStore(record))
    with MetricsWriter(record) as log:
        log.append("other", 1.0, 0)
    fold_metrics(record)
    return record


CHANGES = {
    "append": append,
    "repair": mend,
    "fold": fold,
    "log": log_again,
    "convert": lambda record: convert(record, record.with_name("again.mrec"), Options(frames=slice(0, 2))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_stale_consolidated_metadata_goes(tmp_path, change):
    """What zarr-python sees by default is what is stored: the old copy is dropped, nothing else of the root."""
    record = CHANGES[change](consolidated(tmp_path))
    assert "consolidated_metadata" not in document(record)
    if change != "log":
        assert document(record)["attributes"] == {"x_root": [None]}
    assert_zarr_reads(zarr.storage.LocalStore(record), values_of(record))
    assert [p for p in validate(record, deep=True) if p.severity == "error"] == []


# -- a vendor's group


def vendor(record):
    """Half-precision arrays, plain and in shards, attributes of the root, plain files, groups in groups."""
    with changed(record) as node:
        node["attributes"] = {"x_root": {"deep": [1, None, 2.0]}, "x_null": None, "x_wide": 2**70}
    rng = np.random.default_rng(3)
    make_group(record, "x_vendor", tool="x", maybe=None)
    make_group(record, "x_vendor/a", depth=1)
    make_group(record, "x_vendor/a/b", depth=2)
    halves = rng.normal(size=(40, 3)).astype(np.float16)
    halves[0] = [np.nan, -0.0, np.inf]
    replace_array(record, "x_vendor/half", halves, chunks=(7, 2))
    replace_array(record, "x_vendor/a/b/half", halves[:, 0], chunks=(4,), shards=(8,))
    (record / "x_vendor" / "a" / "notes.txt").write_text("run 1\r\nrun 2\n\x00", newline="")
    (record / "trajectory" / "atoms" / "notes.txt").write_bytes(b"beside the columns")
    (record / "LICENCE").write_bytes(bytes(range(256)) * 5000)
    return halves


def of_vendor(record):
    """Bytes of everything of the vendor's, and of what is no section."""
    files = {p.relative_to(record).as_posix(): p for p in record.rglob("*") if p.is_file()}
    return {
        n: p.read_bytes()
        for n, p in files.items()
        if n.startswith("x_vendor") or p.name in {"LICENCE", "notes.txt"}
    }


def through_convert(record):
    return convert(record, record.with_name("converted.mrec"))


def through_pack(record):
    return unpack(pack(record), record.with_name("unpacked.mrec"))


def through_packed_conversion(record):
    return unpack(convert(pack(record), record.with_name("c.mrec.zip")))


def through_everything(record):
    return append(through_pack(through_convert(record)))


@pytest.mark.parametrize(
    "way", [through_convert, through_pack, through_packed_conversion, append, through_everything]
)
def test_vendor_content_passes_bit_for_bit(tmp_path, way):
    record = write_whole(tmp_path)
    halves = vendor(record)
    before = of_vendor(record)
    assert len(before) >= 12
    found = way(record)
    after = of_vendor(found)
    assert after == before
    assert document(found)["attributes"] == {
        "x_root": {"deep": [1, None, 2.0]},
        "x_null": None,
        "x_wide": 2**70,
    }
    assert zarr.open_array(str(found), path="x_vendor/half")[...].tobytes() == halves.tobytes()
    assert zarr.open_array(str(found), path="x_vendor/a/b/half")[...].tobytes() == halves[:, 0].tobytes()
    later = []
    if way in {append, through_everything}:
        last = resolved()[-1]
        later = [
            Frame(
                {**last, **frames()[0]}, box=last.box, meta={"pe": 0.0, "note": None, "virial": np.zeros(6)}
            )
        ]
    assert_whole(found, later=later)
    assert json.loads((found / "x_vendor" / "zarr.json").read_text())["attributes"] == {
        "tool": "x",
        "maybe": None,
    }


def test_vendor_content_is_beside_what_a_converted_record_keeps(tmp_path):
    """Cutting frames and blocks of the trajectory takes nothing of the vendor's."""
    record = write_whole(tmp_path)
    vendor(record)
    before = of_vendor(record)
    options = Options(frames=slice(1, 4), blocks=["labels"], compression=Compression.zstd(3))
    found = convert(record, tmp_path / "cut.mrec", options)
    with open_record(found) as cut:
        assert [set(frame) for frame in cut.trajectory] == [{"labels"}] * 3
    assert of_vendor(found) == {k: v for k, v in before.items() if not k.startswith("trajectory/atoms/")}


def test_whole_record_passes_unchanged(tmp_path):
    """The record of this module's other tests holds what it is meant to hold."""
    record = write_whole(tmp_path)
    assert_whole(record)
    assert_whole(pack(record))
    with open_record(record) as found:
        assert found.metrics["train/loss"].values.tolist() == [1.0, 0.5, 1 / 3, 0.25, 0.125]
