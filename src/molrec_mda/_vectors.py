"""Positions, velocities and forces of a run, read ahead in float32.

A loop over frames takes a copy of 12 bytes an atom out of a window that one bulk read
filled; a jump, or a frame that is a window of its own, is read straight into the
timestep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from molrec_mda._run import Run

Array = np.ndarray[Any, Any]

WINDOW_BYTES = 2**20
"""Float32 bytes a window holds: it should stay in a core's cache until it is copied out."""
_CHUNK_ROWS = 2048


class Vectors:
    """One vector quantity of every frame of a run.

    Parameters
    ----------
    run : Run
    block : str
        ``atoms``, ``velocities`` or ``forces``.
    columns : sequence of str
        Its three columns.
    factor : float
        From the record's unit to that of MDAnalysis.
    """

    def __init__(self, run: Run, block: str, columns: Sequence[str], factor: float) -> None:
        self.run = run
        self.block = block
        self.columns = list(columns)
        self.factor = None if factor == 1.0 else factor
        self._lo = self._hi = 0
        self._buffer = np.empty((0, run.n_atoms, 3), np.float32)
        per_frame = max(1, 12 * run.n_atoms)
        # The reference writer puts this many frames in a chunk; windows that end with a chunk decode each once.
        self._per_chunk = max(1, -(-_CHUNK_ROWS // max(1, run.n_atoms)))
        self._frames = max(1, WINDOW_BYTES // per_frame // self._per_chunk * self._per_chunk)
        self._missing = self._find_missing()

    def _find_missing(self) -> Array | None:
        """Return which frames lack the quantity; None when none does."""
        if self.block == "atoms" or self.run.trajectory is None:
            return None
        missing = self.run.trajectory.counts(self.block)[_index(self.run.ordinals)] != self.run.n_atoms
        return missing if missing.any() else None

    def present(self, frame: int) -> bool:
        """Whether the frame has the quantity; of no atoms, none has."""
        return self._missing is None or not self._missing[frame]

    def fill(self, frame: int, target: Array, *, sequential: bool) -> None:
        """Put the values of `frame` into `target`, (n_atoms, 3) float32.

        Parameters
        ----------
        sequential : bool
            Whether the frame follows the last one, so that reading ahead pays.
        """
        if not self._lo <= frame < self._hi:
            if self._frames == 1 or not sequential:
                self.read(slice(frame, frame + 1), target[None])
                return
            self._load(frame)
            if not self._lo <= frame < self._hi:
                self.read(slice(frame, frame + 1), target[None])
                return
        np.copyto(target, self._buffer[frame - self._lo])

    def _load(self, frame: int) -> None:
        end = frame - frame % self._per_chunk + self._frames
        stop = min(end, len(self.run.ordinals))
        if self._missing is not None and self._missing[frame:stop].any():
            stop = frame + int(self._missing[frame:stop].argmax())
        if len(self._buffer) < stop - frame:
            self._buffer = np.empty((self._frames, self.run.n_atoms, 3), np.float32)
        self.read(slice(frame, stop), self._buffer[: stop - frame])
        self._lo, self._hi = frame, stop

    def read(self, frames: slice | Sequence[int], out: Array | None = None, rows: Any = None) -> Array:
        """Read many frames at once, float32, shape (n_frames, n_rows, 3).

        Parameters
        ----------
        frames : slice or sequence of int
            Frames as the host counts them.
        out : array, optional
            Where to put them.
        rows : index array, optional
            Atoms; all by default.
        """
        if self.run.trajectory is None:
            return self._read_single(frames, out, rows)
        ordinals = self.run.ordinals
        chosen: Any = ordinals[frames] if isinstance(frames, slice) else np.asarray(ordinals)[list(frames)]
        if isinstance(chosen, range):
            # A range that runs down to its first frame has no stop a slice could spell.
            stop = chosen.stop if chosen.stop >= 0 else None
            chosen = slice(chosen.start, stop, chosen.step) if len(chosen) else slice(0, 0)
        values: Array = self.run.trajectory.read(
            self.block, self.columns, chosen, rows=rows, out=out, dtype=np.float32, factor=self.factor
        )
        return values

    def _read_single(self, frames: slice | Sequence[int], out: Array | None, rows: Any) -> Array:
        assert self.run.single is not None
        block = self.run.single[self.block]
        values = np.stack([block[name] for name in self.columns], axis=1) * (self.factor or 1.0)
        count = len(range(1)[frames]) if isinstance(frames, slice) else len(frames)
        result = np.broadcast_to(
            values if rows is None else values[rows], (count, *values[rows or slice(None)].shape)
        )
        if out is None:
            return result.astype(np.float32)
        out[...] = result
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what was read ahead."""
        return {**self.__dict__, "_lo": 0, "_hi": 0, "_buffer": self._buffer[:0]}


def _index(ordinals: range | Array) -> Any:
    """Return ordinals as something an array takes without a copy."""
    return slice(ordinals.start, ordinals.stop) if isinstance(ordinals, range) else ordinals


def per_frame(series: Array | None, ordinals: range | Array) -> Array | None:
    """Return a series of the record at the frames the host sees."""
    return None if series is None else series[_index(ordinals)]
