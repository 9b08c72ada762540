"""The ``observables`` section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from molrec_core._store import DirectoryStore, Store


@dataclass
class Observable:
    """One observable."""

    values: Any


def read_observables(store: Store) -> dict[str, Observable]:
    """Read the section."""
    raise NotImplementedError


def write_observables(store: DirectoryStore, observables: Mapping[str, Observable]) -> None:
    """Write the section."""
    raise NotImplementedError
