"""The order on disk: the only module that decides when to sync.

"Commit protocol" of the chunking chapter and the rules it leaves open: payload before
index, a durable row stays durable, what replaces lands before what it replaces goes,
the marker never outruns its data. Callers fill a :class:`Plan`; :func:`execute` is
the one place where the order stands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from molrec_core._column import GrowingArray
from molrec_core._paths import remove_file, replace_path
from molrec_core._shard import Pending
from molrec_core._store import DirectoryStore, sync_path
from molrec_core.errors import CommitError

Document = tuple[str, bytes]


@dataclass(slots=True)
class Plan:
    """What one commit puts on disk, in the order of its fields.

    Attributes
    ----------
    landed : list of (GrowingArray, Pending)
        Landed chunks whose index entries are to be published.
    files : set of str
        Shard files written since the last commit.
    switches : list of Document
        Documents that take over from what they replace: ``offset`` before ``step_index``,
        ``origin``, ``boundary`` and ``step_index`` before ``box/vectors``, a ``step``
        or ``time`` array before its attribute goes.
    shapes : list of Document
        Array documents with a new length.
    groups : list of Document
        Block and cell documents, with markers or cell attributes gained or dropped.
    marker : Document or None
        The trajectory group with the new ``nstep``.
    """

    landed: list[tuple[GrowingArray, Pending]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    switches: list[Document] = field(default_factory=list)
    shapes: list[Document] = field(default_factory=list)
    groups: list[Document] = field(default_factory=list)
    marker: Document | None = None

    def take(self, array: GrowingArray) -> None:
        """Take over what `array` has landed."""
        pending = array.take_pending()
        if pending.entries:
            self.landed.append((array, pending))
        self.files |= array.take_touched()


def execute(store: DirectoryStore, plan: Plan, known: set[str]) -> None:
    """Put a plan on disk; what it counts is durable when its marker is.

    Parameters
    ----------
    store : DirectoryStore
    plan : Plan
    known : set of str
        Files and directories whose entries are durable already; new ones are added.

    Raises
    ------
    CommitError
        A write or sync failed; the marker was not replaced.
    """
    stage = "sync of the chunks that replace durable ones"
    try:
        for key in sorted({key for _, pending in plan.landed for key in pending.replaced}):
            store.sync_file(key)
        stage = "shard indexes"
        for array, pending in plan.landed:
            array.publish(pending)
            plan.files |= array.take_touched()
        stage = "sync of the shards"
        for key in sorted(plan.files):
            store.sync_file(key)
        for key in sorted(plan.files):
            _sync_entry(store, key, known)
        stage = "documents"
        for document in (*plan.switches, *plan.shapes, *plan.groups):
            replace(store, document, known)
        stage = "commit marker"
        if plan.marker is not None:
            replace(store, plan.marker, known)
    except OSError as error:
        raise CommitError(
            f"{stage}: {error.strerror or error}; the record stays at its last commit, reopen it to go on",
            path=store.path,
            stage=stage,
        ) from error


def replace(store: DirectoryStore, document: Document, known: set[str]) -> None:
    """Replace a document for good: content synced before the rename, the rename before what comes next."""
    key, data = document
    store.replace(key, data)
    known.discard(key)
    _sync_entry(store, key, known)


def _sync_entry(store: DirectoryStore, key: str, known: set[str]) -> None:
    """Sync the directory entry of a file unless it is known to be durable, and those of new directories above it."""
    while key not in known:
        known.add(key)
        if not key:
            break
        key = key.rpartition("/")[0]
        store.sync_directory(key)


def settle_file(store: DirectoryStore, key: str, known: set[str]) -> None:
    """Make an object that was written to, and the directory entries above it, durable."""
    store.sync_file(key)
    _sync_entry(store, key, known)


def create(store: DirectoryStore, documents: Sequence[Document], known: set[str]) -> None:
    """Lay down new nodes; when it returns they are durable, their directories up to the record's parent too."""
    for document in documents:
        store.replace(*document)
        known.discard(document[0])
    for document in documents:
        _sync_entry(store, document[0], known)


def settle_entry(store: DirectoryStore) -> None:
    """Sync the directory that holds the record."""
    sync_path(Path(store.path).resolve().parent)


def settle_tree(store: DirectoryStore, key: str) -> None:
    """Sync every file and directory below a key."""
    directories, files = store.children(key)
    prefix = f"{key}/" if key else ""
    for name in files:
        store.sync_file(prefix + name)
    for name in directories:
        settle_tree(store, prefix + name)
    store.sync_directory(key)


def put_file(path: Path, write: Callable[[Path], None]) -> None:
    """Make a file appear whole: `write` fills a temporary beside it, which is synced and renamed."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        sync_path(temporary)
        replace_path(temporary, path)
    finally:
        remove_file(temporary)
    sync_path(path.resolve().parent)


class Committer:
    """Commits behind the appending thread: on request at most once a second, and after a deadline.

    Parameters
    ----------
    commit : callable
        Commits everything appended so far; raises CommitError, after which it is not called again.
    interval : float
        Least seconds between two commits made on request.
    """

    def __init__(self, commit: Callable[[], None], interval: float = 1.0) -> None:
        self._commit = commit
        self._interval = interval
        self._wake = threading.Condition()
        self._due: float | None = None
        self._last = monotonic()
        self._stopped = False
        self.thread: threading.Thread | None = None

    def request(self, delay: float | None = None) -> None:
        """Ask for a commit: within the interval, or within `delay` seconds."""
        with self._wake:
            due = monotonic() + delay if delay is not None else self._last + self._interval
            if self._due is None or due < self._due:
                self._due = due
                self._wake.notify()
            if self.thread is None and not self._stopped:
                self.thread = threading.Thread(target=self._run, name="molrec-commit", daemon=True)
                self.thread.start()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._stopped and (self._due is None or self._due > monotonic()):
                    self._wake.wait(None if self._due is None else max(self._due - monotonic(), 0.0))
                if self._stopped:
                    return
                self._due = None
            try:
                self._commit()
            except CommitError:
                # The writer remembers it and raises it at the next append or flush.
                return
            with self._wake:
                self._last = monotonic()

    def done(self) -> None:
        """Note that a commit was made elsewhere: nothing is due."""
        with self._wake:
            self._due = None
            self._last = monotonic()

    def stop(self) -> None:
        """Stop the thread and wait for a commit under way."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()
