"""Fleets that never were, drawn from a seed: tables as the model's, of any size, and the records that tell the same.

Everything is an expression over `spark.range` and hashes of (seed, what it is for, ids), so that a row is the same
however the work is divided. What is drawn from what is written in `docs/design/fleet.md`.
"""
