"""From one assignor to another without a moment in which the group stands still: by way of members that know both.

A group can only use a protocol that each of its members lists. So all members are restarted one by one with both
assignors, and then one by one with the new one alone; meanwhile their lists agree only in part.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.rolling.fleet import Fleet, fleet
from integration.rolling.members import Joins, Settings
from integration.support.broker import Broker, Deadline
from integration.support.client import Member
from integration.support.group_suite import SETTLE_TIMEOUT_S

Clients = tuple[str, str, str]

TO_COOPERATIVE = [("range",), ("range", "cooperative-sticky"), ("cooperative-sticky",)]
"""As Kafka's own upgrade notes have it (KIP-429)."""
TO_COOPERATIVE_PREFERRED = [("range",), ("cooperative-sticky", "range"), ("cooperative-sticky",)]
TO_ROUNDROBIN = [("range",), ("range", "roundrobin"), ("roundrobin",)]
"""For clients that refuse to mix eager and cooperative assignors: see FINDINGS.md."""

UPGRADES = [
    pytest.param(("java",) * 3, TO_COOPERATIVE, marks=pytest.mark.java, id="java-cooperative"),
    pytest.param(
        ("java",) * 3,
        TO_COOPERATIVE_PREFERRED,
        marks=[pytest.mark.java, pytest.mark.long],
        id="java-cooperative-preferred",
    ),
    pytest.param(("kafka-python",) * 3, TO_ROUNDROBIN, marks=pytest.mark.long, id="kafka-python"),
    pytest.param(("librdkafka",) * 3, TO_ROUNDROBIN, marks=pytest.mark.long, id="librdkafka"),
    pytest.param(("java", "kafka-python", "librdkafka"), TO_ROUNDROBIN, marks=pytest.mark.java, id="three-clients"),
]


@pytest.mark.parametrize(("clients", "stages"), UPGRADES)
def test_no_member_sees_an_error_while_all_change_their_assignor_one_by_one(
    clients: Clients, stages: list[tuple[str, ...]], joins: Callable[[str], Joins], broker: Broker
) -> None:
    with fleet(broker) as group:
        start_all(group, clients, joins, stages[0])
        for assignors in stages[1:]:
            for slot, client in enumerate(clients):
                group.restart(slot, joins(client), Settings(assignors))


@pytest.mark.java
@pytest.mark.long
def test_cooperative_members_of_other_clients_take_the_places_of_upgraded_java_members(
    joins: Callable[[str], Joins], broker: Broker
) -> None:
    with fleet(broker) as group:
        start_all(group, ("java",) * 3, joins, ("range", "cooperative-sticky"))
        for slot, client in enumerate(("kafka-python", "librdkafka", "java")):
            group.restart(slot, joins(client), Settings(("cooperative-sticky",)))


@pytest.mark.parametrize(
    "client",
    [
        pytest.param("java", marks=pytest.mark.java),
        pytest.param("kafka-python", marks=pytest.mark.long),
        "librdkafka",
    ],
)
def test_a_member_that_shares_no_assignor_with_the_group_is_told_so(
    client: str, joins: Callable[[str], Joins], broker: Broker
) -> None:
    with fleet(broker) as group:
        start_all(group, (client,) * 2, joins, ("range",))
        before = group.owned()
        stranger = joins(client)(broker.bootstrap, group.topic, group.topic, Settings(("cooperative-sticky",)))
        try:
            with pytest.raises(Exception, match=r"(?i)inconsistent.?group.?protocol"):
                poll_on(stranger)
        finally:
            stranger.close()
        group.settle()
        assert group.owned() == before


def poll_on(member: Member) -> None:
    """Poll until the client reports an error."""
    deadline = Deadline(SETTLE_TIMEOUT_S)
    while True:
        deadline.check("an error")
        member.poll(0.1)


def start_all(
    group: Fleet, clients: tuple[str, ...], joins: Callable[[str], Joins], assignors: tuple[str, ...]
) -> None:
    """One member of each client, one after another."""
    for client in clients:
        group.start(joins(client), Settings(assignors))
