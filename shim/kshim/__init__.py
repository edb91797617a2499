"""A broker compatible with Kafka's wire protocol, in pure Python."""
