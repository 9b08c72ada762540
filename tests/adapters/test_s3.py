"""Records on S3 for the core, its command and the other hosts, over the wire (P149)."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from molrec_core import (
    Block,
    Box,
    Frame,
    RecordError,
    RecordNotFoundError,
    TrajectoryWriter,
    open_record,
    pack,
    validate,
    write_mrec,
)
from molrec_core.cli import main

FORMS = ["r.mrec", "r.mrec.zip"]
both = pytest.mark.parametrize("name", FORMS)
N_ATOMS, N_FRAMES = 1500, 12
XYZ = ["x", "y", "z"]


def write(path, start, stop):
    """Write frames of water-like atoms, or go on with them."""
    rng = np.random.default_rng(3)
    elements = ["O", "H", "H"] * (N_ATOMS // 3)
    system = Frame({"atoms": Block({"element": elements, "name": elements})})
    if start:
        writer = TrajectoryWriter.reopen(path)
    else:
        writer = TrajectoryWriter(path, system=system, meta={"units": {"preset": "real"}})
    with writer:
        for i, xyz in enumerate(rng.normal(size=(stop, 3, N_ATOMS))):
            if i >= start:
                atoms = Block(dict(zip(XYZ, xyz, strict=True)))
                writer.append(Frame({"atoms": atoms}, box=Box(np.eye(3) * 20), meta={"pe": -1.0 * i}), step=i)
    return path


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("s3") / "r.mrec", 0, N_FRAMES)
    pack(path)
    return path


@pytest.fixture(scope="module")
def uploaded(s3_server, local):
    """In a bucket of ours and in a public one; gives the bytes of the archive."""
    for name in FORMS:
        s3_server.upload("core", local.with_name(name), name)
        s3_server.upload("open-data", local.with_name(name), name, acl="public-read")
    return local.with_name("r.mrec.zip").stat().st_size


@pytest.fixture
def frames(local):
    with open_record(local) as record:
        return record.trajectory.read("atoms", XYZ)


# -- what is read


@both
def test_p149_a_record_on_s3_is_the_local_one(s3, uploaded, local, name):
    """P149: system, meta, frames, slices and bulk reads are those of the local record."""
    with (
        open_record(local) as want,
        open_record(f"s3://core/{name}", storage_options=s3.options) as record,
    ):
        assert record.path == f"s3://core/{name}"
        assert record.sections == want.sections
        assert record.meta == want.meta
        assert record.system == want.system
        assert list(record.trajectory) == list(want.trajectory)
        assert list(record.trajectory[8:2:-3]) == list(want.trajectory[8:2:-3])
        np.testing.assert_array_equal(
            record.trajectory.read("atoms", XYZ, frames=slice(1, None, 4)),
            want.trajectory.read("atoms", XYZ, frames=slice(1, None, 4)),
        )
    assert validate(f"s3://core/{name}", deep=True, storage_options=s3.options) == []


@both
@pytest.mark.parametrize("command", ["info", "tree", "validate", "diff"])
def test_p149_the_command_takes_a_url(signed_in, uploaded, local, name, command, capsys):
    """P149: info, tree, validate and diff look at a record on S3 with the account of the environment."""
    url = f"s3://core/{name}"
    assert main([command, url, *([str(local)] if command == "diff" else [])]) == 0
    wanted = {"info": "12 frames", "tree": "trajectory/", "validate": "0 errors", "diff": "equal"}
    assert wanted[command] in capsys.readouterr().out


@both
def test_p149_a_public_record_opens_on_the_command_line(s3, uploaded, name):
    """P149: FSSPEC_S3_ANON is anon=True for a command, which has no options."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FSSPEC_S3_ANON", "true")
        environment.setenv("AWS_ENDPOINT_URL", s3.url)
        command = [sys.executable, "-m", "molrec_core.cli", "info", f"s3://open-data/{name}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "12 frames" in done.stdout


@both
def test_p149_a_record_on_s3_converts_to_a_local_one(signed_in, uploaded, local, name, tmp_path, capsys):
    """P149: convert copies from a URL; what only works on local files says so, with the way out."""
    url = f"s3://core/{name}"
    assert main(["convert", url, str(tmp_path / "copy.mrec")]) == 0
    assert main(["diff", str(tmp_path / "copy.mrec"), str(local)]) == 0
    capsys.readouterr()
    assert main(["convert", url, str(tmp_path / "out.xyz")]) == 1
    assert main(["unpack", url, str(tmp_path / "out.mrec")]) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(f"molrec: {url}: " in line and f"molrec convert {url} run.mrec" in line for line in told)


@both
def test_p149_mdtraj_loads_from_s3(s3, uploaded, local, name):
    """P149: mdtraj.load takes the URL and storage_options, and gives the local trajectory."""
    md = pytest.importorskip("mdtraj")
    pytest.importorskip("molrec_mdtraj")
    got = md.load(f"s3://core/{name}", storage_options=s3.options)
    want = md.load(str(local))
    np.testing.assert_array_equal(got.xyz, want.xyz)
    np.testing.assert_array_equal(got.unitcell_vectors, want.unitcell_vectors)
    assert got.topology == want.topology
    part = md.load(f"s3://core/{name}", storage_options=s3.options, stride=5, atom_indices=[1, 7])
    np.testing.assert_array_equal(part.xyz, want.xyz[::5, [1, 7]])


@both
def test_p149_ase_reads_from_s3(signed_in, uploaded, local, name):
    """P149: ase.io.read takes the URL, with the account of the environment, and gives the local images."""
    io = pytest.importorskip("ase.io")
    got, want = io.read(f"s3://core/{name}", "2:9:3"), io.read(str(local), "2:9:3")
    assert len(got) == 3
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.positions, b.positions)
        np.testing.assert_array_equal(a.numbers, b.numbers)
        np.testing.assert_array_equal(a.cell, b.cell)
        assert a.get_potential_energy() == b.get_potential_energy()


# -- what it costs


def test_p149_an_archive_opens_in_few_requests(s3, uploaded):
    """P149: documents of an archive come along with what lies before them, and are not asked for twice."""
    with s3.counted() as asked, open_record("s3://core/r.mrec.zip", storage_options=s3.options) as record:
        assert len(record.system["atoms"]["name"]) == N_ATOMS
        assert len(record.trajectory) == N_FRAMES
        opening = len(asked)
        for section in ("system", "trajectory", "meta"):
            assert section in record
        assert len(asked) == opening
    print(f"{opening} requests, {asked.n_bytes} of {uploaded} bytes")
    assert opening < 12
    ranges = [request.range for request in asked if request.method == "GET"]
    assert len(ranges) == len(set(ranges))


def test_p149_a_document_is_one_request(s3, uploaded):
    """P149: neither the size of a document nor what is missing is asked for on its own."""
    with s3.counted() as asked, open_record("s3://core/r.mrec", storage_options=s3.options) as record:
        assert len(record.trajectory) == N_FRAMES
    assert {request.method for request in asked} == {"GET"}
    assert sum(request.path == "/core" for request in asked) <= 2, "listings"


# -- processes, threads, time


def _child(trajectory, sender):
    sender.send(trajectory.read("atoms", XYZ, frames=slice(1, None, 2)))


@both
def test_p149_a_forked_child_reads_what_was_opened_before(s3, uploaded, frames, name):
    """P149: connections are not shared with a child, which would wait for ever, and the parent reads on."""
    trajectory = open_record(f"s3://core/{name}", storage_options=s3.options).trajectory
    np.testing.assert_array_equal(trajectory[0]["atoms"]["x"], frames[0, :, 0])
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(trajectory, sender))
        child.start()
        try:
            assert receiver.poll(20), "the child waits for a thread that it does not have"
            np.testing.assert_array_equal(receiver.recv(), frames[1::2])
        finally:
            child.kill()
            child.join()
            receiver.close()
            sender.close()
    np.testing.assert_array_equal(trajectory[7]["atoms"]["y"], frames[7, :, 1])


@both
def test_p149_a_reader_pickles_and_is_shared_by_threads(s3, uploaded, frames, name):
    """P149: a reader pickled twice serves four threads at once."""
    reader = open_record(f"s3://core/{name}", storage_options=s3.options).trajectory
    for _ in range(2):
        reader = pickle.loads(pickle.dumps(reader))
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda i: reader[i]["atoms"]["z"], [*range(N_FRAMES)] * 2))
    np.testing.assert_array_equal(got, np.concatenate([frames[:, :, 2]] * 2))


def test_p149_a_refresh_takes_up_what_was_uploaded_since(s3, tmp_path):
    """P149: a reader of a record that grows on S3 sees its new frames when it is told to look."""
    write(tmp_path / "r.mrec", 0, 2)
    url = s3.upload("core", tmp_path / "r.mrec", "grows.mrec")
    reader = open_record(url, storage_options=s3.options).trajectory
    assert len(list(reader)) == 2
    write(tmp_path / "r.mrec", 2, 5)
    s3.upload("core", tmp_path / "r.mrec", "grows.mrec")
    assert reader.refresh() == 5
    assert reader[4].meta["pe"] == -4.0


@both
def test_p149_what_replaces_a_record_is_read(s3, tmp_path, name):
    """P149: a second opening is not answered from the listings that fsspec keeps."""
    from fsspec import filesystem

    def upload(directory, **blocks):
        frame = Frame({"atoms": Block({"x": [1.0, 2.0]}), **blocks})
        write_mrec(tmp_path / directory / "r.mrec", system=frame, frame=frame)
        pack(tmp_path / directory / "r.mrec")
        return s3.upload("core", tmp_path / directory / name, f"{name}-anew/{name}")

    with pytest.raises(RecordNotFoundError):
        open_record(f"s3://core/{name}-anew/{name}", storage_options=s3.options)
    for directory in ("old", "new"):
        (tmp_path / directory).mkdir()
    with open_record(upload("old"), storage_options=s3.options) as record:
        assert list(record.system) == ["atoms"]
    assert len(filesystem("s3", **s3.options).ls(f"core/{name}-anew")) == 1
    url = upload("new", bonds=Block({"atomi": np.array([0], np.uint64), "atomj": np.array([1], np.uint64)}))
    with open_record(url, storage_options=s3.options) as record:
        assert list(record.system) == ["atoms", "bonds"]


# -- what goes wrong


@both
def test_p149_a_command_without_an_account_fails_in_one_line(s3, uploaded, name, monkeypatch, capsys):
    """P149: no credentials are one line on stderr and exit code 1, not a traceback."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    for command in ("info", "validate"):
        assert main([command, f"s3://core/{name}"]) == 1
        said = capsys.readouterr()
        assert len(said.err.splitlines()) == 1 or command == "validate"
        assert "there are no credentials" in said.err + said.out


@both
def test_p149_a_refusal_leaves_other_records_alone(s3, uploaded, frames, name):
    """P149: a record that is open reads on after another one was refused to the same account."""
    user = s3.user(
        {"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::core", "arn:aws:s3:::core/*"]}
    )
    with s3.guarded():
        reader = open_record(f"s3://core/{name}", storage_options=user).trajectory
        with pytest.raises(RecordError) as caught:
            open_record(f"s3://open-data/{name}", storage_options=user)
        assert caught.value.kind == "no_access"
        np.testing.assert_array_equal(reader.read("atoms", XYZ), frames)


def test_p149_a_refusal_in_the_middle_names_what_was_refused(s3, uploaded, frames):
    """P149: where one column may not be read, the others are, and the error names its object."""
    user = s3.user(
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
        {
            "Effect": "Deny",
            "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::core/r.mrec/trajectory/atoms/y/c/*",
        },
    )
    with s3.guarded(), open_record("s3://core/r.mrec", storage_options=user) as record:
        np.testing.assert_array_equal(record.trajectory.read("atoms", ["x"])[..., 0], frames[..., 0])
        with pytest.raises(RecordError, match="refuses access") as caught:
            record.trajectory.read("atoms", ["y"])
    assert caught.value.kind == "no_access"
    assert "s3://core/r.mrec/trajectory/atoms/y/c/0" in str(caught.value)


@both
def test_p149_a_server_that_does_not_answer_is_unreachable(s3, name):
    """P149: nobody at the endpoint is an error that names it and how it is set."""
    with socket.socket() as taken:
        # Bound and not listening: a connection is refused, and nobody else gets the port.
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        hasty = {"retries": {"max_attempts": 0}, "connect_timeout": 1}
        options = s3.options | {"endpoint_url": url, "config_kwargs": hasty}
        with pytest.raises(RecordError, match="gives no answer") as caught:
            open_record(f"s3://core/{name}", storage_options=options)
    assert caught.value.kind == "unreachable"
    assert url in str(caught.value)
    assert "AWS_ENDPOINT_URL" in str(caught.value)


@both
def test_p149_a_web_server_that_refuses_is_told_from_one_that_has_nothing(s3, uploaded, name):
    """P149: over plain HTTP 403 is a refusal and 404 is nothing there."""
    with pytest.raises(RecordError, match="refuses access") as caught:
        open_record(f"{s3.url}/core/{name}")
    assert caught.value.kind == "no_access"
    assert "storage_options" in str(caught.value)
    with pytest.raises(RecordNotFoundError):
        open_record(f"{s3.url}/open-data/absent-{name}")
    with open_record(f"{s3.url}/open-data/{name}") as record:
        assert len(record.trajectory) == N_FRAMES


def test_p149_a_scheme_that_is_not_installed_says_what_is_missing():
    """P149: another object store names its own package."""
    with pytest.raises(RecordError, match="gcsfs") as caught:
        open_record("gs://bucket/r.mrec")
    assert caught.value.kind == "not_installed"
