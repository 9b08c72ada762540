"""Units of a record and exact factors between them: the one table of all adapters.

A record states its units in ``meta["units"]``, with the keys and presets of the
force-field section::

    {"length": "angstrom", "time": "ps", "energy": "kJ/mol", "mass": "dalton", "charge": "e"}
    {"preset": "real", "pressure": "atm"}

Velocity is length/time, force energy/length, stress energy/length^3, dipole
charge*length and volume length^3; ``pressure`` is energy/length^3 unless stated.
``preset: "lj"`` has no units and converts nothing. In use::

    stored = Units.from_meta(record.meta, host=MDANALYSIS)
    factor = stored.conversion(MDANALYSIS)
    positions *= factor.length

Factors are ratios of rationals, rounded once: equal units give exactly 1.0, nm to
angstrom exactly 10.0, kcal/mol to kJ/mol exactly 4.184. The rationals are the exact
constants of the 2019 SI and, where one is measured (bohr, hartree, dalton), the
CODATA 2022 values.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from molrec_core._unit_table import factor, parse, parse_as
from molrec_core.errors import UnitError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

__all__ = [
    "ASE",
    "LAMMPS_PRESSURE",
    "LAMMPS_VELOCITY",
    "MDANALYSIS",
    "MDTRAJ",
    "OPENMM",
    "PRESETS",
    "QUANTITIES",
    "Conversion",
    "MolrecUnitsWarning",
    "Units",
    "factor",
]

QUANTITIES = ("length", "time", "energy", "mass", "charge")
"""The quantities a record states; every other unit follows from them."""

PRESETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        name: MappingProxyType(
            dict(zip(("length", "energy", "angle", "charge", "mass", "time"), row, strict=True))
        )
        for name, row in {
            "real": ("angstrom", "kcal/mol", "degree", "e", "dalton", "fs"),
            "metal": ("angstrom", "eV", "degree", "e", "dalton", "ps"),
            "si": ("m", "J", "degree", "C", "kg", "s"),
            "cgs": ("cm", "erg", "degree", "statcoulomb", "g", "s"),
            "electron": ("bohr", "hartree", "degree", "e", "dalton", "fs"),
            "micro": (
                "micrometer",
                "picogram * micrometer**2 / microsecond**2",
                "degree",
                "picocoulomb",
                "picogram",
                "microsecond",
            ),
            "nano": ("nm", "attogram * nm**2 / ns**2", "degree", "e", "attogram", "ns"),
        }.items()
    }
    | {"lj": MappingProxyType({"angle": "degree"})}
)
"""Units of each preset, in contract version 2; version 1 differs in the angle alone (checklist TB8)."""

LAMMPS_PRESSURE = MappingProxyType({"real": "atm", "metal": "bar", "electron": "Pa"})
"""Pressure unit of the LAMMPS styles in which it is not energy/length^3."""

LAMMPS_VELOCITY = MappingProxyType({"electron": "bohr/atomic_unit_of_time"})
"""Velocity unit of the LAMMPS styles in which it is not length/time."""


class MolrecUnitsWarning(UserWarning):
    """A record does not say in which units it is; a usual one was assumed."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Factors from one system of units to another: multiply stored values by them.

    Attributes
    ----------
    length, time, energy, mass, charge, velocity, force, stress, pressure, dipole, volume : float
        Exactly 1.0 where the two systems agree.
    """

    length: float = 1.0
    time: float = 1.0
    energy: float = 1.0
    mass: float = 1.0
    charge: float = 1.0
    velocity: float = 1.0
    force: float = 1.0
    stress: float = 1.0
    pressure: float = 1.0
    dipole: float = 1.0
    volume: float = 1.0

    @property
    def identity(self) -> bool:
        """Whether every factor is exactly 1.0, so that nothing needs multiplying."""
        return all(getattr(self, item.name) == 1.0 for item in fields(self))


@dataclass(frozen=True, slots=True)
class Units:
    """A system of units: what the numbers of a record, or of a host, are in.

    Attributes
    ----------
    length, time, energy, mass, charge : str
        Empty strings for the preset ``lj``, which has none.
    pressure : str or None
        None for energy/length^3.
    preset : str or None
        One of `PRESETS`; the other attributes then follow from it.
    angle : str
        ``degree`` or ``radian``; only force fields use it.

    Raises
    ------
    UnitError
        A unit is not known, measures something else, or differs from its preset's.
    """

    length: str = "angstrom"
    time: str = "ps"
    energy: str = "kJ/mol"
    mass: str = "dalton"
    charge: str = "e"
    pressure: str | None = None
    preset: str | None = None
    angle: str = "degree"

    def __post_init__(self) -> None:
        if self.angle not in {"degree", "radian"}:
            raise UnitError(f"angles are in degree or radian, not {self.angle!r}", kind="unknown_unit")
        if self.reduced:
            for quantity in (*QUANTITIES, "pressure"):
                if getattr(self, quantity):
                    raise _conflict("lj", quantity, getattr(self, quantity), "no unit")
            return
        for quantity in QUANTITIES:
            parse_as(getattr(self, quantity), quantity)
        if self.pressure is not None:
            parse_as(self.pressure, "pressure")

    @classmethod
    def from_preset(cls, preset: str, *, pressure: str | None = None) -> Units:
        """Return the units of a preset (checklist TB8).

        Raises
        ------
        UnitError
            There is no such preset.
        """
        if preset not in PRESETS:
            raise UnitError(
                f"the preset {preset!r} is none of {', '.join(PRESETS)}; "
                "pass convert_units=False to take the numbers as they are",
                kind="unknown_unit",
                loc="meta/units/preset",
            )
        length, time, energy, mass, charge = (PRESETS[preset].get(q, "") for q in QUANTITIES)
        return cls(length, time, energy, mass, charge, pressure, preset)

    @classmethod
    def lammps(cls, style: str) -> Units:
        """Return the units of a LAMMPS ``units`` style, its pressure unit included.

        Raises
        ------
        UnitError
            There is no such style.
        """
        return cls.from_preset(style, pressure=LAMMPS_PRESSURE.get(style))

    @classmethod
    def from_meta(
        cls,
        meta: Mapping[str, Any] | None,
        *,
        host: Units | None = None,
        convert: bool = True,
        stacklevel: int = 2,
    ) -> Units:
        """Return the units a record states in ``meta["units"]``.

        Parameters
        ----------
        meta : mapping or None
            The record's meta document.
        host : Units, optional
            The reading host's own units: its energy is assumed where none is stated;
            `MDANALYSIS` by default.
        convert : bool
            The adapters' ``convert_units``. False: `host` is returned unread, so that
            every factor to it is 1.0.
        stacklevel : int
            As in :func:`warnings.warn`: 2 names the caller's line, 3 its caller's.

        Raises
        ------
        UnitError
            A unit is not known, or stands beside a preset it differs from.

        Warns
        -----
        MolrecUnitsWarning
            Length, time or energy is not stated: angstrom, ps and the host's energy are assumed.
        """
        host = MDANALYSIS if host is None else host
        if not convert:
            return host
        stated = (meta or {}).get("units")
        if stated is not None and not isinstance(stated, dict):
            raise UnitError(
                f"units is {stated!r}; an object is expected. "
                "Pass convert_units=False to take the numbers as they are",
                loc="meta/units",
            )
        stated = stated or {}
        if "preset" in stated:
            units = _beside_preset(stated)
        else:
            assumed = {"length": "angstrom", "time": "ps", "energy": host.energy or "kJ/mol"}
            missing = [quantity for quantity in assumed if quantity not in stated]
            if missing:
                told = ", ".join(f"{quantity} in {assumed[quantity]}" for quantity in missing)
                warnings.warn(
                    f"the record does not state its units in full; read with {told}",
                    MolrecUnitsWarning,
                    stacklevel=stacklevel,
                )
            known = {item.name for item in fields(cls)} - {"preset"}
            units = cls(**(assumed | {key: value for key, value in stated.items() if key in known}))
        _check_derived(units, stated)
        return units

    def to_meta(self) -> dict[str, str]:
        """Return the document a writer stores as ``meta["units"]``."""
        document = {"preset": self.preset} if self.preset else {q: getattr(self, q) for q in QUANTITIES}
        if self.pressure is not None:
            document["pressure"] = self.pressure
        if self.angle != "degree":
            document["angle"] = self.angle
        return document

    @property
    def reduced(self) -> bool:
        """Whether these are the reduced units of ``lj``, which convert to nothing."""
        return self.preset == "lj"

    def conversion(self, to: Units) -> Conversion:
        """Return the factors that turn values in these units into values in `to`."""
        if self.reduced or to.reduced:
            return Conversion()
        return _conversion(self, to)

    def _unit(self, quantity: str) -> Fraction:
        text = getattr(self, quantity)
        if text is None:
            return self._unit("energy") / self._unit("length") ** 3
        return parse_as(text, quantity)[0]


@cache
def _conversion(units: Units, to: Units) -> Conversion:
    ratio = {q: units._unit(q) / to._unit(q) for q in (*QUANTITIES, "pressure")}
    length, time, energy, charge = (ratio[q] for q in ("length", "time", "energy", "charge"))
    ratio |= {
        "velocity": length / time,
        "force": energy / length,
        "stress": energy / length**3,
        "dipole": charge * length,
        "volume": length**3,
    }
    return Conversion(**{name: float(value) for name, value in ratio.items()})


def _conflict(preset: str, quantity: str, found: object, expected: str) -> UnitError:
    return UnitError(
        f"{quantity} is {found!r} beside the preset {preset!r}, which means {expected}; state one of the two. "
        "Pass convert_units=False to take the numbers as they are",
        kind="units_conflict",
        loc=f"meta/units/{quantity}",
    )


def _beside_preset(stated: Mapping[str, Any]) -> Units:
    units = Units.from_preset(str(stated["preset"]))
    for quantity in QUANTITIES:
        if quantity in stated:
            expected = getattr(units, quantity)
            if not expected or parse_as(stated[quantity], quantity) != parse(expected):
                raise _conflict(units.preset or "", quantity, stated[quantity], expected or "no unit")
    return replace(units, **{key: stated[key] for key in ("pressure", "angle") if key in stated})


#: Keys hosts.md derives; a record that states one may only repeat what follows from its base units.
_DERIVED = {
    "velocity": ("length", "time", -1),
    "force": ("energy", "length", -1),
    "stress": ("energy", "length", -3),
    "dipole": ("charge", "length", 1),
}


def _check_derived(units: Units, stated: Mapping[str, Any]) -> None:
    for key, (base, other, power) in _DERIVED.items():
        if key in stated and not units.reduced:
            follows = units._unit(base) * units._unit(other) ** power
            text = stated[key]
            if not isinstance(text, str) or parse(text)[0] != follows:
                raise UnitError(
                    f"{key} is stated in {text!r}, but follows from {base} and {other} in a record; "
                    "pass convert_units=False to take the numbers as they are",
                    kind="units_conflict",
                    loc=f"meta/units/{key}",
                )


MDANALYSIS = Units("angstrom", "ps", "kJ/mol", "dalton", "e")
"""MDAnalysis's own units; its pressures have none of their own."""
MDTRAJ = Units("nm", "ps", "kJ/mol", "dalton", "e")
"""mdtraj's own units."""
OPENMM = Units("nm", "ps", "kJ/mol", "dalton", "e")
"""OpenMM's own units."""
ASE = Units("angstrom", "fs", "eV", "dalton", "e")
"""The units of records of ASE; its own time unit is converted to fs by its adapter."""
