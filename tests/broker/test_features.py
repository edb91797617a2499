"""The levels of features: what ApiVersions shows of them, and what UpdateFeatures makes of them, as on Kafka 4.4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kshim.broker.features import FEATURES_DOCUMENT
from kshim.config.broker_config import ConfigError
from kshim.storage.log import LogError
from kshim.storage.stores import MemoryStorage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in

NAME = "transaction.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def at_level(level: int, **options: Any) -> NodeUnderTest:
    return a_node(config={"kshim.transaction.version": str(level)}, **options)


def shown(client: Client, version: int = 4) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]], int]:
    """Of transaction.version: (supported, finalized), and the epoch of all features."""
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    reply = client.ask(request, version)
    return (
        [(each.name, each.min_version, each.max_version) for each in reply.supported_features if each.name == NAME],
        [
            (each.name, each.min_version_level, each.max_version_level)
            for each in reply.finalized_features
            if each.name == NAME
        ],
        reply.finalized_features_epoch,
    )


def update(
    client: Client, *updates: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> tuple[ErrorCode, str]:
    """UpdateFeatures of (name, level, type): the error and what is said of it, behind Kafka's introduction."""
    keys = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
    )
    reply = client.ask(UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only), version)
    expected = [name for name, _, _ in updates] if version < 2 and not reply.error_code else []
    assert [result.feature for result in reply.results] == expected
    message = reply.error_message or ""
    return ErrorCode(reply.error_code), message.removeprefix(
        "The update failed for all features since the following feature had an error: Invalid update version "
    )


def test_the_features_are_those_of_groups_and_transactions() -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    reply = at_level(2).client().ask(request, 4)
    supported = [(each.name, each.min_version, each.max_version) for each in reply.supported_features]
    assert supported == [("group.version", 0, 1), ("share.version", 0, 1), ("streams.version", 0, 1), (NAME, 0, 2)]
    assert [(each.name, each.max_version_level) for each in reply.finalized_features] == [
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        (NAME, 2),
    ]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_the_answer_is_kept_until_a_level_changes(version: int) -> None:
    node = at_level(2)
    first = shown(node.client(), version)
    assert shown(node.client(), version) == first
    assert update(node.client(), (NAME, 1, SAFE_DOWNGRADE))[0] == ErrorCode.NONE
    second = shown(node.client(), version)
    assert (first[1:], second[1:]) == (([(NAME, 2, 2)], 0), ([(NAME, 1, 1)], 1))
    assert shown(at_level(1).client(), version)[:2] == second[:2]


def test_group_version_0_switches_the_new_group_protocol_off() -> None:
    client = a_node().client()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    assert client.ask(request, 1).error_code == ErrorCode.NONE
    assert update(client, ("group.version", 0, SAFE_DOWNGRADE)) == (ErrorCode.NONE, "")
    assert client.ask(request, 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    reply = client.ask(ConsumerGroupDescribeRequest(group_ids=("g",)), 1)
    assert reply.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_feature_of_level_0_is_supported_but_not_finalized() -> None:
    assert shown(at_level(0).client()) == ([(NAME, 0, 2)], [], 0)


def test_clients_before_version_4_do_not_see_features_that_are_supported_from_level_0_on() -> None:
    client = at_level(1).client()
    assert shown(client, 3) == ([], [(NAME, 1, 1)], 0)
    assert shown(client, 2) == ([], [], -1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_level_can_be_raised_and_lowered_while_the_broker_runs(version: int) -> None:
    client = at_level(0).client()
    assert update(client, (NAME, 2, UPGRADE), version=version) == (ErrorCode.NONE, "")
    assert shown(client)[1:] == ([(NAME, 2, 2)], 1)
    assert update(client, (NAME, 1, SAFE_DOWNGRADE), version=version) == (ErrorCode.NONE, "")
    assert update(client, (NAME, 0, UNSAFE_DOWNGRADE), version=version) == (ErrorCode.NONE, "")
    assert shown(client)[1:] == ([], 3)


@pytest.mark.parametrize("kind", [UPGRADE, SAFE_DOWNGRADE])
def test_the_level_that_holds_already_is_accepted_and_changes_nothing(kind: int) -> None:
    client = at_level(2).client()
    assert update(client, (NAME, 2, kind)) == (ErrorCode.NONE, "")
    assert update(client) == (ErrorCode.NONE, "")
    assert shown(client)[2] == 0


def test_validate_only_changes_nothing() -> None:
    client = at_level(2).client()
    assert update(client, (NAME, 1, SAFE_DOWNGRADE), validate_only=True) == (ErrorCode.NONE, "")
    assert shown(client)[1:] == ([(NAME, 2, 2)], 0)


WITHOUT_TYPE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)
NO_TYPE = "The controller does not support the given upgrade type."


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("updated", "reason"),
    [
        ((NAME, 0, UPGRADE), f"0 for feature {NAME}. {WITHOUT_TYPE}"),
        ((NAME, 2, SAFE_DOWNGRADE), f"2 for feature {NAME}. Can't downgrade to a newer version."),
        ((NAME, 3, UPGRADE), f"3 for feature {NAME}. Local controller 1 only supports versions 0-2"),
        ((NAME, -1, SAFE_DOWNGRADE), f"-1 for feature {NAME}. A feature version cannot be less than 0."),
        ((NAME, 1, 0), f"1 for feature {NAME}. {NO_TYPE}"),
        ((NAME, 1, 7), f"1 for feature {NAME}. {NO_TYPE}"),
        (("nope", 1, UPGRADE), "1 for feature nope. Local controller 1 does not support this feature."),
        (("nope", 0, SAFE_DOWNGRADE), "0 for feature nope. Feature nope not found."),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words(updated: tuple[str, int, int], reason: str, version: int) -> None:
    client = at_level(1).client()
    assert update(client, updated, version=version) == (ErrorCode.INVALID_UPDATE_VERSION, reason)


def test_all_updates_of_a_request_hold_or_none() -> None:
    client = at_level(1).client()
    error, _ = update(client, (NAME, 2, UPGRADE), ("nope", 1, UPGRADE))
    assert error is ErrorCode.INVALID_UPDATE_VERSION
    assert shown(client)[1:] == ([(NAME, 1, 1)], 0)


def test_version_0_is_an_upgrade_whatever_it_says_of_downgrades() -> None:
    client = at_level(1).client()
    down, up = (FeatureUpdateKey(feature=NAME, max_version_level=level, allow_downgrade=True) for level in (0, 2))
    refused = client.ask(UpdateFeaturesRequest(feature_updates=(down,)), 0)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert client.ask(UpdateFeaturesRequest(feature_updates=(up,)), 0).error_code == ErrorCode.NONE


def test_a_level_survives_a_restart_whatever_the_configuration_says_then(tmp_path: Path) -> None:
    node = at_level(0, storage=files_in(tmp_path))
    assert update(node.client(), (NAME, 2, UPGRADE)) == (ErrorCode.NONE, "")
    node.close()
    node = at_level(0, storage=files_in(tmp_path))
    assert shown(node.client())[1:] == ([(NAME, 2, 2)], 1)
    node.close()


def test_the_level_of_the_first_start_holds_at_the_next_one(tmp_path: Path) -> None:
    at_level(1, storage=files_in(tmp_path)).close()
    node = a_node(storage=files_in(tmp_path))
    assert shown(node.client())[1] == [(NAME, 1, 1)]
    node.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"version": 2}',
        '{"version": 1, "epoch": 1, "levels": {"transaction.version": 3}}',
        '{"version": 1, "epoch": 1, "levels": {"nope": 1}}',
    ],
)
def test_a_document_that_cannot_be_used_is_no_start(text: str) -> None:
    storage = MemoryStorage()
    storage.write_document(FEATURES_DOCUMENT, text)
    with pytest.raises(LogError, match=FEATURES_DOCUMENT):
        a_node(storage=storage)


def test_a_level_there_is_not_is_refused_by_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"kshim\.transaction\.version=3"):
        at_level(3)
