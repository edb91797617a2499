"""The share coordinator: what share groups have made of the records of their partitions (KIP-932)."""
