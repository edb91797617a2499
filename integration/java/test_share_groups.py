"""Java's KafkaShareConsumer (KIP-932) on kshim and on Apache Kafka: the same happens on both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from integration.java.client import Java, to_string_function
from integration.support.broker import Broker, Deadline
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

pytestmark = pytest.mark.java

_STRING = "org.apache.kafka.common.serialization.String"
_TIMEOUT_S = 120
# ConsumerRecord.toString(): one line a record, as long as no value holds a line feed.
_RECORD = re.compile(r"deliveryCount = (?:Optional\[)?(\d+)\]?, .*value = (.*)\)$")


@pytest.fixture(params=["kshim", pytest.param("kafka", marks=pytest.mark.kafka)], scope="module")
def share_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a data directory."""
    if request.param == "kshim":
        kshim = KshimProcess(tmp_path_factory.mktemp("share"), durable=True)
        kshim.start()
        yield kshim
        kshim.stop()
        return
    kafka: RealKafka = request.getfixturevalue("real_kafka")
    yield kafka


class Reader:
    """A KafkaShareConsumer; `acknowledges` says whether it does so by itself, or each record with its next poll."""

    def __init__(self, jvm: Jvm, bootstrap: str, group_id: str, topic: str, *, acknowledges: str) -> None:
        self._jvm = jvm
        self._types = jvm.classes.org.apache.kafka.clients.consumer.AcknowledgeType
        self.consumer = jvm.classes.org.apache.kafka.clients.consumer.KafkaShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "key.deserializer": f"{_STRING}Deserializer",
                "value.deserializer": f"{_STRING}Deserializer",
                "share.acknowledgement.mode": acknowledges,
            }
        )
        self.consumer.subscribe(jvm.classes.java.util.List.of(topic))

    def _poll(self) -> Any:
        return self.consumer.poll(self._jvm.classes.java.time.Duration.ofMillis(500))

    def poll(self) -> dict[str, int]:
        """The values that one poll brings, with their delivery counts, as one string: each call of Java is a round trip."""
        records = self._poll()
        if records.isEmpty():
            return {}
        streams = self._jvm.classes.java.util.stream
        lines = streams.StreamSupport.stream(records.spliterator(), False).map(to_string_function(self._jvm))
        return dict(map(_value_and_count, lines.collect(streams.Collectors.joining("\n")).split("\n")))

    def answer(self, answer: str) -> dict[str, int]:
        """The same of one record at a time, which is answered; that is written when this returns."""
        deadline = Deadline(_TIMEOUT_S)
        while (records := self._poll()).isEmpty():
            deadline.check("a record")
        found: dict[str, int] = {}
        for record in records.iterator():
            found |= dict([_value_and_count(record.toString())])
            self.consumer.acknowledge(record, getattr(self._types, answer))
        results = self.consumer.commitSync()
        assert not any(result.isPresent() for result in results.values()), str(results)
        return found

    def poll_until(self, count: int) -> dict[str, int]:
        """Until so many records have come."""
        deadline = Deadline(_TIMEOUT_S)
        found: dict[str, int] = {}
        while len(found) < count:
            deadline.check(f"{len(found)} of {count} records came")
            found |= self.poll()
        return found

    def close(self) -> None:
        self.consumer.close()


def _value_and_count(line: str) -> tuple[str, int]:
    match = _RECORD.search(line)
    assert match is not None, f"not as ConsumerRecord.toString() writes it: {line!r}"
    return match[2], int(match[1])


class Setting:
    """A topic of one partition, and a group that reads it from its beginning."""

    def __init__(self, jvm: Jvm, broker: Broker) -> None:
        self.jvm, self.broker, self.java = jvm, broker, Java(jvm)
        self.topic = f"share-{uuid4().hex[:8]}"
        self.readers: list[Reader] = []
        self.java.create_topic(broker.bootstrap, self.topic, 1)
        self._configure({"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "60000"})

    def _configure(self, configs: dict[str, str]) -> None:
        admin_classes = self.jvm.classes.org.apache.kafka.clients.admin
        config_classes = self.jvm.classes.org.apache.kafka.common.config
        resource = config_classes.ConfigResource(config_classes.ConfigResource.Type.GROUP, self.topic)
        operations = [
            admin_classes.AlterConfigOp(admin_classes.ConfigEntry(key, value), admin_classes.AlterConfigOp.OpType.SET)
            for key, value in configs.items()
        ]
        with self.java._admin(self.broker.bootstrap) as admin:
            admin.incrementalAlterConfigs({resource: operations}).all().get()

    def reader(self, acknowledges: str = "implicit") -> Reader:
        reader = Reader(self.jvm, self.broker.bootstrap, self.topic, self.topic, acknowledges=acknowledges)
        self.readers.append(reader)
        return reader

    def produce(self, *values: str) -> None:
        self.java.produce(self.broker.bootstrap, self.topic, values)

    def described(self) -> tuple[str, int]:
        """State and number of members of the group, as the admin client describes it."""
        with self.java._admin(self.broker.bootstrap) as admin:
            found = admin.describeShareGroups([self.topic]).all().get()[self.topic]
            return found.groupState().toString(), found.members().size()

    def start_offset(self) -> int:
        """Where the group is in its partition."""
        classes = self.jvm.classes.org.apache.kafka
        with self.java._admin(self.broker.bootstrap) as admin:
            spec = classes.clients.admin.ListShareGroupOffsetsSpec()
            offsets = admin.listShareGroupOffsets({self.topic: spec}).partitionsToOffsetInfo(self.topic).get()
            (info,) = offsets.values()
            return int(info.startOffset())


@pytest.fixture
def setting(jvm: Jvm, share_broker: Broker) -> Iterator[Setting]:
    found = Setting(jvm, share_broker)
    yield found
    for reader in found.readers:
        reader.close()


def test_records_come_once_and_the_group_remembers_that(setting: Setting) -> None:
    values = [str(number) for number in range(300)]
    reader = setting.reader()
    setting.produce(*values)
    assert reader.poll_until(300) == dict.fromkeys(values, 1)
    assert reader.poll() == {}  # which also answers the last ones
    assert setting.described() == ("Stable", 1)
    assert setting.start_offset() in range(301)  # what was written last may carry the start before it


def test_released_records_come_again_and_rejected_ones_do_not(setting: Setting) -> None:
    reader = setting.reader("explicit")
    setting.produce("a")
    assert reader.answer("RELEASE") == {"a": 1}
    assert reader.answer("RELEASE") == {"a": 2}
    assert reader.answer("REJECT") == {"a": 3}
    setting.produce("b")
    assert reader.answer("ACCEPT") == {"b": 1}


def test_two_members_read_one_partition_and_no_record_twice(setting: Setting) -> None:
    readers = [setting.reader(), setting.reader()]
    values = [str(number) for number in range(600)]
    setting.produce(*values[:1])
    deadline = Deadline(_TIMEOUT_S)
    found: dict[str, int] = {}

    def poll_all() -> None:
        for reader in readers:
            got = reader.poll()
            assert not found.keys() & got.keys()
            found.update(got)

    while not found or setting.described() != ("Stable", 2):
        deadline.check("two members")
        poll_all()
    for begin in range(1, 600, 100):
        setting.produce(*values[begin : begin + 100])
        poll_all()
    while len(found) < len(values):
        deadline.check(f"{len(found)} of {len(values)} records came")
        poll_all()
    assert found == dict.fromkeys(values, 1)


def test_what_a_member_held_when_it_left_comes_to_another(setting: Setting) -> None:
    first = setting.reader("explicit")
    setting.produce("a")
    assert first.poll_until(1) == {"a": 1}
    setting.readers.remove(first)
    first.close()  # which releases what was not answered
    assert setting.reader("explicit").answer("ACCEPT") == {"a": 2}


def test_what_was_acknowledged_before_a_crash_does_not_come_again(setting: Setting, share_broker: Broker) -> None:
    if not isinstance(share_broker, KshimProcess):
        pytest.skip("the other Kafka of the run is not killed")
    reader = setting.reader("explicit")
    setting.produce("a")
    assert reader.answer("ACCEPT") == {"a": 1}
    share_broker.kill()
    share_broker.start()
    setting.produce("b")
    assert reader.answer("ACCEPT") == {"b": 1}
    assert any(Path(share_broker.data).rglob("__share_group_state-*"))
