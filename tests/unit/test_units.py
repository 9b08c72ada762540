"""Exact factors, units of a record, and what is refused."""

from __future__ import annotations

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest

from molrec_core.errors import UnitError
from molrec_core.units import (
    ASE,
    LAMMPS_VELOCITY,
    MDANALYSIS,
    MDTRAJ,
    OPENMM,
    PRESETS,
    QUANTITIES,
    Conversion,
    MolrecUnitsWarning,
    Units,
    factor,
)

AVOGADRO = Fraction("6.02214076e23")


def test_a_nanometer_is_exactly_ten_angstrom():
    """A float32 in nm comes back bit for bit from angstrom in float64."""
    out, back = MDTRAJ.conversion(MDANALYSIS), MDANALYSIS.conversion(MDTRAJ)
    assert (out.length, out.velocity, out.force, out.volume) == (10.0, 10.0, 0.1, 1000.0)
    x = np.random.default_rng(0).uniform(-50, 50, 100_000).astype(np.float32)
    assert ((x.astype(np.float64) * out.length * back.length).astype(np.float32) == x).all()


def test_calories_are_exact():
    assert factor("kcal/mol", "kJ/mol") == 4.184
    assert Units.from_preset("real").conversion(MDANALYSIS).force == 4.184


def test_factors_are_rounded_once():
    """Each is the nearest float64 to the rational of the SI's exact constants."""
    assert factor("eV", "kJ/mol") == float(Fraction("1.602176634e-19") * AVOGADRO / 1000)
    assert factor("kJ/mol", "eV") == float(1000 / (Fraction("1.602176634e-19") * AVOGADRO))
    assert factor("kcal/mol/angstrom^3", "atm") == float(4184 / AVOGADRO * Fraction(10) ** 30 / 101325)
    assert factor("statcoulomb", "e") == float(Fraction(1, 2997924580) / Fraction("1.602176634e-19"))


def test_measured_constants():
    assert factor("hartree", "eV") == pytest.approx(27.211386245981, rel=1e-12)
    assert factor("bohr", "angstrom") == pytest.approx(0.529177210544, rel=1e-14)
    assert factor("hartree", "kcal/mol") == pytest.approx(627.5094740631, rel=1e-10)
    assert factor("dalton", "kg") == pytest.approx(1.66053906892e-27, rel=1e-14)


@pytest.mark.parametrize("units", [MDANALYSIS, MDTRAJ, OPENMM, ASE, *map(Units.lammps, PRESETS)])
def test_equal_units_convert_by_exactly_one(units):
    assert units.conversion(units) == Conversion()
    assert units.conversion(units).identity


LAMMPS_TO_MDANALYSIS = {
    # style: length, time, velocity, energy, mass
    "real": (1.0, 1e-3, 1e3, 4.184, 1.0),
    "metal": (1.0, 1.0, 1.0, 96.48533212331002, 1.0),
    "si": (1e10, 1e12, 1e-2, 6.02214076e20, 6.022140753667369e26),
    "cgs": (1e8, 1e12, 1e-4, 6.02214076e13, 6.022140753667369e23),
    "electron": (0.529177210544, 1e-3, 529.177210544, 2625.499639479163, 1.0),
    "micro": (1e4, 1e6, 1e-2, 602214.076, 602214075366.7369),
    "nano": (10.0, 1e3, 1e-2, 0.602214076, 602214.0753667369),
}


@pytest.mark.parametrize("style", LAMMPS_TO_MDANALYSIS)
def test_lammps_styles(style):
    found = Units.lammps(style).conversion(MDANALYSIS)
    numbers = (found.length, found.time, found.velocity, found.energy, found.mass)
    assert numbers == pytest.approx(LAMMPS_TO_MDANALYSIS[style], rel=1e-12)
    assert found.stress == pytest.approx(found.energy / found.length**3, rel=1e-15)


def test_lammps_pressures_and_velocities_that_do_not_follow():
    """Electron velocities are bohr per atomic time unit; real, metal and electron have pressure units of their own."""
    assert factor(LAMMPS_VELOCITY["electron"], "bohr/fs") == pytest.approx(41.341373335182, rel=1e-11)
    pressure = Units(pressure="bar")
    assert Units.lammps("real").conversion(pressure).pressure == 1.01325
    assert Units.lammps("metal").conversion(pressure).pressure == 1.0
    assert Units.lammps("electron").conversion(pressure).pressure == 1e-5
    # 1 kcal/mol/A^3 is 69476.95 bar: the default pressure is energy/length^3.
    assert Units.from_preset("real").conversion(pressure).pressure == pytest.approx(69476.9546, rel=1e-8)


def test_reduced_units_convert_nothing():
    lj = Units.from_meta({"units": {"preset": "lj"}}, host=MDTRAJ)
    assert lj.reduced
    assert lj.conversion(MDTRAJ).identity
    assert MDTRAJ.conversion(lj).identity


@pytest.mark.parametrize(
    "units", [MDANALYSIS, OPENMM, ASE, Units(angle="radian"), *map(Units.lammps, PRESETS)]
)
def test_what_a_writer_states_reads_back(units):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Units.from_meta({"units": units.to_meta()}) == units


def test_units_travel_to_other_processes():
    units = Units.lammps("real")
    assert pickle.loads(pickle.dumps(units)) == units


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("Å", "angstrom"), ("\u212b", "angstrom"), ("A", "angstrom"), ("Angstrom", "angstrom"),
        ("ANGSTROMS", "angstrom"), ("nanometer", "nm"), ("nanometers", "nm"), ("Bohr", "bohr"), ("a0", "bohr"),
        ("femtosecond", "fs"), ("picoseconds", "ps"), ("ns", "nanosecond"), ("µs", "microsecond"),
        ("electron_volt", "eV"), ("electronvolt", "eV"), ("meV", "millielectronvolt"),
        ("kilojoule/mole", "kJ/mol"), ("kilocalories / mole", "kcal/mol"), ("kJ*mol^-1", "kJ/mol"),
        ("kJ·mol**-1", "kJ/mol"), ("Hartree", "hartree"), ("Ha", "hartree"), ("amu", "dalton"), ("u", "dalton"),
        ("Da", "dalton"), ("g/mol", "dalton"), ("elementary_charge", "e"), ("g*cm^2/s^2", "erg"),
        ("pg * um**2 / us**2", "picogram * micrometer**2 / microsecond**2"),
    ],
)  # fmt: skip
def test_spellings_people_write(spelling, canonical):
    assert factor(spelling, canonical) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "furlong",
        "",
        " ",
        "nm//ps",
        "nm**",
        "nm/",
        "*nm",
        "nm ps",
        "nm**1.5",
        "nm**999999999",
        "3",
        7,
        None,
        ["nm"],
    ],
)
def test_an_unknown_unit_names_the_way_out(text):
    """Each adapter takes ``convert_units=False``, so the message says so."""
    with pytest.raises(UnitError, match="convert_units=False"):
        Units.from_meta({"units": {"length": text, "time": "ps", "energy": "eV"}})


def test_a_unit_of_another_quantity_is_refused():
    with pytest.raises(UnitError, match="not a unit of energy") as caught:
        Units(energy="kJ/mol/nm")
    assert caught.value.kind == "wrong_quantity"
    with pytest.raises(UnitError):
        factor("nm", "ps")


def test_nothing_is_read_when_nothing_is_converted():
    """With ``convert_units=False`` even an unknown unit opens, and all factors are one."""
    units = Units.from_meta({"units": {"length": "furlong"}}, host=MDTRAJ, convert=False)
    assert units.conversion(MDTRAJ).identity


@pytest.mark.parametrize("meta", [None, {}, {"units": None}, {"units": {}}])
def test_a_record_without_units(meta):
    """It is read as angstrom, ps and the host's own energy, and says so once, at the caller's line."""
    with pytest.warns(MolrecUnitsWarning, match="length in angstrom, time in ps, energy in eV") as caught:
        units = Units.from_meta(meta, host=ASE)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (units.length, units.time, units.energy) == ("angstrom", "ps", "eV")


def test_a_record_that_states_some_units():
    with pytest.warns(MolrecUnitsWarning, match="read with time in ps, energy in kJ/mol$"):
        assert Units.from_meta({"units": {"length": "nm"}}).length == "nm"


def test_a_quantity_beside_a_preset_repeats_it():
    same = {"preset": "real", "length": "Å", "energy": "kilocalorie/mole", "pressure": "bar"}
    assert Units.from_meta({"units": same}) == Units.from_preset("real", pressure="bar")


@pytest.mark.parametrize(
    "units",
    [
        {"preset": "real", "energy": "kJ/mol"},
        {"preset": "nano", "mass": "dalton"},
        {"preset": "lj", "length": "nm"},
        {"preset": "lj", "pressure": "bar"},
        {"preset": "lj", "angle": "turn"},
        {"preset": "unheard"},
        {"preset": None},
        {"preset": ["real"]},
        ["real"],
        "real",
    ],
)
def test_a_conflict_is_refused(units):
    with pytest.raises(UnitError):
        Units.from_meta({"units": units})


def test_a_derived_unit_may_only_repeat_what_follows():
    """A velocity in nm/ps beside angstrom would be read ten times too small."""
    base = MDANALYSIS.to_meta()
    assert (
        Units.from_meta({"units": base | {"velocity": "angstrom/ps", "force": "kJ/mol/angstrom"}})
        == MDANALYSIS
    )
    with pytest.raises(UnitError, match="velocity"):
        Units.from_meta({"units": base | {"velocity": "nm/ps"}})


def test_presets_name_every_quantity():
    for name, table in PRESETS.items():
        assert set(table) == ({"angle"} if name == "lj" else {*QUANTITIES, "angle"})
        assert table["angle"] == "degree"
