"""APIs about the records of partitions and those who produce them: Produce, Fetch, offsets of logs, producer ids."""
