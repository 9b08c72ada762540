"""Dump files as records: sorted rows, one form of coordinates, cells, and what a data file adds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from molrec_core import FormatError, SequenceSchema, TrajectoryWriter, open_record
from molrec_core.errors import UnitError
from molrec_lammps import MolrecReporter
from molrec_lammps._dump import MolrecDumpWarning
from molrec_lammps.plugin import molrec_adapters

POSITIONS = ["x", "y", "z"]


def convert(dump, path, data=None, frames=slice(None)):
    """What `molrec convert` does with an adapter's source."""
    (adapter,) = molrec_adapters()
    source = adapter.read(dump, data, frames)
    with TrajectoryWriter(path, source.schema, meta=source.meta, system=source.system) as writer:
        for frame, step, time in source.frames:
            writer.append(frame, step=step, time=time)
    return open_record(path)


def make(lammps, script, path, columns, more="", steps=40):
    """Let LAMMPS write an unsorted dump of `columns` with its units and times."""
    lmp = lammps(script)
    lmp.commands_string(
        f"dump d all custom 10 {path} {columns}\n"
        f"dump_modify d format float %.17g units yes time yes {more}\nrun {steps}\nundump d\n"
    )
    return lmp


def xyz(frame, names=POSITIONS):
    return np.stack([frame["atoms"][name] for name in names], axis=1)


def test_P126_a_dump_equals_the_record_of_the_run(lammps, water, tmp_path):
    """The same run once through its dump and data file, once through the reporter."""
    columns = "id mol type q x y z ix iy iz vx vy vz fx fy fz mass"
    make(lammps, water, tmp_path / "w.lammpstrj", columns)
    record = convert(tmp_path / "w.lammpstrj", tmp_path / "dump.mrec", tmp_path / "water.data")
    with MolrecReporter(
        lammps(water), tmp_path / "w.mrec", 10, velocities=True, forces=True, thermo=()
    ) as reporter:
        reporter.run(40)
    run = open_record(tmp_path / "w.mrec")
    assert len(record.trajectory) == 5
    for found, want in zip(record.trajectory, run.trajectory, strict=True):
        assert found.keys() == want.keys()
        for name, block in want.items():
            if name != "identity":
                assert found[name] == block, name
        for name in want["identity"]:
            assert np.array_equal(found["identity"][name], want["identity"][name]), name
        assert np.allclose(found.box.vectors, want.box.vectors, rtol=1e-14)
    assert np.allclose(record.trajectory.times, run.trajectory.times)
    assert record.meta["units"] == run.meta["units"]


FORMS = {
    "wrapped": ("x y z ix iy iz", "wrapped", 1e-15),
    "scaled": ("xs ys zs ix iy iz", "scaled", 1e-12),
    "unwrapped": ("xu yu zu ix iy iz", "unwrapped", 1e-12),
    "scaled unwrapped": ("xsu ysu zsu", "scaled unwrapped", 1e-12),
}


@pytest.mark.parametrize(("columns", "form", "tolerance"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("cell", ["melt", "triclinic"])
def test_P125_forms_of_coordinates_are_told_apart(
    lammps, melt, triclinic, tmp_path, columns, form, tolerance, cell
):
    """Orthogonal and triclinic: lengths out of scaled ones, and nothing unwrapped twice."""
    script = {"melt": melt, "triclinic": triclinic}[cell]
    with MolrecReporter(lammps(script), tmp_path / "run.mrec", 100, thermo=()) as reporter:
        reporter.run(400)
    frame = open_record(tmp_path / "run.mrec").trajectory[-1]
    images = xyz(frame, ["ix", "iy", "iz"])
    assert images.any()
    lmp = lammps(script)
    lmp.commands_string(
        f"dump d all custom 100 {tmp_path / 'd.dump'} type id {columns}\n"
        "dump_modify d format float %.17g units yes\nrun 400\nundump d\n"
    )
    record = convert(tmp_path / "d.dump", tmp_path / "d.mrec")
    found = record.trajectory[-1]
    assert record.meta["lammps"] == {"coordinates": form}
    unwrapped = xyz(frame) + images @ frame.box.vectors.T
    want = unwrapped if "unwrapped" in form else xyz(frame)
    assert np.allclose(xyz(found), want, rtol=0, atol=tolerance * 100)
    assert np.allclose(found.box.vectors, frame.box.vectors, rtol=1e-14)
    assert np.allclose(found.box.origin, frame.box.origin, rtol=1e-14)
    assert ("ix" in found["atoms"]) == (form in {"wrapped", "scaled"})
    if "ix" in found["atoms"]:
        assert np.array_equal(xyz(found, ["ix", "iy", "iz"]), images)
    if form == "unwrapped":
        assert np.array_equal(found["array.ix"]["value"], images[:, 0])


@pytest.mark.parametrize("tilts", [(3, 2, 1), (-3, -2, -1), (3, -2, 4), (-3, 2, -4)])
def test_bounds_of_a_triclinic_cell_are_undone(lammps, triclinic, tmp_path, tilts):
    """A dump states the box around the cell; whichever tilts reach out of it."""
    script = triclinic.replace("3.5 -2.5 4.25", "{} {} {}".format(*tilts))
    lmp = lammps(script)
    lmp.command(f"write_dump all custom {tmp_path / 'd.dump'} id type xs ys zs modify units yes")
    low, high, xy, yz, xz, _, _ = lmp.extract_box()
    box = convert(tmp_path / "d.dump", tmp_path / "d.mrec").trajectory[0].box
    assert (xy, xz, yz) == tilts
    edges = np.subtract(high, low)
    assert np.allclose(box.vectors, [[edges[0], xy, xz], [0, edges[1], yz], [0, 0, edges[2]]], rtol=1e-13)
    assert np.allclose(box.origin, low, rtol=1e-13)


def test_dump_atom_is_read(lammps, triclinic, tmp_path):
    """The plain `dump atom`, scaled and unsorted, without units."""
    lmp = lammps(triclinic)
    lmp.commands_string(f"dump d all atom 10 {tmp_path / 'd.dump'}\nrun 20\nundump d\n")
    with pytest.warns(MolrecDumpWarning, match="states no units"):
        record = convert(tmp_path / "d.dump", tmp_path / "d.mrec")
    assert "units" not in record.meta
    assert record.trajectory.steps.tolist() == [0, 10, 20]
    assert record.trajectory.times is None
    assert (np.diff(record.trajectory[0]["identity"]["id"].astype(int)) > 0).all()
    assert record.trajectory[0].box.vectors.tolist() == [[15, 3.5, -2.5], [0, 17, 4.25], [0, 0, 16]]


def test_P127_P129_groups_labels_elements_and_extra_columns(lammps, water, tmp_path):
    """Ids of a part of the atoms stay ids; types, labels and elements are each their own."""
    script = water + "compute pe all pe/atom\nvariable twice atom x*2\ngroup some id 10 20 30\n"
    lmp = lammps(script)
    lmp.commands_string(
        f"dump d some custom 10 {tmp_path / 'd.dump'} id type typelabel element x y z c_pe v_twice\n"
        "dump_modify d units yes element O H format float %.17g\nrun 10\nundump d\n"
    )
    record = convert(tmp_path / "d.dump", tmp_path / "d.mrec", tmp_path / "water.data")
    frame = record.trajectory[0]
    assert frame["identity"]["id"].tolist() == [10, 20, 30]
    assert frame["identity"]["type"].tolist() == ["OW", "HW", "HW"]
    assert frame["identity"]["type_id"].tolist() == [1, 2, 2]
    assert frame["identity"]["element"].tolist() == ["O", "H", "H"]
    assert frame["identity"]["atomic_number"].tolist() == [8, 1, 1]
    assert frame["identity"]["mass"].tolist() == [15.9994, 1.008, 1.008]
    assert frame["identity"]["mol_id"].tolist() == [4, 7, 10]
    assert np.array_equal(frame["array.v_twice"]["value"], frame["atoms"]["x"] * 2)
    assert frame["array.c_pe"]["value"].all()
    assert frame["bonds"].count == 0


def test_P88_a_changing_count_is_ragged(lammps, melt, tmp_path):
    lmp = make(lammps, melt, tmp_path / "d.dump", "id type x y z")
    lmp.command("delete_atoms random count 6 yes all NULL 482793 compress no")
    lmp.commands_string(f"dump d all custom 10 {tmp_path / 'd.dump'} id type x y z\n"
                        "dump_modify d append yes format float %.17g time yes\nrun 20\nundump d\n")  # fmt: skip
    record = convert(tmp_path / "d.dump", tmp_path / "d.mrec")
    assert record.trajectory.counts("atoms").tolist() == [256] * 5 + [250] * 3
    # The second dump begins with the step the first one ended with.
    assert record.trajectory.steps.tolist() == [0, 10, 20, 30, 40, 41, 42, 43]
    assert record.trajectory.meta("source_step") == [None] * 5 + [40, 50, 60]


TEXT = """ITEM: UNITS
real
ITEM: TIMESTEP
{step}
ITEM: NUMBER OF ATOMS
2
ITEM: BOX BOUNDS pp ff ss
0 10
0 10
0 10
ITEM: ATOMS id type x y z
{second} 1 1.5 2.5 3.5
7 2 4.5 5.5 6.5
"""


def text(*steps, second=9):
    head, *others = (TEXT.format(step=step, second=second) for step in steps)
    return head + "".join(other.removeprefix("ITEM: UNITS\nreal\n") for other in others)


def test_a_small_dump(tmp_path):
    (tmp_path / "d.dump").write_text(text(100, 200))
    record = convert(tmp_path / "d.dump", tmp_path / "d.mrec")
    frame = record.trajectory[1]
    assert frame["identity"]["id"].tolist() == [7, 9]
    assert xyz(frame).tolist() == [[4.5, 5.5, 6.5], [1.5, 2.5, 3.5]]
    assert frame.box.boundary.tolist() == [True, False, False]
    assert record.trajectory.steps.tolist() == [100, 200]
    assert record.trajectory.schema == SequenceSchema.from_json(record.trajectory.schema.to_json())


@pytest.mark.parametrize(
    "frames", [slice(1, None), slice(0, 2), slice(None, None, 2), slice(-2, None), slice(3, 3)]
)
def test_frames_are_chosen(tmp_path, frames):
    (tmp_path / "d.dump").write_text(text(*range(0, 50, 10)))
    record = convert(tmp_path / "d.dump", tmp_path / "d.mrec", frames=frames)
    assert record.trajectory.steps.tolist() == list(range(0, 50, 10))[frames]
    if len(record.trajectory):
        assert record.meta["units"]["preset"] == "real"


def test_P108_a_cut_tail_is_left_out_with_one_warning(tmp_path, recwarn):
    """Cut anywhere within its last frame, a dump yields the frames before it."""
    whole = text(10, 20)
    first = len(text(10))
    for number, cut in enumerate(itertools.chain(range(first + 1, len(whole) - 1, 7), [len(whole) - 1])):
        (tmp_path / "d.dump").write_text(whole[:cut])
        recwarn.clear()
        with pytest.warns(MolrecDumpWarning, match="ends within frame 1") as told:
            record = convert(tmp_path / "d.dump", tmp_path / f"{number}.mrec")
        assert len(told) == 1
        assert record.trajectory.steps.tolist() == [10]


BROKEN = {
    "no dump": ("hello\n", "line 1"),
    "binary": ("\x00\x01\x02\n", "line 1"),
    "entries": ("ITEM: TIMESTEP\n0\nITEM: NUMBER OF ENTRIES\n3\n", "line 3"),
    "not a number": (text(10).replace("1.5", "one"), "column x"),
    "a value less": (text(10).replace(" 3.5", ""), "9 values in 2 rows of 5 columns"),
    "a count": (text(10).replace("\n2\n", "\ntwo\n"), "NUMBER OF ATOMS"),
    "no positions": (text(10).replace("x y z", "x y q"), "no complete x y z"),
    "an id twice": (text(10, second=7), "id 7 stands for two atoms"),
    "other columns": (
        text(10) + text(20).removeprefix("ITEM: UNITS\nreal\n").replace("x y z", "x z y"),
        "step 20",
    ),
    "no step": ("ITEM: NUMBER OF ATOMS\n0\nITEM: ATOMS id x y z\n", "TIMESTEP"),
}


@pytest.mark.parametrize(("content", "where"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_dump_is_refused_with_its_place(tmp_path, content, where):
    (tmp_path / "d.dump").write_text(content)
    with pytest.raises(FormatError) as told:
        convert(tmp_path / "d.dump", tmp_path / "d.mrec")
    assert where in str(told.value)


def test_an_empty_dump_has_no_frames(tmp_path):
    (tmp_path / "d.dump").write_text("")
    assert len(convert(tmp_path / "d.dump", tmp_path / "d.mrec").trajectory) == 0


def test_unknown_units_are_refused(tmp_path):
    (tmp_path / "d.dump").write_text(text(10).replace("real", "imperial"))
    with pytest.raises(UnitError, match="imperial"):
        convert(tmp_path / "d.dump", tmp_path / "d.mrec")


def test_P131_a_dump_without_ids_is_told(tmp_path):
    (tmp_path / "d.dump").write_text(text(10).replace("ATOMS id", "ATOMS v_a"))
    with pytest.warns(MolrecDumpWarning, match="has no ids"):
        record = convert(tmp_path / "d.dump", tmp_path / "d.mrec")
    frame = record.trajectory[0]
    assert "id" not in frame["identity"]
    assert xyz(frame)[0].tolist() == [1.5, 2.5, 3.5]
    assert frame["array.v_a"]["value"].tolist() == [9, 7]


def test_general_triclinic(tmp_path):
    """`dump_modify triclinic/general`: the lattice vectors stand in the file, one a row."""
    box = "ITEM: BOX BOUNDS abc origin pp pp pp\n1 2 3 -1\n4 5 7 -2\n7 8 10 -3\n"
    content = text(10).replace("ITEM: BOX BOUNDS pp ff ss\n0 10\n0 10\n0 10\n", box)
    (tmp_path / "d.dump").write_text(content)
    frame = convert(tmp_path / "d.dump", tmp_path / "d.mrec").trajectory[0]
    assert frame.box.vectors.T.tolist() == [[1, 2, 3], [4, 5, 7], [7, 8, 10]]
    assert frame.box.origin.tolist() == [-1, -2, -3]


def test_a_data_file_without_a_style_is_told(lammps, water, tmp_path):
    make(lammps, water, tmp_path / "d.dump", "id type x y z", steps=0)
    data = tmp_path / "water.data"
    data.write_text(data.read_text().replace("Atoms # full", "Atoms"))
    with pytest.warns(MolrecDumpWarning, match="names no style"):
        record = convert(tmp_path / "d.dump", tmp_path / "d.mrec", data)
    frame = record.trajectory[0]
    assert "charge" not in frame["identity"]
    assert frame["bonds"].count == 54
    assert frame["identity"]["mass"][0] == 15.9994


def test_a_broken_data_file_is_refused(tmp_path):
    (tmp_path / "d.dump").write_text(text(10))
    (tmp_path / "d.data").write_text("data\n\nMasses\n\n1 heavy\n")
    with pytest.raises(FormatError, match=r"d\.data"):
        convert(tmp_path / "d.dump", tmp_path / "d.mrec", tmp_path / "d.data")
