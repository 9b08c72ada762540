"""Systems of MDAnalysisTests, through a record and back: attributes, bonds and frames, bit for bit."""

from __future__ import annotations

import MDAnalysis as mda  # noqa: N813 - the usual name
import numpy as np
import pytest
from MDAnalysis.core.topologyattrs import Atomindices, Resindices, Segindices, _Connection
from MDAnalysisTests import datafiles

from molrec_core.cli import main
from molrec_mda._frames import knows_time

# The first line of each group runs always, the rest in the long form.
PAIRS = [
    """PSF DCD / PSF NAMDBIN / PSF_TRICLINIC DCD_TRICLINIC / PRM TRJ / PRM7 NCDFtruncoct / PRM_NCBOX TRJ_NCBOX /
    PFncdf_Top PFncdf_Trj / CPPTRAJ_TRAJ_TOP CPPTRAJ_TRAJ / waterPSF waterDCD / XYZ_psf XYZ / TRC_PDB_VAC TRC_TRAJ1_VAC
    / RANDOM_WALK_TOPO RANDOM_WALK / SURFACE_PDB SURFACE_TRR / COORDINATES_TOPOLOGY COORDINATES_XTC /
    COORDINATES_TOPOLOGY COORDINATES_DCD / COORDINATES_TOPOLOGY COORDINATES_TRR / PRMncdf NCDF""",
    """PSF_NAMD_TRICLINIC DCD_NAMD_TRICLINIC / PSF_NAMD_GBIS DCD_NAMD_GBIS / GRO XTC / GRO TRR / PDB TRR / TRZ_psf TRZ
    / LAMMPSdata2 LAMMPSdcd2 / TPR XTC / GRO_MEMPROT XTC_MEMPROT / PDB_sub_sol XTC_sub_sol / PDB_sub_sol TRR_sub_sol
    / RNA_PSF RNA_PDB / PDB_small DCD2""",
]
SINGLES = [
    """ARC_PBC CONECT COORDINATES_GRO COORDINATES_XYZ CRD DMS DMS_NO_SEGID ENT FHIAIMS GMS_ASYMOPT GRO_huge_box
    GRO_residwrap GRO_sameresid_diffresname GRO_velocity GSD_bonds INC_PDB LAMMPS_chain LAMMPS_image_vf LAMMPScnt
    LAMMPSdata_PairIJ LAMMPSdata_additional_columns LAMMPSdata_deletedatoms LAMMPSdata_many_bonds LAMMPShyd MMTF
    MMTF_skinny2 MULTIPDB_HOLE PDBQT_tyrosol PDB_CRYOEM_BOX PDB_chainidnewres PDB_chainidrepeat PDB_charges PDB_cm
    PDB_conect PDB_elements PDB_icodes PDB_multiframe PDB_varying PDB_xlserial TPR2016_bonded TPR2026_0_bonded
    TPR_EXTRA_2026_0 TPR_linear_angle TRIC TXYZ XPDB_small capping_input fullerene mol2_comments_header mol2_ligand
    mol2_molecules mol2_zinc two_water_gro unordered_res""",
    """ALIGN_BOUND ARC AUX_EDR_TPR DMS_DOMAINS GMS_SYMOPT GRO GRO_MEMPROT GRO_incomplete_vels GRO_residwrap_0base GSD
    LAMMPSdata LAMMPSdata2 LAMMPSdata_mini MMTF_NOCRYST MMTF_gz MMTF_skinny Martini_membrane_gro NUCLsel PDB
    PDBQT_input PDB_HOLE PDB_NAMD PDB_conect2TER PDB_full PDB_helix PDB_janin PDB_multipole PDB_rama PDB_small PQR
    PQR_icodes Plength RNA_PDB TPR2024_bonded TPR400 TPR455Double TPR_NNPOT_2026_0 TPR_xvf TRC_PDB_SOLV XYZ
    XYZ_mini XYZ_five merge_ligand mol2_crysin mol2_molecule mol2_sodium_ion""",
]
TOPOLOGIES = [
    "HoomdXMLdata ITP ITP_tip5p PRM PRM19SBOPC PRMErr5 PRMNEGATIVE PRM_chainid_bz2 PSF_cmap PSF_inscode PSF_nosegid",
    "ITP_atomtypes ITP_charges ITP_edited ITP_spce PRM12 PRM7_ala2 PRMcs PRMpbc PSF_NAMD PSF_notop",
]
# Some parsers of MDAnalysis leave their files open to the garbage collector.
leaky = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
INDICES = (Atomindices, Resindices, Segindices)


def systems(form):
    pairs = [tuple(pair.split()) for pair in PAIRS[form].replace("\n", " ").split("/")]
    names = [*pairs, *((name,) for name in SINGLES[form].split())]
    names += [(name, "") for name in TOPOLOGIES[form].split()]
    # An older release of MDAnalysisTests has fewer files.
    return [system for system in names if all(hasattr(datafiles, name) for name in system if name)]


def load(names):
    files = [str(getattr(datafiles, name)) for name in names if name]
    options = {"format": "TRJ"} if names[-1] == "TRJ" else {}
    universe = mda.Universe(*files, to_guess=(), **options)
    if names[-1] == "":
        # A topology without coordinates gets some.
        n = len(universe.atoms)
        universe.load_new(np.linspace(-1, 1, 6 * n, dtype=np.float32).reshape(2, n, 3))
    return universe


def topology_differences(source, copy):
    """What two universes differ in, residues and segments included."""
    found = []
    left, right = source._topology, copy._topology
    if not np.array_equal(left.tt._AR, right.tt._AR):
        found.append("residue of each atom")
    if not np.array_equal(left.tt._RS, right.tt._RS) or left.n_segments != right.n_segments:
        found.append("segment of each residue")
    for attr in left.attrs:
        other = getattr(right, attr.attrname, None)
        if isinstance(attr, INDICES):
            continue
        if other is None:
            found.append(f"{attr.attrname}: missing")
        elif isinstance(attr, _Connection):
            parts = [attr.values, attr.types, attr._guessed, attr.order]
            others = [other.values, other.types, other._guessed, other.order]
            same = [list(a) == list(b) for a, b in zip(parts, others, strict=True)]
            found += [] if all(same) else [f"{attr.attrname}: values, types, guessed, order {same}"]
        elif not np.array_equal(attr.values, other.values, equal_nan=attr.values.dtype.kind == "f"):
            found.append(f"{attr.attrname}: {attr.values[:5]} became {other.values[:5]}")
        elif attr.values.dtype != other.values.dtype or attr.is_guessed != other.is_guessed:
            found.append(f"{attr.attrname}: {attr.values.dtype} became {other.values.dtype}")
    return found


def same(left, right):
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray) and left.dtype == right.dtype and left.tobytes() == right.tobytes()
        )
    return left is right or (type(left) is type(right) and (left == right or left != left))


def frame_differences(left, right):
    """What two timesteps differ in, bit for bit; a time only where the source knows it."""
    names = ("positions", "velocities", "forces")
    has = [name for name in names if getattr(left, f"has_{name}")]
    found = [] if has == [n for n in names if getattr(right, f"has_{n}")] else [f"the source has {has}"]
    found += [name for name in has if not found and not same(getattr(left, name), getattr(right, name))]
    if not same(left.dimensions, right.dimensions):
        found.append(f"dimensions: {left.dimensions} became {right.dimensions}")
    if knows_time(left) and left.time != right.time:
        found.append(f"time: {left.time} became {right.time}")
    for key, value in left.data.items():
        if key == "step":
            # A number of any dtype there is a number of frames.
            value = int(value)  # noqa: PLW2901
        if key not in {"dt", "time", "time_offset"} and not same(value, right.data.get(key)):
            found.append(f"data[{key!r}]: {value!r:.60} became {right.data.get(key)!r:.60}")
    return found


def check_equal(source, copy, frames):
    assert topology_differences(source, copy) == []
    for frame in frames:
        assert frame_differences(source.trajectory[frame], copy.trajectory[frame]) == [], f"frame {frame}"


def check_system(names, path, n_frames):
    source = load(names)
    frames = list(range(len(source.trajectory)))[:n_frames]
    source.atoms.write(str(path), frames=source.trajectory[frames])
    copy = mda.Universe(str(path), to_guess=())
    assert len(copy.trajectory) == len(frames)
    check_equal(source, copy, frames)
    return len(source.atoms), len(frames), len(source._topology.attrs) - len(INDICES)


@leaky
@pytest.mark.parametrize("names", systems(0), ids=lambda names: "-".join(filter(None, names)))
def test_a_system_comes_back_as_it_was(names, tmp_path):
    """Every attribute, residue, segment, bond and frame of a system is what it was."""
    n_atoms, n_frames, n_attributes = check_system(names, tmp_path / "s.mrec", 3)
    print(f"{'+'.join(names):32} {n_atoms:7} atoms {n_frames:3} frames {n_attributes:3} attributes equal")


@leaky
@pytest.mark.long
@pytest.mark.parametrize("names", systems(0) + systems(1), ids=lambda names: "-".join(filter(None, names)))
def test_a_whole_system_comes_back_as_it_was(names, tmp_path):
    """The same for every frame of every system."""
    check_system(names, tmp_path / "s.mrec", None)


def test_the_sweep_is_wide_enough():
    """Sixty systems at least, of each kind that MDAnalysis has a parser for here."""
    assert len(set(systems(0))) >= 60
    assert len(set(systems(0) + systems(1))) >= 120


def convert(source, target, *options):
    assert main(["convert", str(source), str(target), "--adapter", "mdanalysis", *options]) == 0


CONVERSIONS = [("PSF", "DCD"), ("GRO", "XTC"), ("PDB", "TRR"), ("PRM7", "NCDFtruncoct")]


@leaky
@pytest.mark.parametrize(("top", "trajectory"), CONVERSIONS)
def test_molrec_convert_keeps_a_real_run(top, trajectory, tmp_path):
    """``molrec convert`` gives a record that MDAnalysis reads as it read the source, frame by frame."""
    files = [str(getattr(datafiles, name)) for name in (top, trajectory)]
    convert(files[1], tmp_path / "run.mrec", "--top", files[0])
    source = mda.Universe(*files, to_guess=())
    check_equal(source, mda.Universe(str(tmp_path / "run.mrec"), to_guess=()), range(len(source.trajectory)))


@pytest.mark.parametrize("suffix", ["pdb", "gro", "xtc", "trr", "dcd", "nc", "xyz"])
def test_molrec_convert_exports(suffix, small, tmp_path):
    """``molrec convert`` writes a record's frames in the formats MDAnalysis writes."""
    u = small(dimensions=[30, 30, 30, 90, 90, 90], velocities=True)
    u.atoms.write(str(tmp_path / "run.mrec"), frames="all")
    frames = ["--frames", "1:2"] if suffix == "gro" else []
    convert(tmp_path / "run.mrec", tmp_path / f"out.{suffix}", *frames)
    top = tmp_path / ("run.mrec" if suffix in {"xtc", "trr", "dcd", "nc"} else f"out.{suffix}")
    copy = mda.Universe(str(top), str(tmp_path / f"out.{suffix}"), to_guess=())
    expected = [1] if suffix == "gro" else range(4)
    assert len(copy.trajectory) == len(expected)
    for mine, theirs in zip(expected, copy.trajectory, strict=True):
        np.testing.assert_allclose(theirs.positions, u.trajectory[mine].positions, atol=6e-3)
