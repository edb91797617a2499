"""The same membership changes under other rebalance strategies. `docs/design/what-if.md` has the model and its numbers."""
