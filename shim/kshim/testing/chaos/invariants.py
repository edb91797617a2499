"""What has to stay true of a group, looked at after each event and append. Sans-io: it is told what there is, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kshim.harness.groups import UNKNOWN, GroupView

Place = tuple[str, int]


class Invariants:
    """Of one group. `violations` has a sentence for each invariant that was broken, in order.

    `partitions` are those that need an owner; those that are assigned once are added.
    """

    def __init__(self, bound_ms: int, partitions: Iterable[Place] = ()) -> None:
        self._bound_ms = bound_ms
        self._partitions = set(partitions)
        self._without_since: dict[Place, int] = {}
        self._highest: dict[Place, int] = {}
        self._known: set[str] = set()
        self.violations: list[str] = []
        self.longest_gap_ms = 0

    @property
    def partitions(self) -> frozenset[Place]:
        """All that need an owner."""
        return frozenset(self._partitions)

    def look(self, view: GroupView, committed: Mapping[Place, int], now_ms: int) -> None:
        """This is how the group is now."""
        if view.state == UNKNOWN:
            return  # its coordinator is loading: who owned a partition owns it still
        self._look_at_owners(view, now_ms)
        self._look_at_offsets(committed)

    def is_owned(self, view: GroupView) -> bool:
        """Whether every partition has an owner that knows it."""
        return view.is_synced and bool(view.members) and not self.without_owner(view)

    def without_owner(self, view: GroupView) -> set[Place]:
        """The partitions that no member has been told that it has."""
        return self._partitions.difference(*(member.assignment for member in view.members if member.is_synced))

    def _look_at_owners(self, view: GroupView, now_ms: int) -> None:
        owners: dict[Place, list[str]] = {}
        if view.state == "Stable":
            for member in view.members:
                for place in member.assignment:
                    owners.setdefault(place, []).append(str(member))
        self._partitions.update(owners)
        for place, names in sorted(owners.items()):
            if len(names) > 1:
                self._broken(
                    f"{_name(place)} has {len(names)} owners in generation {view.generation}: {', '.join(sorted(names))}"
                )
        for place in sorted(self._partitions):
            since = self._without_since.get(place, now_ms)
            if place in owners:
                self._without_since.pop(place, None)
            else:
                self._without_since[place] = since
            self.longest_gap_ms = max(self.longest_gap_ms, now_ms - since)
            if now_ms - since > self._bound_ms:
                self._broken(f"{_name(place)} had no owner for longer than {self._bound_ms / 1_000:g} s")

    def _look_at_offsets(self, committed: Mapping[Place, int]) -> None:
        for place, offset in committed.items():
            before = self._highest.get(place, offset)
            if offset < before:
                self._broken(f"the committed offset of {_name(place)} went back from {before} to {offset}")
            self._highest[place] = max(before, offset)

    def end(
        self,
        committed: Mapping[Place, int],
        *,
        skipped: Mapping[Place, Iterable[int]],
        lost: Iterable[str],
    ) -> None:
        """At the end: `skipped` are offsets below the committed one that nobody processed, `lost` what was acknowledged."""
        for place, offset in sorted(self._highest.items()):
            if place not in committed:
                self._broken(f"the committed offset of {_name(place)} was {offset}, and is gone")
        for place, offsets in sorted(skipped.items()):
            found = list(offsets)
            if found:
                names = ", ".join(map(str, found[:10])) + (" ..." if len(found) > 10 else "")
                self._broken(
                    f"{_name(place)} is committed up to {committed[place]}, but {len(found)} records before that were never "
                    f"processed: {names}"
                )
        for each in lost:
            self._broken(f"{each} was acknowledged, and is not there")

    def _broken(self, sentence: str) -> None:
        if sentence not in self._known:
            self._known.add(sentence)
            self.violations.append(sentence)


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
