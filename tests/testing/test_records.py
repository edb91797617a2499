"""`Kshim.produce` and `Kshim.records`: topics written and read without a client."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.partitioner.default import murmur2

from kshim.testing import Kshim, Record
from kshim_protocol.errors import ErrorCode, KafkaError


def test_records_that_were_produced_are_read_back_with_their_places() -> None:
    with Kshim(topics={"orders": 2}) as kshim:
        written = kshim.produce("orders", "one", b"two", None, key="k", partition=1, headers={"h": b"x"})
        assert [(record.partition, record.offset) for record in written] == [(1, 0), (1, 1), (1, 2)]
        found = kshim.records("orders")
        assert [record.value for record in found] == [b"one", b"two", None]
        assert found[0][:5] == (b"one", b"k", (("h", b"x"),), 1, 0)
        assert kshim.records("orders", 0) == []


def test_records_without_a_key_take_turns_and_those_with_one_stay_together() -> None:
    with Kshim(topics={"orders": 3}) as kshim:
        assert [record.partition for record in kshim.produce("orders", *"abcd")] == [0, 1, 2, 0]
        assert len({record.partition for record in kshim.produce("orders", *"efgh", key="customer")}) == 1


@pytest.mark.parametrize("key", [b"", b"a", b"ab", b"abc", b"abcd", b"customer-4711", "größe".encode()])
def test_keys_go_to_the_partitions_that_clients_choose(key: bytes) -> None:
    with Kshim(topics={"orders": 100}) as kshim:
        (record,) = kshim.produce("orders", "x", key=key)
    assert record.partition == (murmur2(key) & 0x7FFFFFFF) % 100


def test_a_client_reads_what_was_produced_and_the_other_way_round() -> None:
    with Kshim(3, topics={"orders": 3}) as kshim:
        kshim.produce("orders", Record("one", key="k", headers=[("a", b"1"), ("a", None)], timestamp_ms=1_000))
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=kshim.bootstrap_servers, auto_offset_reset="earliest", group_id=None
        )
        found = next(consumer)
        assert (found.key, found.value, found.timestamp) == (b"k", b"one", 1_000)
        assert list(found.headers) == [("a", b"1"), ("a", None)]
        consumer.close()
        producer = KafkaProducer(bootstrap_servers=kshim.bootstrap_servers, compression_type="gzip")
        producer.send("orders", b"two", partition=2).get(timeout=10)
        producer.close()
        assert [record.value for record in kshim.records("orders", 2)][-1] == b"two"


def test_thousands_of_records_are_produced_in_order() -> None:
    values = [str(number) for number in range(5_000)]
    with Kshim(topics={"orders": 1}) as kshim:
        assert [record.offset for record in kshim.produce("orders", *values)] == list(range(5_000))
        assert [record.value for record in kshim.records("orders")] == [value.encode() for value in values]


def test_records_of_transactions_are_seen_when_they_are_committed() -> None:
    with Kshim(topics={"orders": 1}) as kshim:
        producer = KafkaProducer(bootstrap_servers=kshim.bootstrap_servers, transactional_id="t")
        producer.init_transactions()
        for value, end in ((b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send("orders", value).get(timeout=10)
            assert value not in [record.value for record in kshim.records("orders")]
            end()
        producer.close()
        assert [record.value for record in kshim.records("orders")] == [b"kept"]
        everything = kshim.records("orders", isolation="read_uncommitted")
        assert [record.value for record in everything] == [b"kept", b"dropped"]


MISTAKES: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (("order", "x"), {}, LookupError, "there is no topic order: create it with create_topic"),
    (("orders", "x"), {"partition": 5}, LookupError, "topic orders has the partitions 0 to 0, and no 5"),
    (("orders", 5), {}, TypeError, "a record's value must be bytes, a string or None, not 5"),
    (("orders", "x"), {"key": 5}, TypeError, "a record's key must be"),
    (("orders", "x"), {"partition": "0"}, TypeError, "partition must be an integer"),
    ((5, "x"), {}, TypeError, "topic must be a string"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "sentence"), MISTAKES)
def test_what_cannot_be_produced_is_named(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with Kshim(topics={"orders": 1}) as kshim, pytest.raises(error, match=sentence):
        kshim.produce(*arguments, **options)


def test_what_the_topic_refuses_is_the_error_that_a_producer_gets() -> None:
    with Kshim() as kshim:
        kshim.create_topic("small", configs={"max.message.bytes": "100"})
        with pytest.raises(KafkaError) as refused:
            kshim.produce("small", "x" * 200)
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(ValueError, match="isolation must be read_committed or read_uncommitted"):
            kshim.records("small", isolation="none")


def test_nothing_is_produced_while_all_brokers_are_stopped() -> None:
    with Kshim(topics={"orders": 1}) as kshim:
        kshim.stop_node(1)
        with pytest.raises(LookupError, match="all brokers are stopped"):
            kshim.produce("orders", "x")


def test_a_wait_for_records_ends_with_the_append_that_brings_the_last() -> None:
    with Kshim(topics={"orders": 2}) as kshim:
        assert kshim.wait_records("orders", 0, timeout=0) == []
        kshim.produce("orders", "one", partition=0)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(kshim.wait_records, "orders", 3)
            while not kshim.call(lambda: len(kshim.cluster.fetch_purgatory)):
                pass
            kshim.produce("orders", "two", partition=1)
            assert not waiting.done()
            kshim.produce("orders", "three", partition=0)
            assert [record.value for record in waiting.result(timeout=10)] == [b"one", b"three", b"two"]
        assert not kshim.call(lambda: len(kshim.cluster.fetch_purgatory))
        assert len(kshim.wait_records("orders", 2, partition=0, timeout=0)) == 2


def test_a_wait_for_committed_records_ends_with_the_commit_of_their_transaction() -> None:
    with Kshim(topics={"orders": 1}) as kshim, ThreadPoolExecutor() as pool:
        producer = Producer({"bootstrap.servers": kshim.bootstrap_servers, "transactional.id": "shop"})
        producer.init_transactions()
        producer.begin_transaction()
        committed = pool.submit(kshim.wait_records, "orders")
        producer.produce("orders", b"coffee")
        producer.flush()
        assert kshim.wait_records("orders", isolation="read_uncommitted")[0].value == b"coffee"
        assert not committed.done()
        producer.commit_transaction()
        assert [record.value for record in committed.result(timeout=10)] == [b"coffee"]


def test_a_wait_for_records_that_do_not_come_shows_those_that_did() -> None:
    with Kshim(topics={"orders": 1}) as kshim:
        kshim.produce("orders", "coffee")
        with pytest.raises(
            TimeoutError,
            match=r"orders had 1 record after 0.01 s, and not 2; the newest: \n.*coffee.*\nNo client has connected",
        ):
            kshim.wait_records("orders", 2, timeout=0.01)
        with pytest.raises(LookupError, match="there is no topic order:"):
            kshim.wait_records("order")
        wrong: Any = "2"
        with pytest.raises(TypeError, match="count must be an integer"):
            kshim.wait_records("orders", wrong)


def test_under_asyncio_records_are_awaited() -> None:
    async def run() -> None:
        async with Kshim(topics={"orders": 1}) as kshim:
            waiting = asyncio.ensure_future(kshim.wait_records("orders"))
            kshim.produce("orders", "coffee")
            assert [record.value for record in await waiting] == [b"coffee"]

    asyncio.run(run())
