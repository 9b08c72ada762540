"""Universes on S3, over the wire: a moto server, real requests, real refusals (P149)."""

from __future__ import annotations

import pickle
import sys

import MDAnalysis as mda  # noqa: N813 - the usual name
import numpy as np
import pytest
from MDAnalysis.analysis.rms import RMSD

from molrec_core import RecordError, open_record, pack

N_ATOMS, N_FRAMES = 3000, 100
SHORT = 7
FORMS = ["r.mrec", "r.mrec/", "r.mrec.zip"]
forms = pytest.mark.parametrize("name", FORMS)
both = pytest.mark.parametrize("name", FORMS[::2])


def build(n_atoms, n_frames):
    """Named atoms of three residues in a cell, with velocities."""
    rng = np.random.default_rng(11)
    residues = np.sort(rng.integers(0, 3, n_atoms))
    u = mda.Universe.empty(n_atoms, n_residues=3, atom_resindex=residues, trajectory=True)
    u.add_TopologyAttr("names", [f"A{i}" for i in range(n_atoms)])
    u.add_TopologyAttr("masses", np.linspace(1, 16, n_atoms))
    xyz, v = rng.normal(size=(2, n_frames, n_atoms, 3)).astype(np.float32)
    u.load_new(xyz, dt=0.5, dimensions=[30, 31, 32, 80, 85, 95], velocities=v)
    return u


def label(u):
    """Add what else a topology says, bonds included."""
    u.add_TopologyAttr("resnames", ["ALA", "GLY", "SOL"])
    u.add_TopologyAttr("resids", [5, 6, 9])
    u.add_TopologyAttr("bonds", [(i, i + 1) for i in range(0, len(u.atoms) - 1, 2)])
    return u


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A long and a short record on this machine, as directories and packed."""
    place = tmp_path_factory.mktemp("s3")
    for name, u in (("long", label(build(N_ATOMS, N_FRAMES))), ("short", build(30, SHORT))):
        (place / name).mkdir()
        u.atoms.write(str(place / name / "r.mrec"), frames="all", velocities=name == "long", forces=False)
        pack(place / name / "r.mrec")
    return place


@pytest.fixture(scope="module")
def uploaded(s3_server, places):
    """Both in a bucket of ours, the short one in a public bucket too; gives the bytes of the long one."""
    for file in ("r.mrec", "r.mrec.zip"):
        for name in ("long", "short"):
            s3_server.upload("lab", places / name / file, f"{name}/{file}")
        s3_server.upload("shared", places / "short" / file, f"short/{file}", acl="public-read")
    return (places / "long" / "r.mrec.zip").stat().st_size


@pytest.fixture
def long(places):
    return mda.Universe(str(places / "long" / "r.mrec"))


@pytest.fixture
def short(places):
    return mda.Universe(str(places / "short" / "r.mrec"))


def assert_same(u, v):
    """Every frame is that of another universe, in every bit, and so are the names of the atoms."""
    np.testing.assert_array_equal(u.atoms.names, v.atoms.names)
    assert len(u.trajectory) == len(v.trajectory) >= SHORT
    for a, b in zip(u.trajectory, v.trajectory, strict=True):
        assert (a.frame, a.time, a.data["step"]) == (b.frame, b.time, b.data["step"])
        assert a.has_velocities == b.has_velocities
        np.testing.assert_array_equal(a.positions, b.positions)
        np.testing.assert_array_equal(a.dimensions, b.dimensions)
        if a.has_velocities:
            np.testing.assert_array_equal(a.velocities, b.velocities)


# -- what is read


@both
def test_p149_a_universe_on_s3_is_the_local_one(s3, uploaded, long, name):
    """P149: directory and zip give the local topology, every frame, slices and timeseries."""
    u = mda.Universe(f"s3://lab/long/{name}", storage_options=s3.options)
    for attribute in ("names", "masses", "resnames", "resids"):
        np.testing.assert_array_equal(getattr(u.atoms, attribute), getattr(long.atoms, attribute))
    np.testing.assert_array_equal(u.bonds.to_indices(), long.bonds.to_indices())
    assert len(u.bonds) == N_ATOMS // 2
    assert_same(u, long)
    assert [ts.frame for ts in u.trajectory[-1:10:-40]] == [99, 59, 19]
    np.testing.assert_array_equal(u.trajectory.timeseries(), long.trajectory.timeseries())
    slices = {"start": 7, "stop": 90, "step": 31}
    chosen = u.trajectory.timeseries(atomgroup=u.select_atoms("resname GLY"), **slices)
    want = long.trajectory.timeseries(atomgroup=long.select_atoms("resname GLY"), **slices)
    assert chosen.shape[0] == 3
    np.testing.assert_array_equal(chosen, want)


@pytest.mark.parametrize("name", FORMS[1:])
def test_p149_credentials_and_endpoint_come_from_the_environment(signed_in, uploaded, short, name):
    """P149: with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL the URL is enough, slash or not."""
    assert_same(mda.Universe(f"s3://lab/short/{name}"), short)


@both
def test_p149_what_is_public_opens_without_an_account(s3, uploaded, short, name):
    """P149: anon=True signs nothing and reads what is public."""
    with s3.counted() as asked:
        u = mda.Universe(f"s3://shared/short/{name}", storage_options={"endpoint_url": s3.url, "anon": True})
        assert_same(u, short)
    assert len(asked) > 10
    assert not any(request.signed for request in asked)


def test_p149_topology_and_trajectories_come_from_several_places(s3, uploaded, short):
    """P149: a local topology under a chain of remote trajectories."""
    chain = ["s3://lab/short/r.mrec", "s3://lab/short/r.mrec.zip"]
    u = mda.Universe(short.trajectory.filename, chain, storage_options=s3.options)
    assert len(u.trajectory) == 2 * SHORT
    np.testing.assert_array_equal(u.trajectory[SHORT + 2].positions, short.trajectory[2].positions)


# -- what it costs


@both
def test_p149_one_frame_is_read_without_the_rest(s3, uploaded, long, name):
    """P149: opening, a frame and a timeseries ask for few ranges, and for far less than the record."""
    with s3.counted() as opening:
        u = mda.Universe(f"s3://lab/long/{name}", storage_options=s3.options)
    print(f"{name}: {uploaded} bytes; opening: {len(opening)} requests, {opening.n_bytes} bytes")
    assert len(opening) < 250
    assert opening.n_bytes < uploaded / 4
    frame = N_ATOMS * 3 * 2 * 8  # positions and velocities, float64 as stored
    for index in (50, 80, 3):
        with s3.counted() as asked:
            positions = u.trajectory[index].positions.copy()
        print(f"frame {index}: {len(asked)} requests, {asked.n_bytes} bytes")
        np.testing.assert_array_equal(positions, long.trajectory[index].positions)
        assert {(request.method, request.status) for request in asked} == {("GET", 206)}
        assert len(asked) == 6
        assert frame <= asked.n_bytes < 1.2 * frame
        assert asked.n_bytes < uploaded / 20
    with s3.counted() as asked:
        series = u.trajectory.timeseries()
    print(f"timeseries of {series.nbytes} bytes: {len(asked)} requests, {asked.n_bytes} bytes")
    np.testing.assert_array_equal(series, long.trajectory.timeseries())
    assert len(asked) < N_FRAMES / 2
    assert asked.n_bytes < uploaded * 0.7


# -- what goes wrong


def refusal(url, options=None, **keywords):
    """Return what the error says; it names the URL."""
    with pytest.raises((RecordError, OSError)) as caught:
        mda.Universe(url, storage_options=options, **keywords)
    text = str(caught.value)
    assert url.rstrip("/") in text
    return text


@both
def test_p149_no_credentials_is_one_clear_error(s3, uploaded, name, monkeypatch):
    """P149: without an account the error says so, names the ways out, and the next try finds what was set."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    with s3.counted() as asked:
        text = refusal(f"s3://lab/short/{name}")
    assert not asked
    for words in ("no credentials", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "{'anon': True}"):
        assert words in text
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.options["secret"])
    with open_record(f"s3://lab/short/{name}") as record:
        assert len(record.trajectory) == SHORT


@forms
def test_p149_what_is_private_refuses_who_does_not_sign(s3, uploaded, name):
    """P149: a private bucket answers anon=True with 403, and the error says refused, not missing."""
    with s3.counted() as asked:
        text = refusal(f"s3://lab/short/{name}", {"endpoint_url": s3.url, "anon": True})
    assert [request.status for request in asked] == [403]
    assert "refuses access" in text
    assert "storage_options={'key': ..., 'secret': ...}" in text
    assert "there is no" not in text


@both
@pytest.mark.parametrize("case", ["wrong secret", "unknown key", "no permission"])
def test_p149_wrong_credentials_are_refused(s3, uploaded, name, case):
    """P149: a wrong secret, an unknown key and a user who may not read are told from what is missing."""
    right = s3.user({"Effect": "Allow", "Action": "s3:*", "Resource": "*"})
    options, reason = {
        "wrong secret": (right | {"secret": "no"}, "signature"),
        "unknown key": (right | {"key": "AKIAIOSFODNN7EXAMPLE"}, "does not exist in our records"),
        "no permission": (s3.user(), "Access Denied"),
    }[case]
    url = f"s3://lab/short/{name}"
    with s3.guarded():
        with s3.counted() as asked:
            text = refusal(url, options)
        with open_record(url, storage_options=right) as record:
            assert len(record.trajectory) == SHORT
    assert [request.status for request in asked] == [403]
    assert "refuses access" in text
    assert "s3:ListBucket" in text
    assert "there is no" not in text
    # An archive is first asked for its size, and S3 does not give reasons then.
    assert (reason if name == "r.mrec" else "Forbidden") in text


@pytest.mark.parametrize("name", ["absent.mrec", "absent.mrec/", "absent.mrec.zip", "short"])
def test_p149_a_missing_key_is_not_there(s3, uploaded, name):
    """P149: what is not there, or is a folder of records, is said to be missing, not refused."""
    text = refusal(f"s3://lab/{name}", s3.options, format="MREC", topology_format="MREC")
    assert "there is no" in text
    assert "a record is a directory with a zarr.json, or a *.mrec.zip" in text
    assert "refuses" not in text


@forms
def test_p149_a_missing_bucket_is_named(s3, name):
    """P149: a bucket that does not exist is said to be what is missing."""
    text = refusal(f"s3://no-such-bucket/{name}", s3.options)
    assert "there is no" in text
    assert "bucket does not exist" in text
    assert "refuses" not in text


@both
@pytest.mark.parametrize("package", ["s3fs", "fsspec"])
def test_p149_a_missing_package_is_named_with_the_way_out(s3, name, package, monkeypatch):
    """P149: without s3fs or fsspec the error says which is missing and what to install."""
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)
    for module in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    text = refusal(f"s3://lab/short/{name}", s3.options)
    assert package in text
    assert "pip install 'molrec[s3]'" in text


# -- other processes, other times


@both
def test_p149_a_universe_pickles_as_often_as_needed(s3, uploaded, short, name):
    """P149: a universe pickled twice reads on where it was, and every other frame."""
    u = mda.Universe(f"s3://lab/short/{name}", storage_options=s3.options)
    u.trajectory[4]
    for _ in range(2):
        u = pickle.loads(pickle.dumps(u))
        assert u.trajectory.frame == 4
        np.testing.assert_array_equal(u.atoms.positions, short.trajectory[4].positions)
    assert_same(u, short)


@both
def test_p149_an_analysis_runs_in_two_processes(s3, uploaded, short, name):
    """P149: backend="multiprocessing" gives what a serial run over the local record gives."""
    u = mda.Universe(f"s3://lab/short/{name}", storage_options=s3.options)
    serial = RMSD(short.select_atoms("name A1*")).run()
    parallel = RMSD(u.select_atoms("name A1*")).run(backend="multiprocessing", n_workers=2)
    assert parallel.results.rmsd.shape == (SHORT, 3)
    np.testing.assert_array_equal(parallel.results.rmsd, serial.results.rmsd)
    # The workers leave the connection of their parent as it was.
    assert_same(u, short)
