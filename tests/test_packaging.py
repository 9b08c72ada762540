"""What ``pyproject.toml`` says agrees with the tree and with itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIG["project"]
EXTRAS = PROJECT["optional-dependencies"]


def bounds(requirements: list[str]) -> set[str]:
    """Each lower bound spelled as a pin; extras of a requirement left out."""
    found = set()
    for requirement in requirements:
        name, version = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
        found.add(f"{name}=={version}")
    return found


def test_the_oldest_releases_are_the_lower_bounds():
    """What the run with the oldest releases installs is what the metadata promises."""
    lines = (ROOT / ".ci/oldest.txt").read_text(encoding="utf-8").splitlines()
    pins = {line for line in lines if line and not line.startswith("#")}
    asked = [*PROJECT["dependencies"]]
    for extra in ("mda", "ase", "mdtraj", "openmm", "lammps", "s3", "dask", "plot"):
        asked += EXTRAS[extra]
    below = {pin for pin in pins if pin.partition("==")[0] in {"aiobotocore", "boto3"}}
    assert len(below) == 2
    # NumPy is left to the hosts: their oldest releases do not all take its first 2.x.
    assert pins - below == bounds(asked) - {"numpy==2"}


def test_all_holds_every_host_and_option():
    """``molrec[all]`` is everything but the tools."""
    (requirement,) = EXTRAS["all"]
    named = re.fullmatch(r"molrec\[(.*)\]", requirement).group(1).split(",")
    assert set(named) == set(EXTRAS) - {"all", "test", "docs", "dev"}


def test_every_package_is_shipped_and_typed():
    """A package folder that the wheel leaves out would go unnoticed in an editable install."""
    folders = {f"src/{path.parent.name}" for path in (ROOT / "src").glob("*/__init__.py")}
    assert set(CONFIG["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == folders
    assert all((ROOT / folder / "py.typed").is_file() for folder in folders)
