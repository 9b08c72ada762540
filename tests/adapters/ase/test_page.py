"""The page about ASE says what is so: its examples run, its table is what the script finds."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from docs.fences import run_page

ROOT = Path(__file__).resolve().parents[3]


def test_the_examples_run_in_order(tmp_path, monkeypatch):
    """A reader may paste them one after the other."""
    monkeypatch.chdir(tmp_path)
    _, ran = run_page("ase.md")
    assert ran == 6


@pytest.fixture(scope="module")
def features():
    spec = importlib.util.spec_from_file_location("ase_features", ROOT / "benchmarks" / "ase_features.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed(text):
    """Cells of the table by column; the rule under the header left out."""
    rows = [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in text.splitlines()]
    header, _, *rows = rows
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}


def test_the_table_is_what_the_script_finds(features):
    """All 25 for a record; for the other formats what this ASE makes of them."""
    shown = printed((ROOT / "docs" / "ase-features.md").read_text(encoding="utf-8"))
    header, *rows = features.table(features.FORMATS)
    found = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    assert shown["feature"] == found["feature"]
    assert len(features.FEATURES) == 25
    assert found["mrec"] == shown["mrec"] == ["yes"] * 25 + ["25"]
    for name in (".traj", "extxyz"):
        assert len(shown[name]) == 26
        assert int(shown[name][-1]) == sum(answer == "yes" for answer in shown[name])
        assert abs(int(shown[name][-1]) - int(found[name][-1])) <= 3, (
            "ASE's own formats changed; run the script anew"
        )
