"""Records of one group of the new protocol, in order -> its epochs. No Spark here.

The records show more than those of classic groups: when the epoch rose, when there was a target for it, and every step of
each member, so that all phases are known. Why the epoch rose is inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Row = Mapping[str, Any]
Partition = tuple[str, int]
"""Topic id and number."""

_FIRST_EPOCH: Final = 2
_LEFT_FOR_NOW: Final = -2
_SAME_APPEND_MS: Final = 1_000
"""Records of one append have one timestamp; brokers that write several of one operation do so at once."""


@dataclass(eq=False, slots=True)
class _Member:
    """A member, what it is to own, and how far it is. `partitions`: what it owns, with what it is to give up."""

    member_id: str
    wish: dict[str, Any]
    target: list[dict[str, Any]] = field(default_factory=list)
    partitions: frozenset[Partition] = frozenset()
    is_revoking: bool = False
    is_stable: bool = False
    epoch: int = 0
    told_ms: int | None = None

    @property
    def owner(self) -> str:
        return self.wish["group_instance_id"] or self.member_id

    def ref(self) -> dict[str, Any]:
        """As the model names members."""
        return {
            "member_id": self.member_id,
            "group_instance_id": self.wish["group_instance_id"],
            "client_id": self.wish["client_id"],
            "client_host": self.wish["client_host"].removeprefix("/"),
        }


@dataclass(eq=False, slots=True)
class _Changes:
    """What has changed since the epoch rose last."""

    came: list[_Member] = field(default_factory=list)
    went: list[_Member] = field(default_factory=list)
    asked: list[_Member] = field(default_factory=list)
    timed_out: bool = False
    regex: bool = False


@dataclass(eq=False, slots=True)
class _Rebalance:
    """One epoch, from when it began until every member is at it, or the next one begins."""

    began_ms: int
    row: dict[str, Any]
    epoch: int
    newcomers: set[str]
    target_ms: int | None = None
    revoked_ms: int | None = None
    last_to_revoke: dict[str, Any] | None = None
    last_to_assign: dict[str, Any] | None = None
    gaps: list[int] = field(default_factory=list)

    def arrival(self, member: _Member, ts_ms: int) -> dict[str, Any]:
        since = self.began_ms if self.target_ms is None else self.target_ms
        return member.ref() | {"is_new": member.member_id in self.newcomers, "wait_ms": ts_ms - since}


class EpochHistory:
    """Follows the records of one group. `snapshots`, `rebalances`, `intervals`, `migrations`, `conversions` are the results.

    A snapshot is written like a group metadata record of a classic group, when there is a target: with the epoch as its
    generation, and the target as assignment. `conversions` are the tombstones of classic groups that went over: those are
    not deleted.
    """

    def __init__(self, topics: Mapping[str, str]) -> None:
        self._topics = dict(topics)
        self._members: dict[str, _Member] = {}
        self._owners: dict[Partition, tuple[_Member, dict[str, Any]]] = {}
        self._left: dict[Partition, tuple[str, int]] = {}
        self._classic: Row | None = None
        self._ended: Row | None = None
        self._upgrading: frozenset[str] = frozenset()
        self._epoch: int | None = None
        self._target_epoch: int | None = None
        self._hash: int | None = None
        self._changes = _Changes()
        self._replaced = False
        self._rebalance: _Rebalance | None = None
        self._incarnation = 0
        self._generation: int | None = None
        self._is_gone = False
        self.snapshots: list[dict[str, Any]] = []
        self.rebalances: list[dict[str, Any]] = []
        self.intervals: list[dict[str, Any]] = []
        self.migrations: list[dict[str, Any]] = []
        self.conversions: list[dict[str, Any]] = []

    def add(self, row: Row) -> None:
        """Take in the next record: a row of DECODED of this group."""
        if row["kind"] == "group_metadata":
            self._add_classic(row)
            return
        if row["kind"] == "unreadable":
            return
        if self._epoch is None and not row["is_tombstone"]:
            self._begin(row)
        match row["key_type"]:
            case 3:
                self._add_epoch(row)
            case 5:
                self._add_member(row)
            case 6 if not row["is_tombstone"]:
                self._add_target(row)
            case 7 if not row["is_tombstone"]:
                self._of(row).target = row["owned"]
                self._name_topics(self._of(row))
            case 8:
                self._add_current(row)
            case 16:
                self._changes.regex = True
            case _:
                pass
        if self._replaced and row["key_type"] == 8 and not row["is_tombstone"]:
            self._replaced = False
            self._snapshot(row)

    def finish(self, last_ms: int) -> None:
        """There are no more records."""
        if self._ended is not None:
            self._delete(self._ended)
        if self._rebalance is not None:
            self._finish(self._rebalance, None, "open", last_ms)
        for partition in list(self._owners):
            self._release(partition, None)

    def _formed(self, generation_id: int) -> None:
        """As `snapshots` counts incarnations: generation ids begin again after a deletion, or when they fall."""
        if self._is_gone or generation_id < (self._generation or 0):
            self._incarnation += 1
        self._generation, self._is_gone = generation_id, False

    # Of one kind, then the other

    def _add_classic(self, row: Row) -> None:
        if self._ended is not None and not row["is_tombstone"]:
            ended, self._ended = self._ended, None
            if row["timestamp_ms"] - ended["timestamp_ms"] > _SAME_APPEND_MS:
                self._delete(ended)
            else:
                last = [gone for gone in self._changes.went if gone.wish["session_timeout_ms"] is None]
                self._migrate(ended, "consumer", row["generation_id"], row["member_ids"], last)
            self._changes = _Changes()
        if row["is_tombstone"]:
            self._is_gone = self._generation is not None
        else:
            self._formed(row["generation_id"])
        self._classic = row if not row["is_tombstone"] or self._classic is None else {**self._classic, "gone": row}

    def _begin(self, row: Row) -> None:
        """The first record of a group of the new protocol."""
        if self._ended is not None:
            self._delete(self._ended)
            self._ended = None
        classic, self._classic = self._classic, None
        gone = None if classic is None else classic.get("gone")
        self._epoch = 0
        if classic is None or gone is None or row["timestamp_ms"] - gone["timestamp_ms"] > _SAME_APPEND_MS:
            return
        self._upgrading = frozenset(classic["member_ids"] or ())
        if classic["generation_id"] is not None:
            self.conversions.append({"group_id": row["group_id"]} | _place(gone))
            self._is_gone = False
            self._migrate(row, "classic", classic["generation_id"], self._upgrading, ())

    def _migrate(self, row: Row, kind: str, generation_id: int | None, members: Any, by: Iterable[_Member]) -> None:
        trigger = next(iter(by), None)
        self.migrations.append(
            {
                "group_id": row["group_id"],
                "ts_ms": row["timestamp_ms"],
                "from_type": kind,
                "to_type": "consumer" if kind == "classic" else "classic",
                "generation_id": generation_id,
                "members": len(members or ()),
                "trigger": None if trigger is None else trigger.ref(),
                "evidence": _place(row),
            }
        )

    def _add_epoch(self, row: Row) -> None:
        if row["is_tombstone"]:
            if self._rebalance is not None:
                self._finish(self._rebalance, row, "superseded", row["timestamp_ms"])
            for partition in list(self._owners):
                self._release(partition, row)
            self._left.clear()
            self._members.clear()
            # Deleted, unless the record of a classic group follows.
            self._epoch, self._hash, self._ended = None, None, row
            return
        before, epoch = self._epoch or 0, row["epoch"]
        if self._upgrading and self.migrations and epoch == self.migrations[-1]["generation_id"]:
            self._epoch, self._hash = epoch, row["metadata_hash"]
            self._changes = _Changes()
            return  # of the classic group, as it was
        if epoch <= before:
            self._hash = row["metadata_hash"]
            return
        if self._rebalance is not None:
            self._finish(self._rebalance, row, "superseded", row["timestamp_ms"])
        changes, self._changes = self._changes, _Changes()
        is_first_known = before == 0 and epoch > _FIRST_EPOCH and not self._upgrading
        migration = self.migrations[-1] if self._upgrading else None
        if migration is not None and migration["trigger"] is None and changes.came:
            migration["trigger"] = changes.came[0].ref()
        self._upgrading = frozenset()
        self._rebalance = _Rebalance(
            row["timestamp_ms"],
            {
                "group_id": row["group_id"],
                "from_generation": before or None,
                "to_generation": epoch,
                **(_UNKNOWN_WHY if is_first_known else self._why(changes, row)),
                "came": None if is_first_known else len(changes.came),
                "went": None if is_first_known else len(changes.went),
                "evidence": _place(row),
            },
            epoch,
            {member.member_id for member in changes.came},
        )
        self._epoch, self._hash = epoch, row["metadata_hash"]
        if not self._members:
            self._finish(self._rebalance, row, "aborted", row["timestamp_ms"])

    def _why(self, changes: _Changes, row: Row) -> dict[str, Any]:
        came, went = changes.came, changes.went
        clients = {(member.wish["client_id"], member.wish["client_host"]) for member in (*came, *went)}
        trigger: _Member | None = None
        if came and went:
            both = {_client(member) for member in came} & {_client(member) for member in went}
            reason = "member_restarted" if both else "members_changed"
            trigger = went[0] if both and len(clients) == 1 else None
        elif came:
            reason, trigger = "member_joined", came[0] if len(came) == 1 else None
        elif went:
            reason = "rebalance_timeout" if changes.timed_out else "member_gone"
            trigger = went[0] if len(went) == 1 else None
        elif changes.asked:
            reason, trigger = "subscription_changed", changes.asked[0] if len(changes.asked) == 1 else None
        elif changes.regex:
            reason = "expression_resolved"
        elif self._hash is not None and row["metadata_hash"] != self._hash:
            reason = "topics_changed"
        else:
            reason = "unknown"
        text = f"{len(came)} came, {len(went)} went"
        return {"reason": reason, "reason_text": text, "trigger": None if trigger is None else trigger.ref()}

    # Members

    def _of(self, row: Row) -> _Member:
        """The member, which a compacted log may name before its own record."""
        member_id = row["member_id"]
        if member_id not in self._members:
            self._members[member_id] = _Member(member_id, dict(_UNKNOWN_WISH))
        return self._members[member_id]

    def _add_member(self, row: Row) -> None:
        member_id = row["member_id"]
        if row["is_tombstone"]:
            gone = self._members.pop(member_id, None)
            if gone is not None:
                timeout_ms = gone.wish["rebalance_timeout_ms"]
                told_ms = gone.told_ms
                if gone.is_revoking and told_ms is not None and row["timestamp_ms"] - told_ms >= timeout_ms > 0:
                    self._changes.timed_out = True
                self._changes.went.append(gone)
                self._settle(row)
            return
        wish = row["wish"]
        member = self._members.get(member_id)
        if member is not None and member.wish["client_host"]:
            if any(member.wish[name] != wish[name] for name in _WANTED):
                self._changes.asked.append(member)
            member.wish = wish
            return
        member = self._of(row)
        member.wish = wish
        if member_id in self._upgrading:
            return
        before = next((gone for gone in self._changes.went if gone.owner == member.owner), None)
        if before is not None:
            self._changes.went.remove(before)
            self._replaced = True
            if any(before.wish[name] != wish[name] for name in _WANTED):
                self._changes.asked.append(member)
        else:
            self._changes.came.append(member)

    def _add_target(self, row: Row) -> None:
        self._target_epoch = row["epoch"]
        rebalance = self._rebalance
        if rebalance is not None and rebalance.target_ms is None and row["epoch"] >= rebalance.epoch:
            rebalance.target_ms = row["timestamp_ms"]
        self._replaced = False
        self._snapshot(row)

    def _snapshot(self, row: Row) -> None:
        epoch = row["epoch"] if row["key_type"] == 6 else self._target_epoch
        if epoch is None:
            return
        self._formed(epoch)
        assignors = sorted({name for each in self._members.values() if (name := each.wish["server_assignor"])})
        self.snapshots.append(
            {
                "group_id": row["group_id"],
                "topic": row["topic"],
                "partition": row["partition"],
                "offset": row["offset"],
                "timestamp_ms": row["timestamp_ms"],
                "is_tombstone": False,
                "protocol_type": "consumer",
                "generation_id": epoch,
                "protocol_name": assignors[0] if len(assignors) == 1 else None,
                "leader_id": None,
                "state_timestamp_ms": -1,
                "members": [self._seat(member) for member in self._members.values()],
            }
        )

    def _seat(self, member: _Member) -> dict[str, Any]:
        wish = member.wish
        topics = {"topics": wish["topics"], "owned": [], "generation_id": -1, "rack_id": wish["rack_id"]}
        return {
            "member_id": member.member_id,
            "group_instance_id": wish["group_instance_id"],
            "client_id": wish["client_id"],
            "client_host": wish["client_host"],
            "rebalance_timeout_ms": wish["rebalance_timeout_ms"],
            "session_timeout_ms": wish["session_timeout_ms"],
            "subscription": topics,
            "assignment": [
                {"topic": self._name(each["topic_id"]), "partitions": each["partitions"]} for each in member.target
            ],
        }

    def _name_topics(self, member: _Member) -> None:
        """A member of one topic is given no other."""
        topics = member.wish["topics"] or []
        if len(topics) == 1 and len(member.target) == 1 and not member.wish["topic_regex"]:
            self._topics.setdefault(member.target[0]["topic_id"], topics[0])

    def _name(self, topic_id: str) -> str:
        return self._topics.get(topic_id, topic_id)

    # Steps of members

    def _add_current(self, row: Row) -> None:
        if row["is_tombstone"]:
            member = self._members.get(row["member_id"])
            if member is not None:
                self._own(member, frozenset(), row)
            return
        member = self._of(row)
        rebalance = self._rebalance
        is_away = row["epoch"] == _LEFT_FOR_NOW
        owned, to_revoke = _partitions(row["owned"]), _partitions(row["to_revoke"])
        was_revoking, is_revoking = member.is_revoking, bool(to_revoke)
        before = member.partitions
        self._own(member, frozenset() if is_away else owned | to_revoke, row)
        if is_revoking and not was_revoking:
            member.told_ms = row["timestamp_ms"]
        if rebalance is not None and before - member.partitions and not is_away:
            rebalance.revoked_ms = row["timestamp_ms"]
            rebalance.last_to_revoke = rebalance.arrival(member, row["timestamp_ms"])
        member.is_revoking, member.epoch = is_revoking, row["epoch"]
        member.is_stable = row["member_state"] == "Stable"
        if rebalance is not None and member.is_stable and member.epoch == rebalance.epoch:
            rebalance.last_to_assign = rebalance.arrival(member, row["timestamp_ms"])
        self._settle(row)

    def _settle(self, row: Row) -> None:
        """The rebalance is over when every member is at the target."""
        rebalance = self._rebalance
        if rebalance is None or rebalance.target_ms is None or self._changes.went:
            return
        if self._members and all(each.is_stable and each.epoch == rebalance.epoch for each in self._members.values()):
            self._finish(rebalance, row, "completed", row["timestamp_ms"])

    def _finish(self, rebalance: _Rebalance, row: Row | None, outcome: str, ts_ms: int) -> None:
        self._rebalance = None
        total_ms = ts_ms - rebalance.began_ms
        revoking = [each for each in self._members.values() if each.is_revoking] if outcome != "completed" else []
        compute_ms, revoke_ms, assign_ms = total_ms, None, None
        if rebalance.target_ms is not None:
            compute_ms = rebalance.target_ms - rebalance.began_ms
            revoked_ms = max(rebalance.target_ms, rebalance.revoked_ms or 0)
            revoke_ms = (ts_ms if revoking else revoked_ms) - rebalance.target_ms
            assign_ms = None if revoking else ts_ms - revoked_ms
        has_ended = outcome != "open"
        if revoking:
            slowest = min(revoking, key=lambda each: each.told_ms or ts_ms)
            rebalance.last_to_revoke = rebalance.arrival(slowest, ts_ms)
        self.rebalances.append(
            rebalance.row
            | {
                "group_type": "consumer",
                "ts_ms": rebalance.began_ms,
                "started_ts_ms": rebalance.began_ms,
                "ended_ts_ms": ts_ms if has_ended else None,
                "outcome": outcome,
                "protocol_type": "consumer",
                "joined": len(self._members) if outcome == "completed" else None,
                "missed": 0,
                "partitions": sum(len(each.partitions) for each in self._members.values()) or None,
                "compute_ms": compute_ms if has_ended or rebalance.target_ms is not None else None,
                "revoke_ms": revoke_ms if has_ended else None,
                "assign_ms": assign_ms if has_ended else None,
                "total_ms": total_ms if has_ended else None,
                "last_to_revoke": rebalance.last_to_revoke,
                "last_to_assign": rebalance.last_to_assign,
                "unowned_ms": max(rebalance.gaps, default=0),
                "unowned_partition_ms": sum(rebalance.gaps),
            }
        )

    def _delete(self, row: Row) -> None:
        """The group is deleted."""
        self._is_gone = True
        self.snapshots.append(
            {name: row[name] for name in ("group_id", "topic", "partition", "offset", "timestamp_ms")}
            | {"is_tombstone": True}
        )
        self._changes = _Changes()

    # Owners

    def _own(self, member: _Member, partitions: frozenset[Partition], row: Row) -> None:
        """A member has these from now on."""
        before, member.partitions = member.partitions, partitions
        for partition in sorted(before - partitions):
            if partition in self._owners and self._owners[partition][0] is member:
                self._release(partition, row)
        for partition in sorted(partitions - before):
            if partition in self._owners:
                self._release(partition, row)
            self._take(member, partition, row)

    def _take(self, member: _Member, partition: Partition, row: Row) -> None:
        left = self._left.pop(partition, None)
        gap_ms = None if left is None else row["timestamp_ms"] - left[1]
        if gap_ms is not None and self._rebalance is not None:
            self._rebalance.gaps.append(gap_ms)
        interval = member.ref() | {
            "group_id": row["group_id"],
            "topic": self._name(partition[0]),
            "partition": partition[1],
            "owner": member.owner,
            "incarnation": self._incarnation,
            "from_generation": row["epoch"],
            "from_ts_ms": row["timestamp_ms"],
            "previous_owner": None if left is None else left[0],
            "unowned_ms": gap_ms,
            "evidence": _place(row),
        }
        self._owners[partition] = member, interval

    def _release(self, partition: Partition, row: Row | None) -> None:
        """Nobody has it from now on; `row` None: it goes on."""
        member, interval = self._owners.pop(partition)
        last = max(interval["from_generation"], member.epoch)
        ended_ms = None if row is None else row["timestamp_ms"]
        self.intervals.append(
            interval
            | {
                "to_generation": last,
                "generations": last - interval["from_generation"] + 1,
                "to_ts_ms": ended_ms,
            }
        )
        if ended_ms is not None:
            self._left[partition] = member.owner, ended_ms


_WANTED: Final = ("topics", "topic_regex", "server_assignor")
_UNKNOWN_WHY: Final = {"reason": "unknown", "reason_text": "", "trigger": None}
_UNKNOWN_WISH: Final[Mapping[str, Any]] = {
    "group_instance_id": None,
    "rack_id": None,
    "client_id": "",
    "client_host": "",
    "topics": [],
    "topic_regex": None,
    "rebalance_timeout_ms": -1,
    "server_assignor": None,
    "session_timeout_ms": None,
}


def _client(member: _Member) -> tuple[str, str]:
    return member.wish["client_id"], member.wish["client_host"]


def _partitions(topics: Iterable[Mapping[str, Any]] | None) -> frozenset[Partition]:
    return frozenset((each["topic_id"], number) for each in topics or () for number in each["partitions"])


def _place(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("topic", "partition", "offset")}


def in_order(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows in the order in which they were written, each once: a source may return one twice."""
    last: tuple[int, int] | None = None
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        place = row["partition"], row["offset"]
        if place != last:
            yield row
        last = place
