"""`kshim demo`: a real group of kafka-python consumers rebalances, shown live.

Everything runs in processes of its own and reports in JSON lines. `story.py` makes a state of them, `picture.py` makes
lines of text of the state, `screen.py` writes them; only `run.py` starts processes and reads the clock.
"""
