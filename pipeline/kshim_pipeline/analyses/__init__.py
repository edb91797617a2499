"""Twelve questions about a fleet's groups, one module each: tables of `kshim_pipeline.schemas` in, a table out.

A module has the analysis, a pure and lazy function with the module's name, and `findings(rows)`, which turns its rows
into rows of the table findings. `registry.py` lists them. Thresholds are keyword arguments.
"""
