"""Codec pipelines: the only module that imports compressors.

The must-decode set of the chunking chapter for one chunk of one array, both ways:
``bytes``/``vlen-utf8``, then ``numcodecs.shuffle``, ``gzip``, ``zstd``, and
``crc32c``. What a chunk may decode to is bounded by its declared size before
anything is allocated. Arrays with other codecs (``transpose``, nested shards) are
read through zarr-python.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import zstandard
from crc32c import crc32c as _crc32c
from isal import isal_zlib

from molrec_core._compression import Compression
from molrec_core._dtypes import COLUMN_DTYPES, FLOATS, STRING
from molrec_core._shuffle import Shuffle
from molrec_core._strings import decode_strings, encode_strings
from molrec_core.errors import CodecError

Array = np.ndarray[Any, Any]
Buffer = bytes | bytearray | memoryview | Array
_CRC = struct.Struct("<I")
_MAX_STRING_BYTES = 2**31
_MAX_BETWEEN_BYTES = 2**26
"""Of a string chunk between two compressors."""
_MAX_MEMBERS = 1024
"""Gzip members in one chunk: each costs a copy of what follows it."""
_GZIP = 31
"""``wbits`` of zlib for a gzip member."""
_INFLATE_ERROR: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub says an instance


def checksum(data: Buffer) -> int:
    """CRC-32C of a contiguous buffer."""
    return _crc32c(data)  # type: ignore[no-any-return]


class BytesCodec(Protocol):
    """A codec from bytes to bytes."""

    def encode(self, data: Buffer) -> Buffer:
        """Encode the bytes of one chunk."""
        ...

    def decode(self, data: Buffer, limit: int) -> Buffer:
        """Decode them; `limit` bounds what may come out."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the ``codecs`` list."""
        ...


@dataclass(frozen=True, slots=True)
class Gzip:
    """DEFLATE in a gzip member."""

    level: int

    def encode(self, data: Buffer) -> Buffer:
        """Compress."""
        # ISA-L is twice as fast at the level the format asks for, and has none above 3.
        deflate = isal_zlib if self.level == 1 else zlib
        compressor = deflate.compressobj(self.level, zlib.DEFLATED, _GZIP)
        stored: bytes = compressor.compress(data) + compressor.flush()
        return stored

    def decode(self, data: Buffer, limit: int) -> Buffer:
        """Decompress, refusing more than `limit` bytes; members may follow one another."""
        parts: list[bytes] = []
        room = limit
        rest: bytes = bytes(data)
        while rest:
            if len(parts) == _MAX_MEMBERS:
                raise CodecError(f"gzip: more than {_MAX_MEMBERS} members")
            decompressor = isal_zlib.decompressobj(_GZIP)
            try:
                part = decompressor.decompress(rest, room + 1)
            except _INFLATE_ERROR as error:
                msg = f"gzip: {error}"
                raise CodecError(msg) from None
            room -= len(part)
            if room < 0:
                msg = f"gzip: more than the {limit} bytes the chunk holds"
                raise CodecError(msg)
            if not decompressor.eof:
                msg = "gzip: the stream is cut short"
                raise CodecError(msg)
            parts.append(part)
            rest = decompressor.unused_data
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def head(self, data: Buffer, n: int) -> bytes:
        """Return the first `n` bytes, or fewer, without decompressing the rest."""
        try:
            return isal_zlib.decompressobj(_GZIP).decompress(bytes(data), n)
        except _INFLATE_ERROR as error:
            raise CodecError(f"gzip: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the ``codecs`` list."""
        return {"name": "gzip", "configuration": {"level": self.level}}


_zstd = threading.local()


@dataclass(frozen=True, slots=True)
class Zstd:
    """Zstandard, content size written, no content checksum by default."""

    level: int
    checksum: bool = False

    def _compressor(self) -> zstandard.ZstdCompressor:
        # One a thread: they keep a context and are not thread-safe.
        key = f"c{self.level}{self.checksum}"
        compressor: zstandard.ZstdCompressor | None = getattr(_zstd, key, None)
        if compressor is None:
            compressor = zstandard.ZstdCompressor(level=self.level, write_checksum=self.checksum)
            setattr(_zstd, key, compressor)
        return compressor

    def encode(self, data: Buffer) -> Buffer:
        """Compress."""
        return self._compressor().compress(data)  # type: ignore[arg-type]  # any buffer does

    def encode_run(self, chunks: Array) -> Sequence[Buffer]:
        """Compress several chunks, (n_chunks, n_bytes) uint8, each by itself, without the interpreter in between."""
        found: Any = self._compressor().multi_compress_to_buffer(list(chunks), threads=1)
        return [found[i] for i in range(len(found))]

    def decode(self, data: Buffer, limit: int) -> Buffer:
        """Decompress, refusing a frame that claims or yields more than `limit` bytes."""
        decompressor = getattr(_zstd, "d", None)
        if decompressor is None:
            decompressor = _zstd.d = zstandard.ZstdDecompressor()
        try:
            size = zstandard.frame_content_size(data)  # type: ignore[arg-type]  # any buffer does
            if size > limit:
                msg = f"zstd: {size} bytes claimed where the chunk holds at most {limit}"
                raise CodecError(msg)
            if size >= 0:
                return decompressor.decompress(data)  # type: ignore[arg-type]  # any buffer does
            # An empty output needs a bound above zero: zero means unbounded to the library.
            return decompressor.decompress(data, max_output_size=max(limit, 1))  # type: ignore[arg-type]  # any buffer does
        except zstandard.ZstdError as error:
            msg = f"zstd: {error}"
            raise CodecError(msg) from None

    def head(self, data: Buffer, n: int) -> bytes:
        """Return the first `n` bytes, or fewer, without decompressing the rest."""
        try:
            return zstandard.ZstdDecompressor().stream_reader(bytes(data)).read(n)
        except zstandard.ZstdError as error:
            raise CodecError(f"zstd: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the ``codecs`` list."""
        return {"name": "zstd", "configuration": {"level": self.level, "checksum": self.checksum}}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How one chunk of one array becomes bytes.

    Attributes
    ----------
    dtype : str
        Column dtype.
    trailing : tuple of int
        Trailing shape of a row.
    codecs : tuple
        Bytes-to-bytes codecs in order, without the closing checksum.
    crc : bool
        Whether crc32c closes the pipeline.
    endian : {"little", "big"}
    """

    dtype: str
    trailing: tuple[int, ...] = ()
    codecs: tuple[BytesCodec, ...] = ()
    crc: bool = True
    endian: str = "little"

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of decoded rows."""
        return COLUMN_DTYPES[self.dtype][0]

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the stored bytes."""
        return self.numpy_dtype.newbyteorder("<" if self.endian == "little" else ">")

    @property
    def raw(self) -> bool:
        """Whether the stored payload is the memory of the rows, but for the checksum."""
        return (
            not self.codecs
            and self.dtype != "string"
            and (self.endian == "little" or self.numpy_dtype.itemsize == 1)
        )

    def encode(self, rows: Array) -> list[Buffer]:
        """Encode the rows of a whole chunk; the pieces are to be written one after the other."""
        data: Buffer
        if self.dtype == "string":
            data = encode_strings(rows)
        elif self.endian == "little" and rows.flags.c_contiguous and rows.dtype == self.numpy_dtype:
            data = (rows if rows.ndim == 1 else rows.reshape(-1)).view(np.uint8)
        else:
            data = np.ascontiguousarray(rows, self.stored_dtype).reshape(-1).view(np.uint8)
        for codec in self.codecs:
            data = codec.encode(data)
        return [data, _CRC.pack(_crc32c(data))] if self.crc else [data]

    @property
    def gathers(self) -> bool:
        """Whether several chunks encode faster together than one by one."""
        return (
            len(self.codecs) == 2
            and isinstance(self.codecs[0], Shuffle)
            and isinstance(self.codecs[1], Zstd)
            and self.crc
            and self.endian == "little"
            and hasattr(zstandard.ZstdCompressor, "multi_compress_to_buffer")
        )

    def encode_run(self, chunks: Array) -> list[list[Buffer]]:
        """Encode several chunks, (n_chunks, chunk_rows) + trailing, each as :meth:`encode` does."""
        data = chunks.reshape(len(chunks), -1).view(np.uint8)
        shuffle, compressor = self.codecs
        assert isinstance(shuffle, Shuffle)
        assert isinstance(compressor, Zstd)
        return [[part, _CRC.pack(_crc32c(part))] for part in compressor.encode_run(shuffle.encode_run(data))]

    def decode(self, stored: Buffer, n_rows: int) -> Array:
        """Decode the stored bytes of a chunk of `n_rows` rows.

        Raises
        ------
        CodecError
            Damaged or lying bytes; ``checksum`` is its kind when the crc does not hold.
        """
        out = np.empty((n_rows, *self.trailing), self.numpy_dtype)
        self.decode_into(stored, out)
        return out

    def decode_into(self, stored: Buffer, out: Array) -> None:
        """Decode a chunk into `out`, contiguous and of the chunk's whole shape."""
        data = self._checked(stored)
        if self.dtype == "string":
            data = self._decode_texts(data, out.size)
            out[...] = np.array(decode_strings(data, out.size), dtype=STRING).reshape(out.shape)
            return
        size = out.size * out.itemsize
        last = len(self.codecs) - 1
        direct = self.endian == "little"
        for i, codec in enumerate(reversed(self.codecs)):
            if i == last and direct and isinstance(codec, Shuffle) and len(data) == size:
                codec.decode_into(data, out.reshape(-1).view(np.uint8))
                return
            # Between two codecs the bytes may be a little more than the chunk: encoders expand what is small.
            data = codec.decode(data, size if i == last else 2 * size + 2**16)
        if len(data) != size:
            msg = f"{len(data)} bytes decoded where the chunk holds {size}"
            raise CodecError(msg)
        out.reshape(-1)[...] = np.frombuffer(data, self.stored_dtype)

    def _decode_texts(self, data: Buffer, count: int) -> Buffer:
        """Undo the codecs of a string chunk, whose length nothing declares but its own first word."""
        last = len(self.codecs) - 1
        for i, codec in enumerate(reversed(self.codecs)):
            if i == last and isinstance(codec, Gzip | Zstd):
                head = codec.head(data, _CRC.size)
                if len(head) == _CRC.size and _CRC.unpack(head)[0] != count:
                    raise CodecError(
                        f"vlen-utf8: {_CRC.unpack(head)[0]} strings where the chunk holds {count}"
                    )
            data = codec.decode(data, _MAX_STRING_BYTES if i == last else _MAX_BETWEEN_BYTES)
        return data

    def _checked(self, stored: Buffer) -> Buffer:
        if not self.crc:
            return stored
        view = memoryview(stored)
        if len(view) < _CRC.size:
            msg = f"{len(view)} bytes, too few to hold a checksum"
            raise CodecError(msg, kind="checksum")
        body = view[: -_CRC.size]
        if _crc32c(body) != _CRC.unpack(view[-_CRC.size :])[0]:
            msg = "the crc32c of the stored bytes does not hold"
            raise CodecError(msg, kind="checksum")
        return body

    def to_json(self) -> list[dict[str, Any]]:
        """Return the ``codecs`` list of the array (or of the shard's inner chunks)."""
        head: dict[str, Any] = {"name": "vlen-utf8"}
        if self.dtype != "string":
            itemsize = COLUMN_DTYPES[self.dtype][0].itemsize
            head = {"name": "bytes"}
            if itemsize > 1:
                head["configuration"] = {"endian": self.endian}
        tail = [{"name": "crc32c"}] if self.crc else []
        return [head, *(codec.to_json() for codec in self.codecs), *tail]


def _compressor(knob: Compression) -> tuple[BytesCodec, ...]:
    if knob.codec == "none":
        return ()
    return (Gzip(knob.level),) if knob.codec == "gzip" else (Zstd(knob.level),)


def pipeline_for(
    dtype: str,
    trailing: Sequence[int] = (),
    *,
    precision: bool = False,
    dense: bool = False,
    compression: Compression | None = None,
) -> Pipeline:
    """Return the reference writer's pipeline (checklist H03, H17).

    A precision column: shuffle, zstd 3. Another float column: none. Everything
    else, and every dense array: gzip 1.
    """
    knob = compression or Compression()
    compressor = _compressor(knob)
    codecs: tuple[BytesCodec, ...]
    itemsize = COLUMN_DTYPES[dtype][0].itemsize
    if precision:
        codecs = (Shuffle(itemsize), *(compressor if compression is not None else (Zstd(3),)))
    elif dtype in FLOATS and not dense:
        codecs = ((Shuffle(itemsize),) if knob.shuffle else ()) + compressor
    else:
        codecs = (Gzip(1),)
    return Pipeline(dtype, tuple(trailing), codecs)


_PLAIN_KEYS = frozenset({"name", "configuration", "must_understand"})


def parse_pipeline(codecs: object, dtype: str, trailing: Sequence[int]) -> Pipeline | None:
    """Read a ``codecs`` list; None for one outside the fast path, which zarr-python decodes."""
    if not isinstance(codecs, list) or not codecs:
        return None
    head, *rest = codecs
    name, config = _codec(head)
    endian = "little"
    if dtype == "string":
        if name != "vlen-utf8":
            return None
    elif name == "bytes" and config.get("endian") in (None, "little", "big"):
        endian = config.get("endian") or "little"
    else:
        return None
    chain: list[BytesCodec] = []
    crc = False
    for entry in rest:
        name, config = _codec(entry)
        codec = _bytes_codec(name, config)
        if crc or (codec is None and name != "crc32c"):
            return None
        crc = name == "crc32c"
        if codec is not None:
            chain.append(codec)
    return Pipeline(dtype, tuple(trailing), tuple(chain), crc, endian)


def _codec(entry: object) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, dict) and entry.keys() <= _PLAIN_KEYS:
        config = entry.get("configuration", {})
        if isinstance(entry.get("name"), str) and isinstance(config, dict):
            return entry["name"], config
    return "", {}


def _bytes_codec(name: str, config: dict[str, Any]) -> BytesCodec | None:
    level = config.get("level")
    if name == "gzip" and isinstance(level, int):
        return Gzip(min(max(level, 0), 9))
    if name == "zstd" and isinstance(level, int):
        return Zstd(min(max(level, -7), 22), bool(config.get("checksum", False)))
    size = config.get("elementsize")
    if name == "numcodecs.shuffle" and isinstance(size, int) and 0 < size <= 16:
        return Shuffle(size)
    return None
