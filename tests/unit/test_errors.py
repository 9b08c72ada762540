"""The error tree: its shape, its codes, and that errors cross process borders."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

import molrec_core
from molrec_core import errors
from molrec_core.errors import (
    ChecksumError,
    ClosedError,
    CodecError,
    CommitError,
    FormatError,
    LockedError,
    Problem,
    Problems,
    ReadOnlyError,
    RecordError,
    RecordExistsError,
    RecordNotFoundError,
    SchemaError,
    SectionNotFoundError,
    UnitError,
    UnsupportedVersionError,
)

PROBLEM = Problem("frame/atoms", "count", "the count is missing")
#: class -> (what it also is, one of it, its default kind, its place)
TREE = {
    RecordNotFoundError: (FileNotFoundError, RecordNotFoundError("m", loc="p"), "not_found", "p"),
    RecordExistsError: (FileExistsError, RecordExistsError("m", loc="p"), "exists", "p"),
    SectionNotFoundError: (KeyError, SectionNotFoundError("m", loc="p"), "section_not_found", "p"),
    FormatError: (ValueError, FormatError([PROBLEM]), "count", "frame/atoms"),
    UnsupportedVersionError: (FormatError, UnsupportedVersionError([PROBLEM]), "count", "frame/atoms"),
    SchemaError: (ValueError, SchemaError([PROBLEM]), "count", "frame/atoms"),
    ChecksumError: (RecordError, ChecksumError("m", key="k", chunk=3), "checksum", "k, chunk 3"),
    CodecError: (ValueError, CodecError("m"), "codec", ""),
    CommitError: (OSError, CommitError("m", path="p", stage="chunks"), "commit_failed", "p"),
    UnitError: (ValueError, UnitError("m"), "unit", ""),
    ReadOnlyError: (RecordError, ReadOnlyError("m", loc="p"), "read_only", "p"),
    ClosedError: (ValueError, ClosedError("m", loc="p"), "closed", "p"),
    LockedError: (RecordError, LockedError("m", loc="p"), "locked", "p"),
}
#: Codes are only ever added: a code that vanishes from the source breaks whoever handles it.
CODES = frozenset(
    [
        "aligned_chain",
        "aligned_count",
        "aligned_self",
        "aligned_shape",
        "aligned_shared_column",
        "aligned_system_name",
        "aligned_target",
        "aligned_target_absent",
        "array_shape",
        "array_short",
        "bad_json",
        "bad_name",
        "bad_zip",
        "block_attributes",
        "box_shape",
        "canonical_dtype",
        "cell_defined",
        "checksum",
        "closed",
        "codec",
        "column_shape",
        "column_type",
        "commit_failed",
        "count",
        "cut_short",
        "data_type",
        "document",
        "dtype",
        "elision_markers",
        "exists",
        "fill_value",
        "forked",
        "index_dtype",
        "locked",
        "mask_dtype",
        "mask_length",
        "mask_not_nullable",
        "mask_shape",
        "mask_without_column",
        "meta_dtype",
        "meta_fill",
        "meta_tag",
        "meta_types",
        "meta_value",
        "missing_array",
        "missing_column",
        "missing_meta",
        "no_section",
        "node_type",
        "not_appendable",
        "not_a_record",
        "not_found",
        "not_json",
        "not_zarr",
        "offset",
        "precision",
        "progression",
        "read_only",
        "reserved_name",
        "row_count_mismatch",
        "schema",
        "schema_mismatch",
        "section_not_found",
        "series_length",
        "step_given",
        "step_index",
        "step_order",
        "step_type",
        "structural_shape",
        "symlink",
        "system_id",
        "system_rows",
        "target_column",
        "target_dtype",
        "target_missing_block",
        "target_out_of_range",
        "target_spelling",
        "targets",
        "time_presence",
        "timestamp",
        "too_large",
        "undeclared_block",
        "undeclared_column",
        "undeclared_meta",
        "undefined_cell_periodic",
        "unit",
        "unsupported_version",
        "zip_compressed",
        "zip_duplicate",
        "zip_member_name",
    ]
)


def public_errors():
    return {
        v
        for v in vars(errors).values()
        if isinstance(v, type) and issubclass(v, RecordError) and v.__name__[0] != "_"
    }


def test_every_error_is_in_the_tree():
    assert public_errors() == {RecordError, *TREE}
    for cls in public_errors() - {CodecError}:
        assert getattr(molrec_core, cls.__name__) is cls


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
def test_shape_of_the_tree(cls):
    base, error, kind, loc = TREE[cls]
    assert issubclass(cls, RecordError)
    assert isinstance(error, base)
    assert (error.kind, error.loc) == (kind, loc)
    assert error.message
    assert str(error) == (f"{loc}: {error.message}" if loc else error.message)


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_errors_pickle(cls, protocol):
    error = TREE[cls][1]
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is cls
    assert again.__dict__ == error.__dict__
    assert (str(again), again.args) == (str(error), error.args)


def test_what_an_error_carries():
    checksum = ChecksumError("m", key="trajectory/atoms/x")
    assert (checksum.key, checksum.chunk, checksum.loc) == (
        "trajectory/atoms/x",
        -1,
        "trajectory/atoms/x, shard index",
    )
    commit = CommitError("m", path="run.mrec", stage="marker")
    assert (commit.path, commit.stage) == ("run.mrec", "marker")
    assert ReadOnlyError("m", kind="forked").kind == "forked"


def test_every_problem_is_said():
    second = Problem("frame/bonds", "dtype", "the dtype is odd")
    error = FormatError([PROBLEM, second])
    assert error.problems == (PROBLEM, second)
    assert (error.kind, error.loc) == ("count", "")
    assert str(error) == ("frame/atoms: the count is missing [count]; frame/bonds: the dtype is odd [dtype]")
    assert str(FormatError.one("", "dtype", "odd")) == "odd"
    assert str(Problem("", "dtype", "odd")) == "/: odd [dtype]"


def test_warnings_are_not_raised():
    problems = Problems()
    problems.raise_errors()
    problems.add("a", "dead_bytes", "much", "warning")
    problems.raise_errors()
    assert problems.errors == []
    problems.add("b", "count", "none")
    with pytest.raises(FormatError) as caught:
        problems.raise_errors()
    assert [p.loc for p in caught.value.problems] == ["b"]
    assert [p.severity for p in problems.found] == ["warning", "error"]


def stated_codes():
    """String literals in the source that stand where a code does."""
    found = set()
    for file in Path(molrec_core.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def test_codes_are_only_added():
    assert stated_codes() >= CODES
