"""Safe names: how a free text becomes the name of a node, and back (checklist group I).

Series keys of metrics, styles of force fields and names of hosts that the format
refuses are percent-encoded byte by byte. A text has one safe name, so equal nodes
mean equal keys.
"""

from __future__ import annotations

import re

from molrec_core._dtypes import refuse
from molrec_core.errors import SchemaError

_NAME_SAFE = re.compile(r"[A-Za-z0-9._-]")
_STYLE_SAFE = re.compile(r"[A-Za-z0-9_-]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")
_CATEGORY = re.compile(r"[a-z][a-z0-9_]*")


def encode_name(text: str) -> str:
    """Return the safe name of `text`: bytes outside ``[A-Za-z0-9._-]`` as ``%XX`` (I01, I02).

    Raises
    ------
    SchemaError
        ``bad_name``: the text is empty or not UTF-8.
    """
    name = _encode(text, _NAME_SAFE)
    # Only the leading character makes these three names special, so escaping it is enough.
    if name in {".", ".."} or name.startswith("__"):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return name


def decode_name(name: str) -> str:
    """Return the text of a safe name; a byte escaped without need is tolerated (I04, I06).

    Raises
    ------
    FormatError
        ``bad_name``: a broken or lowercase escape, a character that should have been
        escaped, bytes that are not UTF-8, or an empty name.
    """
    if name in {"", ".", ".."} or name.startswith("__"):
        raise refuse(name, "bad_name", f"{name!r} is not a safe name")
    return _decode(name, _NAME_SAFE, name)


def encode_style(category: str, style: str) -> str:
    """Return the block name of a force-field style: ``pair``, ``lj/cut`` give ``pair.lj%2Fcut`` (I05).

    Raises
    ------
    SchemaError
        ``bad_name``: the category is not ``[a-z][a-z0-9_]*``, or the style is empty or not UTF-8.
    """
    if not _CATEGORY.fullmatch(category):
        raise SchemaError.one(category, "bad_name", f"the category {category!r} is not [a-z][a-z0-9_]*")
    return f"{category}.{_encode(style, _STYLE_SAFE)}"


def decode_style(name: str) -> tuple[str, str]:
    """Return category and style of a force-field block; only the one spelling is accepted (I06).

    Raises
    ------
    FormatError
        ``bad_name``: no dot, a malformed category, an empty style, or an escape that is
        broken or not needed.
    """
    category, dot, encoded = name.partition(".")
    if not dot or not _CATEGORY.fullmatch(category) or not encoded:
        raise refuse(name, "bad_name", f"{name!r} is not <category>.<style>")
    style = _decode(encoded, _STYLE_SAFE, name)
    if _encode(style, _STYLE_SAFE) != encoded:
        raise refuse(name, "bad_name", f"{name!r} escapes a character that stands for itself")
    return category, style


def _encode(text: str, safe: re.Pattern[str]) -> str:
    if not text:
        raise SchemaError.one("", "bad_name", "an empty text has no safe name")
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise SchemaError.one(
            "", "bad_name", f"{text!r} holds a lone surrogate, which is not UTF-8"
        ) from None
    return "".join(chr(byte) if safe.fullmatch(chr(byte)) else f"%{byte:02X}" for byte in data)


def _decode(name: str, safe: re.Pattern[str], loc: str) -> str:
    data = bytearray()
    at = 0
    while at < len(name):
        if name[at] == "%":
            escape = _ESCAPE.match(name, at)
            if escape is None:
                raise refuse(loc, "bad_name", f"{name!r} holds an escape that is not %XX in uppercase")
            data.append(int(escape.group(1), 16))
            at = escape.end()
        elif safe.fullmatch(name[at]):
            data.append(ord(name[at]))
            at += 1
        else:
            raise refuse(loc, "bad_name", f"{name!r} holds {name[at]!r}, which should be escaped")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise refuse(loc, "bad_name", f"{name!r} is not UTF-8 once its escapes are read") from None
