"""The ``forcefield`` section: a document, and one style table per functional form.

Laid out as a frame-shaped section whose attributes are the force-field document and
whose blocks are the style tables, named ``<category>.<encoded style>`` (checklist group
X). Everything is handed back as stored, tables that no style names included; no number
is converted or evaluated. Types are linked by name, and a name that resolves to nothing
is never an error.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from molrec_core._document import VERSION_KEY, VERSION_WRITTEN
from molrec_core._forcefield_links import Parameters, Style, TypeLinks
from molrec_core._forcefield_rules import (
    SECTION,
    check_forcefield,
    preset_units,
)
from molrec_core._frame import Block, Frame
from molrec_core._group import check_frame, read_frame, write_frame
from molrec_core._names import encode_style
from molrec_core._typedjson import check_document, same
from molrec_core.errors import Problems, SchemaError, SectionNotFoundError

if TYPE_CHECKING:
    from molrec_core._node import GroupNode
    from molrec_core._store import DirectoryStore, Store


class ForceField:
    """A force field as stored, with its numbers in its own units.

    Parameters
    ----------
    document : mapping
        ``name`` and ``units``; optionally ``styles``, ``source``, ``special_bonds`` and
        keys of the producer's. It is copied. Styles are added with :meth:`add_style`.
    tables : mapping of str to Block or mapping of columns, optional
        Style tables, and blocks no style names, by their stored names.
    version : {1, 2}, optional
        Contract version that says what the numbers mean (version 1: half-harmonic
        terms, angles in radians); None for that of the record it is written to.

    Raises
    ------
    SchemaError
        The document is not plain finite JSON, or a table is no block. The rules of the
        section itself are checked by the writer and the reader.

    Examples
    --------
    >>> ff = ForceField({"name": "demo", "units": {"preset": "real"}})
    >>> _ = ff.add_style("bond", "harmonic", {
    ...     "name": ["CT-HC"], "itom": ["CT"], "jtom": ["HC"], "k": [340.0], "r0": [1.09]})
    >>> ff.parameters_of(Frame({"bonds": {"type": ["CT-HC"]}}), "bonds", 0)
    {'harmonic': {'k': 340.0, 'r0': 1.09}}
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        tables: Mapping[str, Block | Mapping[str, object]] | None = None,
        *,
        version: int | None = None,
    ) -> None:
        if not isinstance(document, Mapping):
            raise SchemaError.one(
                SECTION, "document", f"a {type(document).__name__} was given; an object is expected"
            )
        self.document = copy.deepcopy(dict(document))
        check_document(self.document, SECTION)
        self.tables: dict[str, Block] = dict(Frame(tables))
        self.version = version
        self._linked: TypeLinks | None = None

    def add_style(
        self,
        category: str,
        style: str,
        table: Block | Mapping[str, object],
        *,
        params: Mapping[str, float | str] | None = None,
        expression: str | None = None,
        endpoint_key: str = "type",
    ) -> Self:
        """Add a style with its table; return the force field.

        Parameters
        ----------
        table : Block or mapping of columns
            One row per type: ``name``, the endpoints ``itom`` ... of the category, annotations
            and parameters (float64 or string, null through the block's validity).

        Raises
        ------
        SchemaError
            The category or style has no block name, or the table is no block.
        """
        name = encode_style(category, style)
        self.tables |= dict(Frame({name: table}))
        entry: dict[str, Any] = {"category": category, "style": style}
        if params:
            entry["params"] = dict(params)
        if expression is not None:
            entry["expression"] = expression
        if endpoint_key != "type":
            entry["endpoint_key"] = endpoint_key
        self.document.setdefault("styles", []).append(entry)
        self._linked = None
        return self

    @property
    def name(self) -> str:
        """Name of the force field."""
        return str(self.document["name"])

    @property
    def styles(self) -> tuple[Style, ...]:
        """The styles, in stored order."""
        return tuple(
            Style(
                entry["category"],
                entry["style"],
                dict(entry.get("params", {})),
                entry.get("expression"),
                entry.get("endpoint_key", "type"),
            )
            for entry in self.document.get("styles", [])
        )

    @property
    def special_bonds(self) -> dict[str, list[float]] | None:
        """Weights of 1-2, 1-3 and 1-4 neighbours under ``lj`` and ``coul``; None when none are stated."""
        return self.document.get("special_bonds")

    def unit(self, quantity: str) -> str | None:
        """Return the unit of a quantity, by the document or its preset; None when neither gives one.

        Parameters
        ----------
        quantity : {"length", "energy", "angle", "charge", "mass", "time"}
        """
        units = self.document["units"]
        preset = units.get("preset")
        meant = {} if preset is None else preset_units(preset, self.version or VERSION_WRITTEN)
        stated: str | None = units.get(quantity, meant.get(quantity))
        return stated

    def table(self, category: str, style: str) -> Block:
        """Return the table of a style.

        Raises
        ------
        SectionNotFoundError
            The force field does not have it; also a KeyError.
        """
        name = encode_style(category, style)
        if name not in self.tables:
            msg = f"there is no table of {category} {style}; there are {', '.join(self.tables) or 'none'}"
            raise SectionNotFoundError(msg, loc=f"{SECTION}/{name}")
        return self.tables[name]

    # -- linking

    @property
    def _links(self) -> TypeLinks:
        if self._linked is None:
            self._linked = TypeLinks(self.styles, self.tables)
        return self._linked

    def parameters_of(self, system: Mapping[str, Block], block: str, row: int) -> Parameters:
        """Return the parameters that apply to one row of a system, linked by name.

        Parameters
        ----------
        system : Frame
            Holds `block`; for ``pairs`` also ``atoms`` with their ``type``.
        block : str
            ``atoms``, a relation block such as ``bonds``, or ``pairs``.
        row : int

        Returns
        -------
        dict of str to dict
            Style -> parameter -> value, without those that are null. The row's ``style``
            picks one style; without it, every style that has a row of the row's ``type``
            is there, and their energies add. A parameter that the row states itself
            replaces the table's; a style whose table is empty takes all of them from the
            row. Empty when the names resolve to nothing.

        Raises
        ------
        SectionNotFoundError
            The system has no such block; also a KeyError.
        IndexError
            The block has no such row.
        """
        return self._links.parameters_of(system, block, row)

    def pair(self, first: str, second: str) -> Parameters:
        """Return the stated pair parameters of two atom types, in either order.

        Returns
        -------
        dict of str to dict
            Style -> parameter -> value, for the pair styles with a row of these two types.
            A style that has none leaves the pair to its ``mixing``, which is not applied here.
        """
        return self._links.pair(first, second)

    def unresolved(self, system: Mapping[str, Block]) -> Iterator[tuple[str, str]]:
        """Yield place and message of every type name of a system that names no row here.

        None of them is an error: the record opens, and :meth:`parameters_of` is empty there.
        """
        return self._links.unresolved(system)

    def __eq__(self, other: object) -> bool:
        """Compare exactly and type-strictly; a version that is not stated agrees with any."""
        if not isinstance(other, ForceField):
            return NotImplemented
        return (
            same(self.document, other.document)
            and self.tables == other.tables
            and (self.version == other.version or None in (self.version, other.version))
        )

    __hash__ = None  # type: ignore[assignment]  # tables are mutable

    def __repr__(self) -> str:
        """Return the name and the tables with their row counts."""
        tables = ", ".join(f"{name}[{table.count}]" for name, table in self.tables.items())
        return f"ForceField({self.document.get('name')!r}: {tables})"


# -- reading and writing


def read_forcefield(store: Store, node: GroupNode, meta: dict[str, Any]) -> ForceField:
    """Read the section.

    Parameters
    ----------
    meta : dict
        The record's meta document: its version decides between the rules of version 1 and 2.

    Raises
    ------
    FormatError
        All rules that the section breaks.
    """
    frame = read_frame(store, SECTION, node, sections=lambda _: None, plain=True)
    forcefield = ForceField({})
    forcefield.document = node.attributes
    forcefield.tables = dict(frame)
    forcefield.version = meta.get(VERSION_KEY, 1)
    problems = Problems()
    check_forcefield(forcefield.document, forcefield.tables, meta.get(VERSION_KEY, 1), problems)
    problems.raise_errors()
    return forcefield


def write_forcefield(store: DirectoryStore, forcefield: ForceField, meta: dict[str, Any]) -> None:
    """Write the section, as the version of the record's `meta` means it.

    Raises
    ------
    SchemaError
        All rules that the force field breaks, or a force field of another version.
    """
    version = meta.get(VERSION_KEY, VERSION_WRITTEN)
    if forcefield.version not in {None, version}:
        raise SchemaError.one(
            SECTION,
            "forcefield_version",
            f"the numbers are meant as in version {forcefield.version}, the record is of version {version}; "
            f"write it with meta={{'{VERSION_KEY}': {forcefield.version}}}",
        )
    frame = Frame(forcefield.tables)
    check_frame(frame, SECTION)
    problems = Problems()
    check_forcefield(forcefield.document, forcefield.tables, version, problems)
    if problems.errors:
        raise SchemaError(problems.errors)
    write_frame(store, SECTION, frame, sections={}, document=_canonical_document(forcefield.document))


def _canonical_document(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what says nothing: empty ``params``, and an ``endpoint_key`` of ``type`` (X38)."""
    if "styles" not in document:
        return document
    styles = [
        {
            key: value
            for key, value in entry.items()
            if not ((key == "params" and not value) or (key == "endpoint_key" and value == "type"))
        }
        for entry in document["styles"]
    ]
    return document | {"styles": styles}
