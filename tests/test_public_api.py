"""The public names, pinned: adding or dropping one is a decision, not an accident."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import molrec_core
from molrec_core import errors

VALUES = {
    "Block",
    "Box",
    "Compression",
    "ForceField",
    "Frame",
    "FrameStack",
    "MetricEvent",
    "MetricSeries",
    "Observable",
    "Problem",
}
READERS = {
    "FrameView",
    "MetricsReader",
    "MetricsWriter",
    "Record",
    "SequenceSchema",
    "TrajectoryReader",
    "TrajectoryWriter",
}
ERRORS = {
    "ChecksumError",
    "ClosedError",
    "CommitError",
    "FormatError",
    "LockedError",
    "ReadOnlyError",
    "RecordError",
    "RecordExistsError",
    "RecordNotFoundError",
    "SchemaError",
    "SectionNotFoundError",
    "UnitError",
    "UnsupportedVersionError",
}
WARNINGS = {"TornIndexWarning"}
FUNCTIONS = {
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
}

#: The parameters that others build on, in the order in which they may be given.
SIGNATURES = {
    "Frame": ("blocks", "*", "box", "meta", "meta_tags"),
    "Block": (
        "columns", "*", "validity", "precision", "targets", "structural_shape", "count", "attributes",
    ),
    "Box": ("vectors", "*", "origin", "boundary", "cell_defined"),
    "Compression.none": ("*", "shuffle"),
    "Compression.gzip": ("level", "*", "shuffle"),
    "Compression.zstd": ("level", "*", "shuffle"),
    "SequenceSchema.from_frames": ("frames",),
    "SequenceSchema.from_json": ("document", "loc"),
    "open_record": ("path", "mode", "*", "storage_options"),
    "TrajectoryReader.frame": ("self", "i", "blocks"),
    "TrajectoryReader.read": ("self", "block", "columns", "frames", "rows", "out", "dtype", "factor"),
    "TrajectoryWriter": (
        "path", "schema", "*", "meta", "system", "status", "method", "forcefield", "overwrite", "precision",
        "compression", "flush_every", "flush_seconds", "expected_frames",
    ),
    "FrameStack": ("n_frames", "blocks", "*", "counts", "validity", "boxes", "meta"),
    "TrajectoryWriter.append": ("self", "frame", "step", "time"),
    "TrajectoryWriter.extend": ("self", "stack", "steps", "times"),
    "write_mrec": (
        "path", "*", "meta", "frame", "system", "trajectory", "forcefield", "observables", "status", "method",
        "overwrite", "**options",
    ),
    "pack": ("path", "out", "*", "remove", "overwrite", "progress"),
    "unpack": ("path", "out", "*", "progress"),
    "repair": ("path", "*", "dry_run"),
}  # fmt: skip


def test_exports_of_the_core():
    expected = VALUES | READERS | ERRORS | WARNINGS | FUNCTIONS
    assert set(molrec_core.__all__) == expected
    assert molrec_core.__all__ == sorted(molrec_core.__all__, key=lambda name: (not name[0].isupper(), name))
    for name in expected:
        assert getattr(molrec_core, name).__doc__


def test_names_follow_their_grammar():
    """Classes are an entity and a role, functions a verb and a noun; errors and warnings say what they are."""
    for name in VALUES | READERS | ERRORS | WARNINGS:
        assert inspect.isclass(getattr(molrec_core, name))
        assert re.fullmatch(r"([A-Z][a-z]+)+", name)
    for name in ERRORS:
        assert name.endswith("Error")
        assert issubclass(getattr(molrec_core, name), errors.RecordError)
    for name in WARNINGS:
        assert issubclass(getattr(molrec_core, name), UserWarning)
    for name in FUNCTIONS:
        assert inspect.isfunction(getattr(molrec_core, name))
        assert name == name.lower()


def parameters(function):
    found, keyword_only = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            found.append("*")
        found.append(("**" if parameter.kind is parameter.VAR_KEYWORD else "") + parameter.name)
    return tuple(found)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    function = molrec_core
    for part in name.split("."):
        function = getattr(function, part)
    assert parameters(function) == SIGNATURES[name]


def test_schema_is_declared_name_by_name():
    declared = {name for name in vars(molrec_core.SequenceSchema) if name.startswith("declare_")}
    assert declared == {
        "declare_aligned",
        "declare_block",
        "declare_column",
        "declare_meta",
        "declare_precision",
        "declare_structural_shape",
        "declare_target",
    }


def test_members_of_the_reader():
    promised = {
        "steps", "times", "meta", "box", "counts", "updates", "frame", "refresh", "dask", "read",
        "__len__", "__getitem__", "__iter__",
    }  # fmt: skip
    assert promised <= set(dir(molrec_core.TrajectoryReader))
    sections = {
        "meta", "status", "method", "system", "frame", "trajectory", "forcefield", "observables", "metrics", "sections",
        "__enter__", "__exit__",
    }  # fmt: skip
    assert sections <= set(dir(molrec_core.Record))
    writer = {"append", "flush", "close", "committed", "set_status", "reopen", "__enter__", "__exit__"}
    assert writer <= set(dir(molrec_core.TrajectoryWriter))


@pytest.mark.parametrize("name", ["units", "hosts"])
def test_what_adapters_import_is_listed(name):
    module = importlib.import_module(f"molrec_core.{name}")
    assert len(module.__all__) == len(set(module.__all__))
    for export in module.__all__:
        assert hasattr(module, export)


def test_the_core_imports_no_host_and_no_zarr():
    """Opening a local record must not pay for what it does not need."""
    hosts = ("MDAnalysis", "ase", "mdtraj", "openmm", "lammps", "dask", "fsspec", "matplotlib", "zarr")
    code = f"import sys, molrec_core; print([name for name in {hosts!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
