"""Per-atom views, elements, residues and segments (sections 1 and 2 of the host mapping)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from molrec_core._dtypes import refuse
from molrec_core._hosts_columns import Columns, host_name, restore

if TYPE_CHECKING:
    from molrec_core._frame import Block, Frame
    from molrec_core._schema import SequenceSchema

Array = np.ndarray[Any, Any]

ELEMENTS: tuple[str, ...] = tuple(
    """X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr
    Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu
    Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg
    Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og""".split()  # noqa: SIM905 - 119 quoted symbols read worse
)
"""Symbols by atomic number; ``X`` stands at 0 for what is no element."""

_NUMBERS = {symbol: number for number, symbol in enumerate(ELEMENTS)} | {"D": 1, "T": 1}


def element_numbers(symbols: Sequence[Any] | Array) -> Array:
    """Return the atomic number of each symbol, (n,) uint64; 0 for None, ``X`` and what is no symbol."""
    cache: dict[Any, int] = {None: 0}
    for symbol in symbols:
        if symbol not in cache:
            cache[symbol] = _NUMBERS.get(str(symbol).strip().capitalize(), 0)
    return np.array([cache[symbol] for symbol in symbols], dtype=np.uint64)


def element_symbols(numbers: Sequence[int] | Array) -> Array:
    """Return the symbol of each atomic number, (n,) ``<U2``; ``X`` for 0 and beyond 118."""
    given = np.asarray(numbers).astype(np.int64)
    return np.array(ELEMENTS)[np.where((given > 0) & (given < len(ELEMENTS)), given, 0)]


class AtomView(Mapping[str, Array]):
    """The columns of all blocks that describe one set of atoms, joined row by row.

    Attributes
    ----------
    count : int
        Number of atoms.
    validity : dict of str to (count,) bool array
    paths : dict of str to str
        Where each column stands in the record: the keys of ``meta.host_dtypes``.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.validity: dict[str, Array] = {}
        self.paths: dict[str, str] = {}
        self._columns: dict[str, Array] = {}

    def join(self, section: str, name: str, block: Block | None) -> None:
        """Add the columns of a block of as many rows; later blocks win a shared name."""
        if block is None or block.count != self.count:
            return
        for column, values in block.items():
            self._columns[column] = values
            self.paths[column] = f"{section}/{name}/{column}"
            self.validity.pop(column, None)
            if column in block.validity:
                self.validity[column] = block.validity[column]

    def host(self, name: str, host_dtypes: Mapping[str, str] | None = None) -> Array | None:
        """Return a column as the host had it (:func:`restore`), ``host.<name>`` where that is the one; None if absent."""
        stored = name if name in self._columns else f"host.{name}"
        if stored not in self._columns:
            return None
        dtype = (host_dtypes or {}).get(self.paths[stored])
        return restore(self._columns[stored], self.validity.get(stored), dtype)

    def host_names(self) -> dict[str, str]:
        """Return host name -> stored name of the columns neither the format nor the host mapping names."""
        return {own: stored for stored in self if (own := host_name(stored)) is not None}

    def elements(self) -> tuple[Array, Array] | None:
        """Return symbols (``<U2`` or object with None) and atomic numbers (uint64) of the atoms.

        Each is filled from the other; None where the record has neither, and nothing
        is guessed from names.
        """
        symbols, numbers = self.host("element"), self.host("atomic_number")
        if symbols is None and numbers is None:
            return None
        if numbers is None:
            return symbols, element_numbers(symbols)  # type: ignore[arg-type,return-value]
        known = np.array([0 if n is None else n for n in numbers.tolist()], dtype=np.uint64)
        return (element_symbols(known) if symbols is None else symbols), known

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def atoms_of(system: Frame | None, frame: Frame | None, schema: SequenceSchema | None = None) -> AtomView:
    """Join ``system/atoms``, the blocks aligned with ``atoms``, and ``atoms`` of a frame.

    Parameters
    ----------
    system : Frame, optional
        The record's system.
    frame : Frame, optional
        One frame of its trajectory; without it the atoms are the system's.
    schema : SequenceSchema, optional
        The pin, which says what is aligned; without one ``identity`` is taken to be.

    Returns
    -------
    AtomView
        The frame wins over the system where both have a column. No atoms: `count` 0.
    """
    fixed = system.get("atoms") if system is not None else None
    moving = frame.get("atoms") if frame is not None else None
    lead = moving if moving is not None else fixed
    view = AtomView(0 if lead is None else lead.count)
    view.join("system", "atoms", fixed)
    if frame is not None:
        aligned = (
            ["identity"]
            if schema is None
            else [name for name, block in schema.blocks.items() if block.aligned_with == "atoms"]
        )
        for name in aligned:
            view.join("trajectory", name, frame.get(name))
    view.join("trajectory", "atoms", moving)
    return view


@dataclass(slots=True)
class Hierarchy:
    """Residues and segments of the atoms, as plain numpy.

    Attributes
    ----------
    residue : (n_atoms,) int64 array
        Row of each atom's residue.
    segment : (n_residues,) int64 array
        Row of each residue's segment.
    residues : dict of str to (n_residues,) array
        ``res_name``, ``icode``, ``label``, ``seg_id`` strings; ``res_seq`` int64, or objects
        where some are None; any other attribute of residues under its host's name.
    segments : dict of str to (n_segments,) array
        ``seg_id``, ``chain`` strings (objects where some are None), and others likewise.
    n_segments : int
        Empty segments included.
    """

    residue: Array
    segment: Array
    residues: dict[str, Array] = field(default_factory=dict)
    segments: dict[str, Array] = field(default_factory=dict)
    n_segments: int = 0


_RESIDUE_KEYS = frozenset({"res_name", "icode", "label", "res_seq", "seg_id"})
_SEGMENT_KEYS = frozenset({"seg_id", "chain"})


def store_hierarchy(hierarchy: Hierarchy, atoms: Columns, section: str = "system") -> dict[str, Block]:
    """Add a hierarchy's columns to `atoms` and return the blocks ``residues`` and ``segments``.

    Parameters
    ----------
    hierarchy : Hierarchy
    atoms : Columns
        The atoms (or ``identity``) in the making; gets ``residue``, ``res_id`` and, where
        the hierarchy has them and `atoms` does not, ``res_name``, ``icode`` and ``chain``.
        Its block takes ``targets={"residue": "residues"}``.
    section : str
        ``system`` or ``trajectory``.

    Raises
    ------
    TypeError
        A column that no dtype holds exactly, naming it.
    """
    residue = np.asarray(hierarchy.residue, dtype=np.int64)
    segment = np.asarray(hierarchy.segment, dtype=np.int64)
    residues = Columns(f"{section}/residues", atoms.host_dtypes)
    residues.put("segment", segment.astype(np.uint64))
    for name, values in hierarchy.residues.items():
        if name == "res_seq":
            _put_res_seq(residues, values)
        elif name == "seg_id":
            residues.put(name, _without(values, _segment_ids(hierarchy), segment))
        elif name in _RESIDUE_KEYS:
            residues.put(name, values)
        else:
            residues.put_host(name, values)
    segments = Columns(f"{section}/segments", atoms.host_dtypes)
    for name, values in hierarchy.segments.items():
        (segments.put if name in _SEGMENT_KEYS else segments.put_host)(name, values)
    atoms.put("residue", residue.astype(np.uint64))
    atoms.put("res_id", _flat_res_id(hierarchy.residues.get("res_seq"), len(segment))[residue])
    for name in ("res_name", "icode"):
        if name in hierarchy.residues and name not in atoms:
            atoms.put(name, np.asarray(hierarchy.residues[name])[residue])
    if "chain" in hierarchy.segments and "chain" not in atoms:
        atoms.put("chain", np.asarray(hierarchy.segments["chain"])[segment][residue])
    return {
        "residues": residues.block(targets={"segment": "segments"}),
        "segments": segments.block(count=hierarchy.n_segments),
    }


def _put_res_seq(residues: Columns, values: Array) -> None:
    array = np.asarray(values)
    if array.dtype.kind != "O":
        residues.put("res_seq", array.astype(np.int64))
        return
    items = array.tolist()
    residues.put("res_seq", np.array([0 if item is None else item for item in items], dtype=np.int64))
    valid = np.array([item is not None for item in items], dtype=bool)
    if not valid.all():
        residues.validity["res_seq"] = valid


def _flat_res_id(res_seq: Array | None, count: int) -> Array:
    items = [] if res_seq is None else np.asarray(res_seq).tolist()
    if res_seq is None or any(item is None or item < 0 for item in items):
        return np.arange(1, count + 1, dtype=np.uint64)
    return np.array(items, dtype=np.uint64)


def _segment_ids(hierarchy: Hierarchy) -> Array:
    """Return each segment's id, its chain where it has none."""
    for name in ("seg_id", "chain"):
        if name in hierarchy.segments:
            return np.asarray(hierarchy.segments[name]).astype(object)
    return np.full(hierarchy.n_segments, None, dtype=object)


def _without(values: Array, ids: Array, segment: Array) -> Array:
    own = np.asarray(values).astype(object)
    return np.array(
        [None if item == ids[row] else item for item, row in zip(own, segment, strict=True)], dtype=object
    )


def load_hierarchy(
    atoms: AtomView,
    frame: Frame | None,
    host_dtypes: Mapping[str, str] | None = None,
    section: str = "system",
) -> Hierarchy | None:
    """Return the residues and segments of the atoms; None where the record names none.

    Parameters
    ----------
    atoms : AtomView
        From :func:`atoms_of`.
    frame : Frame, optional
        Where blocks ``residues`` and ``segments`` may stand: the system, or a frame.
    host_dtypes : mapping of str to str, optional
        The record's ``meta.host_dtypes``.
    section : str
        Where `frame` is from: ``system`` or ``trajectory``.

    Notes
    -----
    ``residues`` wins. Else consecutive atoms equal in (res_id, res_name, icode, chain) are
    a residue, and consecutive residues of one chain a segment, so that rows keep their
    order. A missing ``chain`` is the atoms' common one, else ``seg_id``; a missing
    ``seg_id`` the chain. A null is not missing: it is the None a host had.

    Raises
    ------
    FormatError
        A row reference beyond the block it points to.
    """
    block = frame.get("residues") if frame is not None else None
    if block is None or "residue" not in atoms or "residue" in atoms.validity:
        return _from_flat(atoms)
    residue = _rows(atoms["residue"], block.count, atoms.paths["residue"])
    residues = _table(block, f"{section}/residues", host_dtypes)
    parts = frame.get("segments") if frame is not None else None
    if parts is None or "segment" not in block or "segment" in block.validity:
        chain = _first(atoms, "chain", residue, block.count)
        segment, starts = _runs([chain] if chain is not None else [], block.count)
        segments = {} if chain is None else {"chain": chain[starts]}
        n_segments = len(starts)
    else:
        segment = _rows(block["segment"], parts.count, f"{section}/residues/segment")
        segments = _table(parts, f"{section}/segments", host_dtypes)
        n_segments = parts.count
    residues.pop("segment", None)
    for name, flat in (("res_name", "res_name"), ("icode", "icode"), ("res_seq", "res_id")):
        values = None if name in residues else _first(atoms, flat, residue, block.count)
        if values is not None:
            residues[name] = values
    hierarchy = Hierarchy(residue, segment, residues, segments, n_segments)
    _fill_ids(hierarchy, atoms)
    return hierarchy


def _rows(values: Array, count: int, path: str) -> Array:
    if values.size and int(values.max()) >= count:
        raise refuse(path, "target_range", f"row {int(values.max())} is referenced, but there are {count}")
    return values.astype(np.int64)


def _table(block: Block, path: str, host_dtypes: Mapping[str, str] | None) -> dict[str, Array]:
    known = _RESIDUE_KEYS | _SEGMENT_KEYS
    return {
        name if name in known else host_name(name) or name: restore(
            values, block.validity.get(name), (host_dtypes or {}).get(f"{path}/{name}")
        )
        for name, values in block.items()
    }


def _first(atoms: AtomView, name: str, residue: Array, count: int) -> Array | None:
    """Return the value of each residue's first atom; None without the column."""
    values = atoms.host(name)
    if values is None:
        return None
    found = np.full(count, None, dtype=object)
    found[residue[::-1]] = values.astype(object)[::-1]
    return found.astype(np.int64) if name == "res_id" and not (found == None).any() else found  # noqa: E711 - elementwise


def _runs(keys: list[Array], count: int) -> tuple[Array, Array]:
    """Return the run of equal `keys` each row is in, and the first row of each run."""
    change = np.zeros(count, dtype=bool)
    change[:1] = True
    for key in keys:
        change[1:] |= key[1:] != key[:-1]
    return np.cumsum(change) - 1, np.flatnonzero(change)


def _from_flat(atoms: AtomView) -> Hierarchy | None:
    given = {name: atoms.host(name) for name in ("res_id", "res_name", "icode", "chain")}
    columns = {name: values for name, values in given.items() if values is not None}
    if not columns:
        return None
    residue, starts = _runs(list(columns.values()), atoms.count)
    residues = {name: values[starts] for name, values in columns.items() if name in _RESIDUE_KEYS}
    if "res_id" in columns:
        numbers = columns["res_id"][starts]
        residues["res_seq"] = numbers if numbers.dtype.kind == "O" else numbers.astype(np.int64)
    chain = columns["chain"][starts] if "chain" in columns else None
    segment, firsts = _runs([] if chain is None else [chain], len(starts))
    segments = {} if chain is None else {"chain": chain[firsts]}
    hierarchy = Hierarchy(residue, segment, residues, segments, len(firsts))
    _fill_ids(hierarchy, atoms)
    return hierarchy


def _fill_ids(hierarchy: Hierarchy, atoms: AtomView) -> None:
    segments = hierarchy.segments
    if "chain" not in segments:
        common = _common_chain(hierarchy, atoms)
        if common is not None:
            segments["chain"] = common
        elif "seg_id" in segments:
            segments["chain"] = segments["seg_id"]
    if "seg_id" not in segments and "chain" in segments:
        segments["seg_id"] = segments["chain"]
    own = hierarchy.residues.get("seg_id")
    if own is None and not segments.keys() & _SEGMENT_KEYS:
        return
    ids = _segment_ids(hierarchy)[hierarchy.segment]
    if own is not None:
        ids = np.array([a if a is not None else b for a, b in zip(own, ids, strict=True)], dtype=object)
    hierarchy.residues["seg_id"] = ids


def _common_chain(hierarchy: Hierarchy, atoms: AtomView) -> Array | None:
    """Return per segment the chain its atoms share, else its ``seg_id``; None without a ``chain`` of atoms."""
    chain = atoms.host("chain")
    if chain is None:
        return None
    seen: dict[int, set[Any]] = {}
    segment = hierarchy.segment[hierarchy.residue].tolist()
    for row, value in set(zip(segment, chain.tolist(), strict=True)):
        seen.setdefault(row, set()).add(value)
    ids = hierarchy.segments.get("seg_id", np.full(hierarchy.n_segments, None, dtype=object))
    common = [
        seen[row].pop() if len(seen.get(row, ())) == 1 else ids[row] for row in range(hierarchy.n_segments)
    ]
    return np.array(common, dtype=object)
