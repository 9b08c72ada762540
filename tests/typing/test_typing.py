"""The types of the public names, as a user's type checker sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def check(name, tmp_path):
    """Return the lines of `name` in which strict mypy finds an error, and what it says."""
    out, err, _ = api.run(
        [
            "--strict",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(tmp_path),
            str(HERE / name),
        ]
    )
    assert err == ""
    found = re.findall(rf"{name}:(\d+): error: (.*)", out)
    return {int(line) for line, _ in found}, out


def test_what_a_user_writes_is_accepted(tmp_path):
    lines, out = check("user_code.py", tmp_path)
    assert not lines, out


def test_what_is_wrong_is_refused(tmp_path):
    lines, out = check("misuse.py", tmp_path)
    marked = {
        number
        for number, line in enumerate((HERE / "misuse.py").read_text(encoding="utf-8").splitlines(), start=1)
        if "# refused" in line
    }
    assert len(marked) == 10
    assert lines == marked, out
