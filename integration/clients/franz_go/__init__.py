"""franz-go, a client in pure Go."""
