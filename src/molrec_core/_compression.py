"""The one knob of a writer: the compressor of float columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compression:
    """The compressor of float columns: the writer's one knob.

    ``Compression.none()``, ``Compression.gzip(level)`` or ``Compression.zstd(level)``.
    For a column without a precision it replaces "none"; for a precision column it
    replaces zstd level 3, and the byte shuffle stays (checklist H17).

    Parameters
    ----------
    codec : {"none", "gzip", "zstd"}
    level : int
    shuffle : bool
        Byte-shuffle float columns that declare no precision, too.
    """

    codec: str = "none"
    level: int = 0
    shuffle: bool = False

    @classmethod
    def none(cls, *, shuffle: bool = False) -> Compression:
        """Store the bytes as they are."""
        return cls("none", 0, shuffle)

    @classmethod
    def gzip(cls, level: int = 1, *, shuffle: bool = False) -> Compression:
        """Gzip at `level` 0 to 9."""
        return cls("gzip", _level(level, 0, 9), shuffle)

    @classmethod
    def zstd(cls, level: int = 3, *, shuffle: bool = False) -> Compression:
        """Zstandard at `level` 1 to 22."""
        return cls("zstd", _level(level, 1, 22), shuffle)


def _level(level: int, low: int, high: int) -> int:
    if type(level) is not int or not low <= level <= high:
        msg = f"compression level {level!r}: an integer from {low} to {high} is expected"
        raise ValueError(msg)
    return level
