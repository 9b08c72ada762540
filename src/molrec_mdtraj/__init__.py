"""Molecular records in mdtraj."""
