"""APIs about the configuration of resources."""
