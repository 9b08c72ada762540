"""The page on MDAnalysis: its blocks run in order and print what it says."""

from __future__ import annotations

import re

import pytest

from docs.fences import fences, page, run_page


@pytest.mark.filterwarnings("ignore:Found no information for attr:UserWarning")
def test_the_page_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    """Each block of code runs after those before it; a block of text is what the one above prints."""
    monkeypatch.chdir(tmp_path)
    _, ran = run_page("mdanalysis.md")
    assert ran >= 11
    assert len([1 for language, _, _, below in fences("mdanalysis.md") if language == "text" and below]) >= 8


def test_the_page_has_one_block_for_each_subject():
    """Positions, velocities, forces, energies, box, time, topology, append, precision and parallel each have code."""
    parts = re.split(r"^## ", page("mdanalysis.md"), flags=re.MULTILINE)
    having = {part.splitlines()[0].lower() for part in parts if "```python" in part}
    wanted = "positions velocities forces energies box time topology append precision parallel"
    assert set(wanted.split()) <= having
