"""Directories as ASE meets them: a record, or a BundleTrajectory.

ASE looks for ``read_bundletrajectory`` and ``write_bundletrajectory`` here; what is no
record goes to ASE's own functions with all its arguments.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ase import Atoms
from ase.io import bundletrajectory as bundles

from molrec_ase._io import read_mrec, write_mrec


def is_record(path: str) -> bool:
    """Whether a directory that exists is a record, or empty and named like one."""
    directory = Path(path)
    if (directory / "zarr.json").exists():
        return True
    return directory.name.endswith(".mrec") and not (directory / "metadata.json").exists()


def read_bundletrajectory(filename: str, index: Any = -1, **options: Any) -> Iterator[Atoms]:
    """Read images of a record or of a BundleTrajectory."""
    if is_record(filename):
        yield from read_mrec(filename, index, **options)
    else:
        yield from bundles.read_bundletrajectory(filename, index, **options)


def write_bundletrajectory(
    filename: str, images: Iterable[Atoms], append: bool = False, **options: Any
) -> None:
    """Write images to a record or to a BundleTrajectory."""
    if is_record(filename):
        write_mrec(filename, images, append=append, **options)
    else:
        bundles.write_bundletrajectory(filename, images, append=append, **options)
