"""The assignors of the new protocol beside those of a real Kafka, on random groups."""
