"""The test of the test: each guard of the commit order, switched off while a writer runs, must show."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from unittest import mock

import pytest

from molrec_core import _appending, _commit, _metrics_fold, _pack, _restore, _root
from molrec_core._column import GrowingArray
from molrec_core._sequence import SequenceWriter
from molrec_core._shard import EMPTY_ENTRY, Pending
from molrec_core._store import DirectoryStore
from molrec_core.testing.crash import WORKLOADS, run

STATES = 2000


@contextmanager
def payload_after_index():
    held = []
    publish = GrowingArray.publish

    def hold(self, shard, batch):
        if shard is not None and batch:
            data = b"".join(bytes(piece) for piece in batch)
            held.append((self.store, shard.key, shard.tail, data))
            shard.tail += len(data)
            self._touched.add(shard.key)

    def index_first(self, pending):
        publish(self, pending)
        while held:
            store, key, at, data = held.pop(0)
            store.write(key, at, [data])

    with mock.patch.multiple(GrowingArray, _write_batch=hold, publish=index_first):
        yield


@contextmanager
def no_sync_before_a_durable_row_moves():
    take = GrowingArray.take_pending
    with mock.patch.object(GrowingArray, "take_pending", lambda self: Pending(take(self).entries)):
        yield


@contextmanager
def entry_skipped_not_emptied():
    take = GrowingArray.take_pending

    def keep(self):
        found = take(self)
        return Pending({k: v for k, v in found.entries.items() if v != EMPTY_ENTRY}, found.replaced)

    with mock.patch.object(GrowingArray, "take_pending", keep):
        yield


@contextmanager
def stale_entries_kept():
    """Reopen leaves the entries of a dead run on disk, while the writer takes them for empty."""
    real = _restore.Restorer._open_shards

    def blind(self, *args):
        with mock.patch.object(DirectoryStore, "write", return_value=0):
            return real(self, *args)

    with mock.patch.object(_restore.Restorer, "_open_shards", blind):
        yield


@contextmanager
def replanned(change):
    plan = SequenceWriter.plan

    def other(self, **kwargs):
        found = plan(self, **kwargs)
        change(found)
        return found

    with mock.patch.object(SequenceWriter, "plan", other):
        yield


def columns_before_index():
    def swap(plan):
        plan.switches, plan.shapes = plan.shapes, plan.switches

    return replanned(swap)


def vectors_first():
    return replanned(lambda plan: plan.switches.reverse())


def attributes_go_first():
    """The cell's attributes, or a block's markers, go before what replaces them is there."""

    def swap(plan):
        plan.switches, plan.groups = plan.groups, plan.switches

    return replanned(swap)


@contextmanager
def trajectory_group_first():
    def lay_down(self, sequence):
        _commit.create(self._root.store, [sequence.marker()], self._root.known)
        _commit.create(self._root.store, sequence.creation(), self._root.known)
        self._begin(sequence)

    with mock.patch.object(_appending.Appending, "_lay_down", lay_down):
        yield


@contextmanager
def no_sync_before_the_marker():
    with mock.patch.object(GrowingArray, "take_touched", side_effect=set):
        yield


@contextmanager
def content_not_synced_before_its_rename():
    def replace(self, key, data):
        temporary = f"{key}.tmp"
        self.create(temporary, data)
        self.rename(temporary, key)

    with mock.patch.object(DirectoryStore, "replace", replace):
        yield


@contextmanager
def lengths_never_exact():
    wanted = GrowingArray.wanted_rows
    with mock.patch.object(GrowingArray, "wanted_rows", lambda self, *, exact: wanted(self, exact=False)):
        yield


@contextmanager
def index_lengths_run_ahead():
    real = GrowingArray.__init__

    def ahead(self, *args, **kwargs):
        real(self, *args, **{**kwargs, "run_ahead": True})

    with (
        mock.patch.object(GrowingArray, "__init__", ahead),
        mock.patch.object(
            GrowingArray,
            "wanted_rows",
            lambda self, *, exact: self.rows + 4 if "index" in self.key else self.rows,
        ),
    ):
        yield


@contextmanager
def smaller_marker_not_first():
    cut = _restore.Restorer._cut_marker

    def undurable(self, *args):
        with mock.patch.object(_restore, "replace", lambda store, document, _: store.replace(*document)):
            cut(self, *args)

    with mock.patch.object(_restore.Restorer, "_cut_marker", undurable):
        yield


@contextmanager
def going_on_after_a_failed_sync():
    deaf = property(lambda _: None, lambda _self, _error: None)
    with mock.patch.object(_appending.Appending, "_failed", deaf, create=True):
        yield


@contextmanager
def directories_not_synced():
    with mock.patch.object(DirectoryStore, "sync_directory", return_value=None):
        yield


@contextmanager
def system_not_synced():
    with mock.patch.object(_root.Root, "settle", lambda self: self.publish() if self._fresh else None):
        yield


@contextmanager
def old_record_removed_first():
    publish = _root.Root.publish

    def remove_first(self):
        if self._final is not None and self._old is not None:
            _root.remove_tree(self._final)
        publish(self)

    with mock.patch.object(_root.Root, "publish", remove_first):
        yield


@contextmanager
def archive_not_synced():
    def put(path, write):
        write(path)
        # Opened once, so that the recorder sees what the zip library wrote.
        os.close(os.open(path, os.O_RDONLY))

    with mock.patch.object(_pack, "put_file", put):
        yield


@contextmanager
def fold_not_synced_before_its_catalog():
    with mock.patch.object(_metrics_fold, "settle_tree", return_value=None):
        yield


@contextmanager
def catalog_keeps_its_claim():
    """The catalog states the old series while their arrays are replaced."""
    real = _metrics_fold.create

    def only_last(store, documents, known):
        if not getattr(only_last, "seen", False) and any("metrics/zarr.json" in key for key, _ in documents):
            only_last.seen = True
            return
        real(store, documents, known)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(_metrics_fold, "create", only_last))
        fold = _metrics_fold._fold

        def again(store):
            only_last.seen = False
            return fold(store)

        stack.enter_context(mock.patch.object(_metrics_fold, "_fold", again))
        yield


# Whether a killed process shows it, or only a lost power.
KILL, POWER = True, False
GUARDS = [
    (payload_after_index, "tail", KILL),
    (no_sync_before_a_durable_row_moves, "tail", POWER),
    (no_sync_before_a_durable_row_moves, "zeros", POWER),
    (entry_skipped_not_emptied, "after a dead run", KILL),
    (stale_entries_kept, "after a dead run", KILL),
    (columns_before_index, "same rows", KILL),
    (vectors_first, "cell with origin and boundary", KILL),
    (attributes_go_first, "cell", KILL),
    (attributes_go_first, "elision", KILL),
    (trajectory_group_first, "regular", POWER),
    (no_sync_before_the_marker, "regular", POWER),
    (content_not_synced_before_its_rename, "regular", POWER),
    (lengths_never_exact, "elision", KILL),
    (index_lengths_run_ahead, "ragged", KILL),
    (smaller_marker_not_first, "after_step", POWER),
    (going_on_after_a_failed_sync, "failed sync", KILL),
    (directories_not_synced, "regular", POWER),
    (system_not_synced, "overwrite", POWER),
    (old_record_removed_first, "overwrite", KILL),
    (archive_not_synced, "pack", POWER),
    (fold_not_synced_before_its_catalog, "metrics", POWER),
    (catalog_keeps_its_claim, "metrics", KILL),
]


@pytest.mark.parametrize(
    ("guard", "workload", "kills"), GUARDS, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_a_guard_switched_off_shows(guard, workload, kills):
    """With this rule broken some state loses or changes a frame; else the suite would prove nothing."""
    report = run(WORKLOADS[workload], least=STATES, stop=True, kills=kills, during=guard())
    assert report.failures, f"{report} although {guard.__name__}"
    print(report.failures[0])
