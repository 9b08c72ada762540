"""Strings as bytes: the ``vlen-utf8`` codec."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from molrec_core.errors import CodecError

Array = np.ndarray[Any, Any]
_LENGTH = struct.Struct("<I")
_SHORT = 16
"""Characters up to which strings are laid out as rows of bytes: what most names have."""
_ASCII = 127
_PADDING = b"\xff"
"""A byte that no length up to `_SHORT` and no ASCII character is spelled with."""
_COUNTS_NULS = int(np.strings.str_len(np.array("\0", np.dtypes.StringDType()))) == 1
"""Whether numpy counts NULs at the end of a string; before 2.5 it does not."""


class _Spelled(dict[str, bytes]):
    """Strings as they are stored, length first; columns repeat a few of them many times."""

    def __missing__(self, text: str) -> bytes:
        raw = text.encode("utf-8")
        self[text] = stored = _LENGTH.pack(len(raw)) + raw
        return stored


def packed_strings(texts: Array) -> Array | None:
    """Return short ASCII strings as fixed-width bytes, same shape; None for any others.

    Bytes are copied, compared and encoded in a fraction of the time.
    """
    if texts.dtype.kind == "S":
        return texts
    if texts.dtype.kind == "U":
        return _packed_text(texts)
    if not _COUNTS_NULS:
        return None
    lengths = np.strings.str_len(texts)
    width = int(lengths.max(initial=1))
    if width > _SHORT:
        return None
    try:
        packed = texts.astype(f"S{width}")
    except UnicodeEncodeError:
        return None
    # Bytes lose a NUL at the end of a string.
    return packed if (np.strings.str_len(packed) == lengths).all() else None


def _packed_text(texts: Array) -> Array | None:
    width = texts.dtype.itemsize // 4
    if not 0 < width <= _SHORT or not texts.dtype.isnative:
        return None
    codes = np.ascontiguousarray(texts).reshape(-1, 1).view(np.uint32)
    if codes.max(initial=0) > _ASCII:
        return None
    return codes.astype(np.uint8).view(f"S{width}").reshape(texts.shape)


def encode_strings(rows: Array) -> bytes:
    """Encode strings, or packed ones, as ``vlen-utf8``: a count, then a length and the UTF-8 bytes of each."""
    flat = rows.ravel()
    packed = packed_strings(flat)
    if packed is not None:
        return _LENGTH.pack(len(flat)) + _encode_packed(packed)
    texts = flat.tolist()
    return _LENGTH.pack(len(texts)) + b"".join(map(_Spelled().__getitem__, texts))


def _encode_packed(texts: Array) -> bytes:
    """Encode packed strings without a loop over them."""
    width = texts.dtype.itemsize
    lengths = np.strings.str_len(texts)
    # A row for each length: how it is spelled, then what marks the places behind the text.
    rows = np.zeros((width + 1, _LENGTH.size + width), np.uint8)
    rows[:, 0] = np.arange(width + 1)
    rows[:, _LENGTH.size :][np.arange(width) >= np.arange(width + 1)[:, None]] = _PADDING[0]
    stored = rows.take(lengths, axis=0)
    codes = texts.view(np.uint8).reshape(-1, width)
    for place in range(width):
        stored[:, _LENGTH.size + place] |= codes[:, place]
    return stored.tobytes().translate(None, _PADDING)


def decode_strings(data: bytes | bytearray | memoryview | Array, count: int) -> list[str]:
    """Decode ``vlen-utf8`` bytes of `count` strings.

    Raises
    ------
    CodecError
        Another count, lengths past the end, bytes left over, or invalid UTF-8.
    """
    raw = bytes(data)
    stored = _LENGTH.unpack_from(raw)[0] if len(raw) >= _LENGTH.size else -1
    if stored != count:
        msg = f"vlen-utf8: {stored} strings where the chunk holds {count}"
        raise CodecError(msg)
    alike = _of_one_length(raw, count)
    if alike is not None:
        return alike
    texts = []
    at = _LENGTH.size
    unpack = _LENGTH.unpack_from
    try:
        for _ in range(count):
            stop = at + 4 + unpack(raw, at)[0]
            texts.append(raw[at + 4 : stop].decode("utf-8"))
            at = stop
    except (struct.error, UnicodeDecodeError) as error:
        msg = f"vlen-utf8: {error}"
        raise CodecError(msg) from None
    if at != len(raw):
        msg = f"vlen-utf8: the lengths add up to {at} bytes, {len(raw)} are stored"
        raise CodecError(msg)
    return texts


def _of_one_length(raw: bytes, count: int) -> list[str] | None:
    """Decode ASCII strings of one length (names padded or of one kind) without a loop; None for any others."""
    width, rest = divmod(len(raw) - _LENGTH.size, count) if count else (0, 1)
    length = width - _LENGTH.size
    if rest or length <= 0:
        return None
    rows = np.frombuffer(raw, np.uint8, offset=_LENGTH.size).reshape(count, width)
    text = np.ascontiguousarray(rows[:, _LENGTH.size :])
    if (np.ascontiguousarray(rows[:, : _LENGTH.size]).view("<u4") != length).any():
        return None
    # A NUL would be trimmed as padding.
    if (text >= 128).any() or not text.all():
        return None
    decoded: list[str] = text.view(f"S{length}").ravel().astype(f"U{length}").tolist()
    return decoded
