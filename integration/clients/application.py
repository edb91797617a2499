"""What a situation asks of a client: the commands of docs/design/clients.md, with types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from integration.clients.catalogue import CLASSIC
from integration.clients.driver import ANSWER_TIMEOUT_S, Driver, DriverError
from integration.support.client import TopicPartition

Offsets = dict[TopicPartition, int]


class Sent(NamedTuple):
    """A record to produce."""

    value: str | None
    key: str | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, str | None], ...] = ()

    def fields(self) -> dict[str, Any]:
        """As a command has it."""
        fields: dict[str, Any] = {"value": self.value}
        if self.headers:
            fields["headers"] = [list(header) for header in self.headers]
        for name in ("key", "partition", "timestamp"):
            if (value := getattr(self, name)) is not None:
                fields[name] = value
        return fields


class Read(NamedTuple):
    """A record as read without a group."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...]


class Delivered(NamedTuple):
    """A record as a member of a group got it."""

    topic: str
    partition: int
    offset: int
    value: str


class MemberDescription(NamedTuple):
    """A member as the broker describes it."""

    member_id: str
    instance_id: str | None
    client_id: str
    partitions: frozenset[TopicPartition]


class GroupDescription(NamedTuple):
    """A group as the broker describes it."""

    state: str
    assignor: str
    members: tuple[MemberDescription, ...]


class Application:
    """A program that uses the client library: one driver, opened."""

    def __init__(
        self,
        driver: Driver,
        bootstrap: str,
        security: Mapping[str, str] | None = None,
        group_protocol: str = CLASSIC,
    ) -> None:
        self.driver = driver
        self.group_protocol = group_protocol
        named = None if group_protocol == CLASSIC else group_protocol
        opened = driver.call("open", bootstrap=bootstrap, security=security, group_protocol=named)
        self.client, self.version = opened["client"], opened["version"]

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Raises DriverError."""
        entry = {"name": topic, "partitions": partitions, "configs": dict(configs or {})}
        _require_none(self.driver.call("create_topics", topics=[entry])["topics"], topic, "create_topics")

    def delete_topic(self, topic: str) -> None:
        """Raises DriverError."""
        _require_none(self.driver.call("delete_topics", topics=[topic])["topics"], topic, "delete_topics")

    def create_partitions(self, topic: str, count: int) -> None:
        """To a new total. Raises DriverError."""
        self.driver.call("create_partitions", topic=topic, count=count)

    def partitions(self, topic: str) -> dict[int, dict[str, Any]]:
        """Leader, replicas and isr by partition. Raises DriverError."""
        described = self.driver.call("describe_topic", topic=topic)["partitions"]
        return {each["partition"]: each for each in described}

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self.driver.call("list_topics")["topics"])

    def nodes(self) -> dict[int, str]:
        """`host:port` by node id."""
        return {each["id"]: f"{each['host']}:{each['port']}" for each in self.driver.call("describe_cluster")["nodes"]}

    def configs(self, topic: str) -> dict[str, str | None]:
        """Of a topic."""
        configs: dict[str, str | None] = self.driver.call("describe_configs", topic=topic)["configs"]
        return configs

    def alter_configs(self, topic: str, set_: Mapping[str, str], delete: Collection[str] = ()) -> None:
        """Incrementally. Raises DriverError."""
        self.driver.call("alter_configs", topic=topic, set=dict(set_), delete=list(delete))

    def delete_records(self, offsets: Offsets) -> Offsets:
        """Everything before these; answers the low watermarks. Raises DriverError."""
        return _offsets(self.driver.call("delete_records", offsets=_lists(offsets))["low_watermarks"])

    def groups(self) -> set[str]:
        """The ids of all groups."""
        return set(self.driver.call("list_groups")["groups"])

    def group(self, group: str) -> GroupDescription:
        """State Dead where there is none."""
        told = self.driver.call("describe_group", group=group)
        members = (
            MemberDescription(
                each["member_id"], each["instance_id"] or None, each["client_id"], _partitions(each["partitions"])
            )
            for each in told["members"]
        )
        return GroupDescription(told["state"], told["assignor"], tuple(members))

    def group_offsets(self, group: str) -> Offsets:
        """The committed offsets of a group."""
        return _offsets(self.driver.call("group_offsets", group=group)["offsets"])

    def alter_group_offsets(self, group: str, offsets: Offsets) -> None:
        """Raises DriverError."""
        self.driver.call("alter_group_offsets", group=group, offsets=_lists(offsets))

    def delete_group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Raises DriverError."""
        self.driver.call("delete_group_offsets", group=group, partitions=[list(each) for each in partitions])

    def delete_group(self, group: str) -> None:
        """Raises DriverError."""
        _require_none(self.driver.call("delete_groups", groups=[group])["groups"], group, "delete_groups")

    def produce(
        self,
        topic: str,
        records: Sequence[Sent],
        *,
        compression: str | None = None,
        idempotent: bool | None = None,
    ) -> list[tuple[int, int]]:
        """Send and wait for all answers; partition and offset of each. Raises DriverError."""
        fields = [record.fields() for record in records]
        told = self.driver.call("produce", topic=topic, records=fields, compression=compression, idempotent=idempotent)
        return [(partition, offset) for partition, offset in told["placed"]]

    def read(
        self,
        topic: str,
        starts: Mapping[int, int | str],
        count: int,
        *,
        timeout_s: float = 30.0,
        isolation: str | None = None,
    ) -> list[Read]:
        """From these positions until `count` records are there or the time is over, which is no error."""
        told = self.driver.call(
            "read",
            topic=topic,
            starts={str(partition): start for partition, start in starts.items()},
            count=count,
            timeout_ms=int(timeout_s * 1000),
            isolation=isolation,
            timeout_s=timeout_s + ANSWER_TIMEOUT_S,
        )
        return [_read(each) for each in told["records"]]

    def offsets(
        self, topic: str, partitions: Iterable[int], at: int | str, *, isolation: str | None = None
    ) -> dict[int, int | None]:
        """At `beginning`, `end` or a time in milliseconds."""
        told = self.driver.call("offsets", topic=topic, partitions=list(partitions), at=at, isolation=isolation)
        return {int(partition): offset for partition, offset in told["offsets"].items()}

    def start_load(self, load: str, topic: str, rate: int, *, idempotent: bool | None = None) -> None:
        """Produce numbers in the background until `stop_load`."""
        self.driver.call("load_start", load=load, topic=topic, rate=rate, idempotent=idempotent)

    def stop_load(self, load: str) -> tuple[set[int], set[int]]:
        """The numbers that were acknowledged, and those whose sending failed."""
        told = self.driver.call("load_stop", load=load, timeout_s=3 * ANSWER_TIMEOUT_S)
        assert len(set(told["acknowledged"])) == len(told["acknowledged"]), "a number was acknowledged twice"
        return set(told["acknowledged"]), set(told["failed"])

    def copy(self, *, source: str, target: str, timeout_s: float, **fields: Any) -> dict[str, int]:
        """The exactly-once copy of docs/design/clients.md. Raises DriverError."""
        timeout_ms = int(timeout_s * 1000)
        copied: dict[str, int] = self.driver.call(
            "copy",
            source=source,
            target=target,
            timeout_ms=timeout_ms,
            timeout_s=timeout_s + ANSWER_TIMEOUT_S,
            **fields,
        )
        return copied


class Transactional:
    """A transactional producer of an application."""

    def __init__(self, application: Application, producer: str, transactional_id: str, timeout_ms: int | None) -> None:
        """Made and initialised. Raises DriverError."""
        self._driver = application.driver
        self._producer = producer
        self._driver.call(
            "transactional_open", producer=producer, transactional_id=transactional_id, timeout_ms=timeout_ms
        )

    def begin(self) -> None:
        """Raises DriverError."""
        self._driver.call("transaction_begin", producer=self._producer)

    def send(self, topic: str, records: Sequence[Sent]) -> list[tuple[int, int]]:
        """Send and wait for all answers; partition and offset of each. Raises DriverError."""
        fields = [record.fields() for record in records]
        told = self._driver.call("transaction_send", producer=self._producer, topic=topic, records=fields)
        return [(partition, offset) for partition, offset in told["placed"]]

    def offsets(self, group: str, offsets: Offsets) -> None:
        """Commit these with the transaction. Raises DriverError."""
        self._driver.call("transaction_offsets", producer=self._producer, group=group, offsets=_lists(offsets))

    def commit(self) -> None:
        """Raises DriverError."""
        self._driver.call("transaction_commit", producer=self._producer)

    def abort(self) -> None:
        """Raises DriverError."""
        self._driver.call("transaction_abort", producer=self._producer)

    def close(self) -> None:
        """Raises DriverError."""
        self._driver.call("transactional_close", producer=self._producer)


def _require_none(errors: Mapping[str, str], name: str, do: str) -> None:
    if (error := errors[name]) != "NONE":
        raise DriverError(error, f"{do}: {name}")


def _lists(offsets: Offsets) -> list[list[Any]]:
    return [[topic, partition, offset] for (topic, partition), offset in offsets.items()]


def _offsets(lists: Iterable[Sequence[Any]]) -> Offsets:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in lists}


def _partitions(lists: Iterable[Sequence[Any]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, partition) for topic, partition in lists)


def _read(told: Mapping[str, Any]) -> Read:
    headers = tuple((key, value) for key, value in told["headers"])
    return Read(told["partition"], told["offset"], told["timestamp"], told["key"], told["value"], headers)
