"""The ``observables`` section: named results, each an array beside its metadata document.

``observables/<name>`` holds the values, the attributes of ``observables/meta/<name>``
say what they are (checklist group E). A kind or key that is not known is carried as it
is; one half without the other is refused.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from molrec_core._array import open_array
from molrec_core._dtypes import as_column, name_problem
from molrec_core._fixed import child_nodes, get_group, write_array
from molrec_core._frame import same_array
from molrec_core._node import ArrayNode, GroupNode, group_document
from molrec_core._store import ZARR_JSON, DirectoryStore, Store, join
from molrec_core._typedjson import check_document, same
from molrec_core.errors import Problems, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

SECTION = "observables"
META = "meta"
_TEXTS = ("unit", "sampling", "domain", "target")


@dataclass(eq=False)
class Observable:
    """A named result: values, and what they are.

    Attributes
    ----------
    values : ndarray
        Any shape, a single value included, in one of the thirteen column dtypes; in `unit`.
    meta : dict
        ``kind`` (``scalar``, ``vector`` or the producer's own), ``description`` and
        ``time_dependent`` are required; ``unit``, ``axes``, ``sampling``, ``domain`` and
        ``target`` may be there, every other key is the producer's.

    Raises
    ------
    SchemaError
        The values have none of the column dtypes.

    Examples
    --------
    >>> energy = Observable(-76.4, {"kind": "scalar", "description": "SCF energy",
    ...                             "time_dependent": False, "unit": "hartree"})
    >>> energy.unit
    'hartree'
    """

    values: np.ndarray[Any, Any]
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = as_column(self.values, SECTION)
        self.meta = copy.deepcopy(dict(self.meta))

    @property
    def kind(self) -> str:
        """How the values are read."""
        return str(self.meta["kind"])

    @property
    def time_dependent(self) -> bool:
        """Whether the leading axis is that of the trajectory."""
        return bool(self.meta["time_dependent"])

    @property
    def unit(self) -> str | None:
        """Unit of the values; None when none is stated."""
        return self.meta.get("unit")

    def __eq__(self, other: object) -> bool:
        """Compare exactly and type-strictly."""
        if not isinstance(other, Observable):
            return NotImplemented
        return same_array(self.values, other.values) and same(self.meta, other.meta)

    __hash__ = None  # type: ignore[assignment]  # arrays are mutable


def _meta_problems(meta: Mapping[str, Any], ndim: int) -> Iterator[tuple[str, str, str]]:
    """Yield key, kind and message of every rule a metadata document breaks (E07, E10)."""
    for key in ("kind", "description"):
        if not isinstance(meta.get(key), str):
            yield key, "observable_meta", f"{key} is {meta.get(key)!r}; a string is required"
    if meta.get("kind") == "":
        yield "kind", "observable_meta", "kind is empty; say how the array is read, e.g. 'scalar'"
    if not isinstance(meta.get("time_dependent"), bool):
        found = meta.get("time_dependent")
        yield "time_dependent", "observable_meta", f"time_dependent is {found!r}; true or false is required"
    elif meta["time_dependent"] and ndim == 0:
        yield (
            "time_dependent",
            "observable_shape",
            "a time-dependent observable needs a leading axis; it is one value",
        )
    for key in _TEXTS:
        if not isinstance(meta.get(key, ""), str):
            yield key, "observable_meta", f"{key} is {meta[key]!r}; a string is expected"
    axes = meta.get("axes", [])
    if not isinstance(axes, list | tuple) or not all(isinstance(axis, str) for axis in axes):
        yield "axes", "observable_meta", f"axes is {axes!r}; a list of names is expected"


def _check(name: str, meta: Mapping[str, Any], ndim: int, problems: Problems) -> None:
    for key, kind, message in _meta_problems(meta, ndim):
        problems.add(f"{SECTION}/{META}/{name}/{key}", kind, message)


def read_observables(store: Store) -> dict[str, Observable]:
    """Read the section.

    Raises
    ------
    FormatError
        Values without metadata or the reverse, a required key that is missing, a data
        type outside the thirteen.
    """
    problems = Problems()
    meta_node = get_group(store, join(SECTION, META))
    documents = {} if meta_node is None else child_nodes(store, join(SECTION, META))
    # A group beside the arrays is no observable; it is unknown content and stays where it is.
    arrays = {n: c for n, c in child_nodes(store, SECTION).items() if isinstance(c, ArrayNode)}
    found: dict[str, Observable] = {}
    for name, node in arrays.items():
        loc = join(SECTION, name)
        document = documents.get(name)
        problem = name_problem(name, "observable")
        if problem:
            problems.add(loc, "bad_name", problem)
        elif node.dtype is None:
            text = f"data type {node.data_type!r} is none of the column data types; it is not widened"
            problems.add(loc, "data_type", text)
        elif not isinstance(document, GroupNode):
            problems.add(loc, "observable_without_meta", f"values without a group {SECTION}/{META}/{name}")
        else:
            _check(name, document.attributes, len(node.shape), problems)
            if not problems.errors:
                found[name] = Observable(open_array(store, loc, node).all(), document.attributes)
    for name in documents:
        if name not in arrays:
            loc = join(SECTION, META, name)
            problems.add(loc, "observable_without_data", f"metadata without an array {SECTION}/{name}")
    problems.raise_errors()
    return found


def write_observables(store: DirectoryStore, observables: Mapping[str, Observable]) -> None:
    """Write the section; nothing is written when one of its rules is broken.

    Raises
    ------
    SchemaError
        A name that is not allowed, a required key that is missing, a document that is not plain JSON.
    """
    problems = Problems()
    for name, observable in observables.items():
        loc = f"{SECTION}/{name}"
        problem = name_problem(name, "observable")
        if problem:
            raise SchemaError.one(loc, "bad_name", problem)
        if name == META:
            raise SchemaError.one(loc, "reserved_name", "'meta' is the name of the metadata groups")
        check_document(observable.meta, join(SECTION, META, name))
        _check(name, observable.meta, observable.values.ndim, problems)
    if problems.errors:
        raise SchemaError(problems.errors)
    store.mkdir(join(SECTION, META))
    for name, observable in observables.items():
        write_array(store, join(SECTION, name), observable.values)
        key = join(SECTION, META, name)
        store.mkdir(key)
        store.replace(join(key, ZARR_JSON), group_document(observable.meta, key))
    for key in (join(SECTION, META), SECTION):
        store.replace(join(key, ZARR_JSON), group_document({}, key))
