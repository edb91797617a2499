"""Alerts about incidents and about rebalances that stay open: streams from the topics of a cluster to a topic of alerts.

`memory.py` and `watching.py` have the state of one group and its transitions, plain Python; `incidents.py` and `stream.py` run
them in Spark for every group, with their state in Spark's state store.
"""
