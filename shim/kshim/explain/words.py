"""An incident in words: what happened, what it did, what to change, and what would tell more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from kshim.explain.causes import Cause
from kshim.explain.disturbances import What
from kshim.explain.effects import Effect
from kshim.explain.facts import CLOSED, DEFAULT_SESSION_MS, SHARE, STREAMS, Kind, Records
from kshim.explain.hypotheses.others import EMPTY
from kshim.explain.incidents import Incident
from kshim.wording import counted

_SENTENCES = {
    Cause.DEPLOY: "Deployment: {clients} of {groups} were stopped in order and replaced.",
    Cause.ASSIGNOR_CHANGED: "Deployment with another assignor: {clients} of {groups} were replaced.",
    Cause.RESTART: "{who} was stopped in order, and it or a successor joined again.",
    Cause.STATIC_RESTART: "{who}, a static member, was restarted within its session timeout.",
    Cause.STATIC_STOPPED: "{who}, a static member, was stopped in order; static members do not leave, so its session expired.",
    Cause.CRASH_LOOP: "{who} crashes and is started again, {times} times until now.",
    Cause.FLAPPING: "{who} leaves and joins again and again, {times} times until now, in good order each time.",
    Cause.SLOW_POLL: "{who} did not call poll() in time while it processed records.",
    Cause.SLOW_LEADER: "{who}, the leader, was slow to send the assignment; all members waited for it.",
    Cause.KILLED: "{who} was killed or crashed: it ended without leaving the group.",
    Cause.PAUSED: "{who} stood still for longer than its session timeout, was removed, and joined again when it went on.",
    Cause.HOST_STALLED: "Host {host} stood still: {clients} fell silent at the same time.",
    Cause.NETWORK_CUT: "On host {host}, {clients} were cut off from the broker: they fell silent at the same time.",
    Cause.BROKER_RESTARTED: "The broker was restarted or the coordinator moved; the members did nothing wrong.",
    Cause.ONE_BY_ONE_START: "{groups} started, with {count} one after the other.",
    Cause.SCALE_UP: "{count_verb} added to {groups}: {clients}.",
    Cause.SCALE_DOWN: "{count_verb} removed from {groups} in order: {clients}.",
    Cause.SHARED_GROUP_ID: "Two applications use the group id {groups}: {clients} subscribe to other topics than the rest.",
    Cause.DUPLICATE_INSTANCE: "Two living processes use the group.instance.id {who} and take it from each other.",
    Cause.PARTITIONS_ADDED: "Topics that {groups} consumes have changed, such as by more partitions.",
    Cause.TOPIC_CREATED: "A topic appeared that matches a pattern of {groups}.",
    Cause.SUBSCRIPTION_CHANGED: "{who} changed its subscription.",
    Cause.REBALANCE_ENFORCED: "The application of {who} asked for a rebalance.",
    Cause.PROTOCOL_CHANGED: "{groups} went over to the other group protocol, classic or consumer, while it had members.",
    Cause.SETTINGS_CHANGED: "The settings with which tasks of {groups} are assigned were changed.",
    Cause.LOCK_TIMEOUT: "{who} was not done with records when its locks ended, {moments} until now: {records}.",
    Cause.POISON_RECORD: "Nobody of {groups} was done with records, and they are delivered to nobody any more: {records}.",
    Cause.RECORDS_RELEASED: "{who} gave back records that had been delivered before, {moments} until now: {records}.",
    Cause.RECORDS_HELD: "{who} has held records for long, by renewing their locks: {records}.",
    Cause.REMOVED_BY_ADMIN: "An administrator removed {clients} from {groups}.",
    Cause.UNKNOWN: "Something disturbed {groups}, which involves {clients}; its cause is unknown.",
}

_ADVICE = {
    Cause.DEPLOY: "Set group.instance.id, so that a process that is back within {session} causes no rebalance.",
    Cause.RESTART: "Set group.instance.id, so that a process that is back within {session} causes no rebalance.",
    Cause.STATIC_STOPPED: "Remove a static member that is not to return with kafka-consumer-groups --delete-members, or "
    "lower {session}.",
    Cause.CRASH_LOOP: "Read the client's log for the crash, and delay restarts meanwhile.",
    Cause.FLAPPING: "Find what stops the process: health checks, an autoscaler, a job that runs on schedule.",
    Cause.SLOW_POLL: "Lower max.poll.records, so that a batch takes less time; a longer {poll} keeps the member, "
    "but the others wait longer for it.",
    Cause.SLOW_LEADER: "Look at the leader's CPU, heap and partition.assignment.strategy.",
    Cause.KILLED: "Look for an OOM kill or a crash on the host; a lower {session} notices it sooner.",
    Cause.PAUSED: "Look for garbage collection and CPU throttling; {session} has to exceed the pause.",
    Cause.HOST_STALLED: "Look at the host, not at the clients.",
    Cause.NETWORK_CUT: "Look at the network between these clients and the broker, with its proxies and firewalls, not at the clients.",
    Cause.ONE_BY_ONE_START: "Raise group.initial.rebalance.delay.ms of the broker, so that they join in one rebalance.",
    Cause.SHARED_GROUP_ID: "Give each application a group.id of its own.",
    Cause.DUPLICATE_INSTANCE: "Give each process a group.instance.id of its own.",
    Cause.PROTOCOL_CHANGED: "Nothing, if it was wanted: group.protocol of its clients decides, and group.consumer.migration.policy of the broker.",
    Cause.LOCK_TIMEOUT: "Fetch fewer records at once (max.poll.records), or acknowledge or renew them sooner. Else raise "
    "group.share.record.lock.duration.ms, or share.record.lock.duration.ms of the group, which is {lock_ms} ms.",
    Cause.POISON_RECORD: "Look at these records, and at the log of the application; their offsets are all that is left of them. "
    "group.share.delivery.count.limit, or share.delivery.count.limit of the group, which is {limit}, says how often they are tried.",
    Cause.RECORDS_RELEASED: "Look in the log of the application for why it cannot process them: after {limit} deliveries "
    "(group.share.delivery.count.limit) they are given up.",
    Cause.RECORDS_HELD: "Look at what the application does with them. As soon as group.share.partition.max.record.locks records "
    "behind the first of them are in flight, nobody gets any more; share.renew.acknowledge.enable=false of the group allows "
    "no renewals.",
    Cause.REMOVED_BY_ADMIN: "Nothing, if it was wanted: a process that still runs joins again by itself. Stop it first, if it is to stay away.",
}

_OF_STREAMS = {
    Cause.SLOW_POLL: "{who} was late to give up its tasks, as it processed records or closed their state.",
}
"""Of streams groups, in place of those above."""

_RETURNS = "Set group.instance.id, and let the process leave for now: its tasks wait for it for {session}."
_ADVICE_OF_STREAMS = _ADVICE | {
    Cause.DEPLOY: _RETURNS,
    Cause.RESTART: _RETURNS,
    Cause.STATIC_STOPPED: "Let a process that is not to return leave for good, or know that a lower {session} notices it sooner.",
    Cause.SLOW_POLL: "Lower max.poll.records, so that it is asked sooner; commit and flush less state at once.",
    Cause.ONE_BY_ONE_START: "Raise group.streams.initial.rebalance.delay.ms, so that members share the tasks from the start.",
    Cause.SETTINGS_CHANGED: "Nothing, if it was wanted: group.streams.num.standby.replicas of the broker, or "
    "streams.num.standby.replicas of the group, decides.",
}
_ADVICE_OF_SHARE = {
    cause: _ADVICE[cause]
    for cause in (Cause.CRASH_LOOP, Cause.FLAPPING, Cause.PAUSED, Cause.HOST_STALLED, Cause.NETWORK_CUT)
} | {
    Cause.KILLED: "Look for an OOM kill or a crash on the host. What it held is there for others when its connection ends, "
    "or its locks (group.share.record.lock.duration.ms).",
}
"""Of share groups: they know no static members, and nobody waits for a rebalance."""
_ADVICE_OF = {STREAMS: _ADVICE_OF_STREAMS, SHARE: _ADVICE_OF_SHARE}
_RESTORING = " Tasks with state had to restore it, unless it was left on disk: group.streams.num.standby.replicas keeps it elsewhere."

_WOULD_TELL = {
    "records": "The broker's log (--broker-log) would tell who left and why; a running kshim tells it itself.",
    "log": "A log has no connections: whether a process ended or stood still is in its own log.",
    "events": "The client's own log would tell.",
}

CERTAIN = 0.8
"""Below this, the runner-up is mentioned."""
_MOVED_SHOWN = 5


_RESTARTED_LATE = "{who}, a static member, was stopped, and started again when its session had expired."
_DID_NOT_LEAVE = (
    "{count_verb} stopped in order and did not leave {groups}, which noticed when the session had expired: {clients}."
)
_LEAVE = (
    "Close it so that it leaves, for which Kafka Streams has CloseOptions, or lower {session}: its partitions have no owner until "
    "its session has expired."
)
_NOT_BACK = "{who} stood still for longer than its session timeout and was removed; it has not joined again."


_NOT_ADMITTED = {
    Cause.ASSIGNOR_CHANGED: "{clients} could not join {groups}: the assignors that they offer are not those that all members have.",
    Cause.SHARED_GROUP_ID: "Two applications use the group id {groups}: {clients} are of another kind than its members, and could not join.",
}
_TWO_STEPS = (
    "Change assignors in two deployments: offer the new one and the old one in partition.assignment.strategy first, "
    "and then the new one alone."
)


def _could_not_join(incident: Incident) -> bool:
    """Whether some clients were refused."""
    return any(each.what is What.NOT_ADMITTED for each in incident.disturbances)


def sentence(incident: Incident) -> str:
    """What happened, in one sentence."""
    names = list(incident.clients)
    if _has_one_begun(incident):
        return f"{_listed(incident.groups)} started with its first member, {_listed(names)}."
    if incident.cause is Cause.NETWORK_CUT and incident.host is None:
        return f"Several hosts were cut off from the broker at the same time: {_listed(names)} fell silent."
    if incident.cause is Cause.UNKNOWN and (text := _seen(incident)) is not None:
        return text
    gone = Counter(each.group for each in incident.disturbances if each.what in (What.DEPARTED, What.REPLACED))
    came = Counter(each.group for each in incident.disturbances if each.what is What.ARRIVED)
    # Members may have one name together; and one process may be a member of several groups.
    count = max([len(names), *came.values(), *gone.values()])
    text = _OF_STREAMS.get(incident.cause) if _type_of(incident) == STREAMS else None
    if incident.cause is Cause.STATIC_RESTART and any(each.fact.kind is Kind.EXPIRED for each in incident.disturbances):
        text = _RESTARTED_LATE
    if incident.cause is Cause.PAUSED and not any(each.life and each.life.next for each in incident.disturbances):
        text = _NOT_BACK
    if incident.cause is Cause.SCALE_DOWN and _left_none(incident):
        text = _DID_NOT_LEAVE
    if _could_not_join(incident) and not any(each.life for each in incident.disturbances):
        text = _NOT_ADMITTED[incident.cause]
    return (text or _SENTENCES[incident.cause]).format(
        who=_who(names),
        clients=_listed(names) or "its members",
        groups=_listed(incident.groups),
        host=incident.host,
        count=counted(count, "member"),
        count_verb=f"{counted(count, 'member')} {'was' if count == 1 else 'were'}",
        # A process that is a member of several groups is gone from each of them.
        times=max(gone.values(), default=0),
        moments=counted(sum(each.times for each in _records(incident)), "time"),
        records=_places(incident),
    )


def _seen(incident: Incident) -> str | None:
    """What is known where the cause is not: that one member was gone, and came back; None: it is something else."""
    if len(incident.clients) != 1 or any(each.what is not What.DEPARTED for each in incident.disturbances):
        return None
    was_gone = f"{incident.clients[0]} was no longer a member of {_listed(incident.groups)}"
    gone = [each for each in incident.disturbances if each.group == incident.groups[0]]
    if len(gone) > 1:
        return f"{was_gone}, {len(gone)} times; why is not known."
    back_ms = gone[0].to_ms - gone[0].fact.ts_ms
    if back_ms > 0:
        return f"{was_gone}, and {seconds(back_ms)} later it or a successor joined; why is not known."
    return f"{was_gone}: it left or was lost, and which of the two is not known."


def _left_none(incident: Incident) -> bool:
    """Whether none of the members that are gone has left: they were closed, and their sessions expired."""
    return all(each.fact.reason == CLOSED or each.fact.kind is Kind.EXPIRED for each in incident.disturbances)


def _has_one_begun(incident: Incident) -> bool:
    """Whether all that happened is that the first member of a group came: nobody waited for anybody."""
    if incident.cause is not Cause.ONE_BY_ONE_START or len(incident.disturbances) > 1:
        return False
    return any(each.text == EMPTY for each in incident.evidence)


def _records(incident: Incident) -> list[Records]:
    return [each.fact.records for each in incident.disturbances if each.fact.records is not None]


def _places(incident: Incident) -> str:
    """Which records, how often they were delivered, and for how long they were held; those that were delivered most first."""
    found = {
        (each.topic, each.partition, one.first_offset, one.last_offset): (one.delivery_count, each.held_ms)
        for each in _records(incident)
        for one in each.ranges
    }
    worst = sorted(found.items(), key=lambda item: -item[1][0])
    return _listed(
        [
            f"{topic}-{partition} {'offset' if first == last else 'offsets'} {first if first == last else f'{first} to {last}'} "
            f"({counted(count, 'delivery', 'deliveries')}, held for up to {seconds(held_ms)})"
            for (topic, partition, first, last), (count, held_ms) in worst
        ]
    )


def _who(names: Sequence[str]) -> str:
    if len(names) > 1:
        return f"One process, with the members {_listed(names)},"
    return names[0] if names else "A member"


def advice(incident: Incident) -> str | None:
    """What to change, with the key to set and the present value of a timeout where it is known; None: nothing."""
    if _has_one_begun(incident):
        return None
    group_type = _type_of(incident)
    text = _ADVICE_OF.get(group_type or "", _ADVICE).get(incident.cause, "")
    if incident.cause is Cause.SCALE_DOWN and _left_none(incident):
        text = _LEAVE
    if incident.cause is Cause.ASSIGNOR_CHANGED and _could_not_join(incident):
        text = _TWO_STEPS
    if group_type == STREAMS and any(not each.had_state for effect in incident.effects for each in effect.moved):
        text += _RESTORING
    session_ms, rebalance_ms = incident.timeouts
    session, is_told = _session_key(incident)
    if not is_told and session_ms == DEFAULT_SESSION_MS:  # what is assumed where no record says it
        session_ms = None
    records = next(reversed(_records(incident)), None)
    told = text.format(
        session=f"{session}{_now(session_ms)}",
        poll=f"max.poll.interval.ms{_now(rebalance_ms)}",
        lock_ms=None if records is None else records.lock_ms,
        limit=None if records is None else records.delivery_count_limit,
    )
    return told.strip() or None


def _session_key(incident: Incident) -> tuple[str, bool]:
    """What decides how long a member may be silent, and whether members tell what it is: else it is a setting of the broker or the group."""
    group_type = _type_of(incident)
    if group_type in _ADVICE_OF:
        return f"group.{group_type}.session.timeout.ms", False
    if any(each.has_epochs for each in incident.effects):
        return "consumer.session.timeout.ms of the group", False
    return "session.timeout.ms", True


def _now(value_ms: int | None) -> str:
    return "" if value_ms is None else f" (now {value_ms / 1_000:g} s)"


def _type_of(incident: Incident) -> str | None:
    if _records(incident):
        return None  # these causes are of share groups alone
    return next((effect.group_type for effect in incident.effects if effect.group_type is not None), None)


def would_tell(incident: Incident) -> str | None:
    """Where to look for what is not known; None: it is certain enough."""
    if incident.cause is not Cause.UNKNOWN and incident.confidence >= CERTAIN:
        return None
    source = next((each.fact.source for each in incident.disturbances), "")
    return _WOULD_TELL["events" if source.startswith("event") else "log" if source.startswith("log") else "records"]


def effect_text(effect: Effect) -> str:
    """What it did to one group."""
    parts = [f"{effect.group}: {counted(effect.rebalance_count, 'rebalance')}"]
    if effect.join_ms is not None:
        phase, what = ("REVOKE", "revoke") if effect.has_epochs else ("JOIN", "join")
        last = f" (last to {what}: {effect.last_to_join})" if effect.last_to_join is not None else ""
        parts.append(f"{phase} took {seconds(effect.join_ms)}{last}")
    if effect.sync_ms is not None:
        parts.append(f"SYNC took {seconds(effect.sync_ms)}")
    if effect.unowned_ms is not None:
        what = "tasks" if effect.group_type == STREAMS else "partitions"
        parts.append(f"{what} had no living owner for {seconds(effect.unowned_ms)}")
    for each in effect.moved[:_MOVED_SHOWN]:
        state = "had its state as a standby task" if each.had_state else "had no standby task of it"
        way = f"went from {each.from_client} to {each.to_client}, which {state}"
        parts.append(f"task {each.task} {way}, after {seconds(each.unowned_ms)} without a living owner")
    if len(effect.moved) > _MOVED_SHOWN:
        parts.append(f"{len(effect.moved) - _MOVED_SHOWN} more tasks moved")
    return f"{', '.join(parts)}. [{'observed' if effect.is_observed else 'inferred'}]"


def seconds(duration_ms: int) -> str:
    """A duration.

    >>> seconds(80), seconds(12_340)
    ('0.08 s', '12.3 s')
    """
    return f"{duration_ms / 1_000:.2f} s" if duration_ms < 1_000 else f"{duration_ms / 1_000:.1f} s"


def time_text(ts_ms: int) -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(ts_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _listed(names: Sequence[str]) -> str:
    shown = [*names[:5], *([f"{len(names) - 5} more"] if len(names) > 5 else [])]
    return shown[0] if len(shown) == 1 else " and ".join([", ".join(shown[:-1]), shown[-1]]) if shown else ""
