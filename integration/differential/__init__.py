"""Ask kshim and a real Apache Kafka the same group requests and compare every answer. See `docs/differential.md`."""
