"""Cells, times, units, presence and numbers of frames: K1, K5, K6, K8, K25, K26, P30-P50, P63-P66, P69, P92."""

from __future__ import annotations

import warnings

import MDAnalysis as mda  # noqa: N813 - the usual name
import numpy as np
import pytest
from MDAnalysisTests.datafiles import COORDINATES_TOPOLOGY, COORDINATES_TRR, PSF, XYZ_mini

from molrec_core import Block, Box, Frame, SequenceSchema, TrajectoryWriter, open_record
from molrec_core.hosts import declare_shared
from molrec_core.units import ASE, MolrecUnitsWarning, Units

ANGSTROM = {"units": {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}}


def write(u, path, frames, **options):
    """Write the universe once per entry: (dimensions, data) set on its timestep."""
    ts = u.trajectory.ts
    with mda.Writer(str(path), len(u.atoms), **options) as w:
        for dimensions, data in frames:
            ts.dimensions = dimensions
            ts.data.update(data)
            w.write(u)
    return mda.Universe(str(path), to_guess=())


def moved(n, seed=0):
    u = mda.Universe.empty(n, trajectory=True)
    u.add_TopologyAttr("names", ["C"] * n)
    u.atoms.positions = np.random.default_rng(seed).normal(size=(n, 3))
    return u


BOX = [30.0, 31.0, 32.0, 90.0, 90.0, 90.0]


@pytest.mark.parametrize("case", ["K1", "K25", "P30"])
def test_a_cell_is_there_on_the_frames_that_have_one(case, tmp_path):
    """K1, K25, P30: [box, none, box] comes back so, and None neither crashes nor becomes zeros or 90 degrees."""
    for cells in ([BOX, None, BOX], [None, BOX, None, BOX], [None, None]):
        u = write(moved(3), tmp_path / f"{len(cells)}.mrec", [(cell, {}) for cell in cells])
        found = [None if ts.dimensions is None else ts.dimensions.tolist() for ts in u.trajectory]
        assert found == cells
    assert "box" not in list((tmp_path / "2.mrec" / "trajectory").iterdir())
    assert open_record(tmp_path / "2.mrec").trajectory.box(1) is None


@pytest.mark.parametrize(
    "cell",
    [
        [10, 11, 12, 90, 90, 90],
        [80.017, 80.017, 80.017, 60, 60, 90],
        [40, 41, 42, 80, 85, 95],
        [5, 6, 7, 90, 90, 120],
    ],
)
def test_p31_p32_p34_cells_come_back_in_every_bit(cell, tmp_path):
    """P31, P32, P34: lengths and angles are bit for bit the same, and right angles give exact zeros."""
    u = write(moved(2), tmp_path / "c.mrec", [(cell, {})])
    assert u.dimensions.tobytes() == np.array(cell, np.float32).tobytes()
    vectors = open_record(tmp_path / "c.mrec").trajectory.box(0).vectors
    if cell[3:] == [90, 90, 90]:
        assert (vectors == np.diag(cell[:3])).all()
    np.testing.assert_allclose(
        vectors.T, mda.lib.mdamath.triclinic_vectors(cell, dtype=np.float64), atol=1e-5
    )


def test_a_cell_without_a_matrix_is_kept(tmp_path):
    """Lengths and angles that span no cell come back as they were."""
    u = write(moved(2), tmp_path / "n.mrec", [([10, 10, 0, 90, 90, 90], {}), ([1, 1, 1, 0, 0, 0], {})])
    assert [ts.dimensions.tolist() for ts in u.trajectory] == [[10, 10, 0, 90, 90, 90], [1, 1, 1, 0, 0, 0]]


def test_p36_p41_vectors_of_other_hosts(tmp_path):
    """P36, P41: positions stay where they are whatever the origin; a turned cell warns once."""
    triangle = np.array([[104.12634, 0, 0], [34.70878, 98.171, 0], [-34.70878, 49.0855, 85.0188]]).T
    turned = triangle[[1, 2, 0]]
    atoms = {name: np.arange(2.0) for name in "xyz"}
    for name, vectors in (("straight", triangle), ("turned", turned)):
        with TrajectoryWriter(tmp_path / f"{name}.mrec", meta=ANGSTROM) as writer:
            writer.append(
                Frame({"atoms": {**atoms, "name": ["a", "b"]}}, box=Box(vectors, origin=[5.0, 6, 7]))
            )
    u = mda.Universe(tmp_path / "straight.mrec", to_guess=())
    with pytest.warns(UserWarning, match="not along x"):
        v = mda.Universe(tmp_path / "turned.mrec", to_guess=())
    np.testing.assert_allclose(u.dimensions, v.dimensions, rtol=1e-6)
    assert u.atoms.positions.tolist() == v.atoms.positions.tolist() == [[0, 0, 0], [1, 1, 1]]
    np.testing.assert_allclose(u.trajectory.ts.volume, np.linalg.det(triangle), rtol=1e-5)


def test_p38_p42_the_cell_of_the_frame_counts(tmp_path):
    """P38, P42: a run at constant pressure has the cell of each frame, whatever the system's own."""
    system = Frame({"atoms": {"name": ["a"]}}, box=Box(np.eye(3) * 50))
    with TrajectoryWriter(tmp_path / "n.mrec", system=system, meta=ANGSTROM) as writer:
        for length in (40.0, 41.0, 42.0):
            writer.append(Frame({"atoms": {n: np.zeros(1) for n in "xyz"}}, box=Box(np.eye(3) * length)))
    u = mda.Universe(tmp_path / "n.mrec", to_guess=())
    assert [ts.dimensions[0] for ts in u.trajectory] == [40, 41, 42]


def test_p37_p45_memory_keeps_the_cells(small, tmp_path):
    """P45: ``transfer_to_memory`` keeps the cell of each frame, and in_memory=True does too."""
    cells = np.array([[i, i, i, 90, 90, 90] for i in (10, 11, 12, 13)], np.float32)
    small(dimensions=cells, velocities=True).atoms.write(str(tmp_path / "m.mrec"), frames="all")
    u = mda.Universe(str(tmp_path / "m.mrec"))
    velocities = [ts.velocities.copy() for ts in u.trajectory]
    u.transfer_to_memory()
    assert [ts.dimensions[0] for ts in u.trajectory] == [10, 11, 12, 13]
    np.testing.assert_array_equal([ts.velocities for ts in u.trajectory], velocities)
    assert mda.Universe(str(tmp_path / "m.mrec"), in_memory=True).trajectory[3].dimensions[0] == 13


def test_k5_data_that_some_frames_lack(tmp_path):
    """K5: velocities, forces and scalars are there only on the frames that have them."""
    u = moved(4)
    ts = u.trajectory.ts
    with mda.Writer(str(tmp_path / "k.mrec"), 4) as w:
        for i in range(5):
            ts.has_velocities = i in {1, 2}
            if ts.has_velocities:
                ts.velocities = np.full((4, 3), i)
            ts.has_forces = i == 4
            ts.data.pop("pe", None)
            ts.data.pop("note", None)
            if i != 2:
                ts.data["pe"] = float(i)
            if i == 3:
                ts.data["note"] = "late"
            w.write(u)
    v = mda.Universe(str(tmp_path / "k.mrec"), to_guess=())
    for order in (range(5), reversed(range(5)), [2, 0, 1, 4, 3]):
        for i in order:
            got = v.trajectory[i]
            assert (got.has_velocities, got.has_forces) == (i in {1, 2}, i == 4)
            assert got.data.get("pe") == (None if i == 2 else float(i))
            assert got.data.get("note") == ("late" if i == 3 else None)
            if got.has_velocities:
                assert (got.velocities == i).all()
    iterated = [(ts.has_velocities, ts.has_forces) for ts in v.trajectory]
    assert iterated == [(False, False), (True, False), (True, False), (False, False), (False, True)]


def test_velocities_as_columns_or_never(small, tmp_path):
    """velocities=True puts them into ``atoms`` and refuses a frame without; False leaves them out."""
    u = small(velocities=True)
    u.atoms.write(str(tmp_path / "t.mrec"), frames="all", velocities=True, forces=False)
    schema = open_record(tmp_path / "t.mrec").trajectory.schema
    assert list(schema.blocks) == ["atoms"]
    assert list(schema.blocks["atoms"].columns) == ["x", "y", "z", "vx", "vy", "vz"]
    copy = mda.Universe(str(tmp_path / "t.mrec"))
    for a, b in zip(u.trajectory, copy.trajectory, strict=True):
        np.testing.assert_array_equal(a.velocities, b.velocities)
    u.atoms.write(str(tmp_path / "f.mrec"), velocities=False)
    assert not mda.Universe(str(tmp_path / "f.mrec")).trajectory.ts.has_velocities
    with pytest.raises(ValueError, match=r"frame 0 has no velocities.*velocities='auto'"):
        small().atoms.write(str(tmp_path / "w.mrec"), velocities=True)


@pytest.mark.parametrize(
    "value", [5, -2, 2**40, True, "x", "007", 1.5, np.float32(2.5), np.int8(3), np.arange(3), np.arange(6.0)]
)
def test_scalars_come_back_as_they_were(value, tmp_path):
    """``ts.data`` keeps the value and the type of what a tag holds."""
    u = write(moved(4), tmp_path / "s.mrec", [(None, {"key": value}), (None, {"key": value})])
    got = u.trajectory[1].data["key"]
    assert type(got) is type(value)
    assert np.array_equal(got, value)
    assert getattr(got, "dtype", None) == getattr(value, "dtype", None)


def test_arrays_and_odd_values_in_data(tmp_path):
    """Per-atom arrays have a block of their own; anything else goes to ``info`` and comes back."""
    u = moved(4)
    q = np.arange(4, dtype=np.float32)
    data = {
        "q": q,
        "names": np.array(["a", "b", "c", "dd"]),
        "odd": {"list": [1, (2, None)]},
        "nothing": None,
    }
    later = {"q": q + 1, "new": q, "odd": 5}
    v = write(u, tmp_path / "a.mrec", [(None, data), (None, later)])
    assert "array.q" in open_record(tmp_path / "a.mrec").trajectory.schema.blocks
    first, second = (dict(ts.data) for ts in v.trajectory)
    assert first["odd"] == {"list": [1, (2, None)]}
    assert first["nothing"] is None
    assert first["q"].dtype == np.float32
    assert "new" not in first
    assert second["new"].tolist() == [0, 1, 2, 3]
    assert second["odd"] == 5
    assert second["q"].tolist() == [1, 2, 3, 4]
    assert first["names"].tolist() == ["a", "b", "c", "dd"]
    u.atoms[[3, 1]].write(str(tmp_path / "sub.mrec"))
    assert mda.Universe(str(tmp_path / "sub.mrec")).trajectory.ts.data["q"].tolist() == [4, 2]


def test_a_value_that_nothing_holds_is_named(tmp_path):
    """An object in ``ts.data`` is refused by its key, and the record stays sound."""
    u = moved(2)
    with mda.Writer(str(tmp_path / "o.mrec"), 2) as w:
        w.write(u)
        u.trajectory.ts.data["thing"] = object()
        with pytest.raises(TypeError, match="thing"):
            w.write(u)
        del u.trajectory.ts.data["thing"]
        w.write(u)
    assert len(mda.Universe(str(tmp_path / "o.mrec")).trajectory) == 2


def test_k6_frames_in_any_order_keep_their_steps(small, tmp_path):
    """K6: frames [3, 1, 2, 1] are numbered on, and each keeps the step it came with."""
    u = small()
    with mda.Writer(str(tmp_path / "a.mrec"), 6) as w:
        for i in range(4):
            u.trajectory[i].data["step"] = 10 * i
            w.write(u)
    a = mda.Universe(str(tmp_path / "a.mrec"))
    a.atoms.write(str(tmp_path / "b.mrec"), frames=a.trajectory[[3, 1, 2, 1]])
    b = mda.Universe(str(tmp_path / "b.mrec"))
    assert [ts.data["step"] for ts in b.trajectory] == [30, 10, 20, 10]
    assert [ts.time for ts in b.trajectory] == [1.5, 0.5, 1.0, 0.5]
    assert open_record(tmp_path / "b.mrec").trajectory.steps.tolist() == [30, 31, 32, 33]


def test_k6_mixed_times_are_refused_by_name(tmp_path):
    """K6: a run is with times or without; the error names times= and nothing of the frame lands."""
    timeless = mda.Universe(XYZ_mini, to_guess=())
    timed = mda.Universe.empty(3, trajectory=True)
    for first, second, message in ((timeless, timed, "has a time"), (timed, timeless, "no time of its own")):
        path = tmp_path / f"{message[:5]}.mrec"
        with pytest.warns(UserWarning, match="other atoms"), mda.Writer(str(path), 3) as w:  # noqa: PT031 - a writer
            w.write(first)
            with pytest.raises(ValueError, match=rf"{message}.*times=True"):
                w.write(second)
            w.write(first)
        assert len(open_record(path).trajectory) == 2
    with mda.Writer(str(tmp_path / "t.mrec"), 3, times=True) as w:
        w.write(timed)
        with pytest.warns(UserWarning, match="other atoms"):
            w.write(timeless)
    assert open_record(tmp_path / "t.mrec").trajectory.times.tolist() == [0, 0]


def test_k8_float32_is_exact(tmp_path):
    """K8, P160: float32 positions are bit for bit what they were: huge, infinite, denormal, minus zero, NaN."""
    u = moved(3)
    values = np.array([[1e9, np.inf, -0.0], [1e-45, np.nan, -np.inf], [3.4e38, 0.1, -1e-38]], np.float32)
    u.trajectory.ts._pos[:] = values
    u.atoms.write(str(tmp_path / "f.mrec"))
    assert mda.Universe(str(tmp_path / "f.mrec")).atoms.positions.tobytes() == values.tobytes()


@pytest.mark.parametrize("case", ["K26", "P50"])
def test_large_steps_and_close_times_stay_apart(case, tmp_path):
    """K26, P50: step 3e9 and times 30000000.002/.004 come back, also after a copy of the copy."""
    times = [30000000.0, 30000000.002, 30000000.004]
    steps = [2_115_098_112, 3_000_000_000, 3_000_000_001]
    u = write(
        moved(2),
        tmp_path / "0.mrec",
        [(None, {"time": t, "step": s}) for t, s in zip(times, steps, strict=True)],
    )
    for i in (1, 2):
        assert [ts.time for ts in u.trajectory] == times
        assert [ts.data["step"] for ts in u.trajectory] == steps
        u.atoms.write(str(tmp_path / f"{i}.mrec"), frames="all")
        u = mda.Universe(str(tmp_path / f"{i}.mrec"), to_guess=())


def test_p46_no_time_is_invented(tmp_path):
    """P46: without times the host counts frames, says so once, and a copy has no times either."""
    with TrajectoryWriter(tmp_path / "n.mrec", meta=ANGSTROM) as writer:
        for i in range(3):
            writer.append(Frame({"atoms": {**{n: np.full(2, float(i)) for n in "xyz"}, "name": ["a", "b"]}}))
    u = mda.Universe(str(tmp_path / "n.mrec"), to_guess=())
    with pytest.warns(UserWarning, match="no times") as told:  # noqa: PT031 - told once
        assert [ts.time for ts in u.trajectory] == [0, 1, 2]
        assert u.trajectory.dt == 1.0
    assert len(told) == 1
    u.atoms.write(str(tmp_path / "copy.mrec"), frames="all")
    assert open_record(tmp_path / "copy.mrec").trajectory.times is None


def test_p47_p49_p52_first_time_offset_and_dt(tmp_path):
    """P47, P49, P52: the first time is the source's; time_offset adds; dt= counts only where times are absent."""
    u = write(moved(2), tmp_path / "t.mrec", [(None, {"time": 2.2 + i * 0.001}) for i in range(3)])
    assert u.trajectory.time == 2.2
    assert mda.Universe(str(tmp_path / "t.mrec"), time_offset=100.0).trajectory[0].time == 102.2
    assert [ts.time for ts in mda.Universe(str(tmp_path / "t.mrec"), dt=7).trajectory] == [2.2, 2.201, 2.202]
    assert mda.Universe(str(tmp_path / "t.mrec"), dt=7).trajectory.dt == 2.201 - 2.2
    exact = write(moved(2), tmp_path / "x.mrec", [(None, {"time": i * 0.001}) for i in range(3)])
    assert exact.trajectory.dt == 0.001
    assert exact.trajectory.totaltime == 0.002
    without = write(moved(2), tmp_path / "n.mrec", [(None, {})] * 3, times=False)
    assert open_record(tmp_path / "n.mrec").trajectory.times is None
    assert [ts.time for ts in mda.Universe(str(tmp_path / "n.mrec"), dt=7).trajectory] == [0, 7, 14]
    del without


def test_p90_one_frame_has_a_finite_dt(tmp_path):
    """P90: one frame loads, and dt is finite."""
    u = write(moved(2), tmp_path / "o.mrec", [(None, {"time": 3.0})])
    assert (len(u.trajectory), u.trajectory.time) == (1, 3.0)
    assert np.isfinite(u.trajectory.dt)


def stored_in(units, tmp_path, *, meta=True):
    """A record in other units: positions, velocities and forces of 1, times 0 and 1, pe of 1, mass of 1."""
    system = Frame({"atoms": {"name": ["a"], "mass": [1.0], "charge": [1.0]}})
    schema = SequenceSchema().declare_block(
        "atoms", dict.fromkeys(("x", "y", "z", "vx", "vy", "vz", "fx", "fy", "fz"), "f64")
    )
    declare_shared(schema, velocities=False, forces=False).declare_meta("pe", "f64", fill=0.0)
    with TrajectoryWriter(
        tmp_path / "u.mrec", schema, system=system, meta={"units": units} if meta else {}
    ) as writer:
        for i in range(2):
            columns = {name: np.ones(1) for name in schema.blocks["atoms"].columns} | {
                "z": np.full(1, i + 1.0)
            }
            writer.append(Frame({"atoms": columns}, box=Box(np.eye(3)), meta={"pe": 1.0}), time=float(i))
    return tmp_path / "u.mrec"


def test_p64_p65_units_of_other_hosts(tmp_path):
    """P64, P65: LAMMPS real and ASE units arrive as Å, Å/ps, kJ/mol/Å and ps."""
    u = mda.Universe(stored_in(Units.lammps("real").to_meta(), tmp_path), to_guess=())
    ts = u.trajectory[1]
    assert ts.positions[0].tolist() == [1, 1, 2]
    assert ts.velocities[0, 0] == np.float32(1000)
    assert ts.forces[0, 0] == np.float32(4.184)
    assert ts.data["pe"] == 4.184
    assert (ts.time, u.trajectory.dt) == (0.001, 0.001)
    (tmp_path / "ase").mkdir()
    v = mda.Universe(stored_in(ASE.to_meta(), tmp_path / "ase"), to_guess=())
    np.testing.assert_allclose(v.trajectory.ts.forces[0, 0], 96.48533, rtol=1e-6)
    assert v.dimensions[0] == 1
    (tmp_path / "nm").mkdir()
    nm = mda.Universe(
        stored_in({"length": "nm", "time": "ps", "energy": "kJ/mol"}, tmp_path / "nm"), to_guess=()
    )
    assert (nm.dimensions[0], nm.atoms.positions[0, 0]) == (10, 10)
    np.testing.assert_array_equal(nm.trajectory.timeseries()[:, 0, 0], [10, 10])


def test_p47_reduced_units_are_not_scaled(tmp_path):
    """P47: a record in reduced units is read number for number."""
    u = mda.Universe(stored_in({"preset": "lj"}, tmp_path), to_guess=())
    assert (u.trajectory.ts.velocities[0, 0], u.trajectory.ts.forces[0, 0], u.trajectory[1].time) == (1, 1, 1)


def test_p63_units_are_always_stated_and_missing_ones_are_told(tmp_path):
    """P63, P68: our records state their units; without them the numbers are read as they are, with one warning."""
    moved(2).atoms.write(str(tmp_path / "s.mrec"))
    units = open_record(tmp_path / "s.mrec").meta["units"]
    assert units == {"length": "angstrom", "time": "ps", "energy": "kJ/mol", "mass": "dalton", "charge": "e"}
    path = stored_in(None, tmp_path, meta=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        u = mda.Universe(path, to_guess=())
    assert [w.category for w in told] == [MolrecUnitsWarning]
    assert u.trajectory.ts.velocities[0, 0] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mda.Universe(path, convert_units=False, to_guess=()).atoms.positions[0, 0] == 1
    (tmp_path / "odd").mkdir()
    odd = stored_in({"length": "cubit", "time": "ps", "energy": "eV"}, tmp_path / "odd")
    with pytest.raises(ValueError, match="convert_units=False"):
        mda.Universe(odd)
    assert mda.Universe(odd, convert_units=False, to_guess=()).atoms.positions[0, 0] == 1


def test_p92_append_goes_on(small, tmp_path):
    """P92: append=True goes on after the last frame; a wrong number of atoms raises; steps and times go on."""
    path = str(tmp_path / "a.mrec")
    u = small(dimensions=BOX, velocities=True)
    u.atoms.write(path, frames="all")
    size = {p: p.stat().st_size for p in (tmp_path / "a.mrec" / "system").rglob("*") if p.is_file()}
    with mda.Writer(path, n_atoms=6, append=True) as w:
        for ts in u.trajectory[2:]:
            ts.data["pe"] = -1.0
            w.write(u)
    assert {p: p.stat().st_size for p in size} == size
    copy = mda.Universe(path)
    assert len(copy.trajectory) == 6
    for mine, theirs in zip([0, 1, 2, 3, 2, 3], copy.trajectory, strict=True):
        np.testing.assert_array_equal(theirs.positions, u.trajectory[mine].positions)
        np.testing.assert_array_equal(theirs.velocities, u.trajectory[mine].velocities)
        assert theirs.dimensions.tolist() == BOX
    assert [copy.trajectory[i].data.get("pe") for i in (3, 4)] == [None, -1.0]
    with pytest.raises(ValueError, match="the record has 6 atoms, the writer was opened for 7"):
        mda.Writer(path, n_atoms=7, append=True)
    with pytest.raises(ValueError, match="precision is fixed"):
        mda.Writer(path, n_atoms=6, append=True, precision=1e-3)
    assert len(mda.Universe(path).trajectory) == 6


def test_a_cell_without_a_matrix_is_converted(tmp_path):
    """Lengths that span no cell are appended in the record's unit and read in ours."""
    path = stored_in({"length": "nm", "time": "ps", "energy": "kJ/mol"}, tmp_path)
    u = mda.Universe.empty(1, trajectory=True, velocities=True, forces=True)
    u.dimensions = [10, 10, 0, 90, 90, 90]
    u.trajectory.ts.data["time"] = 5.0
    with mda.Writer(str(path), 1, append=True) as w:
        w.write(u)
    assert open_record(path).trajectory[2].meta["info"]["cell"]["$nd"][1] == [6]
    assert mda.Universe(path, to_guess=()).trajectory[2].dimensions.tolist() == [10, 10, 0, 90, 90, 90]


def test_p92_append_to_other_units_and_to_a_packed_record(small, tmp_path):
    """P92, K10: an append writes in the record's own units; a packed record says to unpack it."""
    path = stored_in(Units.lammps("real").to_meta(), tmp_path)
    u = mda.Universe.empty(1, trajectory=True, velocities=True, forces=True)
    u.trajectory.ts.velocities[:] = 1000
    u.trajectory.ts.forces[:] = 4.184
    u.trajectory.ts.data.update(time=0.005, pe=4.184, step=7)
    with mda.Writer(str(path), 1, append=True) as w:
        w.write(u)
    with open_record(path) as record:
        frame = record.trajectory[2]
        assert frame["atoms"]["vx"].tolist() == [1.0]
        np.testing.assert_allclose(frame["atoms"]["fx"], [1.0], rtol=1e-6)
        assert record.trajectory.times.tolist() == [0, 1, 5]
        assert frame.meta["pe"] == 1.0
    small().atoms.write(str(tmp_path / "p.mrec.zip"), frames="all")
    with pytest.raises(Exception, match="unpack"):
        mda.Writer(str(tmp_path / "p.mrec.zip"), 6, append=True)


def test_append_to_a_record_without_frames_pins_it(small, tmp_path):
    """A record of no frames takes its declaration from the first frame appended."""
    u = small(velocities=True)
    u.atoms.write(str(tmp_path / "a.mrec"))
    with TrajectoryWriter(tmp_path / "z.mrec", system=open_record(tmp_path / "a.mrec").system, meta=ANGSTROM):
        pass
    with pytest.raises(ValueError, match="6 atoms"):
        mda.Writer(str(tmp_path / "z.mrec"), 5, append=True)
    with mda.Writer(str(tmp_path / "z.mrec"), 6, append=True) as w:
        w.write(u)
    copy = mda.Universe(str(tmp_path / "z.mrec"))
    np.testing.assert_array_equal(copy.trajectory.ts.velocities, u.trajectory.ts.velocities)


def test_precision_of_each_quantity(small, tmp_path):
    """A bare precision is that of positions alone; P159: times, cells, velocities and energies stay exact."""
    u = small(dimensions=[31.1, 32.2, 33.3, 90, 90, 90], velocities=True)
    u.trajectory.ts.data["pe"] = -1.23456789
    u.atoms.write(str(tmp_path / "p.mrec"), precision=1e-2)
    copy = mda.Universe(str(tmp_path / "p.mrec"))
    difference = np.abs(copy.atoms.positions - u.atoms.positions).max()
    assert 0 < difference <= 0.5e-2
    np.testing.assert_array_equal(copy.atoms.velocities, u.atoms.velocities)
    assert copy.trajectory.ts.data["pe"] == -1.23456789
    assert copy.dimensions.tolist() == u.dimensions.tolist()
    assert open_record(tmp_path / "p.mrec").trajectory.schema.blocks["atoms"].columns["x"].precision == 1e-2
    u.atoms.write(str(tmp_path / "v.mrec"), precision={"velocities": 0.5})
    v = mda.Universe(str(tmp_path / "v.mrec"))
    np.testing.assert_array_equal(v.atoms.positions, u.atoms.positions)
    assert (v.atoms.velocities % 0.5 == 0).all()
    with pytest.raises(ValueError, match="precision of 'charges': there are positions, velocities, forces"):
        u.atoms.write(str(tmp_path / "w.mrec"), precision={"charges": 1})


def test_other_atoms_of_the_same_number_are_told(small, tmp_path):
    """Writing other atoms than before keeps the first topology, and says so once."""
    u = small()
    with mda.Writer(str(tmp_path / "o.mrec"), 2) as w:
        w.write(u.atoms[:2])
        w.write(u.atoms[[0, 1]])
        with pytest.warns(UserWarning, match="other atoms are written") as told:  # noqa: PT031 - told once
            w.write(u.atoms[2:4])
            w.write(u.atoms[4:])
        assert len(told) == 1
    positions = mda.Universe(str(tmp_path / "o.mrec")).trajectory.timeseries()
    np.testing.assert_array_equal(positions[2:].reshape(-1, 3), u.atoms[2:].positions)


def test_scalars_of_a_real_run_can_be_read_as_series(tmp_path):
    """The coupling of a TRR run becomes a per-step key of the record, one value a frame."""
    u = mda.Universe(COORDINATES_TOPOLOGY, COORDINATES_TRR)
    u.atoms.write(str(tmp_path / "t.mrec"), frames="all")
    record = open_record(tmp_path / "t.mrec").trajectory
    assert record.meta("lambda").tolist() == [ts.data["lambda"] for ts in u.trajectory] == [1.0] * 5


def test_a_wrong_object_is_a_type_error(tmp_path):
    """A timestep, a path or None is refused by its type."""
    u = mda.Universe(PSF, np.zeros((1, 3341, 3), np.float32), to_guess=())
    for wrong in (None, u.trajectory.ts, "u"):
        with (
            pytest.raises(TypeError, match="AtomGroup or a Universe"),
            mda.Writer(str(tmp_path / "x.mrec"), 3341) as w,
        ):
            w.write(wrong)
    block = Block({"x": [1.0]})
    assert block.count == 1
