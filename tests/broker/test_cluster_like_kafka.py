"""Quotas, the quorum and directories of logs beside a real Kafka 4.4: the same requests, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integration.support.broker import Deadline
from integration.support.kafka import RealKafka
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kshim_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kshim_protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kshim_protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kshim_protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tests.broker.both import Both
from tests.broker.harness import a_node

pytestmark = pytest.mark.kafka

ARE_THE_SAME_AFTER_S = 10.0
Parts = tuple[tuple[str, str | None], ...]
Ops = tuple[tuple[str, float | None], ...]


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Both]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="cluster-like-kafka", timeout_s=30)
    yield Both(kafka, a_node())
    kafka.close()


def entry(parts: Parts, ops: Ops) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in parts),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops),
    )


def altered(peer: Any, *entries: EntryData, validate_only: bool = False) -> list[Any]:
    answer = peer.ask(AlterClientQuotasRequest(entries=entries, validate_only=validate_only), 1)
    return sorted(
        (sorted((part.entity_type, part.entity_name or "") for part in row.entity), row.error_code, row.error_message)
        for row in answer.entries
    )


def described(peer: Any, *components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    rows = tuple(ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
    answer = peer.ask(DescribeClientQuotasRequest(components=rows, strict=strict), 1)
    assert answer.error_code == ErrorCode.NONE
    return sorted(
        (
            sorted((part.entity_type, part.entity_name or "") for part in row.entity),
            sorted((one.key, one.value) for one in row.values),
        )
        for row in answer.entries
    )


BYTES, PERCENT = "producer_byte_rate", "request_percentage"
CHANGES: dict[str, tuple[Parts, Ops]] = {
    "set": ((("user", "u"),), ((BYTES, 10.0), (PERCENT, 0.5))),
    "default": ((("user", None),), ((BYTES, 10.0),)),
    "user-and-client": ((("client-id", "c"), ("user", "u")), ((BYTES, 10.0),)),
    "address": ((("ip", "1.2.3.4"),), (("connection_creation_rate", 3.0),)),
    "any-address": ((("ip", None),), (("connection_creation_rate", 3.0),)),
    "remove-what-is-not-there": ((("user", "nobody"),), ((BYTES, None),)),
    "remove-what-is-no-key": ((("user", "nobody"),), (("foo", None),)),
    "nothing": ((), ((BYTES, 1.0),)),
    "no-quotas": ((("user", "u"),), ()),
    "unknown-type": ((("foo", "u"),), ((BYTES, 1.0),)),
    "empty-name": ((("user", ""),), ((BYTES, 1.0),)),
    "address-and-user": ((("ip", "1.2.3.4"), ("user", "u")), ((BYTES, 1.0),)),
    "no-address": ((("ip", "1.2.3.4.5"),), (("connection_creation_rate", 1.0),)),
    "key-of-others": ((("ip", "1.2.3.4"),), ((BYTES, 1.0),)),
    "unknown-key": ((("user", "u"),), (("foo", 1.0),)),
    "zero": ((("user", "u"),), ((BYTES, 0.0),)),
    "negative": ((("user", "u"),), ((PERCENT, -1.0),)),
    "fraction": ((("user", "u"),), ((BYTES, 1.5),)),
    "tiny-fraction": ((("user", "u"),), ((BYTES, 1.0000001),)),
    "too-large": ((("user", "u"),), ((BYTES, 1e19),)),
    "too-large-for-an-int": ((("ip", None),), (("connection_creation_rate", 2.0**31),)),
    "no-number": ((("user", "u"),), ((PERCENT, float("nan")),)),
    "infinite": ((("user", "u"),), ((PERCENT, float("inf")),)),
    "key-twice": ((("user", "u"),), ((BYTES, 1.0), (BYTES, 2.0))),
    "type-twice": ((("user", "u"), ("user", "v")), ((BYTES, 1.0),)),
}


@pytest.mark.parametrize(("parts", "ops"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_quotas_is_answered_alike(both: Both, parts: Parts, ops: Ops) -> None:
    theirs, ours = (altered(peer, entry(parts, ops), validate_only=True) for peer in (both.kafka, both.node))
    assert ours == theirs


def test_an_entity_that_is_there_twice_is_refused_alike(both: Both) -> None:
    row = entry((("user", "u"),), ((BYTES, 1.0),))
    theirs, ours = (altered(peer, row, row, validate_only=True) for peer in (both.kafka, both.node))
    assert ours == theirs


def test_quotas_that_were_set_are_described_alike(both: Both) -> None:
    names: list[Parts] = [
        (("user", "u"),),
        (("user", None),),
        (("client-id", "c"), ("user", "u")),
        (("client-id", "c"),),
        (("client-id", None), ("user", "u")),
    ]
    set_ = [entry(parts, ((BYTES, 10.0), (PERCENT, 0.25))) for parts in names]
    set_.append(entry((("ip", "1.2.3.4"),), (("connection_creation_rate", 3.0),)))
    removed = [
        EntryData(entity=one.entity, ops=tuple(OpData(key=op.key, value=0.0, remove=True) for op in one.ops))
        for one in set_
    ]
    assert altered(both.kafka, *set_) == altered(both.node, *set_)
    try:
        deadline = Deadline(ARE_THE_SAME_AFTER_S)
        while described(both.kafka) != described(both.node) and deadline.left_s():
            pass  # Kafka's broker hears of it from the controller
        for components in (
            (),
            (("user", 0, "u"),),
            (("user", 1, None),),
            (("user", 2, None),),
            (("client-id", 0, "c"), ("user", 2, None)),
            (("client-id", 1, None), ("user", 0, "u")),
            (("ip", 2, None),),
            (("ip", 0, "4.3.2.1"),),
        ):
            for strict in (False, True):
                assert described(both.node, *components, strict=strict) == described(
                    both.kafka, *components, strict=strict
                ), (components, strict)
    finally:
        altered(both.kafka, *removed)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_alike(both: Both, version: int) -> None:
    request = DescribeQuorumRequest(
        topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),)),)
    )
    theirs, ours = (quorum(peer.ask(request, version)) for peer in (both.kafka, both.node))
    assert ours == theirs


def quorum(answer: Any) -> Any:
    """What does not depend on the broker: how many voters, who leads, which of the times and offsets are known."""
    ((partition,),) = [topic.partitions for topic in answer.topics]
    (voter,) = partition.current_voters
    return (
        (answer.error_code, answer.error_message, [topic.topic_name for topic in answer.topics]),
        (partition.partition_index, partition.error_code, partition.error_message, len(partition.observers)),
        partition.leader_id == voter.replica_id,
        (partition.leader_epoch > 0, partition.high_watermark > 0, voter.log_end_offset >= partition.high_watermark),
        (voter.replica_directory_id, voter.last_fetch_timestamp > 0, voter.last_caught_up_timestamp > 0),
        [(one.node_id == voter.replica_id, len(one.listeners)) for one in answer.nodes],
    )


@pytest.mark.parametrize(
    "topics", [(), (("orders", (0,)),), (("__cluster_metadata", (0, 1)),), (("__cluster_metadata", ()),)]
)
def test_no_other_quorum_is_described_alike(both: Both, topics: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    request = DescribeQuorumRequest(
        topics=tuple(
            TopicData(topic_name=name, partitions=tuple(PartitionData(partition_index=index) for index in indexes))
            for name, indexes in topics
        )
    )
    for version in (0, 1, 2):
        both.ask(request, version)


def test_directories_of_logs_are_altered_alike(both: Both) -> None:
    found = []
    for peer in (both.kafka, both.node):
        (directory,) = peer.ask(DescribeLogDirsRequest(topics=()), 4).results
        rows = {
            directory.log_dir: ((both.topic, (0, 9)), (f"{both.prefix}.nope", (0,)), ("x" * 230, (0,))),
            "/nowhere": ((both.other, (0,)),),
        }
        request = AlterReplicaLogDirsRequest(
            dirs=tuple(
                AlterReplicaLogDir(
                    path=path,
                    topics=tuple(AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in topics),
                )
                for path, topics in rows.items()
            )
        )
        found.append(
            sorted(
                (topic.topic_name, row.partition_index, ErrorCode(row.error_code).name)
                for topic in peer.ask(request, 2).results
                for row in topic.partitions
            )
        )
    assert found[0] == found[1]
