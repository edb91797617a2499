"""Each profile, played onto real groups of kafka-python: those that work come through, and what others do wrong is found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from kshim.testing import Kshim
from kshim.testing.chaos.application import Client, Consumer, Producer
from kshim.testing.chaos.chaos import Chaos
from kshim.testing.chaos.plans import PROFILES
from tests.testing.chaos.worker import Dropping, Failing, Hoarding, Keeping, Rereading, StayingDown

BROKERS = 2
PATIENCE_S = 60
"""On a machine that does a lot beside."""


def play(
    kshim: Kshim,
    profile: str,
    *,
    seed: int = 7,
    consumer: Callable[..., Consumer] = Consumer,
    producer_options: dict[str, Any] | None = None,
    bound: float = PATIENCE_S,
    work: Callable[[], object] = lambda: None,
    patience: float = PATIENCE_S,
) -> Chaos:
    """Play a profile onto two consumers and a producer of the test's own."""
    connection = kshim.client_config("kafka-python")

    def options(name: str) -> dict[str, Any]:
        static = {"group_instance_id": name} if profile == "pod-restart-static" else {}
        return {**connection, **static, "group_id": "billing"}

    def processed(topic: str, partition: int, offset: int) -> None:
        chaos.processed(topic, partition, offset)

    workers = {name: consumer(name, "orders", options(name), processed) for name in ("ann", "ben")}
    chaos = kshim.chaos(profile, seed=seed, group="billing", members=workers, bound=bound)
    producer = Producer("orders", 2, {**connection, **(producer_options or {})}, chaos.acknowledged)
    clients: list[Client] = [*workers.values(), producer]

    def work_of_all() -> None:
        """Until there is a new record in each partition, and it is committed."""
        for partition in range(2):
            end = len(kshim.records("orders", partition)) + 1
            kshim.wait_records("orders", end, partition=partition, timeout=patience)
            kshim.group("billing").wait_committed("orders", partition, end, timeout=patience)
        work()

    with ExitStack() as stack:
        for client in clients:
            client.start()
            stack.callback(client.stop)
        for client in clients:
            stack.callback(client.stopping.set)
        kshim.group("billing").wait_stable(members=2, timeout=PATIENCE_S)
        return chaos.play(work_of_all)


@pytest.mark.parametrize(
    ("profile", "seed"),
    [(profile, 7) for profile in PROFILES if profile not in ("rolling-deploy", "disk-full")]  # these: test_play.py
    + [pytest.param(profile, seed, marks=pytest.mark.long) for profile in PROFILES for seed in range(100, 105)],
)
def test_consumers_of_kafka_python_come_through(profile: str, seed: int) -> None:
    with Kshim(BROKERS) as kshim:
        chaos = kshim.chaos(profile, seed=seed, bound=PATIENCE_S).play()
        assert chaos.violations == []
        assert chaos.unmet == []


@pytest.mark.parametrize("profile", ["rolling-deploy", pytest.param("gc-pause", marks=pytest.mark.long)])
def test_a_group_of_the_test_comes_through(profile: str) -> None:
    with Kshim(BROKERS, topics={"orders": 2}) as kshim:
        assert play(kshim, profile).violations == []


def test_a_profile_can_be_played_twice_onto_the_same_brokers() -> None:
    with Kshim(BROKERS) as kshim:
        for _ in range(2):
            kshim.chaos("zombie", seed=7, bound=PATIENCE_S).play()
        assert kshim.group_ids() == ["chaos", "chaos-2"]


@pytest.mark.parametrize(
    ("profile", "consumer", "sentence"),
    [
        ("rolling-deploy", Hoarding, r"orders-0 has 2 owners in generation \d+: ann \(127.0.0.1\), ben"),
        ("rolling-deploy", StayingDown, "orders-0 had no owner for longer than 1 s"),
        ("pod-restart-static", StayingDown, "was not a member again within 1 s"),
        ("gc-pause", Rereading, r"the committed offset of orders-\d went back from \d+ to 1\n"),
        ("rolling-deploy", Keeping, r"the committed offset of orders-\d went back from \d+ to \d+\n"),
        ("slow-leader", Dropping, "records before that were never processed: "),
    ],
)
def test_what_a_consumer_does_wrong_is_found(profile: str, consumer: Callable[..., Consumer], sentence: str) -> None:
    with Kshim(BROKERS, topics={"orders": 2}) as kshim:
        bound = 1 if consumer is StayingDown else PATIENCE_S
        with pytest.raises(AssertionError, match=sentence) as caught:
            play(kshim, profile, consumer=consumer, bound=bound)
        assert f"chaos '{profile}' with seed=7, group billing" in str(caught.value)
        assert "What happened to group billing" in str(caught.value)


def test_a_record_that_is_removed_is_missed() -> None:
    def remove() -> None:
        admin = KafkaAdminClient(**kshim.client_config("kafka-python"))
        admin.delete_records({TopicPartition("orders", 0): 1})
        admin.close()

    with (
        Kshim(BROKERS, topics={"orders": 2}) as kshim,
        pytest.raises(AssertionError, match="b'record 0' of orders was acknowledged, and is not there"),
    ):
        play(kshim, "zombie", work=remove)


def test_a_producer_that_does_not_wait_for_answers_loses_records_to_a_full_disk() -> None:
    with (
        Kshim(BROKERS, topics={"orders": 2}) as kshim,
        pytest.raises(AssertionError, match=r"b'record \d+' of orders was acknowledged, and is not there"),
    ):
        play(kshim, "disk-full", seed=7, producer_options={"acks": 0, "enable_idempotence": False})


def test_what_ended_a_consumer_is_raised() -> None:
    with (
        Kshim(BROKERS, topics={"orders": 2}) as kshim,
        pytest.raises(RuntimeError, match="had ended with ZeroDivisionError"),
    ):
        play(kshim, "rolling-deploy", consumer=Failing, bound=2, patience=2)
