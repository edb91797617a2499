"""The same membership changes under other rebalance strategies; model and numbers: `docs/design/what-if.md`."""
