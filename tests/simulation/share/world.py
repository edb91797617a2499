"""A broker without sockets and one share group: members that read, acknowledge, go away and come back; crashes, a disk
whose writes fail, and time.

`run(seed, steps, folder)` decides everything by chance from the seed. What is right is decided by `Ledger` alone, from what
the members were told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kshim.coordinator.step import SHARE_STATE_TOPIC
from kshim.share_partitions.share_partition import ACCEPT, GAP, REJECT, RELEASE, RENEW
from kshim.share_partitions.share_sessions import CLOSE_EPOCH, OPEN_EPOCH
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kshim_protocol.messages.produce import ProduceResponse
from kshim_protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from kshim_protocol.messages.share_fetch import ShareFetchResponse
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import Request
from tests.broker.data_plane import a_batch, produce_of
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.broker.share.members import Member
from tests.simulation.durability.background_work import BackgroundWork
from tests.simulation.durability.disk import SimulatedDisk
from tests.simulation.share.ledger import Ledger, Told
from tests.simulation.violation import Violation, require

TOPIC = "t"
PARTITIONS = (0, 1)
READERS = ("a", "b", "c")
LOCK_MS = 1_000
DELIVERY_LIMIT = 3
WINDOW = 100
BATCHES = (1, 1, 2, 3, 8, 40)
"""How many records producers put into one."""
EXACT = 1
RETRY_MS = 2_000
STATE_FOLDER = f"{SHARE_STATE_TOPIC}-0"
CONFIG = {
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.delivery.count.limit": str(DELIVERY_LIMIT),
    "group.share.partition.max.record.locks": str(WINDOW),
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
    "share.coordinator.state.topic.prune.interval.ms": str(2 * LOCK_MS),
    "share.coordinator.cold.partition.snapshot.interval.ms": str(3 * LOCK_MS),
    "offsets.topic.num.partitions": "1",
}
UNAVAILABLE = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}
"""What members may be told while writes fail."""


class Run(NamedTuple):
    """What came of a seed: what was done, and what was found wrong."""

    seed: int
    done: list[str]
    violation: Violation | None


class _Connection(Client):
    """Knows when it was answered: by the clock, and in which order with the others."""

    def __init__(self, world: _World, name: str) -> None:
        super().__init__(world.node, name, "/127.0.0.1")
        self._world = world
        self.said: Callable[[Any], None] | None = None
        self.answered: Callable[[Any], None] | None = None
        self.answered_at_ms = 0

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        super().reply(frame, rest)
        self.answered_at_ms = self._world.node.mono_ms
        self._world.answered.append(self)


class _World:
    def __init__(self, rng: Random, folder: Path, done: list[str]) -> None:
        self.rng = rng
        self.folder = folder
        self.done = done
        self.disk = SimulatedDisk(folder)
        self.background = BackgroundWork(rng)
        self.answered: list[_Connection] = []
        self.values = 0
        self.ledgers = [
            Ledger(
                f"{TOPIC}-{index}",
                lock_ms=LOCK_MS,
                delivery_limit=DELIVERY_LIMIT,
                window=WINDOW,
                largest_batch=max(BATCHES),
            )
            for index in PARTITIONS
        ]
        self.readers: dict[str, Member] = {}
        self.parked: set[str] = set()
        self.overlooked: set[str] = set()  # of those, who waits since before a release, of which nobody is told
        self.has_released = False
        self.deleted: set[int] = (
            set()
        )  # partitions whose log begins later: Kafka answers once without records, and notices
        self._unanswered: set[str] = set()  # of those, who has said something in the same request
        self.is_loading = True
        self.node = self._start()
        self.node.topic(TOPIC, len(PARTITIONS))
        self.node.cluster.dynamic_configs.replace("groups", "g", {"share.auto.offset.reset": "earliest"})
        founder = Member(self.node, "founder")
        founder.client.send(founder.heartbeat_request(0, (TOPIC,)))
        for _ in range(3):
            self.node.pass_ms(1_000)
            self.background.finish(self.node)

    def _start(self) -> NodeUnderTest:
        return a_node(CONFIG, storage=files_in(self.folder, self.disk), fsync="always", tolerates_defects=True)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is being written, and all writes have worked."""
        self.background.begin(self.node)
        self.is_loading &= self.background.is_under_way
        return not self.background.is_under_way and not any(ledger.is_troubled for ledger in self.ledgers)

    # Requests and answers

    def _send(
        self,
        client: _Connection,
        request: Request[Any],
        answered: Callable[[Any], None],
        *,
        said: Callable[[Any], None] | None = None,
        version: int | None = None,
    ) -> None:
        client.said, client.answered = said, answered
        client.send(request, version)

    def take_answers(self) -> None:
        """Look at every answer that has come. Raises Violation.

        First at what became of records: those that wait are given them even before who released them is answered.
        """
        answered, self.answered = [client for client in self.answered if client.answered is not None], []
        for client in answered:
            if client.said is not None:
                client.said(client.unread[0])
        for client in answered:
            assert client.answered is not None
            client.answered(client.unread.popleft())

    def _reader(self, name: str) -> Member | None:
        """A member that may send something now, with a connection; None: its last request is not answered."""
        reader = self.readers.get(name)
        if reader is None:
            reader = self.readers[name] = Member(self.node, name, _Connection(self, name))
        return None if reader.client.is_waiting else reader

    def produce(self) -> None:
        """Some records in one batch."""
        index, rng = self.rng.choice(PARTITIONS), self.rng
        values = []
        for _ in range(rng.choice(BATCHES)):
            self.values += 1
            values.append(b"%d" % self.values)

        def answered(response: ProduceResponse) -> None:
            (answer,) = response.responses[0].partition_responses
            require(answer.error_code == ErrorCode.NONE, "error-unfounded", f"produce: {answer!r}")
            self.ledgers[index].produced(answer.base_offset, values, unheard)

        unheard = self.ledgers[index].produces()
        self._send(
            _Connection(self, "p"), produce_of(TOPIC, a_batch(*values), first_partition=index), answered, version=12
        )

    def delete_records(self) -> None:
        """Some records are deleted from the front of a partition."""
        index = self.rng.choice(PARTITIONS)
        known = self.ledgers[index].known()
        if not known or self.background.is_under_way:
            return
        offset = self.rng.choice(known[: len(known) // 2 + 1])
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=(partition,))

        def told(_response: Any) -> None:
            self.ledgers[index].deleted_before(offset)
            self.deleted.add(index)

        request = DeleteRecordsRequest(topics=(topic,), timeout_ms=1_000)
        self._send(_Connection(self, "d"), request, lambda _response: None, said=told)

    def fetch(self, name: str, **options: Any) -> None:
        """A member asks for records, and may say what became of some."""
        reader = self._reader(name)
        if reader is None:
            return
        rng = self.rng
        options = {
            "partitions": PARTITIONS,
            "max_records": rng.choice((1, 2, 5, 20, 500)),
            "batch_size": rng.choice((1, 3, 500)),
            "mode": rng.choice((0, EXACT)),
            "max_wait_ms": rng.choice((0, 0, 300)),
        } | options
        said, statement, index = {}, None, 0
        if reader.session_epoch != OPEN_EPOCH and rng.random() < 0.4:
            index = rng.choice(PARTITIONS)
            types = self._types(reader, index, may_renew=False)
            if types:
                statement = self.ledgers[index].says(name, types, self.node.mono_ms, is_fetch=True)
                said = {index: _ranges(types)}
                self.has_released = True
        wanted = {index: bool(ledger.available(self.node.mono_ms)) for index, ledger in enumerate(self.ledgers)}
        must_come = self.is_quiet and statement is None and any(wanted.values())
        excused = set(self.deleted)
        sent_ms = self.node.mono_ms

        def answered(response: ShareFetchResponse) -> None:
            self.parked.discard(name)
            self.overlooked.discard(name)
            if said:
                self._unanswered.discard(name)
                for ledger in self.ledgers:
                    ledger.has_heard()
            at_ms: int = reader.client.answered_at_ms  # type: ignore[attr-defined]
            self._fetched(reader, response, options, since_ms=sent_ms if said else at_ms)
            is_empty = not any(one.acquired_records for topic in response.responses for one in topic.partitions)
            is_at_once = at_ms == sent_ms
            if must_come and is_empty and is_at_once and not self._waits_for_what_is_gone():
                require(bool(excused), "withheld", f"{wanted} from {name}")
                self.deleted -= excused

        def told(response: ShareFetchResponse) -> None:
            found = [
                one.acknowledge_error_code
                for topic in response.responses
                for one in topic.partitions
                if one.partition_index == index
            ]
            require(len(found) == 1, "not-told", f"{name}: what became of what it said")
            if statement is not None:
                self.ledgers[index].answered(statement, ErrorCode(found[0]))

        request = reader.fetch_request(said=said, **options)
        self.parked.add(name)
        if said:
            self._unanswered.add(name)
            for ledger in self.ledgers:
                ledger.asks_and_says()
        self._send(reader.client, request, answered, said=told if said else None)  # type: ignore[arg-type]

    def _waits_for_what_is_gone(self) -> bool:
        """Whether deleted records are held, behind which the start does not move meanwhile, as in Kafka."""
        for delivery in self.node.cluster.share_partitions._deliveries.values():
            share, ledger = delivery.share, self.ledgers[delivery.place.partition_index]
            if share is None or not ledger.begins_later:
                continue
            if any(run.member_id and run.first < share.start_offset for run in share.runs):
                return True
        return False

    def _fetched(self, reader: Member, response: ShareFetchResponse, options: dict[str, Any], *, since_ms: int) -> None:
        name = reader.member_id
        is_troubled = self.is_loading or any(ledger.is_troubled for ledger in self.ledgers)
        require(response.error_code == ErrorCode.NONE, "session-refused", f"{name}: {response.error_code}")
        reader.session_epoch += 1
        acquired = 0
        for topic in response.responses:
            for one in topic.partitions:
                error = ErrorCode(one.error_code)
                is_founded = error is ErrorCode.NONE or (is_troubled and error in UNAVAILABLE)
                require(is_founded, "error-unfounded", f"fetch of {one.partition_index} by {name}: {error.name}")
                values = {
                    record.offset: record.value for batch in iter_batches(one.records) for record in iter_records(batch)
                }
                for got in one.acquired_records:
                    offsets = range(got.first_offset, got.last_offset + 1)
                    at_ms = reader.client.answered_at_ms  # type: ignore[attr-defined]
                    found = {offset: values.get(offset) for offset in offsets}
                    told = Told(name, found, got.delivery_count, at_ms, since_ms)
                    self.ledgers[one.partition_index].delivered(told)
                    acquired += len(offsets)
        is_within = acquired <= options["max_records"] or options["mode"] != EXACT
        require(is_within, "more-than-asked", f"{name}: {acquired} of {options['max_records']}")

    def acknowledge(self, name: str) -> None:
        """A member says what became of records."""
        reader = self._reader(name)
        if reader is None or reader.session_epoch == OPEN_EPOCH:
            return
        index = self.rng.choice(PARTITIONS)
        types = self._types(reader, index, may_renew=True)
        if types:
            self._say(reader, index, types)

    def impostor(self, name: str) -> None:
        """A member speaks of a record that another has, or nobody."""
        reader, index = self._reader(name), self.rng.choice(PARTITIONS)
        known = self.ledgers[index].known()
        if reader is None or reader.session_epoch == OPEN_EPOCH or not known:
            return
        self._say(reader, index, {self.rng.choice(known): self.rng.choice((ACCEPT, RELEASE, REJECT))})

    def _say(self, reader: Member, index: int, types: dict[int, int]) -> None:
        name = reader.member_id
        statement = self.ledgers[index].says(name, types, self.node.mono_ms)
        self.has_released = True

        def told(response: ShareAcknowledgeResponse) -> None:
            ((one,),) = [topic.partitions for topic in response.responses]
            self.ledgers[index].answered(statement, ErrorCode(one.error_code))

        def answered(response: ShareAcknowledgeResponse) -> None:
            require(response.error_code == ErrorCode.NONE, "session-refused", f"{name}: {response.error_code}")
            reader.session_epoch += 1

        request = reader.acknowledge_request(*_ranges(types), index=index, renews=RENEW in types.values())
        self._send(reader.client, request, answered, said=told)  # type: ignore[arg-type]

    def _types(self, reader: Member, index: int, *, may_renew: bool) -> dict[int, int]:
        """What to say of some of the records that a member has, next to each other."""
        rng = self.rng
        held = self.ledgers[index].held_by(reader.member_id, self.node.mono_ms)
        if not held:
            return {}
        begin = rng.randrange(len(held))
        count = rng.choice((1, 1, 2, 5, 100))
        offsets = [offset for place, offset in enumerate(held[begin : begin + count]) if offset == held[begin] + place]
        choices, weights = (ACCEPT, RELEASE, REJECT, GAP, RENEW), (6, 4, 1, 0.5, 4 if may_renew else 0)
        if rng.random() < 0.6:
            return dict.fromkeys(offsets, rng.choices(choices, weights)[0])
        return dict(zip(offsets, rng.choices(choices, weights, k=len(offsets)), strict=True))

    def end_session(self, name: str) -> None:
        """A member ends its session; what it holds returns."""
        reader = self._reader(name)
        if reader is None or reader.session_epoch == OPEN_EPOCH:
            return

        def answered(response: ShareAcknowledgeResponse) -> None:
            require(response.error_code == ErrorCode.NONE, "session-refused", f"{name}: {response.error_code}")

        self._send(reader.client, reader.acknowledge_request(epoch=CLOSE_EPOCH), answered)  # type: ignore[arg-type]
        reader.session_epoch = OPEN_EPOCH
        self.has_released = True
        for ledger in self.ledgers:
            ledger.gives_up(name)

    def disconnect(self, name: str) -> None:
        """The connection of a member ends."""
        reader = self.readers.pop(name, None)
        if reader is None:
            return
        self.has_released = True
        for ledger in self.ledgers:
            ledger.gives_up(name)
        self.parked.discard(name)
        self.overlooked.discard(name)
        if name in self._unanswered:
            self._never_hears(name)
        reader.client.answered = None  # type: ignore[attr-defined]
        reader.client.close()
        if all(other.session_epoch == OPEN_EPOCH for other in self.readers.values()):
            self._has_to_notice_deletions()
            for ledger in self.ledgers:
                ledger.forgotten()

    def _has_to_notice_deletions(self) -> None:
        """The broker will read again where partitions begin, which it need not have written."""
        self.deleted |= {index for index, ledger in enumerate(self.ledgers) if ledger.begins_later}

    def _never_hears(self, name: str) -> None:
        self._unanswered.discard(name)
        for ledger in self.ledgers:
            ledger.never_hears()

    # Faults

    def fail_writes(self) -> None:
        """From now on the states of share partitions cannot be written."""
        for ledger in self.ledgers:
            ledger.is_troubled = True
        self.rng.choice((self.disk.bad_syncs, self.disk.bad_writes)).add(STATE_FOLDER)

    def mend(self) -> None:
        """Writes work again."""
        self.disk.bad_syncs.clear()
        self.disk.bad_writes.clear()

    def kill(self) -> None:
        """The process ends as it stands; another one starts."""
        self.background.end()
        storage: Any = self.node.storage
        storage._directory._lock.release()  # the kernel does, when a process is gone
        self.disk.end_process()
        self._begin_again()

    def restart(self) -> None:
        """The process ends in peace."""
        self.mend()
        self.background.finish(self.node)
        self.take_answers()
        self.node.close()
        self._begin_again()

    def _begin_again(self) -> None:
        now = self.node.mono_ms, self.node.wall_ms, self.node.real_ms
        self.answered.clear()
        self.readers.clear()
        self.parked.clear()
        self.overlooked.clear()
        for name in sorted(self._unanswered):
            self._never_hears(name)
        self.is_loading = True
        self._has_to_notice_deletions()
        for ledger in self.ledgers:
            ledger.crashed()
        self.node = self._start()
        self.node.mono_ms, self.node.wall_ms, self.node.real_ms = now

    # Rest

    def work(self) -> None:
        """Some background tasks go on."""
        for _ in range(self.rng.randint(1, 8)):
            self.background.go_on(self.node)

    def be_quiet(self) -> None:
        """Every task ends."""
        self.background.finish(self.node)
        self.take_answers()

    def settle(self) -> None:
        """Without faults the group comes to an end with all records. Raises Violation."""
        self.mend()
        self._pass_time(3 * RETRY_MS)
        for name in list(self.readers):
            if self.rng.random() < 0.5:  # the others stay, and say nothing any more
                self.disconnect(name)
        self._pass_time(LOCK_MS + RETRY_MS)
        require(not self.parked, "never-answered", f"fetches of {sorted(self.parked)}")
        for ledger in self.ledgers:
            ledger.is_troubled = False
        for _ in range(4 * WINDOW):
            may_be_empty = bool(self.deleted)
            self.fetch("last", max_wait_ms=0, max_records=500)
            self.be_quiet()
            held = [ledger.held_by("last", self.node.mono_ms) for ledger in self.ledgers]
            if not any(held):
                if not may_be_empty:
                    break
                self.deleted.clear()
            for index, offsets in enumerate(held):
                if offsets:
                    reader = self.readers["last"]
                    self._say(reader, index, dict.fromkeys(offsets, ACCEPT))
                    self.be_quiet()
        for ledger in self.ledgers:
            lost = [] if self._waits_for_what_is_gone() else sorted(ledger.missing())
            require(not lost, "record-lost", f"{ledger.name}: nobody was given {lost}")
        self.disconnect("last")
        self.be_quiet()

    def _pass_time(self, ms: int) -> None:
        for _ in range(3):
            self.node.pass_ms(ms // 3)
            self.be_quiet()

    def _nobody_waits_in_vain(self) -> None:
        """Whoever waits for records is woken when there are some, unless somebody has released them."""
        if self.has_released:
            self.overlooked |= self.parked
        if not self.is_quiet:
            return
        self.has_released = False
        waiting = [name for name in self.parked - self.overlooked if self.readers[name].client.is_waiting]
        if waiting and not self.deleted:
            for ledger in self.ledgers:
                available = ledger.available(self.node.mono_ms)
                require(not available, "not-woken", f"{sorted(waiting)}, with {available} in {ledger.name}")

    # One step

    def step(self) -> None:
        """Something happens. Raises Violation."""
        (what,) = self.rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        self.done.append(what)
        self._do(what, self.rng.choice(READERS))
        self.take_answers()
        self._nobody_waits_in_vain()
        defects = [defect for defect in self.node.defects if not isinstance(defect, LogError)]
        require(not defects, "defect", repr(defects))

    def _do(self, what: str, name: str) -> None:
        of_member: dict[str, Callable[[str], None]] = {
            "fetch": self.fetch,
            "acknowledge": self.acknowledge,
            "impostor": self.impostor,
            "end session": self.end_session,
            "disconnect": self.disconnect,
        }
        of_broker: dict[str, Callable[[], None]] = {
            "produce": self.produce,
            "delete": self.delete_records,
            "work": self.work,
            "quiet": self.be_quiet,
            "time": lambda: self.node.pass_ms(self.rng.choice((1, 50, 300, 700))),
            "break": self.fail_writes,
            "mend": self.mend,
            "kill": self.kill,
            "restart": self.restart,
            "settle": self.settle,
        }
        if what in of_member:
            of_member[what](name)
        else:
            of_broker[what]()


_WEIGHTS = {
    "produce": 8,
    "fetch": 24,
    "acknowledge": 18,
    "impostor": 3,
    "end session": 1,
    "disconnect": 1.5,
    "delete": 0.5,
    "work": 16,
    "quiet": 14,
    "time": 10,
    "break": 0.4,
    "mend": 1,
    "kill": 0.7,
    "restart": 0.3,
    "settle": 0.8,
}


def _ranges(types: dict[int, int]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Ranges of neighbours, with one type where all are alike."""
    found: list[list[int]] = []
    for offset in sorted(types):
        if found and found[-1][-1] == offset - 1:
            found[-1].append(offset)
        else:
            found.append([offset])
    said = [tuple(types[offset] for offset in offsets) for offsets in found]
    return [
        (offsets[0], offsets[-1], one[:1] if len(set(one)) == 1 else one)
        for offsets, one in zip(found, said, strict=True)
    ]


def run(seed: int, steps: int, folder: Path) -> Run:
    """One group's life of `steps` steps in an empty `folder`, and its end in peace."""
    done: list[str] = []
    world = _World(Random(f"share {seed}"), folder, done)
    violation = None
    try:
        for _ in range(steps):
            world.step()
        world.settle()
    except Violation as found:
        violation = found
    finally:
        storage: Any = world.node.storage
        storage._directory._lock.release()
        world.disk.end_process()
    return Run(seed, done, violation)
