"""What a plugin can give molrec: adapters, checks and commands.

A distribution names a module in the entry-point group ``molrec``; its functions marked
``@hookimpl`` are called when the first adapter, check or command is asked for. The
adapters in this tree register the same way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from molrec_core import Frame, Record, SequenceSchema

if TYPE_CHECKING:
    from molrec_core.errors import Problem

PROJECT = "molrec"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True)
class Source:
    """What an adapter reads from a foreign file, ready to be written as a record.

    Attributes
    ----------
    frames : iterable of (Frame, int or None, float or None)
        Each frame with its step and time, in record units.
    meta : mapping
        The record's ``meta`` document, ``units`` among it.
    system : Frame or None
    schema : SequenceSchema or None
        None pins the first frame.
    n_frames : int or None
        For a progress bar.
    """

    frames: Iterable[tuple[Frame, int | None, float | None]]
    meta: Mapping[str, Any] = field(default_factory=dict)
    system: Frame | None = None
    schema: SequenceSchema | None = None
    n_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """One host's way in and out.

    Attributes
    ----------
    name : str
        Unique among all adapters, e.g. ``mdanalysis``.
    reads, writes : tuple of str
        Suffixes it takes, most specific first; where two adapters read one suffix, the
        first in alphabetical order of `name` is asked unless one is named.
    read : callable or None
        ``read(path, topology, frames)`` -> :class:`Source`; `topology` may be None,
        `frames` is a slice.
    write : callable or None
        ``write(record_path, path, frames)``: exports a record, e.g. to a pdb file.
    describe : callable or None
        ``describe(path)`` -> one line on what the host sees when it opens the record.
    snippet : str
        A line of the host's own code that opens a record, with ``{path}`` in it.
    simulate : callable or None
        ``simulate(path)`` runs a small real simulation in-process (a second or two, no
        files, no network), streams it into a new record at `path`, and returns one line on
        what ran; for ``molrec demo``.
    """

    name: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    read: Callable[[Path, Path | None, slice], Source] | None = None
    write: Callable[[Path, Path, slice], None] | None = None
    describe: Callable[[str], str] | None = None
    snippet: str = ""
    simulate: Callable[[Path], str] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A third party's check: ``run(record)`` yields problems that ``molrec validate`` reports."""

    name: str
    run: Callable[[Record], Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class Command:
    """A third party's command: ``molrec <name>``; ``run(arguments)`` returns the exit code."""

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


@hookspec
def molrec_adapters() -> Iterable[Adapter]:
    """Return adapters to foreign formats and hosts."""
    return ()


@hookspec
def molrec_checks() -> Iterable[Check]:
    """Return checks that ``molrec validate`` runs beside its own."""
    return ()


@hookspec
def molrec_commands() -> Iterable[Command]:
    """Return commands of the ``molrec`` command line."""
    return ()
