"""The pages hang together: every link of the README leads somewhere, and the site builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from docs.fences import ROOT, page


def test_every_link_of_the_readme_leads_to_a_file():
    targets = [t for t in re.findall(r"\]\(([^)#]+)[^)]*\)", page("README.md")) if "://" not in t]
    assert len(targets) > 8
    assert [t for t in targets if not (ROOT / t).exists()] == []


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "getting-started" / "index.html").is_file()
