"""The share coordinator."""
