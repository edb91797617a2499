"""Kill a broker again and again under the members of a share group, and see what they are told of records afterwards.

    python -m integration.share_groups.kill --kills 100 [--fsync interval] [--seed N]

No record that was accepted or rejected, with an answer, is delivered again; every record that was produced, with an answer,
is delivered until it is; and delivery counts never fall behind what was written.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from integration.share_groups.pair import until
from integration.support.kshim import KshimProcess
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages import incremental_alter_configs as alter_configs
from kshim_protocol.messages import metadata
from kshim_protocol.messages import share_acknowledge as acknowledging
from kshim_protocol.messages import share_fetch as fetching
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.records.batch import build_batch, iter_batches
from kshim_protocol.records.record import Record, iter_records

TOPIC = "jobs"
GROUP = "workers"
PARTITIONS = 2
MOST_DELIVERIES = 25
ACCEPT, RELEASE, REJECT = 1, 2, 3
_CONFIG = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.max.delivery.count.limit": str(MOST_DELIVERIES),
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}
_GROUP_CONFIG = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(MOST_DELIVERIES)}
_GROUP_RESOURCE = 32
_GONE = (BrokerGone, TimeoutError, ProtocolError, OSError)
_BREATH_S = 0.002

Place = tuple[int, int]
"""Partition and offset."""


class Ledger:
    """What members and producers were told. Each method raises AssertionError for what must not be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.produced: dict[Place, bytes] = {}
        self.finished: dict[Place, int] = {}  # the count of the delivery that finished it
        self.unsure: set[Place] = set()  # somebody said something and was not answered
        self.written: dict[Place, int] = {}  # a release with this count was answered
        self.told: Counter[Place] = Counter()
        self.lost_answers = 0
        self.counts: Counter[str] = Counter()

    def has_produced(self, partition: int, base_offset: int, values: list[bytes]) -> None:
        with self._lock:
            for offset, value in enumerate(values, base_offset):
                place = partition, offset
                assert self.produced.setdefault(place, value) == value, f"{place} was {self.produced[place]!r}"

    def delivered(self, place: Place, value: bytes | None, count: int) -> None:
        with self._lock:
            assert value is not None, f"{place} was acquired and is not there"
            assert self.produced.get(place, value) == value, f"{place} is {value!r}, not {self.produced[place]!r}"
            finished = self.finished.get(place)
            assert finished is None or count <= finished, (
                f"{place} is delivered the {count}th time, after its {finished}th delivery was acknowledged"
            )
            written = self.written.get(place, 0)
            assert count > written or place in self.unsure, f"{place}: {count} after {written} that were written"
            self.told[place] += 1
            most = self.told[place] + self.lost_answers
            assert count <= most, f"{place}: {count}, of {most} that there may have been"
            self.counts["deliveries"] += 1
            self.counts["deliveries again"] += count > 1

    def acknowledged(self, place: Place, type_: int, count: int) -> None:
        with self._lock:
            self.counts["acknowledgements"] += 1
            if type_ == RELEASE:
                self.written[place] = max(count, self.written.get(place, 0))
            else:
                self.finished[place] = count

    def never_answered(self, places: list[Place]) -> None:
        with self._lock:
            self.lost_answers += 1
            self.unsure.update(places)

    def missing(self) -> list[Place]:
        """What was produced and nobody has finished."""
        with self._lock:
            return sorted(self.produced.keys() - self.finished.keys() - self.unsure)


class Worker(threading.Thread):
    """A member: it acquires records, and says of each what became of it, with the next fetch or at once."""

    def __init__(
        self, name: str, address: tuple[str, int], ledger: Ledger, is_over: threading.Event, seed: int
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self._address = address
        self._ledger = ledger
        self._is_over = is_over
        self._chance = random.Random(f"{seed}.{name}")
        self._topic_id = b""

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                try:
                    self._live()
                except _GONE:
                    time.sleep(0.02)
        except BaseException as failure:  # for the main thread, which raises it
            self.failure = failure

    def _live(self) -> None:
        """As long as the broker does."""
        client = Client(*self._address, client_id=self.name, timeout_s=20)
        try:
            self._topic_id = _topic_id(client)
            beat = ShareGroupHeartbeatRequest(
                group_id=GROUP, member_id=self.name, member_epoch=0, subscribed_topic_names=(TOPIC,)
            )
            client.ask(beat, 1)
            epoch = 0
            held: dict[Place, int] = {}
            while not self._is_over.is_set():
                said = {place: self._verdict() for place in held} if epoch else {}
                if said and self._chance.random() < 0.5:
                    request: Any = self._acknowledge(epoch, said)
                else:
                    request = self._fetch(epoch, said)
                try:
                    answer = client.ask(request, 2)
                except BaseException:
                    self._ledger.never_answered(list(said))
                    raise
                if answer.error_code:
                    self._ledger.counts[f"session error {answer.error_code}"] += 1
                    epoch, held = 0, {}
                    continue
                epoch += 1
                held = self._read(answer, said, held)
                time.sleep(_BREATH_S)
        finally:
            client.close()

    def _verdict(self) -> int:
        return self._chance.choices((ACCEPT, RELEASE, REJECT), (85, 10, 5))[0]

    def _read(self, answer: Any, said: dict[Place, int], held: dict[Place, int]) -> dict[Place, int]:
        """What the answer says, of records that were spoken of and of new ones; returns the latter."""
        errors = {}
        acquired: dict[Place, int] = {}
        is_fetch = isinstance(answer, fetching.ShareFetchResponse)
        for topic in answer.responses:
            for row in topic.partitions:
                index = row.partition_index
                errors[index] = row.acknowledge_error_code if is_fetch else row.error_code
                if not is_fetch:
                    continue
                values = {one.offset: one.value for batch in iter_batches(row.records) for one in iter_records(batch)}
                for found in row.acquired_records:
                    for offset in range(found.first_offset, found.last_offset + 1):
                        self._ledger.delivered((index, offset), values.get(offset), found.delivery_count)
                        acquired[index, offset] = found.delivery_count
        for place, type_ in said.items():
            if errors.get(place[0], -1) == 0:
                self._ledger.acknowledged(place, type_, held[place])
            else:
                self._ledger.counts["acknowledgements refused"] += 1
                self._ledger.never_answered([place])
        return acquired

    def _batches(self, type_: Any, said: dict[Place, int], index: int) -> tuple[Any, ...]:
        return tuple(
            type_(first_offset=offset, last_offset=offset, acknowledge_types=(verdict,))
            for (of, offset), verdict in sorted(said.items())
            if of == index
        )

    def _fetch(self, epoch: int, said: dict[Place, int]) -> fetching.ShareFetchRequest:
        partitions = tuple(
            fetching.FetchPartition(
                partition_index=index,
                acknowledgement_batches=self._batches(fetching.AcknowledgementBatch, said, index),
            )
            for index in range(PARTITIONS)
        )
        return fetching.ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_records=self._chance.choice((1, 5, 50)),
            batch_size=self._chance.choice((1, 5, 50)),
            share_acquire_mode=self._chance.choice((0, 1)),
            topics=(fetching.FetchTopic(topic_id=self._topic_id, partitions=partitions),),
            forgotten_topics_data=(),
        )

    def _acknowledge(self, epoch: int, said: dict[Place, int]) -> acknowledging.ShareAcknowledgeRequest:
        partitions = tuple(
            acknowledging.AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=self._batches(acknowledging.AcknowledgementBatch, said, index),
            )
            for index in sorted({index for index, _ in said})
        )
        topic = acknowledging.AcknowledgeTopic(topic_id=self._topic_id, partitions=partitions)
        return acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP, member_id=self.name, share_session_epoch=epoch, topics=(topic,)
        )


class Producer(threading.Thread):
    """Produces small batches of values that are all different."""

    def __init__(self, address: tuple[str, int], ledger: Ledger, is_over: threading.Event, seed: int) -> None:
        super().__init__(name="producer", daemon=True)
        self.failure: BaseException | None = None
        self._address = address
        self._ledger = ledger
        self._is_over = is_over
        self._chance = random.Random(f"{seed}.producer")
        self._number = 0

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                try:
                    client = Client(*self._address, client_id=self.name, timeout_s=20)
                except BrokerGone:
                    time.sleep(0.02)
                    continue
                try:
                    while not self._is_over.is_set():
                        self._produce(client)
                        time.sleep(10 * _BREATH_S)
                except _GONE:
                    pass
                finally:
                    client.close()
        except BaseException as failure:  # for the main thread, which raises it
            self.failure = failure

    def _produce(self, client: Client) -> None:
        count = self._chance.choice((1, 3, 10))
        values = [b"%d" % (self._number + place) for place in range(count)]
        self._number += count
        batch = build_batch([Record(None, value, (), int(time.time() * 1000)) for value in values])
        index = self._chance.randrange(PARTITIONS)
        row = PartitionProduceData(index=index, records=batch)
        topic = TopicProduceData(name=TOPIC, partition_data=(row,))
        answer = client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(topic,)), 11)
        found = answer.responses[0].partition_responses[0]
        if found.error_code == 0:
            self._ledger.has_produced(index, found.base_offset, values)


def _topic_id(client: Client) -> bytes:
    request = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name=TOPIC),))
    found: bytes = client.ask(request, 12).topics[0].topic_id
    return found


def kill_repeatedly(directory: Path, kills: int, policy: str, seed: int, workers: int = 3) -> str:
    """Returns a sentence with what happened. Raises AssertionError when a promise was broken."""
    chance = random.Random(seed)
    broker = KshimProcess(
        directory, durable=True, config=_CONFIG, topics={TOPIC: PARTITIONS}, options=(f"--fsync={policy}",)
    )
    broker.start()
    host, _, port = broker.bootstrap.rpartition(":")
    address = host, int(port)
    _configure(address)
    ledger = Ledger()
    has_produced, is_over = threading.Event(), threading.Event()
    producer = Producer(address, ledger, has_produced, seed)
    members = [Worker(f"worker-{number}", address, ledger, is_over, seed) for number in range(workers)]
    threads: list[Producer | Worker] = [producer, *members]

    def nobody_failed() -> None:
        for thread in threads:
            if thread.failure is not None:
                raise thread.failure

    try:
        for thread in threads:
            thread.start()
        until(lambda: bool(ledger.finished), "something is acknowledged")
        for _ in range(kills):
            time.sleep(chance.uniform(0.05, 0.6))  # the moment of the kill is what this is about
            broker.kill()
            nobody_failed()
            broker.start()
            nobody_failed()
            known = ledger.counts["acknowledgements"]
            until(lambda known=known: ledger.counts["acknowledgements"] > known, "work goes on")  # type: ignore[misc]
        has_produced.set()
        until(lambda: not ledger.missing(), "all records that were produced are acknowledged", timeout_s=60)
        is_over.set()
        for thread in threads:
            thread.join(30)
        nobody_failed()
    finally:
        has_produced.set()
        is_over.set()
        broker.stop()
    counts = ledger.counts
    assert counts["acknowledgements"] > 5 * kills, "hardly anything was acknowledged"
    return (
        f"{kills} kills with --fsync {policy}, seed {seed}: {len(ledger.produced)} records produced, "
        f"{counts['deliveries']} deliveries ({counts['deliveries again']} not the first), {counts['acknowledgements']} "
        f"acknowledgements answered, {len(ledger.unsure)} records with one that was not; none of the finished records "
        "was delivered again, and none was lost"
    )


def _configure(address: tuple[str, int]) -> None:
    client = Client(*address, client_id="admin")
    rows = tuple(
        alter_configs.AlterableConfig(name=key, config_operation=0, value=value) for key, value in _GROUP_CONFIG.items()
    )
    resource = alter_configs.AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=GROUP, configs=rows)
    request = alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = client.ask(request, 1)
    assert answer.responses[0].error_code == 0, answer
    client.close()


def main() -> int:
    """Exit code 0: every promise was kept. An AssertionError says which was not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--fsync", default="interval", choices=["never", "interval", "always"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(kill_repeatedly(Path(directory), options.kills, options.fsync, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
