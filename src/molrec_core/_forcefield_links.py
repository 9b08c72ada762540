"""Linking a system to a force field: by the names of types, never by their numbers.

"Linking a system" of the force-field chapter (checklist X39). A name that resolves to
nothing is never an error; it finds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from molrec_core._dtypes import CANONICAL
from molrec_core._forcefield_rules import is_parameter
from molrec_core._frame import Block
from molrec_core._names import encode_style
from molrec_core.errors import SectionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Parameters = dict[str, dict[str, Any]]
"""Parameters by style, then by name: float, str, or an array of float64."""


@dataclass(frozen=True, slots=True)
class Style:
    """One entry of the document's ``styles``: a functional form.

    Attributes
    ----------
    category : str
        What the rows of its table describe: ``bond``, ``pair``, ...
    style : str
        Name of the form, e.g. ``lj/cut``.
    params : dict
        Numbers and strings that hold for the whole style, e.g. ``cutoff``, in the units of the section.
    expression : str or None
        Energy of one term, byte for byte as stored.
    endpoint_key : {"type", "class", "smirks"}
        What the endpoint columns name.
    """

    category: str
    style: str
    params: dict[str, float | str]
    expression: str | None
    endpoint_key: str

    @property
    def table(self) -> str:
        """Name of the block that holds its types."""
        return encode_style(self.category, self.style)


class TypeLinks:
    """Finds the rows of style tables that the rows of a system name.

    Parameters
    ----------
    styles : sequence of Style
    tables : mapping of str to Block
    """

    def __init__(self, styles: Sequence[Style], tables: Mapping[str, Block]) -> None:
        self._tables = tables
        self._styles: dict[str, list[Style]] = {}
        for style in styles:
            if style.table in tables:
                self._styles.setdefault(style.category, []).append(style)
        self._rows: dict[tuple[str, str], dict[Any, int]] = {}

    def parameters_of(self, system: Mapping[str, Block], block: str, row: int) -> Parameters:
        """Return what applies to one row; see :meth:`ForceField.parameters_of`."""
        if block not in system:
            msg = f"the system has no block {block!r}; it has {', '.join(system) or 'none'}"
            raise SectionNotFoundError(msg, loc=f"system/{block}")
        relation = system[block]
        if not 0 <= row < relation.count:
            msg = f"row {row} of {block}, which has {relation.count} rows"
            raise IndexError(msg)
        if block == "pairs":
            return self._pair_row(system, relation, row)
        name = _cell(relation, "type", row)
        found: Parameters = {}
        for style in self._styles_of(self._category(block), name, _cell(relation, "style", row)):
            table = self._tables[style.table]
            at = self._index(style, "name").get(name)
            values = {} if at is None else _parameters(table, at)
            found[style.style] = (
                values if block == "atoms" else values | _own_parameters(relation, row, table)
            )
        return found

    def pair(self, first: str, second: str) -> Parameters:
        """Return the rows of two atom types; see :meth:`ForceField.pair`."""
        found: Parameters = {}
        for style in self._styles.get("pair", ()):
            at = self._pair_at(style, first, second)
            if at is not None:
                found[style.style] = _parameters(self._tables[style.table], at)
        return found

    def unresolved(self, system: Mapping[str, Block]) -> Iterator[tuple[str, str]]:
        """Yield what names nothing; see :meth:`ForceField.unresolved`."""
        for block, relation in system.items():
            category = self._category(block)
            if block == "pairs" or category not in self._styles or "type" not in relation:
                continue
            styles = _cells(relation, "style") if "style" in relation else [None] * relation.count
            missing = {
                name
                for name, chosen in set(zip(_cells(relation, "type"), styles, strict=True))
                if name is not None and not self._styles_of(category, name, chosen)
            }
            for name in sorted(missing):
                yield f"system/{block}/type", f"{name!r} names no {category} type of the force field"

    def _category(self, block: str) -> str:
        """Category of a system block, which is named for it in the plural."""
        category = block.removesuffix("s")
        # A force field keyed by SMIRKS alone has no atom table; its pair table names the types.
        return "pair" if category == "atom" and "atom" not in self._styles else category

    def _styles_of(self, category: str, name: str | None, chosen: str | None) -> list[Style]:
        styles = [style for style in self._styles.get(category, ()) if chosen in {None, style.style}]
        named = [style for style in styles if name in self._index(style, "name")]
        return named or [style for style in styles if self._tables[style.table].count == 0]

    def _index(self, style: Style, key: str) -> dict[Any, int]:
        """First row of each name, or of each unordered pair of endpoints, of a table."""
        index = self._rows.get((style.table, key))
        if index is None:
            table = self._tables[style.table]
            labels: list[Any] = table["name"].tolist()
            if key == "pair":
                ends = zip(table["itom"].tolist(), table["jtom"].tolist(), strict=True)
                labels = [tuple(sorted(pair)) for pair in ends]
            index = {label: row for row, label in reversed(list(enumerate(labels)))}
            self._rows[style.table, key] = index
        return index

    def _pair_at(self, style: Style, first: str, second: str) -> int | None:
        if style.endpoint_key == "smirks":
            return self._index(style, "name").get(first) if first == second else None
        ends: list[str | None] = [first, second]
        if style.endpoint_key == "class":
            ends = [self._class_of(name) for name in (first, second)]
        labels = sorted(end for end in ends if end is not None)
        return self._index(style, "pair").get(tuple(labels))

    def _class_of(self, name: str) -> str | None:
        for style in self._styles.get("atom", ()):
            at = self._index(style, "name").get(name)
            if at is not None:
                label: str | None = _cell(self._tables[style.table], "class", at)
                return label
        return None

    def _pair_row(self, system: Mapping[str, Block], pairs: Block, row: int) -> Parameters:
        """Return the parameters of two atoms; those the ``pairs`` row states are final (TB9)."""
        ends = [_cell(pairs, column, row) for column in ("atomi", "atomj")]
        atoms = system.get("atoms", Block())
        names = [None if end is None else _cell(atoms, "type", end) for end in ends]
        found = {} if None in names else self.pair(str(names[0]), str(names[1]))
        for style in self._styles.get("pair", ()):
            own = _own_parameters(pairs, row, self._tables[style.table])
            if own:
                found[style.style] = found.get(style.style, {}) | own
        return found


def _cell(block: Block, column: str, row: int) -> Any:
    """Return one value; None where the column is missing or null."""
    mask = block.validity.get(column)
    if column not in block or (mask is not None and not mask[row]):
        return None
    value = block[column][row]
    return value.item() if isinstance(value, np.generic) else value


def _cells(block: Block, column: str) -> list[Any]:
    """Return every value of a column; None where it is null."""
    values: list[Any] = block[column].tolist()
    mask = block.validity.get(column)
    return values if mask is None else [v if valid else None for v, valid in zip(values, mask, strict=True)]


def _parameters(table: Block, row: int) -> dict[str, Any]:
    cells = {column: _cell(table, column, row) for column in table if is_parameter(column)}
    return {column: value for column, value in cells.items() if value is not None}


def _own_parameters(relation: Block, row: int, table: Block) -> dict[str, Any]:
    """Return what a row states itself, named as the table names it; all it has, for an empty table."""
    columns = [
        c for c in relation if is_parameter(c) and c not in CANONICAL and (c in table or not table.count)
    ]
    cells = {column: _cell(relation, column, row) for column in columns}
    return {column: value for column, value in cells.items() if value is not None}
