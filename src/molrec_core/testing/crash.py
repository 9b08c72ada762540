"""Every disk state that a crash may leave of a writer, and what must hold in each.

``python -m molrec_core.testing.crash`` runs the short form, ``--all`` the long one. A
run of a writer is recorded operation by operation; for every prefix of it the states
of a killed process and of a lost power are built; each must open at a commit the
protocol allows, hold every frame bit for bit, validate after repair, and go on.
"""

from __future__ import annotations

import argparse
import sys
import time

from molrec_core.testing._campaign import Report, look, record, run
from molrec_core.testing._driver import Workload
from molrec_core.testing._workloads import WORKLOADS

__all__ = ["WORKLOADS", "Report", "Workload", "look", "main", "record", "run"]


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; 0 when no state failed."""
    parser = argparse.ArgumentParser(prog="python -m molrec_core.testing.crash", description=__doc__)
    parser.add_argument(
        "--all", action="store_true", help="many seeds, and the reference extents with 512-byte sectors"
    )
    parser.add_argument("--states", type=int, default=2000, help="power-loss states a workload and seed")
    parser.add_argument("--seeds", type=int, default=None, help="seeds; 1, and 20 with --all")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append")
    given = parser.parse_args(arguments)
    seeds = given.seeds or (20 if given.all else 1)
    tried = failed = 0
    for name in given.workload or WORKLOADS:
        for small in (True, False) if given.all else (True,):
            for seed in range(seeds if small else 1):
                began = time.monotonic()
                report = run(WORKLOADS[name], least=given.states, seed=seed, small=small)
                tried += report.tried
                failed += len(report.failures)
                scale = "" if small else " at full size"
                sys.stdout.write(f"{report}{scale} (seed {seed}, {time.monotonic() - began:.1f} s)\n")
                for failure in report.failures[:5]:
                    sys.stdout.write(f"    {failure}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{tried} states, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
