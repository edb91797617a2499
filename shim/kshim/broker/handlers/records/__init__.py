"""APIs about the records of partitions and their producers: Produce, Fetch, offsets of logs, producer ids."""
