"""Huge requests and huge numbers of things: answered or refused, in bounded memory, and others are heard meanwhile."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from integration.hostile.crowd import PATIENCE_S, Fort
from integration.hostile.giants import giants
from integration.hostile.measure import MIB, Measured
from kshim.tools.client import Client
from kshim_protocol.apis import API_TABLE
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import MAX_REQUEST_ELEMENTS, build_request_frame
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest
from kshim_protocol.schema import Request

pytestmark = pytest.mark.long

SASL_APIS = frozenset((17, 36))


@pytest.fixture(scope="module")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    with Fort(tmp_path_factory.mktemp("giants") / "kshim", {"group.max.size": "500"}) as found:
        yield found
        assert "UNKNOWN_SERVER_ERROR" not in found.broker.log.read_text()
        assert "Failed while handling" not in found.broker.log.read_text()


def connected(fort: Fort) -> Client:
    return Client(*fort.address, client_id="giant", timeout_s=120)


def ended_by_the_broker(fort: Fort, frame: bytes) -> bool:
    """Whether the broker closes without an answer."""
    with socket.create_connection(fort.address, timeout=120) as sock:
        try:
            sock.sendall(frame)
            return not sock.recv(4)
        except OSError:
            return True


@pytest.mark.parametrize("key", sorted(API_TABLE), ids=lambda key: API_TABLE[key].name)
def test_eighty_thousand_elements_in_every_array(fort: Fort, key: int) -> None:
    for giant in giants(80_000, frozenset((key,))):
        with Measured(fort, str(giant)) as found, socket.create_connection(fort.address, timeout=120) as sock:
            is_flexible = giant.api.is_flexible(giant.version)
            sock.sendall(build_request_frame(key, giant.version, 7, None, giant.body, flexible=is_flexible))
            start = sock.recv(8, socket.MSG_WAITALL)
            if start:
                size, correlation_id = struct.unpack(">ii", start)
                assert correlation_id == 7
                left = size - 4
                while left:
                    left -= len(sock.recv(min(left, MIB)))
                found.outcome = f", answer of {size} bytes"
            else:  # nobody may send these here, and nobody so many elements
                assert key in SASL_APIS or giant.elements > MAX_REQUEST_ELEMENTS
            if giant.elements > MAX_REQUEST_ELEMENTS:
                assert not start
        assert found.grown_bytes < 600 * MIB


def test_more_elements_than_a_request_may_hold(fort: Fort) -> None:
    count = 50_000_000
    nothing = b"\1\0"  # an empty name, no tags
    bodies = {
        "fifty million empty names": (3, 9, _varint(count + 1) + nothing * count + b"\0\0\0\0"),
        "a million groups": (15, 0, (1_000_000).to_bytes(4, "big") + b"\0\1g" * 1_000_000),
        "fifty million tags": (18, 3, b"\2a\2b" + _varint(count) + b"\x63\0" * count),
    }
    for what, (key, version, body) in bodies.items():
        with Measured(fort, what) as found:
            frame = build_request_frame(key, version, 7, None, body, flexible=API_TABLE[key].is_flexible(version))
            assert ended_by_the_broker(fort, frame)
        assert found.grown_bytes < 350 * MIB


def test_text_that_is_no_utf8_at_the_end_of_a_large_request(fort: Fort) -> None:
    count = MAX_REQUEST_ELEMENTS
    body = count.to_bytes(4, "big") + b"\0\1g" * (count - 1) + b"\0\1\xff"
    with Measured(fort, f"{count} groups, the last one malformed") as found:
        frame = build_request_frame(15, 0, 7, None, body, flexible=False)
        with socket.create_connection(fort.address, timeout=120) as sock:
            sock.sendall(frame)
            assert len(sock.recv(8, socket.MSG_WAITALL)) == 8
    assert found.grown_bytes < 600 * MIB


def _varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return data + bytes((number,))


def topic_of(count: int, name: str = "vast") -> Request[Any]:
    return CreateTopicsRequest(
        topics=(CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=()),),
        timeout_ms=10_000,
    )


def test_thousands_of_millions_of_partitions(fort: Fort) -> None:
    with Measured(fort, "a topic of 10^9 partitions, then one that grows to so many") as found:
        client = connected(fort)
        (refused,) = client.ask(topic_of(10**9), 5).topics
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert client.ask(topic_of(1, "grows"), 5).topics[0].error_code == ErrorCode.NONE
        grown = CreatePartitionsTopic(name="grows", count=10**9, assignments=None)
        (refused,) = client.ask(
            CreatePartitionsRequest(topics=(grown,), timeout_ms=1_000, validate_only=False), 1
        ).results
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        client.close()
    assert found.grown_bytes < 10 * MIB


def join(group_id: str, metadata_bytes: int = 0) -> JoinGroupRequest:
    return GroupMember(group_id).join(
        9, [("range", bytes(metadata_bytes))], session_timeout_ms=6_000, rebalance_timeout_ms=6_000
    )


def test_members_with_10_mb_of_metadata(fort: Fort) -> None:
    with Measured(fort, "ten joins with 10 MB of metadata") as found:
        for number in range(10):
            client = connected(fort)
            assert client.ask(join(f"fat-{number}", 10_000_000), 2).error_code == ErrorCode.NONE
            client.close()
    assert found.grown_bytes < 500 * MIB


def test_a_group_takes_no_more_members_than_it_may(fort: Fort) -> None:
    with Measured(fort, "900 members for a group of 500") as found:
        clients = [connected(fort) for _ in range(900)]
        for client in clients:
            client.send(join("crowded"), 2)
        codes = [answer.error_code for client in clients if (answer := client.receive(PATIENCE_S)) is not None]
        for client in clients:
            client.close()
    # As in Kafka, 500 may wait to join; the first, which had joined alone and did not come again, goes when they have.
    assert codes.count(ErrorCode.NONE) <= 501
    assert codes.count(ErrorCode.GROUP_MAX_SIZE_REACHED) >= 399
    assert found.grown_bytes < 100 * MIB


def test_ten_thousand_groups_of_one_client(fort: Fort) -> None:
    with Measured(fort, "10,000 groups, listed") as found:
        client = connected(fort)
        for number in range(10_000):
            assert client.ask(join(f"group-{number}"), 2).error_code == ErrorCode.NONE
        assert len(client.ask(ListGroupsRequest(), 0).groups) >= 10_000
        client.close()
    assert found.grown_bytes < 200 * MIB


def test_ten_thousand_transactional_and_producer_ids_of_one_client(fort: Fort) -> None:
    for what in ("transactional", "producer"):
        with Measured(fort, f"10,000 {what} ids") as found:
            client = connected(fort)
            for number in range(10_000):
                name = f"tx-{number}" if what == "transactional" else None
                while True:
                    answer = client.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=10_000), 1)
                    if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        break
                assert answer.error_code == ErrorCode.NONE
            client.close()
        assert found.grown_bytes < 200 * MIB


def test_offsets_of_a_hundred_thousand_partitions_and_all_of_them_back(fort: Fort) -> None:
    with Measured(fort, "200,000 offsets in 20 commits, then all of them") as found:
        client = connected(fort)
        assert client.ask(topic_of(9_000), 5).topics[0].error_code == ErrorCode.NONE
        partitions = tuple(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=1, committed_metadata="m" * 10, committed_leader_epoch=-1
            )
            for index in range(9_000)
        )
        for number in range(20):
            topics = (OffsetCommitRequestTopic(name="vast", partitions=partitions),)
            request = OffsetCommitRequest(
                group_id=f"many-{number}", generation_id_or_member_epoch=-1, member_id="", topics=topics
            )
            answer = client.ask(request, 7)
            assert {each.error_code for each in answer.topics[0].partitions} == {0}
        for number in range(20):
            answer = client.ask(OffsetFetchRequest(group_id=f"many-{number}", topics=None), 5)
            assert len(answer.topics[0].partitions) == 9_000
        client.close()
    assert found.grown_bytes < 600 * MIB
