"""All share partitions of a cluster: read from the share coordinator when they are first needed, and written back there.

Source: Kafka's SharePartitionManager and SharePartition; which error stands for which is that of a live 4.4.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.groups.config import ShareSettings, ShareSettingsOf
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.step import SHARE_STATE_TOPIC, Errand, Event, Now, Step
from kshim.partitions.partition import Partition
from kshim.share_partitions.acquisition import Limits
from kshim.share_partitions.in_flight import RecordState
from kshim.share_partitions.share_partition import Acknowledged, SharePartition, StateBatch, Write
from kshim.share_partitions.share_sessions import ShareSession
from kshim.share_partitions.troubles import GATHER_MS, TroublesOfPartition
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages import read_share_group_state as reading
from kshim_protocol.messages import write_share_group_state as writing
from kshim_protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kshim_protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kshim_protocol.schema import Request

_STORED_STATES: Final = frozenset(RecordState) - {RecordState.ACQUIRED}
_MOST_DELIVERIES: Final = 2**15 - 2
_LOCK: Final = "lock"
_MOST_COMPLETE: Final = 2**31 - 1
_NO_START: Final = -1
_NO_GROUP: Final = reading.PartitionResult(
    partition=0, error_code=ErrorCode.INVALID_REQUEST, state_epoch=0, start_offset=0, state_batches=()
)
"""The share coordinator says nothing at all of a group whose id is empty."""
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_FENCED: Final = frozenset({ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
_DURATION: Final = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)


class Place(NamedTuple):
    """A share partition. `topic_id` has 16 bytes."""

    group_id: str
    topic_id: bytes
    partition_index: int


class Delivery:
    """One share partition at work: its records in flight, its log, and the state of its writes.

    `share` is None while it is read; `error` is then why that failed, NONE while it is on its way. `looked_at` is the offset
    at which those who wait have looked for records last. `is_over`: it was forgotten, and nothing is acquired of it any more; as
    in Kafka its locks still end. `key` is that of its next deadline, if it has one.
    """

    def __init__(self, place: Place, partition: Partition) -> None:
        self.place = place
        self.key: Key = ()
        self.partition = partition
        self.share: SharePartition | None = None
        self.error = ErrorCode.NONE
        self.state_epoch = 0
        self.leader_epoch = partition.leader.leader_epoch
        self.looked_at = -1
        self.is_over = False

    @property
    def is_pending(self) -> bool:
        """Whether it is being read."""
        return self.share is None and self.error is ErrorCode.NONE

    @property
    def is_active(self) -> bool:
        """Whether records of it can be acquired: not once another leader has been elected, as in Kafka."""
        is_led = self.leader_epoch == self.partition.leader.leader_epoch
        return self.share is not None and not self.is_over and is_led

    def __str__(self) -> str:
        return f"{self.place.group_id}:{self.partition}"


class SharePartitions:
    """`settings_of(group_id)` is what holds for a group; `ask` runs an errand; `released(delivery)` is called when those who
    wait for records of it are to look again. `find_group(group_id)` is the group as its coordinator knows it, and `tell` takes events
    about deliveries of it that failed.
    """

    def __init__(
        self,
        *,
        settings_of: ShareSettingsOf,
        ask: Callable[[Errand], None],
        released: Callable[[Delivery], None],
        report: Callable[[BaseException, object], None],
        find_group: Callable[[str], ShareGroup | None],
        tell: Callable[[Sequence[Event]], None],
    ) -> None:
        self._settings_of = settings_of
        self._ask = ask
        self._released = released
        self._report = report
        self._find_group = find_group
        self._tell = tell
        self._deliveries: dict[Place, Delivery] = {}
        self._of_partition: dict[tuple[bytes, int], dict[Place, None]] = {}  # those of all groups
        self._given_of: deque[tuple[bytes, int]] = deque()
        self._is_offering = False
        self._held_writes: list[Errand] | None = None
        self._deadlines = Deadlines()
        self._by_key: dict[Key, Delivery] = {}
        self._count = 0
        self._troubles: dict[Key, tuple[str, TroublesOfPartition]] = {}  # by deadline, with the group id

    def limits(self, group_id: str, *, max_records: int = 1, batch_size: int = 1, is_exact: bool = False) -> Limits:
        """What holds for a group, and for one request of its members."""
        settings = self._settings_of(group_id)
        return Limits(
            max_records,
            batch_size,
            is_exact,
            settings.record_lock_duration_ms,
            settings.delivery_count_limit,
            settings.partition_max_record_locks,
            settings.renew_acknowledge_enable,
        )

    def settings(self, group_id: str) -> ShareSettings:
        """What holds for a group."""
        return self._settings_of(group_id)

    # Reading

    def find(self, group_id: str, partition: Partition, now: Now) -> Delivery:
        """A share partition, which is being read if it was not used yet."""
        place = Place(group_id, partition.topic.topic_id, partition.index)
        delivery = self._deliveries.get(place)
        if delivery is None or delivery.leader_epoch != partition.leader.leader_epoch:
            self.forget(place)
            delivery = self._deliveries[place] = Delivery(place, partition)
            self._of_partition.setdefault(place[1:], {})[place] = None
            self._read(delivery, now)
        return delivery

    def existing(self, group_id: str, topic_id: bytes, index: int) -> Delivery | None:
        """A share partition, if it was used since it was last forgotten."""
        return self._deliveries.get(Place(group_id, topic_id, index))

    def has_read(self, group_id: str, topic_id: bytes, index: int) -> bool:
        """Whether the state of a share partition has been read."""
        delivery = self.existing(group_id, topic_id, index)
        return delivery is not None and delivery.is_active

    def forget(self, place: Place) -> None:
        """What is known of a share partition does not hold any more. Who waits for its records gets none of them."""
        delivery = self._deliveries.get(place)
        if delivery is not None:
            self._drop(place)
            delivery.is_over = True
            self._released(delivery)

    def _drop(self, place: Place) -> None:
        del self._deliveries[place]
        places = self._of_partition[place[1:]]
        del places[place]
        if not places:
            del self._of_partition[place[1:]]

    def has_asked(self, request: Request[Any]) -> None:
        """The share coordinator was asked for something: states that begin again, or end, are to be read again."""
        if isinstance(request, InitializeShareGroupStateRequest | DeleteShareGroupStateRequest):
            for topic in request.topics:
                for one in topic.partitions:
                    self.forget(Place(request.group_id, topic.topic_id, one.partition))

    def nobody_reads(self, group_id: str, is_here: Callable[[Partition], bool]) -> None:
        """No member of a group has a session any more on the node that leads these partitions: it forgets their states."""
        for place, delivery in list(self._deliveries.items()):
            if place.group_id == group_id and is_here(delivery.partition):
                self.forget(place)

    def topics_deleted(self, topic_ids: Collection[bytes]) -> None:
        """Topics are gone."""
        for place in [place for place in self._deliveries if place.topic_id in topic_ids]:
            self.forget(place)
        for key in [key for key, delivery in self._by_key.items() if delivery.place.topic_id in topic_ids]:
            self._deadlines.cancel(key)
            del self._by_key[key]

    def _read(self, delivery: Delivery, now: Now) -> None:
        place = delivery.place
        partition = reading.PartitionData(partition=place.partition_index, leader_epoch=delivery.leader_epoch)
        request = reading.ReadShareGroupStateRequest(
            group_id=place.group_id, topics=(reading.ReadStateData(topic_id=place.topic_id, partitions=(partition,)),)
        )

        def settle(response: reading.ReadShareGroupStateResponse, now: Now) -> Step | None:
            found = response.results[0].partitions[0] if response.results else _NO_GROUP
            self._has_read(delivery, found, now)
            return None

        self._ask(Errand(SHARE_STATE_TOPIC, request, now, settle))

    def _has_read(self, delivery: Delivery, result: reading.PartitionResult, now: Now) -> None:
        place = delivery.place
        error = ErrorCode(result.error_code)
        start_offset = result.start_offset
        try:
            if self._deliveries.get(place) is not delivery:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # it began again while it was read
            if error is not ErrorCode.NONE:
                raise KafkaError(_told(error))
            if start_offset == _NO_START:
                start_offset = self._first_offset(delivery.partition, place.group_id, now)
            if not {batch.delivery_state for batch in result.state_batches} <= _STORED_STATES:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # a client has written that, not a share partition
        except KafkaError as refused:
            self._has_failed(delivery, refused.code)
            return
        except LogError as failure:
            self._report(failure, delivery.partition)
            self._has_failed(delivery, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        batches = [
            StateBatch(
                batch.first_offset,
                batch.last_offset,
                batch.delivery_state,
                min(batch.delivery_count, _MOST_DELIVERIES),
            )
            for batch in result.state_batches
        ]
        delivery.state_epoch = result.state_epoch
        delivery.share = SharePartition(start_offset, batches, on_available=lambda: self._released(delivery))
        self._released(delivery)

    def _has_failed(self, delivery: Delivery, error: ErrorCode) -> None:
        delivery.error = error
        if self._deliveries.get(delivery.place) is delivery:
            self._drop(delivery.place)  # the next one who needs it tries again
        self._released(delivery)

    def _first_offset(self, partition: Partition, group_id: str, now: Now) -> int:
        """Where a group begins. Raises KafkaError: OFFSET_NOT_AVAILABLE (no record that new), LogError."""
        reset = self._settings_of(group_id).auto_offset_reset
        if reset == "earliest":
            return partition.log.start_offset
        if reset == "latest":
            return partition.high_watermark
        found = partition.log.offset_for_timestamp(now.wall_ms - _duration_ms(reset))
        if found is None or found[0] >= partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return found[0]

    # Writing

    def acknowledge(
        self,
        delivery: Delivery,
        member_id: str,
        batches: Sequence[Acknowledged],
        now: Now,
        then: Callable[[ErrorCode], None],
    ) -> Callable[[], None]:
        """What a member has made of records. Returns what writes it, and calls `then` with the error of that.

        As in Kafka those who wait look for records then: not for these, which are in transition, but for what was released
        before, of this or of another partition. Raises KafkaError as `SharePartition.acknowledge` does.
        """
        assert delivery.share is not None, delivery.place
        limits = self.limits(delivery.place.group_id)
        try:
            write = delivery.share.acknowledge(member_id, batches, limits, now.mono_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                self._released(delivery)
            raise
        self._gather(delivery, now)
        self._released(delivery)
        if write is None:
            self.rearm(delivery)
            return lambda: then(ErrorCode.NONE)
        return partial(self._write, delivery, write, now, then)

    def has_given(self, topic_id: bytes, index: int) -> None:
        """A member was given records of a partition: as in Kafka, those who wait for more of it look for what was released, in
        any group. One after the other, as each of them may call this again.
        """
        self._given_of.append((topic_id, index))
        if self._is_offering:
            return
        self._is_offering = True
        try:
            while self._given_of:
                for place in list(self._of_partition.get(self._given_of.popleft(), ())):
                    if (delivery := self._deliveries.get(place)) is not None:
                        self._released(delivery)
        finally:
            self._given_of.clear()
            self._is_offering = False

    def release(self, session: ShareSession, now: Now) -> None:
        """A session is over: others may have what its member holds of the partitions that it still had."""
        group_id, member_id = session.group_id, session.member_id
        with self._writes_held():  # who looks for records of the next partition finds none of these yet
            for topic_id, index in list(session.partitions):  # whoever waits with the session changes their order
                delivery = self._deliveries.get(Place(group_id, topic_id, index))
                if delivery is not None and delivery.share is not None:
                    write = delivery.share.release_all(member_id, self.limits(group_id), now.mono_ms)
                    self._released(delivery)
                    if write is not None:
                        self._write(delivery, write, now, lambda error: None)

    def _write(self, delivery: Delivery, write: Write, now: Now, then: Callable[[ErrorCode], None]) -> None:
        place = delivery.place
        partition = writing.PartitionData(
            partition=place.partition_index,
            state_epoch=delivery.state_epoch,
            leader_epoch=delivery.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=min(write.delivery_complete_count, _MOST_COMPLETE),
            state_batches=tuple(writing.StateBatch(**batch._asdict()) for batch in write.batches),
        )
        request = writing.WriteShareGroupStateRequest(
            group_id=place.group_id, topics=(writing.WriteStateData(topic_id=place.topic_id, partitions=(partition,)),)
        )
        self.rearm(delivery)

        def settle(response: writing.WriteShareGroupStateResponse, now: Now) -> Step | None:
            error = ErrorCode(response.results[0].partitions[0].error_code)
            has_moved = write.settle(error, now.mono_ms)
            self._gather(delivery, now)
            if error in _FENCED:
                if self._deliveries.get(place) is delivery:
                    self.forget(place)
            else:
                self.rearm(delivery)
            with self._writes_held():
                then(_told(error))
                if has_moved:
                    self._released(delivery)
            return None

        errand = Errand(SHARE_STATE_TOPIC, request, now, settle)
        if self._held_writes is None:
            self._ask(errand)
        else:
            self._held_writes.append(errand)

    @contextmanager
    def _writes_held(self) -> Iterator[None]:
        """As in Kafka what an ending session gives back is not written yet when others look: they get nothing of it."""
        if self._held_writes is not None:
            yield
            return
        held: list[Errand] = []
        self._held_writes = held
        try:
            yield
        finally:
            self._held_writes = None
            for errand in held:
                self._ask(errand)

    # Time

    def rearm(self, delivery: Delivery) -> None:
        """Wait for the first lock that ends."""
        deadline_ms = None if delivery.share is None else delivery.share.next_deadline()
        if deadline_ms == self._deadlines.get(delivery.key):
            return
        self._deadlines.cancel(delivery.key)
        self._by_key.pop(delivery.key, None)
        if deadline_ms is not None:
            self._count += 1
            # Of those that end at the same time that comes first which began first.
            delivery.key = _LOCK, f"{self._count:012}"
            self._by_key[delivery.key] = delivery
            self._deadlines.set(delivery.key, deadline_ms)

    def next_deadline(self) -> int | None:
        """When `advance` is next due, in monotonic ms; perhaps too early. None: nobody holds anything, and all is told."""
        return self._deadlines.earliest()

    def advance(self, now: Now) -> None:
        """Locks that have ended: their records return. What went wrong for a second is told."""
        while (key := self._deadlines.pop_due(now.mono_ms)) is not None:
            if key in self._troubles:
                self._tell_troubles(key, now)
                continue
            delivery = self._by_key.pop(key)
            assert delivery.share is not None, delivery
            write = delivery.share.release_expired(self.limits(delivery.place.group_id), now.mono_ms)
            self._gather(delivery, now)
            if write is None:
                self.rearm(delivery)
            else:
                self._write(delivery, write, now, lambda error: None)

    # What went wrong

    def _gather(self, delivery: Delivery, now: Now) -> None:
        """Take note of deliveries that failed just now, if some did."""
        share, place = delivery.share, delivery.place
        if share is None or not share.troubles:
            return
        key = "told", place.group_id, place.topic_id.hex(), f"{place.partition_index:010}"
        if key not in self._troubles:
            name = delivery.partition.topic.name
            self._troubles[key] = place.group_id, TroublesOfPartition(name, place.partition_index)
            self._deadlines.set(key, now.mono_ms + GATHER_MS)
        troubles, share.troubles = share.troubles, []
        self._troubles[key][1].add(troubles, self._find_group(place.group_id), now.mono_ms)

    def _tell_troubles(self, key: Key, now: Now) -> None:
        group_id, troubles = self._troubles.pop(key)
        group = self._find_group(group_id)
        if group is not None:  # else it was deleted meanwhile
            self._tell(list(troubles.events(group, self.limits(group_id), now)))


def _told(error: ErrorCode) -> ErrorCode:
    """What a member is told of an error of the share coordinator."""
    if error is ErrorCode.NONE or error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error
    if error in _MOVED:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _duration_ms(reset: str) -> int:
    """Of `by_duration:P1DT2H3M4.5S`, which was checked when it was set."""
    found: Any = _DURATION.fullmatch(reset)
    days, hours, minutes, seconds = (float(text or 0) for text in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000)
