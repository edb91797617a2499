"""A member that behaves as a client library would, except that there are no records for it to read."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from kshim_pipeline.demo.assignors import assign, build_assignment, build_subscription, parse_assignment
from kshim_pipeline.demo.connection import Address, Connection, ConnectionGone
from kshim_pipeline.demo.flavours import Flavour, Reason
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.schema import Request

R = TypeVar("R")

_BACKOFF_S = 0.1
_RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


_FETCH_VERSION = 11
_FETCH_BYTES = 1 << 20


class GroupSpec(NamedTuple):
    """A group's settings, the same for its members, in real time. `poll_ms` is the longest ordinary time between two polls.

    `clock_rate`: how many times as fast the broker's clock runs, and so how many times as long the timeouts are that it is told.
    """

    group_id: str
    topics: tuple[str, ...]
    flavour: Flavour
    protocol_name: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_ms: int
    commit_ms: int
    fetch_ms: int
    poll_ms: int
    clock_rate: int = 1


class _Fenced(Exception):
    """Another process has this member's instance id: clients end then."""


class Consumer:
    """One member. Scripts call `start`, `close`, `crash`, `stall`, `be_busy`, `rejoin`; all else it does by itself."""

    def __init__(
        self,
        spec: GroupSpec,
        address: Address,
        *,
        client_id: str,
        instance_id: str | None,
        host: str,
        rng: random.Random,
        partition_counts: Mapping[str, int],
        positions: dict[tuple[str, int], int],
        on_expelled: Callable[[Consumer], None],
    ) -> None:
        """`positions`: up to where the group has read each partition, for all its members: a new owner goes on from there."""
        self.spec = spec
        self.topics = spec.topics
        self.client_id = client_id
        self.instance_id = instance_id
        self.host = host
        self.member_ids: list[str] = []
        """Every id it had."""
        self.generation_id = -1
        self.is_stable = False
        self.is_leader = False
        self.assignor_delay_s = 0.0
        """How long its next assignment takes, should it be the leader."""
        self._address = address
        self._rng = rng
        self._partition_counts = partition_counts
        self._on_expelled = on_expelled
        self._member_id = ""
        self._reason = ""
        self._owned: frozenset[tuple[str, int]] = frozenset()
        self._positions = positions
        self._stalled_until = 0.0
        self._busy_since = 0.0
        self._busy_until = 0.0
        self._rejoin_at = float("inf")
        self._is_closing = False
        self._leaves_for_good = False
        self._poked = asyncio.Event()
        self._at_work = asyncio.Event()
        self._connection: Connection | None = None
        self._fetching: Connection | None = None
        """Consumers fetch on another connection than that to their coordinator."""
        self._lost: list[Connection] = []
        """Of a process whose host is gone: nobody closes them."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process is there, be it stalled."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start the process."""
        self._task = asyncio.create_task(self._run())

    async def close(self, *, for_good: bool = False) -> None:
        """End it in an orderly way: it commits, and leaves, a static member only `for_good`."""
        assert self._task is not None
        self._leaves_for_good = for_good
        self._is_closing = True
        self._busy_until = 0.0
        self._poked.set()
        await self._task

    async def ended(self) -> None:
        """Wait until it has ended by itself."""
        assert self._task is not None
        await self._task

    async def next_generation(self, generation_id: int) -> None:
        """Wait until it is at work in a later generation than this. It must be on its way there."""
        while self.generation_id <= generation_id or not self.is_stable:
            self._at_work.clear()
            await self._at_work.wait()

    def crash(self) -> None:
        """End it at once; the broker sees a closed connection and no more."""
        assert self._task is not None
        self._task.cancel()
        self._drop_connections()
        for connection in self._lost:
            connection.abort()
        self.is_stable = False

    def vanish(self) -> None:
        """End it together with its host: no more is heard of it, and its connections stay open, until it is told to `crash`."""
        assert self._task is not None
        self._lost = [each for each in (self._connection, self._fetching) if each is not None]
        self._connection = self._fetching = None
        self._task.cancel()
        self.is_stable = False

    def stall(self, duration_s: float) -> None:
        """Let the process stand still, heartbeats and all."""
        self._stalled_until = time.monotonic() + duration_s

    def be_busy(self, duration_s: float) -> None:
        """Let the application not poll for a while. Heartbeats go on."""
        self._busy_since = time.monotonic()
        self._busy_until = self._busy_since + duration_s
        self._poked.set()

    def rejoin(self, reason: str, *, topics: tuple[str, ...] | None = None) -> None:
        """Join again with the next poll, with other topics when given."""
        self._reason = reason
        if topics is not None:
            self.topics = topics
        self._rejoin_at = time.monotonic()
        self._poked.set()

    async def _run(self) -> None:
        try:
            while not self._is_closing:
                try:
                    self._connection = await Connection.open(self._address, client_id=self.client_id, source=self.host)
                    while not self._is_closing:
                        await self._join()
                        await self._consume()
                    await self._leave(Reason.CLOSED)
                except ConnectionGone:
                    self._drop_connections()
                    await asyncio.sleep(_BACKOFF_S)
        except _Fenced:
            pass
        finally:
            self.is_stable = False
            self._drop_connections()

    @property
    def _member(self) -> GroupMember:
        return GroupMember(self.spec.group_id, self._member_id, self.generation_id, self.instance_id)

    def _drop_connections(self) -> None:
        for connection in (self._connection, self._fetching):
            if connection is not None:
                connection.abort()
        self._connection = self._fetching = None

    async def _join(self) -> None:
        """Join and sync until there is an assignment to work with."""
        self.is_stable = False
        while True:
            joined = await self._join_once()
            if joined is not None and await self._sync_once(joined):
                break
        self.is_stable = True
        self._at_work.set()
        self._rejoin_at = float("inf")

    async def _join_once(self) -> JoinGroupResponse | None:
        spec = self.spec
        # Eager members have given everything up when they join.
        owned = self._owned if spec.protocol_name == "cooperative-sticky" else frozenset()
        metadata = build_subscription(self.topics, owned, self.generation_id)
        request = self._member.join(
            spec.flavour.join,
            [(spec.protocol_name, metadata)],
            session_timeout_ms=spec.session_timeout_ms * spec.clock_rate,
            rebalance_timeout_ms=spec.rebalance_timeout_ms * spec.clock_rate,
            reason=self._reason if spec.flavour.gives_reasons else None,
        )
        response = await self._ask(request, spec.flavour.join)
        match response.error_code:
            case ErrorCode.NONE:
                self._take_id(response.member_id)
                self.generation_id = response.generation_id
                self.is_leader = response.leader == response.member_id
                return response
            case ErrorCode.MEMBER_ID_REQUIRED:
                self._take_id(response.member_id)
                self._reason = Reason.ID_ISSUED.format(member_id=response.member_id)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._on_expelled(self)
                self._forget_id(Reason.UNKNOWN_MEMBER_IN_SYNC)
            case error:
                await self._retry_or_fail(error)
        return None

    async def _sync_once(self, joined: JoinGroupResponse) -> bool:
        """Whether there is an assignment, and nothing of what was owned before had to be given up for it."""
        spec = self.spec
        shares: dict[str, bytes] = {}
        if self.is_leader and not joined.skip_assignment:
            # The Java client assigns with its lock held, so that its heartbeats wait, too.
            await asyncio.sleep(self.assignor_delay_s)
            self.assignor_delay_s = 0.0
            subscriptions = {member.member_id: member.metadata for member in joined.members}
            assigned = assign(subscriptions, self._partition_counts, protocol_name=spec.protocol_name)
            shares = {member_id: build_assignment(partitions) for member_id, partitions in assigned.items()}
        request = self._member.sync(spec.flavour.sync, shares.items(), protocol_name=spec.protocol_name)
        response = await self._ask(request, spec.flavour.sync)
        match response.error_code:
            case ErrorCode.NONE:
                return self._take_assignment(parse_assignment(response.assignment))
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._reason = Reason.REBALANCE_IN_SYNC
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self._forget_id(Reason.UNKNOWN_MEMBER_IN_SYNC)
            case error:
                await self._retry_or_fail(error)
        return False

    def _take_assignment(self, assigned: frozenset[tuple[str, int]]) -> bool:
        has_to_revoke = self.spec.protocol_name == "cooperative-sticky" and bool(self._owned - assigned)
        self._owned = assigned
        self._reason = Reason.REVOKED if has_to_revoke else ""
        return not has_to_revoke

    async def _consume(self) -> None:
        """Heartbeats and commits, until it is time to join again or to close."""
        spec = self.spec
        heartbeat_at = time.monotonic() + spec.heartbeat_ms / 1000
        commit_at = time.monotonic() + spec.commit_ms / 1000 * self._rng.uniform(0.2, 1.0)
        fetch_at = time.monotonic()
        while not self._is_closing:
            now = time.monotonic()
            is_busy = now < self._busy_until
            if self._polls_too_seldom(now):
                await self._give_up_for_polls()
                return
            if now >= self._rejoin_at and not is_busy:
                await self._commit()
                return
            if now >= heartbeat_at:
                heartbeat_at = now + spec.heartbeat_ms / 1000
                await self._heartbeat()
                continue
            if now >= commit_at and not is_busy:
                commit_at = now + spec.commit_ms / 1000
                await self._commit()
                continue
            if now >= fetch_at and not is_busy:
                fetch_at = now + spec.fetch_ms / 1000
                await self._fetch()
                continue
            wake_at = min(heartbeat_at, max(min(commit_at, fetch_at, self._rejoin_at), self._busy_until))
            await self._pause(min(wake_at, self._poll_deadline()) - now)

    async def _pause(self, duration_s: float) -> None:
        try:
            await asyncio.wait_for(self._poked.wait(), max(0.0, duration_s))
        except TimeoutError:
            return
        self._poked.clear()

    def _poll_deadline(self) -> float:
        if not self.spec.flavour.watches_polls or self._busy_until <= time.monotonic():
            return float("inf")
        deadline = self._busy_since + self.spec.rebalance_timeout_ms / 1000
        return deadline if deadline < self._busy_until else float("inf")

    def _polls_too_seldom(self, now: float) -> bool:
        return self._poll_deadline() <= now < self._busy_until

    async def _give_up_for_polls(self) -> None:
        """As clients do: leave, unless static, say nothing more, and join with the next poll."""
        await self._leave(Reason.POLL_TIMEOUT)
        self.is_stable = False
        while (left_s := self._busy_until - time.monotonic()) > 0 and not self._is_closing:
            await self._pause(left_s)
        self._forget_id(Reason.LEFT_BEFORE)

    async def _heartbeat(self) -> None:
        version = self.spec.flavour.heartbeat
        response = await self._ask(self._member.heartbeat(version), version)
        match response.error_code:
            case ErrorCode.NONE:
                return
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._reason = Reason.REBALANCING
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._on_expelled(self)
                self._forget_id(Reason.UNKNOWN_MEMBER)
            case ErrorCode.ILLEGAL_GENERATION:
                self._reason = Reason.ILLEGAL_GENERATION
            case error:
                await self._retry_or_fail(error)
                return
        self._rejoin_at = min(self._rejoin_at, time.monotonic() + self._rng.uniform(0.1, 1) * self.spec.poll_ms / 1000)

    async def _commit(self) -> None:
        """Store the position of each partition owned; what the broker says of it shows in the next heartbeat anyway."""
        if not self._owned or not self._member_id:
            return
        read = self._rng.randrange(1, 50)
        topics: dict[str, list[Committed]] = {}
        for topic, index in sorted(self._owned):
            position = self._positions.get((topic, index), 0) + read
            self._positions[topic, index] = position
            topics.setdefault(topic, []).append(Committed(index, position))
        version = self.spec.flavour.commit
        await self._ask(self._member.commit(version, topics.items()), version)

    async def _fetch(self) -> None:
        """Look for records, of which there are none, as every poll does."""
        if not self._owned:
            return
        topic, index = min(self._owned)
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=_FETCH_BYTES)
        wanted = (FetchTopic(topic=topic, partitions=(partition,)),)
        await self._stand_still()
        if self._fetching is None:
            self._fetching = await Connection.open(self._address, client_id=self.client_id, source=self.host)
        await self._fetching.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=wanted), _FETCH_VERSION)
        await self._stand_still()

    async def _leave(self, reason: str) -> None:
        if reason == Reason.CLOSED:
            await self._commit()
        if (self.instance_id is not None and not self._leaves_for_good) or not self._member_id:
            return
        flavour = self.spec.flavour
        request = self._member.leave(flavour.leave, reason if flavour.gives_reasons else None)
        await self._ask(request, flavour.leave)

    async def _ask(self, request: Request[R], version: int) -> R:
        await self._stand_still()
        if self._connection is None:
            raise ConnectionGone("it was dropped")
        response = await self._connection.ask(request, version)
        await self._stand_still()
        return response

    async def _stand_still(self) -> None:
        if (left_s := self._stalled_until - time.monotonic()) > 0:
            await asyncio.sleep(left_s)

    def _take_id(self, member_id: str) -> None:
        self._member_id = member_id
        if member_id not in self.member_ids:
            self.member_ids.append(member_id)

    def _forget_id(self, reason: str) -> None:
        self._member_id = ""
        self._owned = frozenset()
        self.generation_id = -1
        self._reason = reason

    async def _retry_or_fail(self, error: int) -> None:
        if error == ErrorCode.FENCED_INSTANCE_ID:
            raise _Fenced
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        assert error in _RETRIABLE, f"{self.spec.group_id}: {ErrorCode(error).name}"
        await asyncio.sleep(_BACKOFF_S)
