"""Images are put together without ASE's constructors, and are what those would have made."""

from __future__ import annotations

import copy
import pickle

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from molrec_ase import _image


def made(monkeypatch, *, known):
    """One image with everything, by the fast way or by the constructors."""
    monkeypatch.setattr(_image, "_KNOWN", known)
    arrays = {"numbers": np.array([8, 1]), "positions": np.eye(3)[:2], "tags": np.array([1, 2])}
    cell, pbc, corner = np.diag([1.0, 2, 3]), np.array([True, False, True]), np.ones((3, 1))
    atoms = _image.make_atoms(arrays, cell, pbc, corner, {"a": [1]})
    atoms.calc = _image.make_calculator(atoms, {"energy": 1.5, "forces": np.ones((2, 3)), "mine": "x"}, "emt")
    return atoms


def parts(thing):
    """Everything an object holds, its own objects opened."""
    if isinstance(thing, np.ndarray):
        return str(thing.dtype), thing.tolist()
    if isinstance(thing, dict):
        return type(thing).__name__, {key: parts(value) for key, value in thing.items()}
    if callable(thing):
        return thing.__func__.__qualname__
    return parts(vars(thing)) if hasattr(thing, "__dict__") else thing


def test_the_fast_way_equals_the_constructors(monkeypatch):
    """Of this release of ASE; another gets the constructors."""
    assert _image._KNOWN
    fast, slow = made(monkeypatch, known=True), made(monkeypatch, known=False)
    assert type(fast.calc) is type(slow.calc) is SinglePointCalculator
    calcs = [atoms.calc for atoms in (fast, slow)]
    for atoms in (fast, slow):
        atoms.calc = None
    assert parts(fast) == parts(slow)
    assert parts(calcs[0]) == parts(calcs[1])
    assert calcs[0].get_spin_polarized.__self__ is calcs[0]


@pytest.mark.parametrize("known", [True, False])
def test_an_image_behaves_as_any(monkeypatch, known):
    """It is copied, pickled, changed and asked for its results."""
    atoms = made(monkeypatch, known=known)
    assert atoms.get_potential_energy() == 1.5
    assert atoms.calc.name == "emt"
    for twin in (copy.deepcopy(atoms), pickle.loads(pickle.dumps(atoms))):
        assert twin == atoms
        assert twin.get_forces().tolist() == atoms.get_forces().tolist()
    atoms.positions += 1
    with pytest.raises(Exception, match="not available"):
        atoms.get_potential_energy()
    assert (atoms.calc.atoms.positions == np.eye(3)[:2]).all()
    atoms.calc.parameters["x"] = 1
    assert made(monkeypatch, known=known).calc.parameters == {}


def test_reading_works_with_either(monkeypatch, tmp_path, images, assert_same):
    ase.io.write(tmp_path / "a.mrec", [*images, Atoms("H", cell=[1, 2, 3], pbc=True)])
    fast = ase.io.read(tmp_path / "a.mrec", ":")
    monkeypatch.setattr(_image, "_KNOWN", False)
    assert_same(fast, ase.io.read(tmp_path / "a.mrec", ":"))


@pytest.mark.parametrize("count", [4, 10_000])
def test_images_share_nothing(tmp_path, count):
    """Large images are read one by one and small ones together; both own what they hold, also what carries forward."""
    still = Atoms(f"H{count}", np.ones((count, 3)))
    still.calc = SinglePointCalculator(still, forces=np.ones((count, 3)))
    ase.io.write(tmp_path / "a.mrec", [still] * 4)
    for images in (
        ase.io.read(tmp_path / "a.mrec", ":"),
        [ase.io.read(tmp_path / "a.mrec", i) for i in range(4)],
    ):
        images[0].positions += 1
        images[1].calc.results["forces"] *= 5
        assert [atoms.positions[0, 0] for atoms in images] == [2, 1, 1, 1]
        assert [atoms.calc.results["forces"][-1, 2] for atoms in images] == [1, 5, 1, 1]
        assert images[0].calc.atoms.positions[0, 0] == 1
        assert all(atoms.positions.flags.writeable for atoms in images)
    many = list(ase.io.iread(tmp_path / "a.mrec"))
    for atoms in many:
        atoms.positions += 1
    assert [atoms.positions[0, 0] for atoms in many] == [2] * 4
