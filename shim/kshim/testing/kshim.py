"""`Kshim`: brokers on a thread of their own, and everything a test does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kshim.harness import groups, rebalances, waits
from kshim.harness.record import Record
from kshim.testing.arguments import TIMEOUT_S, check_count, check_integer, check_text, checked_records
from kshim.testing.awaiting import awaited, awaited_to_the_end
from kshim.testing.brokers import Brokers
from kshim.testing.client_config import MECHANISMS, Access, client_config
from kshim.testing.clock import Clock
from kshim.testing.group import AsyncGroup, Group
from kshim.testing.naming import shown_as
from kshim.testing.setup import Setup
from kshim.testing.thread import BrokerThread
from kshim.wording import counted

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.harness.record import Headers
    from kshim.testing.chaos.chaos import Chaos
    from kshim.testing.faults import AsyncFaults, Faults

T = TypeVar("T")


@shown_as("Kshim")
class Harness:
    """What `Kshim` and `AsyncKshim` have in common. Every method has done its work when it returns, in about 0.1 ms.

    Methods may be called from any thread, and from asyncio and trio. After the block has been left, each raises RuntimeError.
    """

    def __init__(self, thread: BrokerThread) -> None:
        self._thread = thread
        self.clock = Clock(thread)
        """The one clock of all brokers: `clock.advance(46)` moves it ahead."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._thread}>"

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, live or not, comma separated. It stays the same as long as these brokers run."""
        return self._thread.bootstrap_servers

    @property
    def control_url(self) -> str:
        """Where the HTTP interface is found, for a helper in another language. Raises RuntimeError without `Kshim(control=True)`."""
        return self._thread.control_url

    @property
    def brokers(self) -> Brokers:
        """The brokers themselves, to be used inside `call` only. After a `reset` they are others."""
        return self._thread.brokers

    @property
    def cluster(self) -> Cluster:
        """The cluster itself, for tests of its internals: use it inside `call`, or read it only. Another after a `reset`."""
        return self._thread.brokers.cluster

    def call(self, do: Callable[..., T], *arguments: Any) -> T:
        """Run a function in the loop of the brokers, between two requests; return what it returns, raise what it raises."""
        return self._thread.call(do, *arguments)

    @property
    def defects(self) -> list[BaseException]:
        """Unexpected exceptions so far: kshim has a defect, or a disk failed. They are raised at the end of the block."""
        return list(self._thread.defects)

    def take_defects(self) -> list[BaseException]:
        """The `defects`, which are forgotten: the end of the block does not raise them."""
        taken, self._thread.defects[:] = self.defects, []
        return taken

    # Topics and nodes

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic; its partitions are given to the live brokers in turn.

        Raises KafkaError as CreateTopics answers: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
        INVALID_CONFIG, POLICY_VIOLATION (10,000 partitions or more). Raises LogError.
        """
        self.call(lambda: self.brokers.create_topic(name, partitions, configs))

    @property
    def live(self) -> list[int]:
        """Ids of the brokers that are not stopped; ids count from 1."""
        return self.call(lambda: self.brokers.live)

    def address_of(self, broker: int) -> str:
        """`host:port` of one broker. It keeps its port when it is stopped. Raises LookupError."""
        return self.call(lambda: self.brokers.address_of(broker))

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition. Raises LookupError, also while all brokers are stopped."""
        return self.call(lambda: self.brokers.leader_of(topic, partition))

    def coordinator_of(self, group_id: str) -> int:
        """The broker that coordinates a group. Raises LookupError while all brokers are stopped."""
        return self.call(lambda: self.brokers.coordinator_of(group_id))

    def stop_node(self, broker: int) -> None:
        """Stop a broker as SIGTERM does: its partitions and groups move to others, and its clients are disconnected.

        Idempotent. Raises LookupError.
        """
        self.call(lambda: self.brokers.stop_node(broker))

    def start_node(self, broker: int) -> None:
        """Have a broker that was stopped accept clients again, at the address it had. It leads new partitions only.

        Raises LookupError; ValueError for one that is live; OSError when another process has taken its port.
        """
        self.call(lambda: self.brokers.start_node(broker))

    def kill_node(self, broker: int) -> None:
        """End a broker as SIGKILL does: its clients' connections are reset, and nobody gets a last answer.

        What was acknowledged is kept. Its partitions and groups move to others. Idempotent. Raises LookupError.
        """
        self.call(lambda: self.brokers.kill_node(broker))

    def restart_node(self, broker: int) -> None:
        """Stop a broker and start it again. Raises LookupError; OSError as `start_node`."""
        self.call(lambda: self.brokers.restart_node(broker))

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another broker lead a partition.

        Raises LookupError; ValueError when that broker is stopped; LogError when it cannot be stored.
        """
        self.call(lambda: self.brokers.move(topic, partition, to))

    def move_coordinator(self, group_id: str, to: int) -> None:
        """Have another broker coordinate a group, and all groups of the same partition of `__consumer_offsets`.

        Raises as `move`.
        """
        self.call(lambda: self.brokers.move_coordinator(group_id, to))

    # How clients connect

    def client_config(self, client: str, *, user: str | None = None, mechanism: str = MECHANISMS[0]) -> dict[str, Any]:
        """The options with which a client connects, TLS and SASL included, under its own names.

        `client` is `kafka-python`, `confluent-kafka`, `aiokafka` or `java`; add the group id and whatever else it needs. `user` is one of
        the users, the first one unless given. Raises ValueError for a client, user or mechanism there is not.
        """
        setup = self._thread.setup
        access = Access(self.bootstrap_servers, setup.listener.security_protocol, setup.ca_file, setup.ca_pem)
        if setup.users:
            user = next(iter(setup.users)) if user is None else user
            if user not in setup.users:
                raise ValueError(f"user must be one of {', '.join(setup.users)}, not {user!r}")
            if mechanism not in MECHANISMS:
                raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism!r}")
            access = access._replace(mechanism=mechanism, user=user, password=setup.users[user])
        elif user is not None:
            raise ValueError(f"there are no users: give some with Kshim(users={{{user!r}: ...}})")
        return client_config(client, access)

    @property
    def ca_file(self) -> str | None:
        """The path of a PEM file with the certificate that clients have to trust; None without TLS. It goes with the block."""
        return self._thread.setup.ca_file

    # Records and offsets

    def produce(
        self,
        topic: str,
        *values: bytes | str | Record | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> list[Record]:
        """Write records without a client, and return them with their partitions and offsets.

        Each of `values` is a value, to which `key`, `partition` and `headers` apply, or a `Record` with its own. Text is written in
        UTF-8, and None is a tombstone. Without a partition the key decides, as Kafka's default partitioner does; without a key partitions
        take turns. Raises TypeError without values, and for a Record beside a key; LookupError for a topic or partition there is not; KafkaError as Produce answers.
        """
        from kshim.harness import records

        wanted = checked_records(topic, values, key, partition, headers)
        return self.call(lambda: records.produce(self.cluster, topic, wanted, self.brokers.clock.now()))

    def records(self, topic: str, partition: int | None = None, *, isolation: str = "read_committed") -> list[Record]:
        """What a consumer would read of a topic from its start, of one partition or of all, by partition and offset.

        With the isolation `read_committed`, records of transactions that are open or aborted are left out; with
        `read_uncommitted` they are not. Raises LookupError.
        """
        from kshim.harness import records

        check_text("topic", topic)
        if partition is not None:
            check_integer("partition", partition)
        return self.call(lambda: records.records_of(self.cluster, topic, partition, isolation=isolation))

    def _grown_to(
        self, topic: str, count: int, partition: int | None, isolation: str, timeout: float
    ) -> Future[list[Record]]:
        check_integer("count", count)

        def describe(brokers: Brokers) -> str:
            found = self.records(topic, partition, isolation=isolation)
            where = topic if partition is None else f"{topic}-{partition}"
            newest = "".join(f"\n{record}" for record in found[-10:])
            hint = brokers.why_unused()
            return (
                f"{where} had {counted(len(found), 'record')} after {timeout:g} s, and not {count}; the newest: {newest or 'none'}"
                + (f"\n{hint}" if hint else "")
            )

        def look(brokers: Brokers) -> list[Record] | None:
            return waits.grown_to(brokers.cluster, topic, partition, count, isolation)

        self.records(topic, partition, isolation=isolation)  # what is wrong with the arguments is raised here
        return self._thread.until(look, timeout, describe, topic=topic)

    def group_ids(self) -> list[str]:
        """Every group there is, sorted."""
        return self.call(lambda: groups.group_ids(self.brokers.loaded))

    def timelines(self) -> dict[str, str]:
        """What happened to each group, those that are gone included, as far as the history goes back."""
        return self.call(lambda: rebalances.timelines(self.cluster))

    def pages(self) -> dict[str, str]:
        """The page of each group, by its name: why it rebalanced, and its swim lanes, as HTML that needs nothing else.

        Write one to a file and open that in a browser; a failed test does so by itself.
        """
        from kshim.harness.seen import files

        return self.call(lambda: files(self.cluster, "kshim in a test", self.brokers.clock.now().wall_ms))

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The committed offset of each partition, by (topic, partition)."""
        check_text("group_id", group_id)
        return self.call(lambda: groups.committed(self.brokers.loaded, group_id))

    def chaos(
        self,
        profile: str,
        *,
        seed: int,
        group: str | None = None,
        members: Mapping[str, Any] | None = None,
        bound: float = TIMEOUT_S,
    ) -> Chaos:
        """Trouble by name and seed: `kshim.chaos("gc-pause", seed=7).play()`, or in a block, `with kshim.chaos(...) as chaos: chaos.run()`.

        It raises AssertionError when a partition has two owners, or none for longer than `bound` seconds by the brokers'
        clock, a committed offset goes back, or something acknowledged is lost. It befalls consumers of kafka-python that it starts itself
        (extra `kshim[demo]`), or a `group` that runs; `members` are then its processes by client or instance id, with `stop` and
        `start`, and perhaps `pause` and `resume`. In asyncio and trio, play it in a worker thread: it blocks. Raises ValueError for
        a profile there is not.
        """
        from kshim.testing.chaos.chaos import Chaos

        return Chaos(self._thread, profile, seed, group, members, bound, self.client_config("kafka-python"))

    def _ended(self, failure: BaseException | None) -> None:
        """The brokers have ended: raise what was collected, or note it in the exception that the block has ended with."""
        self._thread.close()
        defects = [error for error in self._thread.defects if isinstance(error, Exception)]
        if not defects:
            if failure is None:
                self._thread.faults.check_all_armed()
            return
        sentence = f"kshim failed while it served this block ({len(defects)} unexpected exceptions)"
        if failure is None:
            raise ExceptionGroup(sentence, defects)
        failure.add_note(f"{sentence}: {'; '.join(map(repr, defects))}")


class Kshim(Harness):
    """Kafka-compatible brokers for the tests of an application: `with Kshim(topics={"orders": 3}) as kshim:`.

    They listen on free ports of 127.0.0.1 and run in a thread of their own until the block is left. `topics` maps names to numbers of
    partitions, `config` holds Kafka's own keys. Everything is in memory, or in `data_dir`. `clock` is `real`, `manual` (it stands still until it is
    advanced), or `x` and a rate, such as `x60`. In asyncio and trio,
    `async with Kshim(...)` gives the same, with waits to be awaited.

    With `users` (passwords by name) clients authenticate, by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; with `tls` they connect by TLS,
    for which the extra `kshim[tls]` makes a certificate authority; `client_config` has what each client needs. `acls` gives
    users their rules, such as `{"ann": ["READ topic:orders", "READ group:*"], "root": "super"}`; `*` is everybody, a name that
    ends with `*` a prefix, and what no rule allows is refused.

    `record` names a new file for all that is asked and answered, for `kshim replay`. `control` (True, or an address of this machine
    such as `127.0.0.1:9080`) serves the same over HTTP at `control_url`, for programs in another language; it needs the extra `kshim[control]`.

    Raises ConfigError; KafkaError for a topic that cannot be created; LogError; TypeError and ValueError for an argument that cannot be
    used; OSError for a recording that cannot be written; RuntimeError for TLS or control without its extra. What goes wrong inside kshim is raised as an ExceptionGroup when the block is left.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int] | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        acls: Mapping[str, str | Iterable[str]] | None = None,
        config: Mapping[str, str] | None = None,
        data_dir: str | PathLike[str] | None = None,
        clock: str = "real",
        record: str | PathLike[str] | None = None,
        control: bool | str = False,
    ) -> None:
        check_count("brokers", brokers)
        setup = Setup(
            brokers,
            topics=topics,
            users=users,
            tls=tls,
            acls=acls,
            config=config,
            data_dir=data_dir,
            clock=clock,
            record=record,
            control=control,
        )
        super().__init__(BrokerThread(setup))

    def __enter__(self) -> Self:
        """Start; returns once connections are accepted."""
        started = self._thread.start()
        try:
            started.result()
        except BaseException:
            self._thread.stop().result()
            self._thread.close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, failure: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            self._thread.stop().result()
        finally:
            self._ended(failure)

    async def __aenter__(self) -> AsyncKshim:
        started = self._thread.start()
        try:
            await awaited_to_the_end(started)
        except BaseException:
            await awaited_to_the_end(self._thread.stop())
            self._thread.close()
            raise
        return AsyncKshim(self._thread)

    async def __aexit__(
        self, _kind: type[BaseException] | None, failure: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            await awaited_to_the_end(self._thread.stop())
        finally:
            self._ended(failure)

    @property
    def faults(self) -> Faults:
        """What is to go wrong: `kshim.faults.on("OffsetCommit").error("NOT_COORDINATOR").times(2)`, see `Faults.on`."""
        return self._thread.faults

    def group(self, group_id: str) -> Group:
        """A consumer group, whether or not it exists yet."""
        check_text("group_id", group_id)
        return Group(self._thread, group_id)

    def as_async(self) -> AsyncKshim:
        """The same brokers, with waits to be awaited in asyncio or trio."""
        return AsyncKshim(self._thread)

    def wait_records(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int | None = None,
        isolation: str = "read_committed",
        timeout: float = TIMEOUT_S,
    ) -> list[Record]:
        """`records`, as soon as there are so many, or more. `timeout` is in seconds of real time.

        Raises as `records`; TimeoutError, with the newest ones.
        """
        return self._thread.result_of(self._grown_to(topic, count, partition, isolation, timeout))

    def reset(self) -> None:
        """Go back to the start: no groups, no transactions, no faults, and the topics of the start without records.

        Connections are closed. It takes some milliseconds. Raises RuntimeError with a `data_dir`, and with `record`.
        """
        self._thread.reset().result()


class AsyncKshim(Harness):
    """What `async with Kshim(...)` gives: the same, with waits to be awaited."""

    @property
    def faults(self) -> AsyncFaults:
        """See `Kshim.faults`."""
        return self._thread.faults.as_async()

    def group(self, group_id: str) -> AsyncGroup:
        """A consumer group, whether or not it exists yet."""
        check_text("group_id", group_id)
        return AsyncGroup(self._thread, group_id)

    async def wait_records(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int | None = None,
        isolation: str = "read_committed",
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109
    ) -> list[Record]:
        """See `Kshim.wait_records`."""
        return await awaited(self._grown_to(topic, count, partition, isolation, timeout))

    async def reset(self) -> None:
        """See `Kshim.reset`."""
        await awaited_to_the_end(self._thread.reset())
