"""What a record's topology gives back: K4, K24, P13-P25, P27, P66, P92's subset rules."""

from __future__ import annotations

import MDAnalysis as mda  # noqa: N813 - the usual name
import numpy as np
import pytest

from molrec_core import Block, Frame, TrajectoryWriter, open_record

ANGSTROM = {"units": {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}}


def round_trip(u, path, **options):
    u.atoms.write(str(path), **options)
    return mda.Universe(str(path), to_guess=())


def named(n, **attributes):
    u = mda.Universe.empty(n, n_residues=n, atom_resindex=range(n), residue_segindex=[0] * n, trajectory=True)
    for name, values in attributes.items():
        u.add_TopologyAttr(name, values)
    return u


@pytest.mark.parametrize("case", ["K4", "P14"])
def test_negative_resids_come_back_and_select(case, tmp_path):
    """K4, P14: resids -2..3 are stored signed, and ``resid -1`` selects."""
    u = named(6, resids=[-2, -1, 0, 1, 2, 3], names=list("abcdef"))
    copy = round_trip(u, tmp_path / "r.mrec")
    assert copy.residues.resids.tolist() == [-2, -1, 0, 1, 2, 3]
    assert copy.select_atoms("resid -1").names.tolist() == ["b"]
    system = open_record(tmp_path / "r.mrec").system
    assert system["residues"]["res_seq"].tolist() == [-2, -1, 0, 1, 2, 3]
    # The canonical flat column is unsigned, so it falls back to the residue's number.
    assert system["atoms"]["res_id"].tolist() == [1, 2, 3, 4, 5, 6]


def test_p13_the_record_is_its_own_topology(tmp_path):
    """P13: names, resnames, resids, segids, elements, masses, charges and bonds need no second file."""
    u = named(
        3,
        names=["O", "H1", "H2"],
        resnames=["SOL"] * 3,
        resids=[7, 7, 8],
        segids=["W"],
        elements=["O", "H", "H"],
        masses=[15.999, 1.008, 1.008],
        charges=[-0.8, 0.4, 0.4],
    )
    u.add_TopologyAttr("bonds", [(0, 1), (0, 2)])
    copy = round_trip(u, tmp_path / "p.mrec")
    for name in ("names", "resnames", "resids", "segids", "elements", "masses", "charges"):
        assert getattr(copy.atoms, name).tolist() == getattr(u.atoms, name).tolist(), name
    assert copy.bonds.indices.tolist() == [[0, 1], [0, 2]]


def test_p16_virtual_sites_can_be_bonded_to_their_parents(tmp_path):
    """P16: a TIP4P record names the parents of each site; an option bonds them, so that fragments hold."""
    sites = Block(
        {name: np.array([row], np.uint64) for name, row in zip(("atomi", "atomj"), (3, 0), strict=True)}
    )
    bonds = Block({"atomi": np.array([0, 0], np.uint64), "atomj": np.array([1, 2], np.uint64)})
    atoms = {"name": ["O", "H1", "H2", "M"], "element": ["O", "H", "H", ""], "mass": [16.0, 1.0, 1.0, 0.0]}
    system = Frame({"atoms": atoms, "bonds": bonds, "virtual_sites": sites})
    with TrajectoryWriter(tmp_path / "t.mrec", system=system, meta=ANGSTROM) as writer:
        writer.append(Frame({"atoms": {name: np.zeros(4) for name in "xyz"}}))
    assert len(mda.Universe(tmp_path / "t.mrec", to_guess=()).atoms.fragments) == 2
    u = mda.Universe(tmp_path / "t.mrec", to_guess=(), virtual_site_bonds=True)
    assert len(u.atoms.fragments) == 1
    assert u.bonds.indices.tolist() == [[0, 1], [0, 2], [0, 3]]


def test_p18_lithium_stays_lithium(tmp_path):
    """P18: nothing is guessed from names where an element is stored."""
    u = named(2, names=["LI", "CA"], elements=["Li", "C"])
    copy = round_trip(u, tmp_path / "e.mrec")
    assert copy.atoms.elements.tolist() == ["Li", "C"]


def test_p21_bond_orders_types_and_formal_charges(tmp_path):
    """P21: orders 1, 2, 1.5 and None, labels, types, guessed flags and formal charges come back; None stays None."""
    u = named(5, names=list("abcde"), formalcharges=[-1, 0, 1, 0, 0])
    bonds = [(0, 1), (1, 2), (2, 3), (3, 4)]
    types, guessed = ["s", None, ("C", "N"), "[x"], [False, True, False, False]
    u.add_TopologyAttr(
        mda.core.topologyattrs.Bonds(bonds, types=types, guessed=guessed, order=[1, 2, 1.5, None])
    )
    copy = round_trip(u, tmp_path / "b.mrec")
    assert copy._topology.bonds.order == [1, 2, 1.5, None]
    assert copy._topology.bonds.types == ["s", None, ("C", "N"), "[x"]
    assert copy._topology.bonds._guessed == [False, True, False, False]
    assert copy.atoms.formalcharges.tolist() == [-1, 0, 1, 0, 0]
    block = open_record(tmp_path / "b.mrec").system["bonds"]
    assert block["bond_type"].tolist() == [1, 2, 4, 0]
    assert block["type"][2] == '["C", "N"]'
    labels = mda.core.topologyattrs.Bonds(bonds, order=["ar", "am", "1", None])
    v = named(5, names=list("abcde"))
    v.add_TopologyAttr(labels)
    assert round_trip(v, tmp_path / "l.mrec")._topology.bonds.order == ["ar", "am", "1", None]


@pytest.mark.parametrize(("segid", "chain"), [("", "A"), ("SYST", "")])
def test_p22_segids_and_chains_do_not_replace_each_other(segid, chain, tmp_path):
    """P22: an empty segid beside a chain, and the reverse, keep both values."""
    u = named(2, names=["a", "b"], segids=[segid], chainIDs=[chain, chain])
    copy = round_trip(u, tmp_path / "c.mrec")
    assert copy.segments.segids.tolist() == [segid]
    assert copy.atoms.chainIDs.tolist() == [chain, chain]


def test_p24_beads_get_no_element(tmp_path):
    """P24: a coarse-grained record has no element after a round trip, and masses as given."""
    u = named(3, names=["NA", "C1", "W"], masses=[72.0, 72.0, 54.0])
    copy = round_trip(u, tmp_path / "m.mrec")
    assert not hasattr(copy.atoms, "elements")
    assert copy.atoms.masses.tolist() == [72.0, 72.0, 54.0]
    assert "element" not in open_record(tmp_path / "m.mrec").system["atoms"]


def test_p25_a_mass_of_zero_is_not_a_guess(tmp_path):
    """P25: a stored mass of 0.0 stays, not guessed; what MDAnalysis guessed stays marked."""
    u = named(2, names=["O", "M"], masses=[16.0, 0.0])
    u.atoms.write(str(tmp_path / "z.mrec"))
    copy = mda.Universe(str(tmp_path / "z.mrec"))
    assert copy.atoms.masses.tolist() == [16.0, 0.0]
    assert not copy._topology.masses.is_guessed
    v = named(2, names=["O", "H"])
    v.guess_TopologyAttrs(to_guess=["types", "masses"])
    again = round_trip(v, tmp_path / "g.mrec")
    assert again._topology.masses.is_guessed
    assert open_record(tmp_path / "g.mrec").meta["mdanalysis"]["guessed"] == ["types", "masses"]


def test_p27_names_beyond_ascii(tmp_path):
    """P27: names in any script come back."""
    names = ["C\N{GREEK SMALL LETTER ALPHA}", "水", "Å1"]
    u = named(3, names=names)
    assert round_trip(u, tmp_path / "u.mrec").atoms.names.tolist() == names


def test_residues_segments_and_codes_are_kept_apart(tmp_path):
    """Repeated resnames, insertion codes, interleaved and empty residues, empty segids: all as they were."""
    u = mda.Universe.empty(
        5,
        n_residues=4,
        n_segments=3,
        atom_resindex=[0, 1, 0, 1, 3],
        residue_segindex=[2, 0, 1, 2],
        trajectory=True,
    )
    u.add_TopologyAttr("resnames", ["ALA", "ALA", "EMP", "ALA"])
    u.add_TopologyAttr("resids", [10, 10, 10, 10])
    u.add_TopologyAttr("icodes", ["", "A", "", "B"])
    u.add_TopologyAttr("segids", ["", "X", ""])
    u.add_TopologyAttr("resnums", [1, 2, 3, 4])
    u.add_TopologyAttr("moltypes", ["p", "q", "p", "q"])
    u.add_TopologyAttr("molnums", [0, 1, 2, 3])
    copy = round_trip(u, tmp_path / "h.mrec")
    assert copy.atoms.resindices.tolist() == [0, 1, 0, 1, 3]
    assert copy.residues.segindices.tolist() == [2, 0, 1, 2]
    assert copy.segments.segids.tolist() == ["", "X", ""]
    for name in ("resnames", "resids", "icodes", "resnums", "moltypes", "molnums"):
        assert getattr(copy.residues, name).tolist() == getattr(u.residues, name).tolist(), name


def test_a_subset_reindexes_what_it_keeps(tmp_path):
    """Writing some atoms keeps the bonds among them under their new numbers, and their residues alone."""
    u = named(5, names=list("abcde"), resids=[1, 2, 3, 4, 5])
    u.add_TopologyAttr("bonds", [(0, 1), (1, 2), (2, 4), (3, 4)])
    u.add_TopologyAttr("impropers", [(0, 1, 2, 4)])
    u.atoms.positions = np.arange(15).reshape(5, 3)
    u.atoms[[4, 2, 1]].write(str(tmp_path / "s.mrec"))
    copy = mda.Universe(str(tmp_path / "s.mrec"), to_guess=())
    assert copy.atoms.names.tolist() == ["e", "c", "b"]
    assert sorted(copy.bonds.indices.tolist()) == [[0, 1], [1, 2]]
    assert copy._topology.impropers.values == []
    assert sorted(copy.residues.resids.tolist()) == [2, 3, 5]
    assert copy.atoms.resids.tolist() == [5, 3, 2]
    assert copy.atoms.positions[:, 0].tolist() == [12, 6, 3]


def test_p102_what_is_in_memory_is_written(small, tmp_path):
    """P102: a changed position is the one that is stored; the frame is not read again."""
    small().atoms.write(str(tmp_path / "a.mrec"), frames="all")
    u = mda.Universe(str(tmp_path / "a.mrec"))
    before = u.atoms.positions.copy()
    u.atoms.positions += 1
    u.atoms.write(str(tmp_path / "b.mrec"))
    np.testing.assert_array_equal(
        mda.Universe(str(tmp_path / "b.mrec")).atoms.positions, before + np.float32(1)
    )


def test_k24_a_universe_in_memory_is_written(tmp_path):
    """K24: an empty universe with coordinates in memory writes Å and ps."""
    u = mda.Universe.empty(4, trajectory=True)
    u.load_new(np.arange(24, dtype=np.float32).reshape(2, 4, 3))
    with mda.Writer(str(tmp_path / "e.mrec"), 4) as w:
        for _ in u.trajectory:
            w.write(u.atoms)
    meta = open_record(tmp_path / "e.mrec").meta
    assert (meta["units"]["length"], meta["units"]["time"]) == ("angstrom", "ps")
    np.testing.assert_array_equal(
        mda.Universe(str(tmp_path / "e.mrec")).trajectory.timeseries().ravel(), np.arange(24)
    )


def test_merged_universes_are_written(small, tmp_path):
    """The result of Merge is written like any other universe."""
    merged = mda.Merge(small().atoms[:2], small().atoms[3:])
    copy = round_trip(merged, tmp_path / "m.mrec")
    assert copy.atoms.names.tolist() == ["A0", "A1", "A3", "A4", "A5"]
    np.testing.assert_array_equal(copy.atoms.positions, merged.atoms.positions)


def test_an_attribute_that_no_column_holds_is_named(tmp_path):
    """Mixed types in one attribute are refused by the attribute's name, before anything is written."""
    u = named(2, names=["a", "b"])
    u._topology.names.values = np.array(["a", 1.5], dtype=object)
    with pytest.raises(TypeError, match=r"names: values of types float, str"):
        u.atoms.write(str(tmp_path / "x.mrec"))
    assert not (tmp_path / "x.mrec").exists()


def test_numbers_as_types_come_back_as_numbers(tmp_path):
    """An int ``type`` has no canonical column; it comes back as an int all the same."""
    u = named(2, names=["a", "b"])
    u.add_TopologyAttr("types", np.array([1, 2], dtype=object))
    copy = round_trip(u, tmp_path / "i.mrec")
    assert copy.atoms.types.tolist() == [1, 2]
    assert "type" not in open_record(tmp_path / "i.mrec").system["atoms"]


def test_a_record_of_canonical_columns_alone_opens(tmp_path):
    """A record another tool wrote, with columns of one block and no residues or units, opens."""
    atoms = {"x": [0.0, 1.0], "y": [0.0, 0.0], "z": [0.0, 0.0], "element": ["O", "H"], "charge": [-1.0, 1.0]}
    with TrajectoryWriter(tmp_path / "o.mrec") as writer:
        writer.append(
            Frame({"atoms": {**atoms, "res_id": np.array([3, 4], np.uint64), "res_name": ["A", "B"]}})
        )
    with pytest.warns(UserWarning, match="does not state its units") as told:
        u = mda.Universe(tmp_path / "o.mrec", to_guess=())
    assert len(told) == 1
    assert (u.atoms.elements.tolist(), u.atoms.charges.tolist()) == (["O", "H"], [-1.0, 1.0])
    assert (u.residues.resids.tolist(), u.residues.resnames.tolist()) == ([3, 4], ["A", "B"])


def test_what_another_host_left_out_is_an_empty_string(tmp_path):
    """A null in a string column, such as the element of a virtual site, is "", so that selections work."""
    element = Block({"name": ["a", "M"], "element": ["C", ""]}, validity={"element": [True, False]})
    with TrajectoryWriter(tmp_path / "v.mrec", system=Frame({"atoms": element}), meta=ANGSTROM) as writer:
        writer.append(Frame({"atoms": {name: np.zeros(2) for name in "xyz"}}))
    u = mda.Universe(tmp_path / "v.mrec", to_guess=())
    assert u.atoms.elements.tolist() == ["C", ""]
    assert u.select_atoms("element C").names.tolist() == ["a"]


def test_a_frame_section_is_a_universe_of_one_frame(tmp_path):
    """A record that holds a single frame opens as one."""
    from molrec_core import Box, write_mrec

    atoms = {"x": [0.0, 1.0], "y": [0.0, 2.0], "z": [0.0, 3.0], "name": ["a", "b"]}
    write_mrec(
        tmp_path / "f.mrec", frame=Frame({"atoms": atoms}, box=Box(np.diag([4.0, 5, 6]))), meta=ANGSTROM
    )
    u = mda.Universe(tmp_path / "f.mrec", to_guess=())
    assert len(u.trajectory) == 1
    assert u.atoms.positions[1].tolist() == [1, 2, 3]
    assert u.dimensions.tolist() == [4, 5, 6, 90, 90, 90]
    assert u.trajectory.timeseries(atomgroup=u.atoms[1:]).tolist() == [[[1, 2, 3]]]
