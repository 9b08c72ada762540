"""How a writer comes by its pin: a schema that is given, or its first frame, and precisions on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from molrec_core._schema import SequenceSchema


def pinned(
    schema: SequenceSchema | None, precision: float | Mapping[str, float] | None
) -> SequenceSchema | None:
    """Return a checked copy of `schema` with the precisions declared: later edits do not reach the writer."""
    if schema is None:
        return None
    schema = schema.copy()
    declare_precision(schema, precision)
    schema.check()
    return schema


def declare_precision(schema: SequenceSchema, precision: float | Mapping[str, float] | None) -> None:
    """Declare precisions in place: a float for x, y and z of ``atoms``, or {"block.column": precision}."""
    for block, column, value in _precisions(schema, precision):
        schema.declare_precision(block, column, value)


def _precisions(
    schema: SequenceSchema, precision: float | Mapping[str, float] | None
) -> Iterable[tuple[str, str, float]]:
    if precision is None:
        return []
    if isinstance(precision, Mapping):
        return [(*name.rpartition(".")[::2], value) for name, value in precision.items()]
    atoms = schema.blocks.get("atoms")
    return [("atoms", name, precision) for name in "xyz" if atoms is not None and name in atoms.columns]
