"""Growth of one array under ``trajectory/``: rows in, whole chunks out.

A :class:`GrowingArray` buffers rows, answers whether a staged update differs from the
one before it, and lands chunks: payload first, at the tail of the shard, never over a
published chunk. Index entries it only remembers; :mod:`molrec_core._commit` publishes
them when the order on disk allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from molrec_core._change import differs, moved, rounded
from molrec_core._codecs import Buffer
from molrec_core._dtypes import COLUMN_DTYPES, STRING
from molrec_core._encoding import chunks_together, encode_chunks, takes_threads
from molrec_core._extents import row_bytes
from molrec_core._node import Layout, array_document, spell
from molrec_core._shard import (
    EMPTY_ENTRY,
    ENTRY_BYTES,
    Entry,
    Pending,
    Shard,
    empty_index,
    encode_index,
    index_bytes,
    is_empty,
)
from molrec_core._store import ZARR_JSON, DirectoryStore, join
from molrec_core._strings import packed_strings

Array = np.ndarray[Any, Any]
BUFFER_BYTES = 192 * 1024
"""Rows a column gathers before its whole chunks are landed."""
SHARED_BUFFER_BYTES = 2 * 1024 * 1024
"""The same where several threads encode them."""
_ROUNDED_ROWS = 8192


class GrowingArray:
    """One array that grows along its leading axis.

    Parameters
    ----------
    store : DirectoryStore
    key : str
        Key of the array.
    layout : Layout
        Sharded, index at the start.
    attributes : dict
        Attributes of the array.
    precision : float, optional
        Declared precision: rows are rounded as they are staged.
    run_ahead : bool
        Whether the stored shape may exceed the landed rows (`design` of the commit: never
        for ``step_index`` and the cell arrays).
    """

    def __init__(
        self,
        store: DirectoryStore,
        key: str,
        layout: Layout,
        attributes: dict[str, Any] | None = None,
        *,
        precision: float | None = None,
        run_ahead: bool = True,
    ) -> None:
        self.store = store
        self.key = key
        self.layout = layout
        self.attributes = attributes or {}
        self.precision = precision
        self.run_ahead = run_ahead
        self.dtype = layout.pipeline.dtype
        self.trailing = layout.pipeline.trailing
        self.numpy_dtype = COLUMN_DTYPES[self.dtype][0]
        self.rows = 0
        self.stored_rows = 0
        self.durable_rows = 0
        self._document: dict[str, Any] | None = None
        self._touched: set[str] = set()
        self._shards: dict[int, Shard] = {}
        self._pending: dict[int, Entry] = {}
        # Strings are kept packed until one comes that cannot be.
        self._packed = self.dtype == "string"
        self._buffer = np.empty(
            (layout.chunk_rows, *self.trailing), "S1" if self._packed else self.numpy_dtype
        )
        self._base = 0
        self._landed = 0
        self._tail_rows = 0
        self._previous = 0
        self._settled = 0
        self._staged: Array | None = None

    def _new_buffer(self, rows: int) -> Array:
        return np.empty((rows, *self.trailing), self._buffer.dtype)

    # -- rows in

    def staged(self, values: Array) -> Array:
        """Return `values` as they are stored: rounded where a precision is declared, strings packed if they can be."""
        if self.precision is not None:
            return rounded(values, self.precision)
        return self._held(values) if self.dtype == "string" else values

    def _held(self, values: Array) -> Array:
        """Return strings as the buffer holds them; it is made to hold them first."""
        if self._packed:
            packed = packed_strings(values)
            if packed is not None:
                if packed.itemsize > self._buffer.itemsize:
                    self._hold_as(packed.dtype)
                return packed
            self._packed = False
            self._hold_as(STRING)
        return values if values.dtype.kind == "T" else values.astype(STRING)

    def _hold_as(self, dtype: np.dtype[Any]) -> None:
        n = self.rows - self._base
        held = np.empty(self._buffer.shape, dtype)
        held[:n] = self._buffer[:n]
        self._buffer = held

    def changed(self, values: Array) -> bool:
        """Whether `values` (shape (n,) + trailing), once stored, differ in any bit from the last update."""
        if self.precision is not None:
            if moved(values, self.last_update(), self.precision):
                return True
            self._settle()
        staged = self.staged(values)
        self._staged = staged if differs(staged, self.last_update()) else None
        return self._staged is not None

    def differ(self, new: Array, old: Array | None) -> bool:
        """Whether two updates differ in any bit once they are stored; None stands for the last one taken."""
        if old is None:
            self._settle()
            staged = self.staged(new)
            return differs(staged, self.last_update())
        return differs(new, old) if self.precision is None else differs(self.staged(new), self.staged(old))

    def accept(self, values: Array, last: int | None = None) -> None:
        """Take `values` as the next update, or as the next few: the last one owns the `last` rows at the end."""
        n = len(values)
        rows = self.rows
        at = rows - self._base
        staged, self._staged = self._staged, None
        if staged is None:
            staged = self._held(values) if self.dtype == "string" else values
        if at + n > len(self._buffer):
            at = self._make_room(n)
        self._buffer[at : at + n] = staged
        self.rows = rows + n
        self._previous = rows if last is None else self.rows - last

    def _settle(self) -> None:
        """Round the rows taken since the last call: many at once cost less than those of each frame."""
        if self.precision is None or self._settled == self.rows:
            return
        for at in range(self._settled, self.rows, _ROUNDED_ROWS):
            rows = self._buffer[at - self._base : min(at + _ROUNDED_ROWS, self.rows) - self._base]
            rows[...] = rounded(rows, self.precision)
        self._settled = self.rows

    def reserve(self, rows: int) -> None:
        """Make room for `rows` rows before the first one comes, in whole chunks that stay in the processor's cache."""
        size = self.layout.chunk_rows
        room = SHARED_BUFFER_BYTES if takes_threads(self.layout) else BUFFER_BYTES
        need = -(-min(rows, room // row_bytes(self.dtype, self.trailing)) // size) * size
        if self.rows == 0 and need > len(self._buffer):
            self._buffer = self._new_buffer(need)

    def last_update(self) -> Array:
        """Return the rows of the last accepted update."""
        return self._buffer[self._previous - self._base : self.rows - self._base]

    def _make_room(self, n: int) -> int:
        """Land whole chunks, drop what is landed, grow when that is not enough; return where the next row goes."""
        land([self])
        keep = self._landed
        kept = self._buffer[keep - self._base : self.rows - self._base]
        need = len(kept) + n
        if need > len(self._buffer):
            grown = self._new_buffer(max(need, 2 * len(self._buffer)))
            grown[: len(kept)] = kept
            self._buffer = grown
        elif keep > self._base:
            # Overlapping on purpose: numpy moves such slices safely.
            self._buffer[: len(kept)] = kept
        self._base = keep
        return len(kept)

    def adopt(self, layout: Layout, document: dict[str, Any]) -> None:
        """Go on with the extents and the document of an array that is on disk."""
        self.layout = layout
        self._document = document
        self._buffer = self._new_buffer(layout.chunk_rows)

    def restore(
        self, rows: int, stored_rows: int, kept: Array, shards: dict[int, Shard], previous: int
    ) -> None:
        """Take up an array that is on disk: `kept` are its rows from the tail chunk or the last update on."""
        kept = self._held(kept) if self.dtype == "string" else kept
        self.rows = self.durable_rows = self._settled = rows
        self.stored_rows = stored_rows
        self._base = rows - len(kept)
        self._previous = previous
        self._landed = rows // self.layout.chunk_rows * self.layout.chunk_rows
        self._shards = shards
        if len(kept) > len(self._buffer):
            self._buffer = self._new_buffer(2 * len(kept))
        self._buffer[: len(kept)] = kept
        self._tail_rows = rows - self._landed

    def rewrite_tail(self) -> None:
        """Encode the tail chunk anew at the next landing, from the rows that are accepted."""
        self._tail_rows = -1

    def note_written(self, key: str) -> None:
        """Note a shard file that was written elsewhere, so that the next commit syncs it."""
        self._touched.add(key)

    # -- chunks out

    def whole_chunks(self) -> list[tuple[GrowingArray, int, Array]]:
        """Return the chunks that became whole since the last landing, several in a row where they are encoded together."""
        self._settle()
        size = self.layout.chunk_rows
        first, last = self._landed // size, self.rows // size
        run = chunks_together(self.layout)
        jobs = []
        for chunk in range(first, last, run):
            at = chunk * size - self._base
            jobs.append((self, chunk, self._buffer[at : at + min(run, last - chunk) * size]))
        if last > first:
            self._landed = last * size
            self._tail_rows = 0
        return jobs

    def tail_chunk(self) -> list[tuple[GrowingArray, int, Array]]:
        """Return the partial chunk behind the whole ones, padded with fill, if it has new rows."""
        self._settle()
        n = self.rows - self._landed
        if n == self._tail_rows:
            return []
        self._tail_rows = n
        padded = np.zeros((self.layout.chunk_rows, *self.trailing), self._buffer.dtype)
        at = self._landed - self._base
        padded[:n] = self._buffer[at : at + n]
        return [(self, self._landed // self.layout.chunk_rows, padded)]

    def write_chunks(self, encoded: list[tuple[int, list[Buffer] | None]]) -> None:
        """Write encoded chunks at the tails of their shards and remember their entries.

        A chunk that is all fill comes as None: nothing is written, its entry is to be empty.
        """
        batch: list[Buffer] = []
        shard: Shard | None = None
        for chunk, pieces in encoded:
            if pieces is None:
                self._pending[chunk] = EMPTY_ENTRY
                continue
            home = self._shard(chunk // self.layout.chunks_per_shard)
            if home is not shard:
                self._write_batch(shard, batch)
                shard, batch = home, []
                at = home.tail
            length = sum(map(len, pieces))
            self._pending[chunk] = (at, length)
            at += length
            batch += pieces
        self._write_batch(shard, batch)

    def _write_batch(self, shard: Shard | None, batch: list[Buffer]) -> None:
        if shard is not None and batch:
            shard.tail += self.store.write(shard.key, shard.tail, batch)
            self._touched.add(shard.key)

    def _shard(self, number: int) -> Shard:
        shard = self._shards.get(number)
        if shard is None:
            key = join(self.key, self.layout.object_key(number, 1 + len(self.trailing)))
            n_chunks = self.layout.chunks_per_shard
            shard = Shard(key, empty_index(n_chunks), index_bytes(n_chunks))
            index = encode_index(shard.entries)
            if number * n_chunks * self.layout.chunk_rows < self.durable_rows:
                # Durable rows that are all fill lie in a shard without a file; half a file would hide them.
                self.store.replace(key, index)
            else:
                self.store.write(key, 0, [index])
            self._touched.add(key)
            self._shards[number] = shard
        return shard

    # -- for the commit

    def take_pending(self) -> Pending:
        """Hand over what is landed and not yet published; empty entries that are empty already drop out."""
        taken, self._pending = self._pending, {}
        entries: dict[int, Entry] = {}
        replaced = set()
        for chunk, entry in taken.items():
            if entry == EMPTY_ENTRY:
                number, local = divmod(chunk, self.layout.chunks_per_shard)
                shard = self._shards.get(number)
                if shard is None or is_empty(shard.entries[local]):
                    continue
            entries[chunk] = entry
            # Also where nothing was stored: the durable rows of the chunk may be all fill.
            if chunk * self.layout.chunk_rows < self.durable_rows:
                replaced.add(self._shards[chunk // self.layout.chunks_per_shard].key)
        return Pending(entries, tuple(sorted(replaced)))

    def take_touched(self) -> set[str]:
        """Hand over the shard files written since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def publish(self, pending: Pending) -> None:
        """Write index entries in place, then the checksum of the index they make."""
        by_shard: dict[int, list[int]] = {}
        per_shard = self.layout.chunks_per_shard
        for chunk in pending.entries:
            by_shard.setdefault(chunk // per_shard, []).append(chunk)
        for number, changed in by_shard.items():
            shard = self._shards[number]
            first = number * per_shard
            shard.entries[[chunk - first for chunk in changed]] = [
                pending.entries[chunk] for chunk in changed
            ]
            stored = encode_index(shard.entries)
            lo, hi = (min(changed) - first) * ENTRY_BYTES, (max(changed) - first + 1) * ENTRY_BYTES
            self.store.write(shard.key, lo, [stored[lo:hi]])
            self.store.write(shard.key, ENTRY_BYTES * per_shard, [stored[ENTRY_BYTES * per_shard :]])
            self._touched.add(shard.key)

    def drop_finished(self) -> list[str]:
        """Forget shards that no later row falls into and that are published; return their keys."""
        per_shard = self.layout.chunks_per_shard
        current = self.rows // self.layout.chunk_rows // per_shard
        waiting = {chunk // per_shard for chunk in self._pending}
        done = [number for number in self._shards if number < current and number not in waiting]
        return [self._shards.pop(number).key for number in done]

    def wanted_rows(self, *, exact: bool) -> int:
        """Return the length the document should state: ahead of the rows where that saves rewrites."""
        if exact or not self.run_ahead:
            return self.rows
        if self.rows <= self.stored_rows:
            return self.stored_rows
        return self.rows + max(self.rows, self.layout.chunk_rows)

    def document(self, rows: int) -> tuple[str, bytes]:
        """Return key and bytes of the array's document at a length; what an older one says is kept."""
        shape = (rows, *self.trailing)
        document = self._document or array_document(self.dtype, shape, self.layout, self.attributes)
        return join(self.key, ZARR_JSON), spell({**document, "shape": list(shape)}, self.key)


def land(arrays: Iterable[GrowingArray], *, tails: bool = False) -> None:
    """Encode and write every chunk that became whole, and with `tails` the partial ones too.

    Raises
    ------
    OSError
        A write failed; nothing was published.
    """
    arrays = list(arrays)
    jobs = [job for array in arrays for job in array.whole_chunks()]
    if tails:
        jobs += [job for array in arrays for job in array.tail_chunk()]
    if not jobs:
        return
    encoded = encode_chunks([(array.layout, rows) for array, _, rows in jobs])
    at = 0
    while at < len(jobs):
        array, first = jobs[at][0], at
        while at < len(jobs) and jobs[at][0] is array:
            at += 1
        array.write_chunks(
            [
                (chunk + i, pieces)
                for (_, chunk, _), run in zip(jobs[first:at], encoded[first:at], strict=True)
                for i, pieces in enumerate(run)
            ]
        )
