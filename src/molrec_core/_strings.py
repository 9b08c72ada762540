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
_COUNTS_NULS = int(np.strings.str_len(np.array("\0", np.dtypes.StringDType()))) == 1
"""Whether numpy counts NULs at the end of a string; before 2.5 it does not."""


class _Spelled(dict[str, bytes]):
    """Strings as they are stored, length first; columns repeat a few of them many times."""

    def __missing__(self, text: str) -> bytes:
        raw = text.encode("utf-8")
        self[text] = stored = _LENGTH.pack(len(raw)) + raw
        return stored


def encode_strings(rows: Array) -> bytes:
    """Encode strings as ``vlen-utf8``: a count, then a length and the UTF-8 bytes of each."""
    flat = rows.ravel()
    short = _encode_short(flat) if _COUNTS_NULS and flat.dtype.kind == "T" else None
    if short is not None:
        return _LENGTH.pack(len(flat)) + short
    texts = flat.tolist()
    return _LENGTH.pack(len(texts)) + b"".join(map(_Spelled().__getitem__, texts))


def _encode_short(texts: Array) -> bytes | None:
    """Encode short ASCII strings without a loop over them; None for any others."""
    lengths = np.strings.str_len(texts)
    width = int(lengths.max(initial=0))
    if not 0 < width <= _SHORT:
        return None
    try:
        padded = texts.astype(f"S{width}")
    except UnicodeEncodeError:
        return None
    stored = np.empty((len(texts), _LENGTH.size + width), np.uint8)
    stored[:, : _LENGTH.size] = lengths.astype("<u4").view(np.uint8).reshape(-1, _LENGTH.size)
    stored[:, _LENGTH.size :] = padded.view(np.uint8).reshape(-1, width)
    if (lengths != width).any():
        stored = stored[np.arange(stored.shape[1]) < _LENGTH.size + lengths[:, None]]
    return stored.tobytes()


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
