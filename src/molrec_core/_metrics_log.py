"""The metrics log: one JSON event a line, appended while a run goes on.

"Metrics" of the root-layout chapter; checklist group MW. The log of a record is the
plain file ``metrics/metrics.jsonl``, that of a host run any ``<stem>.mlp.jsonl``. A line
counts once its line feed is there; history is never rewritten.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from molrec_core._commit import create, settle_file
from molrec_core._document import is_timestamp
from molrec_core._dtypes import refuse
from molrec_core._fixed import get_group
from molrec_core._lock import WriterLock
from molrec_core._names import encode_name
from molrec_core._node import group_document
from molrec_core._paths import is_directory
from molrec_core._root import drop_consolidated, existing_store, record_path
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, join
from molrec_core._typedjson import check_document, coerce, decode, dumps, encode, loads
from molrec_core.errors import (
    ClosedError,
    CommitError,
    FormatError,
    LockedError,
    RecordNotFoundError,
    SchemaError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

SECTION = "metrics"
LOG = "metrics/metrics.jsonl"
HOST_SUFFIX = ".mlp.jsonl"
_PIECE = 2**20


@dataclass(frozen=True, slots=True)
class MetricEvent:
    """One line of a log.

    Attributes
    ----------
    key : str
        Key of the series, parts separated by ``/``.
    value : float or JSON value
        A float for a ``scalar``; as stored for a type of the producer's.
    step : int or None
        The producer's counter.
    wall_time : str
        RFC 3339, with an offset.
    type : str
        ``scalar``, or the producer's own.
    tags : dict or None
        Free labels.
    """

    key: str
    value: Any
    step: int | None
    wall_time: str
    type: str = "scalar"
    tags: dict[str, Any] | None = None


def encode_event(event: MetricEvent) -> bytes:
    """Return the line of an event, its line feed included.

    Raises
    ------
    SchemaError
        ``bad_event``: a value, step, time or tag that a line cannot hold.
    """
    loc = f"{SECTION}, {event.key}"
    encode_name(event.key)
    line: dict[str, Any] = {"t": event.type, "k": event.key}
    if event.step is not None:
        step = coerce(event.step, "i64", loc)
        line["s"] = step
    if not is_timestamp(event.wall_time):
        text = f"wall_time is {event.wall_time!r}; RFC 3339 with a T and an offset is expected"
        raise SchemaError.one(loc, "bad_event", text)
    line["w"] = event.wall_time
    scalar = event.type == "scalar"
    line["v"] = encode(coerce(event.value, "f64", loc), "f64") if scalar else event.value
    if event.tags is not None:
        line["tags"] = event.tags
    check_document(line, loc)
    return (dumps(line, loc) + "\n").encode("utf-8")


def decode_event(line: bytes, loc: str) -> MetricEvent:
    """Return the event of a complete line.

    Raises
    ------
    FormatError
        ``bad_event`` at `loc`: the line is damaged, it is no tail that a crash tore.
    """
    try:
        found = loads(line, loc)
        if not isinstance(found, dict):
            raise refuse(loc, "bad_event", "the line is not one JSON object")
        for name, key, kind in (("type", "t", str), ("key", "k", str), ("tags", "tags", dict)):
            if not isinstance(found.get(key, kind() if key == "tags" else None), kind):
                text = f"{name} ({key}) is {found.get(key)!r}; a {kind.__name__} is expected"
                raise refuse(loc, "bad_event", text)
        if not found["k"]:
            raise refuse(loc, "bad_event", "the key is empty")
        if not is_timestamp(found.get("w")):
            text = f"wall time (w) is {found.get('w')!r}; RFC 3339 with an offset is expected"
            raise refuse(loc, "bad_event", text)
        step = decode(found["s"], "i64", loc) if found.get("s") is not None else None
        value = decode(found.get("v"), "f64", loc) if found["t"] == "scalar" else found.get("v")
    except FormatError as error:
        text = f"{error.problems[0].message}; the log is damaged there, the lines before it are sound"
        raise refuse(loc, "bad_event", text) from None
    return MetricEvent(found["k"], value, step, found["w"], found["t"], found.get("tags"))


def read_lines(store: Store, key: str, offset: int = 0) -> Iterator[bytes]:
    """Yield the complete lines of a log from `offset`, each with its line feed; what a crash tore is left out."""
    size = store.size(key) or 0
    rest = b""
    while offset < size:
        piece = store.read(key, offset, min(_PIECE, size - offset))
        if not piece:
            return
        offset += len(piece)
        # A lost power leaves zeros where lines were not yet flushed: the log ends there.
        sound, hole, _ = piece.partition(b"\0")
        *lines, rest = (rest + sound).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if hole:
            return


class MetricsWriter:
    """Appends events to the log of a record or of a host run.

    Each event lands as a whole line at once, so that a killed run loses none; `flush`
    makes them durable. Opening a log again cuts a torn tail off first. Safe from threads;
    a log has one writer.

    Parameters
    ----------
    path : str or path-like
        A record that is there (``run.mrec``; it may have a live trajectory writer), or a
        host's ``<stem>.mlp.jsonl``, made when it is missing.

    Raises
    ------
    RecordNotFoundError
        There is no record, or no directory for the file.
    LockedError
        Another live writer has the log.

    Examples
    --------
    >>> with MetricsWriter("metrics.mlp.jsonl") as metrics:
    ...     metrics.append("train/loss", 0.42, step=120)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store, self._key = locate_log(path)
        self._guard = threading.RLock()
        self._known: set[str] = set()
        self._pid = os.getpid()
        self._failed = False
        self._closed = False
        if self._key == LOG:
            _prepare_section(self._store, self._known)
        self._store.write(self._key, 0, [])
        self._lock = WriterLock(Path(self._store.path) / self._key)
        self._end = self._cut_tail()

    def _cut_tail(self) -> int:
        """Cut what a crash tore, a hole or a line without its end; return the length that is left."""
        end = sum(len(line) for line in read_lines(self._store, self._key))
        if end < (self._store.size(self._key) or 0):
            self._store.truncate(self._key, end)
        return end

    @property
    def path(self) -> str:
        """Where the log is."""
        return str(Path(self._store.path) / self._key)

    def append(
        self,
        key: str,
        value: Any,
        step: int | None = None,
        *,
        wall_time: str | datetime | None = None,
        tags: Mapping[str, Any] | None = None,
        type: str = "scalar",  # noqa: A002 - the name of the field
    ) -> None:
        """Append one event.

        Parameters
        ----------
        key : str
            Key of the series, e.g. ``train/loss``.
        value : float
            May be NaN or infinite; any JSON value under a `type` of your own.
        step : int, optional
            Your counter. Of two events of one key and step the later counts.
        wall_time : str or datetime, optional
            RFC 3339 with an offset, or an aware datetime; now by default.
        tags : mapping, optional
            Labels, kept as they are.

        Raises
        ------
        SchemaError
            Something that a line cannot hold; nothing was written.
        CommitError
            The line could not be written; reopen the log to go on.
        """
        time = datetime.now(UTC) if wall_time is None else wall_time
        stamp = time.isoformat() if isinstance(time, datetime) else time
        line = encode_event(MetricEvent(key, value, step, stamp, type, None if tags is None else dict(tags)))
        with self._guard:
            self._check()
            try:
                self._store.write(self._key, self._end, [line])
            except OSError as error:
                # What landed of the line is a torn tail, which the next open cuts off.
                self._failed = True
                raise self._write_failed(error) from error
            self._end += len(line)

    def flush(self) -> None:
        """Make every event appended so far durable.

        Raises
        ------
        CommitError
            The sync failed; reopen the log to go on.
        """
        with self._guard:
            self._check()
            try:
                settle_file(self._store, self._key, self._known)
            except OSError as error:
                self._failed = True
                raise self._write_failed(error) from error

    def _check(self) -> None:
        if self._pid != os.getpid():
            msg = "a forked child must not write; open the log once the parent has closed it"
            raise LockedError(msg, loc=self.path, kind="forked")
        if self._closed:
            raise ClosedError("the log is closed", loc=self.path)
        if self._failed:
            msg = "an earlier write failed; open the log again to go on"
            raise CommitError(msg, path=self.path, stage="append")

    def _write_failed(self, error: OSError) -> CommitError:
        reason = error.strerror or str(error)
        return CommitError(f"{reason}; open the log again to go on", path=self.path, stage="append")

    def close(self) -> None:
        """Flush and let go of the log; closing twice does nothing."""
        with self._guard:
            if self._closed:
                return
            try:
                if not self._failed and self._pid == os.getpid():
                    self.flush()
            finally:
                self._closed = True
                self._store.close()
                self._lock.release()

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def locate_log(path: str | os.PathLike[str]) -> tuple[DirectoryStore, str]:
    """Return the store and key of the log of a record or of a host's file.

    Raises
    ------
    RecordNotFoundError
        There is no record, or the directory of the file is missing.
    SchemaError
        A ``.jsonl`` that is not named as a host's log.
    """
    plain = Path(os.fspath(path))
    if plain.suffix == ".jsonl":
        if not plain.name.endswith(HOST_SUFFIX) or plain.name == HOST_SUFFIX:
            text = f"a host's log is named <stem>{HOST_SUFFIX}; pass the record itself for {LOG}"
            raise SchemaError.one(str(plain), "bad_name", text)
        if not is_directory(plain.absolute().parent):
            raise RecordNotFoundError(f"the directory {str(plain.parent)!r} does not exist", loc=str(plain))
        return DirectoryStore(plain.parent), plain.name
    return existing_store(record_path(path)), LOG


def _prepare_section(store: DirectoryStore, known: set[str]) -> None:
    """Make the section when it is missing, and let a closed one take events again.

    Dense series without a watermark are complete, and what a log holds then does not
    count (MW09); stating where the log stands makes only the lines to come count.
    """
    node = get_group(store, SECTION)
    attributes = {} if node is None else node.attributes
    if node is not None and not (attributes.get("series") and "wal" not in attributes):
        return
    if attributes:
        lines = list(read_lines(store, LOG))
        attributes = attributes | {"wal": {"lines": len(lines), "bytes": sum(map(len, lines))}}
    drop_consolidated(store, known)
    base = None if node is None else node.document
    create(store, [(join(SECTION, ZARR_JSON), group_document(attributes, SECTION, base))], known)
