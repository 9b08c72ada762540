"""Taking a record up again to append to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from molrec_core._fixed import get_group
from molrec_core._frame import Frame
from molrec_core._group import read_frame
from molrec_core._restore import Restorer
from molrec_core._root import Root, drop_consolidated
from molrec_core._schema import SequenceSchema
from molrec_core._sequence import KEY, SequenceWriter
from molrec_core._store import ZARR_JSON, join


@dataclass(slots=True)
class Taken:
    """What is there to go on with.

    Attributes
    ----------
    sections : dict of str to Frame
        ``system`` and ``frame``.
    sequence : SequenceWriter or None
        The trajectory; None when it holds no frame and is to be started anew.
    pin : SequenceSchema or None
        The declaration of a trajectory without frames.
    stale : tuple of str
        What lies below such a trajectory; it goes when the first frame lays a new one down.
    """

    sections: dict[str, Frame] = field(default_factory=dict)
    sequence: SequenceWriter | None = None
    pin: SequenceSchema | None = None
    stale: tuple[str, ...] = ()


def take_up(root: Root, after_step: int | None) -> Taken:
    """Bring a record back to its marker, or to the last frame not past `after_step`."""
    store = root.store
    taken = Taken()
    for name in ("system", "frame"):
        node = get_group(store, name)
        if node is not None:
            taken.sections[name] = read_frame(store, name, node, sections=taken.sections.get)
    drop_consolidated(store, root.known)
    if get_group(store, KEY) is None:
        taken.stale = ("",)
        return taken
    sequence = Restorer(store, taken.sections, root.known).restore(after_step)
    if sequence.frames:
        taken.sequence = sequence
        return taken
    taken.pin = sequence.schema if sequence.schema.blocks else None
    taken.stale = (ZARR_JSON, "step", "time", "meta", "box", *sequence.blocks)
    return taken


def clear(root: Root, names: tuple[str, ...]) -> None:
    """Remove a trajectory without frames, its marker first: nothing of a dead run may show through the next."""
    for name in names:
        key = join(KEY, name)
        if root.store.size(key) is not None or root.store.children(key) != ([], []):
            root.store.remove(key)
    root.known = {key for key in root.known if not key.startswith(KEY)}
