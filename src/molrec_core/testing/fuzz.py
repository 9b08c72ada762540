"""Hostile records: whatever is in them, only errors of ours come out.

``python -m molrec_core.testing.fuzz --minutes N``. Each record is a sound one with a few
things changed; it is read, validated, repaired, unpacked and given to the command line
under a watch on time, memory and files. What fails is told by its seed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from molrec_core.testing._campaign import scratch
from molrec_core.testing._hostile import mutated, sound
from molrec_core.testing._sandbox import SECRET, look, plant_link, put, put_zip


@dataclass
class Findings:
    """What a campaign found.

    Attributes
    ----------
    executions : int
        Records looked at.
    failures : dict of int to str
        Seed and what happened.
    """

    executions: int = 0
    failures: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return one line, and one for each failure."""
        lines = [f"{self.executions} hostile records, {len(self.failures)} failed"]
        return "\n    ".join([*lines, *(f"seed {seed}: {text}" for seed, text in self.failures.items())])


def try_seed(top: Path, seed: int) -> str | None:
    """Build the record of one seed and look at it; return what must not happen."""
    random = Random(seed)  # noqa: S311 - built again from a seed
    for path in top.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (top / "secret").write_bytes(SECRET)
    put(top / "outside", {"zarr.json": SECRET, "c/0": SECRET * 10})
    files = mutated(random)
    packed = random.random() < 0.25
    record = top / ("run.mrec.zip" if packed else "run.mrec")
    if packed:
        put_zip(record, files, random)
    else:
        put(record, files)
        if random.random() < 0.15:
            plant_link(top, record, random)
    return look(top, record)


def run(*, first: int = 0, count: int | None = None, seconds: float | None = None) -> Findings:
    """Try seeds from `first` on, `count` of them or for so many seconds."""
    findings = Findings()
    with scratch() as top:
        # What is loaded at a first use is not the record's doing.
        put(top / "run.mrec", sound())
        look(top, top / "run.mrec")
        until = None if seconds is None else time.monotonic() + seconds
        seed = first
        while (count is None or seed < first + count) and (until is None or time.monotonic() < until):
            wrong = try_seed(top, seed)
            findings.executions += 1
            if wrong:
                findings.failures[seed] = wrong
            seed += 1
    return findings


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; 0 when nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m molrec_core.testing.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="look at the record of this seed alone")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        findings = run(first=given.seed, count=1)
    else:
        findings = run(first=given.first, seconds=60 * given.minutes)
    sys.stdout.write(f"{findings}\n")
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
