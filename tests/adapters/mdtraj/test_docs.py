"""The page about mdtraj: every block of Python in it runs, and every option it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

md = pytest.importorskip("mdtraj")
import molrec_mdtraj  # noqa: E402

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "mdtraj.md").read_text(encoding="utf-8")


def test_every_python_block_runs(kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = kit.trajectory(10)
    source.unitcell_angles[:] = 90
    source.topology = source.topology.subset(range(12))
    source.xyz = source.xyz[:, :12].copy()
    source.save_xtc("run.xtc")
    source[0].save_pdb("top.pdb")
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 6
    scope = {}
    for block in blocks:
        exec(compile(block, "docs/mdtraj.md", "exec"), scope)


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
        assert name in PAGE
