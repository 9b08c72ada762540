"""Conversion: a foreign file to a record, a record to a foreign file, a record written anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from molrec_core import plugins
from molrec_core._compression import Compression
from molrec_core._frame import Frame
from molrec_core._group import VALIDITY
from molrec_core._locate import locate
from molrec_core._pack import copy_tree, pack
from molrec_core._paths import path_exists, remove_tree
from molrec_core._record import Record, open_record
from molrec_core._root import Root, drop_consolidated, write_failed
from molrec_core._schema import SequenceSchema
from molrec_core._store import ZARR_JSON, join
from molrec_core._trajectory_reader import KEY, TrajectoryReader
from molrec_core._trajectory_writer import TrajectoryWriter
from molrec_core.errors import RecordError, RecordExistsError, SchemaError
from molrec_core.hookspecs import Adapter, Source

RECORD_SUFFIXES = (".mrec", ".mrec.zip")
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What a conversion changes on the way.

    Attributes
    ----------
    top : path-like or None
        Topology beside a foreign trajectory.
    frames : slice
    blocks : sequence of str or None
        Trajectory blocks to keep; all by default.
    precision : mapping of "block.column" to float, or float, or None
        In the record's units.
    compression : Compression or None
        Of float columns.
    adapter : str or None
        The adapter to ask where several read a suffix.
    overwrite : bool
    """

    top: Path | None = None
    frames: slice = field(default_factory=lambda: slice(None))  # before 3.12 a slice is no default
    blocks: Sequence[str] | None = None
    precision: float | Mapping[str, float] | None = None
    compression: Compression | None = None
    adapter: str | None = None
    overwrite: bool = False


def is_record_name(path: str | os.PathLike[str]) -> bool:
    """Whether a path is named like a record."""
    return os.fspath(path).rstrip("/").endswith(RECORD_SUFFIXES)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    options: Options | None = None,
    *,
    start: Callable[[int | None], Progress] | None = None,
) -> Path:
    """Convert between records and the formats of installed adapters.

    Parameters
    ----------
    source, target : path-like
        At least one of them a record. From record to record the trajectory is encoded
        anew and every other section and unknown node is carried through verbatim.
    start : callable, optional
        Called with the number of frames (None when unknown); returns what is called
        with 1 for each frame written.

    Returns
    -------
    pathlib.Path
        What was written.

    Raises
    ------
    RecordError
        No adapter reads or writes the suffix, or one would have to read a URL.
    """
    options = options or Options()
    begin = start or (lambda _: lambda _: None)
    if not is_record_name(target):
        return _export(source, Path(target), options)
    packed = os.fspath(target).endswith(".zip")
    if packed and path_exists(Path(target)) and not options.overwrite:
        msg = "the archive is there already; overwrite=True (--overwrite) replaces it"
        raise RecordExistsError(msg, loc=os.fspath(target))
    directory = Path(os.fspath(target).removesuffix(".zip")) if packed else Path(target)
    if packed:
        directory = directory.with_name(f".{directory.name}.packing")
    if is_record_name(source) or _holds_record(source):
        _rewrite(source, directory, options, begin)
    else:
        adapter = find_adapter(source, "reads", options.adapter)
        assert adapter.read is not None
        _write_source(adapter.read(Path(source), options.top, options.frames), directory, options, begin)
    if not packed:
        return directory
    try:
        return pack(directory, target, remove=True, overwrite=options.overwrite)
    except BaseException:
        remove_tree(directory)
        raise


def _export(source: str | os.PathLike[str], target: Path, options: Options) -> Path:
    """Write a record into a file of a host."""
    if not is_record_name(source):
        msg = f"neither {os.fspath(source)!r} nor {os.fspath(target)!r} is a record (*.mrec, *.mrec.zip)"
        raise RecordError(msg, kind="no_record_named")
    if "://" in os.fspath(source):
        msg = f"hosts write from records on this machine; make one first (molrec convert {source} run.mrec)"
        raise RecordError(msg, kind="remote", loc=os.fspath(source))
    adapter = find_adapter(target, "writes", options.adapter)
    assert adapter.write is not None
    adapter.write(Path(source), target, options.frames)
    return target


def _holds_record(path: str | os.PathLike[str]) -> bool:
    try:
        locate(path).close()
    except RecordError:
        return False
    return True


def find_adapter(path: str | os.PathLike[str], way: str, name: str | None = None) -> Adapter:
    """Return the adapter that ``reads`` or ``writes`` the suffix of `path`, or the one called `name`.

    Raises
    ------
    RecordError
        There is none; the message lists what is installed.
    """
    found = plugins.adapters()
    if name is not None:
        if name not in found:
            msg = f"no adapter {name!r}; installed: {', '.join(found) or 'none'}"
            raise RecordError(msg, kind="no_adapter")
        return found[name]
    lowered = os.fspath(path).lower()
    fitting = [
        a for a in found.values() if any(lowered.endswith(f".{s.lstrip('.')}") for s in getattr(a, way))
    ]
    if not fitting:
        missing = [f"{p.name} ({p.error})" for p in plugins.plugins() if p.error]
        hint = f"; not available: {', '.join(missing)}" if missing else ""
        msg = f"no adapter {way} {os.fspath(path)!r}; installed: {', '.join(found) or 'none'}{hint}"
        raise RecordError(msg, kind="no_adapter")
    return fitting[0]


def _write_source(
    source: Source, target: Path, options: Options, begin: Callable[[int | None], Progress]
) -> None:
    tick = begin(source.n_frames)
    schema = source.schema
    if options.blocks is not None and schema is not None:
        schema = _only(schema, options.blocks)
    root = Root.new(target, overwrite=options.overwrite, whole=True)
    try:
        root.lay_down({"meta": dict(source.meta)})
        sections = {}
        if source.system is not None:
            root.write_system(source.system)
            sections["system"] = source.system
        with TrajectoryWriter.over(
            root, sections, schema, precision=options.precision, compression=options.compression
        ) as writer:
            for frame, step, time in source.frames:
                writer.append(_pick(frame, options.blocks), step=step, time=time)
                tick(1)
        root.finish()
    except OSError as error:
        root.abandon()
        raise write_failed(error, str(target), "conversion") from error
    except BaseException:
        root.abandon()
        raise


def _pick(frame: Frame, blocks: Sequence[str] | None) -> Frame:
    if blocks is None:
        return frame
    return Frame(
        {name: frame[name] for name in frame if name in blocks},
        box=frame.box,
        meta=frame.meta,
        meta_tags=frame.meta_tags,
    )


def _only(schema: SequenceSchema, blocks: Sequence[str]) -> SequenceSchema:
    unknown = [name for name in blocks if name not in schema.blocks]
    if unknown:
        raise SchemaError.one(
            "trajectory", "undeclared_block", f"no blocks {unknown}; there are {list(schema.blocks)}"
        )
    kept = schema.copy()
    kept.blocks = {name: spec for name, spec in kept.blocks.items() if name in blocks}
    return kept


def _rewrite(
    source: str | os.PathLike[str], target: Path, options: Options, begin: Callable[[int | None], Progress]
) -> None:
    """Write a record anew: the trajectory through the codecs, everything else file by file."""
    with open_record(source) as record:
        root = Root.new(target, overwrite=options.overwrite, whole=True)
        try:
            written = (
                set(_written(record.trajectory.schema, options.blocks)) if "trajectory" in record else set()
            )
            copy_tree(record.store, root.store, skip=written)
            drop_consolidated(root.store, root.known)
            if "trajectory" in record:
                _rewrite_trajectory(record, record.trajectory, root, options, begin)
            root.finish()
        except OSError as error:
            root.abandon()
            raise write_failed(error, str(target), "conversion") from error
        except BaseException:
            root.abandon()
            raise


def _written(schema: SequenceSchema, kept: Sequence[str] | None) -> Iterator[str]:
    """Iterate over the keys that are written anew, or left out with their block, and so are not copied."""
    for name in (ZARR_JSON, "meta", "step", "time", "box"):
        yield join(KEY, name)
    for name, spec in schema.blocks.items():
        if kept is not None and name not in kept:
            yield join(KEY, name)
            continue
        for child in (ZARR_JSON, "offset", "step_index", VALIDITY, *spec.columns):
            yield join(KEY, name, child)


def _rewrite_trajectory(
    record: Record,
    reader: TrajectoryReader,
    root: Root,
    options: Options,
    begin: Callable[[int | None], Progress],
) -> None:
    schema = reader.schema if options.blocks is None else _only(reader.schema, options.blocks)
    schema = schema.copy()
    for key in reader.meta_keys:
        if key not in schema.meta:
            # An array the pin did not name has a value for every frame, so it can be named now.
            schema.declare_meta(key, reader.meta_tag(key))
    for name in schema.blocks:
        counts = reader.counts(name)
        schema.frame_rows[name] = max(0, int(counts.max())) if len(counts) else 0
    sections = {name: record.get(name) for name in ("frame", "system") if name in record}
    view = reader[options.frames]
    tick = begin(len(view))
    steps, times = reader.steps, reader.times
    with TrajectoryWriter.over(
        root,
        sections,
        schema,
        precision=options.precision,
        compression=options.compression,
        carry=record.store,
    ) as writer:
        for ordinal in view.ordinals:
            frame = reader.frame(ordinal, None if options.blocks is None else tuple(schema.blocks))
            time = None if times is None else float(times[ordinal])
            writer.append(frame, step=int(steps[ordinal]), time=time)
            tick(1)


def parse_precision(items: Sequence[str]) -> dict[str, float] | float | None:
    """Read ``--precision`` arguments: ``1e-3`` for x y z of atoms, ``x=1e-3``, ``velocities.vx=1e-4``.

    Raises
    ------
    ValueError
        An argument that is neither.
    """
    values: dict[str, float] = {}
    for item in items:
        name, found, number = item.rpartition("=")
        value = float(number)
        for column in [name] if found else ["x", "y", "z"]:
            values[column if "." in column else f"atoms.{column}"] = value
    return values or None
