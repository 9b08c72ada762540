"""One state of a LAMMPS run as plain arrays, gathered from all ranks and sorted by atom id."""

from __future__ import annotations

import functools
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = np.ndarray[Any, Any]

# Of lammps.constants, which stay as they are: an installed LAMMPS is needed by those who have an instance alone.
_GLOBAL, _ATOM = 0, 1
_SCALAR, _VECTOR, _ARRAY, _COLUMNS = 0, 1, 2, 5
_VARIABLE_ATOM = 1

CANONICAL = ("pe", "ke", "etotal", "temp", "press", "vol")
"""Thermo keywords that are known without a thermo_style that prints them."""

_KINETIC = "molrec_ke"
_COMPUTES = {"pe": "thermo_pe", "ke": _KINETIC, "temp": "thermo_temp", "press": "thermo_press"}
# Keywords read from thermo output, which `thermo_modify norm yes` divides by the number of atoms.
_NORMED = frozenset(
    """evdwl ecoul epair ebond eangle edihed eimp emol elong etail enthalpy ecouple econserve""".split()  # noqa: SIM905 - read as LAMMPS lists them
)

# Name here, the setting that says whether LAMMPS has it, its name there, and whether it is a real.
_IDENTITY = (
    ("type", "", "type", 0),
    ("molecule", "molecule_flag", "molecule", 0),
    ("q", "q_flag", "q", 1),
    ("mass", "rmass_flag", "rmass", 1),
)

RELATIONS = {"bonds": 2, "angles": 3, "dihedrals": 4, "impropers": 4}
"""Relation -> number of atoms."""


@dataclass(slots=True)
class Sample:
    """One state of a run.

    Attributes
    ----------
    step : int
    time : float
        In the time unit of the style.
    ids : (n,) int64 array
        Ascending; every array below has the atoms in this order.
    atoms : dict of str to array
        ``x``, and ``v``, ``f`` where asked for: (3, n) float64; ``image``: (3, n) int32.
    identity : dict of str to (n,) array
        ``type``, and ``molecule``, ``q``, ``mass`` where the atom style has them; like `ids`,
        `image` and each relation the same object as before while nothing of it changed.
    arrays : dict of str to (n,) or (n, k) float64 array
        Per-atom computes, fixes and variables, by the name they were asked for.
    relations : dict of str to (m, 1 + k) int64 array
        Type and atom ids of each bond, angle, dihedral and improper, in a fixed order.
    thermo : dict of str to float
        By keyword; totals.
    origin : (3,) float64 array
    vectors : (3, 3) float64 array
        Lattice vectors as COLUMNS.
    boundary : (3,) bool array
    """

    step: int
    time: float
    ids: Array
    origin: Array
    vectors: Array
    boundary: Array
    atoms: dict[str, Array] = field(default_factory=dict)
    identity: dict[str, Array] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    relations: dict[str, Array] = field(default_factory=dict)
    thermo: dict[str, float] = field(default_factory=dict)


class Sampler:
    """Reads states from a LAMMPS instance; every rank calls it, and gets the same.

    Parameters
    ----------
    lmp : lammps.lammps
    vectors : sequence of str
        ``v`` and ``f`` where velocities and forces are wanted.
    arrays : sequence of str
        Names as a dump takes them: ``c_pe``, ``f_ave[2]``, ``v_x``, ``i_flag``, ``d_value``.
    group : str
        ``all``, or the group whose atoms are written.

    Raises
    ------
    ValueError
        There is no such group, compute, fix or variable, or an atom-style variable under several ranks.
    """

    def __init__(self, lmp: Any, vectors: tuple[str, ...], arrays: tuple[str, ...], group: str) -> None:
        self.lmp = lmp
        self.serial = lmp.extract_setting("world_size") == 1
        self.vectors = vectors
        self.arrays = {name: _parse_array(name) for name in arrays}
        self._group = _group_bit(lmp, group)
        self._local = 0
        self._columns: list[tuple[str, str, int]] = []
        self._kept: dict[str, tuple[Any, Any]] = {}
        for name, (kind, ident, _) in self.arrays.items():
            self._check_array(name, kind, ident)

    def _check_array(self, name: str, kind: str, ident: str) -> None:
        category = {"c": "compute", "f": "fix", "v": "variable"}.get(kind)
        if category is not None and not self.lmp.has_id(category, ident):
            raise ValueError(f"there is no {category} {ident!r}, which the array {name!r} names")
        if kind == "v" and not self.serial:
            raise ValueError(
                f"{name!r}: LAMMPS hands an atom-style variable to one rank at a time; under several ranks define "
                f"'fix {ident} all ave/atom 1 1 N v_{ident}' and ask for 'f_{ident}'"
            )

    # -- thermo

    @contextmanager
    def tallying(self, every: int, *, thermo: bool) -> Iterator[None]:
        """See to it that what a run computes only on demand is there at the multiples of `every`."""
        lmp = self.lmp
        if thermo and not lmp.has_id("compute", _KINETIC):
            lmp.command(f"compute {_KINETIC} all ke")
        made: list[str] = []
        if not hasattr(lmp, "addstep_compute_all"):
            # Releases before 2025 tally for fixes alone, and a fix forbids reset_timestep while it stands.
            wanted = [("ave/time", "c_thermo_pe c_thermo_press")] if thermo else []
            wanted += [("ave/atom", name) for name, (kind, _, _) in self.arrays.items() if kind == "c"]
            made += [self._tally(f"molrec_tally{i}", every, *what) for i, what in enumerate(wanted)]
        try:
            yield
        finally:
            for fix in made:
                lmp.command(f"unfix {fix}")

    def _tally(self, fix: str, every: int, style: str, names: str) -> str:
        command = f"fix {fix} all {style} 1 1 {every} {names}"
        try:
            self.lmp.command(command)
        except Exception:  # noqa: BLE001 - LAMMPS raises no other
            # One column of an array stands for all of it.
            self.lmp.command(f"{command}[1]")
        return fix

    def schedule(self, step: int) -> None:
        """Have energies, virials and per-atom values tallied at `step`."""
        if hasattr(self.lmp, "addstep_compute_all"):
            self.lmp.addstep_compute_all(step)

    def thermo(self, keywords: tuple[str, ...]) -> dict[str, float]:
        """Return thermo keywords, and global ``c_ID``, ``f_ID``, ``v_NAME``, of the state a run has just reached.

        Raises
        ------
        ValueError
            A keyword that LAMMPS does not know, or that no thermo output has computed.
        """
        natoms = self.lmp.get_natoms()
        setting = self.lmp.extract_setting("thermo_norm")
        # Releases before 2025 do not tell; lj is the style that divides unless told not to.
        normed = setting == 1 if setting >= 0 else self.lmp.extract_global("units") == "lj"
        values: dict[str, float] = {}
        for keyword in keywords:
            try:
                value = self._keyword(keyword)
            except Exception as error:
                raise ValueError(
                    f"thermo keyword {keyword!r}: {error}; add it to thermo_style custom"
                ) from error
            values[keyword] = value * natoms if normed and keyword in _NORMED else value
        return values

    def _keyword(self, keyword: str) -> float:
        lmp, scalar = self.lmp, self.lmp.extract_compute
        if keyword == "etotal":
            return float(scalar("thermo_pe", _GLOBAL, _SCALAR) + scalar(_KINETIC, _GLOBAL, _SCALAR))
        if keyword in _COMPUTES:
            return float(scalar(_COMPUTES[keyword], _GLOBAL, _SCALAR))
        kind, ident = keyword[:2], keyword[2:]
        if kind == "c_":
            return float(scalar(ident, _GLOBAL, _SCALAR))
        if kind == "f_":
            return float(lmp.extract_fix(ident, _GLOBAL, _SCALAR))
        return float(lmp.extract_variable(ident) if kind == "v_" else lmp.get_thermo(keyword))

    # -- a state

    def sample(self, thermo: tuple[str, ...] = ()) -> Sample:
        """Return the present state; a collective call under several ranks."""
        lmp = self.lmp
        self._local = lmp.extract_setting("nlocal")
        raw = self._gather("id", 0, 1)
        stamp = raw.tobytes()
        if self._group is not None:
            stamp += (self._gather("mask", 0, 1) & self._group).tobytes()
        order = self._keep("order", stamp, lambda: self._sorted(raw))
        low, high, xy, yz, xz, periodic, _ = lmp.extract_box()
        step = int(lmp.extract_global("ntimestep"))
        found = Sample(
            step,
            lmp.extract_global("atime") + (step - lmp.extract_global("atimestep")) * lmp.extract_global("dt"),
            self._keep("ids", stamp, lambda: raw[order].astype(np.int64)),
            np.array(low),
            np.array([[high[0] - low[0], xy, xz], [0.0, high[1] - low[1], yz], [0.0, 0.0, high[2] - low[2]]]),
            np.array(periodic, dtype=bool),
        )
        for name in ("x", *self.vectors):
            found.atoms[name] = self._gather(name, 1, 3).T.take(order, axis=1)
        found.atoms["image"] = self._images(order, stamp)
        found.identity = self._identity(order, stamp)
        for name, (kind, ident, column) in self.arrays.items():
            values = self._per_atom(kind, ident)
            found.arrays[name] = (values if column is None else values[:, column])[order]
        if "molecule" in found.identity:
            found.relations = self._relations(found.ids)
        if thermo:
            found.thermo = self.thermo(thermo)
        return found

    def _keep(self, what: str, stamp: Any, make: Callable[[], Any]) -> Any:
        """Return what was made last while its stamp is the same, else make it anew.

        Most of a state stays from frame to frame; who gets the same object need not look at it.
        """
        kept = self._kept.get(what)
        if kept is None or kept[0] != stamp:
            kept = self._kept[what] = (stamp, make())
        return kept[1]

    def _sorted(self, raw: Array) -> Array:
        """Return the rows of the atoms to write, by ascending id."""
        order = np.argsort(raw, kind="stable")
        return order if self._group is None else order[(self._gather("mask", 0, 1)[order] & self._group) != 0]

    def _identity(self, order: Array, stamp: bytes) -> dict[str, Array]:
        """Return what the atoms are; the same dict while none of it changes."""
        if not self._columns:
            self._columns = [
                (name, source, kind) for name, flag, source, kind in _IDENTITY if self._has(flag)
            ]
        raw = {name: self._gather(source, kind, 1) for name, source, kind in self._columns}
        masses = () if "mass" in raw else self._type_masses()

        def make() -> dict[str, Array]:
            made = {name: values[order] for name, values in raw.items()}
            if masses:
                made["mass"] = np.array((0.0, *masses))[made["type"]]
            return made

        return cast(
            "dict[str, Array]", self._keep("identity", (stamp, masses, *map(bytes, raw.values())), make)
        )

    def _has(self, setting: str) -> bool:
        return not setting or bool(self.lmp.extract_setting(setting) == 1)

    def _type_masses(self) -> tuple[float, ...]:
        per_type = self.lmp.extract_atom("mass")
        return () if per_type is None else tuple(per_type[1 : self.lmp.extract_setting("ntypes") + 1])

    def _gather(self, name: str, kind: int, count: int) -> Array:
        """Return a per-atom property of all atoms, ghosts excluded, in LAMMPS's own order."""
        lmp = self.lmp
        if self.serial:
            # Older releases give ghosts as well; none of them comes before what is local.
            return np.asarray(lmp.numpy.extract_atom(name)[: self._local])
        if lmp.get_natoms() == 0:
            return np.zeros((0, count) if count > 1 else 0, dtype=np.float64 if kind else np.int32)
        values = np.ctypeslib.as_array(lmp.gather_concat(name, kind, count))
        return values.reshape(-1, count) if count > 1 else values

    def _images(self, order: Array, stamp: bytes) -> Array:
        """Return image flags, (3, n) int32; the same array while none of them changes."""
        packed = self._gather("image", 0, 1 if self.serial else 3)
        unpack = self._unpack if self.serial else np.asarray
        return cast(
            "Array",
            self._keep(
                "image",
                (stamp, packed.tobytes()),
                lambda: unpack(packed).T.take(order, axis=1).astype(np.int32),
            ),
        )

    def _unpack(self, packed: Array) -> Array:
        """Unpack image flags: 10 bits each of 32, or 21 of 64, offset to be positive."""
        bits = 21 if self.lmp.extract_setting("imageint") == 8 else 10
        wide = packed.astype(np.int64)
        low = (1 << bits) - 1
        return np.stack([wide & low, (wide >> bits) & low, wide >> (2 * bits)], axis=1) - (1 << (bits - 1))

    def _per_atom(self, kind: str, ident: str) -> Array:
        lmp = self.lmp
        if kind == "v":
            values = lmp.numpy.extract_variable(ident, "all", _VARIABLE_ATOM)
            return np.array(values[: self._local], dtype=np.float64)
        name = f"{kind}_{ident}"
        if kind in "id":
            return self._gather(name, 1 if kind == "d" else 0, 1).astype(np.float64)
        read = "extract_compute" if kind == "c" else "extract_fix"
        columns = getattr(lmp, read)(ident, _ATOM, _COLUMNS)
        if self.serial:
            values = getattr(lmp.numpy, read)(ident, _ATOM, _ARRAY if columns else _VECTOR)
            return np.array(values[: self._local], dtype=np.float64)
        return self._gather(name, 1, max(columns, 1))

    def _relations(self, ids: Array) -> dict[str, Array]:
        found = {}
        for name, width in RELATIONS.items():
            if not self.lmp.extract_setting(f"n{name[:-1]}types") > 0:
                continue
            count, flat = getattr(self.lmp, f"gather_{name}")()
            rows = np.ctypeslib.as_array(flat) if count else np.zeros(0, np.int64)
            make = functools.partial(sorted_relations, rows.reshape(-1, 1 + width), ids)
            found[name] = self._keep(name, (rows.tobytes(), ids.tobytes()), make)
        return found


def sorted_relations(rows: Array, ids: Array) -> Array:
    """Return type and atom ids of each relation among `ids`, in an order that does not depend on LAMMPS's own."""
    # Type 0 pads a list that is shorter than its count; a constrained bond has a negative one.
    rows = np.abs(rows.astype(np.int64)[(rows[:, 0] != 0) & np.isin(rows[:, 1:], ids).all(axis=1)])
    order: Array = np.lexsort([rows[:, 0], *rows[:, :0:-1].T])
    return rows[order]


def _parse_array(name: str) -> tuple[str, str, int | None]:
    match = re.fullmatch(r"([cfvid])_(\w+)(?:\[(\d+)\])?", name)
    if match is None:
        raise ValueError(
            f"the array {name!r} is none of c_ID, f_ID, v_NAME, i_NAME, d_NAME, with [N] for a column"
        )
    kind, ident, column = match.groups()
    return kind, ident, None if column is None else int(column) - 1


def _group_bit(lmp: Any, group: str) -> int | None:
    if group == "all":
        return None
    groups = lmp.available_ids("group")
    if group not in groups:
        raise ValueError(f"there is no group {group!r}; there are {', '.join(g for g in groups if g)}")
    return 1 << int(groups.index(group))


def type_labels(lmp: Any) -> dict[str, dict[int, str]]:
    """Return the type labels of atoms, bonds, angles, dihedrals and impropers: kind -> type -> label.

    LAMMPS hands its label map out as a file alone.
    """
    labels: dict[str, dict[int, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels"
        lmp.command(f"labelmap write {file}")
        text = file.read_text(encoding="utf-8") if file.exists() else ""
    for line in text.splitlines():
        words = line.split(maxsplit=2)
        if len(words) == 3 and words[0] == "labelmap":
            labels[words[1]] = {int(n): label for n, label in re.findall(r'(\d+) """ (.*?) """', words[2])}
    return labels
