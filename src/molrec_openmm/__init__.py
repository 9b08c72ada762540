"""Molecular records in OpenMM."""
