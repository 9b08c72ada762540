"""Molecular records in mdtraj.

Importing this package makes mdtraj load, iterate over and save records::

    import mdtraj as md
    import molrec_mdtraj

    traj = md.load("run.mrec.zip")
    traj[::10].save("thin.mrec")
    velocities = molrec_mdtraj.load_velocities("run.mrec.zip")

Lengths are in nm, times in ps, energies in kJ/mol, as in all of mdtraj; a record of ours
states angstrom, ps and kJ/mol. See :func:`register` for what is changed in mdtraj, and
:func:`unregister` to undo it.
"""

from molrec_mdtraj._file import Frames, MolrecTrajectoryFile
from molrec_mdtraj._frames import MolrecCellWarning
from molrec_mdtraj._load import load_energies, load_forces, load_mrec, load_velocities, save_mrec
from molrec_mdtraj._register import register, unregister
from molrec_mdtraj._topology import MolrecTopologyWarning

__all__ = [
    "Frames",
    "MolrecCellWarning",
    "MolrecTopologyWarning",
    "MolrecTrajectoryFile",
    "load_energies",
    "load_forces",
    "load_mrec",
    "load_velocities",
    "register",
    "save_mrec",
    "unregister",
]

register()
