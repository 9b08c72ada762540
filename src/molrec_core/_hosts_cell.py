"""Cells of hosts in a record, and back (section 4 of the host mapping).

A stored matrix is never re-derived through angles: what a host keeps as vectors is
taken as it is, and lengths and angles become vectors in float64 once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_core._box import Box
from molrec_core._frame import Frame
from molrec_core._hosts_info import FrameInfo

Array = np.ndarray[Any, Any]

# Radians make cos(90) 6e-17; these angles have exact cosines and are the ones people use.
_EXACT_COSINES = {90.0: 0.0, 60.0: 0.5, 120.0: -0.5}
_SINGULAR = 1e-12
_TILT = 1e-6


def cell_vectors(lengths: object, angles: object) -> Array | None:
    """Return the lattice vectors of a cell given by lengths and angles.

    Parameters
    ----------
    lengths : (3,) array_like of float, any length unit
    angles : (3,) array_like of float, degrees
        alpha (b, c), beta (a, c), gamma (a, b).

    Returns
    -------
    (3, 3) float64 array or None
        Vectors as COLUMNS, a along x and b in the xy plane; right angles give exact
        zeros. None where the numbers span no cell (a zero length, impossible angles).
    """
    a, b, c = (float(x) for x in np.asarray(lengths, dtype=np.float64))
    degrees = [float(x) for x in np.asarray(angles, dtype=np.float64)]
    if not all(0 < x < math.inf for x in (a, b, c)) or not all(0 < x < 180 for x in degrees):
        return None
    cos_a, cos_b, cos_g = (_EXACT_COSINES.get(x, math.cos(math.radians(x))) for x in degrees)
    sin_g = 1.0 if cos_g == 0.0 else math.sin(math.radians(degrees[2]))
    y = (cos_a - cos_b * cos_g) / sin_g
    z2 = 1.0 - cos_b * cos_b - y * y
    if not z2 > _SINGULAR:
        return None
    return np.array([[a, b * cos_g, c * cos_b], [0.0, b * sin_g, c * y], [0.0, 0.0, c * math.sqrt(z2)]])


def cell_lengths_angles(vectors: Array) -> Array:
    """Return lengths and angles of lattice vectors.

    Parameters
    ----------
    vectors : (3, 3) float array
        Lattice vectors as COLUMNS.

    Returns
    -------
    (6,) float64 array
        a, b, c in the unit of `vectors`; alpha, beta, gamma in degrees, exactly 90
        between perpendicular vectors. An angle beside a zero vector is 90.
    """
    a, b, c = np.asarray(vectors, dtype=np.float64).T
    lengths = [math.hypot(*vector) for vector in (a, b, c)]
    return np.array([*lengths, _angle(b, c), _angle(a, c), _angle(a, b)])


def _angle(u: Array, v: Array) -> float:
    dot = float(u @ v)
    # atan2 keeps its precision near 0 and 180 degrees, where acos loses half the digits.
    return 90.0 if dot == 0.0 else math.degrees(math.atan2(math.hypot(*np.cross(u, v)), dot))


def is_standard_cell(vectors: Array) -> bool:
    """Whether a lies along +x, b in the xy plane with y > 0, and z of c > 0.

    Hosts that keep lengths and angles turn any other cell, so they warn about it.
    Tilts below 1e-6 of the lengths, the noise of float32, are overlooked.
    """
    scale = _TILT * float(np.abs(vectors).max())
    below = [abs(float(vectors[i, j])) for i, j in ((1, 0), (2, 0), (2, 1))]
    return max(below) <= scale and all(float(vectors[i, i]) > 0 for i in range(3))


def is_singular(vectors: Array) -> bool:
    """Whether lattice vectors (columns) span no volume, or are not finite."""
    if not np.isfinite(vectors).all():
        return True
    lengths = np.linalg.norm(vectors, axis=0)
    if not (lengths > 0).all():
        return True
    return bool(abs(np.linalg.det(vectors / lengths)) <= _SINGULAR)


def _measurable(vectors: Array) -> bool:
    """Whether lattice vectors are finite, and of lengths whose products neither vanish nor overflow."""
    size = np.abs(vectors).max(axis=0)
    return bool(((size == 0) | ((size > 1e-50) & (size < 1e50))).all())


def complete_vectors(vectors: Array) -> tuple[Array, Array]:
    """Replace zero lattice vectors by unit vectors perpendicular to the rest and each other.

    Parameters
    ----------
    vectors : (3, 3) float64 array
        Lattice vectors as COLUMNS, at least one of them not zero.

    Returns
    -------
    vectors : (3, 3) float64 array
        Right-handed where a vector was added.
    zero : (3,) bool array
        Which vectors were zero.
    """
    zero = ~vectors.any(axis=0)
    full = vectors.copy()
    missing = np.flatnonzero(zero)
    if len(missing) == 2:
        known = int(np.flatnonzero(~zero)[0])
        # The axis the known vector leans on least, so that an axis-aligned cell stays one.
        following = (known + 1) % 3
        lean = np.abs(vectors[:, known])
        axis = np.eye(3)[following if lean[following] == lean.min() else int(lean.argmin())]
        unit = vectors[:, known] / np.linalg.norm(vectors[:, known])
        axis = axis - (axis @ unit) * unit
        full[:, following] = axis / np.linalg.norm(axis)
    if len(missing):
        last = int(missing[0]) if len(missing) == 1 else int((np.flatnonzero(~zero)[0] + 2) % 3)
        normal = np.cross(full[:, (last + 1) % 3], full[:, (last + 2) % 3])
        length = float(np.linalg.norm(normal))
        # Adding zero turns -0.0 into 0.0: these vectors are ours, and plain zeros read best.
        full[:, last] = normal / length + 0.0 if length else 0.0
    return full, zero


@dataclass(slots=True)
class StoredCell:
    """A host's cell as a frame holds it: ``Frame(box=box, meta=meta)``, and `own` into `FrameInfo.own`."""

    box: Box | None
    meta: dict[str, Any]
    own: dict[str, Any] = field(default_factory=dict)


def store_cell(
    vectors: Array | None,
    *,
    boundary: object = None,
    origin: object = None,
    as_given: Array | None = None,
    run_has_cell: bool = True,
) -> StoredCell:
    """Say where a frame's cell goes (the cell rows of section 1 of the host mapping).

    Parameters
    ----------
    vectors : (3, 3) array of float, record length units, or None
        Lattice vectors as COLUMNS; None or all zeros where the frame has no cell.
    boundary : (3,) array_like of bool, optional
        Periodic flags; all true with a cell, all false without by default.
    origin : (3,) array_like of float, record length units, optional
    as_given : (6,) array, optional
        Lengths and angles (degrees) of a cell that has no matrix; `vectors` is None then.
    run_has_cell : bool
        False only where the writer knows that no frame of the run has a cell; an origin
        is then stored as an undefined cell, and nothing else under ``box``.

    Returns
    -------
    StoredCell
        The meta keys ``has_cell`` and ``zero_vectors`` only where they differ from
        their fills (true, all false); see :func:`declare_shared`.
    """
    array = None if vectors is None else np.array(vectors, dtype=np.float64)
    lower = np.zeros(3) if origin is None else np.array(origin, dtype=np.float64)
    flags = None if boundary is None else np.array(boundary, dtype=bool)
    own: dict[str, Any] = {}
    if array is not None and array.any():
        full, zero = complete_vectors(array) if _measurable(array) else (np.zeros((3, 3)), np.zeros(3, bool))
        if not is_singular(full):
            meta = {"zero_vectors": zero} if zero.any() else {}
            return StoredCell(Box(full, origin=lower, boundary=flags), meta)
        own["cell"] = array
        flags = np.ones(3, bool) if flags is None else flags
    elif as_given is not None:
        own["cell"] = np.array(as_given)
    if flags is not None and flags.any():
        own["pbc"] = flags
    box = None
    if lower.any() and run_has_cell:
        # One run cannot hold defined and undefined cells side by side.
        own["origin"] = lower
    elif lower.any():
        box = Box(np.eye(3), origin=lower, boundary=np.zeros(3, bool), cell_defined=False)
    return StoredCell(box, {"has_cell": False} if run_has_cell else {}, own)


@dataclass(frozen=True, slots=True)
class HostCell:
    """The cell of one frame as a host needs it, in record length units.

    Attributes
    ----------
    vectors : (3, 3) float64 array or None
        Lattice vectors as COLUMNS with the host's zero vectors back; None without a cell.
    lengths_angles : (6,) array or None
        Only for a cell that has no matrix (``[10, 10, 0, 90, 90, 90]``).
    origin : (3,) float64 array
    boundary : (3,) bool array
    """

    vectors: Array | None
    lengths_angles: Array | None
    origin: Array
    boundary: Array

    @property
    def defined(self) -> bool:
        """Whether the frame has a cell."""
        return self.vectors is not None or self.lengths_angles is not None


def load_cell(frame: Frame, info: FrameInfo | None = None) -> HostCell:
    """Return the cell of a frame read from a record; the reverse of :func:`store_cell`.

    Parameters
    ----------
    frame : Frame
        As the trajectory reader resolves it, or a frame section.
    info : FrameInfo, optional
        The frame's ``info``, if it was decoded already.
    """
    info = FrameInfo.from_json(frame.meta.get("info")) if info is None else info
    box = frame.box if frame.meta.get("has_cell", True) else None
    vectors: Array | None = None
    origin, boundary = np.zeros(3), np.zeros(3, bool)
    lengths_angles: Array | None = None
    if box is not None:
        origin = box.origin.copy()
        if box.cell_defined:
            vectors, boundary = box.vectors.copy(), box.boundary.copy()
            vectors[:, np.asarray(frame.meta.get("zero_vectors", np.zeros(3, bool)), dtype=bool)] = 0.0
    given = info.own.get("cell")
    if given is not None:
        given = np.asarray(given)
        vectors, lengths_angles = (given, None) if given.shape == (3, 3) else (None, given)
    boundary = np.asarray(info.own.get("pbc", boundary), dtype=bool)
    origin = np.asarray(info.own.get("origin", origin), dtype=np.float64)
    return HostCell(vectors, lengths_angles, origin, boundary)
