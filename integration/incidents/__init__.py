"""Fleets of simulated consumers on any broker, and incidents of known cause in them.

The members speak the wire protocol as the usual clients do, but they consume nothing: hundreds of them fit into one
process. What happened to them, why and to whom is written to a file of truths that nothing else carries.
"""
