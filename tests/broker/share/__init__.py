"""Share groups over the wire protocol."""
