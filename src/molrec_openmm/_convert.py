"""A State as a frame: the mapping of OpenMM's quantities, in the record's units (section 7 of the host mapping)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from openmm import unit

from molrec_core import Block, Box, Frame, SequenceSchema
from molrec_core.hosts import (
    FORCES,
    POSITIONS,
    VELOCITIES,
    FrameInfo,
    declare_shared,
    store_cell,
    store_name,
    to_scalar,
)
from molrec_core.units import Conversion

Array = np.ndarray[Any, Any]
Extra = Callable[[Any, Any], Mapping[str, Any]]

# A State gives its quantities in nm, ps and kJ/mol; asking for the value in that unit copies the array.
VECTORS = {
    "positions": (POSITIONS, "getPositions", "length"),
    "velocities": (VELOCITIES, "getVelocities", "velocity"),
    "forces": (FORCES, "getForces", "force"),
}
"""Quantity -> columns, getter of a State, factor of a Conversion."""


@dataclass
class StateConverter:
    """Turns States into frames.

    Attributes
    ----------
    vectors : list of str
        Keys of `VECTORS`, those to write.
    energies, temperature, volume : bool
    extra : callable or None
    rows : (n,) int64 array or None
        The particles to write; None for all.
    periodic : bool
        Whether the System is; only then a State's box vectors mean a cell.
    freedom : int
        Degrees of freedom, for the temperature.
    factors : Conversion
        From OpenMM's units to the record's.
    extra_tags : dict of str to str
        Tags of the extra values the record declares, by stored name.
    """

    vectors: list[str]
    energies: bool
    temperature: bool
    volume: bool
    extra: Extra | None = None
    rows: Array | None = None
    periodic: bool = False
    freedom: int = 0
    factors: Conversion = field(default_factory=Conversion)
    extra_tags: dict[str, str] = field(default_factory=dict)
    _cell: tuple[bytes, Box | None] = (b"", None)

    def include(self) -> list[str]:
        """Return what a State must hold, as ``describeNextReport`` and ``getState`` name it."""
        return [*self.vectors, *(["energy"] if self.energies or self.temperature else [])]

    def scalars(self) -> list[str]:
        """Return the canonical per-step keys of a frame."""
        keys = ["pe", "ke", "etotal"] if self.energies else []
        keys += ["temp"] if self.temperature else []
        return keys + (["volume"] if self.volume and self.periodic else [])

    def declare(
        self, n_atoms: int, extra: Mapping[str, Any], precision: float | Mapping[str, float] | None
    ) -> SequenceSchema:
        """Return the declaration of such frames; `extra` holds values like those to come."""
        schema = SequenceSchema()
        if self.vectors:
            columns = [column for name in self.vectors for column in VECTORS[name][0]]
            schema.declare_block("atoms", dict.fromkeys(columns, "f64"))
            schema.frame_rows["atoms"] = n_atoms
        for key in self.scalars():
            schema.declare_meta(key, "f64")
        for name, value in extra.items():
            scalar = to_scalar(value)
            if scalar is not None:
                key = store_name(name, "meta")
                schema.declare_meta(key, scalar.tag, fill=_blank(scalar.value))
                self.extra_tags[key] = scalar.tag
        declare_shared(
            schema, velocities="velocities" not in self.vectors, forces="forces" not in self.vectors
        )
        if isinstance(precision, float | int):
            precision = (
                {f"atoms.{name}": precision for name in POSITIONS} if "positions" in self.vectors else {}
            )
        for place, value in (precision or {}).items():
            block, _, column = place.rpartition(".")
            schema.declare_precision(block, column, value)
        return schema

    def frame(self, simulation: Any, state: Any) -> Frame:
        """Return the frame of a State.

        Raises
        ------
        ValueError
            A position, velocity, force or energy is NaN or infinite.
        """
        columns: dict[str, Array] = {}
        for name in self.vectors:
            columns.update(zip(VECTORS[name][0], self._vector(name, state), strict=True))
        meta = self._measure(simulation, state)
        tags = dict.fromkeys(meta, "f64")
        extra = self.extra
        if extra is not None:
            self._add_extra(extra(simulation, state), meta, tags)
        blocks = {"atoms": Block(columns)} if columns else {}
        return Frame(blocks, box=self._box(state), meta=meta, meta_tags=tags)

    def time(self, state: Any) -> float:
        """Return the time of a State, record units."""
        return float(state.getTime()._value) * self.factors.time  # noqa: SLF001 - see VECTORS

    def _vector(self, name: str, state: Any) -> Array:
        """Return a vector quantity, shape (3, n), float64, record units."""
        _, getter, factor = VECTORS[name]
        values = getattr(state, getter)(asNumpy=True)._value  # noqa: SLF001 - see VECTORS
        if self.rows is not None:
            values = values[self.rows]
        columns: Array = np.multiply(values.T, getattr(self.factors, factor), order="C")
        _check_finite(columns, {"velocities": "velocity"}.get(name, name.removesuffix("s")))
        return columns

    def _measure(self, simulation: Any, state: Any) -> dict[str, float]:
        meta: dict[str, float] = {}
        if self.energies or self.temperature:
            potential, kinetic = (
                float(energy.value_in_unit(unit.kilojoule_per_mole))
                for energy in (state.getPotentialEnergy(), state.getKineticEnergy())
            )
            _check_finite(np.array([potential, kinetic]), "energy")
            if self.energies:
                factor = self.factors.energy
                meta |= {
                    "pe": potential * factor,
                    "ke": kinetic * factor,
                    "etotal": (potential + kinetic) * factor,
                }
            if self.temperature:
                meta["temp"] = self._kelvin(simulation, kinetic)
        if self.volume and self.periodic:
            volume = float(state.getPeriodicBoxVolume().value_in_unit(unit.nanometer**3))
            meta["volume"] = volume * self.factors.volume
        return meta

    def _kelvin(self, simulation: Any, kinetic: float) -> float:
        # Drude and other integrators know which part of the motion is thermal.
        integrator = simulation.context.getIntegrator()
        if hasattr(integrator, "computeSystemTemperature"):
            return float(integrator.computeSystemTemperature().value_in_unit(unit.kelvin))
        gas = float(unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole / unit.kelvin))
        return 2 * kinetic / (self.freedom * gas) if self.freedom else 0.0

    def _add_extra(self, given: Mapping[str, Any], meta: dict[str, Any], tags: dict[str, str]) -> None:
        info = FrameInfo()
        for name, value in given.items():
            key = store_name(name, "meta")
            scalar = to_scalar(value)
            if scalar is not None and self.extra_tags.get(key) == scalar.tag:
                meta[key], tags[key] = scalar.value, scalar.tag
            else:
                info.values[name] = value
        info.missing = [key for key in self.extra_tags if key not in meta]
        document = info.to_json()
        if document is not None:
            meta["info"], tags["info"] = document, "json"

    def _box(self, state: Any) -> Box | None:
        if not self.periodic:
            return None
        vectors = state.getPeriodicBoxVectors(asNumpy=True)._value  # noqa: SLF001 - see VECTORS
        stamp = vectors.tobytes()
        if stamp != self._cell[0]:
            self._cell = stamp, store_cell(vectors.T * self.factors.length).box
        return self._cell[1]


def _check_finite(values: Array, what: str) -> None:
    if not np.isfinite(values).all():
        kind = "NaN" if np.isnan(values).any() else "infinite"
        raise ValueError(f"a particle's {what} is {kind}" if what != "energy" else f"the energy is {kind}")


def _blank(value: Any) -> Any:
    """Return what stands where a frame lacks an extra value; its ``info`` tells that it does."""
    if isinstance(value, np.ndarray):
        return np.zeros_like(value)
    if isinstance(value, bool | str):
        return type(value)()
    return float("nan") if isinstance(value, float) else 0
