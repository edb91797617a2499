"""Rows of a broker's log (`log_lines`) to facts. The log has no hosts and rarely client ids: profiles have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshim.explain.facts import FORGOTTEN, Fact, Kind, Member, Phases, Profile

_CLIENT_ID = re.compile(r"^(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_REJOINED_ID = re.compile(
    r"^(?:leader|updating metadata for(?: static)? member|new metadata of member) (\S+?)(?:;|,| |$)", re.IGNORECASE
)
_ADDED_ID = re.compile(r"^adding new member (\S+?)(?: with group instance id .*)?(?:;|$)", re.IGNORECASE)
_AT_ONCE_MS = 100
"""A phase JOIN that has waited for somebody ends so soon when it need not any more."""
_STATES = {
    "preparing": "PreparingRebalance",
    "stabilized": "CompletingRebalance",
    "assignment_received": "Stable",
    "emptied": "Empty",
}


Protocols = Mapping[tuple[str, int], str | None]
"""The assignor of each generation of each group, as records have it."""


def facts_of_log(
    rows: Sequence[Mapping[str, Any]], profiles: Mapping[str, Profile], protocols: Protocols
) -> Iterator[Fact]:
    """The facts in rows of one broker's log, in their order. `line` is a row's number."""
    groups: dict[str, _Group] = {}
    replaced: dict[str, str] = {}
    new_ids = _new_ids(rows, profiles)
    reasons = _reasons(rows)
    for row in rows:
        if row["type"] == "stopping":
            for name in groups:
                yield Fact(row["ts_ms"], name, Kind.STOPPING, f"log line {row['line']}")
            continue
        if row["type"] == "static_fenced":
            if row["member_id"] in replaced:
                yield groups[replaced[row["member_id"]]].heard(row)
            continue
        group_id = row["group_id"]
        if row["type"] == "static_replaced":
            replaced[row["member_id"]] = group_id
        if group_id not in groups:
            groups[group_id] = _Group(group_id, profiles, protocols, new_ids, reasons)
        yield from groups[group_id].facts_of(row)


def _reasons(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Why members joined, by id: the line about the rebalance that one began has its reason, that about itself has not."""
    return {
        found[1]: row["client_reason"]
        for row in rows
        if row["type"] == "preparing"
        and "client_reason" in row
        and (found := _ADDED_ID.match(row.get("reason_text", ""))) is not None
    }


def _new_ids(rows: Sequence[Mapping[str, Any]], profiles: Mapping[str, Profile]) -> dict[int, str]:
    """The ids that static members got when they were replaced, by line: the line has only the old one.

    The next line about the same instance names it, and the last record of it, if there is no such line.
    """
    latest = {profile.member.instance_id: member_id for member_id, profile in profiles.items()}
    following: dict[tuple[str, str | None], str | None] = {}
    found: dict[int, str] = {}
    for row in reversed(rows):
        if "group_id" not in row:
            continue
        member_id = row.get("member_id", "")
        profile = profiles.get(member_id)
        instance = row.get("group_instance_id") or (profile.member.instance_id if profile is not None else None)
        key = (row["group_id"], instance)
        match row["type"]:
            case "static_replaced":
                new_id = following.get(key, latest.get(instance))
                found[row["line"]] = new_id or f"{instance} of line {row['line']}"
                following[key] = member_id
            case "member_created":
                following[key] = None
            case "member_failed" | "member_left" if instance is not None:
                following[key] = member_id
            case _:
                pass
    return found


class _Group:
    """What has to be remembered of a group from line to line."""

    def __init__(
        self,
        group: str,
        profiles: Mapping[str, Profile],
        protocols: Protocols,
        new_ids: Mapping[int, str],
        reasons: Mapping[str, str],
    ) -> None:
        self._group = group
        self._profiles = profiles
        self._protocols = protocols
        self._new_ids = new_ids
        self._reasons = reasons
        self._state = "Empty"
        self._preparing_ms: int | None = None
        self._stabilized_ms: int | None = None
        self._pending_until_ms: int | None = None
        """When a client that had never joined with its member id was given up."""

    def facts_of(self, row: Mapping[str, Any]) -> Iterator[Fact]:
        kind, member_id = row["type"], row.get("member_id", "")
        text = row.get("reason_text", "")
        match kind:
            case "member_added":
                yield self._fact(row, Kind.JOINED, member_id)
            case "member_created" if row.get("group_instance_id") is not None:
                yield self._fact(row, Kind.JOINED, member_id)
            case "member_left":
                yield self._fact(row, Kind.LEFT, member_id)
            case "member_failed":
                yield self._fact(row, Kind.EXPIRED, member_id)
            case "members_removed" if "session timeout" in text:
                self._pending_until_ms = row["ts_ms"]
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
                if self._preparing_ms is not None:
                    phases = Phases(row["ts_ms"] - self._preparing_ms, None, None, None, None, None)
                    yield Fact(row["ts_ms"], self._group, Kind.JOIN_COMPLETED, self._source(row), phases=phases)
            case "assignment_received":
                yield self._completed(row, member_id)
            case "loaded" if row["members"] or self._state != "Empty":
                reason = "" if row["members"] else FORGOTTEN
                yield Fact(row["ts_ms"], self._group, Kind.LOADED, self._source(row), reason=reason)
                self._state = "Stable" if row["members"] else "Empty"
            case "emptied":
                yield Fact(row["ts_ms"], self._group, Kind.EMPTIED, self._source(row))
            case _:
                # Else it asks for an id, or was never a member.
                yield from self._facts_with_epochs(row, member_id, text)
        self._state = _STATES.get(kind, self._state)

    def heard(self, row: Mapping[str, Any]) -> Fact:
        """Of a process that another one has replaced, and that is still there."""
        return self._fact(row, Kind.HEARD, row["member_id"])

    def _facts_with_epochs(self, row: Mapping[str, Any], member_id: str, text: str) -> Iterator[Fact]:
        """Of a group of the new protocol."""
        match row["type"]:
            case "epoch_member_joined":
                yield self._fact(row, Kind.JOINED, member_id)
            case "epoch_member_replaced":
                yield self._fact(row, Kind.REPLACED, member_id)._replace(other_id=row["owner_id"])
            case "epoch_member_refused":
                yield self._fact(row, Kind.REFUSED, member_id)._replace(other_id=row.get("owner_id"))
            case "epoch_member_left":
                yield self._fact(row, Kind.LEFT, member_id)
            case "epoch_member_left_for_now":
                yield self._fact(row, Kind.STOPPED, member_id)
            case "epoch_member_fenced":
                yield self._fenced(row, member_id, text)
            case _:
                pass  # records say it as well

    def _fenced(self, row: Mapping[str, Any], member_id: str, text: str) -> Fact:
        if "session expired" in text:
            return self._fact(row, Kind.EXPIRED, member_id)
        return self._fact(row, Kind.REMOVED, member_id)._replace(reason="rebalance_timeout")

    def _replaced(self, row: Mapping[str, Any], old_id: str) -> Fact:
        new_id = self._new_ids[row["line"]]
        fact = self._fact(row, Kind.REPLACED, new_id)._replace(other_id=old_id)
        if fact.member is None or fact.member.client_id is None:
            old = self._profiles.get(old_id)
            client_id = None if old is None else old.member.client_id
            fact = fact._replace(member=Member(new_id, row["group_instance_id"], client_id, None))
        return fact

    def _request(self, row: Mapping[str, Any], text: str) -> Iterator[Fact]:
        if (found := _REJOINED_ID.match(text)) is not None:
            reason = "leader_rejoined" if text.lower().startswith("leader") else "metadata_changed"
            yield self._fact(row, Kind.REQUESTED, found[1])._replace(reason=reason)

    def _completed(self, row: Mapping[str, Any], leader_id: str) -> Fact:
        at_ms, prepared_ms, stabilized_ms = row["ts_ms"], self._preparing_ms, self._stabilized_ms
        join_ms = None if prepared_ms is None or stabilized_ms is None else stabilized_ms - prepared_ms
        sync_ms = None if stabilized_ms is None else at_ms - stabilized_ms
        generation_id = row["generation_id"]
        protocol = self._protocols.get((self._group, generation_id))
        phases = Phases(join_ms, sync_ms, protocol, leader_id, None, None, generation_id=generation_id)
        phases = phases._replace(waited_for_pending=self._waited_for_pending())
        return Fact(at_ms, self._group, Kind.COMPLETED, self._source(row), phases=phases)

    def _waited_for_pending(self) -> bool:
        """Whether the phase JOIN that was the last to end did so because a client was given up."""
        if self._pending_until_ms is None or self._stabilized_ms is None:
            return False
        return 0 <= self._stabilized_ms - self._pending_until_ms <= _AT_ONCE_MS

    def _fact(self, row: Mapping[str, Any], kind: Kind, member_id: str) -> Fact:
        return Fact(
            row["ts_ms"],
            self._group,
            kind,
            self._source(row),
            self._member(row, member_id),
            client_reason=row.get("client_reason") or (self._reasons.get(member_id) if kind is Kind.JOINED else None),
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
