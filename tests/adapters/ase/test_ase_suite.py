"""ASE's own tests of trajectories and of ``ase.io``, run against records.

They are collected here under ASE's names; the trajectory they make is ours.
"""

from __future__ import annotations

import contextlib
import importlib

import ase.io
import pytest
from ase import Atoms
from ase.constraints import FixBondLength

from molrec_ase import MolrecTrajectory

pytest.importorskip("ase.test.fio.test_trajectory", reason="this ASE was installed without its tests")

# Tests and their fixtures by module, None for all; that real bundles go on working is among them.
THEIRS = {
    "test_trajectory": None,
    "test_readwrite_errors": None,
    "test_bundletrajectory": None,
    "test_formats": ["test_no_such_file"],
    "test_info": ["test_atoms_info_in_traj"],
    "test_iread_path": ["test_iread_path"],
}
for _module, _names in THEIRS.items():
    with contextlib.suppress(ModuleNotFoundError):  # older releases have fewer
        _found = vars(importlib.import_module(f"ase.test.fio.{_module}"))
        globals().update({name: _found[name] for name in _names or _found if not name.startswith("_")})


@pytest.fixture(autouse=True)
def _ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("test_trajectory", "test_info"):
        monkeypatch.setattr(importlib.import_module(f"ase.test.fio.{name}"), "Trajectory", MolrecTrajectory)


def test_the_tests_of_ase_are_there():
    """An empty collection would pass."""
    wanted = {
        "test_trajectory",
        "test_append_nonexistent_file",
        "test_only_energy",
        "test_constraint_and_momenta",
    }
    assert wanted <= globals().keys()


def test_heterogeneous_images(assert_same, monkeypatch):
    """The images of ASE's own test of that name, which looks inside ``.traj`` and so cannot be run as it is."""
    from ase.test.fio import test_trajectory_heterogeneous as theirs

    seen = []

    class Both(MolrecTrajectory):
        multiple_headers = property(lambda self: len(self) > 2)

        def write(self, *args, **kwargs):
            seen.append(args[0].copy())
            super().write(*args, **kwargs)

    monkeypatch.setattr(theirs, "Trajectory", Both)
    theirs.test_trajectory_heterogeneous()
    assert len(seen) == 8
    assert_same(seen, ase.io.read("out.traj", ":"))


def test_constraint_and_momenta():
    """ASE's test of that name asks for bits; a record holds velocities, and gives momenta back to a relative 1e-15."""
    atoms = Atoms("H2", positions=[(0, 0, 0), (0, 0, 1)], momenta=[(1, 0, 0), (0, 0, 0)])
    atoms.constraints = [FixBondLength(0, 1)]
    with MolrecTrajectory("constraint.mrec", "w", atoms) as trajectory:
        trajectory.write()
    found = ase.io.read("constraint.mrec")
    assert found.get_momenta() == pytest.approx(atoms.get_momenta(), rel=1e-15, abs=0)
    assert found.constraints[0].todict() == atoms.constraints[0].todict()
