"""The page on MDAnalysis: its blocks run in order and print what it says."""

from __future__ import annotations

import re

import MDAnalysis as mda  # noqa: N813 - the usual name
import pytest

from docs.fences import fences, page, run_page
from molrec_core import pack


def on_s3(body):
    return "s3://" in body


@pytest.mark.filterwarnings("ignore:Found no information for attr:UserWarning")
def test_the_page_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    """Each block of code runs after those before it; a block of text is what the one above prints."""
    monkeypatch.chdir(tmp_path)
    _, ran = run_page("mdanalysis.md", wanted=lambda body: not on_s3(body))
    assert ran >= 11
    assert len([1 for language, _, _, below in fences("mdanalysis.md") if language == "text" and below]) >= 8


def test_p149_the_block_on_object_stores_runs(signed_in, small, tmp_path):
    """P149: what the page says about S3 opens a record there, as a directory and packed."""
    small().atoms.write(str(tmp_path / "run.mrec"), frames="all")
    for path in (tmp_path / "run.mrec", pack(tmp_path / "run.mrec")):
        signed_in.upload("bucket", path, path.name, acl="public-read")
    with signed_in.counted() as asked:
        names, ran = run_page("mdanalysis.md", {"mda": mda}, wanted=on_s3)
    assert ran == 1
    assert {request.path.split("/")[2] for request in asked if request.path != "/bucket"} == {
        "run.mrec",
        "run.mrec.zip",
    }
    assert {request.signed for request in asked} == {True, False}
    assert len(names["u"].trajectory) == 4


def test_the_page_has_one_block_for_each_subject():
    """Positions, velocities, forces, energies, box, time, topology, append, precision and parallel each have code."""
    parts = re.split(r"^## ", page("mdanalysis.md"), flags=re.MULTILINE)
    having = {part.splitlines()[0].lower() for part in parts if "```python" in part}
    wanted = "positions velocities forces energies box time topology append precision parallel"
    assert set(wanted.split()) <= having
