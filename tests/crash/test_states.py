"""Every disk state that a crash may leave of a writer: short form, one seed, scaled-down extents."""

from __future__ import annotations

import errno
import os
from random import Random

import pytest

from molrec_core.testing._disk import killed, lost_power
from molrec_core.testing._recorder import Recorder
from molrec_core.testing.crash import WORKLOADS, main, run

STATES = 2000


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_state_loses_a_frame(name):
    """P104 P107 P108 P109: killed or cut off at any moment, a record opens at a commit and goes on."""
    report = run(WORKLOADS[name], least=STATES)
    print(report)
    assert report.tried >= STATES
    assert report.distinct > 200
    assert not report.failures, "\n".join(report.failures[:10])


@pytest.mark.long
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_state_loses_a_frame_at_full_size(name):
    """The same with the reference writer's extents and 512-byte sectors, and more seeds."""
    for report in (
        run(WORKLOADS[name], least=5000, small=False),
        *(run(WORKLOADS[name], seed=s) for s in range(1, 6)),
    ):
        print(report)
        assert not report.failures, "\n".join(report.failures[:10])


def test_the_command_counts_and_reports(capsys):
    """The long form is the short one, more often."""
    assert main(["--states", "50", "--workload", "strings"]) == 0
    assert "strings: " in capsys.readouterr().out


# -- the model itself: it must leave what a disk may leave, and nothing else


def recorded(top, write):
    with Recorder(top) as recorder:
        write(top)
    return recorder


def contents(states):
    return {(frozenset(state.files.items()), state.directories) for state in states}


def put(path, data, sync=True):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.pwrite(fd, data, 0)
    if sync:
        os.fsync(fd)
    os.close(fd)


def sync_directory(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def after(recorder, draws=400):
    """States of a power lost once everything was done."""
    last = len(recorder.operations) - 1
    states = lost_power(recorder.start, recorder.operations, 64, Random(1), draws * len(recorder.operations))
    return [state for state in states if f"operation {last}," in state.at]


def test_what_is_synced_with_its_directory_is_in_every_state(tmp_path):
    def write(top):
        put(top / "a", b"x" * 200)
        sync_directory(top)

    assert contents(after(recorded(tmp_path, write))) == {(frozenset({("a", b"x" * 200)}), frozenset())}


def test_a_name_without_its_directory_synced_may_be_missing(tmp_path):
    names = {frozenset(state.files) for state in after(recorded(tmp_path, lambda top: put(top / "a", b"x")))}
    assert names == {frozenset(), frozenset({"a"})}


def test_unsynced_sectors_land_in_any_part(tmp_path):
    (tmp_path / "a").write_bytes(b"o" * 192)
    found = {
        s.files["a"] for s in after(recorded(tmp_path, lambda top: put(top / "a", b"n" * 192, sync=False)))
    }
    assert found == {
        (x + y + z)
        for x in (b"o" * 64, b"n" * 64)
        for y in (b"o" * 64, b"n" * 64)
        for z in (b"o" * 64, b"n" * 64)
    }


def test_a_rename_is_one_change_and_may_outrun_its_content(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    def write(top):
        put(top / "b", b"new", sync=False)
        os.rename(top / "b", top / "a")

    found = {s.files.get("a") for s in after(recorded(tmp_path, write))}
    assert {b"old", b"new", b""} <= found
    assert None not in found


def test_a_failed_sync_loses_what_it_was_for(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with Recorder(tmp_path, lambda path: path == "a") as recorder:
        with pytest.raises(OSError) as caught:
            put(tmp_path / "a", b"new")
        assert caught.value.errno == errno.EIO
    assert {s.files["a"] for s in after(recorder)} == {b"old"}


def test_a_kill_tears_the_last_write_only(tmp_path):
    def write(top):
        put(top / "a", b"x" * 128)
        put(top / "b", b"y" * 128)

    recorder = recorded(tmp_path, write)
    states = contents(killed(recorder.start, recorder.operations, 64))
    assert (frozenset({("a", b"x" * 128), ("b", b"y" * 64)}), frozenset()) in states
    assert not any(dict(files).get("b") and dict(files)["a"] != b"x" * 128 for files, _ in states)
