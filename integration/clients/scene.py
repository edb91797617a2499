"""What a situation is played on: a broker, applications, names of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from integration.admin.kafka_python import KafkaPythonAdmin
from integration.clients.application import Application, GroupDescription, MemberDescription, Transactional
from integration.clients.catalogue import Client
from integration.clients.driver import Unsupported
from integration.support.broker import Broker
from integration.support.client import TopicPartition
from kshim.tools.client import Client as Connection
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest


class Scene:
    """One playing of one situation, with one client against one broker. Everything in it ends with it."""

    def __init__(self, client: Client, broker: Broker, folder: Path) -> None:
        """`broker` runs; logs of the drivers go to `folder`."""
        self.client = client
        self.broker = broker
        self.folder = folder
        self._security: Mapping[str, str] | None = None
        self._bootstrap: str | None = None
        self._opened = ExitStack()
        self._applications: list[Application] = []
        self._prefix = uuid.uuid4().hex[:10]

    def name(self, what: str) -> str:
        """A name for a topic, a group or an id that nothing else has; the same for the same word."""
        return f"{what}-{self._prefix}"

    def topic(self, application: Application, partitions: int = 1, *, word: str = "topic") -> str:
        """A new topic."""
        name = self.name(word)
        application.create_topic(name, partitions)
        return name

    def application(
        self,
        security: Mapping[str, str] | None = None,
        *,
        bootstrap: str | None = None,
        group_protocol: str | None = None,
    ) -> Application:
        """A process more that uses the client library; with the client's group protocol unless another is named."""
        log = self.folder / f"driver-{len(self._applications)}.log"
        driver = self.client.start(log)
        self._opened.callback(driver.close)
        protocol = group_protocol or self.client.group_protocol
        application = Application(driver, bootstrap or self.broker.bootstrap, security, protocol)
        self._applications.append(application)
        return application

    def kill(self, application: Application) -> None:
        """As a crash does."""
        application.driver.kill()

    def transactional(
        self, application: Application, word: str, *, timeout_ms: int | None = None, producer: str | None = None
    ) -> Transactional:
        """A transactional producer whose id is made from `word`."""
        return Transactional(application, producer or word, self.name(word), timeout_ms)

    def observer(self) -> KafkaPythonAdmin:
        """An admin client that shows what the client of this scene may not be able to."""
        admin = KafkaPythonAdmin(self.broker.bootstrap)
        self._opened.callback(admin.close)
        return admin

    def group(self, application: Application, group_id: str) -> GroupDescription:
        """As the client describes it; as an observer does where the client cannot describe groups of this protocol."""
        try:
            return application.group(group_id)
        except Unsupported:
            return self.consumer_group(group_id)

    def consumer_group(self, group_id: str) -> GroupDescription:
        """A group of the consumer protocol, as ConsumerGroupDescribe has it."""
        connection = self.connection()
        (told,) = connection.ask(ConsumerGroupDescribeRequest(group_ids=(group_id,)), 0).groups
        connection.close()
        assert told.error_code == ErrorCode.NONE, told
        members = (
            MemberDescription(each.member_id, each.instance_id, each.client_id, _partitions(each.assignment))
            for each in told.members
        )
        return GroupDescription(told.group_state, told.assignor_name, tuple(members))

    def connection(self) -> Connection:
        """A connection for requests that no client sends by itself."""
        host, _, port = self.broker.bootstrap.rpartition(":")
        return Connection(host, int(port), client_id="scene", timeout_s=60)

    def finally_(self, end: Callable[[], object]) -> None:
        """Call this when the scene ends, however it does."""
        self._opened.callback(end)

    @property
    def versions(self) -> set[str]:
        """What the drivers said that they are."""
        return {application.version for application in self._applications}

    def close(self, *, at_once: bool) -> None:
        """End all applications; `at_once` kills them first, where waiting for a clean end is of no use."""
        if at_once:
            for application in self._applications:
                application.driver.kill()
        self._opened.close()


def _partitions(assignment: Assignment) -> frozenset[TopicPartition]:
    topics = assignment.topic_partitions
    return frozenset(TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions)
