"""Suites that run real clients against kshim and against a real Apache Kafka."""
