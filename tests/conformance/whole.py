"""One record that holds every section, and what it must read back as."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from molrec_core import (
    Block,
    Box,
    ForceField,
    Frame,
    MetricsWriter,
    Observable,
    SequenceSchema,
    fold_metrics,
    write_mrec,
)

META = {"title": "whole", "units": {"preset": "real"}, "x_null": None, "x_tree": {"a": [1, 2.5, "ö"]}}
STATUS = {"state": "succeeded", "x_note": None}
METHOD = {"kind": "md", "type": "classical", "description": "d", "engine": {"name": "test", "version": "1"}}
STEPS = [0, 10, 20, 25, 40]
TIMES = [0.0, 0.5, 1.0, 1.25, np.inf]


def u64(*values):
    return np.array(values, np.uint64)


def system():
    """Atoms with names and types, bonds that refer to them, typed meta."""
    atoms = Block(
        {
            "element": ["C", "H", "H"],
            "type": ["CT", "HC", "HC"],
            "charge": [-0.2, 0.1, 0.1],
            "id": u64(1, 2, 3),
        },
        validity={"charge": [True, True, False]},
    )
    bonds = Block({"atomi": u64(0, 0), "atomj": u64(1, 2), "type": ["CT-HC", "CT-HC"]})
    return Frame({"atoms": atoms, "bonds": bonds}, meta={"charge": -1}, meta_tags={"charge": "i32"})


def state():
    """A single state in a triclinic cell."""
    atoms = Block({"x": [0.5, 1.25, -2.0], "flag": [True, False, True]}, precision={"x": 0.25})
    cell = Box([[4.0, 1.0, 0.5], [0.0, 5.0, 0.25], [0.0, 0.0, 6.0]], boundary=[True, False, True])
    grid = Block({"rho": np.arange(8.0)}, structural_shape=(2, 2, 2))
    return Frame({"atoms": atoms, "density": grid}, box=cell, meta={"energy": np.nan, "dipole": np.zeros(3)})


def schema():
    """Declare a precision, references and a block that follows another row by row."""
    declared = SequenceSchema.from_frames(frames())
    declared.declare_precision("atoms", "x", 2.0**-10)
    declared.declare_target("contacts", "atom", "atoms")
    declared.declare_aligned("forces", "atoms")
    return declared


def frames():
    """Five frames: a regular block, one that grows, empties and carries forward, nulls, a cell that changes."""
    made = []
    for i in range(5):
        x = (np.arange(3.0) + i) / 8
        blocks = {
            "atoms": Block(
                {"x": x, "y": -x, "velocity": np.full((3, 3), i / 3), "free": [True, i % 2 == 0, False]}
            ),
            "forces": Block({"fx": x * x}),
            "labels": Block({"name": ["a", "", "日本"]}),
        }
        if i in {1, 2, 4}:
            n = {1: 2, 2: 0, 4: 3}[i]
            blocks["contacts"] = Block(
                {"atom": u64(*range(n)), "distance": np.linspace(1, 2, n)},
                validity={"distance": np.arange(n) != 1},
            )
        cell = Box(np.eye(3) * (9 + (i > 2)), origin=[0.0, 0.5, i // 3])
        meta = {"pe": -1.5 * i, "note": {"i": i}, "virial": np.arange(6.0) * i}
        made.append(Frame(blocks, box=cell, meta=meta))
    return made


def forcefield():
    """An atom, a bond and a pair style, of which one parameter is null."""
    lj = Block(
        {
            "name": ["1", "2"],
            "itom": ["CT", "HC"],
            "jtom": ["CT", "HC"],
            "epsilon": [0.1, 0.0],
            "sigma": [3.5, 2.5],
        },
        validity={"epsilon": [True, False]},
    )
    return (
        ForceField({"name": "demo", "units": {"preset": "real"}, "x_note": None})
        .add_style("atom", "full", {"name": ["CT", "HC"], "mass": [12.011, 1.008]})
        .add_style(
            "bond",
            "harmonic",
            {"name": ["CT-HC"], "itom": ["CT"], "jtom": ["HC"], "k": [340.0], "r0": [1.09]},
        )
        .add_style("pair", "lj/cut", lj, params={"cutoff": 10.0, "mixing": "geometric"})
    )


def observables():
    """A single value and one with axes of its own kind."""
    spectrum = {
        "kind": "spectrum",
        "description": "s",
        "time_dependent": False,
        "x_vendor": {"window": [4, 9]},
    }
    energy = {"kind": "scalar", "description": "e", "time_dependent": False, "unit": "hartree"}
    return {"energy": Observable(-76.4, energy), "ir": Observable([[1e3, 0.1], [1.6e3, 0.9]], spectrum)}


def resolved():
    """The frames as they read back: with what carries forward."""
    carried: dict[str, Block] = {}
    found = []
    for frame in frames():
        carried |= dict(frame)
        found.append(Frame(dict(carried), box=frame.box, meta=frame.meta, meta_tags=frame.meta_tags))
    return found


def write_whole(path, *, metrics=True, **options):
    """Write the record as ``whole.mrec`` below `path` and return its path."""
    record = Path(path) / "whole.mrec"
    write_mrec(
        record,
        meta=META,
        status=STATUS,
        method=METHOD,
        system=system(),
        frame=state(),
        trajectory=frames(),
        forcefield=forcefield(),
        observables=observables(),
        schema=schema(),
        steps=STEPS,
        times=TIMES,
        **options,
    )
    if metrics:
        with MetricsWriter(record) as log:
            for step in range(4):
                log.append("train/loss", 1 / (step + 1), step)
        fold_metrics(record)
        with MetricsWriter(record) as log:
            log.append("train/loss", 0.125, 9)
    return record
