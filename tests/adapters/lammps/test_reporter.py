"""What a record of a LAMMPS run holds: what `dump custom` writes at 17 digits, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from molrec_core import open_record
from molrec_lammps import MolrecReporter

EVERYTHING = {"velocities": True, "forces": True}
NAMES = ["x", "y", "z", "ix", "iy", "iz", "vx", "vy", "vz", "fx", "fy", "fz"]


def record_of(lmp, path, steps=100, every=10, **options):
    with MolrecReporter(lmp, path, every, **(EVERYTHING | options)) as reporter:
        reporter.run(steps)
    return open_record(path)


def assert_equals_dump(record, frames):
    """The same steps, the same atoms, the same bits."""
    trajectory = record.trajectory
    assert trajectory.steps.tolist() == [step for step, _ in frames]
    for frame, (_, columns) in zip(trajectory, frames, strict=True):
        identity, atoms = frame["identity"], frame["atoms"]
        assert identity["id"].tolist() == columns["id"].tolist()
        assert identity["type_id"].tolist() == columns["type"].tolist()
        for name in NAMES:
            if name in columns:
                assert np.array_equal(atoms[name], columns[name]), name


def uncut(lammps, dump, path, *scripts, steps=100, columns=None):
    """Run the same script in one piece, with LAMMPS's own dump."""
    lmp = lammps(*scripts, dump.commands(path, columns=columns or dump.columns))
    lmp.command(f"run {steps}")
    lmp.command("undump exact")
    return dump.read(path)


THERMOSTATS = {
    "nve": "fix run all nve",
    "ramp": "fix run all nvt temp 3.0 1.0 0.5",
    "langevin": "fix run all nve\nfix bath all langevin 3.0 1.5 0.5 90210",
    "npt": "fix run all npt temp 3.0 2.0 0.5 iso 5.0 2.0 5.0",
    "sorted": "atom_modify sort 1 1.0\nfix run all nve",
}


@pytest.mark.parametrize("fixes", THERMOSTATS.values(), ids=THERMOSTATS)
def test_P121_P126_P131_pieces_give_the_uncut_trajectory(lammps, dump, melt, tmp_path, fixes):
    """Ramps, random numbers, a changing cell, atoms that LAMMPS reorders: every row stays with its id."""
    script = melt.replace("fix run all nve", fixes)
    record = record_of(lammps(script), tmp_path / "m.mrec")
    assert_equals_dump(record, uncut(lammps, dump, tmp_path / "dump", script))
    assert (np.diff(record.trajectory[-1]["identity"]["id"].astype(int)) > 0).all()
    assert len(record.trajectory.updates("identity")) == 1


def test_P125_molecules_in_real_units(lammps, dump, water, tmp_path):
    """Charges, molecules, labels, bonds, and wrapped coordinates that unwrap to LAMMPS's own."""
    record = record_of(lammps(water), tmp_path / "w.mrec", elements={"OW": "O", 2: "H"})
    frames = uncut(lammps, dump, tmp_path / "dump", water, columns=dump.columns + " xu yu zu q mol mass")
    assert_equals_dump(record, frames)
    flags = set()
    for frame, (_, columns) in zip(record.trajectory, frames, strict=True):
        atoms, identity = frame["atoms"], frame["identity"]
        images = np.stack([atoms[n] for n in ("ix", "iy", "iz")], axis=1)
        flags |= set(images.ravel().tolist())
        unwrapped = np.stack([atoms[n] for n in "xyz"], axis=1) + images @ frame.box.vectors.T
        assert np.array_equal(unwrapped, np.stack([columns[n] for n in ("xu", "yu", "zu")], axis=1))
        assert np.array_equal(identity["charge"], columns["q"])
        assert np.array_equal(identity["mol_id"], columns["mol"])
        assert np.array_equal(identity["mass"], columns["mass"])
    assert len(flags) > 1
    frame = record.trajectory[-1]
    assert set(frame["identity"]["type"]) == {"OW", "HW"}
    assert frame["identity"]["element"][:3].tolist() == ["O", "H", "H"]
    assert frame["identity"]["atomic_number"][:3].tolist() == [8, 1, 1]
    bonds = np.stack([frame["bonds"][n] for n in ("atomi", "atomj")], axis=1)
    assert bonds[:4].tolist() == [[0, 1], [0, 2], [3, 4], [3, 5]]
    assert set(frame["bonds"]["type"]) == {"OH"}
    assert frame["angles"].count == 27
    assert frame["angles"]["type"][0] == "1"
    assert record.meta["units"] == {"preset": "real", "pressure": "atm"}


def test_P125_triclinic_cell(lammps, dump, triclinic, tmp_path):
    """Origin and tilt from the box; lattice vectors are columns; unwrapped coordinates are LAMMPS's."""
    record = record_of(lammps(triclinic), tmp_path / "t.mrec", steps=200, every=50)
    frames = uncut(lammps, dump, tmp_path / "dump", triclinic, steps=200,
                   columns=dump.columns + " xu yu zu")  # fmt: skip
    frames = [frame for frame in frames if frame[0] % 50 == 0]
    assert_equals_dump(record, frames)
    frame, (_, columns) = record.trajectory[-1], frames[-1]
    assert frame.box.vectors.tolist() == [[15, 3.5, -2.5], [0, 17, 4.25], [0, 0, 16]]
    assert frame.box.origin.tolist() == [-2, -3, 1]
    atoms = frame["atoms"]
    images = np.stack([atoms[n] for n in ("ix", "iy", "iz")], axis=1)
    assert images.any()
    unwrapped = np.stack([atoms[n] for n in "xyz"], axis=1) + images @ frame.box.vectors.T
    assert np.allclose(unwrapped, np.stack([columns[n] for n in ("xu", "yu", "zu")], axis=1), rtol=1e-14)


def test_periodic_flags_are_the_boundaries(lammps, melt, tmp_path):
    script = melt.replace("units lj", "units lj\nboundary p f s").replace(
        "fix run all nve", "fix run all nve\nfix w all wall/reflect yhi EDGE ylo EDGE"
    )
    record = record_of(lammps(script), tmp_path / "m.mrec", steps=20)
    assert record.trajectory[-1].box.boundary.tolist() == [True, False, False]


def test_K30_P88_P122_atoms_go_and_come(lammps, dump, melt, tmp_path):
    """delete_atoms and fix deposit: rows are the atoms that are there, ids keep their gaps."""
    change = "region top block 0 4 0 4 3 4\ndelete_atoms random count 56 yes all NULL 482793 compress no\n"
    grow = "fix grow all deposit 6 1 7 12345 region top near 0.6 attempt 500\n"
    lmp = lammps(melt.replace("region box block 0 4 0 4 0 4", "region box block 0 4 0 4 0 6").replace(
        "create_atoms 1 box", "region fill block 0 4 0 4 0 3\ncreate_atoms 1 region fill"))  # fmt: skip
    lmp.commands_string(dump.commands(tmp_path / "dump"))
    with MolrecReporter(lmp, tmp_path / "m.mrec", 10, **EVERYTHING) as reporter:
        reporter.run(30)
        lmp.commands_string(change)
        reporter.run(30)
        lmp.commands_string(grow)
        reporter.run(60)
    lmp.command("undump exact")
    record, frames = open_record(tmp_path / "m.mrec"), dump.read(tmp_path / "dump")
    assert_equals_dump(record, frames)
    counts = record.trajectory.counts("atoms")
    assert counts[0] > counts[4]
    assert counts[-1] > counts[4]
    ids = record.trajectory[4]["identity"]["id"]
    assert ids[-1] > len(ids)
    assert lmp.extract_setting("nghost") > 0


def test_grand_canonical_run_is_a_ragged_trajectory(lammps, dump, melt, tmp_path):
    fixes = "fix run all nve\nfix mc all gcmc 5 20 0 1 29494 2.0 -0.5 0.1"
    lmp = lammps(melt.replace("fix run all nve", fixes), dump.commands(tmp_path / "dump"))
    record = record_of(lmp, tmp_path / "m.mrec", steps=150)
    lmp.command("undump exact")
    assert_equals_dump(record, dump.read(tmp_path / "dump"))
    assert len(set(record.trajectory.counts("atoms").tolist())) > 2


def test_bonds_follow_their_atoms(lammps, water, tmp_path):
    """Removed molecules take their bonds along; the rest refer to the rows that are there."""
    lmp = lammps(water)
    with MolrecReporter(lmp, tmp_path / "w.mrec", 10) as reporter:
        reporter.run(10)
        lmp.command("group gone molecule 1 5")
        lmp.command("delete_atoms group gone mol yes bond yes compress no")
        reporter.run(10)
        lmp.command("group broken id 7 8")
        lmp.command("delete_bonds broken bond 1 remove special")
        reporter.run(10)
    trajectory = open_record(tmp_path / "w.mrec").trajectory
    assert trajectory.updates("bonds").tolist() == [0, 2, 3]
    assert [frame["bonds"].count for frame in trajectory] == [54, 54, 50, 49]
    frame = trajectory[2]
    ends = np.stack([frame["bonds"][n] for n in ("atomi", "atomj")], axis=1)
    ids = frame["identity"]["id"].astype(int)[ends]
    assert ((ids[:, 1] - ids[:, 0] <= 2) & (ids[:, 0] % 3 == 1)).all()


STYLE = "thermo_style custom step pe ke etotal temp press vol ebond\nthermo 10\nthermo_modify format float %.17g norm no\n"


def test_thermo_is_what_the_log_says(lammps, water, tmp_path):
    """At the steps of the frames, by keyword, though the run is cut in pieces."""
    lmp = lammps(water, STYLE)
    lmp.command(f"log {tmp_path / 'log'}")
    lmp.command("run 40")
    lmp.command("log none")
    table = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    header = table.index(["Step", "PotEng", "KinEng", "TotEng", "Temp", "Press", "Volume", "E_bond"])
    rows = np.array(table[header + 1 : header + 6], dtype=float)
    thermo = ("pe", "ke", "etotal", "temp", "press", "vol", "ebond", "v_twice")
    lmp = lammps(water, STYLE, "variable twice equal 2*temp\n")
    trajectory = record_of(lmp, tmp_path / "w.mrec", steps=40, thermo=thermo).trajectory
    for i, key in enumerate(("pe", "ke", "etotal", "temp", "press", "volume", "ebond"), start=1):
        # The log has the kinetic energy from the temperature, the record from the velocities.
        assert np.allclose(trajectory.meta(key), rows[:, i], rtol=1e-13), key
    assert np.array_equal(trajectory.meta("pe"), rows[:, 1])
    assert np.array_equal(trajectory.meta("v_twice"), 2 * trajectory.meta("temp"))


@pytest.mark.parametrize(
    "style", ["", "thermo_style custom step\n", "thermo_modify norm yes\n", "thermo_modify norm no\n"]
)
def test_thermo_is_known_and_total_whatever_is_printed(lammps, melt, tmp_path, style):
    """lj prints energies per atom by default; a record has totals, and needs no thermo_style."""
    lmp = lammps(melt, style)
    trajectory = record_of(lmp, tmp_path / "m.mrec", steps=20, thermo=None).trajectory
    velocities = np.stack([trajectory[-1]["atoms"][n] for n in ("vx", "vy", "vz")])
    assert np.isclose(trajectory.meta("ke")[-1], 0.5 * (velocities**2).sum(), rtol=1e-12)
    assert trajectory.meta("pe")[0] < -1000
    assert np.allclose(trajectory.meta("etotal"), trajectory.meta("etotal")[0], rtol=1e-2)


@pytest.mark.parametrize("norm", ["yes", "no"])
def test_keywords_that_norm_divides_are_totals(lammps, melt, tmp_path, norm):
    """An energy by keyword and the same by compute agree, whatever the output shows; an intensive one is left alone."""
    lmp = lammps(melt, f"thermo_style custom step evdwl density\nthermo_modify norm {norm}\n")
    trajectory = record_of(lmp, tmp_path / "m.mrec", steps=20, thermo=["pe", "evdwl", "density"]).trajectory
    assert np.allclose(trajectory.meta("evdwl"), trajectory.meta("pe"), rtol=1e-13)
    assert np.allclose(trajectory.meta("density"), 0.8442)


def test_a_thermo_keyword_that_is_not_there_is_an_error(lammps, melt, tmp_path):
    with pytest.raises(ValueError, match="thermo keyword 'evdwl'"):
        record_of(lammps(melt, "thermo_style custom step\n"), tmp_path / "m.mrec", thermo=["evdwl"])


def test_P129_per_atom_computes_fixes_variables_and_properties(lammps, dump, melt, tmp_path):
    more = """
compute pe all pe/atom
compute s all stress/atom NULL
variable speed atom sqrt(vx^2+vy^2+vz^2)
fix ave all ave/atom 1 5 10 vx vy
fix prop all property/atom d_weight
set group all d_weight 2.5
"""
    arrays = ["c_pe", "c_s[4]", "v_speed", "f_ave[2]", "d_weight"]
    lmp = lammps(melt, more)
    record = record_of(lmp, tmp_path / "m.mrec", arrays=[*arrays, "c_s"])
    columns = "id " + " ".join(arrays)
    frames = uncut(lammps, dump, tmp_path / "dump", melt, more, columns=columns)
    for frame, (_, want) in zip(record.trajectory, frames, strict=True):
        for name in arrays:
            assert np.array_equal(frame[f"array.{name}"]["value"], want[name]), name
        assert np.array_equal(frame["array.c_s"]["value"][:, 3], want["c_s[4]"])


@pytest.mark.parametrize("name", ["c_none", "f_none", "v_none", "pe", "c_pe[x]"])
def test_an_array_that_is_not_there_is_an_error(lammps, melt, tmp_path, name):
    with pytest.raises(ValueError, match="array"):
        MolrecReporter(lammps(melt), tmp_path / "m.mrec", 10, arrays=[name])


def test_a_group_alone(lammps, water, tmp_path):
    """P127: ids of a part of the atoms are kept; bonds that leave it are not."""
    lmp = lammps(water, "group some molecule 2:4\ngroup hydrogens type 2\n")
    record = record_of(lmp, tmp_path / "w.mrec", steps=10, group="some")
    frame = record.trajectory[0]
    assert frame["identity"]["id"].tolist() == list(range(4, 13))
    assert frame["bonds"]["atomi"].tolist() == [0, 0, 3, 3, 6, 6]
    record = record_of(lmp, tmp_path / "h.mrec", steps=10, group="hydrogens")
    assert record.trajectory[0]["bonds"].count == 0
    with pytest.raises(ValueError, match="no group 'none'"):
        MolrecReporter(lmp, tmp_path / "n.mrec", 10, group="none")


@pytest.mark.parametrize("elements", [["Ar", "Kr"], {1: "Ar", 2: "Kr"}, {2: "Kr"}])
def test_elements_are_given_never_guessed(lammps, triclinic, tmp_path, elements):
    frame = record_of(lammps(triclinic), tmp_path / "t.mrec", steps=10, elements=elements).trajectory[0]
    numbers = {1: 0, 2: 36} if elements == {2: "Kr"} else {1: 18, 2: 36}
    identity = frame["identity"]
    assert identity["atomic_number"].tolist() == [numbers[t] for t in identity["type_id"].tolist()]
    assert (
        "element" not in record_of(lammps(triclinic), tmp_path / "u.mrec", steps=10).trajectory[0]["identity"]
    )


@pytest.mark.parametrize("elements", [["Ar", "Nope"], {"AA": "Ar"}])
def test_elements_that_are_none_are_refused(lammps, triclinic, tmp_path, elements):
    with pytest.raises(ValueError, match="elements"):
        record_of(lammps(triclinic), tmp_path / "t.mrec", elements=elements)


@pytest.mark.parametrize("style", ["real", "metal", "si", "cgs", "electron", "micro", "nano"])
def test_every_units_style_is_stated(lammps, tmp_path, style):
    """Velocities of `electron` are in bohr per atomic time unit, and in bohr/fs in the record."""
    script = f"""
units {style}
atom_style atomic
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 single 5 5 5
mass 1 2.0
pair_style zero 3.0
pair_coeff * *
velocity all set 1.0 2.0 -3.0
timestep 1e-30
fix run all nve
"""
    record = record_of(lammps(script), tmp_path / "u.mrec", steps=0, thermo=())
    assert record.meta["units"]["preset"] == style
    factor = 1 / 2.4188843265864e-2 if style == "electron" else 1.0
    atoms = record.trajectory[0]["atoms"]
    assert np.allclose(
        [atoms[n][0] for n in ("vx", "vy", "vz")], np.array([1.0, 2.0, -3.0]) * factor, rtol=1e-9
    )


def test_times_follow_a_timestep_that_changes(lammps, melt, tmp_path):
    lmp = lammps(melt)
    with MolrecReporter(lmp, tmp_path / "m.mrec", 10) as reporter:
        reporter.run(20)
        lmp.command("timestep 0.001")
        reporter.run(20)
    assert np.allclose(open_record(tmp_path / "m.mrec").trajectory.times, [0, 0.05, 0.1, 0.11, 0.12])


def test_a_box_without_atoms(lammps, melt, tmp_path):
    lmp = lammps(melt)
    with MolrecReporter(lmp, tmp_path / "m.mrec", 10, thermo=()) as reporter:
        reporter.run(10)
        lmp.command("delete_atoms group all compress no")
        reporter.run(10)
    assert open_record(tmp_path / "m.mrec").trajectory.counts("atoms").tolist() == [256, 256, 0]


# -- attach


def test_attach_reports_the_inputs_own_runs(lammps, dump, melt, tmp_path):
    """Positions, image flags and the cell of each step, once, though every run sets up at the last one's end."""
    script = melt.replace("fix run all nve", "fix run all npt temp 3.0 3.0 0.5 iso 5.0 5.0 5.0")
    lmp = lammps(script, dump.commands(tmp_path / "dump"))
    reporter = MolrecReporter(lmp, tmp_path / "m.mrec", 10)
    reporter.attach()
    lmp.commands_string("run 40\nrun 25\nrun 15")
    reporter.close()
    lmp.command("run 20")
    lmp.command("undump exact")
    record = open_record(tmp_path / "m.mrec")
    frames = [frame for frame in dump.read(tmp_path / "dump") if frame[0] <= 80]
    for frame, (step, columns) in zip(record.trajectory, frames, strict=True):
        assert frame["identity"]["id"].tolist() == columns["id"].tolist(), step
        for name in ["x", "y", "z", "ix", "iy", "iz"]:
            assert np.array_equal(frame["atoms"][name], columns[name]), (step, name)
    assert record.trajectory.box(0) != record.trajectory.box(-1)
    assert "pe" not in record.trajectory.meta_keys


@pytest.mark.parametrize(
    "options", [{"velocities": True}, {"forces": True}, {"thermo": ["pe"]}, {"arrays": ["c_pe"]}]
)
def test_attach_refuses_what_is_not_there_within_a_step(lammps, melt, tmp_path, options):
    lmp = lammps(melt, "compute pe all pe/atom\n")
    with pytest.raises(ValueError, match=r"reporter\.run"):
        MolrecReporter(lmp, tmp_path / "m.mrec", 10, **options).attach()
    assert not (tmp_path / "m.mrec").exists()


# -- MPI

RANKS = """
import sys
from molrec_lammps import MolrecReporter, open_lammps
lmp = open_lammps("-log", "none", "-screen", "none")
lmp.commands_string(open(sys.argv[1]).read())
with MolrecReporter(lmp, sys.argv[2], 10, velocities=True, forces=True, arrays=["c_pe", "f_ave"]) as reporter:
    reporter.run(50)
lmp.close()
"""


@pytest.mark.parametrize("empty", [False, True], ids=["both ranks", "one rank without atoms"])
def test_P123_P124_two_ranks_one_writer(dump, melt, water, tmp_path, empty):
    """Rank 0 writes what all ranks hold; a rank may hold nothing."""
    script = water
    if empty:
        script = melt.replace(
            "create_atoms 1 box", "region left block 0 1.5 0 4 0 4\ncreate_atoms 1 region left"
        )
        script = script.replace("region box block 0 4 0 4 0 4", "region box block 0 12 0 4 0 4")
    more = "compute pe all pe/atom\nfix ave all ave/atom 1 1 10 vx\n"
    (tmp_path / "in").write_text(script + more + dump.commands(tmp_path / "dump"))
    mpiexec = Path(sys.prefix) / "bin" / "mpiexec"
    done = subprocess.run(
        [str(mpiexec), "-n", "2", sys.executable, "-c", RANKS, str(tmp_path / "in"), str(tmp_path / "m.mrec")],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = open_record(tmp_path / "m.mrec")
    assert_equals_dump(record, dump.read(tmp_path / "dump"))
    energies = record.trajectory[-1]["array.c_pe"]["value"]
    assert np.isclose(energies.sum(), record.trajectory.meta("pe")[-1], rtol=1e-9)
    assert np.array_equal(record.trajectory[-1]["array.f_ave"]["value"], record.trajectory[-1]["atoms"]["vx"])


def test_no_shared_memory_is_left_behind(tmp_path, melt):
    """An instance of ours is finalised, closed or not, after an error too."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("no /dev/shm on this system")
    for ending in ("lmp.close()", "pass", "raise SystemExit(3)"):
        script = f"""
import os
from molrec_lammps import open_lammps
lmp, other = open_lammps("-log", "none", "-screen", "none"), open_lammps("-log", "none", "-screen", "none")
lmp.commands_string({melt!r})
lmp.command("run 5")
print(os.getpid(), flush=True)
{ending}
"""
        done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
        assert done.stderr == ""
        pid = int(done.stdout)
        assert not list(shared.glob(f"mpich_shm_{pid:x}_*"))
        assert done.returncode == (3 if "Exit" in ending else 0)


def test_the_mpi_library_needs_no_environment(tmp_path):
    """LD_LIBRARY_PATH is not asked for."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    script = "import molrec_lammps, lammps; l = lammps.lammps(cmdargs=['-log', 'none', '-screen', 'none']); l.finalize()"
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
