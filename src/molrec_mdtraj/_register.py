"""Making mdtraj know records: what is wrapped, why, and how it is put back.

mdtraj looks a loader up by the last suffix, decides from a list in the source whether a
file holds a topology, lets no directory through, and drops ``stride`` where ``iterload``
loads all at once. So the registry alone does not do. Instead, each public function gets
new code in its old place: it asks whether it was handed a record, and otherwise calls
the code it had. The function objects stay the same, so a name that was imported before
works as well, and everything else in mdtraj stays untouched.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import mdtraj
from mdtraj.core import trajectory as core
from mdtraj.formats.registry import FormatRegistry
from mdtraj.scripts import mdconvert

from molrec_mdtraj import _mdconvert
from molrec_mdtraj._file import MolrecTrajectoryFile
from molrec_mdtraj._load import (
    is_record,
    iterload,
    lists_keywords,
    load,
    load_frame,
    load_mrec,
    load_topology,
    save_mrec,
)

SUFFIX = ".mrec"


def _any_record(paths: object) -> bool:
    if isinstance(paths, Iterable) and not isinstance(paths, str | bytes):
        return any(map(is_record, paths)) if isinstance(paths, list | tuple) else is_record(paths)
    return is_record(paths)


def _is_file(file: object) -> bool:
    # By name: after a reload of this package, files of the class it replaced are still ours.
    return type(file).__name__ == MolrecTrajectoryFile.__name__


@dataclass(frozen=True, slots=True)
class _Hook:
    """A function of mdtraj and what takes its place for a record.

    Attributes
    ----------
    owner : module or class
    name : str
    parameters : tuple of str
        The first ones of the function; the last of these tells a record.
    ours : callable
    applies : callable
        Whether that argument means us.
    """

    owner: Any
    name: str
    parameters: tuple[str, ...]
    ours: Callable[..., Any]
    applies: Callable[[Any], bool] = is_record

    def function(self) -> FunctionType:
        """Return the function, if it is what we know.

        Raises
        ------
        ImportError
            This mdtraj is made otherwise.
        """
        found = getattr(self.owner, self.name, None)
        if (
            not isinstance(found, FunctionType)
            or found.__closure__ is not None
            or tuple(inspect.signature(found).parameters)[: len(self.parameters)] != self.parameters
        ):
            msg = (
                f"mdtraj {mdtraj.__version__} has changed: {self.owner.__name__}.{self.name} is not a function of "
                f"({', '.join(self.parameters)}, ...); molrec_mdtraj knows mdtraj 1.10 and 1.11. Install one of those, "
                "or a newer molrec"
            )
            raise ImportError(msg)
        return found


_HOOKS = (
    _Hook(core, "load", ("filename_or_filenames",), load, _any_record),
    _Hook(core, "load_frame", ("filename",), load_frame),
    _Hook(core, "iterload", ("filename",), iterload),
    _Hook(core, "open", ("filename",), lists_keywords(MolrecTrajectoryFile)),
    # Also asked by the loaders of formats that need a topology, and by mdtraj.load_topology.
    _Hook(core, "_parse_topology", ("top",), load_topology),
    _Hook(core.Trajectory, "save", ("self", "filename"), save_mrec),
    _Hook(mdconvert, "ext", ("fn",), _mdconvert.extension),
    _Hook(mdconvert, "read", ("infile",), _mdconvert.read, _is_file),
    _Hook(mdconvert, "write", ("outfile",), _mdconvert.write, _is_file),
    _Hook(mdconvert, "parse_args", (), _mdconvert.parse_args, lambda _: True),
)


def _tables() -> list[tuple[dict[str, Any], str, Any]]:
    return [
        (FormatRegistry.loaders, SUFFIX, load_mrec),
        (FormatRegistry.fileobjects, SUFFIX, MolrecTrajectoryFile),
        (mdconvert.formats, SUFFIX, MolrecTrajectoryFile),
        (mdconvert.fields, SUFFIX, _mdconvert.fields()),
        (mdconvert.units, SUFFIX, _mdconvert.UNITS),
        (vars(mdtraj), "load_mrec", load_mrec),
    ]


def _front(*args: Any, _molrec: Any, **kwargs: Any) -> Any:
    return _molrec(*args, **kwargs)


def _front_iterator(*args: Any, _molrec: Any, **kwargs: Any) -> Any:
    # A generator's code may only be replaced by a generator's.
    yield from _molrec(*args, **kwargs)


def _swap(hook: _Hook, function: FunctionType) -> None:
    """Give `function` new code; its old code goes on in a copy."""
    original = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    original.__kwdefaults__ = function.__kwdefaults__
    position, keyword = len(hook.parameters) - 1, hook.parameters[-1] if hook.parameters else ""

    def dispatch(*args: Any, **kwargs: Any) -> Any:
        given = args[position] if 0 <= position < len(args) else kwargs.get(keyword)
        return (hook.ours if hook.applies(given) else original)(*args, **kwargs)

    function.__molrec_original__ = original  # type: ignore[attr-defined]
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    function.__kwdefaults__ = {"_molrec": dispatch}
    function.__defaults__ = None
    function.__code__ = (_front_iterator if inspect.isgeneratorfunction(original) else _front).__code__


def register() -> None:
    """Make mdtraj load, iterate over, open and save records; importing the package does it.

    Doing it again changes nothing, after a reload of this package neither.

    Raises
    ------
    ImportError
        This mdtraj is made otherwise than those this package knows; nothing was changed.
    """
    unregister()
    functions = [hook.function() for hook in _HOOKS]
    for hook, function in zip(_HOOKS, functions, strict=True):
        _swap(hook, function)
    for table, key, value in _tables():
        table[key] = value
    core.Trajectory.save_mrec = save_mrec
    mdconvert.os = _mdconvert.files_and_records()


def unregister() -> None:
    """Put everything in mdtraj back as it was."""
    for hook in _HOOKS:
        function = getattr(hook.owner, hook.name, None)
        original = (
            vars(function).pop("__molrec_original__", None) if isinstance(function, FunctionType) else None
        )
        if function is not None and original is not None:
            function.__code__ = original.__code__
            function.__defaults__ = original.__defaults__
            function.__kwdefaults__ = original.__kwdefaults__
            del function.__signature__
    for table, key, _ in _tables():
        table.pop(key, None)
    if hasattr(core.Trajectory, "save_mrec"):
        del core.Trajectory.save_mrec
    mdconvert.os = os
