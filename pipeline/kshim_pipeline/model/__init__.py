"""Decoded records, events and log lines -> the tables of `kshim_pipeline.schemas`. `build.py` combines them.

Everything here is DataFrame -> DataFrame and lazy. Input rows may be duplicated, late and in any order.
"""
