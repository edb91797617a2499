"""`kshim why`: why consumer groups rebalanced, on kshim or a real Kafka (docs/why.md)."""
