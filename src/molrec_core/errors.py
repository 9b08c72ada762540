"""The error tree: every error of ours is a :class:`RecordError` with a stable ``kind``.

The validator, the opener and the command line are three doors to one list of
:class:`Problem`. A reader raises the problems of the section it opens; the
validator collects those of the whole record; the command line prints them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about a record.

    Attributes
    ----------
    loc : str
        Place in the record, e.g. ``trajectory/atoms/x`` or ``trajectory/atoms/x, chunk 3``.
    kind : str
        Stable code, e.g. ``row_count_mismatch``. Codes are only ever added.
    message : str
        What was found and what was expected, with the way out if there is one.
    severity : {"error", "warning"}
        ``error``: a reader must refuse it. ``warning``: it opens.
    """

    loc: str
    kind: str
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        """Return ``loc: message [kind]``, the line every door prints."""
        return f"{self.loc or '/'}: {self.message} [{self.kind}]"


@dataclass(slots=True)
class Problems:
    """Collects findings while a section is checked; raised together or reported together."""

    found: list[Problem] = field(default_factory=list)

    def add(self, loc: str, kind: str, message: str, severity: Severity = "error") -> None:
        """Record one finding."""
        self.found.append(Problem(loc, kind, message, severity))

    @property
    def errors(self) -> list[Problem]:
        """The findings that a reader must refuse."""
        return [p for p in self.found if p.severity == "error"]

    def raise_errors(self) -> None:
        """Raise all findings of severity ``error`` as one :class:`FormatError`."""
        errors = self.errors
        if errors:
            raise FormatError(errors)


class RecordError(Exception):
    """Base of every error molrec raises on purpose.

    Attributes
    ----------
    kind : str
        Stable code of what went wrong.
    loc : str
        The place: a key of the record, or a path.
    """

    def __init__(self, message: str, *, kind: str, loc: str = "") -> None:
        self.message = message
        self.kind = kind
        self.loc = loc
        super().__init__(message)

    def __str__(self) -> str:
        """Return the message, led by its place."""
        return f"{self.loc}: {self.message}" if self.loc else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by value: errors cross process borders."""
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[RecordError], args: tuple[object, ...], state: dict[str, object]) -> RecordError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class RecordNotFoundError(RecordError, FileNotFoundError):
    """There is no record at the path, or what is there is something else."""

    def __init__(self, message: str, *, kind: str = "not_found", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)


class RecordExistsError(RecordError, FileExistsError):
    """A record is there already and ``overwrite`` was not asked for."""

    def __init__(self, message: str, *, kind: str = "exists", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)


class SectionNotFoundError(RecordError, KeyError):
    """The record lacks the section, block, column or key that was asked for."""

    def __init__(self, message: str, *, kind: str = "section_not_found", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)


class _ProblemsError(RecordError, ValueError):
    """An error that carries every problem found, not just the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        message = first.message
        if len(self.problems) > 1:
            message = "; ".join(str(p) for p in self.problems)
        super().__init__(message, kind=first.kind, loc=first.loc if len(self.problems) == 1 else "")

    @classmethod
    def one(cls, loc: str, kind: str, message: str) -> _ProblemsError:
        """Build the error of a single problem."""
        return cls([Problem(loc, kind, message)])


class FormatError(_ProblemsError):
    """What is stored breaks the contract; ``problems`` lists every finding."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__(problems)


class UnsupportedVersionError(FormatError):
    """``meta.molrec_version`` is not one this reader supports."""


class SchemaError(_ProblemsError):
    """A value, frame or declaration that the format or the pin does not admit; nothing was written."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__(problems)


class ChecksumError(RecordError):
    """Stored bytes are damaged.

    Attributes
    ----------
    key : str
        Key of the array.
    chunk : int
        Number of the chunk along the leading axis; -1 for a shard index.
    """

    def __init__(self, message: str, *, key: str = "", chunk: int = -1, kind: str = "checksum") -> None:
        self.key = key
        self.chunk = chunk
        place = f"{key}, chunk {chunk}" if chunk >= 0 else f"{key}, shard index"
        super().__init__(message, kind=kind, loc=place)


class CodecError(RecordError, ValueError):
    """The bytes of a chunk do not decode; the caller knows which chunk and names it."""

    def __init__(self, message: str, *, kind: str = "codec", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)


class CommitError(RecordError, OSError):
    """A write or sync failed; the record stays at its last commit.

    Attributes
    ----------
    path : str
        The record.
    stage : str
        The stage of the commit that was reached.
    """

    def __init__(self, message: str, *, path: str = "", stage: str = "", kind: str = "commit_failed") -> None:
        self.path = path
        self.stage = stage
        super().__init__(message, kind=kind, loc=path)


class UnitError(RecordError, ValueError):
    """A unit that is unknown, or does not measure the quantity it stands for."""

    def __init__(self, message: str, *, kind: str = "unit", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)


class ReadOnlyError(RecordError):
    """The record (a packed one, a remote one, one opened for reading) cannot be written."""

    def __init__(self, message: str, *, kind: str = "read_only", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)


class ClosedError(RecordError, ValueError):
    """The reader or writer was closed."""

    def __init__(self, message: str, *, kind: str = "closed", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)


class LockedError(RecordError):
    """Another live writer holds the record, or a forked child tried to write."""

    def __init__(self, message: str, *, kind: str = "locked", loc: str = "") -> None:
        super().__init__(message, kind=kind, loc=loc)
