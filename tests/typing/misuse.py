"""What mypy has to refuse: each line marked so is an error, and no other line is."""

from __future__ import annotations

from pathlib import Path

from molrec_core import Block, Frame, TrajectoryWriter, open_record, pack, validate

frame = Frame({"atoms": Block({"x": [0.0]})})
with TrajectoryWriter(Path("run.mrec")) as writer:
    writer.append(frame, step="0")  # refused
    writer.append([1.0, 2.0])  # refused
    writer.comitted  # refused  # noqa: B018
TrajectoryWriter("run.mrec", compression="zstd")  # refused
with open_record("run.mrec") as record:
    record.trajectory["atoms"]  # refused
    record.meta = {}  # refused
    title: int = record.sections  # refused
pack("run.mrec", delete=True)  # refused
for problem in validate("run.mrec"):
    problem.severity = "error"  # refused
    message: int = problem.message  # refused
