"""What an image's calculator has computed for it, without asking it to compute anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import PropertyNotImplementedError, all_properties

from molrec_core.units import Conversion

Array = np.ndarray[Any, Any]
_SMALL = 4096
"""Bytes below which comparing copies of two arrays is faster than comparing element by element."""
_RESULT_FACTORS = {
    "energy": "energy",
    "free_energy": "energy",
    "energies": "energy",
    "forces": "force",
    "stress": "stress",
    "stresses": "stress",
    "dipole": "dipole",
    "charges": "charge",
}


def current_results(atoms: Atoms) -> dict[str, Any]:
    """Return the results that hold for `atoms` as they are, by the calculator's own names.

    Empty without a calculator, and where the atoms have changed since it ran: ASE itself
    would compute anew then. Forces are the calculator's, constraints not applied.
    """
    calc = atoms.calc
    if calc is None:
        return {}
    results = getattr(calc, "results", None)
    if not isinstance(results, dict):
        return _asked(calc, atoms)
    if not results or not _holds(calc, atoms):
        return {}
    return results


def calculator_name(atoms: Atoms) -> str | None:
    """Return the name of an image's calculator."""
    name = getattr(atoms.calc, "name", None)
    return name if isinstance(name, str) else None


def _asked(calc: Any, atoms: Atoms) -> dict[str, Any]:
    """Ask a calculator without a dict of results for what it has already."""
    found = {}
    if hasattr(calc, "get_property"):
        for name in all_properties:
            try:
                value = calc.get_property(name, atoms, allow_calculation=False)
            except (PropertyNotImplementedError, KeyError):
                continue
            if value is not None:
                found[name] = value
    return found


def _holds(calc: Any, atoms: Atoms) -> bool:
    known = getattr(calc, "atoms", None)
    if known is atoms or not hasattr(calc, "check_state"):
        return True
    # ASE's own comparison takes as long as everything else about a small molecule.
    if known is not None and _same_state(known, atoms):
        return True
    return not calc.check_state(atoms)


def _same_state(known: Atoms, atoms: Atoms) -> bool:
    theirs, ours = known.arrays, atoms.arrays
    return (
        _same(theirs["positions"], ours["positions"])
        and _same(theirs["numbers"], ours["numbers"])
        and _same(known.cell.array, atoms.cell.array)
        and _same(known.pbc, atoms.pbc)
        and _same(theirs.get("initial_charges"), ours.get("initial_charges"))
        and _same(theirs.get("initial_magmoms"), ours.get("initial_magmoms"))
    )


def _same(left: Array | None, right: Array | None) -> bool:
    """Whether two arrays surely hold the same values."""
    if left is None or right is None:
        return left is right
    if left.nbytes > _SMALL:
        return np.array_equal(left, right)
    return left.shape == right.shape and left.tobytes() == right.tobytes() and left.dtype == right.dtype


def result_factors(conversion: Conversion) -> dict[str, float]:
    """Return the factor of each standard result that needs one."""
    factors = {name: getattr(conversion, quantity) for name, quantity in _RESULT_FACTORS.items()}
    return {name: factor for name, factor in factors.items() if factor != 1.0}
