"""mdtraj topologies to records and back, and those of other tools' records."""

from __future__ import annotations

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")
import molrec_mdtraj  # noqa: E402
from molrec_core import Block, Box, Frame, open_record, write_mrec  # noqa: E402
from molrec_mdtraj._topology import HAS_FORMAL_CHARGE  # noqa: E402

UNITS = {"units": {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}}


def round_trip(top, path):
    md.Trajectory(np.zeros((1, top.n_atoms, 3), np.float32), top).save(path)
    return md.load_topology(path)


def one_residue(n, **atom):
    top = md.Topology()
    residue = top.add_residue("LIG", top.add_chain())
    return top, [top.add_atom(f"C{i}", md.element.carbon, residue, **atom) for i in range(n)]


def test_everything_comes_back(kit, path):
    top = kit.topology()
    kit.same_topology(round_trip(top, path), top)


@pytest.mark.parametrize("ids", [(None, None), ("", ""), ("A", "A"), (None, ""), ("B", None), ("AB", "ü")])
def test_chain_ids_come_back_whatever_they_are(kit, path, ids):
    top = md.Topology()
    for chain_id in ids:
        chain = top.add_chain()
        chain.chain_id = chain_id
        top.add_atom("C", md.element.carbon, top.add_residue("R", chain))
    found = round_trip(top, path)
    assert [chain.chain_id for chain in found.chains] == list(ids)
    kit.same_topology(found, top)


@pytest.mark.parametrize("segment", ["", "A", "PROT"])
@pytest.mark.parametrize("chain_id", [None, "", "A"])
def test_segment_ids_come_back_beside_any_chain_id(kit, path, segment, chain_id):
    top = md.Topology()
    chain = top.add_chain()
    chain.chain_id = chain_id
    for segment_id in (segment, segment, "Z"):
        top.add_atom("C", md.element.carbon, top.add_residue("R", chain, segment_id=segment_id))
    found = round_trip(top, path)
    assert [residue.segment_id for residue in found.residues] == [segment, segment, "Z"]
    kit.same_topology(found, top)


@pytest.mark.parametrize("numbers", [[-5, 0, 7], [3, 3, 3], [2**40, -(2**40), 1], [99999, 100000, 1]])
def test_residue_numbers_of_any_sign_and_size_P19(kit, path, numbers):
    top = md.Topology()
    chain = top.add_chain()
    for number in numbers:
        top.add_atom("C", md.element.carbon, top.add_residue("R", chain, resSeq=number))
    found = round_trip(top, path)
    assert [residue.resSeq for residue in found.residues] == numbers


def test_a_residue_number_of_openmm_comes_back_P19(kit, path):
    app = pytest.importorskip("openmm.app")
    source = app.Topology()
    residue = source.addResidue("ALA", source.addChain("A"), id="98")
    source.addAtom("CA", app.Element.getBySymbol("C"), residue)
    found = round_trip(md.Topology.from_openmm(source), path)
    assert found.residue(0).resSeq == 98
    (back,) = found.to_openmm().residues()
    assert back.id == "98"


@pytest.mark.parametrize("serials", [[1, 2, 3], [None, None, None], [5, None, 9], [-1, 0, 2**40], [4, 4, 4]])
def test_serials_come_back(kit, path, serials):
    top, atoms = one_residue(3)
    for atom, serial in zip(atoms, serials, strict=True):
        atom.serial = serial
    assert [atom.serial for atom in round_trip(top, path).atoms] == serials


@pytest.mark.skipif(not HAS_FORMAL_CHARGE, reason="this mdtraj keeps no formal charges")
@pytest.mark.parametrize("charges", [[-1, 0, None], [None, None, None], [0, 0, 0], [2, -3, 1]])
def test_formal_charges_come_back_and_none_stays_none_P21(kit, path, charges):
    top, atoms = one_residue(3)
    for atom, charge in zip(atoms, charges, strict=True):
        atom.formal_charge = charge
    found = [atom.formal_charge for atom in round_trip(top, path).atoms]
    assert found == charges
    assert [type(charge) for charge in found] == [type(charge) for charge in charges]


@pytest.mark.parametrize("order", [1, 2, 3, 1.5, None])
@pytest.mark.parametrize("kind", [md.Single, md.Double, md.Triple, md.Aromatic, md.Amide, None], ids=repr)
def test_bond_orders_and_types_come_back_and_none_stays_none_P21(kit, path, order, kind):
    top, atoms = one_residue(3)
    top.add_bond(atoms[0], atoms[1], type=kind, order=order)
    top.add_bond(atoms[1], atoms[2])
    first, second = round_trip(top, path).bonds
    assert (first.type, first.order) == (kind, order)
    assert type(first.order) is type(order)
    assert (second.type, second.order) == (None, None)


def test_lithium_is_no_virtual_site_P18(kit, path):
    top, atoms = one_residue(3)
    for atom, name, element in zip(
        atoms, ("LI", "LI", "CL"), (md.element.lithium, md.element.virtual, md.element.carbon), strict=True
    ):
        atom.name, atom.element = name, element
    found = round_trip(top, path)
    assert [atom.element.symbol for atom in found.atoms] == ["Li", "VS", "C"]


def test_every_element_of_mdtraj_comes_back(kit, path):
    elements = sorted(
        set(md.element.Element._elements_by_symbol.values()), key=lambda e: (e.number, e.symbol)
    )
    assert len(elements) > 110
    top, atoms = one_residue(len(elements))
    for atom, element in zip(atoms, elements, strict=True):
        atom.element = element
    assert [atom.element for atom in round_trip(top, path).atoms] == elements


def test_empty_chains_and_residues_and_interleaved_ones_come_back(kit, path):
    top = md.Topology()
    first, _, last = top.add_chain(), top.add_chain(), top.add_chain()
    a = top.add_residue("A", first)
    b = top.add_residue("B", last)
    top.add_residue("NONE", first)
    c = top.add_residue("C", first)
    for residue in (a, b, c):
        top.add_atom("C", md.element.carbon, residue)
    found = round_trip(top, path)
    assert [chain.n_residues for chain in found.chains] == [3, 0, 1]
    assert [residue.name for residue in found.residues] == ["A", "NONE", "C", "B"]
    assert [atom.residue.name for atom in (found.atom(i) for i in range(3))] == ["A", "B", "C"]


def test_the_system_is_what_other_tools_read(kit, path):
    """The table of rows of the host mapping, column by column."""
    top = kit.topology()
    round_trip(top, path)
    with open_record(path) as record:
        atoms, bonds = record.system["atoms"], record.system["bonds"]
        assert record.meta["units"] == {
            "length": "angstrom", "time": "ps", "energy": "kJ/mol", "mass": "dalton", "charge": "e",
        }  # fmt: skip
        assert atoms["name"].tolist()[:4] == ["C1", "O1", "N1", "LI"]
        assert atoms["element"].tolist()[:4] == ["C", "O", "N", "Li"]
        assert atoms["atomic_number"].tolist()[:8] == [6, 8, 7, 3, 8, 1, 1, 0]
        assert atoms.targets == {"residue": "residues"}
        assert atoms["res_name"].tolist()[3:5] == ["LI", "HOH"]
        assert not atoms.validity["element"][7]
        assert record.system["residues"]["res_seq"].tolist()[:3] == [-3, 100000, 0]
        assert record.system["segments"]["chain"].tolist()[::2] == ["A", ""]
        assert bonds["atomi"].dtype == bonds["bond_type"].dtype == np.uint64
        assert bonds["bond_type"].tolist()[:4] == [2, 0, 0, 1]
        assert bonds["type"].tolist()[:2] == ["Double", "Amide"]


def foreign(path, atoms, **more):
    """Write a record as another tool would: canonical columns, the identity where it likes."""
    blocks = {"atoms": Block({name: np.arange(3.0) for name in "xyz"} | atoms), **more}
    write_mrec(path, meta=UNITS, trajectory=[Frame(blocks, box=Box(np.eye(3) * 20))], system=None)
    return path


def test_flat_columns_in_the_frame_make_residues_and_chains(kit, tmp_path):
    where = foreign(
        tmp_path / "run.mrec",
        {
            "element": np.array(["O", "H", "Xx"], dtype="T"),
            "name": np.array(["OW", "HW", "Q"], dtype="T"),
            "res_name": np.array(["SOL", "SOL", "ION"], dtype="T"),
            "res_id": np.array([4, 4, 9], dtype=np.uint64),
            "chain": np.array(["A", "A", "B"], dtype="T"),
        },
        bonds=Block(
            {
                "atomi": np.array([0, 1], dtype=np.uint64),
                "atomj": np.array([1, 2], dtype=np.uint64),
                "bond_type": np.array([1, 4], dtype=np.uint64),
                "bond_number": np.array([1, 0], dtype=np.uint64),
            }
        ),
    )
    top = md.load(where).topology
    assert [(r.name, r.resSeq, r.chain.chain_id) for r in top.residues] == [("SOL", 4, "A"), ("ION", 9, "B")]
    assert [a.element.symbol for a in top.atoms] == ["O", "H", "VS"]
    assert kit.bonds_told(top) == [(0, 1, md.Single, 1), (1, 2, md.Aromatic, None)]


def test_atomic_numbers_are_enough_for_elements(kit, tmp_path):
    where = foreign(tmp_path / "run.mrec", {"atomic_number": np.array([8, 1, 112], dtype=np.uint64)})
    top = md.load(where).topology
    assert [a.element.symbol for a in top.atoms] == ["O", "H", "Uub"]
    assert [a.name for a in top.atoms] == ["O", "H", "Cn"]
    assert [(r.name, r.n_atoms) for r in top.residues] == [("UNK", 3)]


def test_without_elements_atoms_are_virtual_sites_and_one_warning_says_so(kit, tmp_path):
    where = foreign(tmp_path / "run.mrec", {"name": np.array(["LI", "C", "O"], dtype="T")})
    with pytest.warns(
        molrec_mdtraj.MolrecTopologyWarning, match="neither elements nor atomic numbers"
    ) as told:
        top = md.load(where).topology
    assert len(told) == 1
    assert [a.element for a in top.atoms] == [md.element.virtual] * 3


def test_a_given_topology_stands_in_where_the_record_names_no_atoms(kit, tmp_path):
    where = foreign(tmp_path / "run.mrec", {"element": np.array(["O", "H", "H"], dtype="T")})
    top = md.Topology()
    residue = top.add_residue("HOH", top.add_chain())
    for name, element in (("O", md.element.oxygen), ("H1", md.element.hydrogen), ("H2", md.element.hydrogen)):
        top.add_atom(name, element, residue)
    assert md.load(where, top=top).topology is top


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"order": np.array([1.5, 4.0])}, [(None, 1.5), (None, None)]),
        ({"order_label": np.array(["ar", "2"], dtype="T")}, [(md.Aromatic, None), (None, 2)]),
        ({"type": np.array(["CT-HC", "single"], dtype="T")}, [(None, None), (md.Single, None)]),
        ({"bond_number": np.array([3, 0], dtype=np.uint64)}, [(None, 3), (None, None)]),
    ],
    ids=["order", "label", "type", "number"],
)
@pytest.mark.filterwarnings("ignore:1 bonds have an order that mdtraj does not admit")
def test_bonds_of_other_tools(kit, tmp_path, columns, expected):
    ends = {"atomi": np.array([0, 1], dtype=np.uint64), "atomj": np.array([1, 2], dtype=np.uint64)}
    element = {"element": np.array(["O", "H", "H"], dtype="T")}
    where = foreign(tmp_path / "run.mrec", element, bonds=Block(ends | columns))
    assert [(b.type, b.order) for b in md.load(where).topology.bonds] == expected


def test_an_order_beyond_mdtraj_is_said(kit, tmp_path):
    ends = {"atomi": np.array([0], dtype=np.uint64), "atomj": np.array([1], dtype=np.uint64)}
    element = {"element": np.array(["O", "H", "H"], dtype="T")}
    where = foreign(tmp_path / "run.mrec", element, bonds=Block(ends | {"order": np.array([4.0])}))
    with pytest.warns(molrec_mdtraj.MolrecTopologyWarning, match="1 bonds have an order"):
        md.load_topology(where)
