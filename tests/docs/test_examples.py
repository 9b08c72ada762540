"""The scripts of ``examples`` run, and print what they are meant to."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from docs.fences import ROOT
from molrec_core import Frame, open_record, pack, validate, write_mrec

EXAMPLES = ROOT / "examples"


def run(name, directory, *arguments, code=0):
    """Run a script as a user does, warnings being errors, and return what it prints."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def beads(tmp_path_factory):
    directory = tmp_path_factory.mktemp("examples")
    return directory / "run.mrec", run("write_and_read.py", directory)


def test_every_example_is_tested():
    assert {p.name for p in EXAMPLES.glob("*.py")} == {
        "write_and_read.py",
        "analyse_energy.py",
        "ml_dataset.py",
    }


def test_write_and_read(beads):
    path, said = beads
    assert said.startswith("beads on springs: 201 frames, 50 beads\nlast frame: step 2000, time 40.0\n")
    assert "end to end: 49.00 at first" in said
    assert validate(path, deep=True) == []
    with open_record(path) as record:
        total = record.trajectory.meta("pe") + record.trajectory.meta("ke")
        assert np.ptp(total) < 0.01 * total[0]
        assert record.system["bonds"].count == 49
        assert record.trajectory.schema.blocks["atoms"].columns["x"].precision == 1e-3


def test_analyse_energy(beads, tmp_path):
    path, _ = beads
    said = run("analyse_energy.py", tmp_path, path)
    assert run("analyse_energy.py", tmp_path, pack(path)) == said
    with open_record(path) as record:
        potential = record.trajectory.meta("pe").mean()
    shown = dict(re.findall(r"^(\w+) +(\S+)", said, re.MULTILINE))
    assert float(shown["potential"]) == pytest.approx(potential, abs=1e-6)
    assert abs(float(shown["drift"])) < 1e-4
    write_mrec(tmp_path / "other.mrec", trajectory=[Frame({"atoms": {"x": [0.0]}}, meta={"pe": 1.0})])
    assert "state no ke" in run("analyse_energy.py", tmp_path, tmp_path / "other.mrec", code=1)


def test_ml_dataset(tmp_path):
    said = run("ml_dataset.py", tmp_path)
    assert "2000 molecules; 1800 to train, 200 to test" in said
    assert "1: -13.6 eV, 6: -1029.5 eV" in said
    assert 0.02 < float(re.search(r"energy: (\S+) eV", said)[1]) < 0.06
    with open_record(tmp_path / "molecules.mrec") as record:
        assert len(set(record.trajectory.counts("atoms").tolist())) > 20
