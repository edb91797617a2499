"""Apache Kafka's Java client: consumer, producer, admin."""
