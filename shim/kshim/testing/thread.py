"""The same brokers for tests that do not use trio: on a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, TypeVar

import trio

from kshim.testing.brokers import CLOSED, Brokers, open_brokers

T = TypeVar("T")


class BrokersInThread:
    """As `Brokers`, to be called from any other thread. Each call has done its work when it returns.

    After the block has been left, each raises RuntimeError.
    """

    def __init__(self, brokers: Brokers, token: trio.lowlevel.TrioToken) -> None:
        self._brokers = brokers
        self._token = token
        self.cluster = brokers.cluster
        """See `Brokers.cluster`. It belongs to the other thread: read it only."""
        self.bootstrap = brokers.bootstrap
        """`host:port` of every broker, live or not, comma separated: what clients call bootstrap servers."""

    def _call(self, do: Callable[..., T], *arguments: Any) -> T:
        """Raises RuntimeError when the block of these brokers was left."""
        try:
            return trio.from_thread.run_sync(do, *arguments, trio_token=self._token)
        except trio.RunFinishedError:
            raise RuntimeError(CLOSED) from None

    @property
    def live(self) -> list[int]:
        """See `Brokers.live`."""
        return self._call(lambda: self._brokers.live)

    @property
    def defects(self) -> list[BaseException]:
        """See `Brokers.defects`."""
        return self._call(lambda: list(self._brokers.defects))

    def address_of(self, broker: int) -> str:
        """See `Brokers.address_of`."""
        return self._call(self._brokers.address_of, broker)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """See `Brokers.create_topic`."""
        self._call(self._brokers.create_topic, name, partitions, configs)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """See `Brokers.leader_of`."""
        return self._call(self._brokers.leader_of, topic, partition)

    def coordinator_of(self, group_id: str) -> int:
        """See `Brokers.coordinator_of`."""
        return self._call(self._brokers.coordinator_of, group_id)

    def stop_node(self, broker: int) -> None:
        """See `Brokers.stop_node`."""
        self._call(self._brokers.stop_node, broker)

    def start_node(self, broker: int) -> None:
        """See `Brokers.start_node`."""
        self._call(self._brokers.start_node, broker)

    def move(self, topic: str, partition: int, to: int) -> None:
        """See `Brokers.move`."""
        self._call(self._brokers.move, topic, partition, to)


@contextmanager
def brokers_in_thread(
    count: int = 1,
    *,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, str] | None = None,
    data_dir: str | PathLike[str] | None = None,
) -> Iterator[BrokersInThread]:
    """Serve on free loopback ports, on a thread, until the block is left. See `open_brokers`; raises what it raises."""
    started = threading.Event()
    found: list[BrokersInThread] = []
    failures: list[BaseException] = []
    leave: list[trio.Event] = []

    async def serve() -> None:
        async with open_brokers(count, topics=topics, config=config, data_dir=data_dir) as brokers:
            leave.append(trio.Event())
            found.append(BrokersInThread(brokers, trio.lowlevel.current_trio_token()))
            started.set()
            await leave[0].wait()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            failures.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="kshim", daemon=True)
    thread.start()
    started.wait()
    try:
        if found:
            yield found[0]
    finally:
        if found and thread.is_alive():
            found[0]._call(leave[0].set)
        thread.join()
        if failures:
            raise failures[0]
