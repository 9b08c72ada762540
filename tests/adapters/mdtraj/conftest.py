"""A trajectory with everything an mdtraj topology can say, in both forms of a record."""

from __future__ import annotations

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")
import molrec_mdtraj  # noqa: E402
from molrec_mdtraj._topology import HAS_FORMAL_CHARGE  # noqa: E402


def make_topology(n_waters: int = 4):
    """Chains 'A', None and '', an ion, a virtual site, water with bonds of order and type."""
    top = md.Topology()
    chain = top.add_chain()
    chain.chain_id = "A"
    ligand = top.add_residue("LIG", chain, resSeq=-3, segment_id="SEGA")
    charge = {"formal_charge": -1} if HAS_FORMAL_CHARGE else {}
    carbon = top.add_atom("C1", md.element.carbon, ligand, serial=7)
    oxygen = top.add_atom("O1", md.element.oxygen, ligand, serial=11, **charge)
    nitrogen = top.add_atom("N1", md.element.nitrogen, ligand, serial=12)
    top.add_bond(carbon, oxygen, type=md.Double, order=2)
    top.add_bond(carbon, nitrogen, type=md.Amide, order=1)
    top.add_bond(oxygen, nitrogen)
    ions = top.add_chain()
    ion = top.add_residue("LI", ions, resSeq=100000)
    top.add_atom("LI", md.element.lithium, ion)
    waters = top.add_chain()
    waters.chain_id = ""
    for i in range(n_waters):
        water = top.add_residue("HOH", waters, resSeq=i)
        o = top.add_atom("O", md.element.oxygen, water)
        for name in ("H1", "H2"):
            top.add_bond(o, top.add_atom(name, md.element.hydrogen, water), type=md.Single, order=1)
        top.add_atom("M", md.element.virtual, water)
    return top


class Source(md.Trajectory):
    """Keeps its topology when it is cut or joined: mdtraj 1.10 forgets chain ids when it copies one."""

    def __getitem__(self, key):
        part = self.slice(key)
        part.topology = self.topology
        return part

    def join(self, *args, **kwargs):
        whole = super().join(*args, **kwargs)
        whole.topology = self.topology
        return whole


def make_trajectory(n_frames: int = 20, n_waters: int = 4, *, cell: bool = True, seed: int = 1):
    """Frames that tell themselves apart: the first coordinate is the frame's number."""
    top = make_topology(n_waters)
    rng = np.random.default_rng(seed)
    xyz = rng.normal(0, 3, (n_frames, top.n_atoms, 3)).astype(np.float32)
    xyz[:, 0, 0] = np.arange(n_frames)
    cells = {}
    if cell:
        cells = {
            "unitcell_lengths": rng.uniform(3, 9, (n_frames, 3)).astype(np.float32),
            "unitcell_angles": rng.uniform(60, 100, (n_frames, 3)).astype(np.float32),
        }
    return Source(xyz, top, time=np.arange(n_frames) * 0.002 + 10, **cells)


def atoms_told(top):
    """Everything a topology says about each atom and its residue and chain, as plain values."""
    return [
        (
            atom.index,
            atom.name,
            atom.element.symbol,
            atom.serial,
            getattr(atom, "formal_charge", None),
            atom.residue.index,
            atom.residue.name,
            atom.residue.resSeq,
            atom.residue.segment_id,
            atom.residue.chain.index,
            atom.residue.chain.chain_id,
        )
        for atom in top.atoms
    ]


def bonds_told(top):
    """Each bond with its type and order."""
    return [(b[0].index, b[1].index, b.type, b.order) for b in top.bonds]


def assert_same_topology(found, expected):
    assert found == expected
    assert atoms_told(found) == atoms_told(expected)
    assert bonds_told(found) == bonds_told(expected)
    assert [c.chain_id for c in found.chains] == [c.chain_id for c in expected.chains]
    assert [c.n_residues for c in found.chains] == [c.n_residues for c in expected.chains]


def assert_same_trajectory(found, expected):
    """Coordinates, lengths and times to the bit; angles within one float32 ulp."""
    assert found.xyz.dtype == np.float32
    assert found.xyz.tobytes() == expected.xyz.tobytes()
    assert found.time.dtype == np.float64
    assert np.array_equal(found.time, expected.time)
    if expected.unitcell_lengths is None:
        assert found.unitcell_lengths is None
        assert found.unitcell_angles is None
        assert found.unitcell_vectors is None
    else:
        # Vectors that were set make mdtraj keep lengths in double precision.
        lengths = expected.unitcell_lengths.astype(np.float32)
        angles = expected.unitcell_angles.astype(np.float32)
        assert found.unitcell_lengths.tobytes() == lengths.tobytes()
        np.testing.assert_array_max_ulp(found.unitcell_angles, angles, maxulp=1)
    assert_same_topology(found.topology, expected.topology)


class Kit:
    topology = staticmethod(make_topology)
    trajectory = staticmethod(make_trajectory)
    same = staticmethod(assert_same_trajectory)
    same_topology = staticmethod(assert_same_topology)
    atoms_told = staticmethod(atoms_told)
    bonds_told = staticmethod(bonds_told)


@pytest.fixture
def kit():
    molrec_mdtraj.register()
    return Kit


@pytest.fixture(params=["run.mrec", "run.mrec.zip"])
def path(request, tmp_path):
    """Where a record goes: a directory, then an archive."""
    return tmp_path / request.param


@pytest.fixture(scope="session", params=["run.mrec", "run.mrec.zip"])
def twenty(request, tmp_path_factory):
    """A record of 20 frames that is only read: its path and what went in."""
    source = make_trajectory()
    where = tmp_path_factory.mktemp("twenty") / request.param
    molrec_mdtraj.save_mrec(source, where)
    return where, source
