"""What adapters share: names, columns, typed info, cells, presence, residues, steps."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp

from molrec_core import hosts
from molrec_core._box import Box
from molrec_core._dtypes import CANONICAL, CANONICAL_META, COLUMN_DTYPES, name_problem
from molrec_core._frame import Block, Frame
from molrec_core._schema import SequenceSchema
from molrec_core._typedjson import check_document, dumps, loads
from molrec_core.errors import FormatError, SchemaError


def identical(left, right) -> bool:
    """Equal in value, type, dtype, sign of zero; NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        return (
            left.tolist() == right.tolist() if left.dtype.kind == "O" else left.tobytes() == right.tobytes()
        )
    if isinstance(left, np.generic):
        return left.dtype == right.dtype and identical(left.item(), right.item())
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(identical(list(a), list(b)) for a, b in pairs)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(identical(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, complex):
        return identical([left.real, left.imag], [right.real, right.imag])
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return left == right


# --- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("train/loss", "train%2Floss"),
        ("%", "%25"),
        ("损失/训练", "%E6%8D%9F%E5%A4%B1%2F%E8%AE%AD%E7%BB%83"),
        ("a.b-c_1", "a.b-c_1"),
        (".", "%2E"),
        ("..", "%2E."),
        ("...", "..."),
        ("__x", "%5F_x"),
        ("_x", "_x"),
        ("a b\0", "a%20b%00"),
    ],
)
def test_safe_names(text, name):
    assert hosts.encode_name(text) == name
    assert hosts.decode_name(name) == text
    assert name_problem(name) is None


@given(st.text(min_size=1))
def test_every_text_has_one_safe_name(text):
    name = hosts.encode_name(text)
    assert name_problem(name) is None
    assert hosts.decode_name(name) == text


@pytest.mark.parametrize(
    "name", ["", ".", "..", "__x", "%2f", "%2", "%", "%GG", "a/b", "a b", "ü", "%FF", "%E6%8D"]
)
def test_a_broken_safe_name_is_refused(name):
    with pytest.raises(FormatError) as caught:
        hosts.decode_name(name)
    assert caught.value.kind == "bad_name"


def test_a_needless_escape_is_tolerated_in_a_series_name_only():
    assert hosts.decode_name("%41") == "A"
    with pytest.raises(FormatError):
        hosts.decode_style("pair.%41")


def test_an_empty_text_and_a_surrogate_have_no_safe_name():
    for text in ("", "\ud800"):
        with pytest.raises(SchemaError):
            hosts.encode_name(text)


def test_style_blocks():
    assert hosts.encode_style("pair", "lj/cut/coul/long") == "pair.lj%2Fcut%2Fcoul%2Flong"
    assert hosts.encode_style("bond", "a.b") == "bond.a%2Eb"
    assert hosts.decode_style("pair.lj%2Fcut") == ("pair", "lj/cut")
    assert hosts.decode_style("bond.a%2Eb") == ("bond", "a.b")
    for name in ("pair", ".lj", "pair.", "Pair.lj", "pair.a.b", "pair.lj/cut", "pair.lj%2fcut"):
        with pytest.raises(FormatError):
            hosts.decode_style(name)
    for category, style in (("", "x"), ("P", "x"), ("pair", "")):
        with pytest.raises(SchemaError):
            hosts.encode_style(category, style)


@pytest.mark.parametrize(
    ("name", "kind", "stored"),
    [
        ("radius", "column", "radius"),
        ("größe", "column", "größe"),
        ("mass", "column", "host.mass"),
        ("mass", "meta", "mass"),
        ("pe", "meta", "host.pe"),
        ("pe", "column", "pe"),
        ("a/b", "column", "host.a%2Fb"),
        ("", "meta", "host."),
        (".", "meta", "host.%2E"),
        ("__x", "column", "host.%5F_x"),
        ("zarr.json", "column", "host.zarr.json"),
        ("host.mass", "column", "host.host.mass"),
        ("offset", "column", "host.offset"),
        ("step", "meta", "host.step"),
        ("info", "meta", "host.info"),
        ("cell", "meta", "host.cell"),
        ("calc.x", "meta", "host.calc.x"),
        ("$nd", "meta", "host.%24nd"),
        ("residue", "column", "host.residue"),
    ],
)
def test_host_names(name, kind, stored):
    assert hosts.store_name(name, kind) == stored
    assert hosts.host_name(stored, kind) == name


@given(st.text(), st.sampled_from(["column", "meta"]))
def test_every_host_name_comes_back(name, kind):
    """And what is stored is neither refused by the format nor taken for something else."""
    stored = hosts.store_name(name, kind)
    assert hosts.host_name(stored, kind) == name
    assert name_problem(stored) is None
    assert stored not in (CANONICAL if kind == "column" else CANONICAL_META)


def test_names_of_the_format_are_not_a_hosts_own():
    assert all(hosts.host_name(key) is None for key in CANONICAL)
    assert all(hosts.host_name(key, "meta") is None for key in (*CANONICAL_META, "info", "calc.x"))
    assert hosts.host_name("host.%zz") == "host.%zz", "another tool's name is left as it is"


@given(st.text())
def test_array_blocks(name):
    block = hosts.array_block(name)
    assert name_problem(block) is None
    assert hosts.array_name(block) == name


def test_array_blocks_keep_plain_names():
    assert hosts.array_block("momenta") == "array.momenta"
    assert hosts.array_block("a/b") == "array.host.a%2Fb"
    assert hosts.array_name("atoms") is None


# --- columns and scalars ---------------------------------------------------------------------------

NUMBERS = [
    "?",
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u2",
    "u4",
    "u8",
    "f2",
    "f4",
    "f8",
    "c8",
    "c16",
    ">i4",
    ">f4",
    ">f8",
    ">c8",
]


@pytest.mark.parametrize("dtype", NUMBERS)
@given(data=st.data())
def test_number_columns_come_back_exactly(dtype, data):
    array = data.draw(stnp.arrays(dtype, stnp.array_shapes(max_dims=3, min_side=0, max_side=4)))
    column = hosts.to_column(array, "a")
    assert column.values.dtype in {spec[0] for spec in COLUMN_DTYPES.values()}
    with np.errstate(all="raise"):
        back = hosts.restore(column.values, column.validity, column.host_dtype)
    assert back.dtype == array.dtype
    # NaN payloads aside, which float32 to float64 and back may quieten.
    assert np.array_equal(back, array, equal_nan=array.dtype.kind in "fc")
    if column.values.dtype == array.dtype:
        assert column.host_dtype is None


@given(st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8"))), max_size=6))
def test_string_columns_come_back_exactly(items):
    """None is null, never an empty string or the word."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    column = hosts.to_column(array, "a")
    assert column.values.dtype == np.dtypes.StringDType()
    assert (column.validity is not None) == (None in items)
    back = hosts.restore(column.values, column.validity, column.host_dtype)
    assert back.dtype == object
    assert back.tolist() == items


@pytest.mark.parametrize(
    "array", [np.array(["H", "He"], dtype="U4"), np.empty(0, dtype="U7"), np.array([["a", "b"]])]
)
def test_fixed_width_strings_keep_their_width(array):
    column = hosts.to_column(array, "a")
    assert identical(hosts.restore(column.values, column.validity, column.host_dtype), array)


def test_a_remembered_dtype_never_cuts():
    """What another tool appended may be longer, larger or negative."""
    strings = np.array(["abcdef"], dtype=np.dtypes.StringDType())
    assert hosts.restore(strings, None, "<U4").tolist() == ["abcdef"]
    assert hosts.restore(np.array([2**63], dtype=np.uint64), None, "<i8").tolist() == [2**63]
    assert hosts.restore(np.array([-1], dtype=np.int64), None, "<u8").tolist() == [-1]
    assert hosts.restore(np.array([1.5]), None, "<i8").tolist() == [1.5]
    assert hosts.restore(np.array([1.5]), None, "no dtype").tolist() == [1.5]


def test_nulls_of_other_tools():
    valid = np.array([True, False])
    assert np.isnan(hosts.restore(np.ones(2), valid)[1])
    assert hosts.restore(np.ones(2, dtype=np.uint64), valid).tolist() == [1, None]
    assert hosts.restore(np.array(["a", ""], dtype=np.dtypes.StringDType()), valid).tolist() == ["a", None]


@pytest.mark.parametrize(
    "values",
    [
        np.array([b"a"]),
        np.array([b"a"], dtype=object),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([1], dtype="m8[s]"),
        np.array([1.0], dtype=np.longdouble),
        np.array([1, "a"], dtype=object),
        ["a", 1],
        np.array([{}], dtype=object),
        np.array([(1, 2.0)], dtype="i4,f8"),
        np.array([["a", None]], dtype=object),
        np.array(["\ud800"]),
        np.array(1.0),
    ],
)
def test_what_has_no_exact_column_names_the_array(values):
    with pytest.raises(TypeError, match=r"^my array: "):
        hosts.to_column(values, "my array")


@pytest.mark.parametrize(
    ("key", "values", "fits"),
    [
        ("id", np.array([1, 2]), True),
        ("id", np.array([1, 2], dtype=np.uint8), True),
        ("id", np.array([-1, 2]), False),
        ("id", np.array([1.0, 2.0]), False),
        ("id", np.array([True]), False),
        ("type", np.array([1, 2]), False),
        ("type", np.array(["A", "B"]), True),
        ("mass", np.array([1, 2]), True),
        ("mass", np.array([2**53 + 1]), False),
        ("mass", np.array([1.5], dtype=np.float32), True),
        ("mass", np.array([[1.5, 2.5]]), False),
        ("mass", np.array([True]), False),
        ("formal_charge", np.array([-1, 1], dtype=np.int8), True),
        ("formal_charge", np.array([2**63], dtype=np.uint64), False),
        ("ix", np.array([-3]), True),
        ("ix", np.array([2**31]), False),
        ("free", np.array([True, False]), True),
        ("free", np.array([0, 1]), False),
    ],
)
def test_a_canonical_key_holds_values_exactly_or_not_at_all(key, values, fits):
    columns = hosts.Columns("trajectory/identity")
    stored = columns.put(key, values)
    assert stored == (key if fits else f"host.{key}")
    assert set(columns) == {stored}
    view = hosts.atoms_of(None, Frame({"identity": columns.block(), "atoms": Block(count=len(values))}))
    assert identical(view.host(key, columns.host_dtypes), np.asarray(values))


def test_columns_gather_masks_and_dtypes():
    dtypes = {}
    columns = hosts.Columns("system/atoms", dtypes)
    columns.put("element", np.array(["H", None], dtype=object))
    columns.put("mass", np.ones(2, dtype=np.float32))
    assert columns.put_host("mass", np.ones(2)) == "host.mass"
    block = columns.block()
    assert block.validity["element"].tolist() == [True, False]
    assert dtypes == {"system/atoms/element": "|O", "system/atoms/mass": "<f4"}
    assert hosts.host_dtypes_of({"host_dtypes": dtypes | {"x": 1}}) == dtypes
    assert hosts.host_dtypes_of(None) == hosts.host_dtypes_of({"host_dtypes": 3}) == {}


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (True, "bool"), (3, "i64"), (-(2**63), "i64"), (1.5, "f64"), (math.nan, "f64"), (-0.0, "f64"), ("007", "string"),
        (np.bool_(True), "bool"), (np.int8(-3), "i32"), (np.int32(4), "i32"), (np.int64(4), "i64"),
        (np.uint16(4), "u32"), (np.uint64(2**64 - 1), "u64"), (np.float16(0.1), "f64"), (np.float32(0.1), "f64"),
        (np.float64(0.1), "f64"), (np.str_("a"), "string"), (np.arange(3), "i64x3"), (np.arange(3.0), "f64x3"),
        (np.arange(6, dtype=np.float32), "f64x6"), (np.arange(9.0), "f64x9"), (np.zeros(3, bool), "bool3"),
        (np.arange(3, dtype=np.int8), "i32x3"), (np.arange(3, dtype=">f8"), "f64x3"),
    ],
)  # fmt: skip
def test_scalars_with_a_tag_come_back_exactly(value, tag):
    scalar = hosts.to_scalar(value)
    assert scalar.tag == tag
    frame = Frame({}, meta={"k": scalar.value}, meta_tags={"k": scalar.tag})
    assert identical(hosts.restore_scalar(frame.meta["k"], scalar.host_dtype), value)


@pytest.mark.parametrize(
    "value",
    [None, 2**63, -(2**63) - 1, [1, 2, 3], (1.0,), {}, 1j, np.complex64(1), np.zeros(4), np.zeros((3, 3)), np.zeros(6, int),
     np.array(["a"] * 3), np.array(1.0), np.longdouble(1), "\ud800", b"a"],
)  # fmt: skip
def test_scalars_without_a_tag_are_left_to_info(value):
    assert hosts.to_scalar(value) is None


# --- info ------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(
    ["$nd", "$dict", "$tuple", "$", "cell", "host.a", ""]
)
NUMPY_SCALARS = st.sampled_from(["?", "i1", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]).flatmap(
    lambda d: stnp.from_dtype(np.dtype(d)).map(lambda v: np.dtype(d).type(v))
)
NUMPY_ARRAYS = st.sampled_from(["?", "i2", ">i4", "u8", "f2", ">f4", "f8", "c8", "U3"]).flatmap(
    lambda d: stnp.arrays(d, stnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
KEYS = (
    TEXT
    | st.integers()
    | st.booleans()
    | st.none()
    | st.tuples(st.integers(), TEXT)
    | NUMPY_SCALARS.filter(lambda v: not np.isnan(v))
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | NUMPY_SCALARS | NUMPY_ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


def through_json(document):
    check_document(document, "info")
    return loads(dumps(document, "info"), "info")


@given(VALUES)
def test_any_value_comes_back_exactly(value):
    assert identical(hosts.decode_value(through_json(hosts.encode_value(value, "k"))), value)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.lists(TEXT, max_size=2))
def test_a_frames_info_comes_back_exactly(values, missing):
    info = hosts.FrameInfo(
        values, {"calc.x": 1.5, "cell": np.zeros((3, 3))}, {"": np.ones(2), "$nd": np.zeros(0, "i4")}, missing
    )
    back = hosts.FrameInfo.from_json(through_json(info.to_json()))
    assert len(back.values) == len(values)
    for key, value in values.items():
        assert identical(back.values[key], value)
    assert {(type(key), key) for key in back.values} == {(type(key), key) for key in values}
    assert identical(back.own, info.own)
    assert identical(back.arrays, info.arrays)
    assert back.missing == missing


def test_the_spelling_of_typed_json():
    """Other programs read it, so it does not change."""
    value = {
        "plain": [None, True, 1, 1.5, "a"],
        "nan": math.nan,
        "inf": [math.inf, -math.inf],
        "tuple": (1,),
        "np": np.float32(0.5),
        "complex": np.complex128(1 - 2j),
        "nd": np.array([[1, 2]], dtype="<i2"),
        "names": np.array(["a", None], dtype=object),
        "keys": {1: "a", "$nd": []},
    }
    assert hosts.encode_value(value, "k") == {
        "plain": [None, True, 1, 1.5, "a"],
        "nan": {"$f": "NaN"},
        "inf": [{"$f": "Infinity"}, {"$f": "-Infinity"}],
        "tuple": {"$tuple": [1]},
        "np": {"$np": ["<f4", 0.5]},
        "complex": {"$np": ["<c16", [1.0, -2.0]]},
        "nd": {"$nd": ["<i2", [1, 2], "AQACAA=="]},
        "names": {"$nd": ["|O", [2], ["a", None]]},
        "keys": {"$dict": [[1, "a"], ["$nd", []]]},
    }
    info = hosts.FrameInfo({"a": 1, "cell": 2, 3: 4}, {"pbc": True}, {"tags": np.zeros(0)}, ["pe"])
    assert info.to_json() == {
        "a": 1,
        "host.cell": 2,
        "$dict": [[3, 4]],
        "pbc": True,
        "$arrays": {"tags": {"$nd": ["<f8", [0], ""]}},
        "$missing": ["pe"],
    }


class Point(NamedTuple):
    x: int
    y: int


class MyInt(int):
    pass


@pytest.mark.parametrize(
    "value",
    [b"a", bytearray(b"a"), 1j, {1, 2}, object(), dt.date(2020, 1, 1), np.datetime64("2020-01-01"), np.bytes_(b"a"),
     np.longdouble(1), np.array([b"a"]), np.array([object()]), np.array([1], dtype="M8[s]"), np.zeros(1, dtype="i4,f8"),
     Point(1, 2), OrderedDict(), MyInt(3), range(3), "\ud800", {"\ud800": 1}, np.ma.array([1]), pytest.param(10**5000, id="long")],
)  # fmt: skip
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"a": (1, v)}, lambda v: {2: v}])
def test_what_does_not_come_back_exactly_is_refused_by_name(value, wrap):
    """Before anything is written; the message names the key."""
    with pytest.raises(TypeError, match="spectrum"):
        hosts.FrameInfo({"ok": 1, "spectrum": wrap(value)}).to_json()


def test_arrays_of_names_come_back():
    names = np.array([["a", None], ["", "b"]], dtype=object)
    assert identical(hosts.decode_value(through_json(hosts.encode_value(names, "k"))), names)


def test_a_list_within_itself_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(TypeError, match="deeper"):
        hosts.encode_value(value, "k")


def test_the_deepest_value_fits_a_document():
    """What is not refused here must not be refused by the document it goes into."""
    value: object = {1: 2}
    accepted = 0
    while accepted < 100:
        try:
            document = hosts.encode_value(value, "k")
        except TypeError:
            break
        assert identical(hosts.decode_value(through_json(document)), value)
        value = {(1,): value}
        accepted += 1
    assert 30 < accepted < 100


@pytest.mark.parametrize("document", [None, [], "x", 3, {}])
def test_an_info_that_says_nothing(document):
    assert hosts.FrameInfo.from_json(document) == hosts.FrameInfo()
    assert hosts.FrameInfo().to_json() is None


def test_other_tools_info_is_taken_as_it_is():
    back = hosts.FrameInfo.from_json({"a": {"$unknown": 1, "b": 2}, "c": {"$nd": 1, "d": 2}})
    assert back.values == {"a": {"$unknown": 1, "b": 2}, "c": {"$nd": 1, "d": 2}}


@pytest.mark.parametrize(
    "marker",
    [{"$f": "nan"}, {"$tuple": 3}, {"$dict": [[1]]}, {"$dict": [[[], 1]]}, {"$np": ["<f4"]}, {"$np": ["O", 1]},
     {"$np": [3, 1]}, {"$nd": ["<f8", [2], "AAAA"]}, {"$nd": ["<f8", [1], "!"]}, {"$nd": ["O8", [1], ""]},
     {"$nd": ["no", [1], ""]}, {"$np": ["<i1", 300]}],
)  # fmt: skip
def test_a_malformed_marker_is_refused(marker):
    with pytest.raises(FormatError, match="k"):
        hosts.FrameInfo.from_json({"k": marker})


# --- cells -----------------------------------------------------------------------------------------


def test_right_angles_give_exact_zeros():
    assert identical(hosts.cell_vectors([5, 6, 7], [90, 90, 90]), np.diag([5.0, 6.0, 7.0]))
    hexagonal = hosts.cell_vectors([2, 2, 5], [90, 90, 120])
    assert hexagonal[0, 1] == -1.0
    assert (hexagonal[2, :2] == 0).all()
    assert (hexagonal[:2, 2] == 0).all()


@given(
    stnp.arrays(np.float32, 3, elements=st.floats(0.5, 500, width=32)),
    st.sampled_from(
        [
            (60, 60, 90),
            (80, 85, 95),
            (90, 90, 120),
            (109.4712206,) * 3,
            (70.5288,) * 3,
            (60,) * 3,
            (120, 110, 95),
        ]
    ),
)
def test_lengths_and_angles_come_back(lengths, angles):
    """Lengths of float32 bit for bit, angles within one unit in the last place."""
    angles = np.array(angles, dtype=np.float32)
    vectors = hosts.cell_vectors(lengths, angles)
    assert hosts.is_standard_cell(vectors)
    assert np.linalg.det(vectors) > 0
    back = hosts.cell_lengths_angles(vectors)
    assert (back[:3].astype(np.float32) == lengths).all()
    assert (np.abs(back[3:].astype(np.float32) - angles) <= np.spacing(angles)).all()
    assert ((back[3:] == 90) == (angles == 90)).all()


@pytest.mark.parametrize(
    "cell",
    [[10, 10, 0, 90, 90, 90], [0] * 6, [1, 1, -1, 90, 90, 90], [1, 1, math.nan, 90, 90, 90], [1, 1, math.inf, 90, 90, 90],
     [1, 1, 1, 0, 90, 90], [1, 1, 1, 90, 90, 180], [1, 1, 1, 30, 30, 90], [1, 1, 1, 120, 120, 120]],
)  # fmt: skip
def test_numbers_that_span_no_cell(cell):
    assert hosts.cell_vectors(cell[:3], cell[3:]) is None


def test_a_rotated_cell_is_not_standard():
    """float32 noise is overlooked, rows taken for columns are not."""
    standard = hosts.cell_vectors([40, 41, 42], [80, 85, 95])
    assert hosts.is_standard_cell(standard + 1e-6)
    assert not hosts.is_standard_cell(standard.T)
    assert not hosts.is_standard_cell(standard[:, [1, 2, 0]])
    assert not hosts.is_standard_cell(-standard)


def stored_frame(cell: hosts.StoredCell) -> Frame:
    """Return the frame an adapter writes and the reader gives back, fills filled in."""
    meta = {
        "has_cell": True,
        "zero_vectors": [False] * 3,
        "info": hosts.FrameInfo(own=cell.own).to_json(),
    } | cell.meta
    tags = {key: tag for key, tag in hosts.SHARED_TAGS.items() if key in meta}
    return Frame({}, box=cell.box, meta=meta, meta_tags=tags)


TRICLINIC = np.array([[4.0, 1.0, 0.5], [0.0, 5.0, 0.25], [0.0, 0.0, 6.0]])


@pytest.mark.parametrize("drop", [[], [0], [1], [2], [0, 1], [1, 2], [0, 2]])
@pytest.mark.parametrize(
    "cell",
    [
        np.diag([5.0, 6.0, 7.0]),
        TRICLINIC,
        TRICLINIC.T,
        -TRICLINIC,
        TRICLINIC[:, [1, 0, 2]],
        np.diag([5.0, 6.0, 7.0])[:, [1, 2, 0]],
    ],
)
def test_zero_vectors_come_back(cell, drop):
    """Other implementations invert the cell, so what is stored spans a volume."""
    given = cell.copy()
    given[:, drop] = 0.0
    stored = hosts.store_cell(given, boundary=[True, False, True], origin=[1.0, 0.0, 0.0])
    assert abs(np.linalg.det(stored.box.vectors)) > 0.1
    for i in drop:
        added = stored.box.vectors[:, i]
        others = np.delete(stored.box.vectors, i, axis=1)
        assert np.linalg.norm(added) == pytest.approx(1)
        assert np.abs(added @ others).max() < 1e-12
        assert np.linalg.det(stored.box.vectors) > 0
    assert ("zero_vectors" in stored.meta) == bool(drop)
    back = hosts.load_cell(stored_frame(stored))
    assert identical(back.vectors, given)
    assert back.boundary.tolist() == [True, False, True]
    assert back.origin.tolist() == [1.0, 0.0, 0.0]


def test_an_axis_aligned_cell_stays_one():
    assert identical(hosts.store_cell(np.diag([5.0, 0, 0])).box.vectors, np.diag([5.0, 1, 1]))
    assert identical(hosts.store_cell(np.diag([5.0, 6, 0])).box.vectors, np.diag([5.0, 6, 1]))
    leaning = np.array([[5.0, -1.0, 0.0], [0.0, 6.0, 0.0], [0.0, 0.0, 0.0]])
    assert identical(hosts.store_cell(leaning).box.vectors[:, 2], np.array([0.0, 0.0, 1.0])), "no -0.0"
    assert identical(hosts.store_cell(np.diag([0, 0, 7.0])).box.vectors, np.diag([1.0, 1, 7]))


@pytest.mark.parametrize(
    "vectors",
    [np.array([[1.0, 2, 0], [1, 2, 0], [0, 0, 1]]), np.array([[1.0, 2, 0], [1, 2, 0], [0, 0, 0]]), np.full((3, 3), math.nan),
     np.diag([1.0, 1, math.inf])],
)  # fmt: skip
def test_other_singular_cells_are_kept_in_info(vectors):
    stored = hosts.store_cell(vectors, boundary=[True, True, False])
    assert stored.box is None
    assert stored.meta == {"has_cell": False}
    back = hosts.load_cell(stored_frame(stored))
    assert identical(back.vectors, vectors)
    assert back.boundary.tolist() == [True, True, False]


@pytest.mark.parametrize("none", [None, np.zeros((3, 3))])
def test_no_cell_is_never_a_default_cube(none):
    stored = hosts.store_cell(none)
    assert (stored.box, stored.meta, stored.own) == (None, {"has_cell": False}, {})
    carried = Frame({}, box=Box(np.eye(3)), meta=stored.meta)
    back = hosts.load_cell(carried)
    assert not back.defined
    assert not back.boundary.any()


def test_flags_and_an_origin_without_a_cell():
    stored = hosts.store_cell(None, boundary=[True] * 3, origin=[1.0, 2.0, 3.0])
    back = hosts.load_cell(stored_frame(stored))
    assert not back.defined
    assert back.boundary.all()
    assert back.origin.tolist() == [1.0, 2.0, 3.0]
    alone = hosts.store_cell(None, origin=[1.0, 2.0, 3.0], run_has_cell=False)
    assert not alone.box.cell_defined
    assert alone.meta == {}
    assert hosts.load_cell(Frame({}, box=alone.box)).origin.tolist() == [1.0, 2.0, 3.0]
    assert not hosts.load_cell(Frame({}, box=alone.box)).defined


def test_lengths_and_angles_without_a_matrix():
    given = np.array([10, 10, 0, 90, 90, 90], dtype=np.float32)
    back = hosts.load_cell(stored_frame(hosts.store_cell(None, as_given=given)))
    assert identical(back.lengths_angles, given)
    assert back.vectors is None


def test_a_cell_of_another_tool():
    """No ``has_cell``, no ``zero_vectors``, no ``info``: the box is the cell."""
    back = hosts.load_cell(Frame({}, box=Box(TRICLINIC, boundary=[True, True, False])))
    assert identical(back.vectors, TRICLINIC)
    assert back.boundary.tolist() == [True, True, False]
    assert not hosts.load_cell(Frame({})).defined
    assert not hosts.load_cell(Frame({}, box=Box(np.eye(3), cell_defined=False))).defined


def test_the_loaded_cell_is_a_copy():
    box = Box(TRICLINIC)
    hosts.load_cell(Frame({}, box=box)).vectors[:] = 0
    assert identical(box.vectors, TRICLINIC)


# --- presence --------------------------------------------------------------------------------------


def test_shared_declarations():
    schema = SequenceSchema.from_frames(Frame({}, meta={"source_step": 3, "has_cell": False}))
    hosts.declare_shared(schema, forces=False)
    assert {key: spec.tag for key, spec in schema.meta.items()} == hosts.SHARED_TAGS
    assert schema.meta["has_cell"].fill is True
    assert list(schema.meta["zero_vectors"].fill) == [False] * 3
    assert schema.meta["info"].fill is None
    assert schema.meta["info"].has_fill
    assert list(schema.blocks) == ["velocities"]
    assert list(hosts.declare_shared(SequenceSchema()).blocks) == ["velocities", "forces"]
    schema.check()


def test_velocities_are_present_or_not():
    values = np.arange(6.0).reshape(2, 3)
    some, none = (Frame({"velocities": hosts.own_block(hosts.VELOCITIES, v)}) for v in (values, None))
    assert identical(hosts.own_values(some, "velocities", 2), values)
    assert hosts.own_values(none, "velocities", 2) is None
    assert hosts.own_values(some, "velocities", 3) is None, "a carried-forward block of other atoms"
    assert hosts.own_values(some, "forces", 2) is None
    columns = Frame({"atoms": {"fx": values[:, 0], "fy": values[:, 1], "fz": values[:, 2]}})
    assert identical(hosts.own_values(columns, "forces", 2), values)


def test_arrays_are_present_or_not():
    schema, dtypes = SequenceSchema(), {}
    given = {"a/b": np.ones((2, 4), dtype=np.float32), "names": np.array(["a", None], dtype=object)}
    blocks, empty = {}, {}
    for name, array in given.items():
        column = hosts.to_column(array, name)
        block = hosts.declare_array(schema, name, column, host_dtypes=dtypes)
        blocks[block] = hosts.own_array(schema, name, column)
        empty[block] = hosts.own_array(schema, name, None)
    assert schema.blocks["array.names"].columns["value"].nullable
    assert schema.blocks["array.host.a%2Fb"].columns["value"].trailing == (4,)
    back = hosts.own_arrays(Frame(blocks), 2, dtypes)
    assert identical(back, given)
    assert hosts.own_arrays(Frame(empty), 2, dtypes) == {}
    assert empty["array.host.a%2Fb"]["value"].shape == (0, 4)


# --- atoms, residues, segments ---------------------------------------------------------------------


def test_the_periodic_table():
    assert len(hosts.ELEMENTS) == 119
    assert (hosts.ELEMENTS[0], hosts.ELEMENTS[6], hosts.ELEMENTS[79], hosts.ELEMENTS[118]) == (
        "X",
        "C",
        "Au",
        "Og",
    )
    assert len(set(hosts.ELEMENTS)) == 119
    numbers = np.arange(119, dtype=np.uint64)
    assert identical(hosts.element_numbers(hosts.element_symbols(numbers)), numbers)
    assert hosts.element_numbers(["CL", " na", "D", None, "", "QQ"]).tolist() == [17, 11, 1, 0, 0, 0]
    assert hosts.element_symbols([0, 119, 2]).tolist() == ["X", "X", "He"]


def test_element_and_number_give_each_other():
    for columns in ({"element": ["C", "X"]}, {"atomic_number": np.array([6, 0], dtype=np.uint64)}):
        symbols, numbers = hosts.atoms_of(None, Frame({"atoms": columns})).elements()
        assert symbols.tolist() == ["C", "X"]
        assert numbers.tolist() == [6, 0]
    assert hosts.atoms_of(None, Frame({"atoms": {"name": ["CA"]}})).elements() is None, "nothing is guessed"


def test_atoms_are_joined_row_by_row():
    schema = SequenceSchema().declare_block("atoms", {"x": "f64"}).declare_block("types", {"type": "string"})
    schema.declare_aligned("types", "atoms").declare_block("other", {"name": "string"})
    system = Frame({"atoms": {"mass": np.ones(2), "name": ["a", "b"]}})
    frame = Frame(
        {
            "atoms": {"x": np.zeros(2), "name": ["c", "d"]},
            "types": {"type": ["A", "B"]},
            "other": {"name": ["z", "z"]},
        }
    )
    view = hosts.atoms_of(system, frame, schema)
    assert view.count == 2
    assert set(view) == {"mass", "name", "x", "type"}
    assert view["name"].tolist() == ["c", "d"]
    assert view.paths["name"] == "trajectory/atoms/name"
    assert view.paths["mass"] == "system/atoms/mass"
    assert set(hosts.atoms_of(system, None)) == {"mass", "name"}
    assert hosts.atoms_of(None, None).count == 0
    grown = Frame({"atoms": {"x": np.zeros(3)}, "types": frame["types"]})
    assert set(hosts.atoms_of(system, grown, schema)) == {"x"}, (
        "blocks of other rows do not describe these atoms"
    )


def hierarchy() -> hosts.Hierarchy:
    return hosts.Hierarchy(
        residue=np.array([0, 0, 2, 1, 1]),
        segment=np.array([0, 0, 2]),
        residues={
            "res_name": np.array(["ALA", "GLY", "HOH"]),
            "res_seq": np.array([-2, 3, 3]),
            "icode": np.array(["", "A", ""]),
            "seg_id": np.array(["PRO", "", "W"], dtype=object),
            "molnum": np.array([1, 1, 2], dtype=np.int32),
        },
        segments={
            "seg_id": np.array(["PRO", "EMPTY", "W"]),
            "chain": np.array(["A", None, "B"], dtype=object),
        },
        n_segments=3,
    )


def stored_hierarchy(given: hosts.Hierarchy):
    dtypes: dict[str, str] = {}
    atoms = hosts.Columns("system/atoms", dtypes)
    blocks = hosts.store_hierarchy(given, atoms)
    return Frame({"atoms": atoms.block(targets={"residue": "residues"}), **blocks}), dtypes


def same_hierarchy(left: hosts.Hierarchy, right: hosts.Hierarchy) -> bool:
    return (
        identical(left.residue, right.residue)
        and identical(left.segment, right.segment)
        and left.n_segments == right.n_segments
        and left.residues.keys() == right.residues.keys()
        and left.segments.keys() == right.segments.keys()
        and all(identical(left.residues[k], right.residues[k]) for k in left.residues)
        and all(identical(left.segments[k], right.segments[k]) for k in left.segments)
    )


def test_residues_and_segments_come_back():
    """Negative numbers, repeated ones, interleaved atoms, empty segments, a residue's own segment id."""
    system, dtypes = stored_hierarchy(hierarchy())
    back = hosts.load_hierarchy(hosts.atoms_of(system, None), system, dtypes)
    assert same_hierarchy(back, hierarchy())


def test_residues_point_at_their_segments():
    system, _ = stored_hierarchy(hierarchy())
    assert system["atoms"].targets == {"residue": "residues"}
    assert system["residues"].targets == {"segment": "segments"}
    assert system["atoms"]["residue"].dtype == system["residues"]["segment"].dtype == np.uint64
    assert system["residues"]["res_seq"].tolist() == [-2, 3, 3]
    assert system["residues"].validity["seg_id"].tolist() == [False, True, False]
    assert system["segments"].count == 3


def test_flat_columns_for_tools_that_know_only_those():
    given = hierarchy()
    system, _ = stored_hierarchy(given)
    assert system["atoms"]["res_name"].tolist() == ["ALA", "ALA", "HOH", "GLY", "GLY"]
    assert system["atoms"]["res_id"].tolist() == [1, 1, 3, 2, 2], "one number is negative: rows + 1"
    assert system["atoms"]["chain"].tolist() == ["A", "A", "B", "A", "A"]
    given.residues["res_seq"] = np.array([7, 3, 3])
    assert stored_hierarchy(given)[0]["atoms"]["res_id"].tolist() == [7, 7, 3, 3, 3]
    given.residues["res_seq"] = np.array([7, None, 3], dtype=object)
    system, dtypes = stored_hierarchy(given)
    assert system["atoms"]["res_id"].tolist() == [1, 1, 3, 2, 2]
    back = hosts.load_hierarchy(hosts.atoms_of(system, None), system, dtypes)
    assert back.residues["res_seq"].tolist() == [7, None, 3]


@pytest.mark.parametrize("name", ["chain", "res_name", "icode"])
def test_what_atoms_have_themselves_is_not_overwritten(name):
    atoms = hosts.Columns("system/atoms")
    atoms.put(name, ["Q"] * 5)
    hosts.store_hierarchy(hierarchy(), atoms)
    assert atoms[name].tolist() == ["Q"] * 5


def test_flat_records_group_consecutive_atoms():
    ids = np.array([1, 1, 2, 2, 1, 1], dtype=np.uint64)
    frame = Frame(
        {
            "atoms": {
                "res_id": ids,
                "res_name": ["A", "A", "B", "C", "A", "A"],
                "chain": ["X", "X", "X", "X", "X", "Y"],
            }
        }
    )
    back = hosts.load_hierarchy(hosts.atoms_of(None, frame), frame)
    assert back.residue.tolist() == [0, 0, 1, 2, 3, 4]
    assert back.residues["res_seq"].tolist() == [1, 2, 2, 1, 1]
    assert back.residues["res_seq"].dtype == np.int64
    assert back.residues["res_name"].tolist() == ["A", "B", "C", "A", "A"]
    assert back.segment.tolist() == [0, 0, 0, 0, 1]
    assert back.segments["chain"].tolist() == back.segments["seg_id"].tolist() == ["X", "Y"]
    assert back.n_segments == 2


def test_a_record_that_names_no_residues():
    frame = Frame({"atoms": {"x": np.zeros(3)}})
    assert hosts.load_hierarchy(hosts.atoms_of(None, frame), frame) is None


def test_missing_chain_and_segment_id_give_each_other():
    atoms = {"residue": np.array([0, 1, 2], dtype=np.uint64)}
    tables = {
        "residues": {"segment": np.array([0, 1, 1], dtype=np.uint64)},
        "segments": {"seg_id": ["S", "T"]},
    }

    def load(**columns):
        frame = Frame({"atoms": atoms | columns, **tables})
        return hosts.load_hierarchy(hosts.atoms_of(None, frame), frame)

    assert load().segments["chain"].tolist() == ["S", "T"]
    assert load(chain=["A", "B", "B"]).segments["chain"].tolist() == ["A", "B"]
    assert load(chain=["A", "B", "C"]).segments["chain"].tolist() == ["A", "T"], "no common chain"
    assert load().residues["seg_id"].tolist() == ["S", "T", "T"]
    assert load(res_name=["a", "b", "c"]).residues["res_name"].tolist() == ["a", "b", "c"]
    atoms["residue"] = np.array([0, 0, 1], dtype=np.uint64)
    assert load(icode=["a", "b", "c"]).residues["icode"].tolist() == ["a", "c", None], "the first atom's"


def test_residues_without_segments():
    blocks = {"residues": {"res_name": ["a", "b"]}}
    frame = Frame({"atoms": {"residue": np.array([0, 1], dtype=np.uint64), "chain": ["A", "B"]}, **blocks})
    back = hosts.load_hierarchy(hosts.atoms_of(None, frame), frame)
    assert back.n_segments == 2
    assert back.segments["chain"].tolist() == ["A", "B"]
    frame = Frame({"atoms": {"residue": np.array([0, 1], dtype=np.uint64)}, **blocks})
    back = hosts.load_hierarchy(hosts.atoms_of(None, frame), frame)
    assert back.n_segments == 1
    assert back.segments == {}


@pytest.mark.parametrize("block", ["atoms", "residues"])
def test_a_reference_past_the_end_is_refused(block):
    rows = {"atoms": [0, 0], "residues": [0, 0]} | {block: [0, 9]}
    frame = Frame(
        {
            "atoms": {"residue": np.array(rows["atoms"], dtype=np.uint64)},
            "residues": {"segment": np.array(rows["residues"], dtype=np.uint64)},
            "segments": {"chain": ["A"]},
        }
    )
    with pytest.raises(FormatError) as caught:
        hosts.load_hierarchy(hosts.atoms_of(None, frame), frame)
    assert caught.value.kind == "target_range"


def test_no_atoms_at_all():
    given = hosts.Hierarchy(np.empty(0, int), np.empty(0, int), {"res_name": np.empty(0, "U3")}, {}, 0)
    system, dtypes = stored_hierarchy(given)
    back = hosts.load_hierarchy(hosts.atoms_of(system, None), system, dtypes)
    assert (len(back.residue), len(back.segment), back.n_segments) == (0, 0, 0)


# --- steps -----------------------------------------------------------------------------------------


def test_steps_follow_the_source_while_they_increase():
    """From the first that does not, numbered on by one with the source's own beside."""
    numbers = hosts.StepNumbers()
    stored = [numbers.store(step) for step in (0, 10, 20, 20, 30, 5)]
    assert stored == [(0, None), (10, None), (20, None), (21, 20), (22, 30), (23, 5)]
    back = [
        hosts.host_step(step, {} if source is None else {"source_step": source}) for step, source in stored
    ]
    assert back == [0, 10, 20, 20, 30, 5]


def test_steps_when_appending():
    assert hosts.StepNumbers(20).store(30) == (30, None)
    assert hosts.StepNumbers(20).store(0) == (21, 0)
    assert hosts.StepNumbers(20, broken=True).store(30) == (21, 30)
    assert hosts.StepNumbers(20).store(None) == (21, None)
    assert hosts.StepNumbers().store(-5) == (-5, None)
    assert hosts.StepNumbers().store(2**63) == (0, 2**63)
    assert hosts.host_step(7, {"source_step": None}) == 7


def test_the_public_names_exist():
    assert sorted(hosts.__all__) == sorted(set(hosts.__all__))
    assert all(hasattr(hosts, name) for name in hosts.__all__)


def test_documents_are_plain_json():
    assert json.loads(json.dumps(hosts.encode_value({"a": (np.arange(2), {1: 2})}, "k"))) is not None


def test_an_array_of_a_frame_may_be_called_like_a_stored_name():
    """The prefix of stored names is escaped in the arrays of ``info`` too."""
    given = hosts.FrameInfo(
        arrays={"host.a": np.arange(2), "a": np.arange(3), "$b": np.arange(1), "": np.arange(4)}
    )
    found = hosts.FrameInfo.from_json(given.to_json())
    assert {name: array.tolist() for name, array in found.arrays.items()} == {
        "host.a": [0, 1],
        "a": [0, 1, 2],
        "$b": [0],
        "": [0, 1, 2, 3],
    }


@pytest.mark.parametrize("size", [3e-260, 1e-160, 1e160, 1e300])
def test_a_cell_too_small_or_large_to_measure_is_kept_as_it_is(size):
    """Its products vanish or overflow, so no box can hold it."""
    vectors = np.diag([0.0, size, size])
    cell = hosts.store_cell(vectors, boundary=[True, False, False])
    assert cell.box is None
    assert cell.own["cell"].tobytes() == vectors.tobytes()


def test_a_name_with_a_backslash_can_be_packed():
    """No zip member may hold one, so the stored name is a safe one."""
    for stored in (hosts.store_name("a\\b"), hosts.store_name("a\\b", "meta"), hosts.array_block("a\\b")):
        assert "\\" not in stored
    assert hosts.host_name(hosts.store_name("a\\b")) == "a\\b"
    assert hosts.array_name(hosts.array_block("a\\b")) == "a\\b"
