"""The ``metrics`` section."""

from __future__ import annotations

from molrec_core._store import Store


class MetricsReader:
    """Reads the section."""

    def __init__(self, store: Store) -> None:
        raise NotImplementedError
