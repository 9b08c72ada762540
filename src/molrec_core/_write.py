"""Writing a whole record at once: it appears complete, or the old one stays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from molrec_core._document import checked_document
from molrec_core._forcefield import ForceField, write_forcefield
from molrec_core._frame import Frame
from molrec_core._group import write_frame
from molrec_core._observables import Observable, write_observables
from molrec_core._record import SUFFICIENT, Path
from molrec_core._root import Root, write_failed
from molrec_core._schema import SequenceSchema
from molrec_core._trajectory_reader import TrajectoryReader
from molrec_core._trajectory_writer import TrajectoryWriter
from molrec_core._view import FrameView
from molrec_core.errors import SchemaError

Frames = Iterable[Frame] | TrajectoryReader | FrameView


def write_mrec(
    path: Path,
    *,
    meta: Mapping[str, Any] | None = None,
    frame: Frame | None = None,
    system: Frame | None = None,
    trajectory: Frames | None = None,
    forcefield: ForceField | None = None,
    observables: Mapping[str, Observable] | None = None,
    status: Mapping[str, Any] | None = None,
    method: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Write a whole record at once; it appears complete, or the old one stays.

    Parameters
    ----------
    trajectory : TrajectoryReader, or iterable of Frame
        A reader brings its declaration, steps and times along.
    **options
        ``steps``, ``times``, ``schema``, ``precision`` and ``compression`` of the trajectory.

    Raises
    ------
    SchemaError
        Nothing to write, or a part that the format does not admit.
    """
    if all(part is None for part in (frame, system, trajectory, forcefield, status)):
        raise SchemaError.one(os.fspath(path), "no_section", f"a record needs one of {', '.join(SUFFICIENT)}")
    documents = {"meta": meta, "status": status, "method": method}
    for section, document in documents.items():
        if document is not None and section != "meta":
            checked_document(section, dict(document))
    root = Root.new(path, overwrite=overwrite, whole=True)
    try:
        root.lay_down({name: None if d is None else dict(d) for name, d in documents.items()})
        sections = {name: part for name, part in (("frame", frame), ("system", system)) if part is not None}
        for name, part in sections.items():
            write_frame(root.store, name, part, sections=sections)
        if forcefield is not None:
            write_forcefield(root.store, forcefield, dict(meta or {}))
        if observables is not None:
            write_observables(root.store, observables)
        if trajectory is not None:
            _append_all(root, sections, trajectory, **options)
        root.finish()
    except OSError as error:
        root.abandon()
        raise write_failed(error, os.fspath(path), "writing the record") from error
    except BaseException:
        root.abandon()
        raise


def _append_all(root: Root, sections: dict[str, Frame], trajectory: Frames, **options: Any) -> None:
    steps, times = options.pop("steps", None), options.pop("times", None)
    schema = options.pop("schema", None)
    if isinstance(trajectory, TrajectoryReader | FrameView):
        reader, ordinals = trajectory.source()
        schema = schema or reader.schema
        steps = reader.steps[ordinals] if steps is None else steps
        times = reader.times[ordinals] if times is None and reader.times is not None else times
        frames: Sequence[Frame] = trajectory
    else:
        frames = list(trajectory)
        schema = schema or SequenceSchema.from_frames(frames)
    for name, values in (("steps", steps), ("times", times)):
        if values is not None and len(values) != len(frames):
            raise SchemaError.one(
                "trajectory", "series_length", f"{len(values)} {name} for {len(frames)} frames"
            )
    with TrajectoryWriter.over(root, sections, schema, **options) as writer:
        for i, frame in enumerate(frames):
            step = None if steps is None else int(steps[i])
            time = None if times is None or times[i] is None else float(times[i])
            writer.append(frame, step=step, time=time)


def write_mrec_system(
    path: Path, system: Frame, *, meta: Mapping[str, Any] | None = None, overwrite: bool = False
) -> None:
    """Write a record that holds a ``system`` only."""
    write_mrec(path, system=system, meta=meta, overwrite=overwrite)


def write_mrec_trajectory(
    path: Path,
    trajectory: Frames,
    *,
    steps: Iterable[int] | None = None,
    times: Iterable[float] | None = None,
    schema: SequenceSchema | None = None,
    meta: Mapping[str, Any] | None = None,
    system: Frame | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Write a record from frames.

    Parameters
    ----------
    steps : iterable of int, optional
        Step number of each frame; 0, 1, 2, ... by default.
    times : iterable of float, optional
        Time of each frame, in record units.
    schema : SequenceSchema, optional
        Derived from all frames by default.

    Raises
    ------
    SchemaError
    """
    options |= {
        "steps": None if steps is None else list(steps),
        "times": None if times is None else list(times),
        "schema": schema,
    }
    write_mrec(path, trajectory=trajectory, meta=meta, system=system, overwrite=overwrite, **options)
