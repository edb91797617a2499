"""A group's story, told line by line as the demo's children and the broker tell it."""

from __future__ import annotations

from typing import Any

from kshim.tools.demo.story import Story

BEGAN_MS = 1_700_000_000_000


class Telling:
    """Tells `story` what happened; times are ms since its beginning."""

    def __init__(self, partition_count: int = 4) -> None:
        self.story = Story("g", partition_count, BEGAN_MS)

    def starts(self, name: str, at: int) -> Telling:
        self.story.starts(name, BEGAN_MS + at)
        return self

    def crashes(self, name: str, at: int) -> Telling:
        self.story.crashes(name, BEGAN_MS + at)
        return self

    def told(self, kind: str, at: int, **fields: Any) -> Telling:
        self.story.told({"kind": kind, "at_ms": BEGAN_MS + at, **fields})
        return self

    def assigned(self, name: str, at: int, *partitions: int) -> Telling:
        return self.told("assigned", at, member=name, partitions=list(partitions))

    def revoked(self, name: str, at: int, *partitions: int) -> Telling:
        return self.told("revoked", at, member=name, partitions=list(partitions))

    def logged(self, at: int, previous: str, new: str, generation: int, cause: str, who: str | None = None) -> Telling:
        entry = {"event": "transition", "group": "g", "from": previous, "to": new}
        self.story.logged({**entry, "at_ms": BEGAN_MS + at, "generation": generation, "cause": cause, "client_id": who})
        return self

    def rebalanced(self, began: int, ended: int, generation: int, cause: str, who: str) -> Telling:
        """A whole rebalance, as the broker logs it."""
        self.logged(began, "Stable", "PreparingRebalance", generation - 1, cause, who)
        self.logged(ended, "PreparingRebalance", "CompletingRebalance", generation, "all-joined")
        return self.logged(ended, "CompletingRebalance", "Stable", generation, "assignment-received")
