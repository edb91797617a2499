"""Configurations altered while the broker runs: they hold at once, and still after a restart.

What is refused, and with which error, is compared with a live Kafka in `test_configs_like_kafka`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.config.dynamic import DYNAMIC_CONFIGS_DOCUMENT
from kshim.coordinator.groups.config import ConsumerSettings
from kshim.storage.log import LogError
from kshim.storage.stores import MemoryStorage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import alter_configs as legacy
from kshim_protocol.messages.alter_configs import AlterConfigsResourceResponse
from kshim_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce
from tests.broker.full_disk import FullDisk
from tests.broker.harness import START_WALL_MS, NodeUnderTest, a_node, files_in

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1


def alter(
    node: NodeUnderTest, kind: int, name: str, operation: int = SET, node_id: int = 1, /, **configs: str | None
) -> AlterConfigsResourceResponse:
    """Alter single entries; "__" in a name stands for a dot."""
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key.replace("__", "."), config_operation=operation, value=value)
            for key, value in configs.items()
        ),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    found: AlterConfigsResourceResponse = node.client(node_id=node_id).ask(request).responses[0]
    return found


def is_altered(answer: AlterConfigsResourceResponse) -> bool:
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    return True


def entry(node: NodeUnderTest, kind: int, name: str, key: str, node_id: int = 1) -> DescribeConfigsResourceResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=(key,))
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    (found,) = node.client(node_id=node_id).ask(request).results[0].configs
    return found


def value(node: NodeUnderTest, kind: int, name: str, key: str, node_id: int = 1) -> tuple[str | None, int]:
    found = entry(node, kind, name, key, node_id)
    return found.value, found.config_source


@pytest.fixture
def node() -> NodeUnderTest:
    return a_node(topics={"orders": 1})


class TestTopics:
    def test_a_smaller_max_message_bytes_holds_for_the_next_batch(self, node: NodeUnderTest) -> None:
        client, batch = node.client(), a_batch(b"x" * 1000)
        assert produce(client, "orders", batch).error_code == ErrorCode.NONE
        assert is_altered(alter(node, TOPIC, "orders", max__message__bytes="500"))
        assert produce(client, "orders", batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert is_altered(alter(node, TOPIC, "orders", DELETE, max__message__bytes=None))
        assert produce(client, "orders", batch).error_code == ErrorCode.NONE

    def test_the_brokers_clock_stamps_the_next_batch_when_asked_to(self, node: NodeUnderTest) -> None:
        client = node.client()
        assert produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS - 5)).log_append_time_ms == -1
        assert is_altered(alter(node, TOPIC, "orders", message__timestamp__type="LogAppendTime"))
        answer = produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS - 5))
        assert answer.log_append_time_ms == START_WALL_MS

    def test_a_compacted_topic_asks_for_keys(self, node: NodeUnderTest) -> None:
        assert is_altered(alter(node, TOPIC, "orders", cleanup__policy="compact"))
        assert produce(node.client(), "orders", a_batch(key=None)).error_code == ErrorCode.INVALID_RECORD

    def test_an_open_log_begins_new_segments_by_what_was_altered(self, node: NodeUnderTest) -> None:
        client = node.client()
        produce(client, "orders", a_batch())
        assert is_altered(alter(node, TOPIC, "orders", segment__ms="1000"))
        produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS + 2_000))
        assert len(node.log("orders").segments()) == 2

    def test_shorter_retention_deletes_what_is_there(self, node: NodeUnderTest) -> None:
        client = node.client()
        assert is_altered(alter(node, TOPIC, "orders", segment__ms="1000"))
        produce(client, "orders", a_batch())
        produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS + 2_000))
        node.pass_ms(600_000)
        node.run_background_tasks()
        assert node.log("orders").start_offset == 0
        assert is_altered(alter(node, TOPIC, "orders", retention__ms="1000"))
        node.pass_ms(600_000)
        node.run_background_tasks()
        assert node.log("orders").start_offset > 0

    def test_a_topic_that_shall_be_compacted_is_looked_after(self) -> None:
        node = a_node({"log.cleaner.backoff.ms": "10"}, topics={"orders": 1})
        client = node.client()
        assert is_altered(alter(node, TOPIC, "orders", segment__ms="1", min__cleanable__dirty__ratio="0"))
        for second in range(3):
            produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS + second * 1000))
        assert is_altered(alter(node, TOPIC, "orders", cleanup__policy="compact"))
        node.pass_ms(20)
        node.run_background_tasks()
        found = only_partition(client.ask(fetch_of(("orders", 0, 0)), 12))
        assert found.records is not None
        assert len(found.records) < 3 * len(a_batch())

    def test_nothing_changes_when_it_cannot_be_stored(self) -> None:
        storage = FullDisk(is_full=False)
        node = a_node(topics={"orders": 1}, storage=storage, tolerates_defects=True)
        storage.is_full = True
        assert alter(node, TOPIC, "orders", retention__ms="1").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert value(node, TOPIC, "orders", "retention.ms") == ("604800000", 5)
        assert isinstance(node.defects[0], LogError)

    def test_an_unknown_operation_is_refused(self, node: NodeUnderTest) -> None:
        """Kafka says UNKNOWN_SERVER_ERROR."""
        assert alter(node, TOPIC, "orders", 9, retention__ms="1").error_code == ErrorCode.INVALID_REQUEST

    def test_a_topic_that_is_replaced_twice_in_one_request_is_not_altered(self, node: NodeUnderTest) -> None:
        """Kafka never answers."""
        row = legacy.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="orders",
            configs=(legacy.AlterableConfig(name="retention.ms", value="1"),),
        )
        answer = node.client().ask(legacy.AlterConfigsRequest(resources=(row, row), validate_only=False))
        assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert value(node, TOPIC, "orders", "retention.ms") == ("604800000", 5)


class TestBrokers:
    def test_topics_go_by_what_all_brokers_have_unless_the_broker_has_its_own(self, node: NodeUnderTest) -> None:
        client, batch = node.client(), a_batch(b"x" * 1000)
        assert is_altered(alter(node, BROKER, "", message__max__bytes="500"))
        assert produce(client, "orders", batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert value(node, TOPIC, "orders", "max.message.bytes") == ("500", 3)
        assert is_altered(alter(node, BROKER, "1", message__max__bytes="5000"))
        assert produce(client, "orders", batch).error_code == ErrorCode.NONE
        assert value(node, TOPIC, "orders", "max.message.bytes") == ("5000", 2)
        assert is_altered(alter(node, TOPIC, "orders", max__message__bytes="600"))
        assert produce(client, "orders", batch).error_code == ErrorCode.MESSAGE_TOO_LARGE

    def test_an_open_log_goes_by_what_brokers_have(self, node: NodeUnderTest) -> None:
        produce(node.client(), "orders", a_batch())
        assert is_altered(alter(node, BROKER, "", log__roll__ms="1234", log__segment__bytes="2000000"))
        assert (node.log("orders").segment_ms, node.log("orders").segment_bytes) == (1234, 2_000_000)

    def test_what_the_start_said_holds_again_when_the_rest_is_deleted(self) -> None:
        node = a_node({"log.retention.ms": "7000"}, topics={"orders": 1})
        alter(node, BROKER, "", log__retention__ms="8000")
        assert value(node, TOPIC, "orders", "retention.ms") == ("8000", 3)
        alter(node, BROKER, "", DELETE, log__retention__ms=None)
        assert value(node, TOPIC, "orders", "retention.ms") == ("7000", 4)

    @pytest.mark.parametrize(
        "key",
        [
            "listener__name__plaintext__ssl__keystore__location",
            "listener__name__sasl__plain__sasl__jaas__config",
            "sasl__jaas__config",
            "log__flush__interval__ms",
            "ssl__client__auth",
        ],
    )
    def test_what_is_read_at_the_start_only_is_refused_though_kafka_alters_it(
        self, node: NodeUnderTest, key: str
    ) -> None:
        answer = alter(node, BROKER, "1", **{key: "1"})
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "only at the start" in (answer.error_message or "")

    def test_values_of_keys_that_nobody_knows_are_kept_and_not_told(self, node: NodeUnderTest) -> None:
        assert is_altered(alter(node, BROKER, "1", example__password="secret"))
        found = entry(node, BROKER, "1", "example.password")
        assert (found.value, found.is_sensitive, found.config_source) == (None, True, 2)
        assert "secret" not in repr(found)

    def test_several_brokers_are_altered_together_and_none_alone(self) -> None:
        node = a_node(node_count=2, topics={"orders": 1})
        assert is_altered(alter(node, BROKER, "", SET, 2, message__max__bytes="500"))
        for node_id in (1, 2):
            assert value(node, BROKER, str(node_id), "message.max.bytes", node_id) == ("500", 3)
            answer = alter(node, BROKER, str(node_id), SET, node_id, message__max__bytes="600")
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert "share one configuration" in (answer.error_message or "")


class TestGroups:
    """What a group of the new protocol may have for itself; errors and texts are those of a live 4.4."""

    @pytest.mark.parametrize(
        ("configs", "message"),
        [
            ({"foo": "1"}, "Unknown group config name: foo"),
            (
                {"consumer__session__timeout__ms": "44999"},
                "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
            ),
            (
                {"consumer__heartbeat__interval__ms": "15001"},
                "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
            ),
            (
                {"streams__num__standby__replicas": "9"},
                "streams.num.standby.replicas must be less than or equal to 2",
            ),
            (
                {"streams__task__offset__interval__ms": "1"},
                "streams.task.offset.interval.ms must be greater than or equal to 15000",
            ),
            (
                {"streams__assignor__name": "x"},
                "streams.assignor.name 'x' is not a registered task assignor. Registered assignors are: [sticky].",
            ),
            (
                {"errors__deadletterqueue__topic__name": "__x"},
                "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, configs: dict[str, str], message: str) -> None:
        answer = alter(a_node(), GROUP, "g", **configs)
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_CONFIG, message)

    def test_a_session_is_longer_than_the_interval_of_its_heartbeats(self) -> None:
        node = a_node({"group.consumer.min.session.timeout.ms": "6000"})
        answer = alter(
            node, GROUP, "g", consumer__session__timeout__ms="7000", consumer__heartbeat__interval__ms="7000"
        )
        assert answer.error_message == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
        assert is_altered(alter(node, GROUP, "g", consumer__session__timeout__ms="6000"))
        answer = alter(node, GROUP, "g", consumer__heartbeat__interval__ms="6000")
        assert answer.error_code == ErrorCode.INVALID_CONFIG

    def test_bounds_that_followed_another_key_count(self) -> None:
        node = a_node({"group.consumer.session.timeout.ms": "3000"})
        assert is_altered(alter(node, GROUP, "g", consumer__session__timeout__ms="3001"))
        assert alter(node, GROUP, "g", consumer__session__timeout__ms="2999").error_code == ErrorCode.INVALID_CONFIG

    def test_there_is_no_configuration_of_all_groups(self) -> None:
        answer = alter(a_node(), GROUP, "", consumer__session__timeout__ms="50000")
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message == "Default group resources are not allowed."

    def test_keys_that_kafka_does_not_describe_are_shown_where_they_are_set(self) -> None:
        node = a_node()
        key = "consumer.assignor.offload.enable"
        request = DescribeConfigsRequest(
            resources=(DescribeConfigsResource(resource_type=GROUP, resource_name="g", configuration_keys=(key,)),)
        )
        assert node.client().ask(request).results[0].configs == ()
        assert is_altered(alter(node, GROUP, "g", consumer__assignor__offload__enable="false"))
        found = entry(node, GROUP, "g", key)
        assert [(each.name, each.value, each.source) for each in found.synonyms] == [
            (key, "false", 8),
            (f"group.{key}", "true", 5),
        ]

    def test_the_coordinator_sees_the_settings_of_each_group(self) -> None:
        node = a_node()
        settings_of = node.cluster.groups.coordinator._settings_of
        assert is_altered(alter(node, GROUP, "g", consumer__session__timeout__ms="50000"))
        assert is_altered(alter(node, BROKER, "", group__consumer__assignment__interval__ms="0"))
        assert settings_of("g") == ConsumerSettings(50_000, 5_000, 0)
        assert settings_of("h") == ConsumerSettings(45_000, 5_000, 0)

    def test_what_is_set_for_all_brokers_stays_within_the_bounds(self) -> None:
        answer = alter(a_node(), BROKER, "", group__consumer__assignment__interval__ms="15001")
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "group.consumer.max.assignment.interval.ms (15000)" in (answer.error_message or "")


class TestRestarts:
    def test_everything_that_was_altered_is_there_after_a_restart(self, tmp_path: Path) -> None:
        first = a_node(topics={"orders": 1}, storage=files_in(tmp_path))
        assert is_altered(alter(first, TOPIC, "orders", retention__ms="7000"))
        assert is_altered(alter(first, BROKER, "", log__roll__ms="1234"))
        assert is_altered(alter(first, BROKER, "1", message__max__bytes="500"))
        assert is_altered(alter(first, GROUP, "g", consumer__session__timeout__ms="50000"))
        assert is_altered(alter(first, CLIENT_METRICS, "m", interval__ms="1000"))
        first.close()
        second = a_node(storage=files_in(tmp_path))
        assert value(second, TOPIC, "orders", "retention.ms") == ("7000", 1)
        assert value(second, TOPIC, "orders", "segment.ms") == ("1234", 3)
        assert value(second, TOPIC, "orders", "max.message.bytes") == ("500", 2)
        assert value(second, GROUP, "g", "consumer.session.timeout.ms") == ("50000", 8)
        assert value(second, CLIENT_METRICS, "m", "interval.ms") == ("1000", 7)
        assert produce(second.client(), "orders", a_batch(b"x" * 1000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        second.close()

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            "[]",
            '{"version": 2}',
            '{"version": 1, "groups": {"g": 1}}',
            '{"version": 1, "brokers": {"": {"message.max.bytes": "many"}}}',
        ],
    )
    def test_what_is_damaged_is_not_overlooked(self, text: str) -> None:
        storage = MemoryStorage()
        storage.write_document(DYNAMIC_CONFIGS_DOCUMENT, text)
        with pytest.raises(LogError, match="dynamic-configs"):
            a_node(storage=storage)


def test_there_are_no_loggers_to_alter(node: NodeUnderTest) -> None:
    assert alter(node, LOGGER, "1", kshim="DEBUG").error_code == ErrorCode.INVALID_CONFIG
