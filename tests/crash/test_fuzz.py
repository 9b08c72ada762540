"""Hostile records: only errors of ours come out, in time, within bounds, from inside the record."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from molrec_core import RecordError, open_record, pack, unpack
from molrec_core.testing import _hostile, _sandbox, fuzz
from molrec_core.testing._campaign import scratch

SEEDS = 150
FOUND = (1, 9, 43, 82, 462, 100320)
"""Seeds that once let something else through: deep nesting, a key that is no string, bombs, endless claims."""


def test_P106_hostile_records_raise_only_our_errors():
    findings = fuzz.run(count=SEEDS)
    print(findings)
    assert findings.executions == SEEDS
    assert not findings.failures, str(findings)


@pytest.mark.parametrize("seed", FOUND)
def test_a_finding_stays_fixed(seed):
    findings = fuzz.run(first=seed, count=1)
    assert not findings.failures, str(findings)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_hostile_records():
    findings = fuzz.run(first=10**6, seconds=1800)
    print(findings)
    assert not findings.failures, str(findings)


# -- the test of the test: what the guard is for, it sees


def looked_at(monkeypatch, misdeed):
    with scratch() as top:
        (top / "secret").write_bytes(_sandbox.SECRET)
        record = top / "run.mrec"
        _sandbox.put(record, _hostile.sound())
        monkeypatch.setattr(_sandbox, "_read", lambda record, out: misdeed(top))
        return _sandbox.look(top, record)


def test_the_guard_sees_a_file_read_outside(monkeypatch):
    assert "secret" in looked_at(monkeypatch, lambda top: (top / "secret").read_bytes())


def test_the_guard_sees_a_file_written_outside(monkeypatch):
    assert looked_at(monkeypatch, lambda top: (top / "new").write_bytes(b"x"))


def test_the_guard_sees_memory(monkeypatch):
    assert "MiB" in looked_at(monkeypatch, lambda _: len(bytearray(200 * 2**20)))


def test_the_guard_sees_a_hang(monkeypatch):
    monkeypatch.setattr(_sandbox, "SECONDS", 0.2)

    def spin(_):
        while True:
            pass

    assert "time" in looked_at(monkeypatch, spin)


def test_the_guard_sees_another_error(monkeypatch):
    def fail(_):
        raise KeyError("x")

    assert "KeyError" in looked_at(monkeypatch, fail)


# -- what has no place in a dictionary of files


@pytest.mark.parametrize("target", ["/etc/passwd", "..", ".", "run.mrec", "loop"])
@pytest.mark.parametrize(
    "place", ["zarr.json", "meta", "trajectory/atoms", "trajectory/atoms/x/c", "trajectory/atoms/x/c/0"]
)
def test_a_link_is_refused(tmp_path, place, target):
    """A link inside a record is not followed, wherever it leads."""
    record = tmp_path / "run.mrec"
    _sandbox.put(record, _hostile.sound())
    path = record / place
    path.rename(tmp_path / "moved")
    path.symlink_to(target if target != "loop" else path.name)

    def read():
        opened = open_record(record)
        assert opened.meta
        return [frame["atoms"]["x"] for frame in opened.trajectory]

    with pytest.raises(RecordError):
        read()
    with pytest.raises(RecordError):
        pack(record)


@pytest.mark.parametrize("name", ["/abs", "../up", "a/../../up", "..\\up", "C:\\up", "a//b", "./a", "a/./b"])
def test_unpack_never_leaves_its_target(tmp_path, name):
    archive = tmp_path / "deep" / "run.mrec.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as packed:
        for path, data in _hostile.sound().items():
            packed.writestr(path, data)
        packed.writestr(name, b"escaped")
    with pytest.raises(RecordError) as caught:
        unpack(archive)
    assert caught.value.kind == "zip_member_name"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["deep", "run.mrec.zip"]
    assert not Path("/abs").exists()


def test_the_sound_record_is_sound():
    """Every mutation starts from a record in which nothing is wrong."""
    with scratch() as top:
        record = top / "run.mrec"
        _sandbox.put(record, _hostile.sound())
        with open_record(record) as opened:
            assert len(opened.trajectory) == 6
            assert set(opened.sections) >= {"meta", "status", "system", "trajectory", "metrics"}
            assert len(opened.metrics["train/loss"]) == 5
        assert _sandbox.look(top, record) is None


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_parsers_under_coverage_guidance():
    """atheris feeds the parsers of documents, shard indexes and log lines what reaches new branches."""
    pytest.importorskip("atheris")
    subprocess.run([sys.executable, "-m", "molrec_core.testing.guided", "--seconds", "600"], check=True)
