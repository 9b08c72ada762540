"""A reporter that writes an OpenMM Simulation into a record."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

import openmm

from molrec_core import Block, Compression, Frame, SchemaError
from molrec_core.hosts import RunRecord
from molrec_core.units import OPENMM, Units
from molrec_openmm._convert import VECTORS, Extra, StateConverter
from molrec_openmm._system import build_method, build_system, degrees_of_freedom, subset_rows

if TYPE_CHECKING:
    from types import TracebackType

    from molrec_core import Record

UNITS = Units("angstrom", "ps", "kJ/mol", "dalton", "e")
"""The units of a record that OpenMM begins."""

# From 8.2 on a Simulation takes a dict, the form that stays; older ones a tuple.
_TAKES_DICT = tuple(int(part) for part in openmm.Platform.getOpenMMVersion().split(".")[:2]) >= (8, 2)


class MolrecReporter:
    """Writes frames of a Simulation into a record; what is flushed survives whatever follows.

    Add it to ``simulation.reporters``. The record is begun at the first step: ``system``
    from the Topology and the System, ``method``, and a ``status`` that says running,
    succeeded or failed. A frame holds, in the record's units (angstrom, ps, kJ/mol unless
    an older record that is gone on with states others), the step, the time, the cell of a
    periodic System, and what is asked for below.

    Frames are committed `flush_seconds` after they came at the latest, by :meth:`flush`,
    by :meth:`close`, when the interpreter ends, and before ``simulation.saveCheckpoint``
    and ``saveState`` write, so that a checkpoint is never ahead of the record.

    Parameters
    ----------
    file : path-like
        The record, a directory, named ``*.mrec`` by custom.
    reportInterval : int
        Steps between frames; the first comes at this step.
    append : bool
        Go on with the record. Frames past the step the Simulation stands at (those written
        after the checkpoint) are dropped, and the frame of that very step is written where
        it is missing, so that a restarted run has the step grid of an uninterrupted one.
        A record that is not there is begun.
    overwrite : bool
        Replace a record; the old one goes when the new one has its first commit.
    atomSubset : iterable of int, optional
        Rows of the topology to write, strictly ascending.
    enforcePeriodicBox : bool, optional
        Passed on to ``Context.getState``; None wraps molecules of a periodic System.
    positions, velocities, forces : bool
        Columns ``x y z``, ``vx vy vz``, ``fx fy fz`` of ``atoms``, float64.
    energies : bool
        Per-step ``pe``, ``ke``, ``etotal``; costs OpenMM a force evaluation of its own.
    temperature : bool
        Per-step ``temp``, K; costs the same.
    volume : bool
        Per-step ``volume`` of a periodic System.
    extra : callable, optional
        ``extra(simulation, state)`` -> mapping of names to scalars, stored per step under
        their names. Called once at the start, to learn them, and then at every report.
    precision : float or mapping, optional
        Declared precision of x, y and z, in the record's length unit (angstrom), or
        {"block.column": precision}; None stores every bit.
    compression : Compression, optional
        Of float columns.
    flush_seconds : float, optional
        None leaves commits to chunks, :meth:`flush` and the end.
    topology : openmm.app.Topology, optional
        In place of the Simulation's.

    Raises
    ------
    RecordExistsError
        Something is there, and neither `append` nor `overwrite` was asked for; it is not touched.
    ReadOnlyError
        A packed record or a URL.
    ValueError
        `reportInterval` below 1, both `append` and `overwrite`, or nothing to write.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        reportInterval: int,  # noqa: N803 - OpenMM's own spelling, here and below
        *,
        append: bool = False,
        overwrite: bool = False,
        atomSubset: Iterable[int] | None = None,  # noqa: N803
        enforcePeriodicBox: bool | None = None,  # noqa: N803
        positions: bool = True,
        velocities: bool = False,
        forces: bool = False,
        energies: bool = True,
        temperature: bool = True,
        volume: bool = True,
        extra: Extra | None = None,
        precision: float | Mapping[str, float] | None = None,
        compression: Compression | None = None,
        flush_seconds: float | None = 5,
        topology: Any = None,
    ) -> None:
        if int(reportInterval) != reportInterval or reportInterval < 1:
            raise ValueError(f"reportInterval is {reportInterval!r}; an integer >= 1 is expected")
        self._run = RunRecord(
            file, append=append, overwrite=overwrite, flush_seconds=flush_seconds, compression=compression
        )
        wanted = {"positions": positions, "velocities": velocities, "forces": forces}
        vectors = [name for name in VECTORS if wanted[name]]
        self._convert = StateConverter(vectors, energies, temperature, volume, extra)
        self._interval = int(reportInterval)
        self._subset = None if atomSubset is None else list(atomSubset)
        self._wrap = enforcePeriodicBox
        self._precision = precision
        self._topology = topology

    # -- what OpenMM calls

    def describeNextReport(self, simulation: Any) -> Any:  # noqa: N802 - OpenMM's interface
        """Say when the next frame is due and what of the State it needs.

        Returns
        -------
        dict
            ``steps``, ``periodic`` and ``include``; before OpenMM 8.2 the tuple of steps, four
            flags and ``periodic``.
        """
        self._run.check_open()
        if not self._run.started:
            self._begin(simulation)
        steps = self._interval - simulation.currentStep % self._interval
        include = self._convert.include()
        if _TAKES_DICT:
            return {"steps": steps, "periodic": self._wrap, "include": include}
        return (steps, *(name in include for name in (*VECTORS, "energy")), self._wrap)

    def report(self, simulation: Any, state: Any) -> None:
        """Append the frame of `state`.

        Raises
        ------
        ValueError
            A position or an energy is NaN or infinite; earlier frames are committed.
        SchemaError
            The step does not follow the last one.
        CommitError
            An earlier write failed.
        """
        try:
            self._append(simulation, state)
        except Exception as error:
            self.close(error)
            raise

    # -- beginning

    def _begin(self, simulation: Any) -> None:
        topology = simulation.topology if self._topology is None else self._topology
        rows = subset_rows(self._subset, simulation.system.getNumParticles())
        convert = self._convert
        convert.rows = None if self._subset is None else rows
        convert.periodic = bool(simulation.system.usesPeriodicBoundaryConditions())
        convert.freedom = degrees_of_freedom(simulation.system) if convert.temperature else 0
        system, dtypes = build_system(topology, simulation.system, rows)
        record = self._run.existing()
        units = UNITS if record is None else Units.from_meta(record.meta, host=UNITS)
        convert.factors = OPENMM.conversion(units)
        if record is None:
            schema = convert.declare(len(rows), self._learn_extra(simulation), self._precision)
            meta = {
                "units": units.to_meta(),
                "creator": {"name": "molrec_openmm", "version": version("molrec")},
                "host_dtypes": dtypes,
            }
            self._run.start(schema, meta=meta, method=build_method(simulation), system=system)
        else:
            self._resume(record, system, simulation.currentStep)
        _flush_before_checkpoints(simulation, self)
        step = simulation.currentStep
        if self._run.resumed and step and step % self._interval == 0 and self._run.last_step != step:
            self._append(simulation, self._state(simulation))

    def _resume(self, record: Record, system: Frame, step: int) -> None:
        stored = record.get("system")
        if stored is not None and not _same_atoms(stored["atoms"], system["atoms"]):
            raise SchemaError.one(
                "system/atoms",
                "atoms_differ",
                f"the record's {stored['atoms'].count} atoms are not the {system['atoms'].count} of this simulation; "
                "give the same topology and atomSubset, or write to a new record",
            )
        found = record.trajectory.schema
        schema = self._convert.declare(system["atoms"].count, {}, self._precision)
        own = schema.meta.keys()
        self._convert.extra_tags = {key: spec.tag for key, spec in found.meta.items() if key not in own}
        self._run.resume(record, schema, step=step, interval=self._interval)

    def _learn_extra(self, simulation: Any) -> dict[str, Any]:
        """Ask `extra` for its names, with the kind of state it will get."""
        extra = self._convert.extra
        return {} if extra is None else dict(extra(simulation, self._state(simulation)))

    def _state(self, simulation: Any) -> Any:
        """Return the present State as ``Simulation`` makes it for a report."""
        wrap = self._convert.periodic if self._wrap is None else self._wrap
        groups = simulation.integrator.getIntegrationForceGroups()
        wanted = dict.fromkeys(self._convert.include(), True)
        return simulation.context.getState(groups=groups, enforcePeriodicBox=wrap, parameters=True, **wanted)

    def _append(self, simulation: Any, state: Any) -> None:
        self._run.append(
            self._convert.frame(simulation, state), simulation.currentStep, self._convert.time(state)
        )

    # -- the end

    def flush(self) -> None:
        """Commit every frame reported; when it returns they survive a power loss.

        Raises
        ------
        CommitError
        """
        self._run.flush()

    def close(self, error: BaseException | None = None) -> None:
        """Commit, set the status to succeeded (failed with an `error`) and give the record up.

        Raises
        ------
        CommitError
        """
        self._run.close(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)


def _same_atoms(stored: Block, ours: Block) -> bool:
    if stored.count != ours.count:
        return False
    return all(
        (stored[name] == ours[name]).all()
        for name in ("name", "atomic_number")
        if name in stored and name in ours
    )


def _flush_before_checkpoints(simulation: Any, reporter: MolrecReporter) -> None:
    """Commit the record before the Simulation writes a checkpoint: on restart no frame before it is missing."""
    alive, owner = weakref.ref(reporter), weakref.ref(simulation)
    for name in ("saveCheckpoint", "saveState"):
        inner = vars(simulation).get(name) or getattr(type(simulation), name)
        # Held weakly, or the Simulation would wait for the garbage collector with its context.
        bound = name in vars(simulation)

        @functools.wraps(inner)
        def save(*args: Any, _inner: Any = inner, _bound: bool = bound, **kwargs: Any) -> None:
            held = alive()
            if held is not None:
                held.flush()
            _inner(*(() if _bound else (owner(),)), *args, **kwargs)

        setattr(simulation, name, save)
