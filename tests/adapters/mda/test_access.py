"""Random access, slices, pickles, processes, threads, chains, live and killed runs: K9, P132-P146, P167."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import MDAnalysis as mda  # noqa: N813 - the usual name
import numpy as np
import pytest
from MDAnalysis.analysis.base import AnalysisBase
from MDAnalysis.analysis.rms import RMSD
from MDAnalysis.transformations import translate

from molrec_core import pack

N_FRAMES = 23


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """23 frames of 700 atoms: several frames a chunk, and chunks that windows cut."""
    path = tmp_path_factory.mktemp("access") / "run.mrec"
    rng = np.random.default_rng(3)
    u = mda.Universe.empty(700, trajectory=True)
    u.add_TopologyAttr("names", ["C"] * 700)
    u.add_TopologyAttr("masses", np.full(700, 12.0))
    u.load_new(rng.normal(size=(N_FRAMES, 700, 3)).astype(np.float32), dt=2.0)
    u.atoms.write(str(path), frames="all", flush_every=7)
    return path


@pytest.fixture(scope="module")
def truth(record):
    return np.stack([ts.positions.copy() for ts in mda.Universe(str(record)).trajectory])


@pytest.fixture
def u(record):
    return mda.Universe(str(record))


def test_p132_every_slice_is_that_of_a_list(u):
    """P132: for every start, stop and step the frames are those of the list."""
    edges = [None, *range(-N_FRAMES - 1, N_FRAMES + 2, 6), -1, 0, 1, N_FRAMES]
    for start in edges:
        for stop in edges:
            for step in (None, 1, 2, 5, -1, -3):
                cut = slice(start, stop, step)
                assert [ts.frame for ts in u.trajectory[cut]] == list(range(N_FRAMES))[cut], cut
    assert [ts.frame for ts in u.trajectory[3:19][::-2]] == list(range(3, 19))[::-2]
    assert [ts.frame for ts in u.trajectory[[4, 4, -1]]] == [4, 4, N_FRAMES - 1]


def test_any_order_of_frames_gives_the_same_values(u, truth):
    """Forward, backward, strided and random reads give the same bits as one loop."""
    orders = [range(N_FRAMES), reversed(range(N_FRAMES)), range(0, N_FRAMES, 4)]
    orders += [np.random.default_rng(0).permutation(N_FRAMES), [5, 6, 7, 3, 4, 5, 22, 0, 1]]
    for order in orders:
        for i in order:
            np.testing.assert_array_equal(u.trajectory[int(i)].positions, truth[i])
    for ts, expected in zip(u.trajectory, truth, strict=True):
        np.testing.assert_array_equal(ts.positions, expected)


@pytest.mark.parametrize("order", ["fac", "fca", "afc", "acf", "caf", "cfa"])
def test_timeseries_pushes_the_selection_down(order, u, truth):
    """``timeseries`` of a selection, in any order and slice, is the loop's; nothing else is kept."""
    rows = [5, 699, 0, 31]
    group = u.atoms[rows]
    got = u.trajectory.timeseries(atomgroup=group, start=2, stop=20, step=3, order=order)
    expected = np.moveaxis(truth[2:20:3][:, rows], ["fac".index(axis) for axis in order], [0, 1, 2])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(u.trajectory.timeseries(start=20, stop=2, step=-5), truth[20:2:-5])
    np.testing.assert_array_equal(u.trajectory.timeseries(step=-1), truth[::-1])
    with pytest.raises(ValueError, match="no permutation of 'fac'"):
        u.trajectory.timeseries(order="faf")


def test_timeseries_applies_transformations(u, truth):
    """With transformations, ``timeseries`` gives the transformed positions."""
    u.trajectory.add_transformations(translate([1, 2, 3]))
    np.testing.assert_array_equal(u.trajectory.timeseries(), truth + np.array([1, 2, 3], np.float32))


def test_timeseries_reads_in_one_pass(u, monkeypatch):
    """Many frames are one bulk read, not one per frame."""
    calls = []
    reader = type(u.trajectory._run.trajectory)
    read = reader.read
    monkeypatch.setattr(reader, "read", lambda self, *a, **k: calls.append(a) or read(self, *a, **k))
    u.trajectory.timeseries(atomgroup=u.atoms[:7])
    assert len(calls) == 1
    calls.clear()
    for _ in u.trajectory:
        pass
    assert len(calls) <= 3, "a loop over the frames reads ahead"


@pytest.mark.parametrize("packed", [False, True])
def test_p140_p145_readers_pickle_twice(packed, record, truth, tmp_path):
    """P140, P145: a reader pickled twice keeps frame, options, changes and transformations; a zip does too."""
    path = pack(record, tmp_path / "run.mrec.zip") if packed else record
    u = mda.Universe(str(path), convert_units=False, time_offset=5.0)
    u.trajectory.add_transformations(translate([1, 0, 0]))
    u.trajectory[9]
    u.atoms.positions += 10
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(u))))
    assert again.trajectory.frame == 9
    assert again.trajectory.time == 9 * 2.0 + 5.0
    assert again.trajectory.convert_units is False
    np.testing.assert_array_equal(again.atoms.positions, u.atoms.positions)
    np.testing.assert_array_equal(
        next(again.trajectory).positions, truth[10] + np.array([1, 0, 0], np.float32)
    )
    copy = u.copy()
    copy.trajectory[3]
    assert (copy.trajectory.frame, u.trajectory.frame) == (3, 9)


class Centre(AnalysisBase):
    """The centre of each frame."""

    _analysis_algorithm_is_parallelizable = True

    @classmethod
    def get_supported_backends(cls):
        return ("serial", "multiprocessing", "dask")

    def __init__(self, atoms):
        self.atoms = atoms
        super().__init__(atoms.universe.trajectory)

    def _prepare(self):
        self.results.centre = []

    def _single_frame(self):
        self.results.centre.append(self.atoms.positions.mean(axis=0))

    def _get_aggregator(self):
        from MDAnalysis.analysis.results import ResultsGroup

        return ResultsGroup(lookup={"centre": ResultsGroup.ndarray_vstack})


@pytest.mark.parametrize("backend", ["multiprocessing", "dask"])
def test_p141_parallel_analysis_equals_serial(backend, record):
    """P141: RMSD over workers equals the serial one, with a transformation added."""
    if backend == "dask":
        pytest.importorskip("dask")
    results = []
    for options in ({}, {"backend": backend, "n_workers": 2}):
        u = mda.Universe(str(record))
        u.trajectory.add_transformations(translate([0.5, 0, 0]))
        results.append(RMSD(u.atoms, u.atoms).run(**options).results.rmsd)
    np.testing.assert_array_equal(results[0], results[1])


def test_p138_a_slice_serves_an_analysis(u, truth):
    """P138: start, stop, step, frames and full slices all drive AnalysisBase."""
    for options, chosen in (
        ({}, slice(None)),
        ({"start": 3, "stop": 19, "step": 4}, slice(3, 19, 4)),
        ({"frames": [2, 9, 4]}, [2, 9, 4]),
        ({"start": 20, "stop": 2, "step": -3}, slice(20, 2, -3)),
    ):
        run = Centre(u.atoms).run(**options)
        np.testing.assert_allclose(np.array(run.results.centre), truth[chosen].mean(axis=1), atol=1e-5)
    assert [ts.frame for ts in u.trajectory[0:N_FRAMES:1]] == list(range(N_FRAMES))


def test_p142_a_lazy_array_of_the_run(u, truth):
    """P142: the record behind a universe gives a dask array, cut where chunks end."""
    pytest.importorskip("dask")
    lazy = u.trajectory.record.trajectory.dask("atoms", ["x", "y", "z"])
    assert lazy.shape == (N_FRAMES, 700, 3)
    np.testing.assert_allclose(lazy.mean(axis=0).compute(), truth.astype(float).mean(axis=0), atol=1e-12)


def _read_frame(u, frame, out):
    out.put((frame, float(u.trajectory[frame].positions.sum())))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_p144_readers_work_in_child_processes(method, u, truth):
    """P144: a reader that has read works in four children, forked or spawned, within 20 s."""
    u.trajectory.timeseries()
    context = multiprocessing.get_context(method)
    out = context.Queue()
    children = [context.Process(target=_read_frame, args=(u, frame, out)) for frame in (1, 7, 15, 22)]
    for child in children:
        child.start()
    found = dict(out.get(timeout=60) for _ in children)
    for child in children:
        child.join(20)
        assert child.exitcode == 0
    assert found == {frame: float(truth[frame].sum()) for frame in (1, 7, 15, 22)}


def test_p145_a_packed_record_serves_threads(record, truth, tmp_path):
    """P145: eight threads with a reader each read a packed record."""
    path = pack(record, tmp_path / "t.mrec.zip")

    def total(start):
        reader = mda.Universe(str(path)).trajectory
        return [float(reader[i].positions.sum()) for i in range(start, N_FRAMES, 8)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(total, range(8)))
    assert found == [[float(truth[i].sum()) for i in range(s, N_FRAMES, 8)] for s in range(8)]


def test_a_chain_of_many_records(record, truth):
    """ChainReader takes many records, mixed with other formats, and keeps values in order."""
    u = mda.Universe(str(record), [str(record)] * 5)
    assert len(u.trajectory) == 5 * N_FRAMES
    np.testing.assert_array_equal(
        [ts.positions[0].copy() for ts in u.trajectory], np.tile(truth[:, 0], (5, 1))
    )
    u.trajectory[N_FRAMES + 3]
    np.testing.assert_array_equal(u.atoms.positions, truth[3])
    copy = mda.Universe(str(record), [str(record)] * 2, continuous=False)
    copy.atoms.write(str(record.parent / "chain.mrec"), frames=copy.trajectory[::9])
    assert len(mda.Universe(str(record.parent / "chain.mrec")).trajectory) == len(range(0, 2 * N_FRAMES, 9))


def test_closing_is_not_the_end(u, truth):
    """A closed reader opens its record again when a frame is asked for."""
    u.trajectory.close()
    np.testing.assert_array_equal(u.trajectory[4].positions, truth[4])
    u.trajectory.close()
    np.testing.assert_array_equal(u.trajectory.timeseries(stop=2), truth[:2])


def test_an_unreadable_frame_is_no_end_of_the_run(record, tmp_path):
    """Damage raises with its place; a loop never ends early in silence."""
    import shutil

    path = tmp_path / "broken.mrec"
    shutil.copytree(record, path)
    shard = next((path / "trajectory" / "atoms" / "x").rglob("0"))
    data = bytearray(shard.read_bytes())
    data[-3000] ^= 1
    shard.write_bytes(data)
    with pytest.raises(Exception, match="trajectory/atoms/x, chunk"):
        for _ in mda.Universe(str(path)).trajectory:
            pass
    u = mda.Universe(str(path))
    shutil.rmtree(path / "trajectory" / "atoms")
    u.trajectory.close()
    with pytest.raises(Exception, match="atoms"):
        for _ in u.trajectory:
            pass


def test_a_failing_disk_is_no_end_of_the_run(u, monkeypatch):
    """An OSError inside a loop is raised; MDAnalysis would take it for the last frame."""

    def fail(*_args, **_options):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(u.trajectory._run.trajectory), "read", fail)
    with pytest.raises(RuntimeError, match=r"frame 0 cannot be read: .*Input/output error"):
        for _ in u.trajectory:
            pass


def test_p167_a_growing_record_is_followed(small, tmp_path):
    """P167: refresh() takes up the frames a live writer has flushed, and no partial one."""
    source = small()
    path = str(tmp_path / "live.mrec")
    with mda.Writer(path, 6) as w:
        for _ in source.trajectory[:2]:
            w.write(source)
        w.flush()
        u = mda.Universe(path)
        assert len(u.trajectory) == 2
        for _ in source.trajectory[2:]:
            w.write(source)
        assert u.trajectory.refresh() == 2
        w.flush()
        assert u.trajectory.refresh() == 4
        for ts in source.trajectory:
            np.testing.assert_array_equal(u.trajectory[ts.frame].positions, ts.positions)
            assert u.trajectory.time == ts.time


KILLED = """
import sys, time, warnings
import numpy as np, MDAnalysis as mda, molrec_mda
u = mda.Universe.empty(5, trajectory=True)
with mda.Writer(sys.argv[1], 5, **eval(sys.argv[2])) as w:
    for i in range(1000):
        u.trajectory.ts._pos[:] = i
        w.write(u)
        if i == 99:
            time.sleep(float(sys.argv[3]))
            print("ready", flush=True)
            time.sleep(60)
"""


@pytest.mark.parametrize(
    ("options", "wait", "readable"), [("{'flush_every': 10}", 0, 100), ("{'flush_seconds': 0.2}", 1.5, 100)]
)
def test_k9_a_killed_run_keeps_its_frames(options, wait, readable, tmp_path):
    """K9: after kill -9 the frames flushed by number or by time are there, and the run goes on."""
    path = tmp_path / "k.mrec"
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(path), options, str(wait)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    u = mda.Universe(str(path), to_guess=())
    assert len(u.trajectory) >= readable
    assert u.trajectory[readable - 1].positions[0, 0] == readable - 1
    source = mda.Universe.empty(5, trajectory=True)
    with mda.Writer(str(path), 5, append=True) as w:
        w.write(source)
    assert len(mda.Universe(str(path), to_guess=()).trajectory) == len(u.trajectory) + 1


def test_the_default_flush_is_by_time(small, tmp_path):
    """A writer left alone has its frames on disk within its five seconds, without a further frame."""
    u = small()
    w = mda.Writer(str(tmp_path / "t.mrec"), 6, flush_seconds=0.2)
    w.write(u)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if len(mda.Universe(str(tmp_path / "t.mrec")).trajectory) == 1:
                break
        except ValueError:
            time.sleep(0.1)
    assert len(mda.Universe(str(tmp_path / "t.mrec")).trajectory) == 1
    w.close()


def test_auxiliary_data_rides_along(u):
    """Auxiliary data are matched to the record's own times."""
    from MDAnalysisTests.datafiles import AUX_XVG

    u.trajectory.add_auxiliary("aux", AUX_XVG)
    assert np.isfinite(u.trajectory.ts.aux.aux[0])
    assert u.trajectory[1].aux.aux[0] == 2.0


def test_in_parallel_writers_two_on_one_path_are_refused(small, tmp_path):
    """A second live writer on one record is refused."""
    from molrec_core import LockedError

    u = small()
    path = str(tmp_path / "l.mrec")
    with mda.Writer(path, 6) as w:
        w.write(u)
        with pytest.raises(LockedError):
            mda.Writer(path, 6, append=True)
    with mda.Writer(path, 6, append=True) as w:
        w.write(u)
    assert len(mda.Universe(path).trajectory) == 2
