"""What goes over HTTP as JSON, one class for each object; the OpenAPI description is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

Count: TypeAlias = Annotated[int, Meta(ge=0)]
NodeId: TypeAlias = Annotated[int, Meta(ge=0, le=2_147_483_647, description="The id of a broker.")]
GroupId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=32_767, description="The id of a group.")]
TopicName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=249, description="The name of a topic.")]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=300, description="How long to wait at most, in seconds.")]

Base64: TypeAlias = Annotated[
    bytes,
    Meta(extra_json_schema={"pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"}),
]


class Input(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a request holds: unknown fields are refused, because they are most often misspelt ones."""


class Output(msgspec.Struct, kw_only=True):
    """What an answer holds."""


# The server


class Health(Output):
    """The process lives and answers."""

    status: str = "ok"


class Ready(Output):
    """The brokers accept connections, and all coordinators have read their logs."""

    bootstrap_servers: str
    cluster_id: str
    version: str


# Topics


class NewTopic(Input):
    """A topic to be made."""

    name: TopicName
    partitions: Annotated[int, Meta(ge=1, le=9_999)] = 1
    configs: dict[str, str] = {}


class PartitionView(Output):
    """One partition of a topic. `leader` is a broker's id, -1 while there is none."""

    partition: int
    leader: int
    start_offset: int
    end_offset: int


class TopicView(Output):
    """A topic, its configuration and its partitions."""

    name: str
    topic_id: str
    configs: dict[str, str]
    partitions: list[PartitionView]


class TopicSummary(Output):
    """A topic in a list."""

    name: str
    partitions: int
    is_internal: bool


class TopicPage(Output):
    """Topics by name. `next` is the `after` of the next page, null at the end."""

    topics: list[TopicSummary]
    next: str | None


class PageQuery(Input):
    """Which part of a list."""

    after: Annotated[str, Meta(description="The last name of the page before.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="How many at most.")] = 100


# Groups


class MemberDocument(Output):
    """A member of a group. `is_synced`: it has been given its `assignment`, partitions by topic, in this generation."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: dict[str, list[int]]
    is_leader: bool
    is_synced: bool
    session_timeout_ms: int


class OffsetDocument(Output):
    """Where a group stands in a partition. `committed` null: nowhere yet; `lag` null: the partition is gone."""

    topic: str
    partition: int
    committed: int | None
    lag: int | None


class GroupSummary(Output):
    """A group in a list."""

    group_id: str
    state: str
    generation: int
    protocol: str | None
    members: int


class GroupPage(Output):
    """Groups by id. `next` is the `after` of the next page, null at the end."""

    groups: list[GroupSummary]
    next: str | None


class GroupDocument(Output):
    """A group as it is at this moment.

    `state` is Kafka's word, or Unknown while the coordinator is loading. `is_synced`: it is Stable, and every member has
    its assignment. At most 1,000 members and 1,000 offsets are listed; the others are counted.
    """

    group_id: str
    state: str
    generation: int
    protocol: str | None
    is_synced: bool
    coordinator: int
    members: list[MemberDocument]
    members_omitted: int
    offsets: list[OffsetDocument]
    offsets_omitted: int


class RebalanceDocument(Output):
    """One rebalance. `who` names the member behind it; `duration_ms` and `outcome` are null while it is open.

    A classic group has the phases join and sync, one of the new protocol compute, revoke and assign, and epochs for
    generations.
    """

    epoch: int
    why: str
    text: str
    who: str | None
    from_generation: int
    to_generation: int | None
    started_ms: int
    join_ms: int | None
    sync_ms: int | None
    compute_ms: int | None
    revoke_ms: int | None
    assign_ms: int | None
    duration_ms: int | None
    outcome: str | None
    members: int
    kicked: list[str]
    explanation: str


class RebalanceList(Output):
    """The newest rebalances of a group, the oldest first; `omitted` older ones are in the history, too."""

    rebalances: list[RebalanceDocument]
    omitted: int


class Explanation(Output):
    """What happened to a group, in words: a sentence for each rebalance, and every event in a line."""

    explanation: str
    timeline: str


class NewestQuery(Input):
    """How much of the past."""

    limit: Annotated[int, Meta(ge=1, le=1_000, description="How many of the newest at most.")] = 100


class WaitQuery(Input):
    """What to wait for; all that is named must be true at the same time."""

    state: Annotated[
        Literal["Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead"]
        | UnsetType,
        Meta(
            description="The group's state. Stable includes that every member has its assignment; Empty that the group is gone."
        ),
    ] = UNSET
    members: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET
    generation: (
        Annotated[int, Meta(ge=0, le=2_147_483_647, description="This generation or a later one.")] | UnsetType
    ) = UNSET
    assigned: (
        Annotated[
            str, Meta(min_length=1, description="The client, instance or member id of a member with an assignment.")
        ]
        | UnsetType
    ) = UNSET
    topic: (
        Annotated[str, Meta(min_length=1, description="With `offset`: the topic of a committed offset.")] | UnsetType
    ) = UNSET
    partition: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    offset: (
        Annotated[int, Meta(ge=0, le=2**63 - 1, description="With `topic`: this committed offset or a later one.")]
        | UnsetType
    ) = UNSET
    timeout: Seconds = 10.0


class RebalanceInput(Input):
    """A rebalance to begin."""

    reason: Annotated[str, Meta(max_length=1_000)] = "asked for over HTTP"


class ExpelInput(Input):
    """A member to remove, by its member, instance or client id."""

    member: Annotated[str, Meta(min_length=1, max_length=32_767)]
    reason: Annotated[str, Meta(max_length=1_000)] = "expelled over HTTP"


class ExpireInput(Input):
    """A member whose session is to end, by its member, instance or client id."""

    member: Annotated[str, Meta(min_length=1, max_length=32_767)]


class FenceInput(Input):
    """A static member whose place another takes."""

    instance_id: Annotated[str, Meta(min_length=1, max_length=32_767)]


class MemberId(Output):
    """The id of a member."""

    member_id: str


# History


class HistoryQuery(Input):
    """Which part of the history."""

    group: Annotated[str, Meta(description="Only the events of this group.")] | UnsetType = UNSET
    after: Annotated[
        int, Meta(ge=0, le=2**53, description="The number of the last event seen; 0: from the oldest.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class StreamQuery(Input):
    """Which part of the history."""

    group: Annotated[str, Meta(description="Only the events of this group.")] | UnsetType = UNSET
    after: (
        Annotated[int, Meta(ge=0, le=2**53, description="The number of the last event seen; 0: from the oldest.")]
        | UnsetType
    ) = UNSET


class ResumeHeaders(msgspec.Struct, kw_only=True, rename={"last_event_id": "last-event-id"}):
    """What a browser's EventSource sends when it connects again."""

    last_event_id: Annotated[str, Meta(description="The id of the last event seen.")] | UnsetType = UNSET


class HistoryPage(Output):
    """Events, from old to new, each as the page docs/design/events.md describes it.

    `run` identifies this life of the brokers; `next` is the `after` of the next page, which may be asked for again when
    more has happened. `missed` events after `after` are no longer kept.
    """

    run: str
    events: list[msgspec.Raw]
    next: int
    missed: int


# Nodes


class NodeDocument(Output):
    """A broker. `leads` counts the partitions that it leads."""

    node: int
    host: str
    port: int
    is_live: bool
    leads: int


class NodeList(Output):
    """All brokers, by id."""

    nodes: list[NodeDocument]


class MoveInput(Input):
    """The broker that is to lead."""

    node: NodeId


# Records


class RecordInput(Input):
    """A record to write. Bytes that are no text go into the fields in base64; without a value it is a tombstone."""

    value: str | None = None
    value_base64: Base64 | UnsetType = UNSET
    key: str | None = None
    key_base64: Base64 | UnsetType = UNSET
    headers: dict[str, str] = {}
    partition: Annotated[int, Meta(ge=0, le=2_147_483_647, description="By the key unless given.")] | UnsetType = UNSET
    timestamp_ms: Annotated[int, Meta(ge=0, le=2**53, description="Unix time; now unless given.")] | UnsetType = UNSET


class RecordsInput(Input):
    """Records to write."""

    records: Annotated[list[RecordInput], Meta(min_length=1, max_length=1_000)]


class RecordPlace(Output):
    """Where a record was written."""

    partition: int
    offset: int
    timestamp_ms: int


class RecordPlaces(Output):
    """Where records were written, in their order."""

    records: list[RecordPlace]


class RecordDocument(Output, omit_defaults=True):
    """A record. Bytes that are no UTF-8 are in the fields in base64, and the others are null then."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]
    key_base64: Base64 | UnsetType = UNSET
    value_base64: Base64 | UnsetType = UNSET


class RecordQuery(Input):
    """Which records."""

    partition: Annotated[int, Meta(ge=0, le=2_147_483_647)] = 0
    offset: Annotated[
        int, Meta(ge=0, le=2**63 - 1, description="The first one; an earlier one than the log has means its start.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"


class RecordPage(Output):
    """Records of a partition. `next` is the `offset` of the next page, `end` the offset up to which there are some."""

    records: list[RecordDocument]
    next: int
    end: int


# Faults


class FaultInput(Input):
    """A rule, as in the TOML of `kshim serve --faults`: what it matches, does, and when."""

    on: Annotated[str, Meta(max_length=100, description="The name of an API, `*` for every one, or `Append`.")]
    do: Annotated[
        str | dict[str, bool | float | int | str | None],
        Meta(description='What happens, such as {"error": "NOT_COORDINATOR"}.'),
    ]
    when: Annotated[
        str | dict[str, bool | float | int | str | None], Meta(description='To which requests, such as {"times": 2}.')
    ]
    match: Annotated[
        dict[str, bool | float | int | str | None],
        Meta(
            description="What has to be true of a request: `version`, `group`, `client_id`, `member_id`, `group_instance_id`, "
            "`transactional_id`, `topic`, `partition`, `broker`, `listener`, `nth`."
        ),
    ] = {}
    name: Annotated[str, Meta(max_length=200)] | None = None


class FiringDocument(Output):
    """One time that a fault did something."""

    number: int
    at_ms: int
    text: str
    api: str
    version: int
    broker: int
    client_id: str | None
    group: str | None
    member_id: str | None


class FaultDocument(Output):
    """A rule, and what has come of it. `fired` lists the newest 1,000 times."""

    fault_id: str
    rule: dict[str, Any]
    is_over: bool
    seen_count: int
    matched_count: int
    fired_count: int
    fired: list[FiringDocument]


class FaultList(Output):
    """All faults since the last reset, in the order in which they were set; of each the firings only at its own path."""

    faults: list[FaultDocument]


# Clock


class AdvanceInput(Input):
    """How far to move the clock."""

    seconds: Annotated[float, Meta(ge=0, le=366 * 24 * 3_600)]
    keep_alive: Annotated[
        # With more stars, a pattern could take the loop's time for itself.
        list[Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"^[^*]*(\*[^*]*){0,3}$")]],
        Meta(
            max_length=100,
            description="Members whose sessions do not expire meanwhile, by member, client or instance id; up to three `*` in "
            "each stand for any text.",
        ),
    ] = []


class ClockDocument(Output):
    """The clock of the brokers. `rate` is 1 for real time and 0 for a clock that stands still."""

    now_ms: int
    rate: float


class FiredTimer(Output):
    """A timer that has fired, by the brokers' clock."""

    kind: str
    key: list[str]
    at: float


class Advanced(Output):
    """The clock after it was moved, and the timers that fired on the way, in their order: at most 1,000 are listed."""

    now_ms: int
    fired: list[FiredTimer]
    fired_omitted: int
