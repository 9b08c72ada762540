"""Which disk states a POSIX file system may leave when a recorded writer stops.

A killed process leaves every operation up to some point, the last write torn. A power
loss leaves what was synced, and of the rest any part: each sector of a file and each
name of a directory may or may not have reached the disk, in any order, since nothing
but a sync orders them. A rename is one change of its directory, as POSIX has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from molrec_core.testing._recorder import Enter, Note, Operation, Remove, Rename, Sync, Tree, Truncate, Write

Entry = Enter | Rename | Remove
Change = Write | Truncate
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class State:
    """What a disk may hold, where in the recording, and what holds there.

    Attributes
    ----------
    at : str
        Number of operations done and how the state came about, for messages.
    requirement : object
        The last note before it.
    files, directories : dict of str to bytes, frozenset of str
    """

    at: str
    requirement: Any
    files: dict[str, bytes]
    directories: frozenset[str]

    def key(self) -> int:
        """Tell equal states apart from others."""
        return hash((frozenset(self.files.items()), self.directories))


def killed(start: Tree, operations: Sequence[Operation], sector: int) -> Iterator[State]:
    """Build the states a killed process leaves: each prefix, each with its last write torn at sectors."""
    tree = start.copy()
    requirement: Any = None
    for number, operation in enumerate(operations):
        if isinstance(operation, Note):
            requirement = operation.requirement
        if isinstance(operation, Write):
            first = (operation.offset // sector + 1) * sector
            for cut in range(first - operation.offset, len(operation.data), sector):
                torn = Tree(dict(tree.files), tree.directories)
                torn.apply(Write(operation.inode, operation.offset, operation.data[:cut]))
                yield State(f"kill in operation {number}, {cut} bytes in", requirement, *torn.paths())
        tree.apply(operation)
        if not isinstance(operation, Sync):
            yield State(f"kill after operation {number}", requirement, *tree.paths())


@dataclass(slots=True)
class Pending:
    """What is not on disk for sure: changes of files and of directories, by inode, in order."""

    changes: dict[int, list[Change]] = field(default_factory=dict)
    entries: dict[int, list[Entry]] = field(default_factory=dict)

    def add(self, operation: Operation) -> None:
        """Take an operation that no sync follows yet."""
        if isinstance(operation, Change):
            self.changes.setdefault(operation.inode, []).append(operation)
        elif isinstance(operation, Entry):
            self.entries.setdefault(operation.parent, []).append(operation)

    def settle(self, sync: Sync, tree: Tree) -> None:
        """Carry out a sync: what it covers is on `tree` from now on, or lost for good when it failed."""
        for operation in (*self.changes.pop(sync.inode, ()), *self.entries.pop(sync.inode, ())):
            if not sync.failed:
                tree.apply(operation)


def lost_power(
    start: Tree, operations: Sequence[Operation], sector: int, random: Random, least: int
) -> Iterator[State]:
    """Draw at least `least` states that a power loss may leave, spread over every prefix."""
    tree, pending = start.copy(), Pending()
    requirement: Any = None
    draws = -(-least // max(1, sum(not isinstance(o, Note) for o in operations)))
    for number, operation in enumerate(operations):
        if isinstance(operation, Note):
            requirement = operation.requirement
        elif isinstance(operation, Sync):
            pending.settle(operation, tree)
        else:
            # Inodes exist from their making on; whether a name leads to them is another matter.
            _make_inode(operation, tree)
            pending.add(operation)
        for draw in range(draws):
            name, drawn = _draw(tree, pending, sector, random)
            yield State(f"power lost after operation {number}, {name} ({draw})", requirement, *drawn.paths())


def _make_inode(operation: Operation, tree: Tree) -> None:
    if isinstance(operation, Enter):
        if operation.directory:
            tree.directories.setdefault(operation.inode, {})
        else:
            tree.files.setdefault(operation.inode, b"")


def _draw(tree: Tree, pending: Pending, sector: int, random: Random) -> tuple[str, Tree]:
    drawn = tree.copy()
    way = random.choice(_WAYS)
    entries = [entry for inode in sorted(pending.entries) for entry in pending.entries[inode]]
    changes = [change for inode in sorted(pending.changes) for change in pending.changes[inode]]
    if way == "sectors":
        for entry in _some(entries, random):
            drawn.apply(entry)
        for inode, those in pending.changes.items():
            drawn.files[inode] = _mixed(drawn.files.get(inode, b""), inode, those, sector, random)
        return way, drawn
    if way == "no bytes":
        chosen: list[Operation] = [*entries]
        if random.random() < 0.5:
            chosen += [
                Truncate(i, _end(drawn.files.get(i, b""), those)) for i, those in pending.changes.items()
            ]
    elif way == "one":
        chosen = [random.choice([*entries, *changes])] if entries or changes else []
        if random.random() < 0.5:
            chosen = [*entries, *(c for c in chosen if isinstance(c, Change))]
    elif way == "all but one":
        chosen = [*entries, *changes]
        if chosen:
            chosen.pop(random.randrange(len(chosen)))
    else:
        chosen = [*_some(entries, random), *_some(changes, random)]
    for operation in chosen:
        if isinstance(operation, Write) and random.random() < 0.2:
            for piece in _torn(operation, sector, random):
                drawn.apply(piece)
        else:
            drawn.apply(operation)
    return way, drawn


_WAYS = ("sectors", "no bytes", "one", "all but one", "some", "some")


def _some(items: list[_T], random: Random) -> list[_T]:
    chance = random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
    return [item for item in items if random.random() < chance]


def _torn(write: Write, sector: int, random: Random) -> Iterator[Write]:
    """Cut a write at sectors and keep some of the pieces."""
    at = 0
    while at < len(write.data):
        stop = min(len(write.data), (write.offset + at) // sector * sector + sector - write.offset)
        if random.random() < 0.5:
            yield Write(write.inode, write.offset + at, write.data[at:stop])
        at = stop


def _end(old: bytes, changes: list[Change]) -> int:
    size = len(old)
    for change in changes:
        size = change.size if isinstance(change, Truncate) else max(size, change.offset + len(change.data))
    return size


def _mixed(old: bytes, inode: int, changes: list[Change], sector: int, random: Random) -> bytes:
    """Take each sector, and the length, from some moment since the last sync."""
    tree = Tree({inode: old})
    versions = [old]
    for change in changes:
        tree.apply(change)
        versions.append(tree.files[inode])
    # Late moments are the likelier ones, or hardly any state would come near a commit.
    size = len(random.choice([*versions, versions[-1], versions[-1]]))
    pieces = (
        random.choice([*versions, versions[-1]])[at : at + sector].ljust(sector, b"\0")
        for at in range(0, size, sector)
    )
    return b"".join(pieces)[:size]
