"""Kafka Streams, and with it the Java client of the release before."""
