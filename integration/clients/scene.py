"""What a situation is played on: a broker, applications, names of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from integration.admin.kafka_python import KafkaPythonAdmin
from integration.clients.application import Application, Transactional
from integration.clients.catalogue import Client
from integration.support.broker import Broker


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

    def application(self, security: Mapping[str, str] | None = None, *, bootstrap: str | None = None) -> Application:
        """A process more that uses the client library."""
        log = self.folder / f"driver-{len(self._applications)}.log"
        driver = self.client.start(log)
        self._opened.callback(driver.close)
        application = Application(driver, bootstrap or self.broker.bootstrap, security)
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
