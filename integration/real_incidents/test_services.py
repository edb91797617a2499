"""Services, before any of their processes is started."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from integration.real_incidents.hosts import Host
from integration.real_incidents.processes import PROGRAMS
from integration.real_incidents.services import CLIENTS, SESSION_MS, GroupProtocol, Service, protocol_and_client


def test_every_client_has_a_program_and_its_turn() -> None:
    assert set(CLIENTS) == set(PROGRAMS)
    assert [protocol_and_client(GroupProtocol.CLASSIC, number)[1] for number in range(4)] == list(CLIENTS)


def test_services_of_a_mixed_play_are_of_both_protocols_in_turn() -> None:
    drawn = [protocol_and_client(GroupProtocol.MIXED, number) for number in range(4)]
    assert [protocol for protocol, _ in drawn] == [GroupProtocol.CONSUMER, GroupProtocol.CLASSIC] * 2


@pytest.mark.parametrize("number", range(6))
def test_no_service_of_the_new_protocol_has_a_client_without_it_or_a_session_of_its_own(
    number: int, tmp_path: Path
) -> None:
    protocol, client = protocol_and_client(GroupProtocol.CONSUMER, number)
    service = Service(number, protocol, client, [Host(1, 1, 2)], tmp_path, random.Random(number))
    assert service.client != "kafka-python"
    assert service.session_ms == SESSION_MS
    assert service.assignor in ("uniform", "range")


@pytest.mark.parametrize("number", range(4))
def test_processes_of_a_plain_service_may_have_the_client_id_of_their_library(number: int, tmp_path: Path) -> None:
    protocol, client = protocol_and_client(GroupProtocol.CLASSIC, number)
    drawn = [
        Service(number, protocol, client, [Host(1, 1, 2)], tmp_path, random.Random(seed), is_plain=True)
        for seed in range(20)
    ]
    assert "default" in {service.ids for service in drawn}
    assert (45_000, 300_000) in {(service.session_ms, service.max_poll_ms) for service in drawn}


def test_a_service_that_is_not_plain_has_ids_of_its_own(tmp_path: Path) -> None:
    for seed in range(50):
        service = Service(
            0, GroupProtocol.CLASSIC, "java", [Host(1, 1, 2)], tmp_path, random.Random(seed), is_plain=False
        )
        assert service.ids != "default"
