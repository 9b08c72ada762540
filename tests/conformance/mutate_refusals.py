"""Remove each refusal from the code, one at a time, and report those that no test notices.

Run by hand; it is no part of the suite::

    python tests/conformance/mutate_refusals.py [--tests FOLDER ...] [--only _group.py ...]

A refusal is a ``raise`` of an error that is built there, an entry in a list of problems,
or the message that a ``*_problem`` function returns. The tests run on a copy of the
package in which a switch stands before each of them. A test that came past refusals runs
again once for each that no test has noticed so far, with that one switched off: it must fail.
The working tree is not touched.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "molrec_core"
#: Modules without rules of the format: the command, plugins, what hosts share, the test kit.
LEFT_OUT = (
    "cli.py",
    "_demo.py",
    "plugins.py",
    "hookspecs.py",
    "hosts.py",
    "_hosts_",
    "units.py",
    "_unit_table.py",
)
#: Errors of the disk or of the caller's lifetime, not of what is stored or given: crash tests hold those.
NOT_RULES = {
    "write_failed",
    "_write_failed",
    "CommitError",
    "ClosedError",
    "LockedError",
    "OSError",
    "FileNotFoundError",
    "KeyError",
    "NotImplementedError",
}


@dataclass(frozen=True)
class Refusal:
    """One statement of the source that refuses something."""

    file: str
    line: int
    start: int
    text: str


def _built(node: ast.expr | None) -> str:
    """Name of what a ``raise`` calls to build its error; empty when it builds none."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def refusals(file: Path) -> Iterator[Refusal]:
    """Yield the refusals of a module."""
    source = file.read_text(encoding="utf-8")
    # ast counts columns in bytes of UTF-8.
    raw = source.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in _own_statements(function):
            if _refuses(node, function.name):
                start = starts[node.lineno - 1] + node.col_offset
                yield Refusal(file.name, node.lineno, start, ast.unparse(node))


def _own_statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.stmt):
            yield node
        waiting += ast.iter_child_nodes(node)


def _refuses(node: ast.stmt, function: str) -> bool:
    """Whether a statement of `function` refuses something."""
    if isinstance(node, ast.Raise):
        name = _built(node.exc)
        return bool(name) and name not in NOT_RULES
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func) in {"problems.add", "problems.found.extend", "_collect"}
    if isinstance(node, ast.Return) and function.endswith("_problem"):
        value = node.value
        return isinstance(value, ast.JoinedStr) or (
            isinstance(value, ast.Constant) and isinstance(value.value, str)
        )
    return False


class Switches:
    """One switch before each refusal, and the pytest plugin that turns one off at a time."""

    def __init__(self) -> None:
        self.off = -1
        self.reached: set[int] = set()
        self.noticed: set[int] = set()
        self._passed: list[int] = []

    def stands(self, number: int) -> bool:
        """Whether a refusal is in force; called from the copy of the package."""
        self._passed.append(number)
        return number != self.off

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, then again for each refusal it came past that none has noticed."""
        self._passed.clear()
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            item.ihook.pytest_runtest_logreport(report=report)
            if report.failed:
                return True
        passed = set(self._passed)
        self.reached |= passed
        for number in sorted(passed - self.noticed):
            if self._fails_without(number, item, nextitem):
                self.noticed.add(number)
        return True

    def _fails_without(self, number: int, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        _forget()
        self.off = number
        item._initrequest()  # type: ignore[attr-defined]  # fixtures are set up anew, as for a first run
        try:
            return any(report.failed for report in runtestprotocol(item, nextitem=nextitem, log=False))
        finally:
            self.off = -1
            _forget()


def _forget() -> None:
    """Drop what a run may leave to the next one: remembered results, writers left open by a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
    for name, module in list(sys.modules.items()):
        if name.startswith("molrec_core"):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


SWITCHES = Switches()


def copy_with_switches(target: Path, found: list[tuple[int, Refusal]]) -> None:
    """Copy the package with a switch before each refusal."""
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    for number, refusal in sorted(found, key=lambda item: -item[1].start):
        place = target / refusal.file
        source = place.read_bytes()
        switch = f'if __import__("mutate_refusals").SWITCHES.stands({number}): '.encode()
        place.write_bytes(source[: refusal.start] + switch + source[refusal.start :])


def main() -> int:
    """Print each refusal that no test notices, and the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", nargs="+", default=["tests/conformance", "tests/unit"])
    parser.add_argument("--only", nargs="+", default=[], metavar="MODULE")
    options = parser.parse_args()
    files = [f for f in sorted(PACKAGE.glob("*.py")) if not f.name.startswith(LEFT_OUT)]
    if options.only:
        files = [f for f in files if f.name in options.only]
    every = list(enumerate(refusal for file in files for refusal in refusals(file)))
    with tempfile.TemporaryDirectory() as scratch:
        copy_with_switches(Path(scratch, PACKAGE.name), every)
        sys.path.insert(0, scratch)
        sys.modules["mutate_refusals"] = sys.modules["__main__"]
        os.chdir(ROOT)
        arguments = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "timeout=60",
            f"--basetemp={scratch}/tmp",
            *options.tests,
        ]
        code = pytest.main(arguments, plugins=[SWITCHES])
    counts = dict.fromkeys(("noticed", "not noticed", "not reached"), 0)
    for number, refusal in every:
        outcome = "not reached"
        if number in SWITCHES.reached:
            outcome = "noticed" if number in SWITCHES.noticed else "not noticed"
        counts[outcome] += 1
        if outcome != "noticed":
            print(f"{outcome}: {refusal.file}:{refusal.line}: {refusal.text[:160]}")
    print(f"{len(every)} refusals: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return int(code) or int(counts["noticed"] < len(every))


if __name__ == "__main__":
    sys.exit(main())
