"""Reading the topology a record holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from MDAnalysis.topology.base import TopologyReaderBase

from molrec_mda._run import Run, is_record_path
from molrec_mda._topology import load_topology

if TYPE_CHECKING:
    from MDAnalysis.core.topology import Topology


class MrecParser(TopologyReaderBase):
    """Reads atoms, residues, segments and bonds of a record: the topology of ``mda.Universe("run.mrec")``.

    Parameters
    ----------
    filename : str, path-like or zarr store
        As for :class:`MrecReader`.
    """

    format = "MREC"

    @staticmethod
    def _format_hint(thing: object) -> bool:
        return is_record_path(thing)

    def parse(
        self,
        *,
        n_atoms: int | None = None,
        convert_units: bool = True,
        allow_changing_topology: bool = False,
        virtual_site_bonds: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        **_kwargs: Any,
    ) -> Topology:
        """Return the topology.

        Parameters
        ----------
        n_atoms : int, optional
            Where the number of atoms changes: take the first frame of this count.
        convert_units : bool
            Masses in dalton and charges in e; False takes the numbers as they are.
        allow_changing_topology : bool
            Take the topology of the first frame where it changes later.
        virtual_site_bonds : bool
            Bond each virtual site to its first parent, so that fragments hold together.
        storage_options : mapping, optional
            For a URL, passed to fsspec.

        Raises
        ------
        ValueError
            The number of atoms or the topology changes; the message names the frame.
        RecordNotFoundError, FormatError
            There is no record, or it breaks the contract.
        """
        run = Run(
            self.filename,
            n_atoms=n_atoms,
            allow_changing_topology=allow_changing_topology,
            convert_units=convert_units,
            storage_options=storage_options,
        )
        with run.record:
            return load_topology(
                run.system,
                run.first_frame(),
                run.schema,
                run.meta,
                # The reader warns where units are not stated; once is enough.
                run.conversion(warn=False),
                virtual_site_bonds=virtual_site_bonds,
            )
