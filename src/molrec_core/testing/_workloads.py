"""What the recorded writers do: one small run for each thing the commit order is for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from molrec_core import (
    Block,
    Box,
    CommitError,
    Frame,
    MetricsWriter,
    SequenceSchema,
    TrajectoryWriter,
    fold_metrics,
    pack,
    write_mrec,
)
from molrec_core.testing._driver import NAME, Run, Workload, atoms, moving
from molrec_core.testing._expected import Allowed, History

_SYSTEM = Frame(
    {
        "molecule": Block(
            {"mass": np.arange(3.0), "name": np.array(["C", "", "long name"], np.dtypes.StringDType())}
        )
    }
)


def _append(run: Run, frames: list[Frame], *, flushes: set[int]) -> None:
    for i, frame in enumerate(frames):
        run.append(frame)
        if i in flushes:
            run.flush()
    run.close()


def _regular(run: Run) -> None:
    run.start(system=_SYSTEM)
    for i in range(11):
        run.append(moving(i))
        if i in {2, 8}:
            run.flush()
        elif i == 6:
            run.settle()
    run.close()


def _zeros(run: Run) -> None:
    """Chunks that are all fill beside others, a tail that turns from one into the other."""
    run.start()
    _append(
        run,
        [Frame({"atoms": atoms(i)}) if i in {1, 5, 9} else _still() for i in range(10)],
        flushes={0, 1, 3, 5, 6},
    )


def _ragged(run: Run, *, stacked: bool = False) -> None:
    run.start()
    frames = [Frame({"atoms": atoms(i, n)}) for i, n in enumerate([2, 2, 2, 5, 4, 0, 3, 3, 7])]
    for part in (frames[:2], frames[2:4], frames[4:7], frames[7:]):
        if stacked:
            run.extend(part)
        for frame in () if stacked else part:
            run.append(frame)
        run.flush()
    run.close()


def _named(i: int) -> Frame:
    names = ["", "C\u03b1", "長い名前", f"frame {i}"]
    return Frame(
        {"atoms": Block({"x": np.arange(4.0) + i, "name": np.array(names, np.dtypes.StringDType())})}
    )


def _strings(run: Run) -> None:
    run.start()
    _append(run, [_named(i) for i in range(8)], flushes={1, 4})


def _masked(i: int) -> Frame:
    mask = {"charge": np.array([True, i % 2 == 0, False])} if i % 3 else None
    return Frame({"atoms": Block({"x": np.arange(3.0) + i, "charge": np.arange(3.0) - i}, validity=mask)})


def _labelled_schema() -> SequenceSchema:
    schema = SequenceSchema()
    schema.declare_block("atoms")
    schema.declare_column("atoms", "x", "f64")
    schema.declare_column("atoms", "charge", "f64", nullable=True)
    schema.declare_meta("pe", "f64")
    schema.declare_meta("label", "string", fill="")
    return schema


def _nullable(run: Run) -> None:
    run.start(_labelled_schema())
    _append(run, [_labelled(i) for i in range(9)], flushes={1, 5})


def _labelled(i: int) -> Frame:
    masked = _masked(i)
    return Frame(
        masked, meta={"pe": i / 8, "label": f"frame {i}"}, meta_tags={"pe": "f64", "label": "string"}
    )


def _paired(i: int, n: int) -> Frame:
    return Frame({"atoms": atoms(i, n), "identity": Block({"tag": np.full(n, n, np.int64)})})


def _paired_schema() -> SequenceSchema:
    return SequenceSchema.from_frames([_paired(0, 3)]).declare_aligned("identity", "atoms")


def _aligned(run: Run) -> None:
    run.start(_paired_schema())
    for i, n in enumerate([3, 3, 3, 4, 4, 2, 2]):
        frame = _paired(i, n)
        run.append(frame if i in {0, 3, 5} else Frame({"atoms": frame["atoms"]}))
        if i in {1, 3}:
            run.flush()
    run.close()


def _cell(run: Run) -> None:
    """Take a cell from attributes to arrays; origin and boundary come later still."""
    run.start()
    sides = [9.0, 9.0, 9.0, 9.5, 9.5, 9.75, 10.0, 10.25]
    for i, side in enumerate(sides):
        origin = np.array([0.5, 0.0, 0.0]) if i >= 5 else None
        boundary = np.array([True, True, False]) if i >= 6 else None
        run.append(Frame({"atoms": atoms(i)}, box=Box(np.diag([side] * 3), origin=origin, boundary=boundary)))
        if i in {1, 3, 6}:
            run.flush()
    run.close()


def _cell_whole(run: Run) -> None:
    """Move a cell whose attributes hold origin and boundary when it migrates."""
    run.start()
    for i in range(6):
        box = Box(np.diag([9.0 + i // 3] * 3), origin=np.ones(3), boundary=np.array([True, False, True]))
        run.append(Frame({"atoms": atoms(i)}, box=box))
        if i in {1, 3}:
            run.flush()
    run.close()


def _cell_late(run: Run) -> None:
    run.start()
    _append(
        run,
        [Frame({"atoms": atoms(i)}, box=Box(np.diag([9.0 + i] * 3)) if i >= 2 else None) for i in range(6)],
        flushes={1, 3},
    )


def _timed(i: int) -> tuple[Frame, int, float]:
    broken = i * 10 + (i >= 4), i * 0.25 + (0.125 if i >= 6 else 0.0)
    return (moving(i), *broken)


def _progression(run: Run) -> None:
    run.start()
    for i in range(9):
        run.append(*_timed(i))
        if i in {2, 4, 6}:
            run.flush()
    run.close()


def _bonds(n: int) -> Block:
    return Block({"atomi": np.arange(n, dtype=np.uint64), "atomj": np.arange(1, n + 1, dtype=np.uint64)})


def _elision(run: Run) -> None:
    """Regularity broken after frames that carried the block forward, and by an emptied block."""
    schema = SequenceSchema.from_frames([Frame({"atoms": atoms(0), "bonds": _bonds(2), "late": _bonds(1)})])
    run.start(schema)
    for i in range(9):
        blocks = {"atoms": atoms(i)}
        blocks |= {"bonds": _bonds({0: 2, 3: 3, 5: 0, 7: 2}[i])} if i in {0, 3, 5, 7} else {}
        blocks |= {"late": _bonds(1)} if i == 6 else {}
        run.append(Frame(blocks))
        if i in {1, 2, 3, 6}:
            run.flush()
    run.close()


def _same_rows(run: Run) -> None:
    """Present a carried-forward block again with as many rows: only the index tells when."""
    schema = SequenceSchema.from_frames([Frame({"atoms": atoms(0), "bonds": _bonds(2)})])
    run.start(schema)
    for i in range(7):
        changed = Block({"atomi": np.array([i, i], np.uint64), "atomj": np.array([9, 9], np.uint64)})
        blocks = {"atoms": atoms(i)}
        blocks |= {"bonds": changed} if i in {0, 1, 4, 5} else {}
        run.append(Frame(blocks))
        if i in {0, 2, 3, 4}:
            run.flush()
    run.close()


def _tail(run: Run) -> None:
    """Encode the tail chunk anew after each of many flushes."""
    run.start()
    _append(run, [moving(i) for i in range(8)], flushes=set(range(8)))


def _rollover(run: Run) -> None:
    """Shards of one chunk of four frames."""
    run.start(expected_frames=1)
    for i in range(14):
        run.append(moving(i))
        if i in {3, 4, 9}:
            run.flush()
        elif i == 7:
            run.settle()
    run.close()


def _some_frames(path: Path) -> None:
    with TrajectoryWriter(path / NAME, expected_frames=4, system=_SYSTEM) as writer:
        for i in range(9):
            writer.append(_uneven(i), step=i * i)


def _uneven(i: int, shift: int = 0) -> Frame:
    return Frame({"atoms": atoms(i + shift, 3 + i // 3)}, box=Box(np.diag([9.0 + i // 4 + shift] * 3)))


def _some_history(frames: int) -> History:
    return History.of((_uneven(i), i * i, None) for i in range(frames))


def _after_step(run: Run) -> None:
    run.history = _some_history(5)
    run.durable = 5
    run.tell()
    run.reopen(after_step=16)
    run.done()
    for i in range(5, 9):
        run.append(_uneven(i, shift=1), step=i * i + 1)
        if i == 6:
            run.flush()
    run.close()


def _a_dead_run(path: Path) -> None:
    """Two frames committed, and all of a later commit but its marker."""
    marker = path / NAME / "trajectory" / "zarr.json"
    with TrajectoryWriter(path / NAME) as writer:
        for i in range(11):
            writer.append(_still() if i < 2 else Frame({"atoms": atoms(i)}))
            if i == 1:
                writer.flush()
                committed = marker.read_bytes()
    marker.write_bytes(committed)


def _still() -> Frame:
    return Frame({"atoms": Block({axis: np.zeros(3) for axis in "xy"})})


def _after_a_dead_run(run: Run) -> None:
    """One column that is all fill where a dead run left rows with good checksums."""
    run.history = _dead_history()
    run.done()
    run.reopen()
    blocks = [Block({"x": np.zeros(3), "y": np.full(3, i / 4)}) for i in range(2, 9)]
    _append(run, [Frame({"atoms": block}) for block in blocks], flushes={1, 4})


def _dead_history() -> History:
    return History.of((_still(), i, None) for i in range(2))


def _failed_sync(run: Run) -> None:
    """Fail one sync: what it was for is gone, though later ones succeed."""
    run.start()
    try:
        for i in range(8):
            run.append(moving(i))
            if i % 2:
                run.flush()
        run.close()
    except CommitError:
        run.writer.close()


def _fails_once() -> Callable[[str], bool]:
    left = [5]

    def fail(path: str) -> bool:
        left[0] -= "/atoms/x/c/" in path
        if left[0] == 0:
            left[0] = -1
            return True
        return False

    return fail


def _overwrite(run: Run) -> None:
    run.start(overwrite=True, system=_SYSTEM)
    _append(run, [moving(i) for i in range(5)], flushes={2})


def _pack(run: Run) -> None:
    run.history = _some_history(9)
    run.done()
    pack(run.path, remove=True)
    run.done()


def _system_only(path: Path) -> None:
    write_mrec(path / NAME, system=_SYSTEM)


def _metrics(run: Run) -> None:
    """Events logged, folded, logged again by another writer, folded again."""
    for part in range(3):
        with MetricsWriter(run.path) as metrics:
            for i in range(4):
                number = 4 * part + i
                run.history.images.append((number, number / 8))
                run.tell()
                metrics.append("train/loss", number / 8, number, wall_time="2026-08-04T12:00:00Z")
                if i == 1:
                    metrics.flush()
                    run.done()
            if part == 1:
                # Left without a sync: a fold must not claim lines that the disk may lose.
                metrics._closed = True
                metrics._lock.release()
        if part != 1:
            run.done()
        fold_metrics(run.path)
        run.done()


def _more_steps(i: int) -> tuple[Frame, int | None, float | None]:
    return _uneven(i), 1000 + i, None


_OLD = (Allowed(_some_history(9), 9, 9),)
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("regular", _regular, system=_SYSTEM),
        Workload("zeros", _zeros, lambda i: (Frame({"atoms": atoms(i)}), None, None)),
        Workload("ragged", _ragged, lambda i: (Frame({"atoms": atoms(i, 2 + i % 2)}), None, None)),
        Workload(
            "stacked",
            partial(_ragged, stacked=True),
            lambda i: (Frame({"atoms": atoms(i, 2 + i % 2)}), None, None),
        ),
        Workload("strings", _strings, lambda i: (_named(i), None, None)),
        Workload("nullable", _nullable, lambda i: (_labelled(i), None, None), schema=_labelled_schema()),
        Workload("aligned", _aligned, lambda i: (_paired(i, 2 + i % 2), None, None), schema=_paired_schema()),
        Workload("cell", _cell),
        Workload("cell with origin and boundary", _cell_whole),
        Workload("cell late", _cell_late),
        Workload("progression", _progression, lambda i: (moving(i), 1000 + i * i, 1000.0 + i * i)),
        Workload(
            "elision",
            _elision,
            lambda i: (Frame({"atoms": atoms(i), "bonds": _bonds(i % 2 + 2)}), None, None),
        ),
        Workload(
            "same rows", _same_rows, lambda i: (Frame({"atoms": atoms(i), "bonds": _bonds(2)}), None, None)
        ),
        Workload("tail", _tail),
        Workload("rollover", _rollover),
        Workload("after_step", _after_step, _more_steps, _some_frames, before=_OLD),
        Workload(
            "after a dead run",
            _after_a_dead_run,
            lambda i: (Frame({"atoms": atoms(i)}), None, None),
            _a_dead_run,
            before=(Allowed(_dead_history(), 2, 2),),
        ),
        Workload("failed sync", _failed_sync, fail_sync=_fails_once),
        Workload("overwrite", _overwrite, prepare=_some_frames, before=_OLD, system=_SYSTEM),
        Workload("pack", _pack, _more_steps, _some_frames, before=_OLD, subject="archive"),
        Workload("metrics", _metrics, prepare=_system_only, subject="metrics"),
    )
}
