"""Faults on demand: rules that say which requests go wrong, and how. See docs/testing/faults.md."""
