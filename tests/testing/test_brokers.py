"""`kshim.testing`: brokers in this process, under trio and on a thread, stopped and started while clients are connected."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from kshim.config.broker_config import ConfigError
from kshim.testing import Kshim, open_brokers
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.metadata import MetadataRequest
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

PATIENCE_S = 20


def connect(address: str) -> Client:
    host, _, port = address.rpartition(":")
    return Client(host, int(port), client_id="test", timeout_s=PATIENCE_S)


def known_brokers(address: str) -> list[str]:
    client = connect(address)
    try:
        found = client.ask(MetadataRequest(topics=None), 12).brokers
    finally:
        client.close()
    return [f"{broker.host}:{broker.port}" for broker in found]


def produce(client: Client, topic: str) -> int:
    batch = build_batch([Record(None, b"v", timestamp_ms=1)])
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    answer = client.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=(data,)), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def a_waiting_fetch(client: Client, topic: str) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic=topic, partitions=(wanted,)),)
    client.send(FetchRequest(max_wait_ms=600_000, min_bytes=1, max_bytes=1 << 20, topics=topics), 12)


@pytest.mark.trio
async def test_under_trio_each_call_has_done_its_work_when_it_returns() -> None:
    async with open_brokers(3, topics={"orders": 3}) as brokers:
        assert brokers.live == [1, 2, 3]
        addresses = brokers.bootstrap_servers.split(",")
        assert await trio.to_thread.run_sync(known_brokers, addresses[1]) == addresses
        brokers.stop_node(1)
        brokers.move("orders", 2, 2)
        assert ([brokers.leader_of("orders", index) for index in range(3)], brokers.live) == ([3, 2, 2], [2, 3])
        assert await trio.to_thread.run_sync(known_brokers, addresses[2]) == addresses[1:]
        with pytest.raises(BrokerGone):
            await trio.to_thread.run_sync(known_brokers, addresses[0])
        brokers.start_node(1)
        assert await trio.to_thread.run_sync(known_brokers, addresses[0]) == addresses
        assert brokers.coordinator_of("g") in brokers.live
        assert brokers.defects == []


@pytest.mark.trio
async def test_what_is_raised_inside_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_brokers():
            raise ZeroDivisionError


@pytest.mark.trio
async def test_a_node_stopped_and_started_before_anything_runs_is_there() -> None:
    async with open_brokers(2) as brokers:
        for _ in range(3):
            brokers.stop_node(2)
            brokers.start_node(2)
        assert await trio.to_thread.run_sync(known_brokers, brokers.address_of(2)) == brokers.bootstrap_servers.split(
            ","
        )


def test_a_client_of_a_broker_that_stops_hears_who_leads_and_is_cut_off() -> None:
    with Kshim(2, topics={"orders": 1}) as brokers:
        client = connect(brokers.address_of(1))
        a_waiting_fetch(client, "orders")
        other = connect(brokers.address_of(1))
        assert produce(other, "orders") == ErrorCode.NONE
        assert client.receive(PATIENCE_S).responses[0].partitions[0].error_code == ErrorCode.NONE
        brokers.create_topic("idle")
        brokers.move("idle", 0, 1)
        a_waiting_fetch(client, "idle")
        while not brokers.cluster.fetch_purgatory:  # the request is on its way
            assert brokers.live == [1, 2]
        brokers.stop_node(1)
        answer = client.receive(PATIENCE_S)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for gone in (client, other):
            with pytest.raises(BrokerGone):
                gone.ask(MetadataRequest(topics=None), 12)
            gone.close()
        second = connect(brokers.address_of(2))
        assert produce(second, "orders") == ErrorCode.NONE
        second.close()


def test_everything_but_the_records_waits_for_nobody_when_all_brokers_are_stopped() -> None:
    with Kshim(2, topics={"orders": 1}) as brokers:
        for broker in (1, 2):
            brokers.stop_node(broker)
        assert brokers.live == []
        brokers.start_node(2)
        client = connect(brokers.address_of(2))
        assert produce(client, "orders") == ErrorCode.NONE
        client.close()


def test_a_port_that_was_taken_meanwhile_is_an_error_and_the_broker_stays_stopped() -> None:
    with Kshim(2) as brokers:
        host, _, port = brokers.address_of(2).rpartition(":")
        brokers.stop_node(2)
        with socket.create_server((host, int(port))):
            with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
                brokers.start_node(2)
            assert brokers.live == [1]
        brokers.start_node(2)
        assert known_brokers(brokers.address_of(2)) == brokers.bootstrap_servers.split(",")


def test_data_and_leaders_are_there_again_in_the_same_directory(tmp_path: Path) -> None:
    with Kshim(3, topics={"orders": 1}, data_dir=tmp_path) as brokers:
        brokers.move("orders", 0, 3)
        client = connect(brokers.address_of(3))
        assert produce(client, "orders") == ErrorCode.NONE
        client.close()
    with Kshim(3, topics={"orders": 1}, data_dir=tmp_path) as brokers:
        assert brokers.leader_of("orders") == 3
        client = connect(brokers.address_of(3))
        a_waiting_fetch(client, "orders")
        assert client.receive(PATIENCE_S).responses[0].partitions[0].high_watermark == 1
        client.close()


def test_what_keeps_brokers_from_starting_is_raised() -> None:
    with pytest.raises(ConfigError), Kshim(config={"group.max.size": "many"}):
        pass


def test_an_unknown_key_is_refused_with_the_most_similar_one() -> None:
    problem = r"config: group\.max\.sise is not a configuration key of Kafka; did you mean group\.max\.size\?"
    with pytest.raises(ValueError, match=problem), Kshim(config={"group.max.sise": "3"}):
        pass


def test_a_key_of_kafka_without_effect_does_not_keep_brokers_from_starting() -> None:
    with Kshim(config={"num.io.threads": "8", "rsm.config.any": "x"}) as brokers:
        assert brokers.bootstrap_servers


def test_what_is_raised_inside_ends_the_thread_too() -> None:
    addresses = []
    with suppress(ZeroDivisionError), Kshim() as brokers:
        addresses.append(brokers.bootstrap_servers)
        raise ZeroDivisionError
    with pytest.raises(BrokerGone):
        connect(addresses[0])


REFUSED_TOPICS = [
    ("orders", 1, {}, ErrorCode.TOPIC_ALREADY_EXISTS),
    ("a/b", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("order.s", 1, {}, ErrorCode.NONE),
    ("order_s", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("none", 0, {}, ErrorCode.INVALID_PARTITIONS),
    ("fewer", -1, {}, ErrorCode.INVALID_PARTITIONS),
    ("many", 1_000_000_000, {}, ErrorCode.POLICY_VIOLATION),
    ("offsets", 1, {"cleanup.policy": "sometimes"}, ErrorCode.INVALID_CONFIG),
    ("__consumer_offsets", 1, {}, ErrorCode.INVALID_REQUEST),
]


def test_topics_are_checked_as_those_of_clients_and_none_is_replaced() -> None:
    with Kshim(topics={"orders": 1}) as brokers:
        client = connect(brokers.bootstrap_servers)
        assert produce(client, "orders") == ErrorCode.NONE
        for name, partitions, configs, code in REFUSED_TOPICS:
            if code == ErrorCode.NONE:
                brokers.create_topic(name, partitions, configs)
                continue
            with pytest.raises(KafkaError) as caught:
                brokers.create_topic(name, partitions, configs)
            assert caught.value.code == code
        a_waiting_fetch(client, "orders")
        assert client.receive(PATIENCE_S).responses[0].partitions[0].high_watermark == 1
        client.close()


@pytest.mark.parametrize("topics", [{"a/b": 1}, {"orders": 0}, {"a.b": 1, "a_b": 1}])
def test_topics_to_begin_with_are_checked_alike(topics: dict[str, int]) -> None:
    with pytest.raises(KafkaError), Kshim(topics=topics):
        pass


@pytest.mark.parametrize(
    "key", ["listeners", "advertised.listeners", "sasl.enabled.mechanisms", "listener.name.plaintext.ssl.client.auth"]
)
def test_listeners_that_brokers_for_tests_do_not_have_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key), Kshim(config={key: "SASL_PLAINTEXT://127.0.0.1:0"}):
        pass


def test_values_of_a_configuration_are_texts() -> None:
    numbers: dict[str, Any] = {"group.max.size": 500}
    with pytest.raises(TypeError, match=r"group\.max\.size.*500"), Kshim(config=numbers):
        pass
    with Kshim() as brokers, pytest.raises(TypeError, match=r"retention\.ms.*500"):
        brokers.create_topic("orders", 1, {"retention.ms": 500})  # type: ignore[dict-item]


def test_a_broker_there_never_was_is_named() -> None:
    with Kshim(2) as brokers:
        for call in (brokers.stop_node, brokers.start_node, brokers.address_of):
            with pytest.raises(LookupError, match=r"unknown broker 9: the brokers of this cluster are 1, 2"):
                call(9)


def test_after_the_end_of_the_block_calls_say_that_the_brokers_are_closed() -> None:
    with Kshim() as brokers:
        pass
    for call in (lambda: brokers.create_topic("orders"), lambda: brokers.live, lambda: brokers.stop_node(1)):
        with pytest.raises(RuntimeError, match="closed"):
            call()


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"brokers": 0}, ValueError, "brokers must be a number of brokers from 1 to 100, not 0"),
    ({"brokers": -1}, ValueError, "brokers must be .* not -1"),
    ({"brokers": 101}, ValueError, "brokers must be .* not 101"),
    ({"brokers": "3"}, TypeError, "brokers must be an integer, not '3'"),
    ({"brokers": None}, TypeError, "brokers must be an integer"),
    ({"brokers": True}, TypeError, "brokers must be an integer"),
    ({"topics": ["a"]}, TypeError, "topics must map names to numbers of partitions"),
    ({"topics": {5: 1}}, TypeError, "topics: a name must be a string, not 5"),
    ({"topics": {"a": "2"}}, TypeError, "topics: the number of partitions of a must be an integer, not '2'"),
    ({"topics": {"a": True}}, TypeError, "topics: the number of partitions of a"),
    ({"topics": {"a": 1_000_000_000}}, KafkaError, "at most 10000"),
    ({"config": "x=1"}, TypeError, "config must map keys to values"),
    ({"config": {1: "x"}}, TypeError, "config: a key must be a string, not 1"),
    ({"data_dir": ""}, ValueError, "data_dir must name a directory"),
]


@pytest.mark.parametrize(("arguments", "error", "sentence"), MISTAKES)
def test_arguments_that_cannot_be_used_are_named(
    arguments: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence), Kshim(**arguments):
        pass


def test_arguments_of_calls_are_checked_as_well() -> None:
    with Kshim() as brokers:
        calls: list[tuple[Any, tuple[Any, ...], str]] = [
            (brokers.create_topic, (5,), "name must be a string, not 5"),
            (brokers.create_topic, ("x", "2"), "partitions must be an integer, not '2'"),
            (brokers.create_topic, ("x", 1.5), "partitions must be an integer, not 1.5"),
            (brokers.create_topic, ("x", 1, ["a"]), "configs must map keys to values"),
            (brokers.leader_of, ("x", "0"), "partition must be an integer"),
            (brokers.coordinator_of, (None,), "group_id must be a string"),
            (brokers.stop_node, ("1",), "broker must be an integer, not '1'"),
            (brokers.move, ("x", 0, None), "to must be an integer"),
        ]
        for call, arguments, sentence in calls:
            with pytest.raises(TypeError, match=sentence):
                call(*arguments)
        assert len(brokers.cluster.topics) == 0


def test_a_topic_of_an_earlier_run_with_another_number_of_partitions_is_an_error(tmp_path: Path) -> None:
    with Kshim(topics={"orders": 2}, data_dir=tmp_path):
        pass
    sentence = "orders exists in data_dir with a partition count of 2, not 3"
    with pytest.raises(ValueError, match=sentence), Kshim(topics={"orders": 3}, data_dir=tmp_path):
        pass


def test_while_all_brokers_are_stopped_nothing_has_a_leader() -> None:
    with Kshim(topics={"orders": 1}) as brokers:
        brokers.coordinator_of("g")
        brokers.stop_node(1)
        for call, argument in ((brokers.leader_of, "orders"), (brokers.coordinator_of, "g")):
            with pytest.raises(LookupError, match="all brokers are stopped"):
                call(argument)


@pytest.mark.trio
async def test_under_trio_calls_elsewhere_or_after_the_block_are_refused() -> None:
    async with open_brokers() as brokers:
        with pytest.raises(RuntimeError, match="in the thread that runs trio"):
            await trio.to_thread.run_sync(brokers.create_topic, "orders")
    calls: list[Callable[[], object]] = [
        lambda: brokers.create_topic("orders"),
        lambda: brokers.live,
        lambda: brokers.leader_of("orders"),
        lambda: brokers.address_of(1),
        lambda: brokers.stop_node(1),
        lambda: brokers.start_node(1),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="closed"):
            call()
