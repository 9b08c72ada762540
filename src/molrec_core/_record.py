"""Opening a record, and writing a whole one.

One Zarr V3 root holds every section. :func:`open_record` reads the root and the
version, nothing else; each section is read at its first access, so that one that
breaks the contract leaves the others open.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from molrec_core._document import check_section, check_version
from molrec_core._fixed import get_group, listed
from molrec_core._forcefield import ForceField, read_forcefield
from molrec_core._frame import Frame
from molrec_core._group import read_frame
from molrec_core._locate import locate
from molrec_core._metrics import MetricsReader
from molrec_core._node import GroupNode
from molrec_core._observables import Observable, read_observables
from molrec_core._store import ZARR_JSON, Store, join, not_a_record
from molrec_core._trajectory_reader import TrajectoryReader
from molrec_core.errors import FormatError, Problems, SectionNotFoundError

Path = str | os.PathLike[str]
SECTIONS = (
    "meta", "status", "method", "system", "frame", "trajectory", "forcefield", "observables", "metrics",
)  # fmt: skip
SUFFICIENT = ("frame", "system", "trajectory", "forcefield", "status")
"""Sections each of which makes a record on its own (checklist U13)."""


class Record:
    """An open record.

    Sections are read at their first access and kept. Asking for one that is not there
    raises :class:`SectionNotFoundError`; ``record.get("system")`` gives None instead, and
    ``"system" in record`` tells.

    Raises
    ------
    RecordNotFoundError
        There is no record.
    UnsupportedVersionError
        Its version is not one this reader knows.
    FormatError
        The root holds none of the sections that make a record.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, Any] = {}
        self._bare: dict[str, Frame] = {}
        root = get_group(store, "")
        if root is None:
            raise not_a_record(store.path, "there is no zarr.json")
        self._meta = self._document("meta") or {}
        check_version(self._meta)
        if not any(self._has(name) for name in SUFFICIENT):
            raise FormatError.one(
                store.path,
                "no_section",
                f"the root holds none of {', '.join(SUFFICIENT)}; one of them makes a record",
            )

    def _has(self, section: str) -> bool:
        return self._store.get(join(section, ZARR_JSON)) is not None

    def _group(self, section: str) -> GroupNode:
        node = get_group(self._store, section)
        if node is None:
            msg = f"the record has no {section}; it has {', '.join(self.sections)}"
            raise SectionNotFoundError(msg, loc=section)
        return node

    def _document(self, section: str) -> dict[str, Any] | None:
        node = get_group(self._store, section)
        return None if node is None else dict(node.attributes)

    def _checked_document(self, section: str) -> dict[str, Any]:
        document = dict(self._group(section).attributes)
        problems = Problems()
        check_section(section, document, problems)
        problems.raise_errors()
        return document

    def _keep(self, section: str, value: Any) -> Any:
        self._kept[section] = value
        return value

    @property
    def path(self) -> str:
        """Where the record is."""
        return self._store.path

    @property
    def store(self) -> Store:
        """The store behind the record."""
        return self._store

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of the sections that are there; unknown ones after the known."""
        known = [name for name in SECTIONS if self._has(name)]
        others = [n for n in listed(self._store, "") if n not in SECTIONS and self._has(n)]
        return (*known, *others)

    @property
    def meta(self) -> dict[str, Any]:
        """The ``meta`` document; empty for a store that has none."""
        problems = Problems()
        check_section("meta", self._meta, problems)
        problems.raise_errors()
        return copy.deepcopy(self._meta)

    @property
    def status(self) -> dict[str, Any]:
        """The ``status`` document, as it stands now."""
        return self._checked_document("status")

    @property
    def method(self) -> dict[str, Any]:
        """The ``method`` document."""
        return self._checked_document("method")

    @property
    def system(self) -> Frame:
        """The ``system`` section: what does not change over the run."""
        return self._frame("system")

    @property
    def frame(self) -> Frame:
        """The ``frame`` section: a single state."""
        return self._frame("frame")

    def _frame(self, section: str) -> Frame:
        if section not in self._kept:
            node = self._group(section)
            self._keep(section, read_frame(self._store, section, node, sections=self._find))
        kept: Frame = self._kept[section]
        return kept

    def _find(self, section: str) -> Frame | None:
        """Return a frame-shaped section for row references; None when the record does not have it."""
        if section not in {"frame", "system"} or not self._has(section):
            return None
        if section in self._kept:
            kept: Frame = self._kept[section]
            return kept
        if section not in self._bare:
            # Without its own references: two sections may refer to each other.
            self._bare[section] = read_frame(
                self._store, section, self._group(section), sections=lambda _: None
            )
        return self._bare[section]

    @property
    def trajectory(self) -> TrajectoryReader:
        """The ``trajectory`` section."""
        if "trajectory" not in self._kept:
            self._group("trajectory")
            self._keep("trajectory", TrajectoryReader(self._store, sections=self._find))
        kept: TrajectoryReader = self._kept["trajectory"]
        return kept

    @property
    def forcefield(self) -> ForceField:
        """The ``forcefield`` section, as stored."""
        if "forcefield" not in self._kept:
            node = self._group("forcefield")
            self._keep("forcefield", read_forcefield(self._store, node, self._meta))
        kept: ForceField = self._kept["forcefield"]
        return kept

    @property
    def observables(self) -> dict[str, Observable]:
        """The ``observables`` section, by name."""
        if "observables" not in self._kept:
            self._group("observables")
            self._keep("observables", read_observables(self._store))
        kept: dict[str, Observable] = self._kept["observables"]
        return kept

    @property
    def metrics(self) -> MetricsReader:
        """The ``metrics`` section: dense series and the log past their watermark."""
        if "metrics" not in self._kept:
            self._keep("metrics", MetricsReader(self._store))
        kept: MetricsReader = self._kept["metrics"]
        return kept

    def get(self, section: str, default: Any = None) -> Any:
        """Return a section; `default` when the record does not have it."""
        return getattr(self, section) if section in self else default

    def __contains__(self, section: object) -> bool:
        """Whether the record has a known section."""
        return isinstance(section, str) and section in SECTIONS and self._has(section)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the sections."""
        return iter(self.sections)

    def close(self) -> None:
        """Close files; sections that were read stay usable, the trajectory does not."""
        if "trajectory" in self._kept:
            self._kept["trajectory"].close()
        self._store.close()

    def __enter__(self) -> Self:
        """Return the record."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the store; sections are read anew."""
        return type(self), (self._store,)

    def __repr__(self) -> str:
        """Return the path and the sections."""
        return f"Record({self.path!r}: {', '.join(self.sections)})"


def open_record(path: Any, mode: str = "r", *, storage_options: Mapping[str, Any] | None = None) -> Record:
    """Open a record for reading.

    Parameters
    ----------
    path : str, path-like or zarr store
        A directory (a trailing slash is fine), a ``*.mrec.zip``, a URL that fsspec knows,
        or a store of zarr-python.
    mode : {"r"}
        Records are written by :class:`TrajectoryWriter` and :func:`write_mrec`.
    storage_options : mapping, optional
        For a URL: passed to fsspec.

    Raises
    ------
    RecordNotFoundError
        There is no record; the message says what was found.
    """
    if mode != "r":
        msg = f"mode {mode!r}: records are opened with 'r'; TrajectoryWriter and TrajectoryWriter.reopen write them"
        raise ValueError(msg)
    store = locate(path, storage_options)
    try:
        return Record(store)
    except BaseException:
        store.close()
        raise


def read_mrec(path: Any, *, storage_options: Mapping[str, Any] | None = None) -> Record:
    """Open a record; the same as :func:`open_record`."""
    return open_record(path, storage_options=storage_options)


def read_mrec_system(path: Any, *, storage_options: Mapping[str, Any] | None = None) -> Frame:
    """Return the ``system`` of a record."""
    with open_record(path, storage_options=storage_options) as record:
        return record.system


def read_mrec_trajectory(path: Any, *, storage_options: Mapping[str, Any] | None = None) -> TrajectoryReader:
    """Return the trajectory of a record."""
    return open_record(path, storage_options=storage_options).trajectory


def read_mrec_meta(path: Any, *, storage_options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the ``meta`` document of a record."""
    with open_record(path, storage_options=storage_options) as record:
        return record.meta


def mrec_sections(path: Any, *, storage_options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Return the names of a record's sections."""
    with open_record(path, storage_options=storage_options) as record:
        return record.sections
