"""The APIs of share groups (KIP-932); served where share.version is above 0."""
