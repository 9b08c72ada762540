"""The ``forcefield`` section."""

from __future__ import annotations

from typing import Any

from molrec_core._node import GroupNode
from molrec_core._store import DirectoryStore, Store


class ForceField:
    """A force field."""


def read_forcefield(store: Store, node: GroupNode, meta: dict[str, Any]) -> ForceField:
    """Read the section."""
    raise NotImplementedError


def write_forcefield(store: DirectoryStore, forcefield: ForceField, meta: dict[str, Any]) -> None:
    """Write the section."""
    raise NotImplementedError
