"""``python -m molrec_mdtraj``: mdtraj's ``mdconvert``, with records."""

from mdtraj.scripts.mdconvert import entry_point

import molrec_mdtraj  # noqa: F401 - registers

entry_point()
