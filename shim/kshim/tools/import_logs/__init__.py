"""`kshim import`: the logs of a Kafka, byte for byte, in a new data directory."""
