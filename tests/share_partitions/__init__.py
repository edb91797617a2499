"""Partitions as share groups see them."""
