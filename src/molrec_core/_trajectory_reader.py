"""Reading a trajectory: random access, lazy slices, bulk reads, bound by ``nstep``.

"Resolving a frame" of the ragged-trajectory chapter and the reopen rule of the
chunking chapter. Opening costs the documents of the sections, whatever the number of
frames; a reader beside a writer reads in the reverse order of the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Self, overload

import numpy as np

from molrec_core._array import open_array
from molrec_core._block_reader import BlockReader, open_meta
from molrec_core._box import Box
from molrec_core._box_reader import BoxReader
from molrec_core._bulk import read_bulk, read_validity
from molrec_core._derive import derive_schema, read_nstep
from molrec_core._dtypes import refuse
from molrec_core._fixed import get_array, get_group
from molrec_core._frame import Block, Frame
from molrec_core._group import system_rows
from molrec_core._links import Links
from molrec_core._progression import Progression, read_progression
from molrec_core._rows import ArrayReader
from molrec_core._schema import SequenceSchema
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, join
from molrec_core._view import FrameView
from molrec_core.errors import ClosedError, SectionNotFoundError

Array = np.ndarray[Any, Any]
KEY = "trajectory"


def open_series(
    store: Store, name: str, attributes: dict[str, Any], nstep: int
) -> Progression | ArrayReader | None:
    """Open ``step`` or ``time``: the attribute wins over an array (S14)."""
    document = attributes.get(f"{name}_progression")
    if document is not None:
        return read_progression(document, nstep, integer=name == "step", loc=KEY) if nstep else None
    key = f"{KEY}/{name}"
    node = get_array(store, key)
    if node is None or not nstep:
        return None
    want = "i64" if name == "step" else "f64"
    if node.dtype != want or len(node.shape) != 1:
        raise refuse(
            key, "series_dtype", f"{node.data_type} of shape {list(node.shape)}; {want} with one axis"
        )
    if node.rows < nstep:
        raise refuse(key, "array_short", f"{node.rows} values for {nstep} frames")
    return open_array(store, key, node)


def _no_section(_name: str) -> Frame | None:
    return None


class TrajectoryReader(Sequence[Frame]):
    """The frames of a record's trajectory.

    Indexing gives a :class:`Frame` whose columns are read-only arrays; slicing gives a
    lazy view. A reader pickles, may be shared by threads, and works after a fork.

    Attributes
    ----------
    schema : SequenceSchema
        The pinned declaration.

    Raises
    ------
    FormatError
        The section's documents break the contract.
    """

    def __init__(self, store: Store, *, sections: Callable[[str], Frame | None] = _no_section) -> None:
        self._store = store
        self._sections = sections
        self._marker = b""
        self._closed = False
        self._load()

    # -- opening

    def _load(self) -> None:
        """Read the section's documents: the marker first, a live writer replaces it last."""
        marker = self._store.get(join(KEY, ZARR_JSON))
        group = get_group(self._store, KEY)
        if marker is None or group is None:
            msg = "the record has no trajectory"
            raise SectionNotFoundError(msg, loc=KEY)
        attributes = group.attributes
        nstep = read_nstep(self._store, attributes)
        pinned = attributes.get("sequence_schema")
        schema = derive_schema(self._store, nstep) if pinned is None else SequenceSchema.from_json(pinned)
        blocks = {name: BlockReader(self._store, name, spec, nstep) for name, spec in schema.blocks.items()}
        box = BoxReader(self._store, nstep)
        meta = open_meta(self._store, schema, nstep)
        steps = open_series(self._store, "step", attributes, nstep)
        times = open_series(self._store, "time", attributes, nstep)
        if nstep and steps is None:
            raise refuse(
                KEY, "step_missing", f"{nstep} frames, but neither a step_progression nor a step array"
            )
        self.schema = schema
        self._nstep = nstep
        self._blocks, self._box, self._meta = blocks, box, meta
        self._series = {"step": steps, "time": times}
        self._expanded: dict[str, Array] = {}
        self._links = Links(schema, blocks, self._sections, partial(system_rows, self._store))
        self._marker = marker

    def refresh(self) -> int:
        """Take up what a writer has committed since; return the number of frames."""
        self._check_open()
        if isinstance(self._store, DirectoryStore):
            self._store.revalidate()
        marker = self._store.get(join(KEY, ZARR_JSON))
        if marker != self._marker:
            self._load()
        return self._nstep

    def close(self) -> None:
        """Refuse further reads; files belong to the record."""
        self._closed = True

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            msg = "the reader is closed; open the record again"
            raise ClosedError(msg, loc=self._store.path)

    # -- frames

    def __len__(self) -> int:
        """Return the number of committed frames, ``nstep``."""
        return self._nstep

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> FrameView: ...
    def __getitem__(self, index: int | slice) -> Frame | FrameView:
        """Return frame `index` (negative from the end), or a lazy view of a slice."""
        if isinstance(index, slice):
            return FrameView(self, range(*index.indices(self._nstep)))
        return self.frame(index)

    def __iter__(self) -> Iterator[Frame]:
        """Iterate over the frames in order."""
        for ordinal in range(self._nstep):
            yield self.frame(ordinal)

    def _ordinal(self, index: int) -> int:
        if self._closed:
            self._check_open()
        ordinal = index + self._nstep if index < 0 else index
        if not 0 <= ordinal < self._nstep:
            msg = f"frame {index} of a trajectory of {self._nstep} frames"
            raise IndexError(msg)
        return ordinal

    def frame(self, i: int, blocks: Sequence[str] | None = None) -> Frame:
        """Return frame `i`, or only some of its blocks.

        Parameters
        ----------
        i : int
            Negative from the end.
        blocks : sequence of str, optional
            Names of the blocks to resolve; all declared ones by default.

        Returns
        -------
        Frame
            Absent blocks are not in it; an emptied one is, with zero rows.
        """
        ordinal = self._ordinal(i)
        names = self._blocks if blocks is None else blocks
        found: dict[str, Block] = {}
        for name in names:
            block = self._reader(name).at(ordinal) if blocks is not None else self._blocks[name].at(ordinal)
            if block is not None:
                found[name] = block
        if self._links.any:
            self._links.check(ordinal, found)
        meta = {key: reader.at(ordinal) for key, reader in self._meta.items()} if self._meta else {}
        return Frame._trusted(found, self._box.at(ordinal), meta, self._tags())

    def _tags(self) -> dict[str, str]:
        return {key: reader.tag for key, reader in self._meta.items()} if self._meta else {}

    def _reader(self, block: str) -> BlockReader:
        self._check_open()
        reader = self._blocks.get(block)
        if reader is None:
            msg = f"no block {block!r} is declared; there are {', '.join(self._blocks) or 'none'}"
            raise SectionNotFoundError(msg, loc=join(KEY, block))
        return reader

    def source(self) -> tuple[TrajectoryReader, range]:
        """Return the reader and the ordinals this sequence stands for."""
        return self, range(self._nstep)

    # -- series

    def _expand(self, name: str) -> Array | None:
        self._check_open()
        series = self._series[name]
        if series is None:
            return None if name == "time" else np.zeros(0, np.int64)
        values = self._expanded.get(name)
        if values is None:
            values = (
                series.expand(self._nstep) if isinstance(series, Progression) else series.read(0, self._nstep)
            )
            if name == "step" and (values[1:] <= values[:-1]).any():
                bad = int(np.argmax(values[1:] <= values[:-1])) + 1
                raise refuse(
                    f"{KEY}/step", "step_order", f"entry {bad} is {values[bad]} after {values[bad - 1]}"
                )
            values.flags.writeable = False
            self._expanded[name] = values
        return values

    @property
    def steps(self) -> Array:
        """Step numbers of the frames, shape (n_frames,), int64."""
        steps = self._expand("step")
        assert steps is not None
        return steps

    @property
    def times(self) -> Array | None:
        """Times of the frames, shape (n_frames,), float64, record time units; None when the run has none."""
        return self._expand("time")

    def meta(self, key: str) -> Array | list[Any]:
        """Return a per-step meta key of every frame: shape (n_frames,) + trailing; a list for a json key."""
        self._check_open()
        reader = self._meta.get(key)
        if reader is None:
            msg = f"no per-step meta key {key!r}; there are {', '.join(self._meta) or 'none'}"
            raise SectionNotFoundError(msg, loc=f"{KEY}/meta/{key}")
        return reader.all()

    def meta_tag(self, key: str) -> str:
        """Return the tag of a per-step meta key."""
        return self._meta[key].tag

    @property
    def meta_keys(self) -> tuple[str, ...]:
        """Names of the per-step meta keys."""
        return tuple(self._meta)

    def box(self, i: int) -> Box | None:
        """Return the cell of frame `i`; None before the first one."""
        return self._box.at(self._ordinal(i))

    @property
    def box_updates(self) -> Array:
        """Ordinals at which the cell changed, int64."""
        self._check_open()
        return self._box.ordinals

    def counts(self, block: str, frames: slice | Sequence[int] | None = None) -> Array:
        """Return the rows of `block` in `frames` (default all), int64, one a frame; -1 where it is absent."""
        index = self._reader(block).index
        updates = index.updates_at(self._ordinals(frames))
        counts = np.full(len(updates), -1, np.int64)
        present = updates >= 0
        counts[present] = index.spans(updates[present])[1]
        return counts

    def updates(self, block: str) -> Array:
        """Return the ordinals at which `block` changed, int64."""
        return self._reader(block).index.ordinals

    # -- bulk

    def read(
        self,
        block: str,
        columns: str | Sequence[str],
        frames: slice | Sequence[int] | None = None,
        rows: Any = None,
        out: Array | None = None,
        dtype: Any = None,
        factor: float | None = None,
    ) -> Any:
        """Read columns of many frames at once, decoding nothing else.

        Parameters
        ----------
        block, columns : str, str or sequence of str
            Several columns share one dtype and give one array.
        frames : slice or sequence of int, optional
            Frames, in the order given; all by default.
        rows : int, slice or index array, optional
            Rows of each frame; all by default.
        out : array, optional
            Where to put the values; any float dtype.
        dtype : dtype, optional
            Of the array that is returned; that of the columns by default.
        factor : float, optional
            Multiplied in passing.

        Returns
        -------
        values : array
            Where every frame has one row count: shape ``(frames, rows[, columns][, trailing])``.
        (values, counts) : tuple of arrays
            Where row counts differ: flat rows, and the rows of each frame. A frame that
            carries an update forward repeats it.

        Raises
        ------
        FormatError
            ``block_absent``: the block is absent in one of the frames.
        """
        ordinals = self._ordinals(frames)
        return read_bulk(
            self._reader(block), columns, ordinals, rows=rows, out=out, dtype=dtype, factor=factor
        )

    def validity(self, block: str, column: str, frames: slice | Sequence[int] | None = None) -> Any:
        """Read the mask of a nullable column of many frames at once.

        Parameters
        ----------
        block, column : str
        frames : slice or sequence of int, optional
            As for :meth:`read`.

        Returns
        -------
        bool array, or tuple of (bool array, counts)
            True where the row holds a value; everywhere in a column without a mask. Shaped as
            what :meth:`read` returns, without trailing axes.

        Raises
        ------
        SectionNotFoundError
            There is no such column.
        FormatError
            ``block_absent``: the block is absent in one of the frames.
        """
        return read_validity(self._reader(block), column, self._ordinals(frames))

    def _ordinals(self, frames: slice | Sequence[int] | None) -> Array:
        self._check_open()
        if frames is None or isinstance(frames, slice):
            return np.arange(self._nstep)[frames or slice(None)]
        ordinals = np.array(frames, dtype=np.int64)
        for outside in ordinals[(ordinals < -self._nstep) | (ordinals >= self._nstep)].tolist():
            self._ordinal(outside)
        ordinals[ordinals < 0] += self._nstep
        return ordinals

    def dask(self, block: str, columns: str | Sequence[str]) -> Any:
        """Return columns of every frame as a lazy dask array, cut at chunk borders.

        Shape ``(n_frames, rows[, columns][, trailing])``.

        Raises
        ------
        FormatError
            ``ragged``: row counts differ, so there is no such array.
        """
        from molrec_core._bulk import dask_array

        return dask_array(self, self._reader(block), columns)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the store; the section is opened anew."""
        return _reopen, (self._store, self._sections)

    def __repr__(self) -> str:
        """Return the number of frames and the blocks."""
        return f"TrajectoryReader({self._nstep} frames: {', '.join(self._blocks)})"


def _reopen(store: Store, sections: Callable[[str], Frame | None]) -> TrajectoryReader:
    return TrajectoryReader(store, sections=sections)
