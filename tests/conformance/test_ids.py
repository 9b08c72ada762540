"""Every item of the checklist is a test that carries its id in its name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
ID = re.compile(r"[A-Z]{1,2}\d\d")


def checklist():
    """The vendored ids, in order."""
    lines = (HERE / "checklist_ids.txt").read_text(encoding="utf-8").splitlines()
    return [item for line in lines if not line.startswith("#") for item in line.split()]


def ids_of(name):
    """The ids that a test's name starts with: two for ``test_X33_X42_grids``."""
    found = []
    for part in name.removeprefix("test_").split("_"):
        if not ID.fullmatch(part):
            break
        found.append(part)
    return found


def by_id(paths):
    """Tests that run, by the ids in their names: file and name of each."""
    found = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not is_skipped(node):
                for item in ids_of(node.name):
                    found.setdefault(item, []).append(f"{path.name}::{node.name}")
    return found


def is_skipped(function):
    """Whether a test is marked as skipped or as expected to fail: it shows nothing."""
    marks = (
        decorator.func if isinstance(decorator, ast.Call) else decorator
        for decorator in function.decorator_list
    )
    return any(isinstance(mark, ast.Attribute) and mark.attr in {"skip", "xfail"} for mark in marks)


def named_tests():
    """Tests by id, of all folders but the adapters': those number what users suffered, and P is a group here too."""
    paths = sorted(HERE.parent.rglob("test_*.py"))
    return by_id(path for path in paths if "adapters" not in path.relative_to(HERE.parent).parts)


def test_the_list_is_whole():
    ids = checklist()
    assert len(ids) == len(set(ids)) == 345
    assert all(ID.fullmatch(item) for item in ids)
    assert {"F01", "X42", "MW10", "Z05", "B20", "J09"} <= set(ids)


def test_names_are_read_as_meant(tmp_path):
    assert ids_of("test_X33_X42_grids") == ["X33", "X42"]
    assert ids_of("test_F07") == ["F07"]
    assert ids_of("test_grids_X33") == []
    assert ids_of("test_X_golden") == []
    (tmp_path / "test_a.py").write_text(
        "import pytest\ndef test_F01_x(): ...\n@pytest.mark.skip\ndef test_F02(): ...\n"
        "@pytest.mark.xfail(reason='r')\ndef test_F03(): ...\ndef F04_x(): ...\n"
    )
    assert by_id([tmp_path / "test_a.py"]) == {"F01": ["test_a.py::test_F01_x"]}


def test_every_item_has_a_test():
    found = named_tests()
    missing = [item for item in checklist() if item not in found]
    assert not missing, f"no test carries {' '.join(missing)}"


def test_every_id_in_a_name_is_an_item():
    known = set(checklist())
    unknown = {
        item: names for item, names in by_id(sorted(HERE.glob("test_*.py"))).items() if item not in known
    }
    assert not unknown
