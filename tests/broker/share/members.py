"""A member of a share group that reads partitions of one topic, request by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.share_acknowledge import AcknowledgementBatch as Acknowledgement
from kshim_protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kshim_protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.record import iter_records
from tests.broker.harness import Client, NodeUnderTest, a_node

Said = tuple[int, int, Sequence[int]]
"""First and last offset, and types: one, or one for each record."""


def a_share_node(config: Mapping[str, str] | None = None, *, partitions: int = 1, **options: Any) -> NodeUnderTest:
    """A node that serves share groups, with the topic `t`."""
    return a_node(config, topics={"t": partitions}, **options)


class Member:
    """A member of the group `g`, with the next epoch of its share session."""

    def __init__(self, node: NodeUnderTest, member_id: str, client: Client | None = None, group_id: str = "g") -> None:
        self.node = node
        self.client = client or node.client(member_id)
        self.member_id = member_id
        self.group_id = group_id
        self.session_epoch = 0
        topic = node.cluster.topics.named("t")
        assert topic is not None
        self.topic_id = topic.topic_id

    def heartbeat_request(self, epoch: int, names: tuple[str, ...] | None = None) -> ShareGroupHeartbeatRequest:
        """Names are to be said with the first."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=names,
        )

    def heartbeat(self, epoch: int, names: tuple[str, ...] | None = None) -> ShareGroupHeartbeatResponse:
        """One heartbeat, answered at once."""
        return self.client.ask(self.heartbeat_request(epoch, names))

    def join(self) -> None:
        """Join, and wait until the state of the partitions is there."""
        joined = self.heartbeat(0, ("t",))
        assert joined.error_code == ErrorCode.NONE, joined
        self.node.pass_ms(1_000)
        self.heartbeat(joined.member_epoch)

    def fetch_request(
        self,
        *,
        partitions: Sequence[int] = (0,),
        said: Mapping[int, Sequence[Said]] | None = None,
        forget: Sequence[int] = (),
        max_records: int = 500,
        batch_size: int = 500,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        min_bytes: int = 1,
        mode: int = 0,
        renews: bool = False,
        epoch: int | None = None,
        topic_id: bytes | None = None,
    ) -> ShareFetchRequest:
        """The next request of the session."""
        wanted = dict.fromkeys((*partitions, *(said or {})))
        return ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=batch_size,
            share_acquire_mode=mode,
            is_renew_ack=renews,
            topics=(
                FetchTopic(
                    topic_id=topic_id or self.topic_id,
                    partitions=tuple(
                        FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=tuple(
                                AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=tuple(types)
                                )
                                for first, last, types in (said or {}).get(index, ())
                            ),
                        )
                        for index in wanted
                    ),
                ),
            )
            if wanted
            else (),
            forgotten_topics_data=(ForgottenTopic(topic_id=self.topic_id, partitions=tuple(forget)),) if forget else (),
        )

    def fetch(self, **options: Any) -> ShareFetchResponse:
        """ShareFetch, answered at once; the session goes on."""
        response = self.client.ask(self.fetch_request(**options))
        self._goes_on(response.error_code)
        return response

    def _goes_on(self, error: int) -> None:
        if error == ErrorCode.NONE:
            self.session_epoch += 1

    def acquire(self, **options: Any) -> str:
        """What is acquired, in words: `0:0-4x1 1:7-7x2`; errors by name."""
        return in_words(self.fetch(**options))

    def acknowledge_request(
        self, *said: Said, index: int = 0, epoch: int | None = None, renews: bool = False
    ) -> ShareAcknowledgeRequest:
        """The next request of the session, about one partition."""
        batches = tuple(
            Acknowledgement(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
            for first, last, types in said
        )
        partition = AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        return ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=(AcknowledgeTopic(topic_id=self.topic_id, partitions=(partition,)),) if batches else (),
        )

    def acknowledge(self, *said: Said, version: int | None = None, **options: Any) -> ShareAcknowledgeResponse:
        """ShareAcknowledge of one partition; the session goes on."""
        response = self.client.ask(self.acknowledge_request(*said, **options), version)
        self._goes_on(response.error_code)
        return response

    def say(self, *said: Said, **options: Any) -> str:
        """The error of one partition's acknowledgements, in words."""
        response = self.acknowledge(*said, **options)
        if response.error_code != ErrorCode.NONE:
            return f"! {ErrorCode(response.error_code).name}"
        ((one,),) = [topic.partitions for topic in response.responses]
        name = ErrorCode(one.error_code).name
        return name if one.error_message is None else f"{name} {one.error_message}"


def in_words(response: ShareFetchResponse) -> str:
    """What a ShareFetch was answered: of each partition its ranges, its error, its acknowledgements' error."""
    if response.error_code != ErrorCode.NONE:
        return f"! {ErrorCode(response.error_code).name}"
    found = []
    for topic in response.responses:
        for one in topic.partitions:
            words = [f"{got.first_offset}-{got.last_offset}x{got.delivery_count}" for got in one.acquired_records]
            if one.error_code:
                words.append(ErrorCode(one.error_code).name)
            if one.acknowledge_error_code:
                words.append(f"ack {ErrorCode(one.acknowledge_error_code).name}")
            found.append(f"{one.partition_index}:{','.join(words)}")
    return " ".join(sorted(found))


def offsets_in(response: ShareFetchResponse) -> list[int]:
    """The offsets of all records sent, acquired or not."""
    return [
        record.offset
        for topic in response.responses
        for one in topic.partitions
        for batch in iter_batches(one.records)
        for record in iter_records(batch)
    ]
