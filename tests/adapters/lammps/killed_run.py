"""A run that may be killed at any time and is then started again: the program of the kill tests.

``killed_run.py RECORD RESTART STEPS`` goes on from the restart file where there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from molrec_lammps import MolrecReporter, open_lammps

EVERY, RESTART_EVERY = 10, 35

START = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 3 0 3 0 3
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
"""


def main(record: str, restart: str, steps: int) -> None:
    """Run to `steps`, from the restart file where there is one."""
    lmp = open_lammps("-log", "none", "-screen", "none")
    again = Path(restart).exists()
    lmp.commands_string(f"read_restart {restart}" if again else START)
    lmp.commands_string("fix run all nve\nneigh_modify every 5 delay 0 check yes")
    with MolrecReporter(lmp, record, EVERY, append=again, overwrite=not again, velocities=True) as reporter:
        print("ready", flush=True)
        while (step := lmp.extract_global("ntimestep")) < steps:
            reporter.run(min(RESTART_EVERY, steps - step))
            reporter.write_restart(restart)
    lmp.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
