"""MDAnalysis's own test classes for readers, writers and parsers, run on records."""

from __future__ import annotations

from typing import ClassVar

import MDAnalysis as mda  # noqa: N813 - the usual name
import numpy as np
import pytest
from MDAnalysisTests.coordinates.base import BaseReference, BaseWriterTest, MultiframeReaderTest
from MDAnalysisTests.datafiles import COORDINATES_TOPOLOGY, COORDINATES_TRR, GRO, PSF, PDB_icodes
from MDAnalysisTests.topology.base import ParserBase

from molrec_mda import MrecParser, MrecReader, MrecWriter


@pytest.fixture(scope="module", params=["mrec", "mrec.zip"])
def trajectory(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / f"reference.{request.param}"
    universe = mda.Universe(COORDINATES_TOPOLOGY, COORDINATES_TRR)
    universe.atoms.write(str(path), frames="all")
    return path


class RecordReference(BaseReference):
    """The five atoms and five frames that MDAnalysis tests every format with."""

    def __init__(self, path):
        super().__init__()
        self.trajectory = str(path)
        self.topology = COORDINATES_TOPOLOGY
        self.reader = MrecReader
        self.writer = MrecWriter
        self.ext = path.name.partition(".")[2]
        # A record knows its number of atoms from the first frame, so a writer needs none.
        self.container_format = True
        self.changing_dimensions = True
        # The reference is a TRR file, which holds nanometres in float32.
        self.prec = 3
        for frame in (self.first_frame, self.second_frame, self.last_frame, self.jump_to_frame):
            self._move(frame)

    @staticmethod
    def _move(ts):
        ts.velocities = ts.positions / 10
        ts.forces = ts.positions / 100

    def iter_ts(self, i):
        ts = super().iter_ts(i)
        self._move(ts)
        return ts


@pytest.fixture
def reference(trajectory):
    return RecordReference(trajectory)


class TestReader(MultiframeReaderTest):
    @pytest.fixture
    def ref(self, reference):
        return reference


class TestWriter(BaseWriterTest):
    @pytest.fixture
    def ref(self, reference):
        return reference


class RecordParser(ParserBase):
    """A topology file, written as a record, in MDAnalysis's terms."""

    parser = MrecParser
    source = ""

    @pytest.fixture(scope="class", params=["mrec", "mrec.zip"])
    @classmethod
    def record(cls, request, tmp_path_factory):
        universe = mda.Universe(cls.source, to_guess=())
        if not hasattr(universe, "trajectory"):
            universe.load_new(np.zeros((1, len(universe.atoms), 3), np.float32))
        path = tmp_path_factory.mktemp("parser") / f"top.{request.param}"
        universe.atoms.write(str(path))
        return str(path)

    @pytest.fixture
    def filename(self, record):
        return record


class TestParserOfPSF(RecordParser):
    source = PSF
    expected_attrs: ClassVar = [
        "names",
        "types",
        "masses",
        "charges",
        "resnames",
        "bonds",
        "angles",
        "dihedrals",
        "impropers",
    ]
    expected_n_atoms, expected_n_residues, expected_n_segments = 3341, 214, 1


class TestParserOfGRO(RecordParser):
    source = GRO
    expected_attrs: ClassVar = ["names", "resnames"]
    guessed_attrs: ClassVar = ["masses", "types"]
    expected_n_atoms, expected_n_residues, expected_n_segments = 47681, 11302, 1


class TestParserOfPDB(RecordParser):
    source = PDB_icodes
    expected_attrs: ClassVar = [
        "names",
        "elements",
        "resnames",
        "icodes",
        "chainIDs",
        "altLocs",
        "record_types",
        "occupancies",
        "tempfactors",
        "types",
    ]
    guessed_attrs: ClassVar = ["masses"]
    expected_n_atoms, expected_n_residues, expected_n_segments = 1431, 185, 1
