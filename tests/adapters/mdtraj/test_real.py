"""Real files that mdtraj can load, to a record and back: nothing of what mdtraj holds changes."""

from __future__ import annotations

import warnings

import pytest

md = pytest.importorskip("mdtraj")
data = pytest.importorskip("MDAnalysisTests.datafiles")

# Name -> file, and the file of its topology where it holds none (names of MDAnalysisTests.datafiles).
FILES = {
    "adk.pdb": ("PDB_small", None),
    "adk.gro": ("GRO", None),
    "adk.xtc": ("XTC", "GRO"),
    "adk.trr": ("TRR", "GRO"),
    "adk.dcd": ("DCD", "PDB_small"),
    "adk segments.dcd": ("DCD", "PSF"),
    "nmr.pdb": ("PDB_multiframe", None),
    "conect.pdb": ("PDB_conect", None),
    "helix.pdb": ("PDB_helix", None),
    "chains.pdb.gz": ("PDB_chainidrepeat", None),
    "residues.pdb.gz": ("PDB_chainidnewres", None),
    "elements.pdb": ("PDB_elements", None),
    "serials.pdb": ("PDB_xlserial", None),
    "charges.pdb": ("PDB_charges", None),
    "dummy cell.pdb": ("PDB_CRYOEM_BOX", None),
    "insertions.pdb": ("PDB_icodes", None),
    "nucleic.pdb": ("NUCLsel", None),
    "whole.pdb": ("PDB_full", None),
    "martini.gro": ("Martini_membrane_gro", None),
    "water.gro": ("two_water_gro", None),
    "amber.nc": ("TRJ_NCBOX", "PRM_NCBOX"),
    "amber.mdcrd": ("TRJ", "PRM"),
    "triclinic.dcd": ("DCD_TRICLINIC", "PSF_TRICLINIC"),
    "namd triclinic.dcd": ("DCD_NAMD_TRICLINIC", "PSF_NAMD_TRICLINIC"),
}


def load(name):
    file, top = FILES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return md.load(str(getattr(data, file)), **({"top": str(getattr(data, top))} if top else {}))


@pytest.mark.parametrize("name", FILES)
def test_a_real_file_comes_back(kit, tmp_path, name):
    source = load(name)
    source.save(tmp_path / "run.mrec")
    kit.same(md.load(tmp_path / "run.mrec"), source)
