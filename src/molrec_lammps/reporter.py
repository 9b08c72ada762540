"""A reporter that writes a LAMMPS run into a record, from the LAMMPS Python library."""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from molrec_core.hosts import RunRecord, StepNumbers
from molrec_core.units import Units
from molrec_lammps._convert import SampleConverter
from molrec_lammps._sample import CANONICAL, Sample, Sampler, type_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from molrec_core import Compression, Record, SequenceSchema
    from molrec_lammps._convert import Elements

_numbers = itertools.count(1)


class MolrecReporter:
    """Writes a LAMMPS run into a record; what is flushed survives whatever follows.

    Two ways to run. :meth:`run` drives the run in pieces, and gives the trajectory an uncut
    run gives; everything can be asked for. :meth:`attach` lets the input's own ``run``
    commands report through a ``fix external``: there positions, image flags and the cell
    are those of the step, while velocities are half a step off, forces miss what later
    fixes add and thermo output is stale, so that asking for those is an error.

    A frame has the atoms in ascending order of their ids, in the units of the ``units``
    style: wrapped ``x y z`` beside image flags ``ix iy iz``, ``vx vy vz`` and ``fx fy fz``
    where asked for, the cell with its origin, tilt and periodic flags. Block ``identity``
    holds id, type (its label, or its number), molecule, charge, mass, element where
    `elements` gives it; it and the relations (``bonds`` and so on) are written when they
    change. The number of atoms may change.

    Under MPI every rank makes a reporter and calls it alike; rank 0 writes.

    Parameters
    ----------
    lmp : lammps.lammps
    file : path-like
        The record, a directory, named ``*.mrec`` by custom.
    every : int
        Steps between frames; frames are at its multiples, the present step among them.
    append : bool
        Go on with the record: frames past the present step (those written after the restart
        file) are dropped. A record that is not there is begun.
    overwrite : bool
        Replace a record; the old one goes when the new one has its first commit.
    velocities, forces : bool
        Columns ``vx vy vz``, ``fx fy fz`` of ``atoms``, float64.
    thermo : iterable of str, optional
        Thermo keywords, and global ``c_ID``, ``f_ID``, ``v_NAME``, per step; by default
        ``pe ke etotal temp press vol`` under :meth:`run` and none under :meth:`attach`.
        Totals, whatever ``thermo_modify norm`` says; ``temp`` and ``press`` are those of the
        computes thermo_temp and thermo_press.
    arrays : iterable of str
        Per-atom computes, fixes, variables and properties by the name a dump gives them:
        ``c_pe``, ``f_ave[2]``, ``v_x``, ``d_value``. Blocks ``array.<name>``, column ``value``.
    elements : sequence or mapping, optional
        Element symbol of each atom type, in order or by type or label; LAMMPS has none.
    group : str
        Whose atoms are written.
    precision : float or mapping, optional
        Declared precision of x, y and z, in length units, or {"block.column": precision}.
    compression : Compression, optional
        Of float columns.
    flush_seconds : float, optional
        Commit at the latest this long after a frame came.
    renumber : bool
        When the step number goes back (``reset_timestep``), number on by one and keep
        LAMMPS's own in ``source_step``; otherwise that is an error.

    Raises
    ------
    RecordExistsError
        Something is there, and neither `append` nor `overwrite` was asked for; it is not touched.
    ReadOnlyError
        A packed record or a URL.
    ValueError
        `every` below 1, both `append` and `overwrite`, or a name that LAMMPS does not have.
    """

    def __init__(
        self,
        lmp: Any,
        file: str | os.PathLike[str],
        every: int,
        *,
        append: bool = False,
        overwrite: bool = False,
        velocities: bool = False,
        forces: bool = False,
        thermo: Iterable[str] | None = None,
        arrays: Iterable[str] = (),
        elements: Elements | None = None,
        group: str = "all",
        precision: float | Mapping[str, float] | None = None,
        compression: Compression | None = None,
        flush_seconds: float | None = 5.0,
        renumber: bool = False,
    ) -> None:
        if int(every) != every or every < 1:
            raise ValueError(f"every is {every!r}; an integer >= 1 is expected")
        self._lmp = lmp
        self._every = int(every)
        self._thermo = None if thermo is None else tuple(thermo)
        vectors = (*("v" * velocities), *("f" * forces))
        self._sampler = Sampler(lmp, vectors, tuple(arrays), group)
        self._elements = elements
        self._precision = precision
        self._steps = StepNumbers() if renumber else None
        self._labels: dict[str, dict[int, str]] = {}
        self._convert: SampleConverter | None = None
        self._seen: int | None = None
        self._fix = ""
        self._failure: Exception | None = None
        self._closed = False
        # Only rank 0 looks at the disk; the others take part in gathering.
        self._run: RunRecord | None = None
        if lmp.extract_setting("world_rank") == 0:
            self._run = RunRecord(
                file, append=append, overwrite=overwrite, flush_seconds=flush_seconds, compression=compression
            )

    # -- two ways to run

    def run(self, nsteps: int) -> None:
        """Run `nsteps` steps, in pieces that end where a frame is due.

        The first piece sets up in full, the later ones continue (``pre no``), and all share
        the ``start`` and ``stop`` of the whole, so that ramps and random numbers are those of
        an uncut ``run nsteps``.

        Raises
        ------
        ValueError
            The step number went back and `renumber` is off, or a thermo keyword is not there.
        SchemaError, CommitError, ClosedError
        Exception
            What LAMMPS raises; the record is then closed with status ``failed``.
        """
        self._check_open()
        if self._fix:
            raise ValueError(
                "the reporter is attached: LAMMPS's own run commands report; run() is the other way"
            )
        keywords = CANONICAL if self._thermo is None else self._thermo
        try:
            with self._sampler.tallying(self._every, thermo=bool(keywords)):
                self._drive(int(nsteps), keywords)
        except Exception as error:
            self.close(error)
            raise

    def _drive(self, nsteps: int, keywords: tuple[str, ...]) -> None:
        lmp, every = self._lmp, self._every
        self._labels = type_labels(lmp)
        first = step = int(lmp.extract_global("ntimestep"))
        self._check_step(step)
        span = f"start {first} stop {first + nsteps}"
        set_up = True
        if step % every == 0 and self._seen != step:
            self._sampler.schedule(step)
            lmp.command(f"run 0 pre yes post no {span}")
            self._report(self._sampler.sample(keywords))
            set_up = False
        while step < first + nsteps:
            target = min(first + nsteps, (step // every + 1) * every)
            if target % every == 0:
                self._sampler.schedule(target)
            lmp.command(f"run {target - step} pre {'yes' if set_up else 'no'} post no {span}")
            set_up = False
            step = int(lmp.extract_global("ntimestep"))
            if step != target:
                # `timer timeout` or `fix halt` ended the run.
                break
            if target % every == 0:
                self._report(self._sampler.sample(keywords))

    def attach(self) -> None:
        """Let LAMMPS's own ``run`` commands report, until :meth:`close`.

        Raises
        ------
        ValueError
            Velocities, forces, thermo keywords or per-atom arrays were asked for: inside a step
            they are not what they are at its end. Use :meth:`run` for those.
        """
        self._check_open()
        late = [name for name, there in self._late().items() if there]
        if late:
            raise ValueError(
                f"{', '.join(late)}: inside a step they are half a step off, incomplete or stale; "
                "run the simulation with reporter.run(nsteps) to write them"
            )
        self._labels = type_labels(self._lmp)
        self._fix = f"molrec_{next(_numbers)}"
        self._lmp.command(f"fix {self._fix} all external pf/callback {self._every} 1")
        owner = weakref.ref(self)

        def report(*_: Any) -> None:
            reporter = owner()
            if reporter is not None:
                reporter._report_within()  # noqa: SLF001 - the same class

        self._lmp.set_fix_external_callback(self._fix, report)
        _raise_failures(self._lmp, owner)

    def _late(self) -> dict[str, bool]:
        sampler = self._sampler
        return {
            "velocities": "v" in sampler.vectors,
            "forces": "f" in sampler.vectors,
            "thermo": bool(self._thermo),
            "arrays": bool(sampler.arrays),
        }

    def _report_within(self) -> None:
        """Report from within a step; LAMMPS would ignore what is raised here."""
        if self._closed:
            return
        try:
            step = int(self._lmp.extract_global("ntimestep"))
            # Every run sets up at the step the last one ended with.
            if step != self._seen:
                self._check_step(step)
                self._report(self._sampler.sample())
        except Exception as error:  # noqa: BLE001 - the run command raises it instead
            self._failure = error
            self._end(error)
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        """End the run that is under way with an error: LAMMPS drops what a callback raises."""
        lmp = self._lmp
        if not self._sampler.serial:
            # One rank alone cannot end a run that all are in.
            lmp.lib.lammps_error(lmp.lmp, 1, f"molrec: {error}".encode())
        lmp.force_timeout()
        # No command is taken during a run: refused, noted, and so raised by the command that runs.
        lmp.lib.lammps_command(lmp.lmp, b"run 0")

    # -- a frame

    def _check_open(self) -> None:
        if self._run is not None:
            self._run.check_open()

    def _check_step(self, step: int) -> None:
        if self._steps is None and self._seen is not None and step < self._seen:
            raise ValueError(
                f"step {step} after {self._seen}: the step number went back (reset_timestep); "
                "pass renumber=True to number on, or write to a new record"
            )

    def _report(self, sample: Sample) -> None:
        self._seen = sample.step
        if self._run is None:
            return
        if self._convert is None:
            self._convert = self._begin(self._run, sample)
        step, source = (sample.step, None) if self._steps is None else self._steps.store(sample.step)
        if self._run.last_step is not None and step <= self._run.last_step and self._steps is None:
            # The frame of the restart file is in the record already.
            return
        self._run.append(self._convert.frame(sample, source_step=source), step, sample.time)

    def _begin(self, run: RunRecord, sample: Sample) -> SampleConverter:
        style = str(self._lmp.extract_global("units"))
        convert = SampleConverter(style, self._labels, self._elements)
        record = run.existing()
        schema = convert.declare(sample, precision=self._precision)
        if record is not None:
            self._resume(run, record, schema, sample.step)
            return convert
        run.start(
            schema,
            meta={
                "units": Units.lammps(style).to_meta(),
                "creator": {"name": "molrec_lammps", "version": version("molrec")},
            },
            method=self._method(style),
        )
        return convert

    def _resume(self, run: RunRecord, record: Record, schema: SequenceSchema, step: int) -> None:
        if self._steps is not None:
            trajectory = record.trajectory
            last = int(trajectory.steps[-1])
            broken = trajectory.meta("source_step")[-1] is not None
            # Once renumbered, a record's steps are not LAMMPS's, and none is known to be past the restart.
            step = last if broken else step
            self._steps = StepNumbers(broken=broken)
        run.resume(record, schema, step=step, interval=self._every)
        if self._steps is not None:
            self._steps.last = run.last_step

    def _method(self, style: str) -> dict[str, Any]:
        lmp = self._lmp
        described = {name: lmp.extract_global(name) for name in ("pair_style", "atom_style", "run_style")}
        return {
            "type": "classical",
            "description": "molecular dynamics; velocities are those at the end of the step",
            "engine": {"name": "LAMMPS", "version": str(lmp.version())},
            "units": style,
            "step_size": lmp.extract_global("dt"),
            **{name: str(value) for name, value in described.items() if value},
            "fixes": [name for name in lmp.available_ids("fix") if name],
        }

    # -- the end

    def flush(self) -> None:
        """Commit every frame reported; when it returns they survive a power loss.

        Raises
        ------
        CommitError
        """
        if self._run is not None:
            self._run.flush()

    def write_restart(self, file: str | os.PathLike[str]) -> None:
        """Commit the record, then write a restart file, at once: on restart no frame before it is missing.

        Raises
        ------
        CommitError
        """
        self.flush()
        path = Path(file)
        partial = path.with_name(f"{path.name}.part")
        self._lmp.command(f"write_restart {partial}")
        if self._run is not None:
            partial.replace(path)

    def close(self, error: BaseException | None = None) -> None:
        """Commit, set the status to succeeded (failed with an `error`) and give the record up.

        Raises
        ------
        CommitError
        """
        self._end(error)
        if self._fix and self._lmp.lmp and not self._lmp.is_running:
            self._lmp.command(f"unfix {self._fix}")
            self._fix = ""

    def _end(self, error: BaseException | None) -> None:
        self._closed = True
        if self._run is not None:
            self._run.close(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)


def _raise_failures(lmp: Any, owner: weakref.ref[MolrecReporter]) -> None:
    """Have the command that runs raise what a callback failed with, in place of LAMMPS's own error."""
    alive = weakref.proxy(lmp)
    for name in ("command", "commands_list", "commands_string", "file"):
        own = vars(lmp).get(name)
        inner = functools.partial(getattr(type(lmp), name), alive) if own is None else own

        def issue(*args: Any, _inner: Callable[..., Any] = inner) -> Any:
            try:
                return _inner(*args)
            except Exception as error:
                reporter = owner()
                failure = None if reporter is None else reporter._failure  # noqa: SLF001 - one module
                if failure is None or reporter is None:
                    raise
                reporter._failure = None  # noqa: SLF001
                raise failure from error

        setattr(lmp, name, issue)
