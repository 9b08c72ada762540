"""Opening: every kind of path and store, what is said of those that are none, and what opening costs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import http.server
import multiprocessing
import os
import pickle
import shutil
import threading
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from conformance.interrupted import tree
from conformance.records import arrays, refused, write
from conformance.whole import resolved, schema, system, write_whole
from molrec_core import (
    Block,
    Box,
    FormatError,
    Frame,
    RecordError,
    RecordNotFoundError,
    TrajectoryWriter,
    mrec_sections,
    open_record,
    pack,
    read_mrec_meta,
    read_mrec_system,
    read_mrec_trajectory,
    validate,
    write_mrec,
)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A record with every section that no test writes to."""
    return write_whole(tmp_path_factory.mktemp("open"))


@pytest.fixture(scope="module")
def packed(record):
    return pack(record)


def zipped(record, path, *, head="", method=zipfile.ZIP_STORED):
    """An archive as another tool makes it: with entries of directories, times of now, one directory on top."""
    with zipfile.ZipFile(path, "w", method) as archive:
        if head:
            archive.writestr(f"{head}/", b"")
        for found in sorted(record.rglob("*")):
            name = f"{head}/{found.relative_to(record)}" if head else str(found.relative_to(record))
            if found.is_dir():
                archive.writestr(f"{name}/", b"")
            else:
                archive.write(found, name)
    return path


def memory_store(record):
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    wrap = default_buffer_prototype().buffer.from_bytes
    return MemoryStore({name: wrap(data) for name, data in tree(record).items() if data is not None})


def on_memory_url(record, name):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    if files.exists(f"/molrec-open/{name}"):
        files.rm(f"/molrec-open/{name}", recursive=True)
    if record.is_dir():
        files.put(str(record), f"/molrec-open/{name}", recursive=True)
    else:
        files.pipe(f"/molrec-open/{name}", record.read_bytes())
    return f"memory://molrec-open/{name}"


def zip_store(packed):
    from zarr.storage import ZipStore

    store = ZipStore(packed, mode="r")
    store._sync_open()
    return store


def local_store(record):
    from zarr.storage import LocalStore

    return LocalStore(record, read_only=True)


def zarr_group(record):
    import zarr

    return zarr.open_group(local_store(record), mode="r")


class PathLike:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return str(self.path)


KINDS = {
    "str": lambda record, _: str(record),
    "Path": lambda record, _: record,
    "os.PathLike": lambda record, _: PathLike(record),
    "trailing slash": lambda record, _: f"{record}/",
    "file URL": lambda record, _: record.as_uri(),
    "packed": lambda _, packed: packed,
    "packed, str": lambda _, packed: str(packed),
    "packed, file URL": lambda _, packed: packed.as_uri(),
    "memory URL": lambda record, _: on_memory_url(record, "run.mrec"),
    "memory URL, packed": lambda _, packed: on_memory_url(packed, "run.mrec.zip"),
    "memory URL, trailing slash": lambda record, _: on_memory_url(record, "run.mrec") + "/",
    "LocalStore": lambda record, _: local_store(record),
    "MemoryStore": lambda record, _: memory_store(record),
    "ZipStore": lambda _, packed: zip_store(packed),
    "zarr group": lambda record, _: zarr_group(record),
}


def assert_is_whole(found):
    assert found.system == system()
    assert list(found.trajectory) == resolved()
    assert found.trajectory[-1] == resolved()[-1]
    assert found.sections[:3] == ("meta", "status", "method")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_path_opens(record, packed, kind):
    given = KINDS[kind](record, packed)
    with open_record(given) as found:
        assert_is_whole(found)
        assert found.observables["energy"].values == -76.4
        assert len(found.forcefield.tables) == 3
    assert validate(given, deep=True) == []
    assert read_mrec_system(given) == system()
    assert read_mrec_meta(given)["title"] == "whole"
    reader = read_mrec_trajectory(given)
    assert len(reader) == 5
    reader.close()
    assert mrec_sections(given)[-1] == "metrics"


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_and_its_reader_pickle(record, packed, kind):
    given = KINDS[kind](record, packed)
    with open_record(given) as found:
        with pickle.loads(pickle.dumps(found)) as again:
            assert_is_whole(again)
        with contextlib.closing(pickle.loads(pickle.dumps(found.trajectory))) as reader:
            assert list(reader) == resolved()
        view = pickle.loads(pickle.dumps(found.trajectory[::-2]))
        assert list(view) == resolved()[::-2]
        view.source()[0].close()


def _x_of(reader, i):
    return reader[i]["atoms"]["x"].tolist()


@pytest.mark.parametrize("kind", ["str", "packed", "memory URL", "LocalStore"])
def test_a_reader_works_in_other_processes(record, packed, kind):
    context = multiprocessing.get_context("fork" if kind == "memory URL" else "spawn")
    with open_record(KINDS[kind](record, packed)) as found:
        with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
            rows = list(pool.map(partial(_x_of, found.trajectory), range(5)))
        assert rows == [frame["atoms"]["x"].tolist() for frame in resolved()]


# -- archives of other tools


@pytest.mark.parametrize("head", ["", "whole.mrec", "deep"])
def test_an_archive_of_another_tool_opens(tmp_path, record, head):
    archive = zipped(record, tmp_path / "other.zip", head=head)
    with open_record(archive) as found:
        assert_is_whole(found)
    assert validate(archive, deep=True) == []


def test_a_deflated_archive_says_what_to_do(tmp_path, record):
    archive = zipped(record, tmp_path / "other.zip", head="whole.mrec", method=zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="unzip the archive and pack it again") as caught:
        open_record(archive)
    assert caught.value.kind == "zip_compressed"


# -- what is no record


def test_what_is_missing_or_something_else(tmp_path, record):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "data.npy").write_bytes(b"x")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("a.jpg", b"x")
    for name, said in [
        ("nothing", "there is nothing"),
        ("empty", "a directory without a zarr.json"),
        ("folder", "a directory without a zarr.json"),
        ("photos.zip", "a zip archive without a zarr.json"),
    ]:
        for given in (tmp_path / name, str(tmp_path / name)):
            with refused(RecordNotFoundError, "not_found", str(tmp_path / name)) as caught:
                open_record(given)
            assert said in str(caught.value)
            assert isinstance(caught.value, FileNotFoundError)
    with refused(FormatError, "bad_zip", str(tmp_path / "text.txt")):
        open_record(tmp_path / "text.txt")
    inside = record / "trajectory"
    with refused(FormatError, "no_section", str(inside)):
        open_record(inside)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "folder", "photos.zip", "text.txt"]


def test_a_foreign_zarr_store_is_no_record(tmp_path):
    import zarr

    zarr.create_group(str(tmp_path / "other.zarr")).create_array("a", data=np.zeros(3))
    with refused(FormatError, "no_section", str(tmp_path / "other.zarr")) as caught:
        open_record(tmp_path / "other.zarr")
    assert "trajectory" in str(caught.value)


def test_a_missing_url_is_not_found():
    pytest.importorskip("fsspec")
    for url in ("memory://molrec-open/none.mrec", "memory://molrec-open/none.mrec.zip"):
        with pytest.raises(FileNotFoundError):
            open_record(url)


def test_only_reading_is_offered(record):
    with pytest.raises(ValueError, match=r"TrajectoryWriter\.reopen"):
        open_record(record, "a")


# -- nothing is written


def test_reading_writes_nothing(tmp_path, record):
    copy = tmp_path / "whole.mrec"
    shutil.copytree(record, copy)
    archive = pack(copy, tmp_path / "packed.mrec.zip")
    before = tree(tmp_path)
    for path in (*sorted(copy.rglob("*")), copy, tmp_path):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for given in (copy, archive):
            with open_record(given) as found:
                assert_is_whole(found)
                found.trajectory.read("atoms", ["x", "y"])
                found.trajectory.refresh()
            assert validate(given, deep=True) == []
        assert tree(tmp_path) == before
        if os.geteuid() != 0:
            with pytest.raises(RecordError):
                TrajectoryWriter.reopen(copy)
    finally:
        for path in (tmp_path, copy, *copy.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
    assert tree(tmp_path) == before


# -- what opening costs


def counting_store(record, *, lists=True):
    """A store of zarr-python that counts requests, and refuses to list when it is told to."""
    from zarr.storage import MemoryStore

    class Counting(MemoryStore):
        def __init__(self, files):
            super().__init__(files)
            self.asked = Counter()

        async def get(self, key, prototype, byte_range=None):
            self.asked["get"] += 1
            return await super().get(key, prototype, byte_range)

        async def getsize(self, key):
            self.asked["size"] += 1
            return await super().getsize(key)

        async def list_dir(self, prefix):
            self.asked["list"] += 1
            if not lists:
                raise NotImplementedError
            async for name in super().list_dir(prefix):
                yield name

    return Counting(memory_store(record)._store_dict)


def run_of(tmp_path, n, name):
    """A run of `n` frames with everything that could grow along with them."""
    rng = np.random.default_rng(n)
    found = []
    for i in range(n):
        blocks = {"atoms": Block({k: rng.random(4) for k in "xyz"}, validity={"z": np.arange(4) != i % 5})}
        if i % 3 == 0:
            blocks["bonds"] = Block({"order": rng.random(i % 4)})
        found.append(Frame(blocks, box=Box(np.eye(3) * (9 + i % 2)), meta={"pe": float(i)}))
    steps = [i * i for i in range(n)]
    return write(tmp_path, found, name=name, steps=steps, times=[s / 3 for s in steps])


def cost_of(store, use):
    store.asked.clear()
    use(open_record(store).trajectory)
    return dict(store.asked)


def test_opening_asks_for_each_array_once_whatever_the_number_of_frames(tmp_path):
    short, long = run_of(tmp_path, 4, "short.mrec"), run_of(tmp_path, 400, "long.mrec")
    assert arrays(short) == arrays(long)
    n_arrays = len(arrays(long))
    costs = [cost_of(counting_store(record), len) for record in (short, long)]
    assert costs[0] == costs[1]
    # One request for each array, one for each group of the trajectory, the root, and the other sections' names.
    assert 0 < costs[1]["get"] <= n_arrays + 20
    assert costs[1].get("size", 0) == 0


def test_the_last_frame_costs_the_same_whatever_the_number_of_frames(tmp_path):
    records = [run_of(tmp_path, n, f"{n}.mrec") for n in (4, 400)]
    costs = [cost_of(counting_store(record), lambda reader: reader[-1]) for record in records]
    assert costs[0] == costs[1]


def test_a_pinned_trajectory_needs_no_listing(tmp_path, record):
    """Masks, cells, series and declared values are found by name; nothing is taken for absent."""
    unlisted = counting_store(record, lists=False)
    with open_record(unlisted) as found:
        assert list(found.trajectory) == resolved()
        assert found.trajectory.schema == schema()
        assert found.meta["title"] == "whole"
        assert found.sections == ("meta", "status", "method", "system", "frame", "trajectory", "forcefield",
                                  "observables", "metrics")  # fmt: skip
        for section in ("system", "frame", "forcefield", "observables"):
            place = "observables/meta" if section == "observables" else section
            with refused(RecordError, "no_listing", place) as caught:
                getattr(found, section)
            assert "molrec pack" in str(caught.value)
    run = run_of(tmp_path, 30, "run.mrec")
    with open_record(run) as local, open_record(counting_store(run, lists=False)) as found:
        assert list(found.trajectory) == list(local.trajectory)
        assert any(frame["atoms"].validity for frame in found.trajectory)
        assert found.trajectory.steps.tolist() == local.trajectory.steps.tolist()


class _NoRanges(http.server.SimpleHTTPRequestHandler):
    """Files below a directory, whole; nothing is listed."""

    def log_message(self, *arguments):
        pass

    def list_directory(self, path):
        self.send_error(404)


class _Ranges(_NoRanges):
    """The same, with byte ranges as web servers have them."""

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        wanted = self.headers.get("Range")
        if not wanted or not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        first, last = wanted.removeprefix("bytes=").split("-")
        stop = min(int(last) + 1, len(data))
        self.send_response(206)
        self.send_header("Content-Length", str(stop - int(first)))
        self.send_header("Content-Range", f"bytes {first}-{stop - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(data[int(first) : stop])


@contextlib.contextmanager
def served(directory, handler):
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(handler, directory=str(directory))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_plain_web_server_will_do(record, packed):
    """It answers for files and lists nothing: the trajectory opens, an empty system is not made up."""
    with served(record.parent, _Ranges) as url:
        with open_record(f"{url}/{record.name}") as found:
            assert list(found.trajectory) == resolved()
            with refused(RecordError, "no_listing", "system"):
                _ = found.system
        with open_record(f"{url}/{packed.name}") as found:
            assert_is_whole(found)


def test_a_web_server_without_ranges_is_named(record):
    with (
        served(record.parent, _NoRanges) as url,
        open_record(f"{url}/{record.name}") as found,
        pytest.raises(RecordError, match="download the record") as caught,
    ):
        list(found.trajectory)
    assert caught.value.kind == "no_ranges"


def test_stores_are_no_files_of_this_process(record):
    """An event loop of the caller's does not keep a store of zarr-python from being read."""

    async def look():
        return list(open_record(memory_store(record)).trajectory)

    assert asyncio.run(look()) == resolved()


def test_writing_beside_a_wrong_path(tmp_path):
    with pytest.raises(RecordNotFoundError, match="does not exist"):
        write_mrec(tmp_path / "none" / "run.mrec", frame=Frame({"atoms": Block({"x": [0.0]})}))
    assert list(Path(tmp_path).iterdir()) == []
