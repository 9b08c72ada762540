"""Strings as bytes: the ``vlen-utf8`` codec."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from molrec_core.errors import CodecError

Array = np.ndarray[Any, Any]
_LENGTH = struct.Struct("<I")


class _Spelled(dict[str, bytes]):
    """Strings as they are stored, length first; columns repeat a few of them many times."""

    def __missing__(self, text: str) -> bytes:
        raw = text.encode("utf-8")
        self[text] = stored = _LENGTH.pack(len(raw)) + raw
        return stored


def encode_strings(rows: Array) -> bytes:
    """Encode strings as ``vlen-utf8``: a count, then a length and the UTF-8 bytes of each."""
    texts = rows.ravel().tolist()
    return _LENGTH.pack(len(texts)) + b"".join(map(_Spelled().__getitem__, texts))


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
