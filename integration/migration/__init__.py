"""Groups with members that change between the classic and the new protocol, asked of kshim and of a real Kafka alike."""
