"""Accepted records, one change to one of them, and what is then refused.

A refusal test builds a record that is accepted, changes one thing in it on disk and
asserts kind and place of the error. The changes go through zarr-python and plain
JSON, never through the code under test.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

from molrec_core import (
    FormatError,
    RecordError,
    SchemaError,
    TrajectoryWriter,
    open_record,
    validate,
    write_mrec,
)

EYE = np.eye(3)


def u64(*values):
    return np.array(values, np.uint64)


def write(path, frames, *, steps=None, times=None, schema=None, name="run.mrec", **options):
    """Write `frames` below `path` and return the record's path."""
    record = Path(path) / name
    with TrajectoryWriter(record, schema, **options) as writer:
        for i, frame in enumerate(frames):
            writer.append(
                frame,
                step=None if steps is None else steps[i],
                time=None if times is None else times[i],
            )
    return record


def refuse_last(path, frames, kind, loc, *, steps=None, times=None, **options):
    """Assert that the last of `frames` is refused at append, and that those before it stay, they alone."""
    record = Path(path) / "run.mrec"
    *accepted, refused_frame = frames
    with TrajectoryWriter(record, **options) as writer:
        for i, frame in enumerate(frames):
            label = {
                "step": None if steps is None else steps[i],
                "time": None if times is None else times[i],
            }
            if i < len(accepted):
                writer.append(frame, **label)
                continue
            with unwritable(kind, loc):
                writer.append(refused_frame, **label)
            assert len(writer) == len(accepted)
    found = read(record)[0]
    assert len(found) == len(accepted)
    assert all(set(frame) <= set(got) for frame, got in zip(accepted, found, strict=True))
    return record


def document(record, key=""):
    """Return the ``zarr.json`` of a node."""
    return json.loads((Path(record) / key / "zarr.json").read_text(encoding="utf-8"))


def attributes(record, key=""):
    """Return the attributes of a node."""
    return document(record, key).get("attributes", {})


@contextlib.contextmanager
def changed(record, key=""):
    """Yield the document of a node; what is changed in it is written back."""
    found = document(record, key)
    found.setdefault("attributes", {})
    yield found
    (Path(record) / key / "zarr.json").write_text(json.dumps(found), encoding="utf-8")


def set_attributes(record, key, /, **values):
    """Set attributes of a node; None removes one."""
    with changed(record, key) as found:
        for name, value in values.items():
            if value is None:
                found["attributes"].pop(name, None)
            else:
                found["attributes"][name] = value


def stored(record, key):
    """Return the values of an array, as zarr-python reads them."""
    with warnings.catch_warnings():
        # Some releases warn of numcodecs.shuffle, which the format prescribes.
        warnings.simplefilter("ignore")
        return zarr.open_array(str(record), path=key, mode="r")[...]


def replace_array(record, key, values, *, dtype=None, **options):
    """Store `values` in place of an array, which keeps its attributes."""
    kept = attributes(record, key) if (Path(record) / key / "zarr.json").exists() else {}
    remove(record, key)
    values = np.asarray(values)
    if dtype == "string" or (dtype is None and values.dtype.kind in "TU"):
        array = zarr.create_array(str(record), name=key, shape=values.shape, dtype="string", **options)
        array[...] = values.astype(object)
    else:
        data = values.astype(dtype) if dtype is not None else values
        with warnings.catch_warnings():
            # zarr-python warns of data types without a specification; some tests store those.
            warnings.simplefilter("ignore")
            zarr.create_array(str(record), name=key, data=data, **options)
    with changed(record, key) as found:
        found["attributes"] = kept


def make_group(record, key, /, **values):
    """Store a group with attributes."""
    (Path(record) / key).mkdir(parents=True, exist_ok=True)
    text = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": values})
    (Path(record) / key / "zarr.json").write_text(text, encoding="utf-8")


def remove(record, key):
    """Remove a node, everything below it included."""
    shutil.rmtree(Path(record) / key, ignore_errors=True)


def nodes(record, key=""):
    """Return the keys of all nodes below `key`, relative to it."""
    root = Path(record) / key
    return sorted(p.parent.relative_to(root).as_posix() for p in root.rglob("zarr.json") if p.parent != root)


def arrays(record, key=""):
    """Return the keys of all arrays below `key`, relative to it."""
    return [n for n in nodes(record, key) if document(record, Path(key) / n)["node_type"] == "array"]


def read(record):
    """Read every frame, series and meta key of a record's trajectory."""
    with agreeing(record), open_record(record) as found:
        reader = found.trajectory
        frames = list(reader)
        return frames, reader.steps.copy(), reader.times, {key: reader.meta(key) for key in reader.meta_keys}


@contextlib.contextmanager
def agreeing(record):
    """Assert that what the reader refuses in the body the validator names, at its place, with its kind.

    So every refusal test is a test of both doors.
    """
    try:
        yield
    except FormatError as error:
        found = {(p.kind, p.loc) for p in validate(record, deep=True) if p.severity == "error"}
        missed = [(p.kind, p.loc) for p in error.problems if (p.kind, p.loc) not in found]
        assert not missed, f"the reader refuses {missed}, the validator finds {sorted(found)}"
        raise
    errors = [p for p in validate(record, deep=True) if p.severity == "error"]
    assert not errors, f"the reader accepts what the validator refuses: {[str(p) for p in errors]}"


@contextlib.contextmanager
def refused(error, kind, loc):
    """Assert that the body raises `error` of `kind` at the place `loc` of the record."""
    with pytest.raises(RecordError) as caught:
        yield caught
    found = caught.value
    problems = getattr(found, "problems", None) or (found,)
    assert isinstance(found, error), f"{type(found).__name__}: {found}"
    assert [(p.kind, p.loc) for p in problems] == [(kind, loc)], str(found)
    assert problems[0].message


def unreadable(kind, loc):
    """Assert that reading a record is refused."""
    return refused(FormatError, kind, loc)


def unwritable(kind, loc):
    """Assert that a frame or a declaration is refused, before anything of it lands."""
    return refused(SchemaError, kind, loc)


# -- whole records: frame, system and documents


def write_record(path, *, name="run.mrec", **sections):
    """Write a record of `sections` below `path`, show that it is accepted, and return its path."""
    record = Path(path) / name
    write_mrec(record, **sections)
    read_whole(record)
    return record


def read_whole(record):
    """Read the documents, the frame-shaped sections and every frame of the trajectory."""
    with agreeing(record), open_record(record) as found:
        for section in ("meta", "status", "method", "system", "frame"):
            found.get(section)
        if "trajectory" in found:
            read(record)


def codecs(record, key):
    """Return the codecs of an array; those of its chunks where it is sharded."""
    chain = document(record, key)["codecs"]
    if chain[0]["name"] == "sharding_indexed":
        chain = chain[0]["configuration"]["codecs"]
    return chain
