"""The APIs of streams groups (KIP-1071); level 0 of streams.version switches them off."""
