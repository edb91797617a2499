"""Many client libraries, one list of situations, two brokers: see docs/design/clients.md."""
