"""Checklist group I: safe names, and the names of style tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.records import refused
from molrec_core import Block, FormatError, Frame, SchemaError, TrajectoryWriter, open_record
from molrec_core._names import decode_name, decode_style, encode_name, encode_style

SAFE = [
    ("train/loss", "train%2Floss"),
    ("%", "%25"),
    ("损失/训练", "%E6%8D%9F%E5%A4%B1%2F%E8%AE%AD%E7%BB%83"),
    ("Az09._-", "Az09._-"),
    (" ", "%20"),
    ("a\0b", "a%00b"),
    ("\u007f~", "%7F%7E"),
]
texts = st.text(min_size=1).filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t))


@pytest.mark.parametrize(("text", "name"), SAFE)
def test_I01_every_other_byte_is_escaped(text, name):
    assert encode_name(text) == name
    assert decode_name(name) == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (".", "%2E"),
        ("..", "%2E."),
        ("__x", "%5F_x"),
        ("__", "%5F_"),
        ("...", "..."),
        ("_x", "_x"),
        (".x", ".x"),
    ],
)
def test_I02_names_that_zarr_forbids(text, name):
    assert encode_name(text) == name
    assert decode_name(name) == text


@given(texts)
def test_I01_names_come_back_and_are_never_forbidden(text):
    name = encode_name(text)
    assert decode_name(name) == text
    assert name not in {"", ".", ".."}
    assert not name.startswith("__")
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-%")


@given(texts, texts)
def test_I01_different_keys_have_different_names(first, second):
    assert (encode_name(first) == encode_name(second)) == (first == second)


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_I03_an_empty_key(text):
    with refused(SchemaError, "bad_name", ""):
        encode_name(text)


@pytest.mark.parametrize(
    "name",
    [
        "train%2floss",
        "a%2",
        "a%",
        "%G0",
        "%-1",
        "a/b",
        "a b",
        "é",
        "%FF",
        "%E6%8D",
        "",
        ".",
        "..",
        "__x",
        "%+1",
    ],
)
def test_I04_broken_names(name):
    with refused(FormatError, "bad_name", name):
        decode_name(name)


@pytest.mark.parametrize(
    ("style", "name"),
    [
        ("lj/cut", "pair.lj%2Fcut"),
        ("a.b", "pair.a%2Eb"),
        ("harmonic", "pair.harmonic"),
        ("__x", "pair.__x"),
        ("é", "pair.%C3%A9"),
        ("A-z_9", "pair.A-z_9"),
    ],
)
def test_I05_styles_escape_the_dot_too(style, name):
    assert encode_style("pair", style) == name
    assert decode_style(name) == ("pair", style)


@given(texts)
def test_I05_styles_come_back(style):
    assert decode_style(encode_style("own_1", style)) == ("own_1", style)


@pytest.mark.parametrize(
    "name",
    [
        "nodot",
        ".harmonic",
        "bond.",
        "bond.%68armonic",
        "bond.a.b",
        "Bond.x",
        "1bond.x",
        "bond.%2f",
        "bond.%FF",
        "bo nd.x",
    ],
)
def test_I06_malformed_style_blocks(name):
    with refused(FormatError, "bad_name", name):
        decode_style(name)


@pytest.mark.parametrize(("category", "style"), [("", "x"), ("Bond", "x"), ("b.c", "x")])
def test_I06_malformed_categories(category, style):
    with refused(SchemaError, "bad_name", category):
        encode_style(category, style)
    with refused(SchemaError, "bad_name", ""):
        encode_style("bond", "")


def test_I06_a_needless_escape_in_a_series_name_is_read():
    assert decode_name("%6Coss") == "loss"
    assert encode_name("loss") == "loss"


def test_I07_masks_are_named_with_one_underscore(tmp_path):
    """Two leading underscores belong to Zarr; a block may not use them, and masks do not."""
    with refused(SchemaError, "bad_name", "__validity"):
        Block({"__validity": [1.0]})
    record = tmp_path / "run.mrec"
    with TrajectoryWriter(record) as writer:
        writer.append(Frame({"atoms": Block({"q": [1.0, 0.0]}, validity={"q": [True, False]})}))
    assert (record / "trajectory/atoms/_validity/q/zarr.json").exists()
    assert open_record(record).trajectory[0]["atoms"].validity["q"].tolist() == [True, False]
