"""Processes of an application of Kafka Streams (`StreamsApp.java`), their topics, and what a broker says of their group."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from integration.support.jars import JarSet
from integration.support.java_program import java_program
from integration.support.jvm import Jvm

T = TypeVar("T")

_HERE = Path(__file__).parent
_JARS = JarSet("kafka-streams-4.4.0", _HERE)
TIMEOUT_S = 90


class RunningTasks(NamedTuple):
    """What a process runs, as Kafka Streams names it: `0_1` is partition 1 of subtopology 0."""

    active: frozenset[str] = frozenset()
    standby: frozenset[str] = frozenset()


class Application:
    """One process, started when made.

    Raises:
        Unavailable: no JVM or no jars, from the constructor.
    """

    def __init__(self, topology: str, bootstrap: str, application_id: str, directory: Path, **settings: str) -> None:
        """`settings`: of Kafka Streams, `_` for `.`; they go over the ones set here. State and log are in `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        every = {
            "bootstrap.servers": bootstrap,
            "application.id": application_id,
            "state.dir": str(directory / "state"),
            "group.protocol": "streams",
            "commit.interval.ms": "100",
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        command = java_program("StreamsApp", [_HERE / "StreamsApp.java"], _JARS, "-Xmx256m")
        command += [topology, *(f"{name}={value}" for name, value in every.items())]
        self.log = directory / "streams.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line.rstrip("\n"))
                self._news.notify_all()

    def lines(self, first_word: str) -> list[str]:
        """What it said so far with this first word, without it."""
        with self._news:
            said = [line.partition(" ") for line in self._lines]
        return [rest for word, _, rest in said if word == first_word]

    def wait_until(self, holds: Callable[[Application], bool], what: str) -> None:
        """Return when something holds of what it said. Raises AssertionError with its last words, when it does not."""
        with self._news:
            if not self._news.wait_for(lambda: holds(self), TIMEOUT_S):
                raise AssertionError(f"not within {TIMEOUT_S} s: {what}; it said {self._lines[-12:]}\n{self._tail()}")

    def wait_for_state(self, state: str) -> None:
        """Return when this was its last state."""
        self.wait_until(lambda application: application.lines("state")[-1:] == [state], f"state {state}")

    def wait_for_tasks(self, holds: Callable[[RunningTasks], bool], what: str) -> RunningTasks:
        """Return when something holds of its tasks."""
        self.wait_until(lambda application: holds(application.tasks()), what)
        return self.tasks()

    def tasks(self) -> RunningTasks:
        """What it runs now."""
        said = self.lines("tasks")
        if not said:
            return RunningTasks()
        active, standby = (part.partition("=")[2] for part in said[-1].split(" "))
        return RunningTasks(frozenset(filter(None, active.split(","))), frozenset(filter(None, standby.split(","))))

    def restored(self) -> dict[str, int]:
        """How many records each partition of a store was restored from, of those that it restored last."""
        return {store: int(count) for store, _, count in (line.partition(" ") for line in self.lines("restored"))}

    def say(self, command: str) -> None:
        """Give it a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Have it end as an application ends. No effect when it has ended."""
        if self._process.poll() is None:
            self.say("close")
        self.wait_for_end()

    def wait_for_end(self) -> int:
        """Return when the process has ended, with its exit code."""
        try:
            return self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {TIMEOUT_S} s:\n{self._tail()}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL. No effect when it has ended."""
        self._process.kill()
        self._process.wait()
        self._reader.join(TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])


class Topics:
    """Topics of an application, written to and read from."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "partitioner": "murmur2_random",  # Java's: else keys of sources and of repartition topics do not meet
                "log_level": 0,
            }
        )

    def create(self, partition_counts: Mapping[str, int]) -> None:
        """Make them, and wait until they are there."""
        made = self._admin.create_topics([NewTopic(name, count, 1) for name, count in partition_counts.items()])
        for future in made.values():
            future.result(30)

    def partition_counts(self, prefix: str) -> dict[str, int]:
        """Of all topics whose name begins so."""
        found = self._admin.list_topics(timeout=30).topics
        return {name: len(topic.partitions) for name, topic in found.items() if name.startswith(prefix)}

    def configs(self, topic: str) -> dict[str, str]:
        """What was configured for a topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._admin.describe_configs([resource])[resource].result(30)
        return {name: entry.value for name, entry in entries.items() if not entry.is_default}

    def write(self, topic: str, records: Iterable[tuple[str, str]], *, timestamp_ms: int = 0) -> None:
        """Keys and values; all are there when this returns. A time of 0 is now."""
        failures: list[object] = []

        def delivered(error: object, message: object) -> None:
            if error is not None:
                failures.append(error)

        for key, value in records:
            self._producer.produce(topic, value.encode(), key.encode(), on_delivery=delivered, timestamp=timestamp_ms)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
        assert not failures, failures

    def read(self, topic: str) -> list[tuple[str, str]]:
        """All committed records, partition by partition."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "reader", "enable.auto.commit": False}
        reader = Consumer(
            {**settings, "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
        )
        found: list[tuple[str, str]] = []
        try:
            for partition in range(self.partition_counts(topic)[topic]):
                reader.assign([TopicPartition(topic, partition, 0)])
                while True:
                    message = reader.poll(10)
                    assert message is not None, f"{topic}-{partition} is not read to its end"
                    error = message.error()
                    if error is None:
                        found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        break
        finally:
            reader.close()
        return found

    def table(self, topic: str) -> dict[str, str]:
        """The last value of each key."""
        return dict(self.read(topic))

    def committed(self, group_id: str, topic: str) -> int:
        """The sum of what a group has committed in a topic."""
        reader = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group_id, "log_level": 0})
        try:
            places = [TopicPartition(topic, partition) for partition in range(self.partition_counts(topic)[topic])]
            return sum(max(place.offset, 0) for place in reader.committed(places, timeout=30))
        finally:
            reader.close()


class GroupMember(NamedTuple):
    """A member as the broker describes it."""

    process_id: str
    instance_id: str | None
    epoch: int
    tasks: RunningTasks
    target: RunningTasks


class Group(NamedTuple):
    """A group as the broker describes it."""

    state: str
    epoch: int
    members: dict[str, GroupMember]

    def is_settled(self) -> bool:
        """Whether every member is where it is to be."""
        return self.state == "Stable" and all(member.tasks == member.target for member in self.members.values())


class Groups:
    """Streams groups of a broker, by the Admin of the Java client."""

    def __init__(self, jvm: Jvm, bootstrap: str) -> None:
        self._jvm = jvm
        self._admin = jvm.classes.org.apache.kafka.clients.admin.Admin.create({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        """Close the Admin."""
        self._admin.close()

    def describe(self, group_id: str) -> Group:
        """Raises Py4JJavaError: there is no such streams group."""
        described = self._admin.describeStreamsGroups([group_id]).all().get()[group_id]
        members = {
            member.memberId(): GroupMember(
                member.processId(),
                member.instanceId().orElse(None),
                member.memberEpoch(),
                _running(member.assignment()),
                _running(member.targetAssignment()),
            )
            for member in described.members()
        }
        return Group(described.groupState().toString(), described.groupEpoch(), members)

    def settled(self, group_id: str, members: int) -> Group:
        """The group when it has so many members and all of them run what they are to run."""
        return eventually(
            lambda: self.describe(group_id), lambda group: group.is_settled() and len(group.members) == members
        )

    def state(self, group_id: str) -> str:
        """Of a group of any type."""
        found = {group.groupId(): group for group in self._admin.listGroups().all().get()}
        return str(found[group_id].groupState().get().toString())

    def types(self) -> dict[str, str]:
        """The type of each group."""
        found = self._admin.listGroups().all().get()
        return {group.groupId(): group.type().get().toString() for group in found}

    def configure(self, group_id: str, **configs: str) -> None:
        """Set configs of a group, `_` for `.`."""
        java, kafka = self._jvm.classes.java, self._jvm.classes.org.apache.kafka
        resource = kafka.common.config.ConfigResource(kafka.common.config.ConfigResource.Type.GROUP, group_id)
        set_ = kafka.clients.admin.AlterConfigOp.OpType.SET
        changes = java.util.ArrayList()
        for name, value in configs.items():
            entry = kafka.clients.admin.ConfigEntry(name.replace("_", "."), value)
            changes.add(kafka.clients.admin.AlterConfigOp(entry, set_))
        wanted = java.util.HashMap()
        wanted.put(resource, changes)
        self._admin.incrementalAlterConfigs(wanted).all().get()


def _running(assignment: Any) -> RunningTasks:
    return RunningTasks(_names(assignment.activeTasks()), _names(assignment.standbyTasks()))


def _names(tasks: Iterable[Any]) -> frozenset[str]:
    return frozenset(f"{each.subtopologyId()}_{partition}" for each in tasks for partition in each.partitions())


def eventually(read: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """What `read` answers when it is right. Raises AssertionError with the last answer, when it never is."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(found := read()):
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s; the last was {found}"
        time.sleep(0.2)
    return found
