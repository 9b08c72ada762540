"""What tests of the ASE adapter share: exact comparison of images, and images to compare."""

from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.singlepoint import SinglePointCalculator


def differences(left, right, place="value"):
    """Say where two values differ in type, shape, dtype or any bit."""
    if type(left) is not type(right):
        return [f"{place}: {type(left).__name__} became {type(right).__name__}"]
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return [f"{place}: {left.dtype}{left.shape} became {right.dtype}{right.shape}"]
        if left.dtype.kind == "O":
            return differences(left.tolist(), right.tolist(), place)
        return [] if left.tobytes() == right.tobytes() else [f"{place}: {left!r} became {right!r}"]
    if isinstance(left, float | np.floating) and left != left and right != right:
        return []
    if isinstance(left, np.generic):
        same = left.dtype == right.dtype and left.tobytes() == right.tobytes()
        return [] if same else [f"{place}: {left!r} became {right!r}"]
    if isinstance(left, dict):
        found = []
        if left.keys() != right.keys():
            return [f"{place}: keys {sorted(map(repr, left))} became {sorted(map(repr, right))}"]
        for key, value in left.items():
            found += differences(value, right[key], f"{place}[{key!r}]")
        return found
    if isinstance(left, list | tuple):
        if len(left) != len(right):
            return [f"{place}: length {len(left)} became {len(right)}"]
        return [
            text
            for i, (a, b) in enumerate(zip(left, right, strict=True))
            for text in differences(a, b, f"{place}[{i}]")
        ]
    if isinstance(left, float):
        return (
            []
            if np.float64(left).tobytes() == np.float64(right).tobytes()
            else [f"{place}: {left!r} became {right!r}"]
        )
    return [] if left == right else [f"{place}: {left!r} became {right!r}"]


def _momenta_within(left, right):
    with np.errstate(all="ignore"):
        return (
            left.shape == right.shape
            and np.isfinite(left).all()
            and bool((np.abs(right - left) <= 1e-15 * np.abs(left)).all())
        )


def image_differences(left, right):
    """Say where two images differ; finite momenta may by a relative 1e-15."""
    ours, theirs = dict(left.arrays), dict(right.arrays)
    if "momenta" in ours and "momenta" in theirs and _momenta_within(ours["momenta"], theirs["momenta"]):
        del ours["momenta"], theirs["momenta"]
    found = differences(ours, theirs, "arrays")
    found += differences(left.cell.array, right.cell.array, "cell")
    found += differences(left.pbc, right.pbc, "pbc")
    found += differences(left.get_celldisp(), right.get_celldisp(), "celldisp")
    found += differences(left.info, right.info, "info")
    found += differences(
        [c.todict() for c in left.constraints], [c.todict() for c in right.constraints], "constraints"
    )
    has = left.calc is not None and bool(left.calc.results)
    if has != (right.calc is not None):
        return [*found, f"calc: {left.calc} became {right.calc}"]
    if has:
        found += differences(left.calc.results, right.calc.results, "results")
        found += differences(left.calc.name, right.calc.name, "calculator")
    return found


@pytest.fixture(scope="session")
def assert_same():
    """Fail where two lists of images differ in anything."""

    def check(left, right):
        left, right = list(left), list(right)
        assert len(left) == len(right)
        found = [
            f"image {i}: {text}"
            for i, (a, b) in enumerate(zip(left, right, strict=True))
            for text in image_differences(a, b)
        ]
        assert not found, "\n".join(found)

    return check


def with_results(atoms, **results):
    """Attach results to an image as they are."""
    atoms.calc = SinglePointCalculator(atoms)
    atoms.calc.results.update(results)
    return atoms


@pytest.fixture
def images():
    """Three images with everything an ordinary data set has."""
    rng = np.random.default_rng(7)
    found = []
    for name in ("H2O", "CH4", "C6H6"):
        atoms = molecule(name)
        atoms.set_momenta(rng.normal(size=(len(atoms), 3)))
        atoms.set_tags(np.arange(len(atoms)))
        atoms.info = {"config_type": name, "charge": -1, "weight": 0.5}
        found.append(with_results(atoms, energy=float(rng.normal()), forces=rng.normal(size=(len(atoms), 3))))
    return found


@pytest.fixture
def run():
    """Ten images of one copper cell, moving."""
    rng = np.random.default_rng(8)
    cell = bulk("Cu", cubic=True) * (2, 2, 2)
    found = []
    for step in range(10):
        atoms = cell.copy()
        atoms.positions += rng.normal(scale=0.05, size=(len(atoms), 3))
        found.append(
            with_results(
                atoms, energy=-3.5 * step, forces=rng.normal(size=(len(atoms), 3)), stress=rng.normal(size=6)
            )
        )
    return found


@pytest.fixture
def simple():
    """Make a hydrogen molecule whose first atom tells which image it is."""

    def make(number):
        return Atoms("H2", [[float(number), 0, 0], [0, 0, 0.74]])

    return make
