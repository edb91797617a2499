"""APIs about topics, and about who leads their partitions."""
