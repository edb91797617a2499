"""The same membership changes under other rebalance schemes. `docs/design/schemes.md` has the model and its numbers."""
