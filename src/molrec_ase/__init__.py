"""Molecular records in ASE."""
