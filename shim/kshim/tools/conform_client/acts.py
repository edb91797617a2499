"""What is done to the brokers and the group where no fault of `kshim.faults` is asked for: `act` of a behaviour."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import trio

from kshim.coordinator.step import RequestContext
from kshim.harness.answer import Answer
from kshim.tools.client import BrokerGone
from kshim.tools.conform_client.dialogue import OWN_CLIENT_ID
from kshim.tools.conform_client.stage import GROUP, Stage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.sync_group import SyncGroupRequest

_JOIN, _SYNC, _HEARTBEAT, _LEAVE = 7, 5, 4, 4
"""Versions that we speak: the newest whose answers we need to know all of."""
_SESSION_TIMEOUT_MS = 30_000
_HEARTBEAT_EVERY_S = 0.2
_JOIN_TIMEOUT_S: Final = 45.0


class ActFailed(Exception):
    """The program did not let the act come about; `str(error)` says what was missing."""


class Member:
    """A member of our own, which takes part in rebalances but reads nothing."""

    def __init__(
        self, stage: Stage, protocols: tuple[JoinGroupRequestProtocol, ...], instance: str | None = None
    ) -> None:
        self._stage = stage
        self._protocols = protocols
        self._instance = instance
        self._member_id = ""
        self._generation = -1
        self.assignment = b""

    async def join(self) -> None:
        """Join, and take the assignment that the leader makes; as the only member make none. Raises ActFailed."""
        while True:
            answer = await self._ask(
                JoinGroupRequest(
                    group_id=GROUP,
                    session_timeout_ms=_SESSION_TIMEOUT_MS,
                    rebalance_timeout_ms=_SESSION_TIMEOUT_MS,
                    member_id=self._member_id,
                    group_instance_id=self._instance,
                    protocol_type="consumer",
                    protocols=self._protocols,
                ),
                _JOIN,
            )
            code = ErrorCode(answer.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                raise ActFailed(f"our own member was refused with {code.name}")
            self._member_id = answer.member_id
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                continue
            self._generation = answer.generation_id
            synced = await self._ask(
                SyncGroupRequest(
                    group_id=GROUP,
                    generation_id=self._generation,
                    member_id=self._member_id,
                    group_instance_id=self._instance,
                    protocol_type=answer.protocol_type,
                    protocol_name=answer.protocol_name,
                    assignments=(),
                ),
                _SYNC,
            )
            if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                continue
            if synced.error_code:
                raise ActFailed(f"our own member's SyncGroup was refused with {ErrorCode(synced.error_code).name}")
            self.assignment = synced.assignment
            return

    async def stay(self) -> None:
        """Send heartbeats, and join again whenever the group rebalances, until cancelled. Raises ActFailed."""
        while True:
            answer = await self._ask(
                HeartbeatRequest(
                    group_id=GROUP,
                    generation_id=self._generation,
                    member_id=self._member_id,
                    group_instance_id=self._instance,
                ),
                _HEARTBEAT,
            )
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                await self.join()
            elif answer.error_code:
                return  # the group has gone on without us
            await trio.sleep(_HEARTBEAT_EVERY_S)

    async def leave(self) -> None:
        """Leave the group."""
        identity = MemberIdentity(member_id=self._member_id, group_instance_id=self._instance)
        await self._ask(LeaveGroupRequest(group_id=GROUP, members=(identity,)), _LEAVE)

    async def _ask(self, request: Any, version: int) -> Any:
        """To the coordinator, over a connection of its own, as a parked request holds up all behind it."""
        brokers = self._stage.brokers
        try:
            client = await self._stage.client_of(brokers.coordinator_of(GROUP), timeout_s=_JOIN_TIMEOUT_S)
            try:
                return await self._stage.ask(client, request, version)
            finally:
                client.close()
        except (BrokerGone, TimeoutError) as error:
            raise ActFailed(f"our own member: {error}") from None


def remove_member(stage: Stage, member_id: str) -> None:
    """Take a member out of the group, as an administrator does (KIP-345); also one that has only been given its id."""
    cluster = stage.brokers.cluster
    request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=member_id),))
    context = RequestContext(_LEAVE, OWN_CLIENT_ID, "/127.0.0.1", stage.brokers.clock.now())
    cluster.apply(cluster.groups.coordinator.leave_group(request, context, Answer()))


def _last_join(stage: Stage) -> Any:
    """The program's newest JoinGroup that was accepted: (request, response). Raises ActFailed."""
    for exchange in reversed(stage.dialogue.exchanges):
        if exchange.api == "JoinGroup" and exchange.response is not None and not exchange.errors:
            return exchange
    raise ActFailed("the program has not joined the group")


@asynccontextmanager
async def _coordinator_moves(stage: Stage) -> AsyncIterator[None]:
    """The group's coordinator is another broker now; the old one goes on serving everything else."""
    brokers = stage.brokers
    to = next(broker for broker in brokers.live if broker != brokers.coordinator_of(GROUP))
    brokers.move_coordinator(GROUP, to)
    yield


@asynccontextmanager
async def _coordinator_stops(stage: Stage) -> AsyncIterator[None]:
    """The coordinator's broker ends, and is started again afterwards; others take over what it led."""
    broker = stage.brokers.coordinator_of(GROUP)
    stage.brokers.stop_node(broker)
    try:
        yield
    finally:
        stage.brokers.start_node(broker)


@asynccontextmanager
async def _all_brokers_stop(stage: Stage) -> AsyncIterator[None]:
    """Nobody answers for a while."""
    stopped = list(stage.brokers.live)
    for broker in stopped:
        stage.brokers.stop_node(broker)
    try:
        yield
    finally:
        for broker in stopped:
            stage.brokers.start_node(broker)


@asynccontextmanager
async def _member_is_expelled(stage: Stage) -> AsyncIterator[None]:
    """The coordinator removes the program's member."""
    remove_member(stage, _last_join(stage).response.member_id)
    yield


@asynccontextmanager
async def _second_member(stage: Stage) -> AsyncIterator[None]:
    """Another member joins, with the subscription that the program began with, and leaves again."""
    first = next(each for each in stage.dialogue.exchanges if each.api == "JoinGroup")
    async with _our_member(stage, first.request.protocols) as member:
        if not member.assignment:
            raise ActFailed("the second member was given no assignment")
        yield


@asynccontextmanager
async def _group_is_full(stage: Stage) -> AsyncIterator[None]:
    """A member of ours takes the only place (`group.max.size=1`), and leaves afterwards."""
    async with _our_member(stage, (JoinGroupRequestProtocol(name="range", metadata=b""),)):
        yield


@asynccontextmanager
async def _other_assignor(stage: Stage) -> AsyncIterator[None]:
    """A member of ours has an assignor that the program cannot have, and leaves afterwards."""
    async with _our_member(stage, (JoinGroupRequestProtocol(name="an-assignor-of-another", metadata=b""),)):
        yield


@asynccontextmanager
async def _instance_is_taken(stage: Stage) -> AsyncIterator[None]:
    """A newer process joins with the program's group.instance.id, and stays."""
    request = _last_join(stage).request
    async with _our_member(stage, request.protocols, request.group_instance_id):
        yield


@asynccontextmanager
async def _our_member(
    stage: Stage, protocols: tuple[JoinGroupRequestProtocol, ...], instance: str | None = None
) -> AsyncIterator[Member]:
    member = Member(stage, protocols, instance)
    await member.join()
    staying = trio.CancelScope()

    async def stay() -> None:
        with staying, suppress(ActFailed):  # then the group goes on without it
            await member.stay()

    stage.nursery.start_soon(stay)
    try:
        yield member
    finally:
        staying.cancel()
    await member.leave()


ACTS: Mapping[str, Callable[[Stage], AbstractAsyncContextManager[None]]] = {
    "coordinator moves": _coordinator_moves,
    "coordinator stops": _coordinator_stops,
    "all brokers stop": _all_brokers_stop,
    "member is expelled": _member_is_expelled,
    "second member": _second_member,
    "group is full": _group_is_full,
    "other assignor": _other_assignor,
    "instance is taken": _instance_is_taken,
}
