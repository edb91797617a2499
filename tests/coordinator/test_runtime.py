"""What every coordinator has from the runtime, shown on one that only counts: nothing in the runtime knows groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.runtime import (
    CoordinatorRuntime,
    CoordinatorShard,
    FindShard,
    in_all_shards,
    in_many_shards,
    in_one_shard,
)
from kshim.coordinator.step import Append, Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kshim_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

TOPIC = "__counts"
NOW = Now(1_000, 5_000)
SECOND_MS = 1_000
LATER = Now(NOW.mono_ms + SECOND_MS, NOW.wall_ms + SECOND_MS)


class CountShard(CoordinatorShard):
    """How often each key was counted."""

    topic = TOPIC
    __slots__ = ("counts",)

    def __init__(self, partition: int, deadlines: Deadlines, *, is_loading: bool) -> None:
        super().__init__(partition, deadlines, is_loading=is_loading)
        self.counts: dict[str, int] = {}


class CountReplay:
    """A record is the key that was counted."""

    def __init__(self, shard: CountShard) -> None:
        self._shard = shard

    def feed(self, run: bytes) -> Iterator[None]:
        key = run.decode()
        self._shard.counts[key] = self._shard.counts.get(key, 0) + 1
        yield None

    def finish(self) -> Iterator[None]:
        yield None


def count(shard: CountShard, request: HeartbeatRequest, context: RequestContext, ticket: Ticket, step: Step) -> None:
    shard.require_loaded()

    def written(_base_offset: int, step: Step) -> None:
        shard.counts[request.group_id] = shard.counts.get(request.group_id, 0) + 1
        shard.deadlines.set(("forget", request.group_id), context.now.mono_ms + SECOND_MS)
        step.reply(ticket, HeartbeatResponse(error_code=ErrorCode.NONE))

    step.appends.append(Append(shard.partition, request.group_id.encode(), written, lambda error, step: None))


def look(
    find: FindShard[CountShard], request: DeleteGroupsRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    shards = [(key, find(key)) for key in request.groups_names]
    for _, shard in shards:
        shard.require_loaded()
    step.reply(ticket, [shard.counts.get(key, 0) for key, shard in shards])


def total(
    shards: list[CountShard], request: ListGroupsRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    for shard in shards:
        shard.require_loaded()
    step.reply(ticket, sum(sum(shard.counts.values()) for shard in shards))


def _key(_coordinator: CountCoordinator, request: HeartbeatRequest) -> str:
    return request.group_id


class CountCoordinator(CoordinatorRuntime[CountShard]):
    count: Final = in_one_shard(_key, count)
    look: Final = in_many_shards(look)
    total: Final = in_all_shards(total)

    def _new_shard(self, partition: int, *, is_loading: bool) -> CountShard:
        return CountShard(partition, self._deadlines, is_loading=is_loading)

    def _new_replay(self, shard: CountShard) -> CountReplay:
        return CountReplay(shard)

    def _loaded(self, shard: CountShard, now: Now, step: Step) -> None:
        for key in shard.counts:
            shard.deadlines.set(("forget", key), now.mono_ms + SECOND_MS)

    def _unload(self, shard: CountShard, error: ErrorCode, step: Step) -> None:
        for key in shard.counts:
            shard.deadlines.cancel(("forget", key))

    def _shard_of_deadline(self, key: Key) -> CountShard | None:
        return self._shards.get(self.partition_for(key[1]))

    def _fire(self, key: Key, shard: CountShard, now: Now, step: Step) -> None:
        del shard.counts[key[1]]


def a_coordinator() -> CountCoordinator:
    return CountCoordinator(TOPIC, 4)


def test_each_api_is_named_after_its_work_in_a_profile() -> None:
    apis = (in_one_shard(_key, count), in_many_shards(look), in_all_shards(total))
    assert [api.__name__ for api in apis] == ["count", "look", "total"]


class _Context(RequestContext):
    __slots__ = ("leads_shard",)


def context(leads: Callable[[str, int], bool] | None = None) -> RequestContext:
    made = _Context(4, "client", "/127.0.0.1", NOW)
    made.leads_shard = leads
    return made


def apply(step: Step) -> list[object]:
    """All appends succeed; the replies."""
    for append in step.appends:
        append.written(0, step)
    return [response for _, response in step.replies]


def counted(coordinator: CountCoordinator, key: str, leads: Callable[[str, int], bool] | None = None) -> ErrorCode:
    request = HeartbeatRequest(group_id=key, generation_id=0, member_id="")
    (response,) = apply(coordinator.count(request, context(leads), Ticket()))
    assert isinstance(response, HeartbeatResponse)
    return ErrorCode(response.error_code)


def seen(coordinator: CountCoordinator, *keys: str) -> object:
    return apply(coordinator.look(DeleteGroupsRequest(groups_names=keys), context(), Ticket()))[0]


def test_a_shard_exists_from_its_first_use_on() -> None:
    coordinator = a_coordinator()
    assert not coordinator.has_shard(coordinator.partition_for("a"))
    assert counted(coordinator, "a") is ErrorCode.NONE
    assert coordinator.has_shard(coordinator.partition_for("a"))
    assert seen(coordinator, "a", "b") == [1, 0]


def test_a_step_names_every_shard_that_it_works_on() -> None:
    coordinator = a_coordinator()
    step = coordinator.look(DeleteGroupsRequest(groups_names=("a", "b", "a")), context(), Ticket())
    assert list(step.partitions) == [coordinator.partition_for("a"), coordinator.partition_for("b")]


def test_a_node_that_does_not_lead_the_shard_refuses_and_lists_only_what_it_leads() -> None:
    coordinator = a_coordinator()
    home = coordinator.partition_for("a")
    asked: list[tuple[str, int]] = []

    def leads(topic: str, partition: int) -> bool:
        asked.append((topic, partition))
        return partition != home

    assert counted(coordinator, "a") is ErrorCode.NONE
    assert counted(coordinator, "a", leads) is ErrorCode.NOT_COORDINATOR
    assert asked == [(TOPIC, home)]
    assert apply(coordinator.total(ListGroupsRequest(), context(leads), Ticket())) == [0]
    assert apply(coordinator.total(ListGroupsRequest(), context(), Ticket())) == [1]


def test_a_loading_shard_refuses_and_serves_what_its_log_says_afterwards() -> None:
    coordinator = a_coordinator()
    home = coordinator.partition_for("a")
    wanted: list[int] = []
    coordinator.on_load_wanted = wanted.append
    coordinator.begin_load(home)
    assert counted(coordinator, "a") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert wanted == [home]
    coordinator.replay(home, [b"a", b"a"])
    apply(coordinator.finish_load(home, NOW))
    assert seen(coordinator, "a") == [2]
    assert coordinator.next_deadline() == NOW.mono_ms + SECOND_MS


def test_what_is_about_many_keys_or_all_waits_for_every_shard_that_it_is_about() -> None:
    coordinator = a_coordinator()
    coordinator.begin_load(coordinator.partition_for("a"))
    assert seen(coordinator, "b") == [0]
    (refused,) = apply(coordinator.look(DeleteGroupsRequest(groups_names=("b", "a")), context(), Ticket()))
    assert isinstance(refused, DeleteGroupsResponse)
    assert [result.error_code for result in refused.results] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    (refused,) = apply(coordinator.total(ListGroupsRequest(), context(), Ticket()))
    assert isinstance(refused, ListGroupsResponse)
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_api_has_the_name_of_what_it_does() -> None:
    entries = (CountCoordinator.count, CountCoordinator.look, CountCoordinator.total)
    assert [entry.__name__ for entry in entries] == ["count", "look", "total"]


def test_a_shard_that_was_given_up_answers_why_until_it_is_loaded_again() -> None:
    coordinator = a_coordinator()
    home = coordinator.partition_for("a")
    assert counted(coordinator, "a") is ErrorCode.NONE
    apply(coordinator.unload(home, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert counted(coordinator, "a") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not coordinator.advance(LATER).partitions
    coordinator.begin_load(home)
    apply(coordinator.finish_load(home, NOW))
    assert seen(coordinator, "a") == [0]


def test_timers_of_different_shards_do_not_share_a_step() -> None:
    coordinator = a_coordinator()
    assert coordinator.partition_for("a") != coordinator.partition_for("b")
    for key in ("a", "b"):
        assert counted(coordinator, key) is ErrorCode.NONE
    first = coordinator.advance(LATER)
    assert list(first.partitions) == [coordinator.partition_for("a")]
    assert seen(coordinator, "a", "b") == [0, 1]
    assert list(coordinator.advance(LATER).partitions) == [coordinator.partition_for("b")]
    assert seen(coordinator, "a", "b") == [0, 0]


def test_a_timer_fires_once_wherever_the_clock_on_the_wall_was_set() -> None:
    coordinator = a_coordinator()
    assert counted(coordinator, "a") is ErrorCode.NONE
    set_back = Now(LATER.mono_ms, 0)
    assert list(coordinator.advance(set_back).partitions) == [coordinator.partition_for("a")]
    assert coordinator.next_deadline() is None
    assert not coordinator.advance(set_back).partitions


def test_a_timer_of_a_shard_that_was_given_up_does_not_keep_the_others_from_firing() -> None:
    coordinator = a_coordinator()
    step = coordinator.count(HeartbeatRequest(group_id="a", generation_id=0, member_id=""), context(), Ticket())
    assert counted(coordinator, "b") is ErrorCode.NONE
    coordinator.unload(coordinator.partition_for("a"))
    apply(step)  # sets a timer, as if the write itself had led to the unload
    assert list(coordinator.advance(LATER).partitions) == [coordinator.partition_for("b")]
    assert coordinator.next_deadline() is None


@pytest.mark.parametrize(("key", "other"), [("a", "b"), ("b", "a")])
def test_a_shard_that_was_given_up_is_not_at_work_any_more(key: str, other: str) -> None:
    coordinator = a_coordinator()
    step = coordinator.count(HeartbeatRequest(group_id=key, generation_id=0, member_id=""), context(), Ticket())
    assert step.at_work == coordinator.partition_for(key)
    coordinator.unload(coordinator.partition_for(other))
    assert step.at_work == coordinator.partition_for(key)
    coordinator.unload(coordinator.partition_for(key))
    assert step.at_work is None
