"""Mending a record after a crash: what ``reopen`` does, with nothing appended."""

from __future__ import annotations

import os
import warnings

from molrec_core._array import TornIndexWarning
from molrec_core._fixed import get_group
from molrec_core._frame import Frame
from molrec_core._group import read_frame
from molrec_core._restore import Restorer
from molrec_core._root import DOCUMENTS, Root, drop_consolidated


def repair(path: str | os.PathLike[str], *, dry_run: bool = False) -> list[str]:
    """Bring a record back to its commit marker; committed frames are never touched.

    Torn shard indexes are written anew, tails past ``nstep`` cut, half-written tail
    chunks rebuilt from committed rows, leftovers of an interrupted commit removed.

    Parameters
    ----------
    dry_run : bool
        Say what would be done and change nothing.

    Returns
    -------
    list of str
        What was done, one line each; empty for a record that needs nothing.

    Raises
    ------
    RecordNotFoundError, LockedError
    ReadOnlyError
        A packed record: unpack it first.
    FormatError
        Damage that is not the trace of an interrupted write; ``molrec validate`` lists it.
    """
    root = Root.existing(path)
    try:
        sections: dict[str, Frame] = {}
        for name in ("system", "frame"):
            node = get_group(root.store, name)
            if node is not None:
                sections[name] = read_frame(root.store, name, node, sections=sections.get)
        restorer = Restorer(root.store, sections, root.known, dry_run=dry_run, every_shard=True)
        for key in ("", *DOCUMENTS):
            restorer.remove_temporary(key)
        if get_group(root.store, "trajectory") is None:
            return restorer.done
        with warnings.catch_warnings():
            # What the warning advises is under way.
            warnings.simplefilter("ignore", TornIndexWarning)
            restorer.restore()
        if restorer.done and not dry_run:
            drop_consolidated(root.store, root.known)
        return restorer.done
    finally:
        root.release()
