"""Fixtures of the MDAnalysis tests."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

mda = pytest.importorskip("MDAnalysis")
pytest.importorskip("MDAnalysisTests")
import molrec_mda  # noqa: E402, F401 - registers the format


@pytest.fixture(autouse=True)
def _quiet_writers():
    # PDB and GRO writers tell which attributes they fill in; none of it is about records.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="MDAnalysis")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="MDAnalysis")
        yield


@pytest.fixture
def small():
    """Six atoms in memory, four frames, every usual attribute: nothing of it comes from a file."""

    def build(n_frames=4, *, velocities=False, dimensions=None, n_atoms=6):
        rng = np.random.default_rng(7)
        u = mda.Universe.empty(
            n_atoms,
            n_residues=2,
            atom_resindex=np.repeat([0, 1], [n_atoms - 2, 2]),
            residue_segindex=[0, 0],
            trajectory=True,
        )
        u.add_TopologyAttr("names", [f"A{i}" for i in range(n_atoms)])
        u.add_TopologyAttr("masses", np.arange(1.0, n_atoms + 1))
        u.add_TopologyAttr("resids", [5, 6])
        u.add_TopologyAttr("resnames", ["ALA", "GLY"])
        u.add_TopologyAttr("segids", ["SYS"])
        coordinates = rng.normal(size=(n_frames, n_atoms, 3)).astype(np.float32)
        extra = {"velocities": rng.normal(size=coordinates.shape).astype(np.float32)} if velocities else {}
        u.load_new(coordinates, dt=0.5, dimensions=dimensions, **extra)
        return u

    return build
