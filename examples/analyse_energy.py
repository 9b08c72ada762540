"""Drift, mean and statistical error of the energies of a record.

    python analyse_energy.py run.mrec

Works on any record whose frames state ``pe`` and ``ke``, packed or not, local or
behind a URL. No coordinate is read.
"""

from __future__ import annotations

import sys

import numpy as np

from molrec_core import open_record


def block_error(values: np.ndarray, n_blocks: int = 10) -> float:
    """Return the standard error of the mean from the means of consecutive blocks."""
    usable = len(values) // n_blocks * n_blocks
    means = values[:usable].reshape(n_blocks, -1).mean(axis=1)
    return float(means.std(ddof=1) / np.sqrt(n_blocks))


def main() -> int:
    """Print a line for each energy."""
    with open_record(sys.argv[1]) as record:
        trajectory = record.trajectory
        missing = {"pe", "ke"} - set(trajectory.meta_keys)
        if missing:
            print(
                f"the frames state no {', '.join(sorted(missing))}; they state {list(trajectory.meta_keys)}"
            )
            return 1
        potential, kinetic = trajectory.meta("pe"), trajectory.meta("ke")
        axis, at = ("step", trajectory.steps) if trajectory.times is None else ("time", trajectory.times)
        units = record.meta.get("units", {})
    unit = units.get("energy") or units.get("preset") or "record units"
    total = potential + kinetic
    for name, values in (("potential", potential), ("kinetic", kinetic), ("total", total)):
        print(f"{name:10} {values.mean():12.6f} +- {block_error(values):.6f} {unit}")
    slope = np.polyfit(np.asarray(at, float), total, 1)[0]
    print(f"drift      {slope:12.2e} {unit} per unit of {axis}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
