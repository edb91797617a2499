"""APIs about topics and the leaders of their partitions."""
