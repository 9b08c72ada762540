"""mdtraj's own converter, with records on either side."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

md = pytest.importorskip("mdtraj")
from mdtraj.scripts import mdconvert  # noqa: E402

import molrec_mdtraj  # noqa: E402
from molrec_core import open_record  # noqa: E402

# mdtraj 1.10 says that its HDF5 files bring their own topology, and where netCDF4 is not installed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:top= kwargs ignored"),
    pytest.mark.filterwarnings("ignore:.*netCDF4"),
]


@pytest.fixture
def convert(kit, tmp_path, monkeypatch):
    """Run mdconvert in a folder that holds one trajectory in several formats."""
    monkeypatch.chdir(tmp_path)
    source = kit.trajectory(11)
    source.unitcell_angles[:] = 90
    for name in ("run.xtc", "run.dcd", "run.h5", "run.mrec", "run.mrec.zip"):
        source.save(name)
    source[0].save("top.pdb")
    np.savetxt("atoms.txt", [0, 3, 7], fmt="%d")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mdconvert", *arguments])
        mdconvert.main(mdconvert.parse_args(), verbose=False)

    return source, run


@pytest.mark.parametrize("record", ["run.mrec", "run.mrec.zip"])
@pytest.mark.parametrize("output", ["o.xtc", "o.dcd", "o.h5", "o.nc", "o.trr", "o.pdb"])
def test_from_a_record_to_other_formats(convert, record, output):
    source, run = convert
    run(record, "-o", output, "-c", "4")
    found = md.load(output, top=source.topology) if output not in ("o.h5", "o.pdb") else md.load(output)
    tolerance = 1e-3 if output in ("o.xtc", "o.pdb") else 1e-6
    np.testing.assert_allclose(found.xyz, source.xyz, atol=tolerance)
    np.testing.assert_allclose(found.unitcell_lengths[0], source.unitcell_lengths[0], atol=tolerance)
    if output == "o.h5":
        # mdtraj 1.10 leaves bond types out of its HDF5 files.
        assert [str(atom) for atom in found.topology.atoms] == [str(atom) for atom in source.topology.atoms]


@pytest.mark.parametrize("output", ["o.mrec", "o.mrec.zip"])
@pytest.mark.parametrize("given", ["run.xtc", "run.dcd", "run.h5", "run.mrec"])
def test_from_other_formats_to_a_record(kit, convert, given, output):
    source, run = convert
    run(given, "-o", output, "-t", "run.mrec", "-c", "4")
    found = md.load(output)
    np.testing.assert_allclose(found.xyz, source.xyz, atol=1e-3)
    kit.same_topology(found.topology, source.topology)
    if given in ("run.h5", "run.mrec"):
        # mdtraj's HDF5 files hold times in single precision.
        source.time = md.load(given).time
        kit.same(found, source)


def test_stride_atoms_and_index(convert):
    source, run = convert
    run("run.mrec", "-o", "a.mrec", "-s", "2", "-c", "4", "-a", "atoms.txt")
    assert md.load("a.mrec").xyz.tobytes() == source.xyz[::2][:, [0, 3, 7]].tobytes()
    assert md.load("a.mrec").topology == source.topology.subset([0, 3, 7])
    run("run.mrec.zip", "-o", "b.mrec", "-i", "3:7")
    assert md.load("b.mrec").xyz.tobytes() == source.xyz[3:7].tobytes()
    run("run.mrec", "run.mrec/", "-o", "c.mrec")
    assert len(md.load("c.mrec")) == 22


def test_step_numbers_of_xtc_come_along(convert):
    source, run = convert
    from mdtraj.formats import XTCTrajectoryFile

    with XTCTrajectoryFile("steps.xtc", "w") as file:
        file.write(source.xyz, time=source.time, step=np.arange(11, dtype=np.int32) * 500)
    run("steps.xtc", "-o", "o.mrec", "-t", "run.mrec")
    with open_record("o.mrec") as record:
        assert record.trajectory.steps.tolist() == list(range(0, 5500, 500))
    run("o.mrec", "-o", "o.xtc")
    with XTCTrajectoryFile("o.xtc") as file:
        assert file.read()[2].tolist() == list(range(0, 5500, 500))


def test_velocities_and_energies_of_hdf5_come_along(convert):
    source, run = convert
    from mdtraj.formats import HDF5TrajectoryFile

    velocities = np.random.default_rng(0).normal(size=source.xyz.shape).astype(np.float32)
    with HDF5TrajectoryFile("v.h5", "w") as file:
        file.topology = source.topology
        file.write(
            source.xyz,
            time=source.time,
            velocities=velocities,
            potentialEnergy=np.arange(11.0),
            temperature=np.full(11, 300.0),
        )
    run("v.h5", "-o", "o.mrec", "-c", "4")
    assert molrec_mdtraj.load_velocities("o.mrec").astype(np.float32).tobytes() == velocities.tobytes()
    energies = molrec_mdtraj.load_energies("o.mrec")
    assert energies["pe"].tolist() == list(range(11))
    assert energies["temp"].tolist() == [300] * 11


def test_an_output_that_is_there_needs_force(convert, capsys):
    _, run = convert
    with pytest.raises(SystemExit):
        run("run.xtc", "-o", "run.mrec")
    assert "file exists" in capsys.readouterr().err
    run("run.xtc", "-o", "run.mrec", "-f", "-t", "top.pdb")
    assert len(md.load("run.mrec")) == 11


def test_what_is_no_record_is_refused_as_before(convert, tmp_path, capsys):
    _, run = convert
    (tmp_path / "folder").mkdir()
    for given, told in (
        ("folder", "Is a directory"),
        ("none.mrec", "No such file"),
        ("none.xtc", "No such file"),
    ):
        with pytest.raises(SystemExit):
            run(given, "-o", "o.mrec")
        assert told in capsys.readouterr().err


def test_the_package_runs_it_from_the_shell(convert, tmp_path):
    source, _ = convert
    subprocess.run(
        [sys.executable, "-m", "molrec_mdtraj", "run.mrec.zip", "-o", "out.h5", "-c", "5"],
        cwd=tmp_path, check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    assert md.load("out.h5").xyz.tobytes() == source.xyz.tobytes()
