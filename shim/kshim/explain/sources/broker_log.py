"""Rows of a broker's log (`log_lines`) to facts. The log has no hosts and rarely client ids: profiles have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kshim.explain.facts import Fact, Kind, Member, Phases, Profile

_CLIENT_ID = re.compile(r"^(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_REJOINED_ID = re.compile(
    r"^(?:leader|updating metadata for(?: static)? member|new metadata of member) (\S+?)(?:;|,| |$)", re.IGNORECASE
)
_STATES = {
    "preparing": "PreparingRebalance",
    "stabilized": "CompletingRebalance",
    "assignment_received": "Stable",
    "emptied": "Empty",
}


def facts_of_log(rows: Iterable[Mapping[str, Any]], profiles: Mapping[str, Profile]) -> Iterator[Fact]:
    """The facts in rows of one broker's log, in their order. `line` is a row's number."""
    groups: dict[str, _Group] = {}
    for row in rows:
        group_id = row["group_id"]
        if group_id not in groups:
            groups[group_id] = _Group(group_id, profiles)
        yield from groups[group_id].facts_of(row)


class _Group:
    """What has to be remembered of a group from line to line."""

    def __init__(self, group: str, profiles: Mapping[str, Profile]) -> None:
        self._group = group
        self._profiles = profiles
        self._state = "Empty"
        self._preparing_ms: int | None = None
        self._stabilized_ms: int | None = None
        self._instances: dict[str, str] = {}

    def facts_of(self, row: Mapping[str, Any]) -> Iterator[Fact]:
        kind, member_id = row["type"], row.get("member_id", "")
        text = row.get("reason_text", "")
        match kind:
            case "member_added":
                yield self._fact(row, Kind.JOINED, member_id)
            case "member_created" if row.get("group_instance_id") is not None:
                self._instances[row["group_instance_id"]] = member_id
                yield self._fact(row, Kind.JOINED, member_id)
            case "member_left":
                yield self._fact(row, Kind.LEFT, member_id)
            case "member_failed":
                yield self._fact(row, Kind.EXPIRED, member_id)
            case "members_removed" if "members who haven" in text:
                reason = "sync_timeout" if "sync" in text else "rebalance_timeout"
                for each in row.get("member_ids", ()):
                    yield self._fact(row, Kind.REMOVED, each)._replace(reason=reason)
            case "static_replaced":
                yield self._replaced(row, member_id)
            case "preparing":
                self._preparing_ms = row["ts_ms"]
                yield from self._request(row, text)
            case "stabilized":
                self._stabilized_ms = row["ts_ms"]
            case "assignment_received":
                yield self._completed(row, member_id)
            case "emptied":
                yield Fact(row["ts_ms"], self._group, Kind.EMPTIED, self._source(row))
            case _:
                pass  # it asks for an id, or was never a member
        self._state = _STATES.get(kind, self._state)

    def _replaced(self, row: Mapping[str, Any], old_id: str) -> Fact:
        """The line does not contain the new id: the records do, of the member with that instance that is not the old one."""
        instance = row["group_instance_id"]
        ids = [
            member_id
            for member_id, profile in self._profiles.items()
            if profile.member.instance_id == instance and member_id != old_id
        ]
        known_ids = {old_id, self._instances.get(instance)}
        new_id = next((each for each in ids if each not in known_ids), f"{instance}@{row['ts_ms']}")
        self._instances[instance] = new_id
        old = self._profiles.get(old_id)
        fact = self._fact(row, Kind.REPLACED, new_id)._replace(other_id=old_id)
        if fact.member is None or fact.member.client_id is None:
            client_id = None if old is None else old.member.client_id
            fact = fact._replace(member=Member(new_id, instance, client_id, None))
        return fact

    def _request(self, row: Mapping[str, Any], text: str) -> Iterator[Fact]:
        if (found := _REJOINED_ID.match(text)) is not None:
            reason = "leader_rejoined" if text.lower().startswith("leader") else "metadata_changed"
            yield self._fact(row, Kind.REQUESTED, found[1])._replace(reason=reason)

    def _completed(self, row: Mapping[str, Any], leader_id: str) -> Fact:
        at_ms, prepared_ms, stabilized_ms = row["ts_ms"], self._preparing_ms, self._stabilized_ms
        join_ms = None if prepared_ms is None or stabilized_ms is None else stabilized_ms - prepared_ms
        sync_ms = None if stabilized_ms is None else at_ms - stabilized_ms
        phases = Phases(join_ms, sync_ms, None, leader_id, None, None)
        return Fact(at_ms, self._group, Kind.COMPLETED, self._source(row), phases=phases)

    def _fact(self, row: Mapping[str, Any], kind: Kind, member_id: str) -> Fact:
        return Fact(
            row["ts_ms"],
            self._group,
            kind,
            self._source(row),
            self._member(row, member_id),
            client_reason=row.get("client_reason"),
            state=row.get("state", self._state),
        )

    def _member(self, row: Mapping[str, Any], member_id: str) -> Member:
        profile = self._profiles.get(member_id)
        if profile is not None:
            return profile.member
        found = _CLIENT_ID.match(member_id)
        instance = row.get("group_instance_id")
        client_id = row.get("client_id") or (found[1] if found is not None and instance is None else None)
        return Member(member_id, instance, client_id, row.get("client_host"))

    @staticmethod
    def _source(row: Mapping[str, Any]) -> str:
        return f"log line {row['line']}"
