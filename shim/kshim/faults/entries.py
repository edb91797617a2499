"""What a request names one by one (groups, topics, partitions), and where its answer has an error for each.

A row of the table gives the arrays from the message down to the entry, as in the schemas, in the request and in the
response; they are the same kinds of things. An answer may go deeper than the request (Metadata).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kshim_protocol.apis import api_named
from kshim_protocol.schema import ZERO_UUID, Row, Struct, row_is_in, version_range

EVERY_API: Final = "*"
LEVELS: Final = ("top", "group", "topic", "partition", "member")
"""Where an answer can have an error code, from the top down."""
TRANSACTIONAL_ID_FIELDS: Final = ("transactional_id", "v3_and_below_transactional_id")
ANY: Final = -2
"""The partition of an entry that stands for all partitions of its topic."""
EVERY_TOPIC: Final = ""
"""The topic of an entry that stands for all topics."""


class Entry(NamedTuple):
    """One thing that a request names; None where its API has no such level."""

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    member: str | None = None

    def text(self) -> str:
        """
        >>> Entry(None, "orders", 1).text(), Entry("billing").text()
        ('orders-1', 'billing')
        """
        if self.topic is None:
            return str(self.group or self.member or ("any" if self.partition is None else f"*-{self.partition}"))
        if self.topic == EVERY_TOPIC:
            return "every topic"
        return self.topic if self.partition in (None, ANY) else f"{self.topic}-{self.partition}"


NOTHING: Final = Entry()


class Shape(NamedTuple):
    """Of one API in a range of versions. `kinds` of the response; those of the request are the first of them.

    `reads`: the request changes nothing, so all of it may be done, and what is refused be taken out of the answer.
    """

    versions: str
    request: tuple[str, ...]
    response: tuple[str, ...]
    kinds: tuple[str, ...]
    reads: bool = False


def _shape(versions: str, request: str, response: str, kinds: str, *, reads: bool = False) -> Shape:
    return Shape(versions, tuple(request.split("/")), tuple(response.split("/")), tuple(kinds.split("/")), reads)


# fmt: off
_TP: Final = "topics/partitions"
_TOPIC_PARTITION: Final = "topic/partition"
SHAPES: Final[dict[str, tuple[Shape, ...]]] = {
    "Produce":              (_shape("0+", "topic_data/partition_data", "responses/partition_responses", _TOPIC_PARTITION),),
    "Fetch":                (_shape("0+", _TP, "responses/partitions", _TOPIC_PARTITION, reads=True),),
    "ListOffsets":          (_shape("0+", _TP, _TP, _TOPIC_PARTITION, reads=True),),
    "Metadata":             (_shape("0+", "topics", _TP, _TOPIC_PARTITION, reads=True),),
    "OffsetCommit":         (_shape("0+", _TP, _TP, _TOPIC_PARTITION),),
    "OffsetFetch":          (_shape("0-7", "topics/partition_indexes", _TP, _TOPIC_PARTITION, reads=True),
                             _shape("8+", "groups/topics/partition_indexes", "groups/topics/partitions",
                                    "group/topic/partition", reads=True)),
    "FindCoordinator":      (_shape("4+", "coordinator_keys", "coordinators", "group", reads=True),),
    "LeaveGroup":           (_shape("3+", "members", "members", "member"),),
    "ConsumerGroupDescribe": (_shape("0+", "group_ids", "groups", "group", reads=True),),
    "DescribeGroups":       (_shape("0+", "groups", "groups", "group", reads=True),),
    "DeleteGroups":         (_shape("0+", "groups_names", "results", "group"),),
    "CreateTopics":         (_shape("0+", "topics", "topics", "topic"),),
    "DeleteTopics":         (_shape("6+", "topics", "responses", "topic"),
                             _shape("0-5", "topic_names", "responses", "topic")),
    "CreatePartitions":     (_shape("0+", "topics", "results", "topic"),),
    "DeleteRecords":        (_shape("0+", _TP, _TP, _TOPIC_PARTITION),),
    "OffsetForLeaderEpoch": (_shape("0+", _TP, _TP, _TOPIC_PARTITION, reads=True),),
    "OffsetDelete":         (_shape("0+", _TP, _TP, _TOPIC_PARTITION),),
    "TxnOffsetCommit":      (_shape("0+", _TP, _TP, _TOPIC_PARTITION),),
    "AddPartitionsToTxn":   (_shape("0-3", "v3_and_below_topics/partitions",
                                    "results_by_topic_v3_and_below/results_by_partition", _TOPIC_PARTITION),),
    "AlterPartitionReassignments": (_shape("0+", _TP, "responses/partitions", _TOPIC_PARTITION),),
    "ElectLeaders":         (_shape("0+", "topic_partitions/partitions", "replica_election_results/partition_result",
                                    _TOPIC_PARTITION),),
    "DescribeProducers":    (_shape("0+", "topics/partition_indexes", _TP, _TOPIC_PARTITION, reads=True),),
    "DescribeTopicPartitions": (_shape("0+", "topics", _TP, _TOPIC_PARTITION, reads=True),),
    "ShareGroupDescribe":   (_shape("0+", "group_ids", "groups", "group", reads=True),),
    "StreamsGroupDescribe": (_shape("0+", "group_ids", "groups", "group", reads=True),),
    "ShareFetch":           (_shape("0+", _TP, "responses/partitions", _TOPIC_PARTITION),),
    "ShareAcknowledge":     (_shape("0+", _TP, "responses/partitions", _TOPIC_PARTITION),),
    "DescribeShareGroupOffsets": (_shape("0+", "groups/topics/partitions", "groups/topics/partitions",
                                         "group/topic/partition", reads=True),),
    "AlterShareGroupOffsets": (_shape("0+", _TP, "responses/partitions", _TOPIC_PARTITION),),
    "DeleteShareGroupOffsets": (_shape("0+", "topics", "responses", "topic"),),
    "InitializeShareGroupState": (_shape("0+", _TP, "results/partitions", _TOPIC_PARTITION),),
    "ReadShareGroupState":  (_shape("0+", _TP, "results/partitions", _TOPIC_PARTITION),),
    "WriteShareGroupState": (_shape("0+", _TP, "results/partitions", _TOPIC_PARTITION),),
    "DeleteShareGroupState": (_shape("0+", _TP, "results/partitions", _TOPIC_PARTITION),),
    "ReadShareGroupStateSummary": (_shape("0+", _TP, "results/partitions", _TOPIC_PARTITION, reads=True),),
}
# fmt: on

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "group": ("group_id", "key"),
    "topic": ("topic", "name", "topic_name", "topic_id"),
    "partition": ("partition", "partition_index", "index", "partition_id"),
    "member": ("member_id",),
}
"""What the schemas call the name of each kind."""
TopicName = Callable[[bytes], str | None]
"""From the id of a topic to its name; None for an unknown one."""


def shape_of(api: str, version: int) -> Shape | None:
    """The shape of an API in one version; None where a request names nothing one by one."""
    for shape in SHAPES.get(api, ()):
        first, last = version_range(shape.versions)
        if first <= version <= last:
            return shape
    return None


@lru_cache(maxsize=128)
def api_kinds(api: str) -> frozenset[str]:
    """What the requests of an API can be matched by, as the fields of `Match` are called."""
    kinds = {"version", "client_id", "listener"}
    if api == EVERY_API:
        return frozenset({*kinds, "group", "member_id", "group_instance_id", "transactional_id", "topic", "partition"})
    for shape in SHAPES.get(api, ()):
        kinds.update({"group", "topic", "partition"}.intersection(shape.kinds))
    if api == "FindCoordinator":
        kinds.update(("group", "transactional_id"))
    for row in _named_rows(api_named(api).request_class()):
        if row.name in (*TRANSACTIONAL_ID_FIELDS, "transactional_ids"):
            kinds.add("transactional_id")
        kinds.update({"group_id": ("group",)}.get(row.name, {row.name} & {"member_id", "group_instance_id"}))
    return frozenset(kinds)


def _named_rows(cls: type[Struct]) -> Iterator[Row]:
    """The rows that `request.names_in` looks at."""
    for row in cls.info.rows:
        yield row
        if row.name in ("members", "groups") and not isinstance(row.element, str):
            yield from row.element.info.rows


def entries_of(api: str, version: int, request: Any, topic_name: TopicName) -> Iterator[Entry]:
    """Everything that a request names, one by one."""
    shape = shape_of(api, version)
    if shape is not None and not (api == "FindCoordinator" and request.key_type != 0):
        yield from entries_below(request, shape.request, shape.kinds, NOTHING, topic_name)


def entries_below(
    message: Any, path: tuple[str, ...], kinds: tuple[str, ...], above: Entry, topic_name: TopicName
) -> Iterator[Entry]:
    """What stands in the arrays of `path`, which are of these `kinds`, below the entry `above`."""
    if getattr(message, path[0]) is None and kinds[0] == "topic":
        yield above._replace(topic=EVERY_TOPIC, partition=ANY)
    for element in getattr(message, path[0]) or ():
        entry = above._replace(**{kinds[0]: name_of(element, kinds[0], topic_name)})
        rest = path[1:]
        if rest:
            yield from entries_below(element, rest, kinds[1:], entry, topic_name)
        elif kinds[1:]:
            yield entry._replace(partition=ANY)
        else:
            yield entry


def name_of(element: Any, kind: str, topic_name: TopicName) -> Any:
    """The name of a row; where it has the id of a topic, that topic's, or the id itself for an unknown one."""
    if not isinstance(element, Struct):
        return element
    topic_id = getattr(element, "topic_id", ZERO_UUID) if kind == "topic" else ZERO_UUID
    if topic_id != ZERO_UUID:
        return topic_name(topic_id) or topic_id.hex()
    for attribute in NAMES[kind]:
        if hasattr(element, attribute):
            value = getattr(element, attribute)
            return value.hex() if isinstance(value, bytes) else value
    raise AssertionError(f"{type(element).__name__} has no name of a {kind}")


def error_levels(api: str, version: int | None = None) -> dict[str, str]:
    """The levels at which an answer has error codes, from the top down, each with the name of the field."""
    response_class = api_named(api).response_class()
    levels: dict[str, str] = {}
    top = [row for row in response_class.info.rows if row.name == "error_code"]
    if top and (version is None or row_is_in(top[0], version)):
        levels["top"] = "error_code"
    shapes = SHAPES.get(api, ()) if version is None else filter(None, (shape_of(api, version),))
    for shape in shapes:
        cls = response_class
        for field, kind in zip(shape.response, shape.kinds, strict=False):
            cls = row_of(cls, field).element
            name = error_field(cls)
            if name and (version is None or row_is_in(row_of(cls, name), version)):
                levels[kind] = name
    return {level: levels[level] for level in LEVELS if level in levels}


def error_field(cls: type[Struct]) -> str:
    """The name of the error code of a row, "" where it has none."""
    return next((row.name for row in cls.info.rows if row.name in ("error_code", "partition_error_code")), "")


def row_of(cls: type[Struct], name: str) -> Row:
    """The row of a message with that name."""
    return next(row for row in cls.info.rows if row.name == name)


def changed(struct: Any, **fields: object) -> Any:
    """A copy of a message with other values in some of its fields."""
    other = copy(struct)
    for name, value in fields.items():
        setattr(other, name, value)
    return other
