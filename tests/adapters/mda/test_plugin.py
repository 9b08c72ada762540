"""The hook of ``molrec``: which suffixes MDAnalysis reads and writes, and what it says about a record."""

from __future__ import annotations

from pathlib import Path

import MDAnalysis as mda  # noqa: N813 - the usual name
import pytest
from MDAnalysisTests.datafiles import COORDINATES_TOPOLOGY, COORDINATES_TRR, PSF

from molrec_core import open_record, plugins
from molrec_mda import plugin


def test_the_adapter_is_found_with_its_suffixes():
    """The entry point offers one adapter that reads and writes what MDAnalysis does, records aside."""
    adapter = plugins.adapters()["mdanalysis"]
    reads = {
        ".xtc",
        ".trr",
        ".dcd",
        ".nc",
        ".gro",
        ".pdb",
        ".psf",
        ".prmtop",
        ".tpr",
        ".xyz",
        ".mol2",
        ".data",
    }
    assert reads <= set(adapter.reads)
    assert {".xtc", ".trr", ".dcd", ".nc", ".gro", ".pdb", ".xyz"} <= set(adapter.writes)
    assert not {".mrec", ".zip", ".chain", ".memory"} & {*adapter.reads, *adapter.writes}
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in adapter.reads)


def test_the_snippet_opens_the_record(small, tmp_path):
    """The line offered to a user opens the record."""
    small().atoms.write(str(tmp_path / "s.mrec"), frames="all")
    namespace = {}
    exec(plugins.adapters()["mdanalysis"].snippet.format(path=tmp_path / "s.mrec"), namespace)
    assert len(namespace["u"].trajectory) == 4


def test_what_mdanalysis_sees_is_one_line(small, tmp_path):
    """``describe`` tells atoms, residues, frames, times, quantities and the cell."""
    small(velocities=True, dimensions=[9, 9, 9, 90, 90, 90]).atoms.write(
        str(tmp_path / "s.mrec"), frames="all"
    )
    told = plugin.describe(str(tmp_path / "s.mrec"))
    assert told == "6 atoms, 2 residues, 4 frames from 0 to 1.5 ps; positions, velocities, a cell"
    small().atoms.write(str(tmp_path / "t.mrec"), frames="all", times=False)
    assert plugin.describe(str(tmp_path / "t.mrec")) == "6 atoms, 2 residues, 4 frames; positions, no cell"


def test_a_source_streams_the_frames_asked_for():
    """``read`` takes a slice, guesses nothing and reads frames as they are asked for."""
    source = plugin.read(Path(COORDINATES_TRR), Path(COORDINATES_TOPOLOGY), slice(1, None, 2))
    assert source.n_frames == 2
    assert source.meta["mdanalysis"] == {"guessed": []}
    assert "mass" not in source.system["atoms"]
    frames = list(source.frames)
    assert [time for _, _, time in frames] == [1.0, 3.0]
    expected = mda.Universe(COORDINATES_TOPOLOGY, COORDINATES_TRR).trajectory[3].positions
    assert frames[1][0]["atoms"]["x"].tolist() == expected[:, 0].tolist()


@pytest.mark.parametrize("frames", [slice(None), slice(5, 5)])
def test_a_topology_alone_has_no_frames(frames):
    """A topology without coordinates is a system and no frames, and so is an empty choice."""
    source = plugin.read(Path(PSF), None, frames)
    assert (source.n_frames, list(source.frames)) == (0, [])
    assert source.system["atoms"].count == 3341
    assert source.system["bonds"].count == 3365
    none = plugin.read(Path(COORDINATES_TRR), Path(COORDINATES_TOPOLOGY), slice(5, 5))
    assert (none.n_frames, list(none.frames)) == (0, [])


def test_a_format_of_one_frame_refuses_several(small, tmp_path):
    """Exporting several frames to such a format names the way out."""
    small().atoms.write(str(tmp_path / "s.mrec"), frames="all")
    with pytest.raises(
        ValueError, match=r"GRO holds one frame and 4 are selected; choose one, e\.g\. --frames 0:1"
    ):
        plugin.write(tmp_path / "s.mrec", tmp_path / "s.gro", slice(None))
    assert open_record(tmp_path / "s.mrec").trajectory.steps.tolist() == [0, 1, 2, 3]
