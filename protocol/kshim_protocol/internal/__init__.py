"""Records of the internal topics, and the metadata of consumers."""
