"""What coordinators answer where no client library asks, on kshim and on Kafka alike."""
