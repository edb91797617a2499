"""What is known of consumer groups: facts in order of time, whatever source they come from.

A field is None where the source cannot know it. Times are ms since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kshim.explain.client_reasons import Says, says

DEFAULT_SESSION_MS = 45_000
DEFAULT_REBALANCE_MS = 300_000
"""Defaults of Kafka's consumers: `session.timeout.ms`, and `max.poll.interval.ms`, which is sent as rebalance timeout."""

HEARTBEAT_MS = 3_000
"""Default of `heartbeat.interval.ms` in Java, librdkafka, kafka-python and franz-go, and a third of the session at most."""

RETURN_MS = 60_000
"""How long a process that is started again may take to be back: an image is pulled, a JVM starts."""


POLL_MS = 1_500
"""How long the poll of a healthy consumer may take until it joins again: `fetch.max.wait.ms`, what it has fetched, and a commit."""


START_MS = 10_000
"""How much later than another a process may be there that was started at the same time: a JVM takes seconds on a busy host."""


BEGINS_MS = 1_000
"""How long after a member has joined a rebalance begins, at most, that is due to it."""


NOTHING_CHANGED = "nothing_changed"
"""Reason of a rebalance of which records tell, after which members, subscriptions and partitions are as before."""

UNSEEN = "unseen"
"""Reason of a departure of which nothing is known but that the member was gone: whether it left or its session expired."""


CLOSED = "closed"
"""Reason of a departure without LeaveGroup, in order nevertheless: the member was closed, as those of Kafka Streams, and its session expired."""


FORGOTTEN = "forgotten"
"""Reason of a load: members had joined for the first time, and the coordinator was stopped before there was a record of them."""

OTHER_TYPE = "other_protocol_type"
"""Reason for which a process may not join: it is no consumer and the members are, or the other way round."""

STREAMS, SHARE = "streams", "share"
"""Types of groups, as the broker says them, that differ from groups of consumers."""


class Kind(Enum):
    """What happened."""

    JOINED = "joined"
    LEFT = "left"
    """In order: by LeaveGroup, or `CLOSED`."""
    EXPIRED = "expired"
    """Its session timed out."""
    REMOVED = "removed"
    """It did not rejoin or sync within the rebalance timeout."""
    REPLACED = "replaced"
    """A process joined with the instance id of `other_id`, which is no longer valid."""
    REQUESTED = "requested"
    """An existing member joined again, which began a rebalance."""
    JOIN_COMPLETED = "join completed"
    """Phase JOIN ended, after `join_ms`; what follows may fail."""
    COMPLETED = "completed"
    """A rebalance ended with an assignment."""
    EMPTIED = "emptied"
    STOPPED = "stopped"
    """A static member of the new protocol left for now: it says so when it is stopped, and stays a member for its session."""
    REFUSED = "refused"
    """A process, which is no member, asked for an instance id whose owner has not left, and did not get it."""
    NOT_ADMITTED = "not admitted"
    """A process asked to join, and may not: it has no assignor that all members have, or is no consumer as they are."""
    HEARD = "heard"
    """The process of a member that was replaced, or whose session had expired, sent a request with its old member id."""
    LOADED = "loaded"
    """A coordinator read the group from its log: it, or its predecessor, had been stopped."""
    STOPPING = "stopping"
    """The broker is being stopped in good order."""
    RETURNED = "returned"
    """A member of a share group had records, and was not done with them: others may have them again."""
    ARCHIVED = "archived"
    """Records that no member of a share group was done with are delivered to nobody any more."""
    HELD = "held"
    """A member of a share group has held records for long."""


class Member(NamedTuple):
    """A member, as the coordinator knows it."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None

    @property
    def name(self) -> str:
        """What an operator calls the client: its instance id, or `client id@host`."""
        if self.instance_id is not None:
            return self.instance_id
        return self.client_id or self.member_id if self.host is None else f"{self.client_id}@{self.host}"


_JOIN_GROUP = "JoinGroup"


class Activity(NamedTuple):
    """What the broker knows of the process behind a member at the time of a fact."""

    connection_id: str
    opened_ms: int
    closed_ms: int | None
    closed_by: str | None
    """`client`, `reset` or `broker`; None: the connection is open."""
    last_request_ms: int
    last_api: str
    last_fetch_ms: int | None
    software: str | None
    has_fetch_session: bool | None = None
    """False: it had ended its session of fetches, as some clients do when they close; None: it never had one, or that is not known."""

    def was_there_since(self, ts_ms: int) -> bool:
        """Whether it had sent something since then, other than the JoinGroup with which it comes back."""
        return self.last_request_ms > ts_ms and self.last_api != _JOIN_GROUP


class Subscription(NamedTuple):
    """Of a JoinGroup. `added` and `removed` are differences from the one before of the same member. Timeouts are None where they are unknown."""

    topics: tuple[str, ...]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    assignors: tuple[str, ...] = ()
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None


class TopicChange(NamedTuple):
    """A topic was created (it had 0 partitions before), deleted (it has 0 now) or got partitions."""

    topic: str
    partitions_before: int
    partitions: int
    changed_ms: int

    @property
    def has_grown(self) -> bool:
        """Whether it got partitions."""
        return 0 < self.partitions_before < self.partitions

    @property
    def is_new(self) -> bool:
        """Whether it was created."""
        return self.partitions_before == 0

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted."""
        return self.partitions == 0


class Moved(NamedTuple):
    """An active task of a streams group that went from one member to another. `had_state`: the other one had kept its state."""

    task: str
    unowned_ms: int
    from_member_id: str
    to_member_id: str
    had_state: bool


class Phases(NamedTuple):
    """How a rebalance went."""

    join_ms: int | None
    sync_ms: int | None
    protocol: str | None
    leader_id: str | None
    last_to_join: Member | None
    last_wait_ms: int | None
    """How long `last_to_join` let the others wait; None if it was new."""
    other_wait_ms: int | None = None
    """The longest of the other members that were not new; None: there was none."""
    has_epochs: bool = False
    """Of a group of the new protocol: `join_ms` is its phase revoke, in which members give up partitions, and there is no SYNC."""
    unowned_ms: int | None = None
    """For how long a partition had no owner at most, where the source says so."""
    generation_id: int | None = None
    partitions: Mapping[str, int] | None = None
    """How many partitions of each topic were assigned, as far as a record of the generation is there."""
    last_told_ms: int | None = None
    """How long after its begin a heartbeat of `last_to_join` told it of the rebalance; None: none did, or it is not known."""
    is_last_observed: bool = True
    """False: who was last is concluded from commits."""
    group_type: str | None = None
    """As the broker says it: `streams` groups have tasks instead of partitions, `share` groups several readers of each; None: unknown."""
    waited_for_pending: bool = False
    """Whether phase JOIN had to wait, for a session timeout, for a client that had been given a member id and never joined with it."""
    moved: tuple[Moved, ...] = ()
    """Its tasks that had no owner meanwhile, the longest first, as far as the source has them."""


class Committed(NamedTuple):
    """What commits of its partitions tell of a member that was gone, or replaced."""

    last_ms: int
    """The last one while they were its."""
    usual_ms: int | None
    """How much time there usually is between two; None: there were too few."""
    before_ms: int | None = None
    """The one before the last, while they were its; None: there was none."""
    is_none: bool = False
    """There was none at all: `last_ms` is when it got them."""
    is_early: bool = False
    """Whether the last one came sooner than a timer would have sent it: no pause between others was that short."""
    is_sparse: bool = False
    """Whether it commits only what is new, and often had nothing new of some partition: then nothing may be left to commit as it closes."""


class DeliveryEnd:
    """How a delivery to a member of a share group ended that was not done with the records."""

    LOCK_TIMEOUT = "lock_timeout"
    RELEASED = "released"
    SESSION_ENDED = "session_ended"
    REJECTED = "rejected"


class Range(NamedTuple):
    """Records next to each other, both offsets included."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Records(NamedTuple):
    """Records of a partition that a member of a share group had. So many deliveries of one record ended so, at so many moments (`times`)."""

    topic: str
    partition: int
    deliveries: int
    times: int
    delivery_count: int
    """Of the record that was delivered most often."""
    held_ms: int
    """For how long it had one at most."""
    lock_ms: int
    delivery_count_limit: int
    ended_by: str | None
    """One of `DeliveryEnd`; None: it has them still."""
    ranges: tuple[Range, ...]
    """Some of them, if there are many."""

    def shares_any(self, other: Records) -> bool:
        """Whether they have a record in common, as far as their ranges tell."""
        if (self.topic, self.partition) != (other.topic, other.partition):
            return False
        return any(
            one.first_offset <= two.last_offset and two.first_offset <= one.last_offset
            for one in self.ranges
            for two in other.ranges
        )


class Fact(NamedTuple):
    """One thing that happened to a group. `source` names the record, event or line that says it."""

    ts_ms: int
    group: str
    kind: Kind
    source: str
    member: Member | None = None
    is_observed: bool = True
    """False: concluded from what was there before and after."""
    reason: str = ""
    client_reason: str | None = None
    other_id: str | None = None
    state: str | None = None
    activity: Activity | None = None
    subscription: Subscription | None = None
    topic_changes: tuple[TopicChange, ...] | None = None
    """Of a request: what was done to the topics of the group in the ten minutes before, in order of time; None: it is not known."""
    phases: Phases | None = None
    committed: Committed | None = None
    told_ms: int | None = None
    """Of a member of the new protocol that was gone: since when it had been told to give up partitions, and had not."""
    records: Records | None = None
    """Of a share group: what came back, was given up, or is held."""
    late_ms: int = 0
    """How much later than it happened it may have been noticed, in a sample."""

    @property
    def says(self) -> Says:
        """What the client says of it."""
        return Says.CLOSES if self.reason == CLOSED else says(self.client_reason)


class Profile(NamedTuple):
    """What a member's record in `__consumer_offsets` says of it."""

    member: Member
    session_ms: int
    rebalance_ms: int
    topics: tuple[str, ...]


class Known(NamedTuple):
    """Everything known of a fleet: facts in order of time, and profiles by member id."""

    facts: tuple[Fact, ...]
    profiles: Mapping[str, Profile]
    sources: tuple[str, ...]
    """Where the facts are from: `events`, `log`, `records`."""
    until_ms: int = 0
    """When a running cluster was read. What happened after the last fact of files is unknown."""

    @property
    def end_ms(self) -> int:
        """Until when it is known that nothing more happened."""
        return max(self.until_ms, self.facts[-1].ts_ms if self.facts else 0)

    def session_ms(self, member_id: str | None) -> int:
        """`session.timeout.ms` of a member; Kafka's default where it is unknown."""
        profile = self.profiles.get(member_id or "")
        return DEFAULT_SESSION_MS if profile is None else profile.session_ms

    def rebalance_ms(self, member_id: str | None) -> int:
        """`max.poll.interval.ms` of a member, as far as it is a Kafka consumer; Kafka's default where it is unknown."""
        profile = self.profiles.get(member_id or "")
        return DEFAULT_REBALANCE_MS if profile is None else max(profile.rebalance_ms, profile.session_ms)

    def poll_ms(self, member_id: str | None) -> int:
        """The same, also where it is shorter than the session timeout, as that of a consumer may be."""
        profile = self.profiles.get(member_id or "")
        return DEFAULT_REBALANCE_MS if profile is None else profile.rebalance_ms

    def return_ms(self, member_id: str | None) -> int:
        """How long after a member was gone a process of the same client is its successor."""
        return max(self.rebalance_ms(member_id), RETURN_MS)

    def topics(self, member_id: str | None) -> tuple[str, ...]:
        """Topics that a member subscribes to; empty where that is unknown."""
        profile = self.profiles.get(member_id or "")
        return () if profile is None else profile.topics
