"""APIs that the group coordinator answers."""
