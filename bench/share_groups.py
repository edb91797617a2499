"""What a member of a share group costs the broker, for each record that it is given and says something of.

    python -m bench.share_groups [--records 20000] [--rounds 3] [--bootstrap kafka=127.0.0.1:9092]...

A topic of one partition has record batches of 100 records of 100 bytes. In each round a new group with one member reads all
of it, `--at-once` records a ShareFetch, and says what became of them in one of three ways: `ranges` accepts each range with
one type in the next ShareFetch, `each` gives a type for each record there and releases every tenth record once, `apart` accepts
ranges in a ShareAcknowledge of their own. Every record has to come, and none that was accepted may come again. The brokers take
turns. Printed: medians of the CPU time of the broker's process for each record, in us, and its ratio to the first broker's.
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from collections import defaultdict
from typing import NamedTuple

from bench.brokers import MeasuredBroker, add_broker_options, chosen_brokers
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import share_acknowledge as acknowledging
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

BATCH, VALUE_BYTES = 100, 100
ACCEPT, RELEASE = 1, 2
GROUP_RESOURCE = 32
WAYS = ("ranges", "each", "apart")
TIMEOUT_S = 60.0
_HEARD_OF_S = 0.5
"""When all parts of Kafka have heard of a configuration: else a group may begin at the end."""


class Topic(NamedTuple):
    """Where the records are."""

    name: str
    topic_id: bytes
    record_count: int


class Member:
    """The only member of a new group, with its share session."""

    def __init__(self, broker: MeasuredBroker, topic: Topic) -> None:
        self.client = Client(*broker.address, client_id="bench", timeout_s=TIMEOUT_S)
        self.topic = topic
        self.group_id = f"bench-{uuid.uuid4().hex}"
        self.member_id = str(uuid.uuid4())
        self.epoch = 0

    def join(self) -> None:
        """Until the partition is assigned, and is read from its beginning."""
        config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self.group_id, configs=(config,))
        self.client.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)
        time.sleep(_HEARD_OF_S)
        epoch = 0
        began_s = time.monotonic()
        while True:
            assert time.monotonic() < began_s + TIMEOUT_S, "no assignment"
            answer = self.client.ask(
                ShareGroupHeartbeatRequest(
                    group_id=self.group_id,
                    member_id=self.member_id,
                    member_epoch=epoch,
                    rack_id=None,
                    subscribed_topic_names=(self.topic.name,) if epoch == 0 else None,
                ),
                1,
            )
            if answer.error_code == ErrorCode.NONE:
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return
            time.sleep(0.1)

    def fetch(self, said: tuple[AcknowledgementBatch, ...], at_once: int) -> list[tuple[int, int]]:
        """The ranges that the member is given, by first and last offset."""
        partition = FetchPartition(partition_index=0, acknowledgement_batches=said)
        answer = self.client.ask(
            ShareFetchRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=self.epoch,
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=at_once,
                batch_size=at_once,
                share_acquire_mode=0,
                is_renew_ack=False,
                topics=(FetchTopic(topic_id=self.topic.topic_id, partitions=(partition,)),)
                if said or self.epoch == 0
                else (),
                forgotten_topics_data=(),
            ),
            2,
        )
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch += 1
        rows = [row for topic in answer.responses for row in topic.partitions]
        assert all(row.acknowledge_error_code == ErrorCode.NONE for row in rows), rows
        if any(row.error_code for row in rows):
            time.sleep(0.1)  # the state of the partition is still being made
        return [(one.first_offset, one.last_offset) for row in rows for one in row.acquired_records]

    def acknowledge(self, ranges: list[tuple[int, int]]) -> None:
        """Accept ranges, without asking for others."""
        batches = tuple(
            acknowledging.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(ACCEPT,))
            for first, last in ranges
        )
        partition = acknowledging.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        answer = self.client.ask(
            acknowledging.ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=self.epoch,
                is_renew_ack=False,
                topics=(acknowledging.AcknowledgeTopic(topic_id=self.topic.topic_id, partitions=(partition,)),),
            ),
            2,
        )
        assert answer.error_code == ErrorCode.NONE, answer
        assert all(row.error_code == ErrorCode.NONE for topic in answer.responses for row in topic.partitions), answer
        self.epoch += 1


def read_all(member: Member, way: str, at_once: int) -> None:
    """Until every record was accepted."""
    open_ = set(range(member.topic.record_count))
    released: set[int] = set()
    said: tuple[AcknowledgementBatch, ...] = ()
    began_s = time.monotonic()
    while open_ or said:
        assert time.monotonic() < began_s + TIMEOUT_S, f"{len(open_)} records did not come"
        given = member.fetch(said, at_once)
        said = ()
        for first, last in given:
            offsets = range(first, last + 1)
            assert open_.issuperset(offsets), f"{first}-{last} were accepted before"
            types: tuple[int, ...] = (ACCEPT,)
            if way == "each":
                again = {offset for offset in offsets if offset % 10 == 9} - released
                released |= again
                types = tuple(RELEASE if offset in again else ACCEPT for offset in offsets)
                open_.difference_update(set(offsets) - again)
            else:
                open_.difference_update(offsets)
            if way != "apart":
                said += (AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types),)
        if way == "apart" and given:
            member.acknowledge(given)


def cpu_us(broker: MeasuredBroker, topic: Topic, way: str, at_once: int) -> float:
    """CPU time of the broker for each record that one member reads and accepts."""
    member = Member(broker, topic)
    member.join()
    before_s = broker.fine_cpu_s()
    read_all(member, way, at_once)
    spent_s = broker.fine_cpu_s() - before_s
    member.client.close()
    return 1e6 * spent_s / topic.record_count


def made_topic(broker: MeasuredBroker, record_count: int) -> Topic:
    """A new topic with so many records."""
    client = Client(*broker.address, client_id="bench", timeout_s=TIMEOUT_S)
    name = f"bench-{uuid.uuid4().hex}"
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
    (made,) = client.ask(CreateTopicsRequest(topics=(wanted,)), 7).topics
    assert made.error_code == ErrorCode.NONE, made
    value = b"v" * VALUE_BYTES
    for _ in range(0, record_count, BATCH):
        now_ms = int(time.time() * 1_000)  # else they are too old to be kept
        batch = build_batch([Record(None, value, timestamp_ms=now_ms) for _ in range(BATCH)])
        request = ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=30_000,
            topic_data=(TopicProduceData(name=name, partition_data=(PartitionProduceData(index=0, records=batch),)),),
        )
        while client.ask(request, 11).responses[0].partition_responses[0].error_code != ErrorCode.NONE:
            time.sleep(0.1)  # the broker does not know yet that it leads the partition
    client.close()
    return Topic(name, made.topic_id, record_count)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--at-once", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    add_broker_options(parser)
    options = parser.parse_args()
    rows: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with chosen_brokers(options) as brokers:
        topics = [made_topic(broker, options.records) for broker in brokers]
        for number in range(options.rounds + 1):
            for way in WAYS:
                for broker, topic in zip(brokers, topics, strict=True):
                    found = cpu_us(broker, topic, way, options.at_once)
                    if number:  # the first round warms up
                        rows[way, broker.name].append(found)
    print(f"{'way':<8}{'broker':<10}{'CPU us a record':<28}{'ratio':>6}")
    for (way, name), taken in rows.items():
        median = statistics.median(taken)
        first = statistics.median(rows[way, brokers[0].name])
        spread = f"{median:.2f}  [{min(taken):.2f}-{max(taken):.2f}]"
        print(f"{way:<8}{name:<10}{spread:<28}{median / first:>6.2f}")


if __name__ == "__main__":
    main()
