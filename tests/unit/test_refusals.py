"""What is refused outside the checklist: misuse of the interface, links, and arrays that are too short."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from conformance.records import (
    attributes,
    make_group,
    read,
    refused,
    remove,
    replace_array,
    set_attributes,
    stored,
    unreadable,
    unwritable,
    write,
    write_record,
)
from molrec_core import (
    Block,
    Box,
    ForceField,
    Frame,
    RecordError,
    RecordExistsError,
    RecordNotFoundError,
    SchemaError,
    SectionNotFoundError,
    SequenceSchema,
    TrajectoryReader,
    TrajectoryWriter,
    open_record,
    pack,
    validate,
    write_mrec,
)
from molrec_core._array import open_array
from molrec_core._convert import Options, convert
from molrec_core._document import checked_document
from molrec_core._fixed import write_array
from molrec_core._node import ArrayNode, parse_node
from molrec_core._store import DirectoryStore
from molrec_core._zarrstore import ZarrStore
from molrec_core._zipstore import ZipStore


def moving(*counts):
    return [Frame({"atoms": {"x": np.arange(n) + i * 0.5}}) for i, n in enumerate(counts)]


@pytest.fixture
def record(tmp_path):
    return write(tmp_path, moving(3, 3, 3))


# -- places that are no record, and those that are one already


def test_a_record_is_not_replaced_unasked(tmp_path, record):
    with refused(RecordExistsError, "exists", str(record)):
        TrajectoryWriter(record)
    with refused(RecordExistsError, "exists", str(record)):
        write_mrec(record, frame=Frame())
    assert len(read(record)[0]) == 3


def test_what_is_no_record_is_never_replaced(tmp_path):
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "chapter1.tex").write_text("years of work")
    for overwrite in (False, True):
        with refused(RecordExistsError, "not_a_record", str(mine)):
            write_mrec(mine, frame=Frame(), overwrite=overwrite)
        with refused(RecordExistsError, "not_a_record", str(mine / "chapter1.tex")):
            TrajectoryWriter(mine / "chapter1.tex", overwrite=overwrite)
    assert (mine / "chapter1.tex").read_text() == "years of work"
    assert [p.name for p in tmp_path.iterdir()] == ["thesis"]


def test_a_record_needs_its_parent(tmp_path):
    with refused(RecordNotFoundError, "not_found", str(tmp_path / "no" / "run.mrec")):
        TrajectoryWriter(tmp_path / "no" / "run.mrec")


def test_what_is_there_is_named(tmp_path, record):
    with open_record(record) as found, refused(SectionNotFoundError, "section_not_found", "system") as caught:
        _ = found.system
    assert "it has meta, trajectory" in str(caught.value)
    (tmp_path / "plain").mkdir()
    with refused(RecordNotFoundError, "not_found", str(tmp_path / "plain")) as caught:
        open_record(tmp_path / "plain")
    assert "a directory without a zarr.json" in str(caught.value)
    archive = tmp_path / "x.zip"
    with zarr.storage.ZipStore(archive, mode="w") as store:
        zarr.create_array(store, name="only", data=np.zeros(3))
    renamed = tmp_path / "y.zip"
    renamed.write_bytes(archive.read_bytes().replace(b"zarr.json", b"zarr.jsOn"))
    with refused(RecordNotFoundError, "not_found", str(renamed)) as caught:
        open_record(renamed)
    assert "a zip archive without a zarr.json" in str(caught.value)


def test_an_empty_store_is_no_record():
    store = zarr.storage.MemoryStore()
    for look in (open_record, validate):
        with refused(RecordNotFoundError, "not_found", ZarrStore(store).path):
            look(store)


def test_records_are_opened_for_reading(record):
    with pytest.raises(ValueError, match=r"TrajectoryWriter\.reopen"):
        open_record(record, mode="a")


def test_documents_are_objects():
    for section in ("meta", "status", "method"):
        with unwritable("document", section):
            checked_document(section, ["not", "an", "object"])
    with unwritable("document", "forcefield"):
        ForceField(["not", "an", "object"])


# -- reading


def test_frames_and_names_that_are_not_there(record):
    with open_record(record) as found:
        reader = found.trajectory
        for i in (3, -4, 10**9):
            with pytest.raises(IndexError, match="3 frames"):
                _ = reader[i]
        with refused(SectionNotFoundError, "section_not_found", "trajectory/bonds"):
            reader.counts("bonds")
        with refused(SectionNotFoundError, "section_not_found", "trajectory/meta/pe"):
            reader.meta("pe")
        with refused(SectionNotFoundError, "section_not_found", "trajectory/atoms/q"):
            reader.read("atoms", "q")
    remove(record, "trajectory")
    with refused(SectionNotFoundError, "section_not_found", "trajectory"):
        TrajectoryReader(DirectoryStore(record))


def test_bulk_reads_that_do_not_fit(tmp_path, record):
    columns = {"x": np.zeros(3), "v": np.zeros((3, 3)), "n": np.zeros(3, np.int64)}
    mixed = write(tmp_path, [Frame({"atoms": columns})], name="mixed.mrec")
    with open_record(mixed) as found:
        for pair in (("x", "v"), ("x", "n"), ()):
            with unwritable("columns", "trajectory/atoms"):
                found.trajectory.read("atoms", pair)
    late = write(
        tmp_path, moving(2), schema=SequenceSchema().declare_block("atoms", {"x": "f64"}), name="a.mrec"
    )
    with open_record(late) as found, unwritable("out_shape", "trajectory/atoms"):
        found.trajectory.read("atoms", "x", out=np.zeros((2, 2)))
    ragged = write(tmp_path, moving(2, 3), name="ragged.mrec")
    with open_record(ragged) as found:
        values, counts = found.trajectory.read("atoms", "x")
        assert (len(values), counts.tolist()) == (5, [2, 3])
        for options in ({"rows": [0]}, {"out": np.zeros((2, 2))}):
            with unreadable("ragged", "trajectory/atoms"):
                found.trajectory.read("atoms", "x", **options)
        with unreadable("ragged", "trajectory/atoms"):
            found.trajectory.dask("atoms", "x")


def test_bulk_reads_of_an_absent_block(tmp_path):
    schema = SequenceSchema().declare_column("atoms", "x", "f64").declare_column("bonds", "k", "f64")
    frames = [Frame({"atoms": {"x": [0.0]}}), Frame({"bonds": {"k": [1.0]}})]
    record = write(tmp_path, frames, schema=schema)
    with open_record(record) as found:
        with unreadable("block_absent", "trajectory/bonds"):
            found.trajectory.read("bonds", "k")
        assert found.trajectory.read("bonds", "k", frames=slice(1, 2)).tolist() == [[1.0]]


def test_arrays_that_are_no_columns(record):
    store = DirectoryStore(record)
    replace_array(record, "trajectory/atoms/x", np.zeros(9, np.float32))
    node = parse_node(store.get("trajectory/atoms/x/zarr.json"), "trajectory/atoms/x")
    assert isinstance(node, ArrayNode)
    with unreadable("data_type", "trajectory/atoms/x"):
        open_array(store, "trajectory/atoms/x", node)
    with unwritable("dtype", "frame/x"):
        write_array(store, "frame/x", np.zeros(3, np.float32))


def test_documents_without_bound(tmp_path, record):
    size = (record / "zarr.json").stat().st_size
    with unreadable("too_large", "zarr.json"):
        DirectoryStore(record).get("zarr.json", limit=size - 1)
    archive = ZipStore(pack(record))
    with unreadable("too_large", "zarr.json"):
        archive.get("zarr.json", limit=size - 1)
    archive.close()
    with unreadable("too_large", "zarr.json"):
        ZarrStore(zarr.storage.LocalStore(record)).get("zarr.json", limit=size - 1)
    with (record / "frame").open("wb"):
        pass
    with (record / "meta" / "zarr.json").open("ab") as file:
        file.truncate(2**26 + 1)
    with unreadable("too_large", "meta/zarr.json"):
        open_record(record)


def test_links_are_not_followed(tmp_path, record):
    outside = write(tmp_path, moving(3, 3, 3), name="outside.mrec")
    (record / "trajectory/atoms/x/c/0").unlink()
    (record / "trajectory/atoms/x/c/0").symlink_to(outside / "trajectory/atoms/x/c/0")
    with unreadable("symlink", "trajectory/atoms/x/c/0"):
        read(record)
    remove(record, "trajectory/atoms/x")
    (record / "trajectory/atoms/x").symlink_to(outside / "trajectory/atoms/x", target_is_directory=True)
    with unreadable("symlink", "trajectory/atoms/x"):
        read(record)
    with unreadable("symlink", "trajectory/atoms/x"):
        DirectoryStore(record).get("trajectory/atoms/x/zarr.json")


# -- appending


def test_settings_of_a_writer(tmp_path):
    for flush_every in (0, -1):
        with unwritable("flush_every", ""):
            TrajectoryWriter(tmp_path / "run.mrec", flush_every=flush_every)
    assert not (tmp_path / "run.mrec").exists()


@pytest.mark.parametrize("key", ["trajectory/atoms/x", "trajectory/atoms/offset"])
def test_a_layout_that_is_only_read(tmp_path, key):
    record = write(tmp_path, moving(2, 3))
    values = stored(record, key)
    replace_array(record, key, values)
    assert len(read(record)[0]) == 2
    with unreadable("not_appendable", key) as caught:
        TrajectoryWriter.reopen(record)
    assert "molrec convert" in str(caught.value)
    target = convert(record, tmp_path / "anew.mrec")
    with TrajectoryWriter.reopen(target) as writer:
        writer.append(moving(4)[0])
    assert len(read(target)[0]) == 3


def test_declarations_that_contradict_themselves():
    schema = SequenceSchema().declare_structural_shape("density", (-2, -2))
    with unwritable("structural_shape", "trajectory/density"):
        schema.check()
    frames = [Frame(meta={"n": 1}), Frame(meta={"n": 1.5})]
    with unwritable("meta_tag", "trajectory/meta/n"):
        SequenceSchema.from_frames(frames)
    unchecked = Frame({"atoms": Block._trusted({"x": np.zeros(2, np.float32)}, 2)})
    with unwritable("dtype", "atoms/x"):
        SequenceSchema.from_frames(unchecked)


def test_a_column_of_a_plain_mapping_is_named_with_its_block():
    for values, kind in ((np.zeros(2, np.float32), "dtype"), (1.0, "column_shape")):
        with unwritable(kind, "atoms/x"):
            Frame({"atoms": {"x": values}})


# -- a declaration read off its groups


def foreign(tmp_path):
    frames = [Frame({"atoms": {"x": [float(i)]}}, meta={"pe": i + 0.5}) for i in range(2)]
    record = write(tmp_path, frames)
    expected = read(record)[0]
    set_attributes(record, "trajectory", sequence_schema=None)
    assert read(record)[0] == expected
    return record


def test_foreign_columns(tmp_path):
    record = foreign(tmp_path)
    replace_array(record, "trajectory/atoms/odd", np.float64(1.0))
    with unreadable("schema_mismatch", "trajectory/atoms/odd") as caught:
        _ = open_record(record).trajectory
    assert "a single value is stored" in str(caught.value)
    replace_array(record, "trajectory/atoms/odd", np.zeros(2, np.float32))
    with unreadable("data_type", "trajectory/atoms/odd"):
        _ = open_record(record).trajectory


def test_foreign_names(tmp_path):
    record = foreign(tmp_path)
    make_group(record, "trajectory/__odd")
    with unreadable("bad_name", "trajectory/__odd"):
        _ = open_record(record).trajectory


@pytest.mark.parametrize("tag", ["f32", None, 3])
def test_foreign_meta(tmp_path, tag):
    record = foreign(tmp_path)
    set_attributes(record, "trajectory/meta/pe", meta_dtype=tag)
    with unreadable("meta_dtype", "trajectory/meta/pe"):
        _ = open_record(record).trajectory


# -- a refusal says what was found and what was expected


def message(record):
    with pytest.raises(RecordError) as caught:
        read(record)
    return str(caught.value)


def test_arrays_that_are_too_short_say_for_what(tmp_path):
    boxes = [Box(np.eye(3) * n) for n in (1, 2, 3)]
    frames = [
        Frame(dict(f), box=box, meta={"pe": 0.5}) for f, box in zip(moving(2, 3, 2), boxes, strict=True)
    ]
    for key, said in (
        ("atoms/x", "4 rows are stored; offset claims 7"),
        ("meta/pe", "2 rows for 3 frames"),
        ("step", "2 values for 3 frames"),
        ("box/vectors", "2 rows for 3 updates of the cell"),
    ):
        record = write(tmp_path, frames, steps=[0, 1, 5], overwrite=True)
        values = stored(record, f"trajectory/{key}")
        replace_array(record, f"trajectory/{key}", values[:4] if key == "atoms/x" else values[:2])
        assert said in message(record)


def test_attributes_of_a_cell_say_which(tmp_path):
    record = write(tmp_path, [Frame(box=Box(np.eye(3)))], schema=SequenceSchema())
    set_attributes(record, "trajectory/box", origin=[0, "x", 0])
    assert "origin is [0, 'x', 0]; numbers of shape (3,)" in message(record)


def test_the_flag_of_a_changing_cell_is_read_with_its_documents(tmp_path):
    record = write(tmp_path, [Frame(box=Box(np.eye(3) * n)) for n in (1, 2)], schema=SequenceSchema())
    set_attributes(record, "trajectory/box", cell_defined="yes")
    with unreadable("cell_defined", "trajectory/box"):
        _ = open_record(record).trajectory


def test_typed_values_say_why(tmp_path):
    record = write_record(tmp_path, frame=Frame(meta={"n": 1, "f": 0.5}))
    for name, value, said in (("f", 10**400, "does not fit a binary64"), ("n", "5", "beyond 2**53")):
        with open_record(record) as found:
            assert found.frame.meta == {"n": 1, "f": 0.5}
        before = attributes(record, "frame")
        set_attributes(record, "frame", **{name: value})
        with pytest.raises(RecordError, match=said.replace("*", r"\*")):
            _ = open_record(record).frame
        set_attributes(record, "frame", **before)


def test_a_null_fill_says_who_takes_one(tmp_path):
    pin = {"blocks": {}, "meta": {"n": {"dtype": "i64", "fill": None}}}
    with pytest.raises(RecordError, match="only a json key takes a null fill"):
        SequenceSchema.from_json(pin)
    with pytest.raises(SchemaError, match="only a json key takes a null fill"):
        SequenceSchema().declare_meta("n", "i64", fill=None)


# -- conversion


def test_conversions_without_a_record_or_an_adapter(tmp_path, record):
    with pytest.raises(RecordError, match="neither") as caught:
        convert(tmp_path / "a.unheard", tmp_path / "b.unheard")
    assert caught.value.kind == "no_record_named"
    for options in (None, Options(adapter="unheard-of")):
        with pytest.raises(RecordError, match="no adapter") as caught:
            convert(record, tmp_path / "b.unheard", options)
        assert caught.value.kind == "no_adapter"
    with unwritable("undeclared_block", "trajectory"):
        convert(record, tmp_path / "b.mrec", Options(blocks=["bonds"]))
    assert not (tmp_path / "b.mrec").exists()
