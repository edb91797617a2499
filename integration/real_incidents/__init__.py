"""Incidents that befall real client processes, on any broker; what was done to each process is written to a file.

`python -m integration.real_incidents --broker kshim --folder FOLDER`. The clients are kafka-python, confluent-kafka, Java and
franz-go, as applications have them, on the classic protocol, on the new one (KIP-848), or half of them on each (`--protocol`). Nothing here knows how a diagnosis works, and no diagnosis is developed on its
seeds that score.
"""
