"""The APIs of share groups (KIP-932); level 0 of share.version switches them off."""
