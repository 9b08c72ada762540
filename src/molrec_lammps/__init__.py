"""Molecular records in LAMMPS."""
