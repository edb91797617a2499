"""Routes requests to their handlers, and wires the rooms below into a cluster of nodes."""
