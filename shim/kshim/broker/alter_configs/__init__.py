"""What may be configured while the broker runs, by kind of resource."""
