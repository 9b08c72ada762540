"""Turning a sound record into a hostile one: structured mutations of its files.

A record is a dictionary of paths and bytes here; a mutation changes one thing in it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import crc32c
import numpy as np
import zstandard

from molrec_core import Block, Box, Frame, MetricsWriter, SequenceSchema, TrajectoryWriter, fold_metrics

Files = dict[str, bytes]

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63), 0.5, 1e308,
    -0.0, 1e18, "", "..", ".", "/", "../../secret", "/etc/passwd", "\0", "\ud800", "NaN", "Infinity", "0x7ff8000000000000", "x" * 100_000,
    "float64", "float32", "string", "bool", "int64", "uint64", "r8", "fixed_length_utf32", "object", "numpy.datetime64",
    "sharding_indexed", "gzip", "zstd", "bytes", "vlen-utf8", "crc32c", "blosc", "transpose", "numcodecs.pickle",
    "regular", "rectilinear", "default", "v2", "end", "start", "big", "atoms", "/system/atoms", "/frame/..", "step_index",
    [], {}, [0], [1], [-1], [2**60], [2**60, 3], [2**62, 2**62], [0, 0], [1, 1, 1], [True], ["a"], [None], [[[]]], [1.5],
    {"start": 0}, {"start": 2**63, "stride": 1}, {"start": 0, "stride": 2**62}, {"start": "NaN", "stride": 0},
    {"name": "gzip", "configuration": {"level": 2**60}}, {"name": "zstd", "configuration": {"level": -(2**60), "checksum": 3}},
    {"name": "numcodecs.shuffle", "configuration": {"elementsize": 0}}, {"name": "bytes", "configuration": {"endian": "middle"}},
    {"name": "transpose", "configuration": {"order": [0]}}, {"name": "numcodecs.pickle", "configuration": {}},
    {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 8, "blocksize": 0}},
)  # fmt: skip

DOCUMENTS = (
    b"", b"{", b"null", b"[]", b"0", b'"x"', b"NaN", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"[" * 100_000, b'{"a":' * 50_000,
    b'{"zarr_format": 3, "zarr_format": 3, "node_type": "group"}', b'{"zarr_format": 2}', b'{"zarr_format": 3.0, "node_type": "group"}',
    b'{"zarr_format": 3, "node_type": "group", "attributes": {"nstep": NaN}}',
    b'{"zarr_format": 3, "node_type": "group", "attributes": {"nstep": 1e999}}',
    b'{"zarr_format": 3, "node_type": "group", "attributes": {"nstep": ' + b"9" * 5000 + b"}}",
    b'{"zarr_format": 3, "node_type": "group", "attributes": []}', b"\0" * 1000,
)  # fmt: skip


@lru_cache(maxsize=1)
def sound() -> Files:
    """Write the record that everything starts from; it has every kind of section and array."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "run.mrec"
        names = np.array(["C", "H", ""], np.dtypes.StringDType())
        system = Frame(
            {
                "atoms": Block({"mass": np.arange(3.0), "name": names}, precision={"mass": 0.5}),
                "links": _links(3),
            },
            box=Box(np.eye(3), origin=np.ones(3)),
            meta={"title": "hostile", "charge": 1, "nested": {"a": [1, 2]}},
        )
        schema = SequenceSchema.from_frames([_frame(0), _frame(5)])
        schema.declare_precision("atoms", "y", 0.125).declare_aligned("tags", "atoms")
        schema.declare_meta("label", "string", fill="").declare_meta("extra", "json", fill=None)
        status = {"state": "running"}
        with TrajectoryWriter(
            path, schema, system=system, meta={"units": {"preset": "lj"}}, status=status
        ) as writer:
            for i in range(6):
                writer.append(_frame(i), step=i * i, time=i * 0.1)
        with MetricsWriter(path) as metrics:
            for i in range(4):
                metrics.append("train/loss", i / 3, i)
        fold_metrics(path)
        with MetricsWriter(path) as metrics:
            metrics.append("train/loss", 9.0, 9)
        return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def _links(n: int) -> Block:
    rows = np.arange(n, dtype=np.uint64)
    return Block({"atomi": rows, "atomj": rows}, targets={"atomi": "atoms", "atomj": "atoms"})


def _frame(i: int) -> Frame:
    n = 3
    names = np.array(["a", "", f"name {i}"], np.dtypes.StringDType())
    mask = {"z": np.array([True, i % 2 == 0, True])} if i >= 4 else None
    atoms = Block({"x": np.arange(n) / 3 + i, "y": np.arange(n) / 8 + i, "z": np.arange(3.0)}, validity=mask)
    blocks = {
        "atoms": atoms,
        "tags": Block({"label": names}),
        "shape": Block({"rows": np.arange(i % 3, dtype=np.int32)}),
    }
    if i % 2 == 0:
        blocks["fixed"] = Block({"vector": np.full((2, 3), float(i)), "phase": np.array([1j, 2.0 + i])})
    return Frame(blocks, box=Box(np.eye(3) * (9 + i // 3)), meta={"pe": float(i)})


# -- one mutation each


def _places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if len(at) > 50:
        return
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield from _places(value, (*at, key))


def _documents(files: Files) -> list[str]:
    return [path for path in files if path.endswith("zarr.json")]


def change_field(files: Files, random: Random) -> None:
    """Set, drop or double one field of one document."""
    path = random.choice(_documents(files))
    try:
        document = json.loads(files[path])
    except (ValueError, RecursionError):
        return
    places = [place for place in _places(document) if place]
    if not places:
        return
    place = random.choice(places)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    what = random.random()
    if what < 0.1:
        del parent[place[-1]]
    elif what < 0.2 and isinstance(parent, dict):
        parent[
            random.choice(("../x", "..", "", "\0", "a" * 300, "step", "box", "_validity", "__x", "new"))
        ] = parent.pop(place[-1])
    elif what < 0.3 and isinstance(parent[place[-1]], int):
        parent[place[-1]] += random.choice((-1, 1, 1000, 2**40))
    else:
        parent[place[-1]] = random.choice(VALUES)
    files[path] = json.dumps(document).encode("utf-8", "surrogatepass")


def change_document(files: Files, random: Random) -> None:
    """Put another text in the place of a document, double a key, nest deeply, cut it."""
    path = random.choice(_documents(files))
    what = random.random()
    data = files[path]
    if what < 0.6:
        files[path] = random.choice(DOCUMENTS)
    elif what < 0.7:
        files[path] = data[: random.randrange(len(data) + 1)]
    elif what < 0.8:
        files[path] = data.replace(
            b'"attributes": {', b'"attributes": {"x":' + b"[" * 3000 + b"]" * 3000 + b",", 1
        )
    elif what < 0.9:
        files[path] = files[random.choice(_documents(files))]
    else:
        files[path] = data.replace(b"{", b'{"zarr_format": 3, ', 1)


def _shards(files: Files) -> list[str]:
    return [path for path, data in files.items() if "/c/" in path and len(data) >= 20]


def change_entry(files: Files, random: Random) -> None:
    """Set entries of a shard index, its checksum made right again or not."""
    path = random.choice(_shards(files))
    data = bytearray(files[path])
    chunks = random.choice((1, 2, 256, 4096))
    chunks = min(chunks, (len(data) - 4) // 16)
    numbers = (0, 1, 4, 15, len(data), len(data) - 1, 2**31, 2**40, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
    for _ in range(random.choice((1, 2, chunks))):
        at = 16 * random.randrange(min(chunks, 8)) + random.choice((0, 8))
        data[at : at + 8] = struct.pack("<Q", random.choice(numbers))
    if random.random() < 0.7:
        data[16 * chunks : 16 * chunks + 4] = struct.pack("<I", crc32c.crc32c(bytes(data[: 16 * chunks])))
    files[path] = bytes(data)


def change_bytes(files: Files, random: Random) -> None:
    """Flip, cut, lengthen, swap or zero a stored object."""
    path = random.choice([p for p in files if not p.endswith("zarr.json")])
    data = bytearray(files[path])
    what = random.randrange(5)
    if what == 0 and data:
        for _ in range(random.choice((1, 8))):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif what == 1:
        del data[random.randrange(len(data) + 1) :]
    elif what == 2:
        data += random.randbytes(random.choice((1, 100, 5000)))
    elif what == 3:
        data = bytearray(files[random.choice(list(files))])
    else:
        data = bytearray(len(data))
    files[path] = bytes(data)


@lru_cache(maxsize=1)
def _bombs() -> tuple[bytes, ...]:
    """Payloads of 256 MiB of zeros, small as stored, with good checksums."""
    size = 2**28
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(2**22)
    deflated = b"".join(
        [*(compressor.compress(piece) for _ in range(size // len(piece))), compressor.flush()]
    )
    known = zstandard.ZstdCompressor(level=3).compress(bytes(size))
    streamed = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    unknown = b"".join([*(streamed.compress(piece) for _ in range(size // len(piece))), streamed.flush()])
    texts = struct.pack("<II", 2**32 - 1, 2**32 - 1)
    payloads = (deflated, known, unknown, deflated * 2, texts, zlib.compress(texts, wbits=31), b"")
    return tuple(data + struct.pack("<I", crc32c.crc32c(data)) for data in payloads)


def plant_bomb(files: Files, random: Random) -> None:
    """Let a chunk decompress to far more than it claims."""
    path = random.choice(_shards(files))
    bomb = random.choice(_bombs())
    at = len(files[path])
    data = bytearray(files[path] + bomb)
    data[:16] = struct.pack("<QQ", at, len(bomb))
    files[path] = bytes(data)


def change_log(files: Files, random: Random) -> None:
    """Damage the metrics log."""
    lines = [
        b"\n", b"{}\n", b"[]\n", b"\xff\n", b'{"t":"scalar","k":"","w":"x","v":1}\n', b"[" * 100_000 + b"\n", b"x" * 2**20,
        b'{"t":"scalar","k":"a","s":1e400,"w":"2026-08-04T12:00:00Z","v":1}\n', b'{"t":"scalar","k":"a","k":"b"}\n',
        b'{"t":"scalar","k":"../../secret","s":' + b"9" * 5000 + b',"w":"2026-08-04T12:00:00Z","v":1}\n',
        b'{"t":"pickle","k":"a","s":1,"w":"2026-08-04T12:00:00Z","v":{"__reduce__":["os.system","x"]}}\n',
    ]  # fmt: skip
    data = files.get("metrics/metrics.jsonl", b"")
    at = random.choice((0, len(data), data.find(b"\n") + 1))
    files["metrics/metrics.jsonl"] = data[:at] + random.choice(lines) + data[at:]


def move_file(files: Files, random: Random) -> None:
    """Drop a file, double it under another name, or swap two."""
    path = random.choice(list(files))
    what = random.random()
    if what < 0.5:
        del files[path]
    elif what < 0.8:
        other = random.choice(("trajectory/atoms/extra/zarr.json", "trajectory/offset/zarr.json", "box/zarr.json",
                               "trajectory/box/vectors/zarr.json", "system/box/zarr.json", "metrics/series/..%2F/zarr.json",
                               "trajectory/atoms/step_index/zarr.json", "trajectory/step/zarr.json", "observables/zarr.json",
                               "forcefield/zarr.json", "trajectory/meta/new/zarr.json", "frame/zarr.json"))  # fmt: skip
        files[other] = files[path]
    else:
        other = random.choice(list(files))
        files[path], files[other] = files[other], files[path]


MUTATIONS: tuple[Callable[[Files, Random], None], ...] = (
    *[change_field] * 8, *[change_document] * 2, *[change_entry] * 3, *[change_bytes] * 3, plant_bomb, change_log, move_file,
)  # fmt: skip


def mutated(random: Random) -> Files:
    """Return a record with one to four things changed."""
    files = dict(sound())
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(MUTATIONS)(files, random)
    return files
