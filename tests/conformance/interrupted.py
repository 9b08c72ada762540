"""Records as a killed writer leaves them: what lands after the last marker is there, the marker is not."""

from __future__ import annotations

from pathlib import Path

from conformance.records import document
from molrec_core import TrajectoryWriter

MARKER = Path("trajectory", "zarr.json")


def interrupted(path, frames, committed, *, steps=None, times=None, keep=(), **options):
    """Write `frames`, of which only the first `committed` are under the marker; return the record.

    Parameters
    ----------
    keep : sequence of str
        Further files, e.g. the document of a block, that the commit had not yet replaced.
    """
    record = Path(path) / "run.mrec"
    with TrajectoryWriter(record, **options) as writer:
        for i, frame in enumerate(frames):
            if i == committed:
                writer.flush()
                before = {name: (record / name).read_bytes() for name in (MARKER, *keep)}
            writer.append(
                frame,
                step=None if steps is None else steps[i],
                time=None if times is None else times[i],
            )
    for name, data in before.items():
        (record / name).write_bytes(data)
    return record


def tear_index(record, key, shard="0", *, trailing=0):
    """Spoil the checksum of a shard's index, as a torn write of it does; its entries stay whole."""
    grid = document(record, key)
    codec = grid["codecs"][0]
    assert codec["name"] == "sharding_indexed"
    chunks = grid["chunk_grid"]["configuration"]["chunk_shape"][0] // codec["configuration"]["chunk_shape"][0]
    path = Path(record, key, "c", shard, *["0"] * trailing)
    data = bytearray(path.read_bytes())
    data[16 * chunks] ^= 0xFF
    path.write_bytes(data)
    return path


def tree(record):
    """Every file of a record with its bytes, and every directory."""
    return {
        p.relative_to(record).as_posix(): p.read_bytes() if p.is_file() else None
        for p in Path(record).rglob("*")
    }
