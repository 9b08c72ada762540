"""Molecular records in OpenMM: a reporter that writes them, and frames of any record as OpenMM's objects.

::

    with MolrecReporter("run.mrec", 1000) as reporter:
        simulation.reporters.append(reporter)
        simulation.step(1_000_000)
    loaded = load("run.mrec")
    simulation.context.setPositions(loaded.positions)
"""

from molrec_openmm._load import Loaded, MolrecCellWarning, load
from molrec_openmm.reporter import MolrecReporter

__all__ = ["Loaded", "MolrecCellWarning", "MolrecReporter", "load"]
