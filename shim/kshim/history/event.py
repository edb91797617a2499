"""One event of the history, kept as an object; its JSON is built when it is read.

The page `docs/design/events.md` says what each field means. The events of a rebalance share what is the same in all of
them, so that an event costs little until it is read, and its JSON not much more.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kshim.coordinator.groups.events import DeliveryFailed, Offer, Wish
from kshim.coordinator.step import Now
from kshim.history.activity import Activity, activity_json
from kshim.history.course import Arrival, Course, Ending, Why, arrival_json, ending_json, kicked_json
from kshim.history.epoch_course import EpochCourse, Reconciliation, reconciliation_json
from kshim.history.json_parts import number, text
from kshim.history.records import records_json
from kshim.history.subscription import subscription_json
from kshim.history.timeline import Timeline
from kshim.history.topic_changes import TopicChange, topic_changes_json

EVENT_VERSION: Final = 2


class HistoryEvent(NamedTuple):
    """One event. `number` counts the events of a `run`, `seq` those of the group in it.

    `expected` None: no counts of members.
    """

    type: str
    run: str
    number: int
    seq: int
    now: Now
    broker: int
    why: Why
    state_from: str | None
    state_to: str
    to_generation: int | None = None
    expected: int | None = None
    kicked_count: int = 0
    pending_sync: int | None = None
    sync_ms: int | None = None
    last_to_sync: Arrival | None = None
    outcome: str | None = None
    ended_by: Ending | None = None
    replaced_member_id: str | None = None
    injected_fault: str | None = None
    activity: Activity | None = None
    reconciliation: Reconciliation | None = None
    offer: Offer | Wish | None = None
    """Whose subscription is read when the JSON is."""
    records: DeliveryFailed | None = None
    topic_changes: tuple[TopicChange, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds, with what it shares with its neighbours."""
        size_bytes = 900 + 2 * len(self.why.about.reason_text)
        if self.reconciliation is not None:
            size_bytes += self.reconciliation.size_bytes
        if self.records is not None:
            size_bytes += 300 + 150 * len(self.records.ranges)
        if self.offer is not None:  # what was before may be shared with another event, and the names with the group
            size_bytes += 200 + self.offer.size_bytes
        if self.topic_changes:
            size_bytes += 150 * len(self.topic_changes)
        return size_bytes + self.why.size_bytes if self.outcome and isinstance(self.why, Course) else size_bytes

    @property
    def group_id(self) -> str:
        """Whose event it is."""
        return self.why.about.group_id

    def __repr__(self) -> str:
        return f"<{self.type} {self.group_id} seq={self.seq} epoch={self.why.about.epoch} {self.why.about.reason}>"

    def document(self) -> dict[str, Any]:
        """The event as JSON values."""
        import json

        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def to_json(self) -> bytes:
        """The event as a JSON object in UTF-8."""
        group_json, cause_json = self.why.head_json()
        state_from = "null" if self.state_from is None else f'"{self.state_from}"'
        document = (
            f'{{"v":{EVENT_VERSION},"event_id":"{self.run}-{self.number}","run":"{self.run}","seq":{self.seq},'
            f'"ts_ms":{self.now.wall_ms},"mono_ms":{self.now.mono_ms},"broker":{self.broker},{group_json},'
            f'"to_generation":{number(self.to_generation)},"type":"{self.type}","state_from":{state_from},'
            f'"state_to":"{self.state_to}",{cause_json},"replaced_member_id":{text(self.replaced_member_id)},'
            f'{self._timeline_json()},"reconciliation":{reconciliation_json(self.reconciliation)},'
            f'"activity":{activity_json(self.activity)},'
            f'"subscription":{subscription_json(self.offer)},"topic_changes":{topic_changes_json(self.topic_changes)},'
            f'"records":{records_json(self.records)},'
            f'"injected_fault":{text(self.injected_fault)}}}'
        )
        return document.encode(
            "utf-8", "backslashreplace"
        )  # half a surrogate pair becomes \udxxx, which JSON knows, too

    def _timeline_json(self) -> str:
        """From `leader_id` to `ended_by`."""
        timeline = self.why
        if isinstance(timeline, EpochCourse):
            return self._epoch_json(timeline)
        if not isinstance(timeline, Timeline):
            return _without_timeline(self.expected, None)
        if self.type == "rebalance_started":  # what came later is none of its business
            return _without_timeline(self.expected, timeline.initial_delay_ms)
        waits, kicked = '"waits":null,"waits_omitted":0', '"kicked":null,"kicked_omitted":0'
        if self.outcome is not None:
            waits, kicked = timeline.waits_json(), kicked_json(timeline.kicked[: self.kicked_count])
        elif self.type == "join_completed":
            kicked = kicked_json(timeline.kicked[: self.kicked_count])
        leader_and_joined, last_to_join, delay_and_protocol = timeline.joined_json()
        join_ms, sync_ms = timeline.join_ms or 0, self.sync_ms
        return (
            f'{leader_and_joined},"kicked":{self.kicked_count},"pending_sync":{number(self.pending_sync)}}},'
            f'"join_ms":{join_ms},"sync_ms":{number(sync_ms)},"total_ms":{join_ms + (sync_ms or 0)},{last_to_join},'
            f'"last_to_sync":{arrival_json(self.last_to_sync)},{waits},{kicked},{delay_and_protocol},'
            f'"outcome":{text(self.outcome)},"ended_by":{ending_json(self.ended_by)}'
        )

    def _epoch_json(self, course: EpochCourse) -> str:
        """As `_timeline_json`, of a group without join and sync phases."""
        kicked = '"kicked":null,"kicked_omitted":0'
        if self.outcome is not None:
            kicked = kicked_json(course.kicked[: self.kicked_count])
        pending = number(self.pending_sync)
        joined = "null" if self.pending_sync is None else str((self.expected or 0) - self.pending_sync)
        found = self.reconciliation
        return (
            f'"leader_id":null,"members":{{"expected":{number(self.expected)},"joined":{joined},'
            f'"kicked":{self.kicked_count},"pending_sync":{pending}}},"join_ms":null,"sync_ms":null,'
            f'"total_ms":{number(None if found is None else found.total_ms)},"last_to_join":null,"last_to_sync":null,'
            f'"waits":null,"waits_omitted":0,{kicked},"initial_delay_ms":null,'
            f'"protocol":{text(None if self.type == "rebalance_started" else course.protocol)},'
            f'"outcome":{text(self.outcome)},"ended_by":{ending_json(self.ended_by)}'
        )


def _without_timeline(expected: int | None, initial_delay_ms: int | None) -> str:
    members = "null"
    if expected is not None:
        members = f'{{"expected":{expected},"joined":null,"kicked":0,"pending_sync":null}}'
    return (
        f'"leader_id":null,"members":{members},"join_ms":null,"sync_ms":null,"total_ms":null,"last_to_join":null,'
        '"last_to_sync":null,"waits":null,"waits_omitted":0,"kicked":null,"kicked_omitted":0,'
        f'"initial_delay_ms":{number(initial_delay_ms)},"protocol":null,"outcome":null,"ended_by":null'
    )
