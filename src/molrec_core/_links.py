"""Rules between blocks: row references, aligned blocks, blocks that stand in ``system`` too.

"Row references", "Aligned blocks" and "System and trajectory side by side"; checklist
groups T, L and Y. The writer applies them to a frame as it will resolve, the reader to
frames as they do resolve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from molrec_core._csr import Index
from molrec_core._frame import Block, Frame
from molrec_core._schema import SequenceSchema
from molrec_core.errors import FormatError, SchemaError

Array = np.ndarray[Any, Any]


def highest_row(block: Block, column: str) -> int:
    """Return the highest row number a reference column holds in its non-null rows; -1 without any."""
    values = block[column]
    mask = block.validity.get(column)
    if mask is not None:
        values = values[mask]
    return int(values.max()) if len(values) else -1


def target_rows(sections: Mapping[str, Frame], target: str) -> int | None:
    """Return the rows of an absolute target; None when its section is not in the record, -1 for a missing block."""
    _, section, name = target.split("/")
    frame = sections.get(section)
    if frame is None:
        return None
    return frame[name].count if name in frame else -1


def check_reference(highest: int, rows: int | None, target: str, loc: str, *, known: bool) -> None:
    """Refuse a row reference past its target; a target that cannot be looked up is not checked (T06, T11).

    Raises
    ------
    SchemaError
        ``target_out_of_range`` or ``target_missing_block``.
    """
    if highest < 0 or not known:
        return
    if rows is None or rows < 0:
        raise SchemaError.one(loc, "target_missing_block", f"rows refer to {target!r}, which is not there")
    if highest >= rows:
        raise SchemaError.one(
            loc, "target_out_of_range", f"row {highest} of {target!r}, which has {rows} rows"
        )


def check_aligned(rows: int | None, target_rows: int | None, target: str, loc: str) -> None:
    """Refuse an aligned block whose rows are not its target's; None stands for absent (L05 to L10).

    Raises
    ------
    SchemaError
        ``aligned_count`` or ``aligned_target_absent``.
    """
    if rows is None or rows == target_rows:
        return
    if target_rows is None:
        raise SchemaError.one(
            loc, "aligned_target_absent", f"{rows} rows while the target {target!r} is absent"
        )
    raise SchemaError.one(
        loc,
        "aligned_count",
        f"{rows} rows beside {target_rows} of {target!r}; an aligned block is restated with its target",
    )


@dataclass(frozen=True, slots=True)
class SystemRows:
    """What the trajectory must agree with of a system block of its name: row count, and ids where it has them."""

    count: int
    ids: Array | None = None

    def check(self, block: Block, loc: str) -> None:
        """Refuse an update that is not row for row the system block of its name (checklist Y02, Y03).

        Raises
        ------
        SchemaError
            ``system_rows`` or ``system_id``.
        """
        if block.count != self.count:
            raise SchemaError.one(
                loc,
                "system_rows",
                f"{block.count} rows where the system block of that name has {self.count}",
            )
        if self.ids is not None and "id" in block and not np.array_equal(block["id"], self.ids):
            raise SchemaError.one(
                f"{loc}/id", "system_id", "the ids differ from those of the system block, row for row"
            )


def check_targets(frame: Frame, key: str, sections: Mapping[str, Frame]) -> None:
    """Refuse row references past their target (checklist T02 to T11)."""
    for name, block in frame.items():
        for column, target in block.targets.items():
            loc = f"{key}/{name}/{column}"
            highest = highest_row(block, column)
            if target.startswith("/"):
                rows = target_rows(sections, target)
                check_reference(highest, rows, target, loc, known=rows is not None)
            else:
                rows = frame[target].count if target in frame else None
                check_reference(highest, rows, target, loc, known=True)


class Sections(dict[str, Frame]):
    """Frame-shaped sections by name; those not at hand are looked up when a target names them."""

    def __init__(
        self, find: Callable[[str], Frame | None], at_hand: Mapping[str, Frame] | None = None
    ) -> None:
        super().__init__(at_hand or {})
        self._find = find

    def get(self, name: str, default: Any = None) -> Any:
        """Return a section; None when the record does not have it."""
        return self[name] if name in self else self._find(name) or default


class Resolvable(Protocol):
    """What the reader's side needs of a block."""

    @property
    def index(self) -> Index:
        """Which update a frame sees."""
        ...

    def update(self, update: int) -> Block:
        """Return one update."""
        ...


class Links:
    """The reader's side: checks resolved frames, each combination of updates once.

    Parameters
    ----------
    sections : callable
        Returns ``frame`` or ``system`` by name, for absolute references.
    system : callable
        Returns what the trajectory must agree with of a system block, by name; asked
        when the first frame is checked, and then without reading the whole section.
    """

    def __init__(
        self,
        schema: SequenceSchema,
        blocks: Mapping[str, Resolvable],
        sections: Callable[[str], Frame | None],
        system: Callable[[str], SystemRows | None],
    ) -> None:
        self._blocks = blocks
        self._sections = sections
        self._aligned = [
            (name, spec.aligned_with) for name, spec in schema.blocks.items() if spec.aligned_with
        ]
        self._targets = [
            (name, column, target)
            for name, spec in schema.blocks.items()
            for column, target in spec.targets.items()
        ]
        self._find_system = system
        self._system: dict[str, SystemRows] | None = None
        self._done: dict[Any, tuple[int, ...]] = {}
        self._highest: dict[tuple[str, str], tuple[int, int]] = {}

    @property
    def any(self) -> bool:
        """Whether there is anything to check."""
        return bool(self._aligned or self._targets) or self._system is None or bool(self._system)

    def load_system(self) -> dict[str, SystemRows]:
        """Look up the system blocks that share a name with a block of the trajectory."""
        found = {name: self._find_system(name) for name in self._blocks}
        self._system = system = {name: rows for name, rows in found.items() if rows is not None}
        for name, target in self._aligned:
            if name in system:
                raise FormatError.one(
                    f"trajectory/{name}",
                    "aligned_system_name",
                    f"a block aligned with {target!r} shares its name with a system block",
                )
        return system

    def check(self, ordinal: int, names: Mapping[str, Any]) -> None:
        """Check the blocks `names` as frame `ordinal` resolves them.

        Raises
        ------
        FormatError
            The rule that a resolved frame breaks.
        """
        try:
            for name, target in self._aligned:
                if name in names and self._new(("aligned", name), ordinal, name, target):
                    loc = f"trajectory/{name}"
                    check_aligned(self._rows(name, ordinal), self._rows(target, ordinal), target, loc)
            for name, column, target in self._targets:
                if name in names:
                    self._check_target(ordinal, name, column, target)
            for name, system in (self.load_system() if self._system is None else self._system).items():
                if name in names and self._new(("system", name), ordinal, name):
                    update = self._blocks[name].index.update_at(ordinal)
                    if update >= 0:
                        system.check(self._blocks[name].update(update), f"trajectory/{name}")
        except SchemaError as error:
            raise FormatError(error.problems) from None

    def _new(self, rule: tuple[str, ...], ordinal: int, *names: str) -> bool:
        updates = tuple(self._blocks[name].index.update_at(ordinal) for name in names)
        if self._done.get(rule) == updates:
            return False
        self._done[rule] = updates
        return True

    def _rows(self, name: str, ordinal: int) -> int | None:
        index = self._blocks[name].index
        update = index.update_at(ordinal)
        if update < 0:
            return None
        lo, hi = index.span(update)
        return hi - lo

    def _check_target(self, ordinal: int, name: str, column: str, target: str) -> None:
        local = not target.startswith("/")
        watched = (name, target) if local else (name,)
        if not self._new(("target", name, column), ordinal, *watched):
            return
        update = self._blocks[name].index.update_at(ordinal)
        if update < 0:
            return
        held = self._highest.get((name, column))
        if held is None or held[0] != update:
            held = self._highest[name, column] = (
                update,
                highest_row(self._blocks[name].update(update), column),
            )
        rows = self._rows(target, ordinal) if local else target_rows(Sections(self._sections), target)
        check_reference(held[1], rows, target, f"trajectory/{name}/{column}", known=local or rows is not None)
