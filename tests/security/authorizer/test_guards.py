"""Requests under access rules. What each API answers is compared with a live Kafka in integration/security."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.broker.guards.guard import UNGUARDED, closed, find_guard
from kshim.config.broker_config import ConfigError
from kshim.security.authorizer.authorizer import STANDARD_AUTHORIZER
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kshim_protocol.messages.describe_acls import DescribeAclsRequest
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kshim_protocol.messages.produce import ProduceRequest
from kshim_protocol.schema import ZERO_UUID
from tests.broker.data_plane import a_batch, fetch_of, produce, produce_of, values_in
from tests.broker.harness import Client, NodeUnderTest, NoReply, a_node, files_in

CONFIG = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def named(node: NodeUnderTest, user: str) -> Client:
    client = node.client()
    client.principal = f"User:{user}"
    return client


def a_ruled_node(*rules: AclCreation, topics: tuple[str, ...] = ("orders", "payments")) -> NodeUnderTest:
    node = a_node(CONFIG, topics=dict.fromkeys(topics, 1))
    allow(node, *rules)
    return node


def allow(node: NodeUnderTest, *rules: AclCreation) -> None:
    answer = named(node, "admin").ask(CreateAclsRequest(creations=rules))
    assert [result.error_code for result in answer.results] == [0] * len(rules)


def rule(operation: Operation, name: str, of: ResourceType = ResourceType.TOPIC) -> AclCreation:
    return AclCreation(
        resource_type=of,
        resource_name=name,
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=operation,
        permission_type=3,
    )


@pytest.mark.parametrize("api", API_TABLE.values(), ids=lambda api: api.name)
def test_every_api_has_its_guard(api: Api) -> None:
    assert api.name in UNGUARDED or find_guard(api) is not closed


def test_an_api_without_a_guard_is_only_for_who_may_alter_the_cluster() -> None:
    assert find_guard(Api(999, "Unheard", "unheard", (0, 0), None)) is closed


def test_without_an_authorizer_there_are_no_rules_to_make() -> None:
    client = a_node().client()
    (result,) = client.ask(CreateAclsRequest(creations=(rule(Operation.READ, "orders"),))).results
    assert result.error_code == ErrorCode.SECURITY_DISABLED


def test_any_is_for_filters_and_refused_in_a_rule() -> None:
    rules = (rule(Operation.ANY, "orders"), rule(Operation.READ, "orders", ResourceType.ANY))
    answer = named(a_ruled_node(), "admin").ask(CreateAclsRequest(creations=rules))
    assert [result.error_code for result in answer.results] == [ErrorCode.INVALID_REQUEST] * 2


def test_another_authorizer_is_refused() -> None:
    with pytest.raises(ConfigError):
        a_node({"authorizer.class.name": "com.example.Authorizer"})


def test_nobody_in_particular_may_do_nothing() -> None:
    node = a_ruled_node()
    assert produce(node.client(), "orders", a_batch()).error_code == REFUSED


def test_what_is_allowed_of_a_request_is_done_and_the_rest_refused() -> None:
    node = a_ruled_node(rule(Operation.WRITE, "orders"))
    batch = a_batch(b"one")
    both = produce_of("orders", batch).topic_data + produce_of("payments", batch).topic_data
    answer = named(node, "alice").ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=both), 12)
    errors = {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}
    assert errors == {"orders": ErrorCode.NONE, "payments": REFUSED}
    assert (node.log("orders").end_offset, node.log("payments").end_offset) == (1, 0)


def test_a_refusal_without_an_answer_ends_the_connection() -> None:
    node = a_ruled_node()
    client = named(node, "alice")
    client.send(produce_of("orders", a_batch(), acks=0), 12)
    assert isinstance(client.unread.popleft(), NoReply)
    node.pass_ms(1)
    assert client.hung_up is not None
    assert node.log("orders").end_offset == 0


def test_a_fetch_that_waits_carries_the_refusal_in_its_late_answer() -> None:
    node = a_ruled_node(rule(Operation.READ, "orders"))
    client = named(node, "alice")
    client.send(fetch_of(("orders", 0, 0), ("payments", 0, 0), max_wait_ms=500), 12)
    assert client.is_waiting
    produce(named(node, "admin"), "orders", a_batch(b"news"))
    answer = client.take(FetchResponse)
    found = {topic.topic: topic.partitions[0] for topic in answer.responses}
    assert values_in(found["orders"].records) == [b"news"]
    assert found["payments"].error_code == REFUSED


def test_a_fetch_of_refused_topics_only_is_answered_at_once() -> None:
    node = a_ruled_node()
    answer = named(node, "alice").ask(fetch_of(("orders", 0, 0), max_wait_ms=500), 12)
    assert answer.responses[0].partitions[0].error_code == REFUSED


def metadata(client: Client, *names: str, version: int = 12) -> dict[str | None, ErrorCode]:
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    answer: MetadataResponse = client.ask(MetadataRequest(topics=topics), version)
    return {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}


def test_a_topic_is_made_for_who_may_create_it() -> None:
    node = a_ruled_node(
        rule(Operation.DESCRIBE, "new"), rule(Operation.DESCRIBE, "newer"), rule(Operation.CREATE, "newer")
    )
    alice = named(node, "alice")
    assert metadata(alice, "new", "newer", "newest") == {"new": REFUSED, "newer": ErrorCode.NONE, "newest": REFUSED}
    assert {topic.name for topic in node.cluster.topics} == {"orders", "payments", "newer"}
    allow(node, rule(Operation.CREATE, "kafka-cluster", ResourceType.CLUSTER))
    assert metadata(alice, "new") == {"new": ErrorCode.NONE}


def test_a_topic_that_may_not_be_seen_looks_like_one_that_is_not_there() -> None:
    alice = named(a_ruled_node(), "alice")
    assert metadata(alice, "orders") == {"orders": REFUSED}
    assert metadata(alice, "nothing") == {"nothing": REFUSED}
    answer = alice.ask(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), 12)
    assert answer.topics[0].topic_id == ZERO_UUID
    assert alice.ask(MetadataRequest(topics=None), 12).topics == ()
    assert alice.ask(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), 0).topics[0].partitions == ()


def test_the_configuration_of_a_new_topic_is_for_who_may_see_it() -> None:
    node = a_ruled_node(rule(Operation.CREATE, "new"))
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=(), configs=())
    (made,) = named(node, "alice").ask(CreateTopicsRequest(topics=(topic,))).topics
    assert (made.error_code, made.topic_config_error_code) == (ErrorCode.NONE, REFUSED)
    assert (made.num_partitions, made.configs) == (-1, ())


ANY = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def test_rules_are_kept_with_the_data(tmp_path: Path) -> None:
    node = a_node(CONFIG, topics={"orders": 1}, storage=files_in(tmp_path))
    allow(node, rule(Operation.READ, "orders"), rule(Operation.WRITE, "orders"))
    node.close()
    node = a_node(CONFIG, storage=files_in(tmp_path))
    (resource,) = named(node, "admin").ask(ANY).resources
    assert {acl.operation for acl in resource.acls} == {Operation.READ, Operation.WRITE}
    assert produce(named(node, "alice"), "orders", a_batch()).error_code == ErrorCode.NONE
    node.close()
    assert (tmp_path / "acls.json").stat().st_mode & 0o777 == 0o600


def test_a_rule_removed_counts_no_more() -> None:
    node = a_ruled_node(rule(Operation.WRITE, "orders"))
    alice = named(node, "alice")
    assert produce(alice, "orders", a_batch()).error_code == ErrorCode.NONE
    wanted = DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="orders",
        pattern_type_filter=2,
        principal_filter="User:alice",
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    (result,) = named(node, "admin").ask(DeleteAclsRequest(filters=(wanted,))).filter_results
    assert [acl.operation for acl in result.matching_acls] == [Operation.WRITE]
    assert produce(alice, "orders", a_batch()).error_code == REFUSED


def consumer_heartbeat(*names: str, expression: str = "") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=names,
        subscribed_topic_regex=expression,
        topic_partitions=(),
    )


def test_a_consumer_joins_with_topics_that_it_may_describe() -> None:
    node = a_ruled_node(rule(Operation.READ, "g", ResourceType.GROUP), rule(Operation.DESCRIBE, "orders"))
    alice = named(node, "alice")
    assert alice.ask(consumer_heartbeat("orders", "payments")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert alice.ask(consumer_heartbeat("orders")).error_code == ErrorCode.NONE
    assert named(node, "bob").ask(consumer_heartbeat()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_an_expression_stands_for_topics_that_the_client_may_describe() -> None:
    node = a_ruled_node(rule(Operation.READ, "g", ResourceType.GROUP), rule(Operation.DESCRIBE, "orders"))
    alice = named(node, "alice")
    assert alice.ask(consumer_heartbeat(expression=".*")).error_code == ErrorCode.NONE
    node.run_background_tasks()
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    assignment = alice.ask(request).assignment
    assert assignment is not None
    orders = node.cluster.topics.named("orders")
    assert orders is not None
    assert [topic.topic_id for topic in assignment.topic_partitions] == [orders.topic_id]
