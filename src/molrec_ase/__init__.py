"""Molecular records in ASE: every image comes back as it went in.

``ase.io.write("run.mrec", images)`` and ``ase.io.read("run.mrec", ":")`` need no import of
this package: ASE finds the format ``mrec`` by its entry point. :class:`MolrecTrajectory`
is attached to a dynamics or an optimizer, :class:`MolrecDataset` feeds records to a
training loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molrec_ase._dataset import MolrecDataset
    from molrec_ase._ioformat import mrec_format
    from molrec_ase._trajectory import MolrecTrajectory

__all__ = ["MolrecDataset", "MolrecTrajectory", "mrec_format"]

# Every `import ase.io` loads this module, so it loads nothing that was not asked for.
_HOMES = {"MolrecDataset": "_dataset", "MolrecTrajectory": "_trajectory", "mrec_format": "_ioformat"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
