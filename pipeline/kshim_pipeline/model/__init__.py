"""Decoded records, events and log lines -> the tables of `kshim_pipeline.schemas`. `build.py` puts them together.

Everything here is DataFrame -> DataFrame and lazy. Input rows may come twice, late and in any order.
"""
