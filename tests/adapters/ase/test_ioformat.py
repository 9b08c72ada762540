"""``ase.io`` finds records by their names and directories, and asks for no more than it needs."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
import zipfile
from copy import deepcopy
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.io import formats
from ase.io.bundletrajectory import BundleTrajectory

from molrec_ase import MolrecTrajectory
from molrec_ase._draft import Draft
from molrec_core import (
    FormatError,
    Frame,
    LockedError,
    RecordExistsError,
    RecordNotFoundError,
    SchemaError,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
)


@pytest.fixture
def decoded(monkeypatch):
    """Ordinals of the images that were decoded."""
    from molrec_ase._decode import Decoder

    seen = []
    whole = Decoder._at

    def counting(self, ordinal):
        seen.append(ordinal)
        return whole(self, ordinal)

    monkeypatch.setattr(Decoder, "_at", counting)
    return seen


@pytest.fixture
def record(tmp_path, simple):
    path = tmp_path / "a.mrec"
    ase.io.write(path, [simple(i) for i in range(20)])
    return path


def first_x(images):
    return [atoms.positions[0, 0] for atoms in images]


def test_P11_the_format_registers_itself():
    """A new process that imports ase.io alone lists the format and writes one."""
    done = subprocess.run(
        [sys.executable, "-m", "ase", "info", "--formats"], capture_output=True, text=True, check=True
    )
    assert "mrec" in done.stdout
    assert "MolRec record" in done.stdout


@pytest.mark.parametrize("first", ["molrec_ase", "molrec_ase._ioformat", "molrec_ase._io", "ase.io"])
def test_the_order_of_imports_does_not_matter(first, tmp_path):
    """ASE loads the entry point while it is half loaded itself."""
    code = (
        f"import warnings; warnings.simplefilter('error', UserWarning); import {first}; from molrec_ase import mrec_format;"
        "import ase.io; from ase import Atoms; ase.io.write('a.mrec', Atoms('H')); print(ase.io.read('a.mrec'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "symbols='H'" in done.stdout


def test_importing_ase_io_loads_nothing_of_ours_but_the_entry():
    """Everyone who uses ASE imports this; the rest waits until a record is asked for."""
    code = "import sys, ase.io; print(sorted(m for m in sys.modules if m.startswith('molrec')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['molrec_ase', 'molrec_ase._ioformat']"


def test_K12_written_twice_to_one_path(tmp_path, simple):
    """The second write replaces the first; no format is named."""
    path = tmp_path / "a.mrec"
    ase.io.write(path, [simple(0), simple(1)])
    ase.io.write(path, [simple(2)])
    assert first_x(ase.io.read(path, ":")) == [2.0]


def test_K12_real_bundles_still_work(tmp_path, simple):
    """A BundleTrajectory is read, replaced and appended to by ASE's own code."""
    path = tmp_path / "a.bundle"
    ase.io.write(path, [simple(0), simple(1)], format="bundletrajectory")
    assert first_x(ase.io.read(path, ":")) == [0.0, 1.0]
    ase.io.write(path, [simple(2)], append=True)
    assert first_x(ase.io.read(path, ":")) == [0.0, 1.0, 2.0]
    ase.io.write(path, [simple(3)])
    bundle = BundleTrajectory(str(path))
    assert first_x(bundle) == [3.0]
    bundle.close()


def test_K12_a_bundle_named_like_a_record_stays_a_bundle(tmp_path, simple):
    """What is there decides, not the name."""
    path = tmp_path / "a.mrec"
    bundle = BundleTrajectory(str(path), "w")
    bundle.write(simple(4))
    bundle.close()
    assert first_x(ase.io.read(path, ":")) == [4.0]


def test_K12_an_empty_directory_named_like_a_record_becomes_one(tmp_path, simple):
    path = tmp_path / "a.mrec"
    path.mkdir()
    ase.io.write(path, simple(1))
    assert first_x(ase.io.read(path, ":")) == [1.0]


def test_K12_a_record_of_any_name_is_read_and_replaced(tmp_path, simple):
    """A directory with a Zarr root is a record whatever it is called."""
    path = tmp_path / "anything"
    ase.io.write(path, simple(1), format="mrec")
    assert first_x(ase.io.read(path, ":")) == [1.0]
    ase.io.write(path, simple(2))
    assert first_x(ase.io.read(path, ":")) == [2.0]


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("name", ["a.mrec", "a.mrec/", "a.mrec.zip"])
def test_K13_K14_names_and_kinds_of_path(tmp_path, images, assert_same, kind, name):
    """With and without the slash, packed or not, as text or as a Path: one store."""
    path = kind(f"{tmp_path}/{name}")
    ase.io.write(path, images)
    assert_same(images, ase.io.read(path, ":"))
    assert sorted(p.name for p in tmp_path.iterdir()) == [name.rstrip("/")]


def test_K13_with_and_without_slash_give_the_same_store(tmp_path, images):
    for name in ("a.mrec", "b.mrec/"):
        ase.io.write(f"{tmp_path}/{name}", images)
    stored = [
        {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "a.mrec", tmp_path / "b.mrec")
    ]
    assert stored[0] == stored[1]


def test_K13_a_slash_does_not_make_any_name_a_record(tmp_path, simple):
    """A directory that does not exist is named *.mrec, or the format is told."""
    with pytest.raises(formats.UnknownFileTypeError, match=r"\*\.mrec"):
        ase.io.write(f"{tmp_path}/run/", simple(0))


def test_K14_packed_equals_unpacked(tmp_path, images, assert_same):
    ase.io.write(tmp_path / "x.mrec", images)
    ase.io.write(tmp_path / "x.mrec.zip", images)
    assert_same(ase.io.read(tmp_path / "x.mrec", ":"), ase.io.read(tmp_path / "x.mrec.zip", ":"))
    assert zipfile.ZipFile(tmp_path / "x.mrec.zip").testzip() is None


@pytest.mark.parametrize(
    ("index", "ordinals"),
    [
        (None, [19]),
        (0, [0]),
        (-1, [19]),
        (-2, [18]),
        (7, [7]),
        (":", range(20)),
        ("::2", range(0, 20, 2)),
        ("-3:", [17, 18, 19]),
        ("2:9:3", [2, 5, 8]),
        (slice(3, 5), [3, 4]),
        (slice(None, None, -7), [19, 12, 5]),
    ],
)
def test_K15_every_index_decodes_what_it_names(record, decoded, index, ordinals):
    """An integer decodes one image, a slice its own."""
    found = ase.io.read(record, index)
    assert first_x(found if isinstance(found, list) else [found]) == list(ordinals)
    assert decoded == list(ordinals)


def test_K15_an_index_behind_an_at_sign(record, decoded):
    assert first_x(ase.io.read(f"{record}@::9")) == [0.0, 9.0, 18.0]
    assert first_x([ase.io.read(f"{record}/@3")]) == [3.0]
    assert decoded == [0, 9, 18, 3]


@pytest.mark.parametrize("index", [20, -21])
def test_K15_an_image_that_is_not_there(record, index):
    with pytest.raises((IndexError, StopIteration)):
        ase.io.read(record, index)


def test_K15_iread_decodes_as_it_goes(record, decoded):
    images = ase.io.iread(record)
    assert next(images).positions[0, 0] == 0.0
    assert decoded == [0]
    assert first_x(images) == list(range(1, 20))


def test_K16_a_name_with_an_at_sign(tmp_path, simple):
    path = tmp_path / "a@b.mrec"
    ase.io.write(path, simple(5))
    assert first_x(ase.io.read(path, ":", do_not_split_by_at_sign=True)) == [5.0]


def test_K16_a_generator_is_written(tmp_path, simple):
    ase.io.write(tmp_path / "a.mrec", (simple(i) for i in range(3)))
    assert first_x(ase.io.read(tmp_path / "a.mrec", ":")) == [0.0, 1.0, 2.0]


def test_K16_a_generator_may_change_one_image_in_place(tmp_path, images, assert_same):
    """As a dynamics does: every array, result and value is what it was when the image was handed out."""

    def running(atoms):
        for step in range(5):
            for part in (atoms.arrays, atoms.calc.results, atoms.info):
                for values in part.values():
                    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
                        values[...] += step
            atoms.calc.atoms = atoms.copy()
            given.append(deepcopy(atoms))
            yield atoms

    atoms, given = next(image for image in images if image.calc is not None), []
    atoms.info["field"] = np.array([1.0, 2.0, 3.0])
    ase.io.write(tmp_path / "a.mrec", running(atoms))
    assert len({image.positions.tobytes() for image in given}) == 5
    assert_same(given, ase.io.read(tmp_path / "a.mrec", ":"))


def test_K16_images_before_one_that_cannot_be_written_are(tmp_path, simple):
    path = tmp_path / "a.mrec"
    ase.io.write(path, simple(0))
    bad = simple(3)
    bad.info["what"] = object()
    with pytest.raises(TypeError, match="what"):
        ase.io.write(path, [simple(1), simple(2), bad, simple(4)], append=True)
    assert first_x(ase.io.read(path, ":")) == [0.0, 1.0, 2.0]


def test_positions_of_another_dtype_are_refused_alone(tmp_path, simple):
    """Gathered with others they would come back as float64; one image by itself leaves the next ones be."""
    odd = simple(2)
    odd.arrays["positions"] = odd.positions.astype(np.float32)
    with pytest.raises(TypeError, match="float32"):
        ase.io.write(tmp_path / "a.mrec", [simple(1), odd])
    with MolrecTrajectory(tmp_path / "b.mrec", "w") as trajectory:
        trajectory.write(simple(1))
        with pytest.raises(TypeError, match="float32"):
            trajectory.write(odd)
        trajectory.write(simple(3))
    assert first_x(ase.io.read(tmp_path / "b.mrec", ":")) == [1.0, 3.0]


def test_images_before_one_that_cannot_be_read_are(tmp_path, simple):
    """Images are decoded in runs; a value that lies stops neither those before it nor goes unsaid."""
    path = tmp_path / "a.mrec"
    ase.io.write(path, [simple(i) for i in range(20)])
    with open_record(path) as record:
        schema, meta = record.trajectory.schema, record.meta
        frames = list(record.trajectory)
    schema.declare_meta("info", "json", fill=None)
    lying = Frame(dict(frames[14]), meta={**frames[14].meta, "info": {"x": {"$nd": "not an array"}}})
    with TrajectoryWriter(path, schema, meta=meta, overwrite=True) as writer:
        for frame in [*frames[:14], lying, *frames[15:]]:
            writer.append(Frame(dict(frame), meta={"info": None, **frame.meta}))
    found = []
    with pytest.raises(FormatError):
        found.extend(ase.io.iread(path))
    assert first_x(found) == list(range(14))


def test_images_that_are_refused_together_are_not_kept():
    """The next ones must not fail for them."""
    draft = Draft(SequenceSchema().declare_block("b", {"value": "f64"}), {})
    for take in (draft.take_one, draft.take):
        draft.add({"b": (1, {"value": np.zeros(1, np.float16)})}, None, {}, 1)
        with pytest.raises(SchemaError, match="float16"):
            take()
        draft.add({"b": (1, {"value": np.zeros(1)})}, None, {}, 1)
        assert draft.images == 1
        take()


@pytest.mark.parametrize("name", ["a.mrec", "a.mrec.zip"])
def test_K16_P89_an_empty_list_makes_an_empty_record(tmp_path, simple, name):
    """It has no images, reads as an empty list, and takes images later."""
    ase.io.write(tmp_path / name, [])
    assert ase.io.read(tmp_path / name, ":") == []
    with open_record(tmp_path / name) as record:
        assert len(record.trajectory) == 0
    ase.io.write(tmp_path / name, [simple(1)], append=True)
    assert first_x(ase.io.read(tmp_path / name, ":")) == [1.0]


def test_P93_append_goes_on_after_the_last_image(tmp_path, images, assert_same):
    path = tmp_path / "a.mrec"
    for atoms in images:
        ase.io.write(path, atoms, append=True)
    assert_same(images, ase.io.read(path, ":"))


def test_P10_the_first_image_costs_the_same_however_long_the_record(tmp_path, simple):
    """Opening reads documents and one chunk, not the run."""
    from time import process_time

    atoms = simple(0)
    best = {}
    for frames in (10, 20_000):
        path = tmp_path / f"{frames}.mrec"

        def moving(count=frames):
            for number in range(count):
                atoms.positions[0, 0] = number
                yield atoms

        ase.io.write(path, moving())
        ase.io.read(path, 0)
        times = []
        for _ in range(15):
            start = process_time()
            assert ase.io.read(path, 0).positions[0, 0] == 0.0
            times.append(process_time() - start)
        best[frames] = min(times)
    assert best[20_000] < 2 * best[10] + 0.002


@pytest.mark.parametrize("what", ["missing", "directory", "file", "zip"])
def test_P12_what_is_no_record_is_said(tmp_path, what):
    """The error names the path and what was found there."""
    path = tmp_path / ("a.mrec.zip" if what == "zip" else "a.mrec")
    if what == "directory":
        (path / "inside").mkdir(parents=True)
    elif what == "file":
        path.write_bytes(b"something else")
    elif what == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "hello")
    with pytest.raises((RecordNotFoundError, FormatError), match=r"a\.mrec") as caught:
        ase.io.read(path)
    said = {"missing": "a.mrec", "directory": "zarr.json", "file": "zip", "zip": "zarr.json"}
    assert said[what] in str(caught.value)


def test_what_is_no_record_is_never_overwritten(tmp_path, simple):
    path = tmp_path / "a.mrec"
    (path / "precious").mkdir(parents=True)
    with pytest.raises(RecordExistsError):
        ase.io.write(path, simple(0))
    assert (path / "precious").exists()


def test_a_failed_write_leaves_the_old_record(tmp_path, simple):
    """An image that cannot be stored keeps what was there, and no litter."""
    path = tmp_path / "a.mrec"
    ase.io.write(path, simple(1))
    bad = simple(2)
    bad.info["what"] = object()
    with pytest.raises(TypeError, match="what"):
        ase.io.write(path, [simple(0), bad])
    assert first_x(ase.io.read(path, ":")) == [1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["a.mrec"]


def test_a_live_writer_keeps_the_record(tmp_path, simple):
    path = tmp_path / "a.mrec"
    ase.io.write(path, simple(1))
    with TrajectoryWriter.reopen(path), pytest.raises(LockedError):
        ase.io.write(path, simple(2), append=True)


def test_the_gui_and_convert_read_records(record, tmp_path):
    """Both go through ase.io; the window itself needs a display."""
    from ase.gui.images import Images

    images = Images()
    images.read([f"{record}@:3"], default_index=slice(None))
    assert len(images) == 3
    subprocess.run(
        [sys.executable, "-m", "ase", "convert", "-n", "::5", record, tmp_path / "b.xyz"], check=True
    )
    assert len(ase.io.read(tmp_path / "b.xyz", ":")) == 4
    subprocess.run(
        [sys.executable, "-m", "ase", "convert", tmp_path / "b.xyz", tmp_path / "c.mrec"], check=True
    )
    assert first_x(ase.io.read(tmp_path / "c.mrec", ":")) == [0.0, 5.0, 10.0, 15.0]


def test_a_file_object_is_refused(simple):
    with pytest.raises(ValueError, match="file-descriptor"):
        ase.io.write(io.BytesIO(), simple(0), format="mrec")


def test_precision_and_compression_reach_the_record(tmp_path, run):
    """Positions are rounded to the declared precision, and to nothing coarser."""
    ase.io.write(tmp_path / "a.mrec", run, precision=1e-3)
    found = ase.io.read(tmp_path / "a.mrec", ":")
    error = max(np.abs(a.positions - b.positions).max() for a, b in zip(run, found, strict=True))
    assert 0 < error <= 0.5e-3
    assert (run[0].calc.results["forces"] == found[0].calc.results["forces"]).all()
    with pytest.raises(ValueError, match="precision"):
        ase.io.write(tmp_path / "a.mrec", run, precision=1e-2, append=True)


def test_no_warning_is_needed(tmp_path, images):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ase.io.write(tmp_path / "a.mrec", images)
        ase.io.read(tmp_path / "a.mrec", ":")
        assert isinstance(ase.io.read(tmp_path / "a.mrec"), Atoms)
