"""Real kills and real refusals of the file system."""

from __future__ import annotations

import errno
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from molrec_core import (
    Block,
    Box,
    CommitError,
    FormatError,
    Frame,
    RecordNotFoundError,
    TrajectoryWriter,
    open_record,
    repair,
    validate,
)
from molrec_core._store import DirectoryStore

KILLS = 100
WRITER = """
import sys
import numpy as np
from molrec_core import Block, Box, Frame, TrajectoryWriter
writer = TrajectoryWriter(sys.argv[1], flush_every=3)
for i in range(40):
    n = 5 + i % 3
    atoms = Block({axis: np.arange(n) * 0.5 + i for axis in "xyz"})
    writer.append(Frame({"atoms": atoms}, box=Box(np.eye(3) * (9 + i // 40))), step=i * i, time=i * 0.1)
    print(writer.committed, flush=True)
"""


def frame(i):
    n = 5 + i % 3
    return Frame(
        {"atoms": Block({axis: np.arange(n) * 0.5 + i for axis in "xyz"})}, box=Box(np.eye(3) * (9 + i // 40))
    )


def check(path, least):
    """At least `least` frames, each as it was appended."""
    with open_record(path) as record:
        trajectory = record.trajectory
        n = len(trajectory)
        assert n >= least, f"{n} frames of {least} committed"
        assert trajectory.steps.tolist() == [i * i for i in range(n)]
        assert n == 0 or trajectory.times.tolist() == [i * 0.1 for i in range(n)]
        for i in range(n):
            want, got = frame(i), trajectory[i]
            assert all(got["atoms"][c].tobytes() == want["atoms"][c].tobytes() for c in "xyz"), (
                f"frame {i} of {n}"
            )
            assert got.box.vectors.tobytes() == want.box.vectors.tobytes()
    return n


def forked_writer(path, flush_every):
    """A real process that appends and tells how many frames it has committed; returns its id and the pipe."""
    out, into = os.pipe()
    child = os.fork()
    if child:
        os.close(into)
        return child, out
    try:
        options = {"flush_every": flush_every or None}
        writer = (
            TrajectoryWriter.reopen(path, **options) if path.exists() else TrajectoryWriter(path, **options)
        )
        os.write(into, b"go\n")
        first = 0 if writer.last_step is None else round(writer.last_step**0.5) + 1
        for i in range(first, 10**6):
            writer.append(frame(i), step=i * i, time=i * 0.1)
            if not flush_every and i % 7 == 6:
                writer.flush()
            os.write(into, b"%d\n" % writer.committed)
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore::molrec_core.TornIndexWarning")
def test_K09_P104_P105_a_killed_writer_loses_no_committed_frame(tmp_path):
    """SIGKILL at random times: open, no lock left, no flag, go on; the same record is killed again and again."""
    rng = random.Random(4)
    frames = 0
    first = 0
    for kill in range(KILLS):
        path = tmp_path / f"{kill // 4}.mrec"
        first = 0 if kill % 4 == 0 else first
        child, out = forked_writer(path, rng.choice((0, 1, 5)))
        with open(out, "rb") as told:
            if rng.random() < 0.9:
                assert told.readline() == b"go\n"
            time.sleep(rng.random() ** 2 * 0.3)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            least = max((int(line) for line in told.read().split() if line != b"go"), default=first)
        try:
            first = check(path, max(first, least))
        except (FormatError, RecordNotFoundError) as error:
            # Begun, and killed before its first commit.
            if least or error.kind not in {"no_section", "not_found"}:
                raise
        if kill % 4 == 3:
            if first:
                repair(path)
                assert [p for p in validate(path, deep=True) if p.severity == "error"] == []
            frames += first
            shutil.rmtree(path, ignore_errors=True)
    print(f"{KILLS} kills, {frames} frames read back")
    assert frames > KILLS


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not there")
def test_P104_a_writer_killed_at_every_nth_write(tmp_path):
    """strace kills the process at the n-th system call of the writer, wherever that is."""
    probe = subprocess.run(["strace", "-o", "/dev/null", "true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip("this system does not let strace trace")
    done = 0
    calls = ("pwritev,pwritev2,pwrite64", "rename,renameat,renameat2", "fsync,fdatasync")
    for call, n in itertools.product(calls, (1, 3, 8, 13, 21, 34)):
        path = tmp_path / f"{calls.index(call)}-{n}.mrec"
        inject = f"inject={call}:signal=KILL:when={n}"
        strace = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
        command = [*strace, sys.executable, "-c", WRITER, str(path)]
        process = subprocess.run(command, check=False, capture_output=True, text=True)
        assert process.returncode, "the process was not killed"
        least = max(map(int, process.stdout.split()), default=0)
        writer = TrajectoryWriter.reopen(path) if path.exists() else TrajectoryWriter(path)
        with writer:
            reached = 0 if writer.last_step is None else round(writer.last_step**0.5) + 1
            assert reached >= least
            for i in range(reached, reached + 3):
                writer.append(frame(i), step=i * i, time=i * 0.1)
        assert check(path, reached + 3) == reached + 3
        done += 1
    print(f"{done} kills at a system call")


# -- what a file system refuses


def write_some(path, n, **options):
    writer = TrajectoryWriter(path, **options)
    for i in range(n):
        writer.append(frame(i), step=i * i, time=i * 0.1)
    writer.flush()
    return writer


def refused(writer, first, frames=4000):
    """Append until it is refused; the error is ours, names the record, and stays."""

    def go_on():
        for i in range(first, first + frames):
            writer.append(frame(i), step=i * i, time=i * 0.1)
            if i % 5 == 0:
                writer.flush()

    with pytest.raises(CommitError) as caught:
        go_on()
    assert caught.value.path == str(writer.path)
    assert caught.value.stage
    for call in (writer.flush, lambda: writer.append(frame(0), step=10**9, time=1e9)):
        with pytest.raises(CommitError):
            call()
    writer.close()
    writer.close()
    return caught.value


def goes_on(path, least):
    """The record opens at its last commit, and a writer goes on from there."""
    reached = check(path, least)
    with TrajectoryWriter.reopen(path) as writer:
        for i in range(reached, reached + 4):
            writer.append(frame(i), step=i * i, time=i * 0.1)
    assert check(path, reached + 4) == reached + 4


@contextmanager
def tiny_disk(path, size):
    path.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
            check=False,
            capture_output=True,
        ).returncode
    ):
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk(tmp_path):
    with tiny_disk(tmp_path / "disk", "1500k") as disk:
        filler = disk / "filler"
        filler.write_bytes(b"x" * 200_000)
        path = disk / "run.mrec"
        writer = write_some(path, 6)
        error = refused(writer, 6)
        assert "free space" in str(error) or "No space" in str(error)
        filler.unlink()
        goes_on(path, 6)


def test_a_disk_too_full_for_a_new_record(tmp_path):
    with tiny_disk(tmp_path / "disk", "16k") as disk:
        (disk / "filler").write_bytes(b"x" * 12_000)
        with pytest.raises(CommitError):
            write_some(disk / "run.mrec", 1)
        assert not [name for name in os.listdir(disk) if name != "filler"], "something was left behind"


@contextmanager
def limited(size):
    """Let no file grow past `size`, as a quota does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)


def test_a_quota(tmp_path):
    path = tmp_path / "run.mrec"
    writer = write_some(path, 6)
    with limited(120_000):
        refused(writer, 6)
    goes_on(path, 6)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("operation", ["write", "create", "rename", "sync_file", "sync_directory"])
def test_an_error_in_any_operation(tmp_path, monkeypatch, operation, code):
    """Whatever is refused, and when: no marker after it, a clean close, a record at its last commit."""
    real = getattr(DirectoryStore, operation)
    for nth in (1, 2, 5):
        path = tmp_path / f"{nth}.mrec"
        writer = write_some(path, 6)
        left = [nth]

        def failing(self, *args, left=left):
            left[0] -= 1
            if left[0] == 0:
                raise OSError(code, os.strerror(code))
            return real(self, *args)

        monkeypatch.setattr(DirectoryStore, operation, failing)
        error = refused(writer, 6)
        monkeypatch.setattr(DirectoryStore, operation, real)
        assert os.strerror(code) in str(error)
        goes_on(path, 6)


@pytest.mark.parametrize("operation", ["create", "rename", "sync_file", "sync_directory", "mkdir"])
def test_a_record_that_cannot_be_begun_leaves_nothing(tmp_path, monkeypatch, operation):
    def failing(*_args):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(DirectoryStore, operation, failing)
    with pytest.raises(CommitError, match="creation"):
        TrajectoryWriter(tmp_path / "run.mrec", system=frame(0))
    assert os.listdir(tmp_path) == []


@contextmanager
def read_only(path):
    """Make what is below a directory unwritable: by a mount for root, by its mode for others."""
    if os.geteuid():
        for at, _, names in os.walk(path):
            os.chmod(at, 0o555)
            for name in names:
                os.chmod(Path(at) / name, 0o444)
        yield
        return
    if subprocess.run(["mount", "--bind", path, path], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", path, path], check=True)
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_read_only_directory(tmp_path):
    """Reading leaves nothing behind; writing says why not; nothing is changed."""
    place = tmp_path / "place"
    place.mkdir()
    path = place / "run.mrec"
    write_some(path, 6).close()
    with read_only(place):
        assert check(path, 6) == 6
        with pytest.raises(CommitError, match=r"Read-only|denied"):
            TrajectoryWriter(place / "other.mrec")
        with pytest.raises(CommitError, match=r"Read-only|denied"):
            TrajectoryWriter(path, overwrite=True)
        writer = TrajectoryWriter.reopen(path)
        writer.append(frame(6), step=36, time=0.6)
        with pytest.raises(CommitError, match=r"Read-only|denied"):
            writer.close()
        assert check(path, 6) == 6
    goes_on(path, 6)
