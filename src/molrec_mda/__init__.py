"""Molecular records in MDAnalysis."""
