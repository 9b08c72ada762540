"""LAMMPS as a plugin of molrec: text dumps become records."""

from __future__ import annotations

from molrec_core.hookspecs import Adapter, hookimpl
from molrec_lammps._source import read

SUFFIXES = (".lammpstrj", ".lammpsdump", ".dump")


@hookimpl
def molrec_adapters() -> tuple[Adapter, ...]:
    """Return the adapter of LAMMPS."""
    return (Adapter("lammps", reads=SUFFIXES, read=read),)
