"""Checklist group E: observables."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.records import (
    attributes,
    changed,
    document,
    make_group,
    nodes,
    refused,
    remove,
    replace_array,
    stored,
    unreadable,
)
from molrec_core import Block, FormatError, Frame, Observable, SchemaError, open_record, validate, write_mrec

FRAME = Frame({"atoms": Block({"x": [0.0, 1.0, 2.0]})})
META = {"kind": "scalar", "description": "what it is", "time_dependent": False}


def energy(**meta):
    return Observable(-76.4, META | {"unit": "hartree"} | meta)


def write(tmp_path, **observables):
    """Write observables beside a frame, and show that they come back as given."""
    record = tmp_path / "run.mrec"
    write_mrec(record, frame=FRAME, observables=observables, overwrite=True)
    found = open_record(record).observables
    assert found == observables
    assert list(found) == sorted(observables)
    assert validate(record, deep=True) == []
    return record, found


def assert_unreadable(record, kind, loc):
    """The change is refused on reading and found by the validator; the frame still opens."""
    with open_record(record) as found:
        with unreadable(kind, loc):
            _ = found.observables
        assert found.frame == FRAME
    assert [(p.kind, p.loc) for p in validate(record)] == [(kind, loc)]


def assert_unwritable(tmp_path, kind, loc, **observables):
    with refused(SchemaError, kind, loc):
        write_mrec(tmp_path / "refused.mrec", frame=FRAME, observables=observables)
    assert not (tmp_path / "refused.mrec").exists()


def test_E01_empty_section(tmp_path):
    record, found = write(tmp_path)
    assert found == {}
    assert open_record(record).sections == ("meta", "frame", "observables")


def test_E02_scalar_and_vector(tmp_path):
    dipole = {"kind": "vector", "description": "d", "time_dependent": True, "axes": ["component"]}
    charges = META | {"target": "/frame/atoms", "domain": "atoms"}
    record, found = write(
        tmp_path,
        energy=energy(),
        dipole=Observable(np.arange(12.0).reshape(4, 3), dipole | {"sampling": "per_frame", "unit": "debye"}),
        charges=Observable([0.4, -0.2, -0.2], charges),
    )
    assert found["energy"].values.shape == ()
    assert found["energy"].values == -76.4
    assert (found["energy"].unit, found["energy"].kind) == ("hartree", "scalar")
    assert (found["dipole"].time_dependent, found["energy"].time_dependent) == (True, False)
    assert found["charges"].unit is None
    assert attributes(record, "observables/meta/charges") == charges


def test_E03_every_dtype(tmp_path):
    values = {
        "i": np.array([3, 4], np.int32),
        "u": np.array([2**64 - 1, 0], np.uint64),
        "s": np.array(["a", "b"]),
        "b": np.array([True, False]),
        "c": np.array([1 + 2j, -1j]),
        "c_narrow": np.array([1 + 2j], np.complex64),
        "one_string": np.array("x"),
        "one_flag": np.array(True),
        "one_byte": np.array(200, np.uint8),
        "none": np.zeros((0, 3)),
    }
    _, found = write(tmp_path, **{name: Observable(v, META) for name, v in values.items()})
    for name, array in values.items():
        assert found[name].values.shape == array.shape
        assert found[name].values.tolist() == array.tolist()
        if name not in {"s", "one_string"}:
            assert found[name].values.dtype == array.dtype


@pytest.mark.parametrize("values", [np.zeros(2, np.float32), np.array(["2020"], "M8[Y]"), np.array([b"x"])])
def test_E03_other_dtypes_are_refused(tmp_path, values):
    with refused(SchemaError, "dtype", "observables"):
        Observable(values, META)
    if values.dtype.kind == "f":
        record, _ = write(tmp_path, energy=energy())
        replace_array(record, "observables/energy", values)
        assert_unreadable(record, "data_type", "observables/energy")


def test_E04_unknown_kind_and_keys(tmp_path):
    meta = META | {
        "kind": "spectrum",
        "x_vendor": {"resolution": 4, "window": [400, 4000]},
        "x_reviewed": None,
    }
    record, found = write(tmp_path, ir=Observable([[1000.0, 0.1], [1600.0, 0.9]], meta))
    assert found["ir"].meta == meta
    assert attributes(record, "observables/meta/ir") == meta
    found["ir"].meta["x_vendor"]["resolution"] = 0
    assert open_record(record).observables["ir"].meta == meta


def test_E05_data_without_meta(tmp_path):
    record, _ = write(tmp_path, energy=energy(), other=energy())
    remove(record, "observables/meta/energy")
    assert_unreadable(record, "observable_without_meta", "observables/energy")


def test_E06_meta_without_data(tmp_path):
    record, _ = write(tmp_path, energy=energy(), other=energy())
    remove(record, "observables/energy")
    assert_unreadable(record, "observable_without_data", "observables/meta/energy")
    # A group where the values should be is no values either.
    make_group(record, "observables/energy")
    assert_unreadable(record, "observable_without_data", "observables/meta/energy")


def test_E06_meta_as_an_array(tmp_path):
    record, _ = write(tmp_path, energy=energy())
    remove(record, "observables/meta")
    replace_array(record, "observables/meta", np.zeros(2))
    assert_unreadable(record, "node_type", "observables/meta")


MALFORMED = [
    ("kind", None),
    ("kind", ""),
    ("kind", 3),
    ("description", None),
    ("description", ["a"]),
    ("time_dependent", None),
    ("time_dependent", "yes"),
    ("time_dependent", 1),
]


@pytest.mark.parametrize(("key", "value"), MALFORMED)
def test_E07_required_keys(tmp_path, key, value):
    record, _ = write(tmp_path, energy=energy())
    with changed(record, "observables/meta/energy") as found:
        found["attributes"][key] = value
    assert_unreadable(record, "observable_meta", f"observables/meta/energy/{key}")
    assert_unwritable(
        tmp_path, "observable_meta", f"observables/meta/energy/{key}", energy=energy(**{key: value})
    )
    with changed(record, "observables/meta/energy") as found:
        del found["attributes"][key]
    assert_unreadable(record, "observable_meta", f"observables/meta/energy/{key}")


def test_E08_the_name_meta(tmp_path):
    assert_unwritable(tmp_path, "reserved_name", "observables/meta", meta=energy())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "__x", "zarr.json", "a\0b"])
def test_E09_names(tmp_path, name):
    assert_unwritable(tmp_path, "bad_name", f"observables/{name}", **{name: energy()})


def test_E09_names_on_reading(tmp_path):
    record, _ = write(tmp_path, energy=energy())
    for key in ("observables/{}", "observables/meta/{}"):
        (record / key.format("energy")).rename(record / key.format("__energy"))
    assert_unreadable(record, "bad_name", "observables/__energy")


def test_E10_time_dependent_needs_an_axis(tmp_path):
    loc = "observables/meta/energy/time_dependent"
    record, _ = write(tmp_path, energy=energy())
    with changed(record, "observables/meta/energy") as found:
        found["attributes"]["time_dependent"] = True
    assert_unreadable(record, "observable_shape", loc)
    assert_unwritable(tmp_path, "observable_shape", loc, energy=energy(time_dependent=True))
    write(tmp_path, energy=Observable([1.0], META | {"time_dependent": True}))


def test_E11_layout(tmp_path):
    record, _ = write(tmp_path, energy=energy(), dipole=Observable(np.arange(3.0), META))
    assert nodes(record, "observables") == ["dipole", "energy", "meta", "meta/dipole", "meta/energy"]
    assert document(record, "observables/energy")["shape"] == []
    assert document(record, "observables/dipole")["chunk_grid"]["configuration"]["chunk_shape"] == [3]
    assert stored(record, "observables/energy") == -76.4
    assert attributes(record, "observables/meta/dipole") == META
    assert attributes(record, "observables/energy") == {}


def test_E11_large_arrays_are_cut_like_all_fixed_ones(tmp_path):
    record, _ = write(tmp_path, big=Observable(np.arange(262145.0), META))
    assert document(record, "observables/big")["codecs"][0]["name"] == "sharding_indexed"
    assert stored(record, "observables/big")[-1] == 262144.0


@pytest.mark.parametrize(
    ("key", "value"), [("unit", 3), ("unit", None), ("axes", "x"), ("axes", [1]), ("target", [])]
)
def test_E11_optional_keys_have_their_type(tmp_path, key, value):
    record, _ = write(tmp_path, energy=energy())
    with changed(record, "observables/meta/energy") as found:
        found["attributes"][key] = value
    assert_unreadable(record, "observable_meta", f"observables/meta/energy/{key}")
    assert_unwritable(
        tmp_path, "observable_meta", f"observables/meta/energy/{key}", energy=energy(**{key: value})
    )


def test_E11_metadata_is_plain_json(tmp_path):
    assert_unwritable(tmp_path, "not_json", "observables/meta/energy", energy=energy(x=np.nan))


def test_E12_the_dims_draft_is_not_ours(tmp_path):
    """The draft's documents have no kind: they are refused as incomplete, never guessed at."""
    record, _ = write(tmp_path, energy=energy())
    with changed(record, "observables/meta/energy") as found:
        found["attributes"] = {"dims": ["frame"], "description": "d", "time_dependent": False}
    assert_unreadable(record, "observable_meta", "observables/meta/energy/kind")


def test_E_every_problem_is_reported(tmp_path):
    record, _ = write(tmp_path, energy=energy(), other=energy())
    remove(record, "observables/meta/energy")
    with changed(record, "observables/meta/other") as found:
        del found["attributes"]["kind"]
    with pytest.raises(FormatError) as caught:
        _ = open_record(record).observables
    assert [p.kind for p in caught.value.problems] == ["observable_without_meta", "observable_meta"]
