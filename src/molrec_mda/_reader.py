"""Reading a record as a trajectory of MDAnalysis."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Self

import numpy as np
from MDAnalysis.coordinates.base import ReaderBase
from MDAnalysis.coordinates.timestep import Timestep
from MDAnalysis.lib.util import store_init_arguments

from molrec_core import Record
from molrec_core.units import Conversion
from molrec_mda._data import DataReader
from molrec_mda._run import QUANTITIES, Run, is_record_path, places
from molrec_mda._vectors import Vectors, per_frame

Array = np.ndarray[Any, Any]

UNITS = {
    "time": "ps",
    "length": "Angstrom",
    "velocity": "Angstrom/ps",
    "force": "kJ/(mol*Angstrom)",
}


class MrecReader(ReaderBase):
    """Reads a record: ``mda.Universe("run.mrec")`` after ``import molrec_mda``.

    Positions in Å, velocities in Å/ps, forces in kJ/(mol Å), (n_atoms, 3) float32; times
    in ps, float64 as stored. Velocities, forces and the cell are there on the frames that
    have them; ``ts.data`` holds the per-step scalars and arrays of the record.

    Parameters
    ----------
    filename : str, path-like or zarr store
        A directory, with or without a trailing slash, a ``*.mrec.zip``, or a URL.
    convert_units : bool
        False: the numbers as they are.
    n_atoms : int, optional
        Selects the frames of this count where the number of atoms changes; a universe
        passes its own.
    allow_changing_topology : bool
        Read a record whose atoms or bonds change under the topology of the first frame.
    storage_options : mapping, optional
        For a URL, passed to fsspec.
    dt : float, optional
        Time between frames in ps, only for a record without times.
    time_offset : float, optional
        Added to every time, in ps.

    Raises
    ------
    ValueError
        The number of atoms or the topology changes, or there are no frames or positions.
    RecordNotFoundError, FormatError
        There is no record, or it breaks the contract.

    Warns
    -----
    MolrecUnitsWarning
        The record does not state its units.
    UserWarning
        A cell is not in the orientation MDAnalysis assumes: positions stay as stored.
    """

    format = "MREC"
    units = UNITS

    @staticmethod
    def _format_hint(thing: object) -> bool:
        return is_record_path(thing)

    @store_init_arguments
    def __init__(
        self,
        filename: Any,
        convert_units: bool = True,
        n_atoms: int | None = None,
        allow_changing_topology: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(filename, convert_units=convert_units, **kwargs)
        self._source = os.fspath(filename) if isinstance(filename, os.PathLike) else filename
        self._options: dict[str, Any] = {
            "n_atoms": n_atoms,
            "allow_changing_topology": allow_changing_topology,
            "convert_units": convert_units,
            "storage_options": storage_options,
        }
        self._run: Run | None = None
        self._frame = -1
        self._keys: AbstractSet[str] = set()
        self._told = {"dt": False, "cell": False}
        self._open(warn=True)
        self.ts = self._Timestep(self.n_atoms, reader=self, **self._ts_kwargs)
        self.next()

    # -- opening

    def _open(self, *, warn: bool = False) -> Run:
        run = self._run = Run(self._source, **self._options)
        self.n_atoms = run.n_atoms
        self._conversion: Conversion = run.conversion(warn=warn)
        self._bind(run)
        if warn and run.left_out:
            warnings.warn(
                f"{self.filename}: {self.n_frames} frames have {self.n_atoms} atoms; "
                f"the other {run.left_out} are left out",
                stacklevel=4,
            )
        return run

    def _bind(self, run: Run) -> None:
        """Look at the frames the record has now."""
        where = places(run)
        self._check_readable(run, where)
        factors = {
            "positions": self._conversion.length,
            "velocities": self._conversion.velocity,
            "forces": self._conversion.force,
        }
        vectors = {name: Vectors(run, *where[name], factors[name]) for name in QUANTITIES if name in where}
        self._positions = vectors.pop("positions")
        self._optional = tuple(vectors.items())
        self._data = DataReader(run, self._conversion)
        if self._data.odd_cell:
            self._tell_cell()
        self._take_series(run)

    def _check_readable(self, run: Run, where: Mapping[str, Any]) -> None:
        if not len(run.ordinals):
            msg = (
                f"{self.filename}: the record has no frames; for its topology alone, "
                "mda.Universe(molrec_mda.MrecParser(path).parse())"
            )
            raise ValueError(msg)
        if "positions" not in where:
            msg = f"{self.filename}: no columns x, y and z in the block atoms, so there are no positions to read"
            raise ValueError(msg)

    def _take_series(self, run: Run) -> None:
        times = None if run.trajectory is None else per_frame(run.trajectory.times, run.ordinals)
        steps = None if run.trajectory is None else per_frame(run.trajectory.steps, run.ordinals)
        factor = self._conversion.time
        self._times = times if times is None or factor == 1.0 else times * factor
        self._steps = np.zeros(1, np.int64) if steps is None else steps
        self.n_frames = len(run.ordinals)
        if self._times is not None:
            # The record's own times win over an assumed step between frames.
            self._ts_kwargs.pop("dt", None)

    @property
    def record(self) -> Record:
        """The record that is read."""
        return self._opened().record

    def _opened(self) -> Run:
        return self._run if self._run is not None else self._open()

    @property
    def has_times(self) -> bool:
        """Whether the frames' times are known: stored, or given by ``dt=``."""
        return self._times is not None or "dt" in self._ts_kwargs

    @classmethod
    def parse_n_atoms(
        cls, filename: Any, storage_options: Mapping[str, Any] | None = None, **_kwargs: Any
    ) -> int:
        """Return the number of atoms of a record.

        Raises
        ------
        ValueError
            It changes.
        """
        run = Run(filename, allow_changing_topology=True, storage_options=storage_options)
        with run.record:
            return run.n_atoms

    def refresh(self) -> int:
        """Take up the frames a writer has committed since; return ``n_frames``."""
        run = self._opened()
        run.refresh()
        self._bind(run)
        return int(self.n_frames)

    def close(self) -> None:
        """Close the record; it is opened again when a frame is asked for."""
        run, self._run = getattr(self, "_run", None), None
        if run is not None:
            run.record.close()

    def _reopen(self) -> None:
        self._frame = -1
        self.ts.frame = -1

    # -- frames

    def _read_next_timestep(self, ts: Timestep | None = None) -> Timestep:
        del ts
        if self._frame + 1 >= self.n_frames:
            raise EOFError
        try:
            return self._read_frame(self._frame + 1)
        except OSError as error:
            # MDAnalysis takes an OSError for the end of the trajectory.
            msg = f"{self.filename}: frame {self._frame + 1} cannot be read: {error}"
            raise RuntimeError(msg) from error

    def _read_frame(self, frame: int) -> Timestep:
        run = self._run
        if run is None:
            run = self._open()
        ts = self.ts
        sequential = frame == self._frame + 1 and frame > 0
        if not ts.has_positions:
            ts.has_positions = True
        self._positions.fill(frame, ts._pos, sequential=sequential)  # noqa: SLF001 - the timestep's own buffer
        for quantity, vectors in self._optional:
            if vectors.present(frame):
                setattr(ts, f"has_{quantity}", True)
                vectors.fill(frame, getattr(ts, quantity), sequential=sequential)
            else:
                setattr(ts, f"has_{quantity}", False)
        self._frame = ts.frame = frame
        if self._times is not None:
            ts.data["time"] = self._times.item(frame)
        if self._data.constant:
            ts.data["step"] = self._steps.item(frame)
            ts.dimensions = self._data.fixed_dimensions
        else:
            self._read_data(ts, int(run.ordinals[frame]))
        return ts

    def _read_data(self, ts: Timestep, ordinal: int) -> None:
        frame = self._data.frame(ordinal)
        data = self._data.data(ordinal, frame, self._steps.item(self._frame))
        for gone in self._keys - data.keys():
            ts.data.pop(gone, None)
        ts.data.update(data)
        self._keys = data.keys()
        ts.dimensions = self._data.dimensions(frame)
        if self._data.odd_cell:
            self._tell_cell()

    def _tell_cell(self) -> None:
        if not self._told["cell"]:
            self._told["cell"] = True
            warnings.warn(
                f"{self.filename}: the cell is not along x and in the xy plane as MDAnalysis assumes; "
                "positions are as stored, dimensions are its lengths and angles",
                stacklevel=4,
            )

    def _get_dt(self) -> float:
        if self._times is not None and self.n_frames > 1:
            return float(self._times[1] - self._times[0])
        if self._times is None and self.n_frames > 1 and not self._told["dt"]:
            self._told["dt"] = True
            warnings.warn(
                f"{self.filename}: the record has no times; frames are taken to be 1 ps apart (dt= says otherwise)",
                stacklevel=3,
            )
        return 1.0

    def check_slice_indices(
        self, start: int | None, stop: int | None, step: int | None
    ) -> tuple[int, int, int]:
        """Return what a slice selects, exactly as for a list; with a start before the first frame too.

        Raises
        ------
        TypeError
            Something that is no integer.
        ValueError
            A step of zero.
        """
        return slice(start, stop, step).indices(self.n_frames)

    def timeseries(
        self,
        asel: Any = None,
        atomgroup: Any = None,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        order: str | None = "fac",
    ) -> Array:
        """Return positions of many frames, read in one pass; only the chosen atoms are kept.

        Parameters
        ----------
        asel, atomgroup : AtomGroup, optional
            Atoms; all by default. `asel` is the older name.
        start, stop, step : int, optional
            Frames, as in a slice.
        order : str
            Axes of the result: (f)rame, (a)tom, (c)oordinate.

        Returns
        -------
        (n_frames, n_atoms, 3) float32 array, Å, axes in the order asked for

        Raises
        ------
        ValueError
            No atoms, or an order that is no permutation of ``fac``.
        """
        if self.transformations:
            # They act on whole timesteps, one after the other.
            series: Array = super().timeseries(asel, atomgroup, start, stop, step, order)
            return series
        if asel is not None:
            warnings.warn(
                "asel argument to timeseries will be renamed to'atomgroup' in 3.0, see #3911",
                category=DeprecationWarning,
                stacklevel=2,
            )
            if atomgroup:
                msg = "Cannot provide both asel and atomgroup kwargs"
                raise ValueError(msg)
            atomgroup = asel
        if atomgroup is not None and len(atomgroup) == 0:
            msg = "Timeseries requires at least one atom to analyze"
            raise ValueError(msg)
        order = order or "fac"
        if sorted(order) != sorted("fac"):
            msg = f"the order {order!r} is no permutation of 'fac'"
            raise ValueError(msg)
        self._opened()
        frames = range(*self.check_slice_indices(start, stop, step))
        rows = None if atomgroup is None else np.asarray(atomgroup.indices)
        stop = frames.stop if frames.stop >= 0 else None
        values = self._positions.read(
            slice(frames.start, stop, frames.step) if frames else slice(0, 0), rows=rows
        )
        return np.moveaxis(values, ["fac".index(axis) for axis in order], [0, 1, 2])

    # -- others

    def Writer(self, filename: Any, n_atoms: int | None = None, **kwargs: Any) -> Any:  # noqa: N802 - MDAnalysis's name
        """Return a writer of records for `n_atoms` atoms, as many as here by default."""
        from molrec_mda._writer import MrecWriter

        return MrecWriter(filename, n_atoms=self.n_atoms if n_atoms is None else n_atoms, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the place, not the open record; the current timestep goes along."""
        return {
            **self.__dict__,
            "_run": None,
            "_positions": None,
            "_optional": (),
            "_data": None,
            "_keys": set(self._keys),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up the state; the record is opened when a frame is asked for."""
        self.__dict__ = state

    def __enter__(self) -> Self:
        """Return the reader."""
        return self
