"""``molrec demo``: a small real simulation into a record, then a look at it through every host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from molrec_core import plugins
from molrec_core._pack import pack
from molrec_core._paths import path_exists
from molrec_core._record import open_record
from molrec_core._summary import describe
from molrec_core.errors import RecordError, RecordExistsError


def demo(path: Path) -> Iterator[str]:
    """Run, pack, open everywhere; yield what to print.

    Raises
    ------
    RecordExistsError
        Something is at `path` already.
    RecordError
        No installed host can simulate.
    """
    archive = path.with_name(path.name + ".zip")
    for place in (path, archive):
        if path_exists(place):
            msg = "something is there already; remove it, or name another place: molrec demo other.mrec"
            raise RecordExistsError(msg, loc=str(place))
    hosts = [adapter for adapter in plugins.adapters().values() if adapter.simulate is not None]
    if not hosts:
        msg = "no installed host can run a simulation; pip install 'molrec[ase]' or 'molrec[openmm]'"
        raise RecordError(msg, kind="no_adapter")
    simulate = hosts[0].simulate
    assert simulate is not None
    yield simulate(path)
    with open_record(path) as record:
        yield str(describe(record))
    yield f"packed into {pack(path)}"
    opened = []
    for adapter in plugins.adapters().values():
        if adapter.describe is not None:
            yield f"{adapter.name:11} {adapter.describe(str(archive))}"
            opened.append(adapter)
    yield "now type, for example:"
    for adapter in opened:
        if adapter.snippet:
            yield f"  {adapter.snippet.format(path=archive)}"
    yield f"  molrec info {path}"
    yield f"  molrec plot {path}"
