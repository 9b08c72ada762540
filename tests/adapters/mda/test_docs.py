"""The page on MDAnalysis: its blocks run in order and print what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "mdanalysis.md"
FENCE = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


@pytest.mark.filterwarnings("ignore:Found no information for attr:UserWarning")
def test_the_page_runs_and_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    """Each block of code runs after those before it; a block of text is what the one above prints."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    shown = 0
    for kind, body in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            capsys.readouterr()
            exec(compile(body, str(PAGE), "exec"), namespace)
        else:
            assert capsys.readouterr().out == body
            shown += 1
    assert shown >= 8


def test_the_page_has_one_block_for_each_subject():
    """Positions, velocities, forces, energies, box, time, topology, append, precision and parallel each have code."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    having = {part.splitlines()[0].lower() for part in parts if "```python" in part}
    wanted = "positions velocities forces energies box time topology append precision parallel"
    assert set(wanted.split()) <= having
