"""What ASE is told about the format ``mrec``, and how its directories find their way to it.

``ase.io`` takes every directory that exists for a ``bundletrajectory``, before it asks a
plugin, and knows no name that ends in ``/``. So the entry ``bundletrajectory`` is
pointed at :mod:`molrec_ase._directories`, which tells records from bundles, and the
empty name, which is what ASE sees of ``run.mrec/``, is one of the format's patterns.
"""

from ase.utils.plugins import ExternalIOFormat

mrec_format = ExternalIOFormat(
    desc="MolRec record",
    code="+S",
    module="molrec_ase._io",
    glob=["*.mrec", "*.mrec.zip", ""],
)


def share_directories() -> None:
    """Have ASE ask :mod:`molrec_ase._directories` about directories that exist."""
    # ASE loads this module while `ase.io.formats` still runs, with its built-in formats defined.
    from ase.io import formats

    formats.ioformats["bundletrajectory"].module_name = "molrec_ase._directories"


share_directories()
