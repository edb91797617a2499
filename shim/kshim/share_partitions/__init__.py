"""Partitions as share groups see them: who holds which records, how often they were delivered, what became of them (KIP-932)."""
