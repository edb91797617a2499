"""Kafka's configuration keys: parsing, defaults, dynamic values, listeners."""
