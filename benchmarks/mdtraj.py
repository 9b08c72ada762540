"""Saving and loading through mdtraj: records beside its XTC, DCD and HDF5.

    python benchmarks/mdtraj.py [A B C] [--repeats 5] [--changing-cell] [--no-hdf5]

One process, formats alternating, warm cache; seconds are medians over the repeats, and
only ratios within one run mean anything. The precision is that of XTC, 0.01 angstrom.
The rows "topology given" hand every format the same Topology object; "from files" starts
from nothing but files, where XTC and DCD need one more for the topology.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# This file bears mdtraj's name, and a script's folder is searched first.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

import mdtraj as md  # noqa: E402
import numpy as np  # noqa: E402

import molrec_mdtraj  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parent))
from settle import settle  # noqa: E402

CASES = {"A": (1_000, 10_000), "B": (20_000, 500), "C": (1_000_000, 10)}
LOSSY, EXACT = "mrec 1e-2", "mrec"


def trajectory(n_atoms: int, n_frames: int, *, changing: bool) -> md.Trajectory:
    """Water and protein of a real system tiled to `n_atoms`, its atoms on random walks."""
    from MDAnalysisTests.datafiles import GRO

    base = md.load(GRO)
    copies = -(-n_atoms // base.n_atoms)
    top = base.topology
    for _ in range(copies - 1):
        top = top.join(base.topology)
    top = top.subset(range(n_atoms))
    rng = np.random.default_rng(7)
    start = np.concatenate([base.xyz[0] + np.float32(8.0 * k) for k in range(copies)])[:n_atoms]
    xyz = np.empty((n_frames, n_atoms, 3), np.float32)
    for i in range(n_frames):
        start = start + rng.normal(0, 0.005, start.shape).astype(np.float32)
        xyz[i] = start
    lengths = np.tile(base.unitcell_lengths[0], (n_frames, 1))
    if changing:
        lengths *= rng.normal(1, 1e-3, (n_frames, 1))
    angles = np.full((n_frames, 3), 90, np.float32)
    return md.Trajectory(xyz, top, np.arange(n_frames) * 2.0, lengths, angles)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what mdtraj's DCD reader prints, from C, off the table."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("w") as sink:
        os.dup2(sink.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def timed(action: Callable[[], object]) -> float:
    """Return the seconds an action takes."""
    with quiet():
        settle()
        start = time.perf_counter()
        action()
        return time.perf_counter() - start


def table(
    title: str, actions: dict[str, Callable[[], object]], repeats: int, against: dict[str, str]
) -> None:
    """Run the actions in turn and print medians, and ratios: above 1 the record is faster."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            times[name].append(timed(action))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"  {title:34}", "  ".join(f"{name} {value:.3f} s" for name, value in medians.items()))
    ratios = [
        f"{a} {medians[b] / medians[a]:.2f} x {b}" for a, b in against.items() if {a, b} <= medians.keys()
    ]
    print(f"  {'':34}", ", ".join(ratios))


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files of a directory."""
    return (
        sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
        if path.is_dir()
        else path.stat().st_size
    )


def run(case: str, folder: Path, repeats: int, *, changing: bool, hdf5: bool) -> None:
    n_atoms, n_frames = CASES[case]
    traj = trajectory(n_atoms, n_frames, changing=changing)
    top = traj.topology
    print(f"{case}: {n_atoms} atoms x {n_frames} frames, {'a changing' if changing else 'one'} cell")
    files = {"xtc": "run.xtc", "dcd": "run.dcd", LOSSY: "lossy.mrec", EXACT: "exact.mrec"}
    files |= {"hdf5": "run.h5"} if hdf5 else {}
    paths = {name: str(folder / file) for name, file in files.items()}

    def save(name: str) -> Callable[[], object]:
        return lambda: traj.save(paths[name], **({"precision": 1e-3} if name == LOSSY else {}))

    pairs = {LOSSY: "xtc", EXACT: "dcd"}
    table("save", {name: save(name) for name in paths if name != "hdf5"}, max(1, repeats // 2), pairs)
    if hdf5:
        print(f"  {'':34} hdf5 {timed(save('hdf5')):.3f} s, once")
    sizes = {name: size(Path(path)) / n_atoms / n_frames for name, path in paths.items()}
    print(
        f"  {'bytes an atom and frame':34}", "  ".join(f"{name} {value:.2f}" for name, value in sizes.items())
    )

    def load(name: str, given: object = top, **keywords: object) -> Callable[[], object]:
        own = name == "hdf5" or given is None
        return functools.partial(md.load, paths[name], **({} if own else {"top": given}), **keywords)

    for name in paths:
        with quiet():
            error = np.abs(load(name)().xyz - traj.xyz).max()
        assert error < 1e-2, f"{name} differs by {error} nm"
    table("load, topology given", {name: load(name) for name in paths}, repeats, pairs)
    if n_atoms <= 100_000:
        pdb = str(folder / "top.pdb")
        traj[0].save_pdb(pdb)
        needs = {"xtc": pdb, "dcd": pdb}
        table("load, from files", {n: load(n, needs.get(n)) for n in paths}, max(1, repeats // 2), pairs)
    some = np.sort(np.random.default_rng(1).choice(n_atoms, n_atoms // 100, replace=False))
    table(
        "load 1 % of the atoms, and all",
        {
            f"{name}{what}": load(name, **given)
            for name in (LOSSY, EXACT)
            for what, given in ((" 1 %", {"atom_indices": some}), ("", {}))
        },
        repeats,
        {f"{name} 1 %": name for name in (LOSSY, EXACT)},
    )
    frames = np.random.default_rng(2).integers(0, n_frames, 20).tolist()

    def pick(path: str) -> None:
        with md.open(path) as file:
            for frame in frames:
                file.seek(frame)
                file.read(1)

    table(
        "open, 20 frames at random",
        {name: functools.partial(pick, path) for name, path in paths.items()},
        repeats,
        pairs,
    )


def main() -> None:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=[])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--changing-cell", action="store_true", help="a cell that differs in every frame")
    parser.add_argument("--no-hdf5", action="store_true", help="leave HDF5 out, which takes most of the time")
    arguments = parser.parse_args()
    molrec_mdtraj.register()
    for case in arguments.cases or CASES:
        folder = Path(tempfile.mkdtemp(prefix="molrec-mdtraj-"))
        try:
            run(case, folder, arguments.repeats, changing=arguments.changing_cell, hdf5=not arguments.no_hdf5)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
