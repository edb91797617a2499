"""What a test, or an operator, sees of a running cluster and does to it besides what clients may. Sans-io."""
