"""Chaos by name and seed: a plan of restarts, moves and faults, and what has to stay true meanwhile."""
