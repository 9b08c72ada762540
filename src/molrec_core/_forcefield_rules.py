"""What a force field must hold: its document, its styles and a table for each of them.

Checklist group X and tables TB8 and TB10. The writer applies these rules before it
writes, the reader to what is stored; no number is ever evaluated or converted. The
two contract versions give some of the same names other meanings, so each rule that
differs takes the version of the record.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from molrec_core._dtypes import CANONICAL
from molrec_core._names import encode_style
from molrec_core._unit_table import parse
from molrec_core.errors import Problems, SchemaError, UnitError
from molrec_core.units import PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from molrec_core._frame import Block

SECTION = "forcefield"
KIND = "bad_forcefield"
ENDPOINTS = ("itom", "jtom", "ktom", "ltom", "mtom")
ANNOTATIONS = frozenset({"class", "element", "smarts", "smirks", "overrides", "desc", "doi"})
QUANTITIES = ("length", "energy", "angle", "charge", "mass", "time")
_ARITY = {
    "atom": 0,
    "bond": 2,
    "angle": 3,
    "dihedral": 4,
    "improper": 4,
    "pair": 2,
    "constraint": 2,
    "virtual_site": 0,
    "drude": 2,
    "cmap": 5,
}
_ENDPOINT_KEYS = ("type", "class", "smirks")
_PARAM_WORDS = {"special": ("lj", "coul"), "mixing": ("arithmetic", "geometric", "sixthpower")}
_ONE_FOUR = ("regular", "epsilon14")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def preset_units(preset: str, version: int) -> dict[str, str]:
    """Return the unit of each quantity of a preset; version 1 counts angles in radians (TB8)."""
    units = dict(PRESETS[preset])
    if version == 1:
        del units["angle"]
        if preset != "lj":
            units["angle"] = "radian"
    return units


def is_parameter(column: str) -> bool:
    """Whether a column of a style table is a parameter: no name, endpoint or annotation."""
    return column != "name" and column not in ENDPOINTS and column not in ANNOTATIONS


def check_forcefield(
    document: Mapping[str, Any], tables: Mapping[str, Block], version: int, problems: Problems
) -> None:
    """Add every rule that a force field breaks to `problems`, all of kind ``bad_forcefield``.

    Parameters
    ----------
    document : mapping
        The force-field document.
    tables : mapping of str to Block
        Blocks by their stored names; those no style names are left alone.
    version : {1, 2}
        Contract version of the record.
    problems : Problems
    """
    if not isinstance(document.get("name"), str):
        _add(problems, "name", f"name is {document.get('name')!r}; a force field needs a string 'name'")
    _check_units(document.get("units"), version, problems)
    _check_source(document, problems)
    _check_special_bonds(document, problems)
    styles = _checked_styles(document.get("styles", []), problems)
    for name, entry in styles.items():
        table = tables.get(name)
        if table is None:
            category, style = entry["category"], entry["style"]
            _add(problems, name, f"the style {category} {style} is listed, but its table is not there")
            continue
        for loc, message in _table_problems(name, entry, table, version):
            _add(problems, loc, message)
    _check_classes(styles, tables, problems)


def _add(problems: Problems, loc: str, message: str) -> None:
    problems.add(f"{SECTION}/{loc}", KIND, message)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


# -- the document


def _check_units(units: object, version: int, problems: Problems) -> None:
    if not isinstance(units, dict) or not any(key in units for key in ("preset", *QUANTITIES)):
        _add(
            problems,
            "units",
            f"units is {units!r}; a preset or the unit of at least one quantity is expected",
        )
        return
    for key in ("preset", *QUANTITIES):
        if key in units and not isinstance(units[key], str):
            _add(problems, f"units/{key}", f"{key} is {units[key]!r}; a string is expected")
            return
    preset = units.get("preset")
    if preset is None:
        return
    if preset not in PRESETS:
        _add(problems, "units/preset", f"the preset {preset!r} is none of {', '.join(PRESETS)}")
        return
    meant = preset_units(preset, version)
    for key in QUANTITIES:
        if key in units and not _same_unit(units[key], meant.get(key)):
            _add(
                problems,
                f"units/{key}",
                f"{key} is {units[key]!r} beside the preset {preset!r}, which means {meant.get(key, 'no unit')}"
                f" in a version-{version} record; state one of the two",
            )


def _same_unit(text: str, meant: str | None) -> bool:
    if text == meant or meant is None:
        return text == meant
    try:
        (value, powers), (other, same_powers) = parse(text), parse(meant)
    except UnitError:
        return False
    # Constants that are measured differ between tables in their last digits.
    return powers == same_powers and abs(value / other - 1) <= 1e-12


def _check_source(document: Mapping[str, Any], problems: Problems) -> None:
    if "source" not in document:
        return
    source = document["source"]
    if not isinstance(source, dict) or not isinstance(source.get("format"), str):
        _add(problems, "source", f"source is {source!r}; an object with a string 'format' is expected")
        return
    if not isinstance(source.get("uri", ""), str):
        _add(problems, "source/uri", f"uri is {source['uri']!r}; a string is expected")
    digest = source.get("sha256", "0" * 64)
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        _add(problems, "source/sha256", f"sha256 is {digest!r}; 64 lowercase hex digits are expected")


def _check_special_bonds(document: Mapping[str, Any], problems: Problems) -> None:
    if "special_bonds" not in document:
        return
    weights = document["special_bonds"]
    if not isinstance(weights, dict) or weights.keys() != {"lj", "coul"}:
        _add(problems, "special_bonds", f"special_bonds is {weights!r}; exactly 'lj' and 'coul' are expected")
        return
    for key, value in weights.items():
        if not isinstance(value, list | tuple) or len(value) != 3 or not all(map(_is_number, value)):
            _add(problems, f"special_bonds/{key}", f"{key} is {value!r}; three finite weights are expected")


def _checked_styles(styles: object, problems: Problems) -> dict[str, dict[str, Any]]:
    """Return the entries of the styles that can be looked up, by the name of their table."""
    if not isinstance(styles, list | tuple):
        _add(problems, "styles", f"styles is a {type(styles).__name__}; a list of objects is expected")
        return {}
    found: dict[str, dict[str, Any]] = {}
    for i, entry in enumerate(styles):
        loc = f"styles/{i}"
        if not isinstance(entry, dict) or not all(
            isinstance(entry.get(k), str) for k in ("category", "style")
        ):
            _add(problems, loc, f"{entry!r}; an object with the strings 'category' and 'style' is expected")
            continue
        for message in _entry_problems(entry):
            _add(problems, loc, message)
        try:
            name = encode_style(entry["category"], entry["style"])
        except SchemaError as error:
            _add(problems, loc, error.problems[0].message)
            continue
        if name in found:
            _add(problems, loc, f"the style {entry['category']} {entry['style']} is listed twice")
            continue
        found[name] = entry
    return found


def _entry_problems(entry: Mapping[str, Any]) -> Iterator[str]:
    if entry.get("endpoint_key", "type") not in _ENDPOINT_KEYS:
        yield f"endpoint_key is {entry['endpoint_key']!r}; one of {', '.join(_ENDPOINT_KEYS)} is expected"
    if not isinstance(entry.get("expression", ""), str):
        yield f"expression is {entry['expression']!r}; a string is expected"
    params = entry.get("params", {})
    if not isinstance(params, dict):
        yield f"params is {params!r}; an object of numbers and strings is expected"
        return
    words = dict(_PARAM_WORDS)
    if (entry["category"], entry["style"]) == ("pair", "lj/charmm"):
        words["one_four"] = _ONE_FOUR
    for key, value in params.items():
        if key in words and value not in words[key]:
            yield f"params.{key} is {value!r}; one of {', '.join(words[key])} is expected"
        elif not isinstance(value, str) and not _is_number(value):
            yield f"params.{key} is {value!r}; a finite number or a string is expected"


def _check_classes(
    styles: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Block], problems: Problems
) -> None:
    if any(entry.get("endpoint_key") == "class" for entry in styles.values()):
        for name, entry in styles.items():
            if entry["category"] == "atom" and name in tables and "class" not in tables[name]:
                _add(problems, name, "a style is keyed by class, but this atom table has no column 'class'")


# -- style tables


def _table_problems(
    name: str, entry: Mapping[str, Any], table: Block, version: int
) -> Iterator[tuple[str, str]]:
    """Yield place and message of every rule a style's table breaks."""
    if table.structural_shape is not None:
        yield name, "a style table has no structural_shape"
    for column in table.precision:
        yield f"{name}/{column}", "a force field is stored exactly; its columns take no precision"
    yield from _label_problems(name, "name", table)
    if "name" in table and len(set(table["name"].tolist())) != table.count:
        yield f"{name}/name", "a type name occurs twice; names are unique within a table"
    if entry.get("endpoint_key") == "smirks":
        yield from _label_problems(name, "smirks", table)
        endpoints: tuple[str, ...] = ()
    else:
        endpoints = _expected_endpoints(entry["category"], table, version)
    if present := tuple(column for column in ENDPOINTS if column in table):
        if present != endpoints:
            yield (
                name,
                f"the endpoints are {', '.join(present)}; {', '.join(endpoints) or 'none'} are expected",
            )
    elif endpoints:
        yield name, f"there are no endpoints; {', '.join(endpoints)} are expected"
    for column in present:
        yield from _label_problems(name, column, table)
    for column in table:
        yield from _column_problems(name, column, entry["category"], table, version)
    if entry["category"] == "pair" and set(ENDPOINTS[:2]) <= table.keys():
        yield from _pair_conflicts(name, table)


def _expected_endpoints(category: str, table: Block, version: int) -> tuple[str, ...]:
    """Return the endpoint columns a table must have; a category of the producer's has a prefix of them."""
    arity = 2 if category == "pair14" and version == 1 else _ARITY.get(category)
    return ENDPOINTS[: sum(column in table for column in ENDPOINTS) if arity is None else arity]


def _label_problems(name: str, column: str, table: Block) -> Iterator[tuple[str, str]]:
    """Yield why a column is not one string a row that is never null."""
    loc = f"{name}/{column}"
    if column not in table:
        yield loc, f"the table has no column {column!r}"
    elif table[column].dtype.kind != "T" or table[column].ndim != 1:
        yield (
            loc,
            f"{column} is {table[column].dtype} of shape {table[column].shape}; one string a row is expected",
        )
    elif column in table.validity:
        yield loc, f"{column} is null in row {int(np.argmin(table.validity[column]))}; it never is"


def _column_problems(
    name: str, column: str, category: str, table: Block, version: int
) -> Iterator[tuple[str, str]]:
    values = table[column]
    loc = f"{name}/{column}"
    string = values.dtype.kind == "T"
    if column in CANONICAL:
        # A canonical key has its own dtype, to which every block of every section is held.
        return
    if column in ANNOTATIONS:
        if not string or values.ndim != 1:
            yield (
                loc,
                f"the annotation {column} is {values.dtype} of shape {values.shape}; one string a row is expected",
            )
        return
    if not is_parameter(column):
        return
    grid = category == "cmap" and column == "grid"
    if values.ndim == 1 and not grid:
        if not string and values.dtype != np.float64:
            yield loc, f"the parameter {column} is {values.dtype}; float64 or string is expected"
        return
    if values.dtype != np.float64:
        yield loc, f"{column} is {values.dtype} of shape {values.shape}; an array parameter is float64"
    elif grid and (values.ndim != 3 or values.shape[1] != values.shape[2] or values.shape[1] < 2):
        yield loc, f"the grid has shape {values.shape}; (rows, N, N) with N >= 2 is expected"
    elif not grid and version == 1:
        yield (
            loc,
            f"{column} has shape {values.shape}; a version-1 record has no array parameter but the grid of cmap",
        )
    elif 0 in values.shape[1:]:
        yield loc, f"{column} has shape {values.shape}; an axis of an array parameter is at least 1 long"
    else:
        mask = table.validity.get(column)
        if not np.isfinite(values if mask is None else values[mask]).all():
            yield loc, f"{column} holds a value that is not finite in a row that is not null"


def _pair_conflicts(name: str, table: Block) -> Iterator[tuple[str, str]]:
    """Yield the rows that price one unordered pair twice and differ (X32)."""
    first: dict[tuple[str, ...], int] = {}
    columns = [column for column in table if is_parameter(column)]
    for row, pair in enumerate(zip(table["itom"].tolist(), table["jtom"].tolist(), strict=True)):
        other = first.setdefault(tuple(sorted(map(str, pair))), row)
        for column in columns if other != row else []:
            if not _same_cell(table, column, other, row):
                yield (
                    f"{name}/{column}",
                    f"rows {other} and {row} both state the pair {pair[0]!r}, {pair[1]!r} and differ",
                )


def _same_cell(table: Block, column: str, row: int, other: int) -> bool:
    mask = table.validity.get(column)
    if mask is not None and not (mask[row] and mask[other]):
        return bool(mask[row] == mask[other])
    values = table[column]
    return bool(np.array_equal(values[row], values[other], equal_nan=values.dtype.kind in "fc"))
