"""Whatever images are made of, they come back as they went in, types included."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import ase.io
import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixBondLengths, FixCartesian, FixedLine, FixedPlane, Hookean
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

FLOATS = st.floats(width=64)
SMALL = st.floats(-50, 50)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.one_of(
    st.sampled_from(
        [
            "a",
            "pe",
            "forces",
            "info",
            "x",
            "host.a",
            "calc.x",
            "calc_charges",
            "name",
            "type",
            "a/b",
            "$t",
            "",
        ]
    ),
    TEXT,
)
DTYPES = ["?", "<i1", "<i4", "<i8", "<u2", "<u8", "<f2", "<f4", "<f8", ">f8", "<c8", "<c16", "<U3", "<U1"]


def arrays_of(shape):
    strings = hnp.arrays(
        np.dtype("<U3"),
        shape,
        elements=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3),
    )
    return st.sampled_from(DTYPES).flatmap(
        lambda dtype: strings if "U" in dtype else hnp.arrays(np.dtype(dtype), shape)
    )


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    FLOATS,
    TEXT,
    st.sampled_from(["007", "T", "héllo", "NaN", ""]),
    st.sampled_from(
        [np.float32(0.1), np.int16(-3), np.bool_(True), np.str_("a"), np.uint64(2**64 - 1), np.float64("nan")]
    ),
)
VALUES = st.one_of(
    SCALARS,
    st.sampled_from([3, 6, 9, (3, 3), (2, 0), 1]).flatmap(arrays_of),
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.one_of(TEXT, st.integers(0, 3)), inner, max_size=3),
        ),
        max_leaves=6,
    ),
)
INFO = st.dictionaries(
    st.one_of(
        st.sampled_from(["energy", "REF_energy", "pe", "stress", "k"]),
        NAMES,
        st.integers(0, 2),
        st.tuples(st.integers(0, 1)),
    ),
    VALUES,
    max_size=4,
)
CELLS = st.one_of(
    st.just(np.zeros((3, 3))),
    hnp.arrays(np.float64, (3, 3), elements=SMALL),
    hnp.arrays(np.float64, (3, 3), elements=st.sampled_from([0.0, -0.0, 1.0, 5.5])),
    st.sampled_from(
        [
            np.diag([5.0, 6, 7]),
            np.diag([5.0, 5, 0]),
            np.diag([0, 0, 4.0]),
            np.array([[0, 3, 3], [3, 0, 3], [3, 3, 0.0]]),
        ]
    ),
)


@st.composite
def constraints(draw, count):
    pair = st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True)
    kinds = [
        st.lists(st.integers(0, count - 1), max_size=count, unique=True).map(
            lambda chosen: FixAtoms(indices=chosen)
        ),
        st.integers(0, count - 1).map(lambda i: FixCartesian(i, mask=(True, False, True))),
        st.integers(0, count - 1).map(lambda i: FixedPlane(i, (0, 0, 1))),
        st.integers(0, count - 1).map(lambda i: FixedLine(i, (1, 0, 0))),
    ]
    if count > 1:
        kinds.append(pair.map(lambda p: FixBondLengths([p])))
        kinds.append(pair.map(lambda p: Hookean(a1=p[0], a2=p[1], rt=1.5, k=2.0)))
    return draw(st.lists(st.one_of(kinds), max_size=2))


@st.composite
def results(draw, count):
    forces = hnp.arrays(np.float64, (count, 3))
    possible = {
        "energy": st.one_of(FLOATS, FLOATS.map(np.float64), st.just(3), st.just(np.float32(1.5))),
        "free_energy": FLOATS,
        "forces": st.one_of(forces, hnp.arrays(np.float32, (count, 3))),
        "stress": st.one_of(hnp.arrays(np.float64, 6), hnp.arrays(np.float64, (3, 3))),
        "dipole": hnp.arrays(np.float64, 3),
        "magmom": FLOATS,
        "magmoms": hnp.arrays(np.float64, count),
        "charges": hnp.arrays(np.float64, count),
        "stresses": hnp.arrays(np.float64, (count, 6)),
        "energies": hnp.arrays(np.float64, count),
        "born_effective_charges": hnp.arrays(np.float64, (count, 3, 3)),
        "mine": VALUES,
        "a/b": FLOATS,
    }
    names = draw(st.lists(st.sampled_from(sorted(possible)), max_size=5, unique=True))
    return {name: draw(possible[name]) for name in names}


@st.composite
def images(draw):
    count = draw(st.one_of(st.integers(0, 4), st.integers(0, 30)))
    numbers = draw(hnp.arrays(np.int64, count, elements=st.integers(0, 118)))
    atoms = Atoms(
        numbers, draw(hnp.arrays(np.float64, (count, 3))), pbc=draw(st.tuples(*[st.booleans()] * 3))
    )
    atoms.set_cell(draw(CELLS))
    if draw(st.integers(0, 3)) == 0:
        atoms.set_celldisp(draw(hnp.arrays(np.float64, st.sampled_from([(3, 1), (3,)]), elements=SMALL)))
    own = {
        "masses": hnp.arrays(np.float64, count, elements=st.sampled_from([0.0, 1.0, 1.008, 55.9, 1e-300])),
        "momenta": st.one_of(
            hnp.arrays(np.float64, (count, 3), elements=SMALL), hnp.arrays(np.float64, (count, 3))
        ),
        "tags": hnp.arrays(np.int64, count),
        "initial_charges": hnp.arrays(np.float64, count),
        "initial_magmoms": st.one_of(hnp.arrays(np.float64, count), hnp.arrays(np.float64, (count, 3))),
    }
    for name in draw(st.lists(st.sampled_from(sorted(own)), max_size=3, unique=True)):
        atoms.arrays[name] = draw(own[name])
    for name in draw(
        st.lists(NAMES.filter(lambda n: n not in {"numbers", "positions", *own}), max_size=2, unique=True)
    ):
        atoms.arrays[name] = draw(st.sampled_from([(count,), (count, 2), (count, 2, 2)]).flatmap(arrays_of))
    atoms.info = draw(INFO)
    if count and draw(st.booleans()):
        atoms.set_constraint(draw(constraints(count)))
    if draw(st.booleans()):
        atoms.calc = SinglePointCalculator(atoms)
        atoms.calc.results.update(draw(results(count)))
    return atoms


LISTS = st.lists(images(), max_size=4)


@st.composite
def runs(draw):
    """Images that resemble each other, as those of a run do: what one has another may lack."""
    first = draw(images())
    found = [first]
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 3)) == 0:
            found.append(draw(images()))
            continue
        atoms = first.copy()
        if draw(st.booleans()) and len(atoms):
            atoms.positions += 0.25
        for name in draw(st.lists(st.sampled_from(sorted(first.arrays)), max_size=2)):
            if name not in {"numbers", "positions"}:
                atoms.arrays.pop(name, None)
        if first.calc is not None and draw(st.booleans()):
            atoms.calc = SinglePointCalculator(atoms)
            if len(atoms) == len(first):
                atoms.calc.results.update(first.calc.results)
        found.append(atoms)
    return found


class Scratch:
    """A directory of one example."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp())
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


@given(st.one_of(LISTS, runs()))
@settings(max_examples=150)
def test_images_come_back_as_they_went_in(assert_same, images):
    """A list, written at once."""
    with Scratch() as path:
        ase.io.write(path / "a.mrec", images)
        assert_same(images, ase.io.read(path / "a.mrec", ":"))


@given(st.one_of(LISTS, runs()))
@settings(max_examples=60)
def test_a_stream_is_as_exact_as_a_list(assert_same, images):
    """A generator shows its first image alone before the pin is fixed."""
    with Scratch() as path:
        ase.io.write(path / "a.mrec", (atoms for atoms in images))
        assert_same(images, ase.io.read(path / "a.mrec", ":"))


@given(st.one_of(LISTS, runs()), st.integers(0, 5), st.integers(0, 5), st.booleans())
@settings(max_examples=60)
def test_pieces_are_as_exact_as_a_whole(assert_same, images, first, second, packed):
    """Appending in three pieces, some of them empty, to a directory or a packed record."""
    with Scratch() as path:
        target = path / ("a.mrec.zip" if packed else "a.mrec")
        low, high = sorted((first, second))
        ase.io.write(target, images[:low])
        ase.io.write(target, images[low:high], append=True)
        ase.io.write(target, (atoms for atoms in images[high:]), append=True)
        assert_same(images, ase.io.read(target, ":"))


@given(runs(), st.permutations(range(5)))
@settings(max_examples=40)
def test_any_order_gives_the_same_images(assert_same, images, order):
    """Random access sees what reading on sees, carried-forward parts included."""
    from molrec_ase import MolrecTrajectory

    with Scratch() as path:
        ase.io.write(path / "a.mrec", images)
        with MolrecTrajectory(path / "a.mrec") as trajectory:
            chosen = [i for i in order if i < len(images)]
            assert_same([images[i] for i in chosen], [trajectory[i] for i in chosen])
