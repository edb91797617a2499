"""The group coordinator: groups, their offsets, and the shards that hold them."""
