"""Cells: lengths to the bit, angles to one float32 ulp, and frames without one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

md = pytest.importorskip("mdtraj")
from molrec_core import Block, Box, Frame, SequenceSchema, TrajectoryWriter, open_record  # noqa: E402
from molrec_core.hosts import cell_lengths_angles, cell_vectors, declare_shared, store_cell  # noqa: E402
from molrec_mdtraj import MolrecCellWarning  # noqa: E402
from molrec_mdtraj._frames import lengths_and_angles  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the record has neither elements")
UNITS = {"units": {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}}


@pytest.mark.parametrize(
    ("lengths", "angles"),
    [
        ([3, 4, 5], [90, 90, 90]),
        ([8.0017] * 3, [60, 60, 90]),
        ([4.0, 4.1, 4.2], [80, 85, 95]),
        ([1e-3, 1e4, 0.1], [120, 90, 60]),
        ([2, 2, 2], [109.4712219, 109.4712219, 109.4712219]),
        ([2, 2, 2], [1, 1, 1]),
    ],
)
def test_a_cell_comes_back(kit, path, lengths, angles):
    source = kit.trajectory(3)
    source.unitcell_lengths = np.tile(np.float32(lengths), (3, 1))
    source.unitcell_angles = np.tile(np.float32(angles), (3, 1))
    source.save(path)
    kit.same(md.load(path), source)
    if set(angles) == {90}:
        assert (md.load(path).unitcell_angles == 90).all()
        with open_record(path) as record:
            assert np.count_nonzero(record.trajectory.box(0).vectors) == 3


@given(
    st.lists(st.floats(0.125, 1024, width=32), min_size=3, max_size=3),
    st.lists(st.floats(30, 150, width=32), min_size=3, max_size=3),
)
def test_any_cell_that_has_a_matrix_comes_back(lengths, angles):
    """The arithmetic alone, on many cells: what is stored gives the floats back that were there."""
    lengths, angles = np.float32(lengths), np.float32(angles)
    vectors = cell_vectors(lengths * np.float64(10), angles)
    if vectors is None or np.linalg.det(vectors / np.linalg.norm(vectors, axis=0)) < 1e-3:
        return
    found = lengths_and_angles(vectors[None])[0]
    assert (found[:3] * 0.1).astype(np.float32).tobytes() == lengths.tobytes()
    np.testing.assert_array_max_ulp(found[3:].astype(np.float32), angles, maxulp=1)
    np.testing.assert_allclose(found, cell_lengths_angles(vectors), rtol=1e-14)


@pytest.mark.parametrize("cell", [[0, 0, 0, 90, 90, 90], [5, 5, 0, 90, 90, 90], [5, 5, 5, 10, 20, 170]])
def test_a_cell_without_a_matrix_comes_back_as_it_was(kit, path, cell):
    source = kit.trajectory(2)
    source.unitcell_lengths = np.tile(np.float32(cell[:3]), (2, 1))
    source.unitcell_angles = np.tile(np.float32(cell[3:]), (2, 1))
    source.save(path)
    kit.same(md.load(path), source)


def write(where, cells, *, units=UNITS):
    """Write a record as a host whose frames may lack a cell: vectors as columns, or None."""
    schema = SequenceSchema().declare_block("atoms", dict.fromkeys("xyz", "f64"))
    declare_shared(schema)
    atoms = Block({name: np.zeros(2) for name in "xyz"})
    empty = {
        name: Block({c: np.zeros(0) for c in columns})
        for name, columns in (("velocities", ("vx", "vy", "vz")), ("forces", ("fx", "fy", "fz")))
    }
    with TrajectoryWriter(where, schema, meta=units) as writer:
        for vectors in cells:
            cell = store_cell(vectors)
            writer.append(Frame({"atoms": atoms, **empty}, box=cell.box, meta=cell.meta))
    return where


def test_frames_without_a_cell_among_others_are_nan_and_said_P37(kit, tmp_path):
    where = write(tmp_path / "run.mrec", [np.eye(3) * 20, None, np.eye(3) * 30])
    with pytest.warns(MolrecCellWarning, match="1 of 3 frames have no cell"):
        found = md.load(where)
    assert found.unitcell_lengths[:, 0].tolist()[::2] == [2, 3]
    assert np.isnan(found.unitcell_lengths[1]).all()
    assert np.isnan(found.unitcell_angles[1]).all()
    assert md.load_frame(where, 1).unitcell_lengths is None
    assert md.load_frame(where, 2).unitcell_lengths.tolist() == [[3, 3, 3]]


def test_a_cell_that_comes_later_is_not_there_before_P37(kit, tmp_path):
    where = write(tmp_path / "run.mrec", [None, np.eye(3) * 20])
    assert md.load_frame(where, 0).unitcell_vectors is None
    assert md.load_frame(where, 1).unitcell_lengths.tolist() == [[2, 2, 2]]


def test_a_slab_keeps_its_zero_vector(kit, tmp_path):
    where = write(tmp_path / "run.mrec", [np.diag([20.0, 30.0, 0.0]), np.eye(3) * 20])
    assert md.load(where).unitcell_lengths.tolist() == [[2, 3, 0], [2, 2, 2]]


def test_an_origin_without_a_cell_is_no_cell(kit, tmp_path):
    with TrajectoryWriter(tmp_path / "run.mrec", meta=UNITS) as writer:
        box = Box(np.eye(3), origin=[1.0, 2, 3], boundary=[False] * 3, cell_defined=False)
        writer.append(Frame({"atoms": Block({name: np.zeros(2) for name in "xyz"})}, box=box))
    assert md.load(tmp_path / "run.mrec").unitcell_lengths is None


def test_a_turned_cell_is_said_once(kit, tmp_path):
    turned = np.array([[0, 20.0, 0], [20.0, 0, 0], [0, 0, 20.0]])
    where = write(tmp_path / "run.mrec", [turned, turned, np.eye(3) * 20])
    with pytest.warns(MolrecCellWarning, match="not in mdtraj's orientation") as told:
        found = md.load(where)
    assert [w.category for w in told].count(MolrecCellWarning) == 1
    assert found.unitcell_lengths.tolist() == [[2, 2, 2]] * 3


def test_noise_below_the_diagonal_is_not_said(kit, tmp_path):
    noisy = np.eye(3) * 20
    noisy[1, 0] = 1e-6
    found = md.load(write(tmp_path / "run.mrec", [noisy]))
    assert found.unitcell_lengths.tolist() == [[2, 2, 2]]
