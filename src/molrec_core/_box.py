"""The cell of a frame: lattice vectors as columns, an origin, periodic flags."""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_core.errors import SchemaError

Array = np.ndarray[Any, Any]


class Box:
    """A simulation cell.

    Parameters
    ----------
    vectors : (3, 3) array_like of float64, record length units
        Lattice vectors as COLUMNS: ``vectors[:, 0]`` is the first one.
    origin : (3,) array_like of float64, record length units, optional
        Lower corner; zeros by default.
    boundary : (3,) array_like of bool, optional
        Periodic flags per axis; all true by default, all false for an undefined cell.
    cell_defined : bool
        False for an origin without a cell; `vectors` then read as the identity.

    Raises
    ------
    SchemaError
        Wrong shapes or dtypes, or an undefined cell that is periodic (checklist B07, B09).
    """

    __slots__ = ("boundary", "cell_defined", "origin", "vectors")

    vectors: Array
    origin: Array
    boundary: Array
    cell_defined: bool

    def __init__(
        self, vectors: object, *, origin: object = None, boundary: object = None, cell_defined: bool = True
    ) -> None:
        if not isinstance(cell_defined, bool | np.bool_):
            raise SchemaError.one(
                "box", "cell_defined", f"cell_defined is {cell_defined!r}; true or false is expected"
            )
        self.cell_defined = bool(cell_defined)
        given = _box_array("vectors", vectors, (3, 3), np.float64)
        self.vectors = given if self.cell_defined else np.eye(3)
        self.origin = np.zeros(3) if origin is None else _box_array("origin", origin, (3,), np.float64)
        if boundary is None:
            self.boundary = np.full(3, self.cell_defined)
        else:
            self.boundary = _box_array("boundary", boundary, (3,), np.bool_)
        if not self.cell_defined and self.boundary.any():
            raise SchemaError.one(
                "box",
                "undefined_cell_periodic",
                f"an undefined cell is periodic on no axis; boundary is {boundary!r}",
            )

    @classmethod
    def _trusted(cls, vectors: Array, origin: Array, boundary: Array, *, cell_defined: bool) -> Box:
        """Build a cell from arrays the reader has checked already."""
        box = cls.__new__(cls)
        box.vectors = vectors
        box.origin = origin
        box.boundary = boundary
        box.cell_defined = cell_defined
        return box

    def same(self, other: object) -> bool:
        """Whether `other` is bit for bit this cell."""
        return (
            isinstance(other, Box)
            and self.cell_defined == other.cell_defined
            and self.vectors.tobytes() == other.vectors.tobytes()
            and self.origin.tobytes() == other.origin.tobytes()
            and self.boundary.tobytes() == other.boundary.tobytes()
        )

    def __eq__(self, other: object) -> bool:
        """Compare cells bit for bit."""
        return self.same(other) if isinstance(other, Box) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # arrays are mutable

    def __repr__(self) -> str:
        """Return lengths of the lattice vectors and the periodic flags."""
        if not self.cell_defined:
            return f"Box(undefined, origin={self.origin.tolist()})"
        lengths = " x ".join(f"{x:g}" for x in np.linalg.norm(self.vectors, axis=0))
        axes = "".join("xyz"[i] for i in range(3) if self.boundary[i]) or "none"
        return f"Box({lengths}, periodic: {axes})"


def _box_array(what: str, values: object, shape: tuple[int, ...], dtype: type) -> Array:
    array = np.asarray(values)
    allowed = "b" if dtype is np.bool_ else "iuf"
    narrow = array.dtype.kind == "f" and array.dtype.itemsize != np.dtype(np.float64).itemsize
    if array.shape != shape or array.dtype.kind not in allowed or narrow:
        raise SchemaError.one(
            "box",
            "box_shape",
            f"{what} is {array.dtype} of shape {array.shape}; {np.dtype(dtype)} of shape {shape} is expected",
        )
    return np.array(array, dtype=dtype, order="C")
