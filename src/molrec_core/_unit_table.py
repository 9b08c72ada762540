"""Spellings of units and what they are in SI: the one table, and the arithmetic over it.

A unit is a rational number of SI units with its powers of length, time, mass and
charge. A mole is a number, so kJ/mol is an energy.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

from molrec_core.errors import UnitError

Unit = tuple[Fraction, tuple[int, int, int, int]]
"""A unit as its SI value and its powers of length, time, mass and charge."""

DIMENSIONS = {
    "length": (1, 0, 0, 0),
    "time": (0, 1, 0, 0),
    "mass": (0, 0, 1, 0),
    "charge": (0, 0, 0, 1),
    "energy": (2, -2, 1, 0),
    "pressure": (-1, -2, 1, 0),
}
_NONE = (0, 0, 0, 0)
_AVOGADRO = Fraction("6.02214076e23")
_ELEMENTARY = Fraction("1.602176634e-19")

_PREFIXES = {
    "": (0, ""),
    "atto": (-18, "a"),
    "femto": (-15, "f"),
    "pico": (-12, "p"),
    "nano": (-9, "n"),
    "micro": (-6, "u"),
    "milli": (-3, "m"),
    "centi": (-2, "c"),
    "kilo": (3, "k"),
    "mega": (6, "M"),
    "giga": (9, "G"),
}
#: Units that take a prefix: quantity, SI value, symbols, names.
_PREFIXED: tuple[tuple[str, Fraction, tuple[str, ...], tuple[str, ...]], ...] = (
    ("length", Fraction(1), ("m",), ("meter", "metre")),
    ("time", Fraction(1), ("s",), ("second", "sec")),
    ("mass", Fraction(1, 1000), ("g",), ("gram",)),
    ("energy", Fraction(1), ("J",), ("joule",)),
    ("energy", _ELEMENTARY, ("eV",), ("electronvolt", "electron_volt")),
    ("energy", Fraction("4.184"), ("cal",), ("calorie",)),
    ("charge", Fraction(1), ("C",), ("coulomb",)),
    ("pressure", Fraction(1), ("Pa",), ("pascal",)),
    ("pressure", Fraction(10**5), ("bar",), ("bar",)),
)
#: Units without prefixes: quantity, SI value, spellings.
_PLAIN: tuple[tuple[str, Fraction, tuple[str, ...]], ...] = (
    ("length", Fraction(1, 10**10), ("angstrom", "ångström", "A", "\u00c5", "\u212b", "Ang", "ang")),
    ("length", Fraction("5.29177210544e-11"), ("bohr", "Bohr", "a0", "bohr_radius")),
    ("length", Fraction(1, 10**6), ("micron", "\u00b5m", "\u03bcm")),
    ("time", Fraction(1, 10**6), ("\u00b5s", "\u03bcs")),
    ("time", Fraction("2.4188843265864e-17"), ("atomic_unit_of_time", "a_u_time")),
    ("mass", Fraction("1.66053906892e-27"), ("dalton", "Da", "amu", "AMU", "u", "unified_atomic_mass_unit")),
    ("mass", Fraction("9.1093837139e-31"), ("electron_mass", "m_e")),
    ("energy", Fraction("4.3597447222060e-18"), ("hartree", "Ha", "Eh", "E_h")),
    ("energy", Fraction("4.3597447222060e-18") / 2, ("rydberg", "Ry")),
    ("energy", Fraction(1, 10**7), ("erg",)),
    ("charge", _ELEMENTARY, ("e", "elementary_charge", "proton_charge")),
    ("charge", Fraction(1, 2997924580), ("statcoulomb", "statC", "esu", "franklin")),
    ("pressure", Fraction(101325), ("atm", "atmosphere")),
    ("pressure", Fraction(1, 10), ("barye", "Ba")),
)


def _table() -> dict[str, Unit]:
    table: dict[str, Unit] = {"mol": (_AVOGADRO, _NONE), "mole": (_AVOGADRO, _NONE)}
    for quantity, value, symbols, names in _PREFIXED:
        for prefix, (power, short) in _PREFIXES.items():
            unit = (value * Fraction(10) ** power, DIMENSIONS[quantity])
            for spelling in [short + s for s in symbols] + [
                prefix + n + end for n in names for end in ("", "s")
            ]:
                table[spelling] = unit
    for quantity, value, spellings in _PLAIN:
        for spelling in spellings:
            table[spelling] = (value, DIMENSIONS[quantity])
            if len(spelling) > 3 and not spelling.endswith("s"):
                table[spelling + "s"] = table[spelling]
    # Since 2019 a gram per mole is a dalton only to 1e-9; who writes it as a mass means the dalton.
    table["g/mol"] = table["gram/mole"] = table["dalton"]
    return table


_UNITS = _table()
# Two digits of an exponent: a unit in a record must not make a reader compute for hours.
_TOKEN = re.compile(r"\s*(?:(\*\*|\^|[*/·])|([^\W\d]\w*|Å)|([+-]?\d{1,2}))")


@cache
def parse(text: str) -> Unit:
    """Read a unit, or a product of powers such as ``pg*um^2/us**2``.

    Raises
    ------
    UnitError
        It is none.
    """
    if text.replace(" ", "") in _UNITS:
        return _UNITS[text.replace(" ", "")]
    value, powers = Fraction(1), _NONE
    tokens = _tokens(text)
    sign = 1
    while tokens:
        unit = _lookup(tokens.pop(0), text)
        power = sign
        if tokens and tokens[0] in {"**", "^"}:
            if len(tokens) < 2 or not tokens[1].lstrip("+-").isdigit():
                raise _unknown(text)
            power *= int(tokens[1])
            del tokens[:2]
        value *= unit[0] ** power
        powers = tuple(p + power * q for p, q in zip(powers, unit[1], strict=True))  # type: ignore[assignment]
        if tokens:
            sign = {"*": 1, "·": 1, "/": -1}.get(tokens.pop(0), 0)
            if not sign or not tokens:
                raise _unknown(text)
    return value, powers


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown(text)
        tokens.append(match.group().strip())
        at = match.end()
    if not tokens:
        raise _unknown(text)
    return tokens


def _lookup(name: str, text: str) -> Unit:
    unit = _UNITS.get(name)
    if unit is None and len(name) > 3:
        unit = _UNITS.get(name.lower())
    if unit is None:
        raise _unknown(text)
    return unit


def _unknown(text: object) -> UnitError:
    return UnitError(
        f"the unit {text!r} is not known; pass convert_units=False to take the numbers as they are",
        kind="unknown_unit",
        loc="meta/units",
    )


def parse_as(text: object, quantity: str) -> Unit:
    if not isinstance(text, str):
        raise _unknown(text)
    unit = parse(text)
    if unit[1] != DIMENSIONS[quantity]:
        raise UnitError(
            f"{text!r} is not a unit of {quantity}; pass convert_units=False to take the numbers as they are",
            kind="wrong_quantity",
            loc=f"meta/units/{quantity}",
        )
    return unit


def factor(unit: str, to: str) -> float:
    """Return the number that turns values in `unit` into values in `to`, rounded once.

    Parameters
    ----------
    unit, to : str
        Units of one quantity, products and powers included: ``"bohr/atomic_unit_of_time"``.

    Raises
    ------
    UnitError
        A unit is not known, or the two do not measure one quantity.
    """
    source, target = parse(unit), parse(to)
    if source[1] != target[1]:
        raise UnitError(f"{unit!r} and {to!r} do not measure the same quantity", kind="wrong_quantity")
    return float(source[0] / target[0])
