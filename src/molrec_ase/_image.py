"""Atoms and their calculator, put together without the detours of their constructors.

A data set of small molecules would spend most of its time there. An ASE whose objects
are made of other parts than these gets the constructors; a test holds that both agree.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.cell import Cell

from molrec_ase._memory import Arena

Array = np.ndarray[Any, Any]

_CALCULATOR = SinglePointCalculator(Atoms())
_KNOWN = vars(Atoms()).keys() == {
    "_cellobj",
    "_pbc",
    "arrays",
    "_celldisp",
    "_constraints",
    "info",
    "_calc",
} and vars(_CALCULATOR).keys() == {
    "atoms",
    "results",
    "parameters",
    "_directory",
    "prefix",
    "get_spin_polarized",
    "use_cache",
}


def make_atoms(
    arrays: dict[str, Array], cell: Array, pbc: Array, celldisp: Array, info: dict[Any, Any]
) -> Atoms:
    """Return Atoms that own all they are given.

    Parameters
    ----------
    arrays : dict of str to (n_atoms,) + trailing array
        ``numbers`` (int64) and ``positions`` (float64, angstrom) among them.
    cell : (3, 3) float64 array, angstrom
        Lattice vectors as rows.
    pbc : (3,) bool array
    celldisp : float64 array, angstrom
    info : dict
    """
    if not _KNOWN:
        atoms = Atoms(cell=cell, pbc=pbc, celldisp=celldisp, info=info)
        atoms.arrays = arrays
        return atoms
    atoms = Atoms.__new__(Atoms)
    vars(atoms).update(
        _cellobj=Cell(cell),
        _pbc=pbc,
        arrays=arrays,
        _celldisp=celldisp,
        _constraints=[],
        info=info,
        _calc=None,
    )
    return atoms


def make_calculator(
    atoms: Atoms, results: dict[str, Any], name: str | None, memory: Arena | None = None
) -> SinglePointCalculator:
    """Return a ``SinglePointCalculator`` that holds `results`, as they are, for `atoms`."""
    copied = np.copy if memory is None else memory.copy
    known = make_atoms(
        {key: copied(values) for key, values in atoms.arrays.items()},
        atoms.cell.array.copy(),
        atoms.pbc.copy(),
        atoms.get_celldisp(),
        dict(atoms.info),
    )
    if atoms.constraints:
        known.set_constraint(copy.deepcopy(atoms.constraints))
    if not _KNOWN:
        calculator = SinglePointCalculator(known)
        calculator.results.update(results)
    else:
        calculator = SinglePointCalculator.__new__(SinglePointCalculator)
        vars(calculator).update(
            atoms=known,
            results=results,
            parameters=type(_CALCULATOR.parameters)(),
            _directory=".",
            prefix=None,
            get_spin_polarized=calculator._deprecated_get_spin_polarized,  # noqa: SLF001 - as ASE binds it
            use_cache=False,
        )
    if name is not None and name != calculator.name:
        calculator.name = name
    return calculator
