"""Opening records: paths, registration, what is refused (K22, K23, P3-P8, P139, P149)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import MDAnalysis as mda  # noqa: N813 - the usual name
import numpy as np
import pytest

import molrec_mda
from molrec_core import Block, Frame, RecordExistsError, TrajectoryWriter, open_record, pack


@pytest.fixture
def record(small, tmp_path):
    u = small()
    u.atoms.write(str(tmp_path / "run.mrec"), frames="all")
    return tmp_path / "run.mrec"


@pytest.mark.parametrize("case", ["K22", "P3"])
def test_every_spelling_of_a_path_opens(case, record, tmp_path, monkeypatch):
    """K22, P3: a directory with or without a slash, a zip, a Path, a relative path, spaces and accents."""
    monkeypatch.chdir(tmp_path)
    pack(record)
    odd = tmp_path / "a dîr" / "run 1.mrec"
    odd.parent.mkdir()
    record_copy = mda.Universe(str(record))
    record_copy.atoms.write(str(odd), frames="all")
    spellings = [
        str(record),
        f"{record}/",
        record,
        f"{record}.zip",
        Path(f"{record}.zip"),
        "run.mrec",
        "run.mrec/",
        odd,
    ]
    for spelling in spellings:
        u = mda.Universe(spelling)
        assert isinstance(u.trajectory, molrec_mda.MrecReader), spelling
        assert (len(u.atoms), len(u.trajectory)) == (6, 4)
        np.testing.assert_array_equal(u.atoms.positions, record_copy.atoms.positions)
    chain = mda.Universe(record, [record, Path(f"{record}.zip")])
    assert len(chain.trajectory) == 8


def test_k22_a_writer_is_found_for_each_suffix(small, tmp_path):
    """K22: ``mda.Writer`` takes *.mrec and *.mrec.zip; any other zip says how a packed record is named."""
    u = small()
    for name in ("a.mrec", "a2.mrec.zip"):
        with mda.Writer(str(tmp_path / name), 6) as w:
            w.write(u)
        assert len(mda.Universe(str(tmp_path / name)).atoms) == 6
    assert not (tmp_path / "a2.mrec").exists()
    with pytest.raises(ValueError, match=r"named \*\.mrec\.zip"):
        mda.Writer(str(tmp_path / "a.zip"), 6)
    with mda.Writer(f"{tmp_path}/b.mrec/", 6, format="MREC") as w:
        w.write(u)
    assert len(open_record(tmp_path / "b.mrec").trajectory) == 1


@pytest.mark.parametrize("order", ["import MDAnalysis, molrec_mda", "import molrec_mda, MDAnalysis"])
def test_k23_importing_registers_once_in_either_order(order, record):
    """K23, P7: one reader, parser and writer after the import, in either order and when it is repeated."""
    code = (
        f"{order}\nimport importlib, molrec_mda as m, MDAnalysis as mda\nimportlib.reload(m)\n"
        "assert mda._READERS['MREC'] is m.MrecReader and mda._PARSERS['MREC'] is m.MrecParser\n"
        "assert mda._MULTIFRAME_WRITERS['MREC'] is mda._SINGLEFRAME_WRITERS['MREC'] is m.MrecWriter\n"
        "assert list(mda._READER_HINTS).count('MREC') == 1\n"
        f"print(mda.Universe({str(record)!r}).atoms.n_atoms)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "6\n", done.stderr


def test_p7_the_documentation_names_the_import():
    """P7: the first line of code on the page is the import that registers the format."""
    page = Path(__file__).parents[3] / "docs" / "mdanalysis.md"
    first = page.read_text(encoding="utf-8").partition("```python\n")[2].splitlines()
    assert "import molrec_mda" in first[:3]


def test_p4_a_format_can_be_named(record, tmp_path):
    """P4: ``format="MREC"`` ignores the suffix."""
    other = record.rename(tmp_path / "anything")
    u = mda.Universe(str(other), format="MREC", topology_format="MREC")
    assert len(u.trajectory) == 4
    u.atoms.write(str(tmp_path / "copy.data"), file_format="MREC", frames="all")
    assert len(open_record(tmp_path / "copy.data").trajectory) == 4


def test_p5_what_is_written_is_read(small, tmp_path):
    """P5: every suffix the writer takes, the reader and the parser take."""
    for format_ in ("mrec", "mrec.zip"):
        small().atoms.write(str(tmp_path / f"{len(format_)}.{format_}"))
        assert len(mda.Universe(str(tmp_path / f"{len(format_)}.{format_}")).atoms) == 6


def test_p8_objects_are_refused_by_name(record):
    """P8: an open record is never iterated as a list of files."""
    with pytest.raises((TypeError, ValueError), match=r"(?s)Record|autodetect|extension|format"):
        mda.Universe(open_record(record))
    zarr = pytest.importorskip("zarr")
    u = mda.Universe(str(record), zarr.storage.LocalStore(record), format=molrec_mda.MrecReader)
    assert len(u.trajectory) == 4


def test_p12_a_wrong_directory_says_what_was_found(tmp_path):
    """A directory or file that is no record says so, and names what a record is."""
    (tmp_path / "no.mrec").mkdir()
    with pytest.raises(OSError, match=r"a directory without a zarr\.json"):
        mda.Universe(str(tmp_path / "no.mrec"))
    with pytest.raises(OSError, match="there is nothing"):
        mda.Universe(str(tmp_path / "absent.mrec"))


def test_existing_records_are_not_replaced_by_accident(record, small):
    """Writing where a record is needs overwrite=True or append=True, and says so before anything is written."""
    with pytest.raises(RecordExistsError, match=r"overwrite=True.*append=True"):
        mda.Writer(str(record), 6)
    assert len(mda.Universe(str(record)).trajectory) == 4
    small(2).atoms.write(str(record), frames="all", overwrite=True)
    assert len(mda.Universe(str(record)).trajectory) == 2


def test_p98_an_overwrite_that_fails_leaves_the_old_record(record, small):
    """An error before the first frame of an overwrite leaves the old record as it was."""
    with pytest.raises(ZeroDivisionError), mda.Writer(str(record), 6, overwrite=True):
        raise ZeroDivisionError
    assert len(mda.Universe(str(record)).trajectory) == 4
    with pytest.raises(ZeroDivisionError), mda.Writer(str(record), 6, overwrite=True) as w:  # noqa: PT012 - a writer
        w.write(small())
        raise ZeroDivisionError
    assert len(mda.Universe(str(record)).trajectory) == 4
    wrong = small(n_atoms=7)
    with pytest.raises(ValueError, match="7 atoms"), mda.Writer(str(record), 6, overwrite=True) as w:
        w.write(wrong)
    assert len(mda.Universe(str(record)).trajectory) == 4


nameless = pytest.mark.filterwarnings("ignore:the record does not s:UserWarning")


def write_frames(path, frames, **options):
    with TrajectoryWriter(path, **options) as writer:
        for frame in frames:
            writer.append(frame)


def atoms(n, **columns):
    return Block({name: np.arange(n, dtype=float) for name in "xyz"} | columns)


@nameless
def test_p86_a_ragged_record_is_refused_with_the_way_out(tmp_path):
    """P86: the first frame that differs is named, and so are n_atoms= and ASE."""
    path = tmp_path / "ragged.mrec"
    write_frames(path, [Frame({"atoms": atoms(n)}) for n in (3, 3, 5, 3)])
    with pytest.raises(ValueError, match=r"(?s)frame 2 has 5 atoms, the first has 3.*n_atoms=.*ASE"):
        mda.Universe(path)
    with pytest.warns(UserWarning, match="the other 1 are left out"):
        u = mda.Universe(path, n_atoms=3, to_guess=())
    assert [ts.frame for ts in u.trajectory] == [0, 1, 2]
    assert u.trajectory.timeseries().shape == (3, 3, 3)
    assert u.trajectory[2].data["step"] == 3
    with pytest.raises(ValueError, match="no frame has 4 atoms; there are frames of 3, 5"):
        mda.Universe(path, n_atoms=4)


@nameless
def test_p23_a_changing_topology_is_refused_unless_allowed(tmp_path):
    """P23: types or bonds that change at a constant count are refused at open, naming the frame."""
    types = [["C", "O"], ["C", "O"], ["O", "C"]]
    aligned = tmp_path / "aligned.mrec"
    from molrec_core import SequenceSchema

    schema = SequenceSchema.from_frames([Frame({"atoms": atoms(2), "identity": Block({"type": ["C", "O"]})})])
    schema.declare_aligned("identity", "atoms")
    moving = [atoms(2, y=np.array([0.0, i])) for i in range(3)]
    frames = [Frame({"atoms": m, "identity": Block({"type": t})}) for m, t in zip(moving, types, strict=True)]
    write_frames(aligned, frames, schema=schema)
    column = tmp_path / "column.mrec"
    write_frames(
        column, [Frame({"atoms": Block({**m, "type": t})}) for m, t in zip(moving, types, strict=True)]
    )
    bonds = tmp_path / "bonds.mrec"
    pairs = [Block({"atomi": np.array([0], np.uint64), "atomj": np.array([j], np.uint64)}) for j in (1, 1, 0)]
    write_frames(bonds, [Frame({"atoms": m, "bonds": b}) for m, b in zip(moving, pairs, strict=True)])
    for path in (aligned, column, bonds):
        with pytest.raises(ValueError, match=r"changes at frame 2.*allow_changing_topology=True"):
            mda.Universe(path)
        u = mda.Universe(path, allow_changing_topology=True)
        assert len(u.trajectory) == 3
    assert list(mda.Universe(column, allow_changing_topology=True).atoms.types) == ["C", "O"]


def test_p89_a_record_without_frames_says_so(tmp_path, small):
    """P89: no frames is an error that says so and how to get the topology alone."""
    small().atoms.write(str(tmp_path / "a.mrec"))
    system = open_record(tmp_path / "a.mrec").system
    with TrajectoryWriter(tmp_path / "none.mrec", system=system):
        pass
    with pytest.raises(ValueError, match=r"(?s)no frames.*MrecParser"):
        mda.Universe(str(tmp_path / "none.mrec"))
    top = molrec_mda.MrecParser(str(tmp_path / "none.mrec")).parse()
    assert list(mda.Universe(top).atoms.names) == [f"A{i}" for i in range(6)]


@nameless
def test_p139_opening_does_not_scan(tmp_path):
    """P139: a record of a million frames opens as fast as a short one."""
    for name, n in (("short.mrec", 10), ("long.mrec", 1_000_000)):
        frame = Frame({"atoms": atoms(1)})
        with TrajectoryWriter(tmp_path / name, meta={"units": {"preset": "real"}}) as writer:
            writer.append(frame, step=0)
        marker = tmp_path / name / "trajectory" / "zarr.json"
        # An atom that never moves carries forward, so the marker alone says how long the run is.
        document = json.loads(marker.read_text(encoding="utf-8"))
        document["attributes"] |= {"nstep": n, "step_progression": {"start": 0, "stride": 1}}
        marker.write_text(json.dumps(document), encoding="utf-8")
    took = {}
    for name in ("short.mrec", "long.mrec", "long.mrec"):
        start = time.perf_counter()
        u = mda.Universe(str(tmp_path / name), to_guess=())
        took[name] = time.perf_counter() - start
    assert len(u.trajectory) == 1_000_000
    assert took["long.mrec"] < 1.0, took
    assert u.trajectory[999_999].data["step"] == 999_999


def test_p6_p149_a_url_reads_without_a_download(record):
    """P6, P149: a URL reaches the reader, for a directory and for a zip, storage_options included."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(record), "/bucket/run.mrec", recursive=True)
    packed = pack(record)
    memory.put(str(packed), "/bucket/run.mrec.zip")
    try:
        for url in ("memory://bucket/run.mrec", "memory://bucket/run.mrec/", "memory://bucket/run.mrec.zip"):
            u = mda.Universe(url, storage_options={"skip_instance_cache": False})
            assert [len(u.trajectory), len(u.atoms)] == [4, 6]
            np.testing.assert_array_equal(
                u.trajectory.timeseries(), mda.Universe(str(record)).trajectory.timeseries()
            )
        with pytest.raises(OSError, match="there is no"):
            mda.Universe("memory://bucket/absent.mrec")
    finally:
        memory.rm("/bucket", recursive=True)


def test_p146_reading_leaves_nothing_behind(record):
    """P146: reading creates no file, so a read-only directory is enough."""
    before = sorted(os.walk(record.parent))
    u = mda.Universe(str(record))
    for _ in u.trajectory:
        pass
    u.trajectory.timeseries()
    assert sorted(os.walk(record.parent)) == before
