"""Groups of the new protocol (KIP-848): epochs, target assignment, reconciliation. Not served yet."""
