"""Constraints as text, and back (section 6 of the host mapping)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from ase import Atoms
from ase.constraints import FixAtoms, dict2constraint

from molrec_core.hosts import decode_value, encode_value

Array = np.ndarray[Any, Any]


def constraints_text(constraints: Sequence[Any]) -> str | None:
    """Return constraints as JSON of what their ``todict`` says; None for none.

    Raises
    ------
    TypeError
        A constraint that cannot say what it is, or that holds what JSON cannot.
    """
    if not constraints:
        return None
    described = []
    for constraint in constraints:
        if not hasattr(constraint, "todict"):
            kind = type(constraint).__name__
            raise TypeError(
                f"constraints: {kind} has no todict(), so it cannot be stored; remove it from the atoms before writing"
            )
        described.append(encode_value(constraint.todict(), f"constraints.{type(constraint).__name__}"))
    return json.dumps(described, separators=(",", ":"), ensure_ascii=False)


def read_constraints(text: str, path: str) -> list[Any]:
    """Return the constraints that `text` describes, made anew; one ASE does not know is left out with a warning."""
    found = []
    for described in json.loads(text):
        try:
            found.append(dict2constraint(decode_value(described, "constraints")))
        except (ValueError, TypeError, KeyError) as error:
            name = described.get("name") if isinstance(described, dict) else described
            warnings.warn(
                f"{path}: the constraint {name!r} is not one this ASE can make ({error!r}); it is left out",
                stacklevel=2,
            )
    return found


def free_atoms(atoms: Atoms) -> Array | None:
    """Return which atoms no ``FixAtoms`` holds, shape (n_atoms,), bool; None without a ``FixAtoms``."""
    fixed = [c for c in atoms.constraints if isinstance(c, FixAtoms)]
    if not fixed:
        return None
    free = np.ones(len(atoms), dtype=bool)
    for constraint in fixed:
        free[constraint.index] = False
    return free
