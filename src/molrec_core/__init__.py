"""The MolRec format in Python: one self-describing, crash-safe record for every MD tool.

Examples
--------
>>> from molrec_core import Block, Frame, TrajectoryWriter, open_record
>>> with TrajectoryWriter("run.mrec", meta={"units": {"preset": "real"}}) as writer:
...     writer.append(Frame({"atoms": Block({"x": [0.0], "y": [0.0], "z": [0.0]})}))
>>> open_record("run.mrec").trajectory[0]["atoms"]["x"]
array([0.])
"""

from molrec_core._array import TornIndexWarning
from molrec_core._box import Box
from molrec_core._compression import Compression
from molrec_core._forcefield import ForceField
from molrec_core._frame import Block, Frame
from molrec_core._metrics import MetricSeries, MetricsReader
from molrec_core._metrics_fold import find_metrics_logs, fold_metrics
from molrec_core._metrics_log import MetricEvent, MetricsWriter
from molrec_core._observables import Observable
from molrec_core._pack import pack, unpack
from molrec_core._record import (
    Record,
    mrec_sections,
    open_record,
    read_mrec,
    read_mrec_meta,
    read_mrec_system,
    read_mrec_trajectory,
)
from molrec_core._repair import repair
from molrec_core._schema import SequenceSchema
from molrec_core._stack import FrameStack
from molrec_core._trajectory_reader import TrajectoryReader
from molrec_core._trajectory_writer import TrajectoryWriter
from molrec_core._validate import validate
from molrec_core._view import FrameView
from molrec_core._write import write_mrec, write_mrec_system, write_mrec_trajectory
from molrec_core.errors import (
    ChecksumError,
    ClosedError,
    CommitError,
    FormatError,
    LockedError,
    Problem,
    ReadOnlyError,
    RecordError,
    RecordExistsError,
    RecordNotFoundError,
    SchemaError,
    SectionNotFoundError,
    UnitError,
    UnsupportedVersionError,
)

__all__ = [
    "Block",
    "Box",
    "ChecksumError",
    "ClosedError",
    "CommitError",
    "Compression",
    "ForceField",
    "FormatError",
    "Frame",
    "FrameStack",
    "FrameView",
    "LockedError",
    "MetricEvent",
    "MetricSeries",
    "MetricsReader",
    "MetricsWriter",
    "Observable",
    "Problem",
    "ReadOnlyError",
    "Record",
    "RecordError",
    "RecordExistsError",
    "RecordNotFoundError",
    "SchemaError",
    "SectionNotFoundError",
    "SequenceSchema",
    "TornIndexWarning",
    "TrajectoryReader",
    "TrajectoryWriter",
    "UnitError",
    "UnsupportedVersionError",
    "find_metrics_logs",
    "fold_metrics",
    "mrec_sections",
    "open_record",
    "pack",
    "read_mrec",
    "read_mrec_meta",
    "read_mrec_system",
    "read_mrec_trajectory",
    "repair",
    "unpack",
    "validate",
    "write_mrec",
    "write_mrec_system",
    "write_mrec_trajectory",
]
