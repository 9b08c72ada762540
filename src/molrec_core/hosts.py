"""What two or more hosts share when their objects become frames, and back.

Adapters import this module and ``molrec_core`` alone; nothing here knows a host.
In the order in which an adapter needs it:

Names. ``store_name(name, "column" | "meta")`` and ``host_name(stored, kind)`` (None: the
name belongs to the format or to the host mapping); ``array_block`` / ``array_name`` for
blocks ``array.<name>``; ``encode_name`` / ``decode_name`` for safe names.

Columns. ``Columns("trajectory/identity", host_dtypes)`` collects a block:
``.put("mass", values)`` for a name the format or the mapping has (values a canonical key
cannot hold go to ``host.mass``; the stored name is returned), ``.put_host("my name", values)`` for a
host's own, ``.block(targets=...)`` at the end. ``host_dtypes`` fills on the way; store it as
``meta["host_dtypes"]``, read it with ``host_dtypes_of(meta)``, undo it with ``restore``.

Scalars. ``to_scalar(value)`` gives tag, value and host dtype, or None: then it goes to
``info``. ``restore_scalar`` undoes it. ``FrameInfo(values, own, arrays, missing)`` is the
content of a frame's ``info``: ``.to_json()`` (TypeError names the key), ``.from_json()``.

Cells. ``cell_vectors(lengths, angles)`` and ``cell_lengths_angles(vectors)``;
``store_cell(vectors, boundary=, origin=)`` gives box, meta and what goes to ``FrameInfo.own``;
``load_cell(frame)`` gives them back; ``is_standard_cell`` for the hosts that must warn.
Vectors are COLUMNS throughout.

Presence. ``declare_shared(schema)`` once before the first frame; ``declare_array`` for a
further ``array.<name>``; per frame ``own_block(VELOCITIES, values or None)`` and
``own_array(schema, name, column or None)``; on reading ``own_values(frame, "velocities", n)``
and ``own_arrays(frame, n, host_dtypes)``. Give frames ``meta_tags`` from `SHARED_TAGS`.

Atoms. ``atoms_of(system, frame, schema)`` joins all per-atom columns into one view with
``.host(name, host_dtypes)``, ``.host_names()`` and ``.elements()``. ``Hierarchy`` holds
residues and segments as plain arrays: ``store_hierarchy`` / ``load_hierarchy``.

Runs. ``RunRecord(path, append=, overwrite=)`` is the record a reporter of an engine appends
to: ``.existing()`` to look at, then ``.start(schema, ...)`` or ``.resume(record, schema, ...)``,
``.append``, ``.flush``, ``.close(error)``; it keeps the status and ends with the interpreter.

Steps. ``StepNumbers(last).store(step)`` gives the step to append and ``source_step``;
``host_step(step, meta)`` gives the source's own back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from molrec_core._dtypes import COLUMN_DTYPES, dtype_name
from molrec_core._frame import Block, Frame
from molrec_core._hosts_atoms import (
    ELEMENTS,
    AtomView,
    Hierarchy,
    atoms_of,
    element_numbers,
    element_symbols,
    load_hierarchy,
    store_hierarchy,
)
from molrec_core._hosts_cell import (
    HostCell,
    StoredCell,
    cell_lengths_angles,
    cell_vectors,
    is_singular,
    is_standard_cell,
    load_cell,
    store_cell,
)
from molrec_core._hosts_columns import (
    Columns,
    HostColumn,
    HostScalar,
    array_block,
    array_name,
    host_name,
    restore,
    restore_scalar,
    store_name,
    to_canonical,
    to_column,
    to_scalar,
)
from molrec_core._hosts_info import FrameInfo, decode_value, encode_value
from molrec_core._hosts_run import RunRecord
from molrec_core._names import decode_name, decode_style, encode_name, encode_style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from molrec_core._schema import SequenceSchema

__all__ = [
    "ELEMENTS",
    "FORCES",
    "POSITIONS",
    "SHARED_TAGS",
    "VELOCITIES",
    "AtomView",
    "Columns",
    "FrameInfo",
    "Hierarchy",
    "HostCell",
    "HostColumn",
    "HostScalar",
    "RunRecord",
    "StepNumbers",
    "StoredCell",
    "array_block",
    "array_name",
    "atoms_of",
    "cell_lengths_angles",
    "cell_vectors",
    "declare_array",
    "declare_shared",
    "decode_name",
    "decode_style",
    "decode_value",
    "element_numbers",
    "element_symbols",
    "encode_name",
    "encode_style",
    "encode_value",
    "host_dtypes_of",
    "host_name",
    "host_step",
    "is_singular",
    "is_standard_cell",
    "load_cell",
    "load_hierarchy",
    "own_array",
    "own_arrays",
    "own_block",
    "own_values",
    "restore",
    "restore_scalar",
    "store_cell",
    "store_hierarchy",
    "store_name",
    "to_canonical",
    "to_column",
    "to_scalar",
]

Array = np.ndarray[Any, Any]

POSITIONS = ("x", "y", "z")
VELOCITIES = ("vx", "vy", "vz")
FORCES = ("fx", "fy", "fz")
SHARED_TAGS = {"has_cell": "bool", "zero_vectors": "bool3", "source_step": "json", "info": "json"}
"""Tags of the meta keys :func:`declare_shared` declares."""

_FILLS = {"has_cell": True, "zero_vectors": [False] * 3, "source_step": None, "info": None}
_OWN = {"velocities": VELOCITIES, "forces": FORCES}


def declare_shared(schema: SequenceSchema, *, velocities: bool = True, forces: bool = True) -> SequenceSchema:
    """Declare what a writer that does not see all frames first may need later; returns the schema.

    Meta keys ``has_cell`` (fill true), ``zero_vectors`` (fill all false), ``source_step`` and
    ``info`` (fill null), and the blocks ``velocities`` and ``forces`` unless they are off.
    What is declared already stays.
    """
    for key, tag in SHARED_TAGS.items():
        # A key derived from a first frame has no fill yet, and a number there is not tagged json.
        if key not in schema.meta or not schema.meta[key].has_fill:
            schema.declare_meta(key, tag, fill=_FILLS[key])
    for name, wanted in (("velocities", velocities), ("forces", forces)):
        if wanted and name not in schema.blocks:
            schema.declare_block(name, dict.fromkeys(_OWN[name], "f64"))
    return schema


def declare_array(
    schema: SequenceSchema,
    name: str,
    column: HostColumn,
    *,
    host_dtypes: dict[str, str] | None = None,
    nullable: bool | None = None,
) -> str:
    """Declare the block of a per-atom array that some frames may lack; returns its name ``array.<name>``.

    Parameters
    ----------
    schema : SequenceSchema
    name : str
        The host's name of the array.
    column : HostColumn
        The array of one frame, for dtype and trailing shape.
    host_dtypes : dict of str to str, optional
        Filled in place, as by :class:`Columns`.
    nullable : bool, optional
        Whether later frames may hold null rows; by default string arrays may.
    """
    block = array_block(name)
    dtype = dtype_name(column.values.dtype) or ""
    nullable = (dtype == "string" or column.validity is not None) if nullable is None else nullable
    schema.declare_column(block, "value", dtype, column.values.shape[1:], nullable=nullable)
    if host_dtypes is not None and column.host_dtype is not None:
        host_dtypes[f"trajectory/{block}/value"] = column.host_dtype
    return block


def own_block(names: Sequence[str], values: Array | None) -> Block:
    """Return the block of an optional vector quantity for one frame.

    Parameters
    ----------
    names : sequence of str
        `VELOCITIES` or `FORCES`.
    values : (n, 3) array of float, record units, or None
        None: zero rows, which say that the frame does not have it.
    """
    array = np.empty((0, len(names))) if values is None else np.asarray(values, dtype=np.float64)
    return Block({name: np.ascontiguousarray(array[:, i]) for i, name in enumerate(names)})


def own_array(schema: SequenceSchema, name: str, column: HostColumn | None) -> Block:
    """Return the block ``array.<name>`` for one frame.

    Parameters
    ----------
    schema : SequenceSchema
        The pin, for dtype and trailing shape of zero rows.
    name : str
        The host's name of the array.
    column : HostColumn or None
        None: zero rows, which say that the frame does not have it.
    """
    if column is None:
        spec = schema.blocks[array_block(name)].columns["value"]
        return Block({"value": np.empty((0, *spec.trailing), dtype=COLUMN_DTYPES[spec.dtype][0])})
    return Block(
        {"value": column.values}, validity={} if column.validity is None else {"value": column.validity}
    )


def own_values(frame: Frame, name: str, count: int) -> Array | None:
    """Return velocities or forces of a frame, from their own block or from columns of ``atoms``.

    Parameters
    ----------
    frame : Frame
        As the trajectory reader resolves it.
    name : str
        ``velocities`` or ``forces``.
    count : int
        Number of atoms of the frame.

    Returns
    -------
    (count, 3) float64 array in record units, or None
        None where the frame does not have them; of no atoms, ``FrameInfo.arrays`` tells.
    """
    for where in (name, "atoms"):
        block = frame.get(where)
        # A carried-forward block of another row count belongs to other atoms.
        if (
            block is not None
            and block.count == count
            and count
            and all(column in block for column in _OWN[name])
        ):
            return np.stack([block[column] for column in _OWN[name]], axis=1)
    return None


def own_arrays(frame: Frame, count: int, host_dtypes: Mapping[str, str] | None = None) -> dict[str, Array]:
    """Return the arrays of all blocks ``array.<name>`` a frame of `count` atoms has, by host name."""
    arrays = {}
    for stored, block in frame.items():
        name = array_name(stored)
        if name is not None and block.count == count and count and "value" in block:
            dtype = (host_dtypes or {}).get(f"trajectory/{stored}/value")
            arrays[name] = restore(block["value"], block.validity.get("value"), dtype)
    return arrays


def host_dtypes_of(meta: Mapping[str, Any] | None) -> dict[str, str]:
    """Return ``meta["host_dtypes"]`` of a record: path -> dtype; empty where another tool wrote it."""
    stored = (meta or {}).get("host_dtypes")
    if not isinstance(stored, dict):
        return {}
    return {path: dtype for path, dtype in stored.items() if isinstance(dtype, str)}


class StepNumbers:
    """Numbers frames by the source's step while that strictly increases, then on by one.

    Parameters
    ----------
    last : int, optional
        Step of the last frame in the record, when appending.
    broken : bool
        Whether the record has left the source's numbers already (its last ``source_step``
        is not null).
    """

    def __init__(self, last: int | None = None, *, broken: bool = False) -> None:
        self.last = last
        self.broken = broken

    def store(self, step: int | None) -> tuple[int, int | None]:
        """Return the step to append under and the ``source_step`` to keep (None: leave it out).

        Parameters
        ----------
        step : int or None
            The source's step; None where it has none, which numbers on by one.
        """
        following = 0 if self.last is None else self.last + 1
        if step is None:
            self.last = following
            return following, None
        source = int(step)
        falls = self.last is not None and source <= self.last
        self.broken = self.broken or falls or not -(2**63) <= source < 2**63
        if not self.broken:
            self.last = source
            return source, None
        self.last = following
        return following, source


def host_step(step: int, meta: Mapping[str, Any]) -> int:
    """Return the source's step of a frame: its ``source_step``, else the record's own `step`."""
    source = meta.get("source_step")
    return step if source is None or not isinstance(source, int) else source
