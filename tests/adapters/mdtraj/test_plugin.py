"""The adapter the ``molrec`` command asks: other formats into a record and out of one."""

from __future__ import annotations

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")
import molrec_mdtraj  # noqa: E402
from molrec_core import TrajectoryWriter, open_record, validate  # noqa: E402
from molrec_mdtraj.plugin import molrec_adapters  # noqa: E402

# mdtraj 1.10 says that its HDF5 files bring their own topology, and where netCDF4 is not installed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:top= kwargs ignored"),
    pytest.mark.filterwarnings("ignore:.*netCDF4"),
]
(ADAPTER,) = molrec_adapters()


def into_record(source, where):
    with TrajectoryWriter(where, source.schema, meta=source.meta, system=source.system) as writer:
        for frame, step, time in source.frames:
            writer.append(frame, step=step, time=time)
    assert validate(where, deep=True) == []
    return md.load(where)


@pytest.fixture
def right(kit):
    """A trajectory whose cell every format can hold."""
    source = kit.trajectory(11)
    source.unitcell_angles = np.full((11, 3), 90, np.float32)
    source.topology.residue(1).resSeq = 4
    return source


def test_it_is_offered_under_its_name():
    assert ADAPTER.name == "mdtraj"
    assert {".h5", ".xtc", ".dcd", ".pdb"} <= set(ADAPTER.reads)
    assert {".h5", ".xtc", ".dcd", ".pdb"} <= set(ADAPTER.writes)


@pytest.mark.parametrize(
    "suffix", [".h5", ".xtc", ".trr", ".dcd", ".nc", ".pdb", ".gro", ".xyz", ".mdcrd", ".lammpstrj", ".dtr"]
)
@pytest.mark.parametrize(
    "frames", [slice(None), slice(2, -1, 3), slice(20, None)], ids=["all", "some", "none"]
)
def test_each_format_is_read_as_mdtraj_reads_it(kit, right, tmp_path, suffix, frames):
    given = tmp_path / f"run{suffix}"
    right.save(str(given))
    own = suffix in (".h5", ".pdb", ".gro")
    right[0].save(tmp_path / "top.mrec")
    expected = md.load(str(given)) if own else md.load(str(given), top=right.topology)
    source = ADAPTER.read(given, None if own else tmp_path / "top.mrec", frames)
    found = into_record(source, tmp_path / "out.mrec")
    picked = np.arange(11)[frames]
    assert source.n_frames == len(found) == len(picked)
    assert found.xyz.tobytes() == expected.xyz[picked].tobytes()
    assert found.topology == expected.topology
    if len(picked):
        assert (found.unitcell_lengths is None) == (expected.unitcell_lengths is None)
        if found.unitcell_lengths is not None:
            # Vectors that were set make mdtraj keep lengths in double precision.
            assert np.array_equal(
                found.unitcell_lengths, expected.unitcell_lengths[picked].astype(np.float32)
            )
    if suffix in (".h5", ".xtc", ".trr", ".nc"):
        assert np.array_equal(found.time, expected.time[picked])
    with open_record(tmp_path / "out.mrec") as record:
        assert (record.trajectory.times is not None) == (
            suffix in (".h5", ".xtc", ".trr", ".nc") and len(picked) > 0
        )


def test_many_chunks_are_read_one_after_the_other(right, tmp_path, monkeypatch):
    monkeypatch.setattr("molrec_mdtraj.plugin._CHUNK_BYTES", right.n_atoms * 12 * 4)
    for suffix in (".h5", ".xtc", ".dcd"):
        right.save(str(tmp_path / f"run{suffix}"))
        right[0].save(tmp_path / "top.mrec")
        source = ADAPTER.read(tmp_path / f"run{suffix}", tmp_path / "top.mrec", slice(1, None, 2))
        found = into_record(source, tmp_path / f"out{suffix}.mrec")
        np.testing.assert_allclose(found.xyz, right.xyz[1::2], atol=1e-3)


def test_velocities_energies_and_steps_come_along(right, tmp_path):
    from mdtraj.formats import HDF5TrajectoryFile, XTCTrajectoryFile

    velocities = np.random.default_rng(0).normal(size=right.xyz.shape).astype(np.float32)
    with HDF5TrajectoryFile(str(tmp_path / "v.h5"), "w") as file:
        file.topology = right.topology
        file.write(right.xyz, time=right.time, velocities=velocities, kineticEnergy=np.arange(11.0))
    into_record(ADAPTER.read(tmp_path / "v.h5", None, slice(3, None)), tmp_path / "v.mrec")
    assert (
        molrec_mdtraj.load_velocities(tmp_path / "v.mrec").astype(np.float32).tobytes()
        == velocities[3:].tobytes()
    )
    assert molrec_mdtraj.load_energies(tmp_path / "v.mrec")["ke"].tolist() == list(range(3, 11))
    with XTCTrajectoryFile(str(tmp_path / "s.xtc"), "w") as file:
        file.write(right.xyz, time=right.time, step=np.arange(11, dtype=np.int32) * 50)
    into_record(
        ADAPTER.read(tmp_path / "s.xtc", tmp_path / "v.h5", slice(None, None, 2)), tmp_path / "s.mrec"
    )
    with open_record(tmp_path / "s.mrec") as record:
        assert record.trajectory.steps.tolist() == list(range(0, 600, 100))


def test_backwards_is_refused(right, tmp_path):
    right.save(str(tmp_path / "run.h5"))
    with pytest.raises(ValueError, match="the step is -1"):
        ADAPTER.read(tmp_path / "run.h5", None, slice(None, None, -1))


@pytest.mark.parametrize("suffix", [".h5", ".xtc", ".dcd", ".pdb"])
def test_a_record_is_exported(right, tmp_path, suffix):
    right.save(tmp_path / "run.mrec")
    ADAPTER.write(tmp_path / "run.mrec", tmp_path / f"out{suffix}", slice(1, None, 3))
    found = md.load(
        str(tmp_path / f"out{suffix}"), **({} if suffix in (".h5", ".pdb") else {"top": right.topology})
    )
    np.testing.assert_allclose(found.xyz, right.xyz[1::3], atol=1e-3)


def test_it_describes_a_record_in_one_line(kit, twenty, tmp_path):
    assert ADAPTER.describe(str(twenty[0])) == "20 frames, 20 atoms, 6 residues, 3 chains, 11 bonds, cell"
    kit.trajectory(0, cell=False).save(tmp_path / "empty.mrec")
    assert ADAPTER.describe(str(tmp_path / "empty.mrec")).startswith("0 frames, 20 atoms")


def test_the_snippet_runs(twenty):
    scope = {}
    exec(ADAPTER.snippet.format(path=twenty[0]), scope)
    assert len(scope["traj"]) == 20
