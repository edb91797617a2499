"""DescribeConfigs of topics and the broker. Shapes and errors are those of a live Kafka 4.4 where not said otherwise."""

from __future__ import annotations

import pytest

from kshim.broker.alter_configs.broker_keys import CLUSTER_WIDE_KEYS
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.broker.harness import NodeUnderTest, a_node

TOPIC, BROKER = 2, 4
FROM_TOPIC, FROM_BROKER, FROM_DEFAULT = 1, 4, 5


def ask(
    node: NodeUnderTest,
    *resources: tuple[int, str],
    keys: tuple[str, ...] | None = None,
    version: int = 4,
    synonyms: bool = True,
    documentation: bool = False,
) -> list[DescribeConfigsResult]:
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ),
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    return list(node.client().ask(request, version).results)


def entries_of(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
    return {config.name: config for config in result.configs}


def entry(node: NodeUnderTest, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (result,) = ask(node, (kind, name), keys=(key,))
    (found,) = entries_of(result).values()
    return found


def synonyms_of(found: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms]


@pytest.fixture
def node() -> NodeUnderTest:
    node = a_node({"message.max.bytes": "500", "log.retention.hours": "2", "num.io.threads": "9"})
    node.topic("orders", configs={"cleanup.policy": "compact", "max.message.bytes": "400"})
    return node


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_has_37_entries_in_every_version_sorted_by_name(node: NodeUnderTest, version: int) -> None:
    (result,) = ask(node, (TOPIC, "orders"), version=version)
    names = list(entries_of(result))
    assert names == sorted(names)
    assert len(names) == 37


def test_a_value_of_the_topic_itself_wins_and_the_others_are_its_synonyms(node: NodeUnderTest) -> None:
    found = entry(node, TOPIC, "orders", "max.message.bytes")
    assert (found.value, found.config_source, found.read_only, found.is_sensitive) == ("400", FROM_TOPIC, False, False)
    assert synonyms_of(found) == [
        ("max.message.bytes", "400", FROM_TOPIC),
        ("message.max.bytes", "500", FROM_BROKER),
        ("message.max.bytes", "1048588", FROM_DEFAULT),
    ]


def test_a_value_of_the_broker_holds_for_topics_that_set_none(node: NodeUnderTest) -> None:
    node.topic("clicks")
    found = entry(node, TOPIC, "clicks", "max.message.bytes")
    assert (found.value, found.config_source) == ("500", FROM_BROKER)


def test_a_default_names_the_key_of_the_broker_that_would_change_it(node: NodeUnderTest) -> None:
    found = entry(node, TOPIC, "orders", "segment.bytes")
    assert (found.value, found.config_source) == ("1073741824", FROM_DEFAULT)
    assert synonyms_of(found) == [("log.segment.bytes", "1073741824", FROM_DEFAULT)]


def test_a_key_without_one_in_the_broker_has_no_synonyms(node: NodeUnderTest) -> None:
    assert synonyms_of(entry(node, TOPIC, "orders", "remote.storage.enable")) == []


def test_retention_in_hours_is_shown_in_milliseconds_with_its_source(node: NodeUnderTest) -> None:
    """Kafka says the source is the default, which is not so."""
    found = entry(node, TOPIC, "orders", "retention.ms")
    assert (found.value, found.config_source) == ("7200000", FROM_BROKER)
    assert ("log.retention.hours", "2", FROM_BROKER) in synonyms_of(found)


def test_a_value_set_on_the_broker_comes_from_its_properties(node: NodeUnderTest) -> None:
    found = entry(node, BROKER, "1", "message.max.bytes")
    assert (found.value, found.config_source) == ("500", FROM_BROKER)
    assert synonyms_of(found) == [
        ("message.max.bytes", "500", FROM_BROKER),
        ("message.max.bytes", "1048588", FROM_DEFAULT),
    ]


@pytest.mark.parametrize(
    ("key", "sent", "shown"),
    [
        ("cleanup.policy", " compact, delete", "compact,delete"),
        ("preallocate", "TRUE", "true"),
        ("retention.ms", " +5 ", "5"),
        ("min.cleanable.dirty.ratio", ".50", "0.5"),
    ],
)
def test_values_are_shown_tidied_up(node: NodeUnderTest, key: str, sent: str, shown: str) -> None:
    node.topic("untidy", configs={key: sent})
    found = entry(node, TOPIC, "untidy", key)
    assert (found.value, synonyms_of(found)[0]) == (shown, (key, shown, FROM_TOPIC))


def test_a_key_without_effect_is_shown_as_it_was_given(node: NodeUnderTest) -> None:
    assert entry(node, BROKER, "1", "num.io.threads").value == "9"


def test_a_broker_shows_all_of_kafkas_350_keys_and_which_of_them_can_be_altered(node: NodeUnderTest) -> None:
    (result,) = ask(node, (BROKER, "1"))
    entries = entries_of(result)
    assert len(entries) == 350
    assert {name for name, found in entries.items() if not found.read_only} == CLUSTER_WIDE_KEYS


def test_the_broker_tells_its_own_id_and_address() -> None:
    node = a_node({"listeners": "PLAINTEXT://elsewhere:1"}, host="broker.example", port=1234)
    assert entry(node, BROKER, "1", "node.id").value == "1"
    assert entry(node, BROKER, "1", "advertised.listeners").value == "PLAINTEXT://broker.example:1234"
    assert entry(node, BROKER, "1", "listeners").value == "PLAINTEXT://broker.example:1234"


def test_a_value_that_follows_another_key_is_shown_as_it_holds() -> None:
    node = a_node({"group.max.session.timeout.ms": "3000"})
    assert entry(node, BROKER, "1", "group.min.session.timeout.ms").value == "3000"


def test_the_default_of_the_rebalance_delay_is_the_one_here() -> None:
    found = entry(a_node(), BROKER, "1", "group.initial.rebalance.delay.ms")
    assert (found.value, found.config_source) == ("0", FROM_DEFAULT)


def test_passwords_are_never_described() -> None:
    node = a_node({"ssl.key.password": "secret"})
    found = entry(node, BROKER, "1", "ssl.key.password")
    assert (found.value, found.is_sensitive, found.config_source) == (None, True, FROM_BROKER)
    assert synonyms_of(found) == [("ssl.key.password", None, FROM_BROKER)]


@pytest.mark.parametrize("keys", [None, ()])
def test_null_and_an_empty_list_of_keys_ask_for_all(node: NodeUnderTest, keys: tuple[str, ...] | None) -> None:
    (result,) = ask(node, (TOPIC, "orders"), keys=keys)
    assert len(result.configs) == 37


def test_only_known_keys_that_are_asked_for_come_each_once(node: NodeUnderTest) -> None:
    (result,) = ask(node, (TOPIC, "orders"), keys=("retention.ms", "foo", "cleanup.policy", "retention.ms"))
    assert list(entries_of(result)) == ["cleanup.policy", "retention.ms"]


def test_synonyms_and_documentation_come_only_when_asked_for(node: NodeUnderTest) -> None:
    (quiet,) = ask(node, (TOPIC, "orders"), keys=("retention.ms",), synonyms=False)
    found = entries_of(quiet)["retention.ms"]
    assert (found.synonyms, found.documentation) == ((), None)
    (talkative,) = ask(node, (TOPIC, "orders"), keys=("segment.bytes", "flush.ms"), documentation=True)
    texts = [found.documentation for found in entries_of(talkative).values()]
    assert all(texts)
    assert len(set(texts)) == 2


@pytest.mark.parametrize(
    ("kind", "name", "key", "config_type"),
    [
        (TOPIC, "orders", "preallocate", 1),
        (TOPIC, "orders", "compression.type", 2),
        (TOPIC, "orders", "segment.bytes", 3),
        (BROKER, "1", "offsets.topic.replication.factor", 4),
        (TOPIC, "orders", "retention.ms", 5),
        (TOPIC, "orders", "min.cleanable.dirty.ratio", 6),
        (TOPIC, "orders", "cleanup.policy", 7),
        (BROKER, "1", "principal.builder.class", 8),
        (BROKER, "1", "ssl.key.password", 9),
    ],
)
def test_types_are_told_from_version_3(node: NodeUnderTest, kind: int, name: str, key: str, config_type: int) -> None:
    assert entry(node, kind, name, key).config_type == config_type


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (1, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_that_is_not_there_has_an_error_of_its_own(
    node: NodeUnderTest, kind: int, name: str, error: ErrorCode
) -> None:
    """Kafka refuses all resources when one has an unknown type."""
    refused, found = ask(node, (kind, name), (TOPIC, "orders"))
    assert (refused.resource_type, refused.resource_name, refused.error_code) == (kind, name, error)
    assert refused.configs == ()
    assert len(found.configs) == 37


def test_the_empty_broker_name_asks_for_cluster_wide_values_of_which_there_are_none(node: NodeUnderTest) -> None:
    (result,) = ask(node, (BROKER, ""))
    assert (result.error_code, result.configs) == (ErrorCode.NONE, ())
