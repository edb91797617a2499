"""Topics and partitions. Partition.append owns log, producers, durability and waiting Fetches."""
