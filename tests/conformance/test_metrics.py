"""Checklist group MW: the metrics log, and the dense series folded from it."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from conformance.records import (
    attributes,
    changed,
    document,
    make_group,
    nodes,
    refused,
    remove,
    replace_array,
    set_attributes,
    stored,
    unreadable,
)
from molrec_core import (
    Block,
    ClosedError,
    CommitError,
    FormatError,
    Frame,
    LockedError,
    MetricsReader,
    MetricsWriter,
    ReadOnlyError,
    RecordNotFoundError,
    SchemaError,
    SectionNotFoundError,
    TrajectoryWriter,
    find_metrics_logs,
    fold_metrics,
    open_record,
    pack,
    validate,
    write_mrec,
)
from molrec_core import _metrics_fold as folding
from molrec_core._store import DirectoryStore

T0 = "2026-08-04T00:00:0{}Z"
LOG = "metrics/metrics.jsonl"


@pytest.fixture
def record(tmp_path):
    """A run-shaped record."""
    path = tmp_path / "run.mrec"
    write_mrec(path, status={"state": "running"})
    return path


def log(path, *events):
    """Append events written as (key, value) or (key, value, step)."""
    with MetricsWriter(path) as writer:
        for i, event in enumerate(events):
            writer.append(*event, wall_time=T0.format(i % 10))


def series(record, key="loss"):
    """Values and steps of a series, from a record opened anew."""
    with open_record(record) as found:
        points = found.metrics[key]
    return points.values.tolist(), None if points.steps is None else points.steps.tolist()


def put(record, data):
    """Write the bytes of a log."""
    make_group(record, "metrics")
    (record / LOG).write_bytes(data)


def line(key="loss", value=0.5, step=None, **more):
    """One line, spelled by hand."""
    event = {"t": "scalar", "k": key, "w": T0.format(0), "v": value} | more
    if step is not None:
        event["s"] = step
    return json.dumps(event).encode() + b"\n"


# -- the log


def test_MW01_one_object_a_line(record):
    with MetricsWriter(record) as writer:
        writer.append("train/loss", 0.42, step=120, wall_time="2026-08-04T12:00:00Z")
        writer.append("val", 1, wall_time="2026-08-04T12:00:00Z", tags={"fold": [1, None]})
    text = (record / LOG).read_text(encoding="utf-8")
    assert text.endswith("\n")
    first, second = text.splitlines()
    assert first == '{"t":"scalar","k":"train/loss","s":120,"w":"2026-08-04T12:00:00Z","v":0.42}'
    assert second == '{"t":"scalar","k":"val","w":"2026-08-04T12:00:00Z","v":1.0,"tags":{"fold":[1,null]}}'
    assert document(record, "metrics")["node_type"] == "group"
    assert validate(record) == []


def test_MW01_a_line_lands_at_once(record):
    with MetricsWriter(record) as writer:
        writer.append("loss", 0.5, 1)
        assert series(record) == ([0.5], [1])


def test_MW01_text_stays_on_its_line(record):
    key = "a\nb\u2028\r ü損失"
    log(record, (key, 1.0), ("b", 2.0))
    assert open_record(record).metrics[key].values.tolist() == [1.0]
    assert (record / LOG).read_bytes().count(b"\n") == 2


def test_MW01_lines_of_other_writers(record):
    put(
        record,
        b' {"v": 1, "k": "loss", "t": "scalar", "w": "2026-08-04T12:00:00+02:00", "x": null, "s": null} \r\n',
    )
    assert series(record) == ([1.0], None)


@pytest.mark.parametrize(
    ("value", "stored_value"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (np.float32(0.5), 0.5), (np.int64(3), 3.0)],
)  # fmt: skip
def test_MW02_values(record, value, stored_value):
    log(record, ("loss", value, 1))
    assert json.loads((record / LOG).read_text())["v"] == stored_value
    assert np.array_equal(series(record)[0], [float(value)], equal_nan=True)


@pytest.mark.parametrize("value", ["0.5", None, True, [1.0], 2**53 + 1])
def test_MW02_a_scalar_is_a_number(record, value):
    with MetricsWriter(record) as writer:
        with refused(SchemaError, "meta_value", "metrics, loss"):
            writer.append("loss", value)
        writer.append("loss", 1.0)
    assert series(record) == ([1.0], None)
    if value != 2**53 + 1:
        put(record, line(value=value))
        with unreadable("bad_event", f"{LOG}, line 1"):
            _ = open_record(record).metrics


def test_MW02_times(record):
    zone = dt.timezone(dt.timedelta(hours=2))
    with MetricsWriter(record) as writer:
        writer.append("loss", 1.0, wall_time=dt.datetime(2026, 8, 4, 12, tzinfo=zone))
        writer.append("loss", 2.0)
        for bad in ("2026-08-04T12:00:00", "2026-08-04 12:00:00Z", "now", dt.datetime(2026, 8, 4, 12)):  # noqa: DTZ001
            with refused(SchemaError, "bad_event", "metrics, loss"):
                writer.append("loss", 3.0, wall_time=bad)
    times = open_record(record).metrics["loss"].wall_time.tolist()
    assert times[0] == "2026-08-04T12:00:00+02:00"
    now = dt.datetime.fromisoformat(times[1])
    assert abs(dt.datetime.now(dt.UTC) - now) < dt.timedelta(minutes=5)


@pytest.mark.parametrize("step", [1.5, "1", True, 2**63])
def test_MW02_a_step_is_an_integer(record, step):
    with MetricsWriter(record) as writer, refused(SchemaError, "meta_value", "metrics, loss"):
        writer.append("loss", 1.0, step)
    put(record, line(s=step))
    with unreadable("bad_event", f"{LOG}, line 1"):
        _ = open_record(record).metrics


def test_MW03_the_later_event_of_a_step_wins(record):
    log(record, ("loss", 1.0, 5), ("loss", 2.0, 6), ("other", 9.0, 5), ("loss", 3.0, 5), ("loss", 4.0, 7))
    assert series(record) == ([3.0, 2.0, 4.0], [5, 6, 7])
    assert series(record, "other") == ([9.0], [5])
    assert open_record(record).metrics["loss"].wall_time.tolist() == [T0.format(i) for i in (3, 1, 4)]


def test_MW03_events_without_a_step_are_never_merged(record):
    log(record, ("loss", 1.0), ("loss", 1.0), ("loss", 2.0, 3), ("loss", 5.0, 3), ("loss", 7.0))
    assert series(record) == ([1.0, 1.0, 5.0, 7.0], [None, None, 3, None])


def test_MW04_a_torn_tail_is_ignored(record):
    whole = line(value=1.0, step=1) + b"\n  \n\r\n" + line(value=2.0, step=2)
    for tail in (b"", b'{"t":"sca', b"\xff\xfe", line(value=3.0, step=3)[:-1]):
        put(record, whole + tail)
        assert series(record) == ([1.0, 2.0], [1, 2])
        assert validate(record) == []


def test_MW04_long_logs_are_read_in_pieces(record):
    put(record, b"".join(line(value=float(i), step=i, x="y" * 900) for i in range(3000)))
    assert (record / LOG).stat().st_size > 2 * 2**20
    assert series(record) == ([float(i) for i in range(3000)], list(range(3000)))


DAMAGED = [
    b"\xff\xfe\n",
    b"[1]\n",
    b"3\n",
    b"{}{}\n",
    b'{"t":"scalar"\n',
    b'{"t":"scalar","k":"loss","w":"2026-08-04T00:00:00Z","v":NaN}\n',
    line().replace(b'"k": "loss", ', b""),
    line().replace(b'"t": "scalar", ', b""),
    line(key=""),
    line(w="yesterday"),
    line(tags=[1]),
]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_MW05_a_damaged_line_is_named(record, damaged):
    put(record, line(step=1) + b"\n" + damaged + line(step=2))
    with open_record(record) as found:
        with unreadable("bad_event", f"{LOG}, line 3"):
            _ = found.metrics
        assert found.status == {"state": "running"}
    assert [(p.kind, p.loc) for p in validate(record)] == [("bad_event", f"{LOG}, line 3")]
    with unreadable("bad_event", f"{LOG}, line 3"):
        fold_metrics(record)


def test_MW06_a_torn_tail_is_cut_on_reopening(record):
    log(record, ("loss", 1.0, 1))
    sound = (record / LOG).read_bytes()
    for tail in (b'{"t":"scalar","k":"lo', b"x" * (3 * 2**20)):
        (record / LOG).write_bytes(sound + tail)
        with MetricsWriter(record):
            assert (record / LOG).read_bytes() == sound
    (record / LOG).write_bytes(sound + b"{")
    log(record, ("loss", 2.0, 2))
    assert series(record) == ([1.0, 2.0], [1, 2])
    (record / LOG).write_bytes(b"no line feed at all")
    log(record, ("loss", 3.0, 3))
    assert series(record) == ([3.0], [3])


def test_MW06_history_is_never_rewritten(record):
    log(record, ("loss", 1.0, 1), ("loss", 2.0, 1))
    before = (record / LOG).read_bytes()
    log(record, ("loss", 3.0, 1))
    fold_metrics(record)
    assert (record / LOG).read_bytes().startswith(before)
    assert len((record / LOG).read_bytes().splitlines()) == 3


def test_MW06_one_writer(record):
    with MetricsWriter(record) as writer:
        for second in (MetricsWriter, fold_metrics):
            with pytest.raises(LockedError):
                second(record)
        writer.append("loss", 1.0)
    log(record, ("loss", 2.0))
    assert series(record) == ([1.0, 2.0], None)


def test_MW06_beside_a_live_trajectory(tmp_path):
    path = tmp_path / "run.mrec"
    with TrajectoryWriter(path) as trajectory, MetricsWriter(path) as metrics:
        for step in range(3):
            trajectory.append(Frame({"atoms": Block({"x": [float(step)]})}))
            metrics.append("pe", -float(step), step)
    with open_record(path) as found:
        assert len(found.trajectory) == 3
        assert found.metrics["pe"].values.tolist() == [0.0, -1.0, -2.0]


def test_MW06_threads_write_whole_lines(record):
    with MetricsWriter(record) as writer:
        threads = [
            threading.Thread(target=lambda n=n: [writer.append(f"k{n}", float(i), i) for i in range(200)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n in range(4):
        assert series(record, f"k{n}") == ([float(i) for i in range(200)], list(range(200)))


def test_MW06_a_killed_writer_loses_no_line(record):
    code = (
        "import os, signal, sys; from molrec_core import MetricsWriter\n"
        "writer = MetricsWriter(sys.argv[1])\n"
        "for i in range(50): writer.append('loss', float(i), i)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(record)], check=False)
    log(record, ("loss", 50.0, 50))
    assert series(record) == ([float(i) for i in range(51)], list(range(51)))


def test_MW06_a_forked_child_must_not_write(record):
    with MetricsWriter(record) as writer:
        child = os.fork()
        if child == 0:
            try:
                writer.append("loss", 1.0)
            except LockedError as error:
                os._exit(7 if error.kind == "forked" else 1)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        writer.append("loss", 2.0)
    assert series(record) == ([2.0], None)


def test_MW06_flush_syncs_the_log_and_its_directories(record, monkeypatch):
    synced = []
    for name in ("sync_file", "sync_directory"):
        original = getattr(DirectoryStore, name)
        monkeypatch.setattr(
            DirectoryStore,
            name,
            lambda self, key, original=original: (synced.append(key), original(self, key))[1],
        )
    with MetricsWriter(record) as writer:
        synced.clear()
        writer.append("loss", 1.0)
        assert synced == []
        writer.flush()
        assert {LOG, "metrics"} <= set(synced)
        synced.clear()
        writer.append("loss", 2.0)
        writer.flush()
        assert synced == [LOG]
        synced.clear()
    assert synced == [LOG]


def test_MW06_after_a_failed_write(record, monkeypatch):
    writer = MetricsWriter(record)
    writer.append("loss", 1.0, 1)
    original = DirectoryStore.write

    def half(self, key, offset, buffers):
        original(self, key, offset, [b"".join(buffers)[:10]])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(DirectoryStore, "write", half)
        with pytest.raises(CommitError, match="No space left"):
            writer.append("loss", 2.0, 2)
    for act in (lambda: writer.append("loss", 3.0, 3), writer.flush):
        with pytest.raises(CommitError, match="an earlier write failed"):
            act()
    writer.close()
    writer.close()
    log(record, ("loss", 2.5, 2))
    assert series(record) == ([1.0, 2.5], [1, 2])


def test_MW06_after_closing(record):
    writer = MetricsWriter(record)
    writer.close()
    for act in (lambda: writer.append("loss", 1.0), writer.flush):
        with pytest.raises(ClosedError):
            act()


def test_MW06_there_must_be_a_record(tmp_path, record):
    with pytest.raises(RecordNotFoundError):
        MetricsWriter(tmp_path / "none.mrec")
    with pytest.raises(ReadOnlyError):
        MetricsWriter(pack(record))


# -- dense series


def test_MW07_dense_layout(record):
    log(record, ("train/loss", 1.0, 1), ("val", 3.0), ("train/loss", np.nan, 2), ("train/loss", 2.0, 1))
    assert fold_metrics(record) == 4
    assert nodes(record, "metrics") == [
        "series", "series/train%2Floss", "series/val", "steps", "steps/train%2Floss",
        "wall_time", "wall_time/train%2Floss", "wall_time/val",
    ]  # fmt: skip
    assert np.array_equal(stored(record, "metrics/series/train%2Floss"), [2.0, np.nan], equal_nan=True)
    assert stored(record, "metrics/steps/train%2Floss").tolist() == [1, 2]
    assert stored(record, "metrics/wall_time/train%2Floss").tolist() == [T0.format(3), T0.format(2)]
    types = [
        document(record, f"metrics/{part}/train%2Floss")["data_type"]
        for part in ("series", "steps", "wall_time")
    ]
    assert types == ["float64", "int64", "string"]
    assert validate(record, deep=True) == []


def test_MW07_a_fold_gives_the_same_series(record):
    log(record, ("a/b", 1.0, 1), ("c", 3.0), ("a/b", 2.0, 9), ("c", 4.0))
    with open_record(record) as found:
        before = {key: found.metrics[key] for key in found.metrics}
    fold_metrics(record)
    (record / LOG).unlink()
    with open_record(record) as found:
        metrics = found.metrics
        assert list(metrics) == list(before)
        for key, points in before.items():
            got = metrics[key]
            assert got.values.tobytes() == points.values.tobytes()
            assert (got.steps is None) == (points.steps is None)
            assert got.steps is None or got.steps.tolist() == points.steps.tolist()
            assert got.wall_time.tolist() == points.wall_time.tolist()
            assert got.type == "scalar"


def test_MW08_catalog(record):
    set_attributes_of_metrics = {"x_vendor": {"a": None}}
    make_group(record, "metrics", **set_attributes_of_metrics)
    log(record, ("train/loss", 1.0, 1), ("train/loss", 0.5, 2), ("epoch", 1.0))
    size = (record / LOG).stat().st_size
    fold_metrics(record)
    assert attributes(record, "metrics") == {
        "x_vendor": {"a": None},
        "series": {
            "train/loss": {"type": "scalar", "count": 2, "latest_step": 2, "latest_timestamp": T0.format(1)},
            "epoch": {"type": "scalar", "count": 1, "latest_step": None, "latest_timestamp": T0.format(2)},
        },
        "wal": {"lines": 3, "bytes": size},
    }


def test_MW08_a_torn_tail_and_blank_lines_in_the_watermark(record):
    data = line(step=1) + b"\n" + line(step=2)
    put(record, data + b"{torn")
    assert fold_metrics(record) == 3
    assert attributes(record, "metrics")["wal"] == {"lines": 3, "bytes": len(data)}


def test_MW09_lines_past_the_watermark(record):
    log(record, ("loss", 1.0, 1), ("loss", 2.0, 2))
    fold_metrics(record)
    replace_array(record, "metrics/series/loss", np.array([10.0, 20.0]))
    # Up to the watermark the dense series count, past it the log, under the same rule.
    assert series(record) == ([10.0, 20.0], [1, 2])
    log(record, ("loss", 5.0, 2), ("loss", 3.0, 3), ("new", 1.0))
    assert series(record) == ([10.0, 5.0, 3.0], [1, 2, 3])
    with open_record(record) as found:
        assert list(found.metrics) == ["loss", "new"]
        assert found.metrics.past == 3
    assert fold_metrics(record) == 3
    assert fold_metrics(record) == 0
    assert series(record) == ([1.0, 5.0, 3.0], [1, 2, 3])


def test_MW09_no_watermark_means_complete(record):
    log(record, ("loss", 1.0, 1))
    fold_metrics(record)
    log(record, ("loss", 2.0, 2))
    set_attributes(record, "metrics", wal=None)
    assert series(record) == ([1.0], [1])
    assert fold_metrics(record) == 0


def test_MW09_a_complete_section_takes_new_events(record):
    """A writer states where the log stands, so that what it appends counts; nothing dense is lost by a fold."""
    log(record, ("loss", 1.0, 1), ("loss", 2.0, 2))
    fold_metrics(record)
    (record / LOG).unlink()
    set_attributes(record, "metrics", wal=None)
    log(record, ("loss", 3.0, 3))
    assert attributes(record, "metrics")["wal"] == {"lines": 0, "bytes": 0}
    assert series(record) == ([1.0, 2.0, 3.0], [1, 2, 3])
    before = (record / "metrics/zarr.json").read_bytes()
    with refused(SchemaError, "not_foldable", "metrics, loss"):
        fold_metrics(record)
    assert (record / "metrics/zarr.json").read_bytes() == before
    assert series(record) == ([1.0, 2.0, 3.0], [1, 2, 3])


def test_MW09_a_reader_cuts_to_the_count(record):
    log(record, ("loss", 1.0, 1), ("loss", 2.0, 2))
    fold_metrics(record)
    replace_array(record, "metrics/series/loss", np.array([1.0, 2.0, 99.0]))
    replace_array(record, "metrics/steps/loss", np.array([1, 2, 99], np.int64))
    replace_array(record, "metrics/wall_time/loss", ["a", "b", "c"])
    assert series(record) == ([1.0, 2.0], [1, 2])


class PowerOutError(Exception):
    pass


def stop_everywhere(record, monkeypatch):
    """Stop a fold at each write, rename and removal in turn, reading the series after each stop."""
    log(record, ("loss", 1.0, 1), ("loss", 2.0, 2), ("val", 7.0))
    fold_metrics(record)
    log(record, ("loss", 8.0, 1), ("loss", 3.0, 3), ("val", 9.0))
    expected = {"loss": ([8.0, 2.0, 3.0], [1, 2, 3]), "val": ([7.0, 9.0], None)}
    for at in range(1, 200):
        left = [at]

        def counted(original, left=left):
            def call(self, *args):
                left[0] -= 1
                if left[0] < 0:
                    raise PowerOutError
                return original(self, *args)

            return call

        with monkeypatch.context() as broken:
            for name in ("create", "rename", "remove", "write"):
                broken.setattr(DirectoryStore, name, counted(getattr(DirectoryStore, name)))
            try:
                fold_metrics(record)
            except PowerOutError:
                assert {key: series(record, key) for key in expected} == expected, at
                continue
        assert {key: series(record, key) for key in expected} == expected
        return at - 1
    pytest.fail("the fold never ends")


def test_MW09_a_fold_that_stops_anywhere_loses_nothing(record, monkeypatch):
    assert stop_everywhere(record, monkeypatch) > 15
    assert validate(record, deep=True) == []
    assert fold_metrics(record) == 0


def test_MW09_the_test_above_sees_a_wrong_order(record, monkeypatch):
    """When the catalog keeps its claim while the arrays are replaced, a stop is noticed."""
    original = folding.create

    def keep_the_claim(store, documents, known):
        key, data = documents[0]
        if key != "metrics/zarr.json" or b'"wal"' in data:
            original(store, documents, known)

    monkeypatch.setattr(folding, "create", keep_the_claim)
    with pytest.raises((FormatError, AssertionError)):
        stop_everywhere(record, monkeypatch)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([("loss", 1.0, 1), ("loss", 2.0)], "some have none"),
        ([("loss", 1.0, 1), ("loss", {"p50": 1}, 2)], "not all numbers"),
    ],
)
def test_MW07_what_dense_series_cannot_hold_stays_in_the_log(record, events, why):
    with MetricsWriter(record) as writer:
        for key, value, *step in events:
            writer.append(key, value, *step, type="scalar" if isinstance(value, float) else "histogram")
    with refused(SchemaError, "not_foldable", "metrics, loss") as caught:
        fold_metrics(record)
    assert why in str(caught.value)
    assert nodes(record, "metrics") == []
    assert series(record)[0] == [event[1] for event in events]


def test_MW07_counts_and_dtypes_are_checked(record):
    log(record, ("loss", 1.0, 1), ("loss", 2.0, 2))
    fold_metrics(record)
    kept = {part: stored(record, f"metrics/{part}/loss") for part in ("series", "steps", "wall_time")}
    for part, bad, kind in (
        ("series", np.array([1.0]), "series_length"),
        ("series", np.array([1, 2]), "series_dtype"),
        ("series", np.zeros((2, 2)), "series_dtype"),
        ("steps", np.array([1.0, 2.0]), "series_dtype"),
        ("steps", np.array([1], np.int64), "series_length"),
        ("wall_time", np.array([1.0, 2.0]), "series_dtype"),
    ):
        replace_array(record, f"metrics/{part}/loss", bad)
        with unreadable(kind, f"metrics/{part}/loss"):
            _ = open_record(record).metrics
        assert [(p.kind, p.loc) for p in validate(record)] == [(kind, f"metrics/{part}/loss")]
        replace_array(record, f"metrics/{part}/loss", kept[part])
    assert series(record) == ([1.0, 2.0], [1, 2])
    remove(record, "metrics/series/loss")
    with unreadable("series_missing", "metrics/series"):
        _ = open_record(record).metrics


CATALOGS = [
    ({"series": []}, "metrics/series"),
    ({"series": {"loss": 3}}, "metrics, loss"),
    ({"series": {"loss": {"count": -1}}}, "metrics, loss"),
    ({"series": {"loss": {"count": True}}}, "metrics, loss"),
    ({"series": {"loss": {"count": 0, "type": 3}}}, "metrics, loss"),
    ({"wal": 3}, "metrics"),
    ({"wal": {"lines": 1}}, "metrics"),
    ({"wal": {"lines": 1, "bytes": 1.0}}, "metrics"),
]


@pytest.mark.parametrize(("catalog", "loc"), CATALOGS)
def test_MW08_a_malformed_catalog(record, catalog, loc):
    log(record, ("loss", 1.0, 1))
    fold_metrics(record)
    with changed(record, "metrics") as found:
        found["attributes"] |= catalog
    with unreadable("bad_catalog", loc):
        _ = open_record(record).metrics


def test_MW07_safe_names_both_ways(record):
    keys = ["train/loss", "%", "損失/训练", ".", "..", "__x", "plain-1_2.3"]
    log(record, *[(key, float(i)) for i, key in enumerate(keys)])
    fold_metrics(record)
    names = {n.partition("/")[2] for n in nodes(record, "metrics") if n.startswith("series/")}
    assert names == {
        "train%2Floss",
        "%25",
        "%E6%90%8D%E5%A4%B1%2F%E8%AE%AD%E7%BB%83",
        "%2E",
        "%2E.",
        "%5F_x",
        "plain-1_2.3",
    }
    (record / LOG).unlink()
    assert [series(record, key)[0] for key in keys] == [[float(i)] for i in range(len(keys))]


def test_MW07_an_escape_too_many_is_read_and_a_broken_one_refused(record):
    log(record, ("loss", 1.0))
    fold_metrics(record)
    (record / "metrics/series/loss").rename(record / "metrics/series/%6Coss")
    assert series(record) == ([1.0], None)
    (record / "metrics/series/%6Coss").rename(record / "metrics/series/%6coss")
    with unreadable("bad_name", "metrics/series/%6coss"):
        _ = open_record(record).metrics


@pytest.mark.parametrize("key", ["", "\ud800"])
def test_MW07_keys_without_a_safe_name(record, key):
    with MetricsWriter(record) as writer, refused(SchemaError, "bad_name", ""):
        writer.append(key, 1.0)


# -- reading along, hosts


def test_MW04_a_reader_follows_a_live_log(record):
    with MetricsWriter(record) as writer:
        writer.append("loss", 1.0, 1)
        metrics = open_record(record).metrics
        assert metrics.refresh() == 0
        writer.append("loss", 2.0, 2)
        writer.append("val", 5.0)
        assert metrics["loss"].values.tolist() == [1.0]
        assert metrics.refresh() == 2
        assert metrics["loss"].values.tolist() == [1.0, 2.0]
        assert (list(metrics), len(metrics), "val" in metrics, metrics.get("no")) == (
            ["loss", "val"],
            2,
            True,
            None,
        )
        with pytest.raises(SectionNotFoundError, match="loss, val"):
            _ = metrics["no"]


def test_MW04_a_packed_record_keeps_its_log(record):
    log(record, ("loss", 1.0, 1))
    fold_metrics(record)
    log(record, ("loss", 2.0, 2))
    packed = pack(record)
    assert series(packed) == ([1.0, 2.0], [1, 2])
    with pytest.raises(ReadOnlyError):
        fold_metrics(packed)


def test_MW09_without_metrics(record):
    with open_record(record) as found:
        assert found.get("metrics") is None
        with pytest.raises(SectionNotFoundError):
            _ = found.metrics
    assert fold_metrics(record) == 0


def test_MW10_host_surface(tmp_path):
    host = tmp_path / "metrics.mlp.jsonl"
    log(host, ("train/loss", 1.0, 1), ("train/loss", 2.0, 1))
    host.write_bytes(host.read_bytes() + b"{torn")
    log(host, ("train/loss", 3.0, 2))
    metrics = MetricsReader.from_log(host)
    assert metrics["train/loss"].values.tolist() == [2.0, 3.0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["metrics.mlp.jsonl"]
    with refused(SchemaError, "host_log", str(host)):
        fold_metrics(host)
    with pytest.raises(RecordNotFoundError):
        MetricsReader.from_log(tmp_path / "other.mlp.jsonl")
    with pytest.raises(RecordNotFoundError):
        MetricsWriter(tmp_path / "none" / "metrics.mlp.jsonl")
    for name in ("metrics.jsonl", ".mlp.jsonl"):
        with refused(SchemaError, "bad_name", str(tmp_path / name)):
            MetricsWriter(tmp_path / name)


def test_MW10_leftovers_are_ignored(tmp_path, record):
    artifacts = tmp_path / "executions" / "1" / "artifacts"
    artifacts.mkdir(parents=True)
    for name in (
        "metrics.mlp.jsonl",
        "val.mlp.jsonl",
        "metrics.mlp.index.json",
        "plot.mlp.vl.json",
        ".mlp.jsonl",
        "a.jsonl",
    ):
        (artifacts / name).write_bytes(b"")
    (artifacts / "metrics.mlp.zarr").mkdir()
    (artifacts / "metrics.mlp.zarr" / "x.mlp.jsonl").write_bytes(b"")
    (record / "y.mlp.jsonl").write_bytes(b"")
    (artifacts / "loop").symlink_to(tmp_path)
    assert find_metrics_logs(tmp_path) == [artifacts / "metrics.mlp.jsonl", artifacts / "val.mlp.jsonl"]
