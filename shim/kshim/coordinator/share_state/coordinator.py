"""The share coordinator as the broker sees it: its APIs, and what its shards do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.deadlines import Key
from kshim.coordinator.runtime import CoordinatorRuntime, FindShard
from kshim.coordinator.share_state import apis
from kshim.coordinator.share_state.config import ShareStateConfig
from kshim.coordinator.share_state.replay import ShareStateReplay
from kshim.coordinator.share_state.shard import PRUNE, SNAPSHOT, SharePartitionKey, ShareStateShard, done, given_up
from kshim.coordinator.step import SHARE_STATE_TOPIC, Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request

_Work = Callable[[FindShard[ShareStateShard], TopicCatalog, Any, RequestContext, Ticket, Step], None]


def _in_shards(
    work: _Work,
) -> Callable[[ShareStateCoordinator, Request[Any], RequestContext, Ticket], Step]:
    """An API about share partitions, each of which has its shard."""

    def answer(self: ShareStateCoordinator, request: Request[Any], context: RequestContext, ticket: Ticket) -> Step:
        step = self.begin()
        work(lambda key: self.find(key, context, step), self.topics, request, context, ticket, step)
        return step

    answer.__name__ = work.__name__
    return answer


class ShareStateCoordinator(CoordinatorRuntime[ShareStateShard]):
    """The states of share partitions, by partition of `__share_group_state`."""

    def __init__(self, config: ShareStateConfig, *, topics: TopicCatalog) -> None:
        super().__init__(SHARE_STATE_TOPIC, config.state_topic_num_partitions)
        self.config = config
        self.topics = topics

    # APIs; each is described by the function that answers it

    initialize_share_group_state: Final = _in_shards(apis.initialize_share_group_state)
    read_share_group_state: Final = _in_shards(apis.read_share_group_state)
    write_share_group_state: Final = _in_shards(apis.write_share_group_state)
    delete_share_group_state: Final = _in_shards(apis.delete_share_group_state)
    read_share_group_state_summary: Final = _in_shards(apis.read_share_group_state_summary)

    def shards_of(self, request: Any) -> set[int]:
        """The shards that a request of these APIs is about."""
        return {
            self.partition_for(apis.key_text(SharePartitionKey(request.group_id, topic.topic_id, one.partition)))
            for topic in request.topics
            for one in topic.partitions
        }

    def topics_deleted(self, topic_ids: Collection[bytes], now: Now) -> Iterator[Step]:
        """Topics are gone: forget the states of their partitions, a shard a Step. Each must be applied before the next."""
        for partition in sorted(self._shards):
            shard = self._shards.get(partition)
            if shard is None or shard.is_loading:
                continue
            step = self.begin()
            step.works_on(partition)
            for key in [key for key in shard.states if key.topic_id in topic_ids]:
                shard.append(step, key, None, now, written=done, failed=given_up)
            yield step

    # Shards

    def _new_shard(self, partition: int, *, is_loading: bool) -> ShareStateShard:
        return ShareStateShard(partition, self._deadlines, config=self.config, is_loading=is_loading)

    def _new_replay(self, shard: ShareStateShard) -> ShareStateReplay:
        return ShareStateReplay(shard)

    def _activated(self, shard: ShareStateShard, now: Now) -> None:
        shard.begin_upkeep(now)

    def _loaded(self, shard: ShareStateShard, now: Now, step: Step) -> None:
        """Nothing waits for it."""

    def _unload(self, shard: ShareStateShard, error: ErrorCode, step: Step) -> None:
        """No request waits in a shard."""
        shard.states.clear()
        shard.end_upkeep()

    # Time

    def _shard_of_deadline(self, key: Key) -> ShareStateShard | None:
        assert key[0] in (PRUNE, SNAPSHOT), f"deadline of nothing: {key}"
        return self._shards.get(int(key[1]))

    def _fire(self, key: Key, shard: ShareStateShard, now: Now, step: Step) -> None:
        """Something is due that is done regularly, as long as there are share partitions."""
        if shard.states:
            self._deadlines.set(key, self.next_check(now.mono_ms, shard.upkeep_interval_ms(key[0])))
        if key[0] == PRUNE:
            shard.prune(step)
        else:
            shard.snapshot_cold(step, now)
