"""Applications of Kafka Streams in groups of the streams protocol (KIP-1071), on kshim and on a real Kafka."""
