"""Findings for people: one HTML page, sentences on a terminal, JSON for machines."""
