"""MDAnalysis reads and writes records once this package is imported.

>>> import MDAnalysis as mda
>>> import molrec_mda  # registers the format, once, before or after MDAnalysis
>>> u = mda.Universe("run.mrec")  # doctest: +SKIP
>>> u.atoms.write("copy.mrec", frames="all")  # doctest: +SKIP

Importing defines the reader, the topology parser and the writer, and MDAnalysis
registers each class as it is defined, under the format ``MREC``.
"""

from molrec_mda._parser import MrecParser
from molrec_mda._reader import MrecReader
from molrec_mda._writer import FLOAT32, MrecWriter

__all__ = ["FLOAT32", "MrecParser", "MrecReader", "MrecWriter"]
