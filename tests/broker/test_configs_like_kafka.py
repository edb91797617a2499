"""Configurations altered beside a real Kafka 4.4: the same requests, the same answers, the same configurations after.

Texts are left out of the comparison, but for those of groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integration.support.broker import Deadline
from integration.support.kafka import RealKafka
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import alter_configs as legacy
from kshim_protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.both import Both
from tests.broker.harness import a_node

pytestmark = pytest.mark.kafka

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC = {1, 2, 3, 7, 8}
"""Sources of what was altered; 3 for all but `min.insync.replicas`, which Kafka itself sets."""
Change = tuple[int, str, str | None]
ARE_THE_SAME_AFTER_S = 10.0


def incremental_request(
    *rows: tuple[int, str, list[Change]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    resources = tuple(
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                AlterableConfig(name=key, config_operation=operation, value=value) for operation, key, value in changes
            ),
        )
        for kind, name, changes in rows
    )
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


class Altered(Both):
    """Both, with configurations to alter."""

    def incremental(self, *rows: tuple[int, str, list[Change]], validate_only: bool = False, version: int = 1) -> Any:
        answer = self.ask(incremental_request(*rows, validate_only=validate_only), version)
        return [row["error_code"] for row in answer["responses"]]

    def messages(self, *rows: tuple[int, str, list[Change]]) -> list[str | None]:
        """Those of both, which are the same."""
        request = incremental_request(*rows)
        theirs, ours = (
            [row.error_message for row in peer.ask(request, 1).responses] for peer in (self.kafka, self.node)
        )
        assert ours == theirs
        return ours

    def replace(self, kind: int, name: str, configs: dict[str, str | None], *, version: int = 2) -> Any:
        resource = legacy.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=tuple(legacy.AlterableConfig(name=key, value=value) for key, value in configs.items()),
        )
        answer = self.ask(legacy.AlterConfigsRequest(resources=(resource,), validate_only=False), version)
        return [row["error_code"] for row in answer["responses"]]

    def same(self, kind: int, name: str) -> dict[str, Any]:
        """What was altered, as both tell it once Kafka has heard of it: value, source, synonyms, type, ..."""
        deadline = Deadline(ARE_THE_SAME_AFTER_S)
        while True:
            theirs, ours = (altered(peer, kind, name) for peer in (self.kafka, self.node))
            if ours == theirs or not deadline.left_s():
                assert ours == theirs
                return ours


def altered(peer: Any, kind: int, name: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (result,) = peer.ask(DescribeConfigsRequest(resources=(resource,), include_synonyms=True), 4).results
    assert result.error_code == ErrorCode.NONE, result
    return {
        entry.name: (
            entry.value,
            entry.config_source,
            entry.config_type,
            entry.is_sensitive,
            entry.read_only,
            [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms],
        )
        for entry in result.configs
        if entry.config_source in DYNAMIC and entry.name != "min.insync.replicas"
    }


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Altered]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="configs-like-kafka", timeout_s=30)
    yield Altered(kafka, a_node())
    kafka.close()


TOPIC_CHANGES: dict[str, list[Change]] = {
    "set": [(SET, "retention.ms", "7000"), (SET, "segment.ms", " 8000 ")],
    "set-to-what-it-is": [(SET, "retention.ms", "5000")],
    "delete": [(DELETE, "retention.ms", None), (DELETE, "segment.ms", None)],
    "delete-with-a-value": [(DELETE, "retention.ms", "1")],
    "delete-what-is-no-key": [(DELETE, "foo", None)],
    "append-what-is-there": [(APPEND, "cleanup.policy", "delete")],
    "append-to-the-default": [(APPEND, "follower.replication.throttled.replicas", "0:1,1:1")],
    "subtract": [(SUBTRACT, "cleanup.policy", "compact")],
    "subtract-twice": [(SUBTRACT, "cleanup.policy", "compact,compact")],
    "subtract-from-the-default": [(SUBTRACT, "leader.replication.throttled.replicas", "0:1")],
    "empty-list": [(SET, "cleanup.policy", "")],
    "unknown-key": [(SET, "foo", "1")],
    "unknown-list": [(APPEND, "foo", "1")],
    "empty-key": [(SET, "", "1")],
    "null": [(SET, "retention.ms", None)],
    "append-null": [(APPEND, "cleanup.policy", None)],
    "subtract-null": [(SUBTRACT, "cleanup.policy", None)],
    "no-number": [(SET, "retention.ms", "x")],
    "too-small": [(SET, "retention.ms", "-5")],
    "no-such-word": [(SET, "message.timestamp.type", "createtime")],
    "append-to-no-list": [(APPEND, "retention.ms", "1")],
    "subtract-from-no-list": [(SUBTRACT, "retention.ms", "1")],
    "append-no-such-word": [(APPEND, "cleanup.policy", "bar")],
    "twice": [(SET, "retention.ms", "1"), (DELETE, "retention.ms", None)],
    "twice-and-wrong": [(SET, "foo", "1"), (SET, "foo", None)],
    "nothing": [],
    "lags": [(SET, "min.compaction.lag.ms", "10"), (SET, "max.compaction.lag.ms", "5")],
    "tiered": [(SET, "remote.storage.enable", "true")],
    "one-of-two-wrong": [(SET, "retention.ms", "1"), (SET, "segment.ms", "x")],
}


@pytest.mark.parametrize("changes", TOPIC_CHANGES.values(), ids=TOPIC_CHANGES)
def test_topics_are_altered_alike(both: Altered, changes: list[Change]) -> None:
    """The topic has retention.ms and cleanup.policy of its own."""
    both.incremental((TOPIC, both.topic, changes))
    both.same(TOPIC, both.topic)


def test_what_is_altered_can_be_altered_again(both: Altered) -> None:
    steps: tuple[list[Change], ...] = (
        [(SET, "min.compaction.lag.ms", "10")],
        [(SET, "max.compaction.lag.ms", "5")],
        [(APPEND, "cleanup.policy", "delete")],
        [(SUBTRACT, "cleanup.policy", "delete,compact")],
        [(APPEND, "cleanup.policy", "compact,compact")],
        [(DELETE, "cleanup.policy", None), (DELETE, "min.compaction.lag.ms", None)],
    )
    for changes in steps:
        both.incremental((TOPIC, both.topic, changes))
        both.same(TOPIC, both.topic)


ONE: list[Change] = [(SET, "retention.ms", "1")]
WRONG: list[Change] = [(SET, "retention.ms", "x")]
METRICS: list[Change] = [(SET, "interval.ms", "1000")]
GROUPS: list[Change] = [(SET, "consumer.session.timeout.ms", "50000")]


@pytest.mark.parametrize("changes", [ONE, WRONG, []], ids=["right", "wrong", "nothing"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TOPIC, "nope"),
        (TOPIC, "a b"),
        (TOPIC, ""),
        (BROKER, "2"),
        (BROKER, "x"),
        (LOGGER, "2"),
        (LOGGER, "1"),
        (GROUP, ""),
        (CLIENT_METRICS, ""),
        (0, "x"),
        (1, "x"),
        (3, "x"),
        (99, "x"),
    ],
)
def test_what_is_not_there_is_refused_alike(both: Altered, kind: int, name: str, changes: list[Change]) -> None:
    both.incremental((kind, name, changes))
    both.replace(kind, name, {key: value for _, key, value in changes})


def test_a_resource_named_twice_is_refused_and_others_are_altered(both: Altered) -> None:
    assert sorted(
        both.incremental((TOPIC, both.topic, ONE), (TOPIC, both.topic, ONE), (TOPIC, both.other, ONE), (GROUP, "", ONE))
    ) == [0, 42, 42, 42]
    assert both.same(TOPIC, both.topic)["retention.ms"][0] == "5000"
    assert both.same(TOPIC, both.other)["retention.ms"][0] == "1"


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_only_to_be_checked_is_not_altered(both: Altered, version: int) -> None:
    rows = (TOPIC, both.topic, ONE), (TOPIC, both.other, WRONG), (GROUP, f"{both.prefix}-g", GROUPS)
    assert sorted(both.incremental(*rows, validate_only=True, version=version)) == [0, 0, 40]
    assert both.same(TOPIC, both.topic)["retention.ms"][0] == "5000"
    assert both.same(GROUP, f"{both.prefix}-g") == {}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_whole_configurations_are_replaced_alike(both: Altered, version: int) -> None:
    group, metrics = f"{both.prefix}-g", f"{both.prefix}-m"
    for kind, name, configs in (
        (TOPIC, both.topic, {"segment.ms": "9000", "retention.bytes": "7"}),
        (TOPIC, both.topic, {"segment.ms": "x"}),
        (TOPIC, both.topic, {"foo": "x"}),
        (TOPIC, both.topic, {"segment.ms": None}),
        (TOPIC, both.topic, {"retention.bytes": "8"}),
        (TOPIC, both.topic, {}),
        (GROUP, group, {"consumer.session.timeout.ms": "46000"}),
        (GROUP, group, {"consumer.heartbeat.interval.ms": "6000"}),
        (GROUP, group, {"foo": "6000"}),
        (GROUP, group, {}),
        (CLIENT_METRICS, metrics, {"interval.ms": "1000"}),
        (CLIENT_METRICS, metrics, {"match": "client_id=a"}),
        (CLIENT_METRICS, metrics, {}),
        (BROKER, "1", {"background.threads": "11", "log.cleaner.threads": "2"}),
        (BROKER, "1", {"background.threads": "12"}),
        (BROKER, "1", {"num.partitions": "12"}),
        (BROKER, "1", {"background.threads": "x"}),
        (BROKER, "1", {}),
    ):
        both.replace(kind, name, dict(configs), version=version)
        both.same(kind, name)


BROKER_CHANGES: dict[str, list[Change]] = {
    "set": [(SET, "log.cleaner.io.buffer.size", "600000"), (SET, "log.local.retention.ms", "-2")],
    "read-only": [(SET, "num.partitions", "3")],
    "read-only-and-another": [(SET, "num.partitions", "3"), (SET, "log.cleaner.io.buffer.size", "600000")],
    "own-id": [(SET, "node.id", "3")],
    "own-id-deleted": [(DELETE, "node.id", None)],
    "certificates": [(SET, "ssl.keystore.location", "/nowhere")],
    "password": [(SET, "ssl.key.password", "secret")],
    "no-number": [(SET, "log.cleaner.io.buffer.size", "x")],
    "too-small": [(SET, "log.cleaner.io.buffer.size", "-1")],
    "null": [(SET, "log.cleaner.io.buffer.size", None)],
    "twice": [(SET, "log.cleaner.io.buffer.size", "1"), (DELETE, "log.cleaner.io.buffer.size", None)],
    "delete-what-is-not-set": [(DELETE, "log.cleaner.io.buffer.size", None)],
    "append-to-no-list": [(APPEND, "log.cleaner.io.buffer.size", "1")],
    "unknown": [(SET, "example.plugin.key", "v")],
    "one-listener": [(SET, "listener.name.plaintext.max.connections", "9000")],
    "one-listener-wrong": [(SET, "listener.name.plaintext.max.connections", "many")],
    "one-listener-read-only": [(SET, "listener.name.plaintext.num.partitions", "9")],
    "overrides-wrong": [(SET, "max.connections.per.ip.overrides", "x")],
    "retention-of-nothing": [(SET, "log.retention.ms", "0")],
}


@pytest.mark.parametrize("name", ["1", ""], ids=["one", "all"])
@pytest.mark.parametrize("changes", BROKER_CHANGES.values(), ids=BROKER_CHANGES)
def test_brokers_are_altered_alike(both: Altered, name: str, changes: list[Change]) -> None:
    back: list[Change] = [(DELETE, key, None) for key in {key for _, key, _ in changes}]
    try:
        both.incremental((BROKER, name, changes))
        both.same(BROKER, name)
        both.same(BROKER, "1")
    finally:
        both.incremental((BROKER, name, back))
    both.same(BROKER, "1")


def test_what_one_broker_has_goes_before_what_all_have_and_topics_see_it(both: Altered) -> None:
    key, of_topics = "log.segment.delete.delay.ms", "file.delete.delay.ms"
    both.incremental((BROKER, "", [(SET, key, "61000")]))
    assert both.same(TOPIC, both.topic)[of_topics][:2] == ("61000", 3)
    both.incremental((BROKER, "1", [(SET, key, "62000")]))
    assert both.same(TOPIC, both.topic)[of_topics][:2] == ("62000", 2)
    both.incremental((TOPIC, both.topic, [(SET, of_topics, "63000")]))
    assert both.same(TOPIC, both.topic)[of_topics][:2] == ("63000", 1)
    assert both.same(BROKER, "")[key][:2] == ("61000", 3)
    both.incremental((BROKER, "1", [(DELETE, key, None)]), (BROKER, "", [(DELETE, key, None)]))
    both.same(TOPIC, both.topic)
    assert key not in both.same(BROKER, "1")


GROUP_VALUES = {
    "consumer.assignment.interval.ms": ("0", "15000", "15001", "-1", "x"),
    "consumer.assignor.offload.enable": ("false", "maybe"),
    "consumer.heartbeat.interval.ms": ("5000", "15000", "4999", "15001", "0"),
    "consumer.session.timeout.ms": ("45000", "60000", "44999", "60001", "0"),
    "errors.deadletterqueue.copy.record.enable": ("true", "yes"),
    "errors.deadletterqueue.topic.name": ("dlq", "__dlq", "a b", "", "x" * 250),
    "share.auto.offset.reset": (
        "earliest",
        "latest",
        "by_duration:PT1H",
        "by_duration:P1DT2M",
        "by_duration:1",
        "none",
    ),
    "share.delivery.count.limit": ("2", "10", "1", "11"),
    "share.isolation.level": ("read_committed", "serializable"),
    "share.partition.max.record.locks": ("100", "4000", "99", "4001"),
    "share.record.lock.duration.ms": ("15000", "60000", "14999", "60001"),
    "share.renew.acknowledge.enable": ("false", "1"),
    "streams.acceptable.recovery.lag": ("0", "-1"),
    "streams.assignor.name": ("sticky", "other", ""),
    "streams.initial.rebalance.delay.ms": ("0", "100000", "-1"),
    "streams.num.standby.replicas": ("2", "3", "-1"),
    "streams.num.warmup.replicas": ("20", "21", "0", "-1"),
    "streams.task.offset.interval.ms": ("15000", "14999", "0"),
    "streams.rack.aware.assignment.tags": ("a,b", "", "a,"),
    "foo": ("1",),
}


@pytest.mark.parametrize(("key", "values"), GROUP_VALUES.items(), ids=GROUP_VALUES)
def test_groups_are_altered_alike(both: Altered, key: str, values: tuple[str, ...]) -> None:
    group = f"{both.prefix}-g"
    for value in values:
        both.incremental((GROUP, group, [(SET, key, value)]))
        both.same(GROUP, group)
        both.messages((GROUP, group, [(SET, key, value)]))
    both.messages((GROUP, group, [(SET, key, None)]))
    both.messages((GROUP, group, [(SET, key, "c"), (SET, key, "c")]))
    both.messages((GROUP, group, [(SUBTRACT, key, "c")]))
    both.incremental((GROUP, group, [(APPEND, key, "c")]))
    both.incremental((GROUP, group, [(DELETE, key, None)]))
    assert both.same(GROUP, group) == {}


CLIENT_METRICS_VALUES = {
    "interval.ms": ("100", "3600000", "99", "3600001", "x"),
    "match": ("client_id=.*", "client_id=a,client_software_name=b", "foo=a", "client_id", "client_id=(", ""),
    "metrics": ("", "org.apache.kafka.,", "*"),
    "foo": ("1",),
}


@pytest.mark.parametrize(("key", "values"), CLIENT_METRICS_VALUES.items(), ids=CLIENT_METRICS_VALUES)
def test_subscriptions_to_client_metrics_are_altered_alike(both: Altered, key: str, values: tuple[str, ...]) -> None:
    name = f"{both.prefix}-m"
    for value in values:
        both.incremental((CLIENT_METRICS, name, [(SET, key, value)]))
        both.same(CLIENT_METRICS, name)
    both.incremental((CLIENT_METRICS, name, [(APPEND, key, "c")]))
    both.incremental((CLIENT_METRICS, name, [(DELETE, key, None)]))
    assert both.same(CLIENT_METRICS, name) == {}


@pytest.mark.parametrize(("kind", "name"), [(GROUP, "nobody"), (CLIENT_METRICS, "nothing")])
def test_what_has_nothing_set_is_described_alike(both: Altered, kind: int, name: str) -> None:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    both.ask(DescribeConfigsRequest(resources=(resource,), include_synonyms=True), 4)


@pytest.mark.parametrize(("kind", "name"), [(GROUP, ""), (CLIENT_METRICS, ""), (LOGGER, "2"), (LOGGER, "x")])
def test_what_cannot_be_described_is_refused_alike(both: Altered, kind: int, name: str) -> None:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    both.ask(DescribeConfigsRequest(resources=(resource,)), 4)


@pytest.mark.parametrize(
    "types", [(GROUP,), (CLIENT_METRICS,), (TOPIC, GROUP), (BROKER, LOGGER), (), (99,), (0,), (1,)]
)
def test_what_has_a_configuration_is_listed_alike(both: Altered, types: tuple[int, ...]) -> None:
    group, metrics = f"{both.prefix}-g", f"{both.prefix}-m"
    operations: list[int] = [SET, DELETE]
    for operation in operations:
        both.incremental((GROUP, group, [(operation, "consumer.session.timeout.ms", "50000")]))
        both.incremental((CLIENT_METRICS, metrics, [(operation, "interval.ms", "1000")]))
        both.same(GROUP, group)
        both.same(CLIENT_METRICS, metrics)
        for request, version in (
            (ListConfigResourcesRequest(resource_types=types), 1),
            (ListConfigResourcesRequest(), 0),
        ):
            theirs, ours = (listed(peer.ask(request, version), both.prefix) for peer in (both.kafka, both.node))
            assert ours == theirs


def listed(answer: Any, prefix: str) -> Any:
    """Error and resources; of those with names of their own only this test's: others use that Kafka too."""
    rows = [(row.resource_type, row.resource_name) for row in answer.config_resources]
    return answer.error_code, sorted(row for row in rows if row[0] in (BROKER, LOGGER) or row[1].startswith(prefix))


FILTERS: dict[str, tuple[tuple[str, int, str | None], ...]] = {
    "nothing": (),
    "any-user": (("user", 2, None),),
    "one-user": (("user", 0, "u"),),
    "default-user": (("user", 1, None),),
    "user-and-client": (("user", 2, None), ("client-id", 0, "c")),
    "address": (("ip", 2, None),),
    "unknown-type": (("foo", 2, None),),
    "empty-type": (("", 2, None),),
    "unknown-match": (("user", 9, None),),
    "exact-nothing": (("user", 0, None),),
    "default-with-a-name": (("user", 1, "x"),),
    "any-with-a-name": (("user", 2, "x"),),
    "twice": (("user", 0, "u"), ("user", 0, "v")),
    "address-and-user": (("ip", 0, "1.2.3.4"), ("user", 2, None)),
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("components", FILTERS.values(), ids=FILTERS)
def test_quotas_are_asked_for_alike(
    both: Altered, components: tuple[tuple[str, int, str | None], ...], version: int
) -> None:
    rows = tuple(ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
    for strict in (False, True):
        both.ask(DescribeClientQuotasRequest(components=rows, strict=strict), version)


def test_logs_that_are_asked_for_are_told_alike(both: Altered) -> None:
    request = DescribeLogDirsRequest(
        topics=(
            DescribableLogDirTopic(topic=both.topic, partitions=(0, 2, 9)),
            DescribableLogDirTopic(topic=f"{both.prefix}.nope", partitions=(0,)),
            DescribableLogDirTopic(topic=both.other, partitions=()),
        )
    )
    for version in range(1, 6):
        theirs, ours = (
            [
                (
                    topic.name,
                    sorted((row.partition_index, row.partition_size, row.offset_lag) for row in topic.partitions),
                )
                for topic in peer.ask(request, version).results[0].topics
            ]
            for peer in (both.kafka, both.node)
        )
        assert ours == theirs == [(both.topic, [(0, 0, 0), (2, 0, 0)])]
