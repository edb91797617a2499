"""Alerts about rebalances that stay open: a streaming job from the history topic to a topic of alerts.

`watching.py` has the state of one group and its transitions, plain Python; `stream.py` runs it in Spark for every
group, with its state in Spark's state store.
"""
