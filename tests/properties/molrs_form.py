"""Frames of molrs, to and from the plain form in which records are compared.

Importing this skips the test where molrs is not installed: it needs Python 3.12.
"""

from __future__ import annotations

import numpy as np
import pytest

from molrec_core.testing.naive import plain_array, plain_block, plain_box, plain_meta

molrs = pytest.importorskip("molrs")
core = pytest.importorskip("molrs.core")
mrec = pytest.importorskip("molrs.io.mrec")


def plain_of_molrs(frame):
    """Return a frame of molrs in plain form."""
    blocks = {}
    for name in frame.keys():  # noqa: SIM118 - it is not iterable otherwise
        block = frame[name]
        columns = {key: block[key] for key in block.keys()}  # noqa: SIM118
        masks = {key: mask for key in columns if (mask := block.validity(key)) is not None}
        blocks[name] = plain_block(block.n_rows, columns, masks)
    box = frame.box
    meta = frame.meta.typed()
    return {
        "blocks": blocks,
        "box": None
        if box is None
        else plain_box(box.matrix, box.origin, box.pbc, defined=box.is_cell_defined),
        "meta": {key: plain_meta(value.value, value.dtype) for key, value in meta.items()},
    }


def molrs_block(block):
    """Return one of our blocks as molrs holds it."""
    made = molrs.Block()
    for name, values in block.items():
        given = values.tolist() if values.dtype.kind == "T" else values
        made.insert(name, given, block.validity.get(name))
    if not list(block):
        made.resize(block.count)
    if block.structural_shape is not None:
        made.set_shape(list(block.structural_shape))
    return made


def molrs_frame(frame):
    """Return one of our frames as molrs holds it."""
    box = None
    if frame.box is not None:
        cell = frame.box.vectors if frame.box.cell_defined else core.Cell.undefined()
        box = molrs.Box(cell, origin=frame.box.origin, pbc=frame.box.boundary)
    made = molrs.Frame({name: molrs_block(block) for name, block in frame.items()}, box=box)
    for key, value in frame.meta.items():
        plain = value.tolist() if isinstance(value, np.ndarray) else value
        made.meta[key] = core.MetaValue(frame.meta_tags[key], plain)
    return made


def molrs_schema(schema):
    """Return one of our declarations as molrs holds it."""
    made = mrec.SequenceSchema.from_frames([molrs.Frame({n: _sample(b) for n, b in schema.blocks.items()})])
    for name, block in schema.blocks.items():
        for column, spec in block.columns.items():
            if spec.precision is not None:
                made.declare_precision(name, column, spec.precision)
        for column, target in block.targets.items():
            made.declare_target(name, column, target)
        if block.aligned_with is not None:
            made.declare_aligned(name, block.aligned_with)
    for key, spec in schema.meta.items():
        fill = None
        if spec.has_fill:
            plain = spec.fill.tolist() if isinstance(spec.fill, np.ndarray) else spec.fill
            fill = core.MetaValue(spec.tag, plain)
        made.declare_meta(key, spec.tag, fill)
    return made


def _sample(block):
    """Rows from which molrs derives the declaration; a masked one says nullable."""
    count = int(np.prod(block.structural_shape)) if block.structural_shape is not None else 1
    made = molrs.Block()
    for name, spec in block.columns.items():
        dtype = {"string": "U1", "f64": "f8", "bool": "?", "c64": "c8", "c128": "c16"}.get(spec.dtype)
        zeros = np.zeros((count, *spec.trailing), dtype or f"{spec.dtype[0]}{int(spec.dtype[1:]) // 8}")
        made.insert(name, zeros, np.zeros(count, bool) if spec.nullable else None)
    if not block.columns:
        made.resize(count)
    if block.structural_shape is not None:
        made.set_shape(list(block.structural_shape))
    return made


__all__ = ["molrs", "molrs_frame", "molrs_schema", "mrec", "plain_array", "plain_of_molrs"]
