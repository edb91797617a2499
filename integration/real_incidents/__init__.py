"""Incidents that befall real client processes, on any broker; what was done to each process is written to a file.

`python -m integration.real_incidents --broker kshim --truth FILE`. The clients are kafka-python, confluent-kafka, Java and
franz-go, as applications have them. Nothing here knows how a diagnosis works, and no diagnosis is developed on its
seeds that score.
"""
