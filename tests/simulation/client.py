"""A small honest model of a consumer: join, sync, heartbeat, commit, and what each error makes it do.

It has one request on its way at a time. It draws nothing by chance; when it acts is the network's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kshim_protocol.errors import ErrorCode
from tests.simulation.assignors import COOPERATIVE, owned_in
from tests.simulation.requests import Memory
from tests.simulation.script import Actor, TopicPartitions

if TYPE_CHECKING:
    from tests.simulation.world import Call


BACKOFF_MS = 100
COMMIT_INTERVAL_MS = 2_000

_LOOK_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
_FATAL = frozenset(
    {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
)
_GONE_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Phase(Enum):
    """Where a client stands. `STOPPED`: it was told to give up, or ended by itself."""

    JOINING = "joining"
    SYNCING = "syncing"
    MEMBER = "member"
    LEAVING = "leaving"
    STOPPED = "stopped"


class Wish(NamedTuple):
    """A request a client wants to send."""

    verb: str
    version: int
    basis: int | None
    detail: Mapping[str, Any]


class Client:
    """One process. `errors` are the answers that no healthy client should see, with the time of each."""

    def __init__(self, actor: Actor, topics: tuple[str, ...], now_ms: int = 0) -> None:
        self.actor = actor
        self.topics = topics
        self.phase = Phase.JOINING
        self.basis: int | None = None
        self.memory = Memory()
        self.owned: TopicPartitions = ()
        self.owned_generation = -1
        self.positions: dict[tuple[str, int], int] = {}
        self.to_fetch: TopicPartitions = ()
        self.heartbeat_ms = max(min(actor.session_timeout_ms, actor.rebalance_timeout_ms) // 3, 1)
        self.heartbeat_due_ms = now_ms
        self.commit_due_ms = now_ms
        self.not_before_ms = now_ms
        self.commits_before_joining = False
        self.commits_before_syncing = False
        self.errors: list[tuple[int, str, ErrorCode]] = []

    @property
    def is_running(self) -> bool:
        """Whether it is still a client."""
        return self.phase not in (Phase.STOPPED, Phase.LEAVING)

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps its partitions while it rejoins: only when every assignor it offers allows that."""
        return self.actor.protocols == (COOPERATIVE,)

    # Asking

    def wake_ms(self) -> int:
        """When it next wants something."""
        if self.phase is Phase.MEMBER and not self.to_fetch:
            return max(self.not_before_ms, min(self.heartbeat_due_ms, self.commit_due_ms))
        return self.not_before_ms

    def wish(self, now_ms: int) -> Wish | None:
        """What it wants to send now."""
        versions = self.actor.versions
        match self.phase:
            case Phase.STOPPED:
                return None
            case Phase.LEAVING:
                return Wish("leave", versions.leave, self.basis, {})
            case Phase.JOINING if self.commits_before_joining and self.positions:
                return self._commit()
            case Phase.JOINING:
                if not self.is_cooperative:
                    self._revoke()
                detail = {"topics": self.topics, "owned": self.owned, "owned_generation": self.owned_generation}
                return Wish("join", versions.join, self.basis, detail)
            case Phase.SYNCING if self.commits_before_syncing and self.positions:
                return self._commit()
            case Phase.SYNCING:
                return Wish("sync", versions.sync, self.basis, {})
            case Phase.MEMBER:
                if self.to_fetch:
                    return Wish("fetch", versions.fetch, self.basis, {"partitions": self.to_fetch})
                if now_ms >= self.heartbeat_due_ms:
                    return Wish("heartbeat", versions.heartbeat, self.basis, {})
                self.commit_due_ms = now_ms + COMMIT_INTERVAL_MS
                return self._commit() if self.positions else None

    def _commit(self) -> Wish:
        for partition in self.positions:
            self.positions[partition] += 1
        return Wish("commit", self.actor.versions.commit, self.basis, {"offsets": dict(self.positions)})

    def _revoke(self) -> None:
        self.owned = ()
        self.owned_generation = -1
        self.positions.clear()
        self.to_fetch = ()

    def leave(self) -> None:
        """Close: dynamic members say so, static ones just go, and so does who has no id yet."""
        can_leave = self.actor.instance_id is None and self.memory.member_id != ""
        self.phase = Phase.LEAVING if can_leave else Phase.STOPPED

    def rejoin(self, *, commits: bool) -> None:
        """Go to the next generation, perhaps after a last commit for what it has to give back."""
        self.phase = Phase.JOINING
        self.commits_before_joining = commits and not self.is_cooperative

    def start_anew(self) -> None:
        """It is no member any more."""
        self.basis = None
        self.memory = Memory()
        self._revoke()
        self.rejoin(commits=False)

    def resume(self, basis: int | None, memory: Memory, now_ms: int) -> None:
        """Go on with what it remembers, nothing being on its way. Whoever has joined asks for its assignment (again)."""
        self.basis = basis
        self.memory = memory
        self.phase = Phase.SYNCING if memory.generation_id >= 0 else Phase.JOINING
        self.heartbeat_due_ms = now_ms

    # Hearing

    def cut(self, now_ms: int) -> None:
        """The connection broke with a request on its way: it tries the same again."""
        if self.phase is Phase.LEAVING:
            self.phase = Phase.STOPPED
        if self.phase is Phase.MEMBER:
            self.heartbeat_due_ms = now_ms
        self.not_before_ms = now_ms + BACKOFF_MS

    def hear(self, call: Call, now_ms: int) -> None:
        """An answer arrives."""
        verb, error = call.asked.verb, call.error
        if self.phase is Phase.STOPPED:
            return
        if self.phase is Phase.LEAVING or verb == "leave":
            self.phase = Phase.STOPPED
            return
        self.not_before_ms = now_ms
        if verb == "heartbeat":
            self.heartbeat_due_ms = now_ms + self.heartbeat_ms
        if error is ErrorCode.NONE:
            self._take(call, now_ms)
        else:
            self._refused(call, error, now_ms)

    def _take(self, call: Call, now_ms: int) -> None:
        match call.asked.verb:
            case "join":
                self.basis = call.asked.serial
                self.memory = Memory.of(call.response)
                self.phase = Phase.SYNCING
                self.commits_before_syncing = self.is_cooperative and self.memory.generation_id % 4 == 0
            case "sync":
                self._assigned(owned_in(call.response.assignment), now_ms)
            case "fetch":
                self._fetched(call)
            case "commit":
                self.commits_before_joining = False
                self.commits_before_syncing = False
            case _:
                pass

    def _assigned(self, partitions: TopicPartitions, now_ms: int) -> None:
        before = self.owned if self.is_cooperative else ()
        added = tuple(partition for partition in partitions if partition not in before)
        revoked = [partition for partition in before if partition not in partitions]
        self.positions = {
            partition: self.positions.get(partition, 0) for partition in partitions if partition in before
        }
        self.owned = partitions
        self.owned_generation = self.memory.generation_id
        self.to_fetch = added
        self.phase = Phase.MEMBER
        self.heartbeat_due_ms = now_ms + self.heartbeat_ms
        self.commit_due_ms = now_ms + COMMIT_INTERVAL_MS
        if revoked:
            self.rejoin(commits=False)

    def _fetched(self, call: Call) -> None:
        topics = call.response.groups[0].topics if call.asked.version >= 8 else call.response.topics
        asked = call.asked.detail["partitions"]
        found = (partition.committed_offset for topic in topics for partition in topic.partitions)
        for partition, offset in zip(sorted(asked, key=_topic_order(asked)), found, strict=True):
            self.positions[partition] = max(offset, 0)
        self.to_fetch = ()

    def _refused(self, call: Call, error: ErrorCode, now_ms: int) -> None:
        verb = call.asked.verb
        match error:
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.basis = call.asked.serial
                self.memory = Memory.of(call.response)
            case ErrorCode.REBALANCE_IN_PROGRESS if self.phase is Phase.SYNCING and verb == "commit":
                self.commits_before_syncing = False
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin(commits=verb == "heartbeat")
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.GROUP_ID_NOT_FOUND:
                self.errors.append((now_ms, verb, error))
                self.start_anew()
            case ErrorCode.ILLEGAL_GENERATION:
                self.errors.append((now_ms, verb, error))
                self._revoke()
                self.rejoin(commits=False)
            case _ if error in _FATAL:
                self.errors.append((now_ms, verb, error))
                self.phase = Phase.STOPPED
            case _ if error in _LOOK_AGAIN:
                if verb == "sync":
                    self.rejoin(commits=False)
                if verb == "heartbeat":
                    self.heartbeat_due_ms = now_ms
                self.not_before_ms = now_ms + BACKOFF_MS
            case _ if error in _GONE_TOPIC:
                self.commits_before_joining = False
                self.commits_before_syncing = False
                self.to_fetch = ()
                self._drop_gone(call)
            case _:
                raise AssertionError(f"no client expects {error.name} to {call.asked}")

    def _drop_gone(self, call: Call) -> None:
        """Topics that do not exist are not read any more."""
        if call.asked.verb != "commit":
            return
        asked = call.asked.detail["offsets"]
        errors = [partition.error_code for topic in call.response.topics for partition in topic.partitions]
        for partition, error in zip(sorted(asked, key=_topic_order(asked)), errors, strict=True):
            if error in _GONE_TOPIC:
                self.positions.pop(partition, None)


def _topic_order(partitions: Any) -> Any:
    """Partitions in the order in which requests and answers name them: by topic, as first named."""
    first = {topic: index for index, topic in reversed(list(enumerate(topic for topic, _ in partitions)))}
    return lambda partition: first[partition[0]]
