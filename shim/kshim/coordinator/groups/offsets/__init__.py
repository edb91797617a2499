"""Offsets that groups commit."""
