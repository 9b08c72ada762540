"""Whether a block fits its declaration: the checks of one block of an appended frame.

Checklist D15, N12, P13, P14, Q05 to Q09, Q16 and T15.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from molrec_core._declaration import BlockSchema
from molrec_core._dtypes import COLUMN_DTYPES
from molrec_core._frame import Block
from molrec_core.errors import SchemaError


class BlockFit:
    """The declaration of one block, ready to be compared with what frames present."""

    def __init__(self, key: str, spec: BlockSchema) -> None:
        self._key = key
        self._spec = spec
        self._columns: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
            name: (COLUMN_DTYPES[c.dtype][0], c.trailing) for name, c in spec.columns.items()
        }

    def check(self, block: Block, counts: Iterable[int] | None = None) -> None:
        """Refuse a block that is not of the declaration; `counts` are its rows where it holds several frames'.

        Raises
        ------
        SchemaError
            What was found, what was declared, and where.
        """
        columns, declared = block._columns, self._columns
        if columns.keys() != declared.keys():
            self._refuse_columns(block)
        for name, (dtype, trailing) in declared.items():
            array = columns[name]
            # Strings of a stack are packed already.
            fits = array.dtype == dtype or (dtype.kind == "T" and array.dtype.kind == "S")
            if not fits or array.shape[1:] != trailing:
                raise SchemaError.one(
                    f"{self._key}/{name}",
                    "column_type",
                    f"{array.dtype} of row shape {array.shape[1:]}; {dtype} of row shape {trailing} is declared",
                )
        if block.validity or block.precision or block.targets or block.attributes:
            self._check_statements(block)
        if self._spec.structural_shape is not None or block.structural_shape is not None:
            for count in (block.count,) if counts is None else counts:
                self._check_shape(block, count)

    def _check_shape(self, block: Block, count: int) -> None:
        shape = self._spec.structural_shape
        if shape is None or int(np.prod(shape)) != count or block.structural_shape not in {None, shape}:
            raise SchemaError.one(
                self._key,
                "structural_shape",
                f"{count} rows of shape {block.structural_shape}; the declared structural shape is {shape}",
            )

    def _refuse_columns(self, block: Block) -> None:
        for name in block:
            if name not in self._columns:
                raise SchemaError.one(
                    f"{self._key}/{name}", "undeclared_column", "the column is not declared for this block"
                )
        missing = [name for name in self._columns if name not in block]
        raise SchemaError.one(
            self._key,
            "missing_column",
            f"columns {missing} are missing; a block is presented whole or not at all",
        )

    def _check_statements(self, block: Block) -> None:
        """Refuse what a block says of itself beside its values and the pin does not."""
        for name in block.validity:
            if not self._spec.columns[name].nullable:
                raise SchemaError.one(
                    f"{self._key}/{name}",
                    "mask_not_nullable",
                    "rows are masked, but the column is not declared nullable",
                )
        for name, precision in block.precision.items():
            declared = self._spec.columns[name].precision
            if precision != declared:
                raise SchemaError.one(
                    f"{self._key}/{name}",
                    "precision",
                    f"the frame states precision {precision}, declared is {declared}",
                )
        for name, target in block.targets.items():
            if self._spec.targets.get(name) != target:
                raise SchemaError.one(
                    f"{self._key}/{name}",
                    "targets",
                    f"the frame states target {target!r}, declared is {self._spec.targets.get(name)!r}",
                )
        if block.attributes:
            raise SchemaError.one(
                self._key,
                "block_attributes",
                f"a trajectory block carries no attributes; found {sorted(block.attributes)}",
            )
