"""What a user's typed code looks like: mypy checks this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, assert_type

import numpy as np

from molrec_core import (
    Block,
    Box,
    Compression,
    ForceField,
    FormatError,
    Frame,
    FrameView,
    Observable,
    Problem,
    Record,
    SequenceSchema,
    TrajectoryReader,
    TrajectoryWriter,
    open_record,
    pack,
    repair,
    unpack,
    validate,
    write_mrec,
)
from molrec_core.hookspecs import Check, hookimpl
from molrec_core.units import OPENMM, Units

Array = np.ndarray[Any, Any]


def write(path: Path, positions: Array) -> None:
    schema = SequenceSchema.from_frames([Frame({"atoms": {"x": [0.0], "y": [0.0], "z": [0.0]}})])
    schema.declare_precision("atoms", "x", 1e-3)
    with TrajectoryWriter(path, schema, compression=Compression.zstd(3), meta={"title": "t"}) as writer:
        assert_type(writer, TrajectoryWriter)
        for i, xyz in enumerate(positions):
            writer.append(Frame({"atoms": Block({"x": xyz[0]})}, box=Box(np.eye(3))), step=i, time=0.5 * i)
        writer.flush()
        assert_type(writer.committed, int)
    TrajectoryWriter(path, precision={"atoms.x": 1e-3}, overwrite=True).close()
    TrajectoryWriter.reopen(path, after_step=10).close()


def write_at_once(path: str, frames: Iterable[Frame]) -> None:
    write_mrec(
        path,
        meta={"title": "t"},
        trajectory=frames,
        forcefield=ForceField({"name": "f", "units": {"preset": "real"}}),
        observables={"e": Observable(np.array(1.0), {"kind": "scalar"})},
        overwrite=True,
    )


def read(path: str | Path) -> float:
    with open_record(path) as record:
        assert_type(record, Record)
        trajectory = record.trajectory
        assert_type(trajectory, TrajectoryReader)
        assert_type(trajectory[0], Frame)
        assert_type(trajectory[::2], FrameView)
        assert_type(record.system, Frame)
        assert_type(record.meta, dict[str, Any])
        assert_type(record.sections, tuple[str, ...])
        frame = trajectory[-1]
        x: Array = frame["atoms"]["x"]
        if frame.box is not None:
            volume: Array = frame.box.vectors
            del volume
        steps: Array = trajectory.steps
        times: Array | None = trajectory.times
        total = sum(float(f["atoms"]["x"][0]) for f in trajectory)
        return total + float(x.sum()) + float(steps[0]) + (0.0 if times is None else float(times[0]))


def check(path: Path) -> list[str]:
    try:
        problems = validate(path, deep=True)
    except FormatError as error:
        problems = list(error.problems)
    assert_type(problems, list[Problem])
    assert_type(repair(path, dry_run=True), list[str])
    assert_type(pack(path), Path)
    assert_type(unpack(path), Path)
    return [f"{p.loc}: {p.kind}" for p in problems if p.severity == "error"]


def in_nanometres(record: Record) -> float:
    return Units.from_meta(record.meta).conversion(OPENMM).length


@hookimpl
def molrec_checks() -> list[Check]:
    def has_a_title(record: Record) -> Iterable[Problem]:
        if "title" not in record.meta:
            yield Problem("meta", "no_title", "our group wants a title", "warning")

    return [Check("title", has_a_title)]
