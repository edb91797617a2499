"""Static members restarted one by one: within their session nobody else notices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.rolling.fleet import fleet
from integration.rolling.members import Joins, Settings
from integration.support.broker import Broker

SLOT_COUNT = 3

Clients = tuple[str, str, str]

ONE_CLIENT = [
    pytest.param(("java",) * SLOT_COUNT, marks=[pytest.mark.java, pytest.mark.long], id="java"),
    pytest.param(("kafka-python",) * SLOT_COUNT, marks=pytest.mark.long, id="kafka-python"),
    pytest.param(("librdkafka",) * SLOT_COUNT, marks=pytest.mark.long, id="librdkafka"),
]
THREE_CLIENTS = pytest.param(("java", "kafka-python", "librdkafka"), marks=pytest.mark.java, id="three-clients")


@pytest.mark.parametrize("clients", [THREE_CLIENTS, *ONE_CLIENT])
def test_restarted_static_members_get_their_partitions_back_and_the_others_see_no_rebalance(
    clients: Clients, joins: Callable[[str], Joins], broker: Broker
) -> None:
    with fleet(broker) as group:
        for slot, client in enumerate(clients):
            group.start(joins(client), settings_of(slot, "range"))
        owned, generations = group.owned(), group.generations()
        for slot, client in enumerate(clients):  # the first is the leader
            group.restart(slot, joins(client), settings_of(slot, "range"))
            assert group.owned() == owned
            assert others(group.generations(), than=range(slot + 1)) == others(generations, than=range(slot + 1))


@pytest.mark.parametrize("clients", ONE_CLIENT)
def test_static_members_rebalance_only_when_the_assignor_of_the_group_changes(
    clients: Clients, joins: Callable[[str], Joins], broker: Broker
) -> None:
    with fleet(broker) as group:
        for slot, client in enumerate(clients):
            group.start(joins(client), settings_of(slot, "range"))
        before = group.generations()
        for slot, client in enumerate(clients):
            group.restart(slot, joins(client), settings_of(slot, "range", "roundrobin"))
            assert others(group.generations(), than=range(slot + 1)) == others(before, than=range(slot + 1))
        before = group.generations()
        group.restart(0, joins(clients[0]), settings_of(0, "roundrobin"))
        assert all(new > old for new, old in zip(group.generations()[1:], before[1:], strict=True))


def settings_of(slot: int, *assignors: str) -> Settings:
    """The settings of the static member that lives in this slot."""
    return Settings(assignors, instance=f"instance-{slot}")


def others(by_slot: list[int], *, than: range) -> list[int]:
    """The values of the slots that were not restarted yet."""
    return [value for slot, value in enumerate(by_slot) if slot not in than]
