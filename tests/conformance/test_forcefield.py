"""Checklist group X: the force-field section."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from conformance.records import (
    attributes,
    changed,
    make_group,
    nodes,
    refused,
    remove,
    replace_array,
    set_attributes,
    stored,
    unreadable,
)
from molrec_core import (
    Block,
    ForceField,
    FormatError,
    Frame,
    SchemaError,
    SectionNotFoundError,
    TrajectoryWriter,
    open_record,
    validate,
    write_mrec,
)

GOLDEN = Path(__file__).parent / "golden"
KIND = "bad_forcefield"
V2 = {"molrec_version": 2}
BOND = {"name": ["CT-HC", "CT-CT"], "itom": ["CT", "CT"], "jtom": ["HC", "CT"]}
ENDS = ("itom", "jtom", "ktom", "ltom", "mtom")


def ends(*rows):
    """Endpoint columns of rows written as ``CT-HC``."""
    columns = zip(*(row.split("-") for row in rows), strict=True)
    return dict(zip(ENDS, map(list, columns), strict=False))


def nullable(columns):
    """A block in which None stands for null."""
    filled, masks = {}, {}
    for name, values in columns.items():
        empty = "" if any(isinstance(v, str) for v in values) else 0.0
        filled[name] = [empty if v is None else v for v in values]
        if None in values:
            masks[name] = [v is not None for v in values]
    return Block(filled, validity=masks)


def demo(**document):
    """An accepted force field of an atom, a bond and a pair style."""
    return (
        ForceField({"name": "demo", "units": {"preset": "real"}} | document)
        .add_style("atom", "full", {"name": ["CT", "HC"], "mass": [12.011, 1.008]})
        .add_style("bond", "harmonic", BOND | {"k": [340.0, 268.0], "r0": [1.09, 1.53]})
        .add_style(
            "pair",
            "lj/cut",
            {
                "name": ["1", "2", "3"],
                **ends("CT-CT", "HC-HC", "CT-HC"),
                "epsilon": [0.1, 0.03, 0.9],
                "sigma": [3.5, 2.5, 2.0],
            },
            params={"cutoff": 10.0, "mixing": "geometric"},
        )
    )


def roundtrip(tmp_path, forcefield, *, meta=V2, **sections):
    """Write and read a force field; show that it comes back as given."""
    record = tmp_path / "run.mrec"
    write_mrec(record, forcefield=forcefield, meta=meta, overwrite=True, **sections)
    found = open_record(record).forcefield
    assert found == forcefield
    assert list(found.tables) == sorted(forcefield.tables)
    assert [s.table for s in found.styles] == [s.table for s in forcefield.styles]
    assert validate(record, deep=True) == []
    return record, found


def accepted(tmp_path, meta=V2):
    return roundtrip(tmp_path, demo(), meta=meta)[0]


def assert_unreadable(record, loc):
    """The change that was made is refused on reading, by the validator too, and the meta still opens."""
    with open_record(record) as found:
        with unreadable(KIND, f"forcefield/{loc}"):
            _ = found.forcefield
        assert found.meta["molrec_version"] in {1, 2}
    assert [(p.kind, p.loc) for p in validate(record)] == [(KIND, f"forcefield/{loc}")]


def assert_unwritable(tmp_path, forcefield, loc, *, meta=V2):
    """The force field is refused on writing, and no record is left behind."""
    record = tmp_path / "refused.mrec"
    with refused(SchemaError, KIND, f"forcefield/{loc}"):
        write_mrec(record, forcefield=forcefield, meta=meta)
    assert not record.exists()


def set_style(record, index, **values):
    """Change keys of one entry of the stored styles; None removes one."""
    with changed(record, "forcefield") as found:
        entry = found["attributes"]["styles"][index]
        for key, value in values.items():
            if value is None:
                entry.pop(key)
            else:
                entry[key] = value


# -- what is carried


def test_X01_minimal(tmp_path):
    forcefield = ForceField({"name": "minimal", "units": {"preset": "real"}})
    forcefield.add_style("atom", "full", {"name": ["CT", "HC"], "mass": [12.011, 1.008]})
    record, found = roundtrip(tmp_path, forcefield)
    assert found.name == "minimal"
    assert found.table("atom", "full")["mass"].tolist() == [12.011, 1.008]
    assert open_record(record).sections == ("meta", "forcefield")


def test_X02_every_kind_of_style(tmp_path):
    document = {
        "name": "round",
        "units": {"preset": "real"},
        "special_bonds": {"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, 0.8333]},
        "source": {"format": "openmm-xml", "sha256": "0" * 63 + "1"},
    }
    forcefield = ForceField(document)
    forcefield.add_style("atom", "full", {"name": ["CT", "HC", "OH"], "mass": [12.011, 1.008, 15.999]})
    bonds = {"name": ["CT-HC", "CT-OH"], **ends("CT-HC", "CT-OH"), "k": [340.0, 320.0], "r0": [1.09, 1.41]}
    forcefield.add_style("bond", "harmonic", bonds)
    forcefield.add_style(
        "angle", "harmonic", {"name": ["a"], **ends("HC-CT-HC"), "k": [33.0], "theta0": [107.8]}
    )
    terms = {"k1": 0.0, "periodicity1": 1.0, "phase1": 0.0, "k2": 0.45, "periodicity2": 3.0, "phase2": 180.0}
    dihedral = {"name": ["d"], **ends("HC-CT-CT-HC"), **{k: [v] for k, v in terms.items()}}
    forcefield.add_style("dihedral", "periodic", dihedral)
    forcefield.add_style(
        "improper", "harmonic", {"name": ["i"], **ends("CT-HC-HC-HC"), "k": [10.5], "chi0": [35.26]}
    )
    pairs = {"name": ["1", "2", "3", "4"], **ends("CT-CT", "HC-HC", "OH-OH", "CT-OH")}
    pairs |= {"epsilon": [0.1, 0.03, 0.17, 0.2], "sigma": [3.5, 2.5, 3.0, 3.2]}
    forcefield.add_style("pair", "lj/cut", pairs, params={"mixing": "geometric", "cutoff": 10})
    forcefield.add_style(
        "pair",
        "coul/long/pme",
        {"name": np.array([], "U1"), "itom": np.array([], "U1"), "jtom": np.array([], "U1")},
    )
    record, found = roundtrip(tmp_path, forcefield)
    assert found.document == {**document, "styles": forcefield.document["styles"]}
    assert found.special_bonds == document["special_bonds"]
    assert found.pair("OH", "CT") == {"lj/cut": {"epsilon": 0.2, "sigma": 3.2}}
    assert attributes(record, "forcefield")["styles"][5]["params"] == {"mixing": "geometric", "cutoff": 10}


def test_X03_layout(tmp_path):
    forcefield = demo(x_note=None)
    forcefield.add_style(
        "angle", "harmonic", nullable({"name": ["a", "b"], **ends("A-B-C", "C-B-A"), "k": [1.0, None]})
    )
    record, _ = roundtrip(tmp_path, forcefield)
    assert attributes(record, "forcefield") == forcefield.document
    assert attributes(record, "forcefield/bond.harmonic") == {"count": 2}
    assert stored(record, "forcefield/angle.harmonic/_validity/k").tolist() == [True, False]
    tables = {key for key in nodes(record, "forcefield") if "/" not in key}
    assert tables == {"atom.full", "bond.harmonic", "pair.lj%2Fcut", "angle.harmonic"}


def test_X04_wildcard_endpoints(tmp_path):
    forcefield = ForceField({"name": "w", "units": {"preset": "real"}})
    forcefield.add_style("bond", "harmonic", {"name": ["any"], "itom": [""], "jtom": ["CT"], "k": [1.0]})
    _, found = roundtrip(tmp_path, forcefield)
    assert found.table("bond", "harmonic")["itom"].tolist() == [""]


def test_X05_absent_parameters_are_null(tmp_path):
    table = nullable(
        {
            "name": ["a", "b"],
            **ends("A-B-C-D", "B-C-D-A"),
            "k2": [0.25, None],
            "periodicity2": [2.0, None],
            "phase2": [180.0, None],
        }
    )
    forcefield = ForceField({"name": "n", "units": {"preset": "real"}}).add_style(
        "dihedral", "periodic", table
    )
    record, found = roundtrip(tmp_path, forcefield)
    assert stored(record, "forcefield/dihedral.periodic/_validity/k2").tolist() == [True, False]
    system = Frame({"dihedrals": {"type": ["b", "a"]}})
    assert found.parameters_of(system, "dihedrals", 0) == {"periodic": {}}
    assert found.parameters_of(system, "dihedrals", 1) == {
        "periodic": {"k2": 0.25, "periodicity2": 2.0, "phase2": 180.0}
    }


def test_X06_string_parameters(tmp_path):
    table = nullable(
        {
            "name": ["opls_135", "opls_136"],
            "class": ["CT", "CT"],
            "element": ["C", "C"],
            "smarts": ["C", "CC"],
            "ptype": ["A", "A"],
            "overrides": [None, "opls_135"],
        }
    )
    _, found = roundtrip(
        tmp_path, ForceField({"name": "s", "units": {"preset": "real"}}).add_style("atom", "full", table)
    )
    read = found.table("atom", "full")
    assert read["ptype"].tolist() == ["A", "A"]
    assert read.validity["overrides"].tolist() == [False, True]
    # Annotations describe a type; only ptype is a parameter.
    assert found.parameters_of(Frame({"atoms": {"type": ["opls_136"]}}), "atoms", 0) == {
        "full": {"ptype": "A"}
    }


def test_X07_style_name_encoding(tmp_path):
    forcefield = ForceField({"name": "e", "units": {"preset": "real"}})
    forcefield.add_style("pair", "lj/cut/coul/long", {"name": ["a"], **ends("A-A"), "epsilon": [0.1]})
    record, found = roundtrip(tmp_path, forcefield)
    assert "pair.lj%2Fcut%2Fcoul%2Flong" in nodes(record, "forcefield")
    assert found.styles[0].style == "lj/cut/coul/long"
    assert found.pair("A", "A") == {"lj/cut/coul/long": {"epsilon": 0.1}}


def test_X08_cross_rows_and_restatements(tmp_path):
    table = {
        "name": ["A", "B", "nbfix-1", "nbfix-1-restated"],
        **ends("A-A", "B-B", "B-A", "A-B"),
        "epsilon": [0.1, 0.4, 0.9, 0.9],
        "sigma": [3.0, 3.6, 2.0, 2.0],
        "desc": ["", "", "x", "y"],
    }
    _, found = roundtrip(
        tmp_path, ForceField({"name": "c", "units": {"preset": "real"}}).add_style("pair", "lj/cut", table)
    )
    assert found.pair("A", "B") == found.pair("B", "A") == {"lj/cut": {"epsilon": 0.9, "sigma": 2.0}}
    assert found.pair("A", "A") == {"lj/cut": {"epsilon": 0.1, "sigma": 3.0}}
    assert found.pair("A", "nobody") == {}


def hybrid():
    forcefield = demo()
    return forcefield.add_style(
        "bond", "morse", {"name": ["CT-HC"], **ends("CT-HC"), "d0": [100.0], "alpha": [2.0], "r0": [1.1]}
    )


def test_X09_hybrid_styles(tmp_path):
    _, found = roundtrip(tmp_path, hybrid())
    harmonic, morse = {"k": 340.0, "r0": 1.09}, {"d0": 100.0, "alpha": 2.0, "r0": 1.1}
    both = Frame({"bonds": {"type": ["CT-HC", "CT-CT"]}})
    assert found.parameters_of(both, "bonds", 0) == {"harmonic": harmonic, "morse": morse}
    assert found.parameters_of(both, "bonds", 1) == {"harmonic": {"k": 268.0, "r0": 1.53}}
    picked = Frame({"bonds": {"type": ["CT-HC", "CT-HC", "CT-CT"], "style": ["morse", "harmonic", "morse"]}})
    rows = [found.parameters_of(picked, "bonds", row) for row in range(3)]
    assert rows == [{"morse": morse}, {"harmonic": harmonic}, {}]


def test_X10_per_instance_style(tmp_path):
    empty = np.array([], "U1")
    forcefield = ForceField({"name": "p", "units": {"preset": "real"}})
    forcefield.add_style("bond", "mmff_bond", {"name": empty, "itom": empty, "jtom": empty})
    _, found = roundtrip(tmp_path, forcefield)
    assert found.table("bond", "mmff_bond").count == 0
    bonds = nullable({"type": ["x", "y"], "kb": [4.2, 5.0], "r0": [1.1, None]})
    system = Frame({"bonds": bonds})
    assert found.parameters_of(system, "bonds", 0) == {"mmff_bond": {"kb": 4.2, "r0": 1.1}}
    assert found.parameters_of(system, "bonds", 1) == {"mmff_bond": {"kb": 5.0}}


def test_X11_unknown_style_with_expression(tmp_path):
    expression = "-0.5*K*R0^2*log(1-(r/R0)^2) ;  K = k  \n"
    forcefield = ForceField({"name": "f", "units": {"preset": "lj"}})
    table = {"name": ["1"], **ends("A-A"), "k": [30.0], "R0": [1.5]}
    record, found = roundtrip(tmp_path, forcefield.add_style("bond", "fene", table, expression=expression))
    assert found.styles[0].expression == expression
    assert attributes(record, "forcefield")["styles"][0]["expression"] == expression


def test_X12_unknown_category(tmp_path):
    table = {"name": ["x"], **ends("A-B-C-D"), "form": ["bond-angle"]}
    _, found = roundtrip(
        tmp_path,
        ForceField({"name": "u", "units": {"preset": "real"}}).add_style("cross_term", "example", table),
    )
    assert found.parameters_of(Frame({"cross_terms": {"type": ["x"]}}), "cross_terms", 0) == {
        "example": {"form": "bond-angle"}
    }


def grid_forcefield(grid, **options):
    table = Block(
        {"name": [str(i) for i in range(len(grid))], **ends(*["A-B-C-D-E"] * len(grid)), "grid": grid},
        **options,
    )
    return ForceField({"name": "g", "units": {"preset": "real"}}).add_style("cmap", "charmm", table)


@pytest.mark.parametrize("version", [1, 2])
def test_X14_cmap_grid(tmp_path, version):
    grid = np.random.default_rng(4).normal(size=(2, 24, 24))
    grid[0, 0, 0] = -0.0
    _, found = roundtrip(tmp_path, grid_forcefield(grid), meta={"molrec_version": version})
    assert found.table("cmap", "charmm")["grid"].tobytes() == grid.tobytes()


def test_X17_units_are_not_converted(tmp_path):
    forcefield = ForceField({"name": "nm", "units": {"length": "nm", "energy": "kJ/mol", "angle": "degree"}})
    forcefield.add_style("bond", "harmonic", {"name": ["a"], **ends("A-B"), "k": [142256.0], "r0": [0.109]})
    _, found = roundtrip(tmp_path, forcefield)
    assert found.parameters_of(Frame({"bonds": {"type": ["a"]}}), "bonds", 0) == {
        "harmonic": {"k": 142256.0, "r0": 0.109}
    }
    assert [found.unit(q) for q in ("length", "energy", "angle", "mass")] == ["nm", "kJ/mol", "degree", None]


def test_X18_lj_preset(tmp_path):
    for version, angle in ((1, None), (2, "degree")):
        forcefield = ForceField({"name": "lj", "units": {"preset": "lj"}, "styles": []})
        _, found = roundtrip(tmp_path, forcefield, meta={"molrec_version": version})
        assert found.document["units"] == {"preset": "lj"}
        assert (found.unit("length"), found.unit("angle")) == (None, angle)


def test_X19_smirks_keyed(tmp_path):
    forcefield = ForceField({"name": "off", "units": {"preset": "real"}})
    forcefield.add_style(
        "bond", "harmonic", {"name": ["b1"], "smirks": ["[#6:1]-[#6:2]"], "k": [1.0]}, endpoint_key="smirks"
    )
    forcefield.add_style(
        "pair",
        "lj/cut",
        {"name": ["n1", "n2"], "smirks": ["[#1:1]", "[#6:1]"], "epsilon": [0.1, 0.2]},
        endpoint_key="smirks",
    )
    _, found = roundtrip(tmp_path, forcefield)
    assert found.styles[0].endpoint_key == "smirks"
    assert found.parameters_of(Frame({"bonds": {"type": ["b1"]}}), "bonds", 0) == {"harmonic": {"k": 1.0}}
    # With no atom table, an atom's type names a row of the pair table.
    assert found.parameters_of(Frame({"atoms": {"type": ["n2"]}}), "atoms", 0) == {"lj/cut": {"epsilon": 0.2}}
    assert found.pair("n1", "n1") == {"lj/cut": {"epsilon": 0.1}}
    assert found.pair("n1", "n2") == {}


def test_X20_without_special_bonds(tmp_path):
    record, found = roundtrip(tmp_path, demo())
    assert found.special_bonds is None
    assert "special_bonds" not in attributes(record, "forcefield")


def test_X21_document_keys_and_orphan_tables(tmp_path):
    forcefield = demo(aromaticity_model="OEAroModel_MDL", x_null=None)
    forcefield.tables["notes.free%20text"] = Block(
        {"line": ["hello"], "n": np.array([3], np.int64)}, precision={}
    )
    forcefield.tables["nodot"] = Block(count=2, attributes={"x": 1})
    _, found = roundtrip(tmp_path, forcefield)
    assert found.document["aromaticity_model"] == "OEAroModel_MDL"
    assert found.document["x_null"] is None
    assert found.tables["notes.free%20text"]["line"].tolist() == ["hello"]
    assert found.tables["nodot"].attributes == {"x": 1}


def test_X38_what_says_nothing_is_left_out(tmp_path):
    forcefield = ForceField({"name": "o", "units": {"preset": "real"}})
    forcefield.add_style(
        "bond", "harmonic", BOND | {"k": [1.0, 2.0]}, params={}, expression=None, endpoint_key="type"
    )
    forcefield.document["styles"][0] |= {"params": {}, "endpoint_key": "type", "x_own": None}
    record = tmp_path / "run.mrec"
    write_mrec(record, forcefield=forcefield, meta=V2)
    assert attributes(record, "forcefield")["styles"] == [
        {"category": "bond", "style": "harmonic", "x_own": None}
    ]
    assert "source" not in attributes(record, "forcefield")


@pytest.mark.parametrize("key", ["source", "special_bonds", "units"])
def test_X38_optional_keys_are_never_null(tmp_path, key):
    record = accepted(tmp_path)
    with changed(record, "forcefield") as found:
        found["attributes"][key] = None
    assert_unreadable(record, key)
    assert_unwritable(tmp_path, demo(**{key: None}), key)


def test_X39_a_system_links_by_name(tmp_path):
    system = Frame(
        {
            "atoms": {"type": ["CT", "HC", "HC"], "x": [0.0, 1.0, 2.0]},
            "bonds": Block(
                {
                    "atomi": np.array([0, 0], np.uint64),
                    "atomj": np.array([1, 2], np.uint64),
                    "type": ["CT-HC", "CT-HC"],
                    "style": ["harmonic", "morse"],
                }
            ),
        }
    )
    record = tmp_path / "run.mrec"
    write_mrec(record, forcefield=hybrid(), system=system, meta=V2)
    with open_record(record) as found:
        forcefield, system = found.forcefield, found.system
    assert forcefield.parameters_of(system, "atoms", 1) == {"full": {"mass": 1.008}}
    assert forcefield.parameters_of(system, "bonds", 0) == {"harmonic": {"k": 340.0, "r0": 1.09}}
    assert forcefield.parameters_of(system, "bonds", 1) == {"morse": {"d0": 100.0, "alpha": 2.0, "r0": 1.1}}
    assert list(forcefield.unresolved(system)) == []
    with pytest.raises(SectionNotFoundError) as missing:
        forcefield.parameters_of(system, "angles", 0)
    assert "atoms, bonds" in str(missing.value)
    with pytest.raises(IndexError, match="row 2 of bonds"):
        forcefield.parameters_of(system, "bonds", 2)


def test_X39_an_unresolved_name_is_no_error(tmp_path):
    bonds = nullable({"type": ["CT-HC", "nobody", None], "r0": [1.2, 1.3, None]})
    record = tmp_path / "run.mrec"
    write_mrec(
        record, forcefield=demo(), system=Frame({"bonds": bonds, "atoms": {"type": ["CT", "ZZ"]}}), meta=V2
    )
    with open_record(record) as found:
        forcefield, system = found.forcefield, found.system
    # The row's own r0 replaces the table's.
    assert [forcefield.parameters_of(system, "bonds", row) for row in range(3)] == [
        {"harmonic": {"k": 340.0, "r0": 1.2}},
        {},
        {},
    ]
    found = {(p.loc, p.kind, p.severity) for p in validate(record)}
    assert found == {
        ("system/bonds/type", "unresolved_type", "warning"),
        ("system/atoms/type", "unresolved_type", "warning"),
    }


def test_X39_pairs_take_what_their_row_states(tmp_path):
    pairs = nullable({"epsilon": [None, 0.7], "sigma": [None, None], "lj_scale": [1.0, 1.0]})
    columns = {name: pairs[name] for name in pairs}
    columns |= {"atomi": np.array([0, 1], np.uint64), "atomj": np.array([1, 1], np.uint64)}
    system = Frame({"atoms": {"type": ["HC", "CT"]}, "pairs": Block(columns, validity=pairs.validity)})
    forcefield = demo()
    assert forcefield.parameters_of(system, "pairs", 0) == {"lj/cut": {"epsilon": 0.9, "sigma": 2.0}}
    assert forcefield.parameters_of(system, "pairs", 1) == {"lj/cut": {"epsilon": 0.7, "sigma": 3.5}}


def test_X39_pairs_keyed_by_class():
    forcefield = ForceField({"name": "c", "units": {"preset": "real"}})
    forcefield.add_style("atom", "full", {"name": ["t1", "t2"], "class": ["A", "B"]})
    forcefield.add_style(
        "pair", "lj/cut", {"name": ["1"], **ends("B-A"), "epsilon": [0.5]}, endpoint_key="class"
    )
    assert forcefield.pair("t1", "t2") == {"lj/cut": {"epsilon": 0.5}}
    assert forcefield.pair("t1", "t1") == {}
    assert forcefield.pair("A", "B") == {}


def test_X40_a_force_field_alone_is_a_record(tmp_path):
    record = accepted(tmp_path)
    with open_record(record) as found:
        assert found.sections == ("meta", "forcefield")
    remove(record, "forcefield")
    with refused(FormatError, "no_section", str(record)):
        open_record(record)


# -- what is refused, on reading and on writing


def test_X22_no_units(tmp_path):
    for units in ({}, {"pressure": "bar"}, "real", [], None):
        record = accepted(tmp_path)
        with changed(record, "forcefield") as found:
            found["attributes"]["units"] = units
        assert_unreadable(record, "units")
        assert_unwritable(tmp_path, demo(units=units), "units")
    record = accepted(tmp_path)
    set_attributes(record, "forcefield", units=None)
    assert_unreadable(record, "units")


@pytest.mark.parametrize("units", [{"preset": "reel"}, {"preset": 3}, {"preset": None, "length": "nm"}])
def test_X22_an_unknown_preset(tmp_path, units):
    record = accepted(tmp_path)
    set_attributes(record, "forcefield", units=units)
    assert_unreadable(record, "units/preset")
    assert_unwritable(tmp_path, demo(units=units), "units/preset")


def test_X22_no_name(tmp_path):
    record = accepted(tmp_path)
    set_attributes(record, "forcefield", name=None)
    assert_unreadable(record, "name")
    assert_unwritable(tmp_path, demo(name=3), "name")


CONFLICTS = [
    (2, {"preset": "real", "energy": "kJ/mol"}, "energy"),
    (2, {"preset": "real", "angle": "radian"}, "angle"),
    (2, {"preset": "real", "length": "furlong"}, "length"),
    (2, {"preset": "lj", "length": "angstrom"}, "length"),
    (2, {"preset": "lj", "angle": "radian"}, "angle"),
    (1, {"preset": "real", "angle": "degree"}, "angle"),
    (1, {"preset": "lj", "angle": "degree"}, "angle"),
    (1, {"preset": "lj", "angle": "radian"}, "angle"),
]


@pytest.mark.parametrize(("version", "units", "key"), CONFLICTS)
def test_X23_units_conflict(tmp_path, version, units, key):
    meta = {"molrec_version": version}
    record = accepted(tmp_path, meta)
    set_attributes(record, "forcefield", units=units)
    assert_unreadable(record, f"units/{key}")
    assert_unwritable(tmp_path, demo(units=units), f"units/{key}", meta=meta)


@pytest.mark.parametrize(
    ("version", "units"),
    [
        (2, {"preset": "real", "energy": "kcal/mol", "angle": "degree", "mass": "amu"}),
        (2, {"preset": "real", "length": "angstroms"}),
        (2, {"preset": "lj", "angle": "degree"}),
        (1, {"preset": "real", "angle": "radian"}),
        (1, {"preset": "si", "length": "m"}),
    ],
)
def test_X23_a_quantity_may_repeat_its_preset(tmp_path, version, units):
    _, found = roundtrip(tmp_path, demo(units=units), meta={"molrec_version": version})
    assert found.document["units"] == units


def test_X23_the_angle_of_a_preset_follows_the_version(tmp_path):
    for version, angle in ((1, "radian"), (2, "degree")):
        _, found = roundtrip(tmp_path, demo(), meta={"molrec_version": version})
        assert (found.version, found.unit("angle"), found.unit("mass")) == (version, angle, "dalton")
    record, _ = roundtrip(tmp_path, demo(units={"preset": "real", "angle": "radian"}), meta=None)
    # A record without a version is older than both and means what version 1 means.
    set_attributes(record, "meta", molrec_version=None)
    assert open_record(record).forcefield.version == 1


def test_X23_numbers_never_change_their_version(tmp_path):
    record = accepted(tmp_path)
    forcefield = open_record(record).forcefield
    with refused(SchemaError, "forcefield_version", "forcefield") as caught:
        write_mrec(tmp_path / "other.mrec", forcefield=forcefield)
    assert "'molrec_version': 2" in str(caught.value)
    with TrajectoryWriter(tmp_path / "run2.mrec", meta=V2, forcefield=forcefield) as writer:
        writer.append(Frame({"atoms": {"x": [0.0]}}))
    assert open_record(tmp_path / "run2.mrec").forcefield == forcefield


def test_X25_duplicate_style(tmp_path):
    record = accepted(tmp_path)
    with changed(record, "forcefield") as found:
        found["attributes"]["styles"].append({"category": "bond", "style": "harmonic"})
    assert_unreadable(record, "styles/3")
    forcefield = demo()
    assert_unwritable(tmp_path, forcefield.add_style("bond", "harmonic", BOND), "styles/3")


def test_X26_missing_table(tmp_path):
    record = accepted(tmp_path)
    remove(record, "forcefield/bond.harmonic")
    assert_unreadable(record, "bond.harmonic")
    forcefield = demo()
    del forcefield.tables["bond.harmonic"]
    assert_unwritable(tmp_path, forcefield, "bond.harmonic")
    with pytest.raises(KeyError, match="no table of bond harmonic"):
        forcefield.table("bond", "harmonic")


def test_X26_a_table_under_another_spelling_is_missing(tmp_path):
    record = accepted(tmp_path)
    (record / "forcefield/bond.harmonic").rename(record / "forcefield/bond.%68armonic")
    assert_unreadable(record, "bond.harmonic")


def changed_table(style, **columns):
    """The demo force field with columns of one table replaced; None leaves one out."""
    forcefield = demo()
    table = forcefield.tables[style]
    kept = {name: table[name] for name in table} | columns
    forcefield.tables[style] = Block({name: values for name, values in kept.items() if values is not None})
    return forcefield


def test_X27_duplicate_type_name(tmp_path):
    record = accepted(tmp_path)
    replace_array(record, "forcefield/bond.harmonic/name", ["CT-HC", "CT-HC"])
    assert_unreadable(record, "bond.harmonic/name")
    assert_unwritable(tmp_path, changed_table("bond.harmonic", name=["CT-HC", "CT-HC"]), "bond.harmonic/name")


def test_X28_wrong_arity(tmp_path):
    record = accepted(tmp_path)
    remove(record, "forcefield/bond.harmonic/jtom")
    assert_unreadable(record, "bond.harmonic")
    assert_unwritable(tmp_path, changed_table("bond.harmonic", jtom=None), "bond.harmonic")
    assert_unwritable(tmp_path, changed_table("bond.harmonic", ktom=["A", "B"]), "bond.harmonic")
    assert_unwritable(tmp_path, changed_table("atom.full", itom=["A", "B"]), "atom.full")
    assert_unwritable(tmp_path, changed_table("pair.lj%2Fcut", itom=None, jtom=None), "pair.lj%2Fcut")


ARITY = {"atom": 0, "bond": 2, "angle": 3, "dihedral": 4, "improper": 4, "pair": 2, "constraint": 2, "virtual_site": 0, "drude": 2, "cmap": 5}  # fmt: skip


@pytest.mark.parametrize(("category", "arity"), ARITY.items())
def test_X28_every_category_has_its_arity(tmp_path, category, arity):
    for given in range(6):
        table = {"name": ["a"], **{column: ["A"] for column in ENDS[:given]}}
        forcefield = ForceField({"name": "a", "units": {"preset": "real"}}).add_style(category, "any", table)
        if given == arity:
            roundtrip(tmp_path, forcefield)
        else:
            assert_unwritable(tmp_path, forcefield, f"{category}.any")


def test_X28_endpoints_of_an_unknown_category_are_a_prefix(tmp_path):
    forcefield = ForceField({"name": "p", "units": {"preset": "real"}})
    forcefield.add_style("own", "x", {"name": ["a"], "itom": ["A"], "ktom": ["A"]})
    assert_unwritable(tmp_path, forcefield, "own.x")
    roundtrip(
        tmp_path,
        ForceField({"name": "p", "units": {"preset": "real"}}).add_style(
            "own", "x", {"name": ["a"], "itom": ["A"]}
        ),
    )


def test_X28_smirks_keyed_tables_have_no_endpoints(tmp_path):
    forcefield = ForceField({"name": "p", "units": {"preset": "real"}})
    forcefield.add_style(
        "bond", "x", {"name": ["a"], **ends("A-B"), "smirks": ["[#6:1]"]}, endpoint_key="smirks"
    )
    assert_unwritable(tmp_path, forcefield, "bond.x")
    forcefield = ForceField({"name": "p", "units": {"preset": "real"}})
    forcefield.add_style(
        "bond", "x", nullable({"name": ["a", "b"], "smirks": ["[#6:1]", None]}), endpoint_key="smirks"
    )
    assert_unwritable(tmp_path, forcefield, "bond.x/smirks")
    forcefield = ForceField({"name": "p", "units": {"preset": "real"}})
    assert_unwritable(
        tmp_path, forcefield.add_style("bond", "x", {"name": ["a"]}, endpoint_key="smirks"), "bond.x/smirks"
    )


def test_X28_pair14_belongs_to_version_1(tmp_path):
    table = {"name": ["a"], **ends("A-A"), "epsilon": [0.1]}
    short = {"name": ["a"], "itom": ["A"]}
    one = ForceField({"name": "p", "units": {"preset": "real"}}).add_style("pair14", "lj/cut", table)
    _, found = roundtrip(tmp_path, one, meta={"molrec_version": 1})
    assert found.styles[0].category == "pair14"
    assert_unwritable(
        tmp_path,
        ForceField({"name": "p", "units": {"preset": "real"}}).add_style("pair14", "lj/cut", short),
        "pair14.lj%2Fcut",
        meta=None,
    )
    # To version 2 it is a category of the producer's, whose endpoints are any prefix.
    roundtrip(
        tmp_path, ForceField({"name": "p", "units": {"preset": "real"}}).add_style("pair14", "lj/cut", short)
    )


@pytest.mark.parametrize("values", [np.array([3, 4], np.int64), np.array([True, False]), np.array([1j, 2j])])
def test_X29_parameter_dtype(tmp_path, values):
    record = accepted(tmp_path)
    replace_array(record, "forcefield/bond.harmonic/k", values)
    assert_unreadable(record, "bond.harmonic/k")
    assert_unwritable(tmp_path, changed_table("bond.harmonic", k=values), "bond.harmonic/k")


@pytest.mark.parametrize("column", ["name", "itom", "jtom"])
def test_X30_null_name_or_endpoint(tmp_path, column):
    record = accepted(tmp_path)
    make_group(record, "forcefield/bond.harmonic/_validity")
    replace_array(record, f"forcefield/bond.harmonic/_validity/{column}", np.array([True, False]))
    assert_unreadable(record, f"bond.harmonic/{column}")
    forcefield = demo()
    table = forcefield.tables["bond.harmonic"]
    forcefield.tables["bond.harmonic"] = Block(dict(table), validity={column: [True, False]})
    assert_unwritable(tmp_path, forcefield, f"bond.harmonic/{column}")


@pytest.mark.parametrize("column", ["itom", "jtom"])
def test_X30_a_label_is_a_string(tmp_path, column):
    record = accepted(tmp_path)
    replace_array(record, f"forcefield/bond.harmonic/{column}", np.array([1.0, 2.0]))
    assert_unreadable(record, f"bond.harmonic/{column}")
    assert_unwritable(
        tmp_path, changed_table("bond.harmonic", **{column: [1.0, 2.0]}), f"bond.harmonic/{column}"
    )


def test_X30_a_table_needs_names(tmp_path):
    record = accepted(tmp_path)
    remove(record, "forcefield/bond.harmonic/name")
    assert_unreadable(record, "bond.harmonic/name")
    assert_unwritable(tmp_path, changed_table("bond.harmonic", name=None), "bond.harmonic/name")


def test_X31_class_key_without_class(tmp_path):
    record = accepted(tmp_path)
    set_style(record, 1, endpoint_key="class")
    assert_unreadable(record, "atom.full")
    forcefield = demo()
    forcefield.document["styles"][1]["endpoint_key"] = "class"
    assert_unwritable(tmp_path, forcefield, "atom.full")
    forcefield = changed_table("atom.full", **{"class": ["C", "H"]})
    forcefield.document["styles"][1]["endpoint_key"] = "class"
    roundtrip(tmp_path, forcefield)


def pairs(**columns):
    table = nullable({"name": ["1", "2"], **ends("A-B", "B-A"), **columns})
    return ForceField({"name": "p", "units": {"preset": "real"}}).add_style("pair", "lj/cut", table)


def test_X32_pair_conflict(tmp_path):
    record, _ = roundtrip(tmp_path, pairs(epsilon=[0.9, 0.9], desc=["x", "y"]))
    replace_array(record, "forcefield/pair.lj%2Fcut/epsilon", np.array([0.9, 0.8]))
    assert_unreadable(record, "pair.lj%2Fcut/epsilon")
    assert_unwritable(tmp_path, pairs(epsilon=[0.9, 0.8]), "pair.lj%2Fcut/epsilon")
    assert_unwritable(tmp_path, pairs(epsilon=[0.0, None]), "pair.lj%2Fcut/epsilon")
    assert_unwritable(tmp_path, pairs(form=["a", "b"]), "pair.lj%2Fcut/form")
    roundtrip(tmp_path, pairs(epsilon=[None, None], sigma=[np.nan, np.nan]))


def test_X32_self_pairs_of_one_type_conflict_too(tmp_path):
    table = {"name": ["1", "2"], **ends("A-A", "A-A"), "epsilon": [1.0, 2.0]}
    forcefield = ForceField({"name": "p", "units": {"preset": "real"}}).add_style("pair", "lj/cut", table)
    assert_unwritable(tmp_path, forcefield, "pair.lj%2Fcut/epsilon")


@pytest.mark.parametrize("shape", [(1, 3, 4), (1, 1, 1), (1, 4), (1, 2, 2, 2)])
def test_X33_cmap_grid_shape(tmp_path, shape):
    record, _ = roundtrip(tmp_path, grid_forcefield(np.zeros((1, 2, 2))))
    replace_array(record, "forcefield/cmap.charmm/grid", np.zeros(shape))
    assert_unreadable(record, "cmap.charmm/grid")
    assert_unwritable(tmp_path, grid_forcefield(np.zeros(shape)), "cmap.charmm/grid")


@pytest.mark.parametrize("grid", [np.zeros((1, 2, 2), np.int64), np.zeros(1), np.array(["a"])])
def test_X33_cmap_grid_dtype(tmp_path, grid):
    record, _ = roundtrip(tmp_path, grid_forcefield(np.zeros((1, 2, 2))))
    replace_array(record, "forcefield/cmap.charmm/grid", grid)
    assert_unreadable(record, "cmap.charmm/grid")
    assert_unwritable(tmp_path, grid_forcefield(grid), "cmap.charmm/grid")


def test_X42_cmap_grid_not_finite(tmp_path):
    grid = np.zeros((2, 2, 2))
    record, _ = roundtrip(tmp_path, grid_forcefield(grid))
    grid[1, 0, 1] = np.nan
    replace_array(record, "forcefield/cmap.charmm/grid", grid)
    assert_unreadable(record, "cmap.charmm/grid")
    assert_unwritable(tmp_path, grid_forcefield(grid), "cmap.charmm/grid")
    roundtrip(tmp_path, grid_forcefield(grid, validity={"grid": [True, False]}))


def test_X34_no_precision(tmp_path):
    record = accepted(tmp_path)
    set_attributes(record, "forcefield/bond.harmonic/k", precision=1e-3)
    assert_unreadable(record, "bond.harmonic/k")
    forcefield = demo()
    table = forcefield.tables["bond.harmonic"]
    forcefield.tables["bond.harmonic"] = Block(dict(table), precision={"k": 1e-3})
    assert_unwritable(tmp_path, forcefield, "bond.harmonic/k")


def test_X34_no_structural_shape(tmp_path):
    record = accepted(tmp_path)
    set_attributes(record, "forcefield/bond.harmonic", structural_shape=[2, 1])
    assert_unreadable(record, "bond.harmonic")
    forcefield = demo()
    table = forcefield.tables["bond.harmonic"]
    forcefield.tables["bond.harmonic"] = Block(dict(table), structural_shape=(2, 1))
    assert_unwritable(tmp_path, forcefield, "bond.harmonic")


@pytest.mark.parametrize("column", ["class", "smarts", "smirks", "overrides", "desc", "doi"])
def test_X34_annotations_are_strings(tmp_path, column):
    forcefield = changed_table("bond.harmonic", **{column: ["a", "b"]})
    record, _ = roundtrip(tmp_path, forcefield)
    replace_array(record, f"forcefield/bond.harmonic/{column}", np.array([1.0, 2.0]))
    assert_unreadable(record, f"bond.harmonic/{column}")
    assert_unwritable(
        tmp_path, changed_table("bond.harmonic", **{column: [1.0, 2.0]}), f"bond.harmonic/{column}"
    )


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("atomic_number", np.array([6, 1], np.int64)),
        ("mass", np.array(["a", "b"])),
        ("element", np.array([1.0, 2.0])),
        ("name", np.array([1.0, 2.0])),
    ],
)
def test_X34_canonical_columns_keep_their_dtype(tmp_path, column, values):
    forcefield = changed_table("atom.full", atomic_number=np.array([6, 1], np.uint64), element=["C", "H"])
    record, _ = roundtrip(tmp_path, forcefield)
    replace_array(record, f"forcefield/atom.full/{column}", values)
    loc = f"forcefield/atom.full/{column}"
    with unreadable("canonical_dtype", loc):
        _ = open_record(record).forcefield
    with refused(SchemaError, "canonical_dtype", loc):
        write_mrec(
            tmp_path / "refused.mrec", forcefield=changed_table("atom.full", **{column: values}), meta=V2
        )


def test_X35_array_parameters_by_version(tmp_path):
    values = np.arange(8.0).reshape(2, 2, 2)
    one, two = {"molrec_version": 1}, V2
    _, found = roundtrip(tmp_path, changed_table("bond.harmonic", table=values), meta=two)
    row = found.parameters_of(Frame({"bonds": {"type": ["CT-CT"]}}), "bonds", 0)["harmonic"]["table"]
    assert row.tolist() == [[4.0, 5.0], [6.0, 7.0]]
    record = accepted(tmp_path, one)
    replace_array(record, "forcefield/bond.harmonic/table", values)
    assert_unreadable(record, "bond.harmonic/table")
    assert_unwritable(tmp_path, changed_table("bond.harmonic", table=values), "bond.harmonic/table", meta=one)


def test_X35_array_parameters_are_finite_numbers(tmp_path):
    record, _ = roundtrip(tmp_path, changed_table("bond.harmonic", table=np.zeros((2, 2))))
    for bad in (
        np.array([[0.0, np.nan], [0.0, 0.0]]),
        np.array([["a", "b"], ["c", "d"]]),
        np.zeros((2, 0)),
        np.zeros((2, 2), np.int64),
    ):
        replace_array(record, "forcefield/bond.harmonic/table", bad)
        assert_unreadable(record, "bond.harmonic/table")
        assert_unwritable(tmp_path, changed_table("bond.harmonic", table=bad), "bond.harmonic/table")
    forcefield = demo()
    table = dict(forcefield.tables["bond.harmonic"]) | {"table": np.array([[0.0, np.nan], [0.0, 0.0]])}
    forcefield.tables["bond.harmonic"] = Block(table, validity={"table": [False, True]})
    roundtrip(tmp_path, forcefield)


ENTRIES = [
    {"params": {"special": "LJ"}},
    {"params": {"mixing": "waldman"}},
    {"params": {"mixing": 1.0}},
    {"params": {"cutoff": True}},
    {"params": {"cutoff": [1.0]}},
    {"params": None},
    {"params": []},
    {"category": "Pair"},
    {"category": ""},
    {"category": "lj.cut"},
    {"category": 3},
    {"style": ""},
    {"style": None},
    {"endpoint_key": "name"},
    {"endpoint_key": None},
    {"expression": 3},
    {"expression": None},
]


@pytest.mark.parametrize("change", ENTRIES, ids=json.dumps)
def test_X37_malformed_styles(tmp_path, change):
    record = accepted(tmp_path)
    with changed(record, "forcefield") as found:
        found["attributes"]["styles"][2] |= change
    assert_unreadable(record, "styles/2")
    forcefield = demo()
    forcefield.document["styles"][2] |= change
    assert_unwritable(tmp_path, forcefield, "styles/2")


def test_X37_styles_is_a_list_of_objects(tmp_path):
    for styles, loc in (({}, "styles"), (["bond"], "styles/0"), ([{"category": "bond"}], "styles/0")):
        record = accepted(tmp_path)
        set_attributes(record, "forcefield", styles=styles)
        assert_unreadable(record, loc)
        assert_unwritable(
            tmp_path, ForceField({"name": "s", "units": {"preset": "real"}, "styles": styles}), loc
        )


def test_X37_the_words_of_lj_charmm(tmp_path):
    table = {"name": ["a"], **ends("A-A"), "epsilon": [0.1]}
    for word, style, fits in (
        ("epsilon14", "lj/charmm", True),
        ("both", "lj/charmm", False),
        ("both", "other", True),
    ):
        forcefield = ForceField({"name": "c", "units": {"preset": "real"}})
        forcefield.add_style("pair", style, table, params={"one_four": word})
        if fits:
            roundtrip(tmp_path, forcefield)
        else:
            assert_unwritable(tmp_path, forcefield, "styles/0")


WEIGHTS = [
    ({"lj": [0.0, 0.0, 0.5]}, "special_bonds"),
    ({"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, 0.5], "dihedral": 1}, "special_bonds"),
    ({"lj": [0.0, 0.5], "coul": [0.0, 0.0, 0.5]}, "special_bonds/lj"),
    ({"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, True]}, "special_bonds/coul"),
    ({"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, "1"]}, "special_bonds/coul"),
    ({"lj": [0.0, 0.0, 0.5], "coul": 1}, "special_bonds/coul"),
    ([0, 0, 1], "special_bonds"),
]


@pytest.mark.parametrize(("weights", "loc"), WEIGHTS)
def test_X37_malformed_special_bonds(tmp_path, weights, loc):
    record = accepted(tmp_path)
    set_attributes(record, "forcefield", special_bonds=weights)
    assert_unreadable(record, loc)
    assert_unwritable(tmp_path, demo(special_bonds=weights), loc)


SOURCES = [
    ({}, "source"),
    ({"format": None}, "source"),
    ("openmm", "source"),
    ({"format": "x", "uri": 3}, "source/uri"),
    ({"format": "x", "sha256": "0" * 63}, "source/sha256"),
    ({"format": "x", "sha256": "A" * 64}, "source/sha256"),
    ({"format": "x", "sha256": None}, "source/sha256"),
]


@pytest.mark.parametrize(("source", "loc"), SOURCES)
def test_X37_malformed_source(tmp_path, source, loc):
    record = accepted(tmp_path)
    set_attributes(record, "forcefield", source=source)
    assert_unreadable(record, loc)
    assert_unwritable(tmp_path, demo(source=source), loc)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_X37_no_number_that_is_not_finite(tmp_path, number):
    with refused(SchemaError, "not_json", "forcefield"):
        demo(special_bonds={"lj": [0, 0, number], "coul": [0, 0, 1]})
    forcefield = demo()
    forcefield.document["styles"][2]["params"]["cutoff"] = number
    assert_unwritable(tmp_path, forcefield, "styles/2")


def test_X37_every_problem_is_reported(tmp_path):
    record = accepted(tmp_path)
    set_attributes(record, "forcefield", name=None, source={})
    remove(record, "forcefield/atom.full")
    with pytest.raises(FormatError) as caught:
        _ = open_record(record).forcefield
    assert [p.loc for p in caught.value.problems] == [
        "forcefield/name",
        "forcefield/source",
        "forcefield/atom.full",
    ]
    assert {p.kind for p in caught.value.problems} == {KIND}


# -- other implementations


def test_X_golden_record():
    expected = json.loads((GOLDEN / "forcefield.expected.json").read_text(encoding="utf-8"))
    with open_record(GOLDEN / "forcefield.mrec.zip") as record:
        found = record.forcefield
    assert found.document == expected["document"]
    assert found.version == 2
    assert found.tables.keys() == expected["tables"].keys()
    for name, columns in expected["tables"].items():
        table = found.tables[name]
        assert set(table) == set(columns)
        for column, values in columns.items():
            mask = table.validity.get(column, np.ones(table.count, bool))
            got = [v if valid else None for v, valid in zip(table[column].tolist(), mask, strict=True)]
            assert got == values, (name, column)


def molrs_block(table):
    molrs = pytest.importorskip("molrs")
    block = molrs.Block()
    for column in table:
        values = table[column]
        block.insert(column, values.astype(object).astype(str) if values.dtype.kind == "T" else values)
        if column in table.validity:
            block.set_validity(column, table.validity[column])
    return block


def same_as_molrs(table, block):
    assert set(table) == set(block.keys())
    for column in table:
        mask = block.validity(column)
        valid = np.ones(table.count, bool) if mask is None else np.asarray(mask)
        assert np.array_equal(table.validity.get(column, np.ones(table.count, bool)), valid)
        ours, theirs = table[column][valid], np.asarray(block[column])[valid]
        assert ours.tolist() == theirs.tolist()


def every_style():
    forcefield = hybrid()
    forcefield.document |= {"x_note": None, "special_bonds": {"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, 0.8]}}
    forcefield.add_style(
        "angle", "harmonic", nullable({"name": ["a", "b"], **ends("A-B-C", "C-B-"), "k": [1.0, None]})
    )
    grid = np.random.default_rng(1).normal(size=(1, 4, 4))
    forcefield.add_style("cmap", "charmm", {"name": ["m"], **ends("A-B-C-D-E"), "grid": grid})
    forcefield.tables["notes.free%20text"] = Block({"line": ["ü"]})
    return forcefield


def test_X_molrs_reads_ours(tmp_path):
    mrec = pytest.importorskip("molrs.io").mrec
    forcefield = every_style()
    roundtrip(tmp_path, forcefield)
    section = mrec.MrecFile(tmp_path / "run.mrec").forcefield()
    section.validate()
    assert section.document == forcefield.document
    assert set(section.tables) == set(forcefield.tables)
    for name, block in section.tables.items():
        same_as_molrs(forcefield.tables[name], block)


def test_X_ours_reads_molrs(tmp_path):
    io = pytest.importorskip("molrs.io")
    forcefield = every_style()
    tables = {name: molrs_block(table) for name, table in forcefield.tables.items()}
    section = io.mrec.ForceFieldSection(forcefield.document, tables)
    io.write_mrec(tmp_path / "theirs.mrec", meta=V2, forcefield=section)
    found = open_record(tmp_path / "theirs.mrec").forcefield
    assert found.document == forcefield.document
    assert found.tables.keys() == forcefield.tables.keys()
    for name, table in found.tables.items():
        same_as_molrs(table, tables[name])
