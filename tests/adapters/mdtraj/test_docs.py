"""The page about mdtraj: every block of Python in it runs, and every option it names exists."""

from __future__ import annotations

import pytest

from docs.fences import page, run_page

md = pytest.importorskip("mdtraj")
import molrec_mdtraj  # noqa: E402


def test_every_python_block_runs(kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = kit.trajectory(10)
    source.unitcell_angles[:] = 90
    source.topology = source.topology.subset(range(12))
    source.xyz = source.xyz[:, :12].copy()
    source.save_xtc("run.xtc")
    source[0].save_pdb("top.pdb")
    _, ran = run_page("mdtraj.md")
    assert ran == 6


def test_every_public_name_is_told():
    for name in (
        "load_velocities",
        "load_forces",
        "load_energies",
        "load_mrec",
        "save_mrec",
        "register",
        "unregister",
    ):
        assert name in molrec_mdtraj.__all__
        assert name in page("mdtraj.md")
