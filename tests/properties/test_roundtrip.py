"""Random runs: what we write reads equal through three readers, and what others write reads equal through ours.

The readers are ours, a naive one on zarr-python alone, and molrs. Each test prints how
often every feature of the format occurred and fails when one did not.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_core import (
    Compression,
    SequenceSchema,
    TrajectoryWriter,
    open_record,
    pack,
    unpack,
    validate,
    write_mrec_trajectory,
)
from molrec_core._dtypes import COLUMN_DTYPES, TAGS
from molrec_core.testing.naive import NaiveTrajectory, plain_frame
from molrec_core.testing.strategies import runs
from properties.extents import small

OCCUR = {
    "ragged", "zero-row", "absent", "carried forward", "nullable", "aligned", "target", "precision", "cell change",
    "undefined cell", "progression break", "times", "structural shape", "trailing axes", "no columns", "filled", "system",
    *(f"dtype {dtype}" for dtype in COLUMN_DTYPES),
    *(f"tag {tag}" for tag in TAGS),
}  # fmt: skip


class Occurred(Counter):
    """How often each feature occurred in the runs of a test."""

    def take(self, run):
        self.update([*run.features(), "runs"])

    def ask_for_all(self, check, name):
        """Repeat `check`, which draws anew each time, until every feature occurred; report all of them."""
        for _ in range(4):
            check()
            missing = [feature for feature in OCCUR if not self[feature]]
            if not missing:
                break
        print(f"\n{name}: {self['runs']} runs: " + ", ".join(f"{f} {self[f]}" for f in sorted(OCCUR)))
        assert not missing, missing


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """What survives a power loss is asked elsewhere; here a thousand syncs would only take time."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None, raising=False)


COMPRESSIONS = [
    None, Compression.none(), Compression.none(shuffle=True), Compression.gzip(1), Compression.zstd(3, shuffle=True),
]  # fmt: skip


def a_third():
    """Fewer runs where each is written several times."""
    return settings(max_examples=settings().max_examples // 3)


def records(directory):
    return (directory / f"{i}.mrec" for i in itertools.count())


def write_somehow(record, run, data):
    """Write a run with any settings, flushed, reopened and cut back at any point."""
    writer = TrajectoryWriter(
        record,
        run.schema,
        system=run.system,
        flush_every=data.draw(st.sampled_from([None, None, 1, 3])),
        compression=data.draw(st.sampled_from(COMPRESSIONS)),
        expected_frames=data.draw(st.sampled_from([None, 1, 10])),
    )
    n = len(run.frames)
    steps = run.expected_steps()
    done = 0
    try:
        for stop in [*sorted(data.draw(st.lists(st.integers(0, n), max_size=3))), n]:
            append = data.draw(st.sampled_from([run.append_to, run.extend_to]))
            append(writer, done, stop)
            done = stop
            what = data.draw(st.sampled_from(["flush", "reopen", "cut back"]))
            if what == "flush":
                writer.flush()
                assert writer.committed == done
                continue
            after = None
            if what == "cut back":
                run.append_to(writer, done, data.draw(st.integers(done, n)))
                after = steps[done - 1] if done else min(steps, default=0) - 1
            writer.close()
            writer = TrajectoryWriter.reopen(record, after_step=after, schema=run.schema)
            assert len(writer) == writer.committed == done
    finally:
        writer.close()


def assert_reads_as(record, run):
    with open_record(record) as found:
        reader = found.trajectory
        assert list(reader) == run.expected()
        assert reader.steps.tolist() == run.expected_steps()
        if run.times is None or not run.frames:
            assert reader.times is None
        else:
            assert reader.times.tobytes() == np.array(run.times).tobytes()
        assert reader.schema == run.schema
        for i in range(len(reader) - 1, -1, -2):
            assert reader[i] == run.expected()[i]
    assert [p for p in validate(record, deep=True) if p.severity == "error"] == []


def assert_naive_reads_as(record, run):
    naive = NaiveTrajectory(record)
    assert naive.nstep == len(run.frames)
    assert [naive.frame(i) for i in range(naive.nstep)] == [plain_frame(frame) for frame in run.expected()]
    assert naive.steps == run.expected_steps()
    if run.times is not None and run.frames:
        assert np.array(naive.times).tobytes() == np.array(run.times).tobytes()


def test_what_we_write_reads_back(tmp_path):
    paths, occurred = records(tmp_path), Occurred()

    @given(run=runs(), data=st.data())
    def check(run, data):
        record = next(paths)
        with small(on=data.draw(st.booleans())):
            write_somehow(record, run, data)
        assert_reads_as(record, run)
        assert_naive_reads_as(record, run)
        occurred.take(run)

    occurred.ask_for_all(check, "written and read by us, and naively")


def test_what_we_pack_reads_back(tmp_path):
    paths = records(tmp_path)

    @a_third()
    @given(run=runs(max_frames=6), remove=st.booleans())
    def check(run, remove):
        record = next(paths)
        with TrajectoryWriter(record, run.schema, system=run.system) as writer:
            run.append_to(writer)
        packed = pack(record, remove=remove)
        assert record.exists() is not remove
        assert_reads_as(packed, run)
        assert_naive_reads_as(packed, run)
        other = unpack(packed, record.with_suffix(".unpacked.mrec"))
        assert_reads_as(other, run)
        assert pack(other).read_bytes() == packed.read_bytes()

    check()


def test_a_record_written_from_a_reader_is_the_same(tmp_path):
    """Re-writing what was read keeps the declaration, every frame, step and time."""
    paths = records(tmp_path)

    @a_third()
    @given(run=runs(max_frames=6), packed=st.booleans())
    def check(run, packed):
        record, copy = next(paths), next(paths)
        with TrajectoryWriter(record, run.schema, system=run.system) as writer:
            run.append_to(writer)
        with open_record(pack(record) if packed else record) as found:
            write_mrec_trajectory(copy, found.trajectory, system=run.system)
        assert_reads_as(copy, run)

    check()


def test_derived_declaration(tmp_path):
    """From frames alone: what they hold is declared, what they do not is not."""
    paths = records(tmp_path)

    @a_third()
    @given(run=runs(max_frames=6).filter(lambda run: run.frames))
    def check(run):
        record = next(paths)
        schema = SequenceSchema.from_frames(run.expected())
        write_mrec_trajectory(record, run.expected(), steps=run.expected_steps(), times=run.times)
        with open_record(record) as found:
            assert found.trajectory.schema == schema
            assert list(found.trajectory) == run.expected()

    check()


def test_what_we_write_reads_in_molrs(tmp_path):
    pytest.importorskip("molrs")
    from properties.molrs_form import mrec, plain_of_molrs

    paths, occurred = records(tmp_path), Occurred()

    @given(run=runs(), packed=st.booleans(), is_small=st.booleans(), data=st.data())
    def check(run, packed, is_small, data):
        record = next(paths)
        with small(on=is_small):
            write_somehow(record, run, data)
        reader = mrec.MrecReader(pack(record) if packed else record)
        assert [plain_of_molrs(frame) for frame in reader] == [plain_frame(frame) for frame in run.expected()]
        assert list(reader.step) == run.expected_steps()
        if run.times is not None and run.frames:
            assert np.array(reader.time).tobytes() == np.array(run.times).tobytes()
        occurred.take(run)

    occurred.ask_for_all(check, "written by us, read by molrs")


def test_what_molrs_writes_reads_back(tmp_path):
    pytest.importorskip("molrs")
    from properties.molrs_form import molrs_frame, molrs_schema, mrec, plain_of_molrs

    paths, occurred = records(tmp_path), Occurred()

    @given(run=runs(strings_with_axes=False), every=st.sampled_from([1, 2, 100]))
    def check(run, every):
        record = next(paths)
        with mrec.MrecWriter(record, molrs_schema(run.schema), flush_every=every) as writer:
            for i, frame in enumerate(run.frames):
                time = None if run.times is None else run.times[i]
                writer.append(molrs_frame(frame), step=run.expected_steps()[i], time=time)
        reader = mrec.MrecReader(record)
        with open_record(record) as found:
            trajectory = found.trajectory
            assert [plain_frame(frame) for frame in trajectory] == [plain_of_molrs(frame) for frame in reader]
            assert list(trajectory) == run.expected()
            assert trajectory.schema == run.schema
            assert trajectory.steps.tolist() == run.expected_steps()
        occurred.take(run)

    occurred.ask_for_all(check, "written by molrs, read by us")
