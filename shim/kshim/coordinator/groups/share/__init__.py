"""Groups of KIP-932: share groups, whose members read the same partitions."""
