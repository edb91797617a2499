"""APIs about the records of partitions: Produce, Fetch, offsets of logs."""
