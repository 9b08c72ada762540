"""What a pin declares: columns, blocks and per-step meta keys, and how they are spelled."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from molrec_core.errors import FormatError, Problems

NO_FILL = object()
SECTIONS_RESOLVABLE = frozenset({"frame", "system"})


@dataclass(slots=True)
class ColumnSchema:
    """One declared column: dtype, trailing shape, whether rows may be null, precision in record units."""

    dtype: str
    trailing: tuple[int, ...] = ()
    nullable: bool = False
    precision: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class BlockSchema:
    """One declared block."""

    columns: dict[str, ColumnSchema] = field(default_factory=dict)
    structural_shape: tuple[int, ...] | None = None
    targets: dict[str, str] = field(default_factory=dict)
    aligned_with: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the pin; optional members only when set (Q02)."""
        columns: dict[str, Any] = {}
        for name, spec in self.columns.items():
            entry: dict[str, Any] = {"dtype": spec.dtype, "trailing": list(spec.trailing)}
            if spec.nullable:
                entry["nullable"] = True
            if spec.precision is not None:
                entry["precision"] = spec.precision
            columns[name] = entry | spec.extra
        document: dict[str, Any] = {"columns": columns}
        if self.structural_shape is not None:
            document["structural_shape"] = list(self.structural_shape)
        if self.targets:
            document["targets"] = dict(self.targets)
        if self.aligned_with is not None:
            document["aligned_with"] = self.aligned_with
        return document | copy.deepcopy(self.extra)


@dataclass(slots=True)
class MetaSchema:
    """One declared per-step meta key: its tag, and the fill of a frame that omits it."""

    tag: str
    fill: Any = NO_FILL
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def has_fill(self) -> bool:
        """Whether a fill is declared; a declared fill may be JSON null."""
        return self.fill is not NO_FILL


def is_shape(value: object) -> bool:
    """Whether a stored value is a list of integers >= 0."""
    return isinstance(value, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value
    )


def read_structural_shape(value: object, loc: str) -> tuple[int, ...]:
    """Read a stored ``structural_shape``.

    Raises
    ------
    FormatError
        It is not a list of integers >= 0.
    """
    if not is_shape(value):
        raise FormatError.one(
            loc, "structural_shape", f"structural_shape is {value!r}; integers >= 0 are expected"
        )
    assert isinstance(value, list)
    return tuple(value)


def read_targets(value: object, loc: str) -> dict[str, str]:
    """Read a stored ``targets`` map of column to target.

    Raises
    ------
    FormatError
        It is not an object of strings.
    """
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise FormatError.one(
            loc, "target_spelling", f"targets is {value!r}; an object of strings is expected"
        )
    return dict(value)


def target_problem(target: str) -> str | None:
    """Say what is wrong with the spelling of a target; None when nothing is (checklist T09 to T11)."""
    parts = target.removeprefix("/").split("/")
    absolute = target.startswith("/")
    if len(parts) != (2 if absolute else 1) or not all(parts):
        return f"the target {target!r} is neither '<block>' nor '/<section>/<block>'"
    if absolute and parts[0] not in SECTIONS_RESOLVABLE:
        return f"the target {target!r} points into {parts[0]!r}; only rows of /frame and /system can be referenced"
    return None


def check_blocks(blocks: dict[str, BlockSchema], problems: Problems) -> None:
    """Add every problem between declared blocks: targets, alignment, shapes."""
    for name, block in blocks.items():
        loc = f"trajectory/{name}"
        for column, target in block.targets.items():
            _check_target(blocks, f"{loc}/{column}", block, column, target, problems)
        if block.structural_shape is not None and any(n < 0 for n in block.structural_shape):
            problems.add(
                loc, "structural_shape", f"structural_shape {list(block.structural_shape)} is negative"
            )
        if block.aligned_with is not None:
            _check_aligned(blocks, loc, name, block, problems)


def _check_target(
    blocks: dict[str, BlockSchema], loc: str, block: BlockSchema, column: str, target: str, problems: Problems
) -> None:
    spec = block.columns.get(column)
    if spec is None:
        problems.add(loc, "target_column", "targets name a column the block does not have")
    elif spec.dtype != "u64" or spec.trailing:
        problems.add(loc, "target_dtype", f"a row reference is u64, one per row; found {spec.dtype}")
    problem = target_problem(target)
    if problem:
        problems.add(loc, "target_spelling", problem)
    elif not target.startswith("/") and target not in blocks:
        problems.add(loc, "target_missing_block", f"the target block {target!r} is not declared")


def _check_aligned(
    blocks: dict[str, BlockSchema], loc: str, name: str, block: BlockSchema, problems: Problems
) -> None:
    target = block.aligned_with or ""
    other = blocks.get(target)
    if target == name:
        problems.add(loc, "aligned_self", "a block cannot be aligned with itself")
    elif other is None:
        problems.add(loc, "aligned_target", f"aligned_with names {target!r}, which is not a declared block")
    elif other.aligned_with is not None:
        problems.add(loc, "aligned_chain", f"aligned_with names {target!r}, which is itself aligned")
    elif shared := sorted(block.columns.keys() & other.columns.keys()):
        problems.add(loc, "aligned_shared_column", f"columns {shared} are declared by {target!r} too")
    if block.structural_shape is not None:
        problems.add(loc, "aligned_shape", "an aligned block declares no structural_shape")
