"""Rebalances that stay open, told while they do: a streaming job over the history topic that writes alerts to a topic.

`watching.py` is what is known of one group and what follows from an event or from time passing, plain Python;
`stream.py` runs it in Spark for every group, with its state in Spark's state store.
"""
