"""mdtraj's arrays as frames of a record: nanometers in, the record's own units out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import mdtraj
import numpy as np
from mdtraj.core.topology import Topology

from molrec_core import Frame, FrameStack, RecordError, SchemaError, SequenceSchema
from molrec_core.hosts import (
    FORCES,
    POSITIONS,
    VELOCITIES,
    FrameInfo,
    StepNumbers,
    StoredCell,
    cell_vectors,
    declare_shared,
    store_cell,
    store_name,
)
from molrec_core.units import MDANALYSIS, MDTRAJ, Conversion
from molrec_mdtraj._frames import SCALARS
from molrec_mdtraj._topology import topology_to_system

Array = np.ndarray[Any, Any]

STORED = MDANALYSIS
"""Units of the records we start: angstrom, ps, kJ/mol, dalton, e."""
TO_STORED = MDTRAJ.conversion(STORED)
_STACK_BYTES = 2**21
"""Positions that are converted at once: what comes next finds them in the processor's cache."""
_OWN = {"velocities": (VELOCITIES, "velocity"), "forces": (FORCES, "force")}


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays of some frames whose shapes fit each other; what is None is left out.

    Parameters
    ----------
    given : mapping
        ``xyz``, ``time``, ``cell_lengths``, ``cell_angles``, ``step``, ``velocities``,
        ``forces`` and ``energies``, as ``MolrecTrajectoryFile.write`` takes them.

    Raises
    ------
    ValueError
        Naming the array that does not fit.
    """
    xyz = np.asarray(given["xyz"])
    xyz = xyz[None] if xyz.ndim == 2 else xyz
    if xyz.ndim != 3 or xyz.shape[-1] != 3 or xyz.dtype.kind not in "fiu":
        msg = f"xyz is {xyz.dtype} of shape {xyz.shape}; numbers of shape (n_frames, n_atoms, 3) are expected"
        raise ValueError(msg)
    n = len(xyz)
    shapes = {"time": (n,), "step": (n,), "cell_lengths": (n, 3), "cell_angles": (n, 3)} | dict.fromkeys(
        _OWN, xyz.shape
    )
    found: dict[str, Any] = {"xyz": xyz, "energies": {}}
    for name, shape in shapes.items():
        if given.get(name) is not None:
            found[name] = _shaped(given[name], name, shape)
    if ("cell_lengths" in found) != ("cell_angles" in found):
        msg = "cell_lengths and cell_angles are given together or not at all"
        raise ValueError(msg)
    for name, values in (given.get("energies") or {}).items():
        found["energies"][name] = _shaped(values, name, (n,))
    return found


def _shaped(values: object, name: str, shape: tuple[int, ...]) -> Array:
    array = np.asarray(values)
    if array.shape != shape and (shape[0] != 1 or array.shape not in ((), shape[1:])):
        msg = f"{name} has shape {array.shape}; {shape} is expected"
        raise ValueError(msg)
    return array.reshape(shape)


class FrameStream:
    """Turns arrays into frames, one after the other.

    Parameters
    ----------
    topology : mdtraj.Topology, optional
        Of a record that is started.
    schema : SequenceSchema, optional
        Of a record that is gone on with.
    scale : Conversion
        From mdtraj's units to the record's.
    steps : StepNumbers, optional
    n_atoms : int, optional
        Of the frames that are there.
    has_cell : bool
        Whether one of the frames that are there has a cell.
    """

    def __init__(
        self,
        topology: Topology | None = None,
        *,
        schema: SequenceSchema | None = None,
        scale: Conversion = TO_STORED,
        steps: StepNumbers | None = None,
        n_atoms: int | None = None,
        has_cell: bool = False,
    ) -> None:
        self.topology = topology
        self._schema = schema
        self._scale = scale
        self._steps = steps or StepNumbers()
        self._n_atoms = n_atoms
        self._has_cell = has_cell
        self._last_cell: tuple[bytes, StoredCell] | None = None

    def system(self) -> tuple[Frame | None, dict[str, Any]]:
        """Return the ``system`` of the record and its ``meta`` document."""
        system, dtypes = (None, {}) if self.topology is None else topology_to_system(self.topology)
        meta = {
            "creator": {"name": "mdtraj", "version": str(mdtraj.__version__)},
            "units": STORED.to_meta(),
            **({"host_dtypes": dtypes} if dtypes else {}),
        }
        return system, meta

    def declare(self, given: Mapping[str, Any]) -> SequenceSchema:
        """Declare what the first frames have, as :func:`checked` returns them; the rest is refused later."""
        schema = SequenceSchema().declare_block("atoms", dict.fromkeys(POSITIONS, "f64"))
        for name, (columns, _) in _OWN.items():
            if name in given:
                schema.declare_block(name, dict.fromkeys(columns, "f64"))
        for name in given.get("energies", ()):
            schema.declare_meta(_scalar_name(name), "f64")
        odd = "cell_lengths" in given and _some_have_no_matrix(given["cell_lengths"], given["cell_angles"])
        if odd or "step" in given:
            declare_shared(schema, velocities=False, forces=False)
        self._schema = schema
        return schema

    def frames(self, given: Mapping[str, Any]) -> Iterator[tuple[Frame, int, float | None]]:
        """Yield the frames of :meth:`stacks` one by one, with step and time."""
        for stack, steps, times in self.stacks(given):
            for i, step in enumerate(steps):
                yield stack.frame(i), step, None if times is None else times[i]

    def stacks(self, given: Mapping[str, Any]) -> Iterator[tuple[FrameStack, list[int], list[float] | None]]:
        """Yield frames, many at once, with steps and times, in record units.

        Parameters
        ----------
        given : mapping
            As :func:`checked` returns it.

        Raises
        ------
        ValueError
            Another number of atoms than before.
        SchemaError
            Something that the first frames did not have.
        """
        schema = self._schema or self.declare(given)
        n_frames, n_atoms = given["xyz"].shape[:2]
        self._check_atoms(n_atoms)
        for name in _OWN:
            if name in given and name not in schema.blocks:
                raise _undeclared(name)
        size = max(1, _STACK_BYTES // max(1, n_atoms * 24))
        for start in range(0, n_frames, size):
            part = range(start, min(start + size, n_frames))
            found = [self._meta(given, i, schema) for i in part]
            times = [float(given["time"][i]) * self._scale.time for i in part] if "time" in given else None
            stack = FrameStack(
                len(part),
                self._blocks(given, slice(part.start, part.stop), schema),
                boxes=[box for box, _, _ in found],
                meta=[meta for _, meta, _ in found],
            )
            yield stack, [step for _, _, step in found], times

    def _blocks(
        self, given: Mapping[str, Any], part: slice, schema: SequenceSchema
    ) -> dict[str, dict[str, Array]]:
        blocks = {"atoms": _columns(given["xyz"][part], POSITIONS, self._scale.length)}
        for name, (names, quantity) in _OWN.items():
            if name in schema.blocks:
                # Without any, zero rows say so.
                values = given[name][part] if name in given else given["xyz"][part, :0]
                blocks[name] = _columns(values, names, getattr(self._scale, quantity))
        return blocks

    def _check_atoms(self, n_atoms: int) -> None:
        expected = self._n_atoms
        if expected is None and self.topology is not None:
            expected = self.topology.n_atoms
        if expected is not None and n_atoms != expected:
            msg = f"xyz holds {n_atoms} atoms; the record has {expected}, and all frames of mdtraj have the same"
            raise ValueError(msg)
        self._n_atoms = n_atoms

    def _meta(
        self, given: Mapping[str, Any], i: int, schema: SequenceSchema
    ) -> tuple[Any, dict[str, Any], int]:
        cell = self._cell(given, i, schema)
        meta: dict[str, Any] = dict(cell.meta)
        for name, series in given["energies"].items():
            meta[_scalar_name(name)] = float(series[i]) * getattr(self._scale, SCALARS.get(name) or "", 1.0)
        step, source = self._steps.store(int(given["step"][i]) if "step" in given else None)
        if source is not None:
            meta["source_step"] = source
        if cell.own:
            meta["info"] = FrameInfo(own=cell.own).to_json()
        for key in meta:
            if key not in schema.meta:
                raise _undeclared(key)
        return cell.box, meta, step

    def _cell(self, given: Mapping[str, Any], i: int, schema: SequenceSchema) -> StoredCell:
        if "cell_lengths" not in given:
            if self._has_cell and "has_cell" not in schema.meta:
                raise _undeclared("has_cell")
            return store_cell(None, run_has_cell="has_cell" in schema.meta)
        lengths, angles = given["cell_lengths"][i], given["cell_angles"][i]
        key = lengths.tobytes() + angles.tobytes()
        # A cell that did not change need not be built again.
        if self._last_cell is None or self._last_cell[0] != key:
            stored = lengths * np.float64(self._scale.length)
            vectors = cell_vectors(stored, angles)
            as_given = np.concatenate([stored, angles]) if vectors is None else None
            self._last_cell = key, store_cell(vectors, as_given=as_given)
            self._has_cell = True
        return self._last_cell[1]


def _columns(vectors: Array, names: Sequence[str], factor: float) -> dict[str, Array]:
    """Return the columns of vectors, (n_frames, n_atoms, 3), times a factor, each contiguous."""
    return {
        name: np.multiply(vectors[..., i], factor, out=np.empty(vectors.shape[:2]), dtype=np.float64)
        for i, name in enumerate(names)
    }


def _some_have_no_matrix(lengths: Array, angles: Array) -> bool:
    # The volume of most cells is far from zero, which spares building each of them.
    cosines = np.cos(np.radians(angles, dtype=np.float64))
    volumes = 1 - (cosines**2).sum(axis=1) + 2 * cosines.prod(axis=1)
    sound = (volumes > 1e-6) & np.isfinite(lengths).all(axis=1)
    sound &= ((lengths > 0) & (angles > 0) & (angles < 180)).all(axis=1)
    return any(cell_vectors(*cell) is None for cell in zip(lengths[~sound], angles[~sound], strict=True))


def _scalar_name(name: str) -> str:
    return name if name in SCALARS else store_name(name, "meta")


def _undeclared(name: str) -> RecordError:
    return SchemaError.one(
        f"trajectory/{name}",
        "undeclared",
        "the first frames of this record and later ones do not agree on it, and a record keeps to what the first "
        "had; write it from the first frame on, or into a record of its own",
    )
