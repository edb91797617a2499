"""Where faults meet the brokers of a cluster: before the handlers of the APIs that rules are for, and before appends.

Both are in place only while a rule is in force that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.broker.connection import ConnectionClosing
from kshim.broker.request import PendingReply, answered
from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Now, RequestContext, Step
from kshim.faults.codes import level_of
from kshim.faults.entries import EVERY_API, Entry, changed, entries_of, error_levels, shape_of
from kshim.faults.faults import Fault, Faults
from kshim.faults.refusal import Refusal
from kshim.faults.request import AUTHENTICATION, FaultableRequest, names_in
from kshim.faults.rule import APPEND, InvalidRule, Rule
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Handler
    from kshim.broker.router import Router
    from kshim.faults.faults import Firing
    from kshim.partitions.partition import Partition
    from kshim_protocol.apis import Api


class InjectedLogError(LogError):
    """The disk is full, because a rule says so: no defect, and no disk has failed."""

    is_injected = True


class FaultInjector:
    """Carries out the rules in `faults`. `routers` are those of all nodes of the cluster, `now` is the group clock."""

    def __init__(self, cluster: Cluster, routers: Sequence[Router], now: Callable[[], Now]) -> None:
        self.cluster = cluster
        self.now = now
        self.faults = Faults()
        self.faults.on_change = self._changed
        self.faults.on_fired.append(self._tell_history)
        self.faults.checks.append(self._check)
        self._routers = routers
        self._apis: frozenset[str] = frozenset()
        self.appending: list[Appending] = []
        """Requests at work whose appends a rule is for."""
        self.loads: dict[tuple[str, int], object] = {}
        """What ends the loading that a rule has begun, by topic and partition; the last one counts."""

    def append_gate(self) -> None:
        """Look before each append as long as there is a reason."""
        is_needed = bool(self.appending) or APPEND in self._apis
        self.cluster.partitions.before_append = self._before_append if is_needed else None

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic, None for an unknown id."""
        topic = self.cluster.topics.with_id(topic_id)
        return None if topic is None else topic.name

    # Rules

    def _check(self, rule: Rule) -> None:
        """Raises InvalidRule."""
        node_ids = self.cluster.leadership.node_ids
        if rule.action.name == "not_coordinator" and len(node_ids) < 2:
            raise InvalidRule("not_coordinator moves the coordinator to another broker, and there is only one: run two")
        if rule.match.broker is not None and rule.match.broker not in node_ids:
            raise InvalidRule(f"there is no broker {rule.match.broker}: the ids are {', '.join(map(str, node_ids))}")

    def _changed(self) -> None:
        apis = frozenset(fault.rule.api for fault in self.faults.active)
        if apis != self._apis:
            self._apis = apis
            for router in self._routers:
                router.intercept(self._wrap if apis - {APPEND} else None)
        self.append_gate()

    def _tell_history(self, firing: Firing) -> None:
        for group_id in firing.groups:
            self.cluster.history.fault_injected(group_id, firing.rule)

    # Requests

    def _wrap(self, api: Api, handler: Handler) -> Handler:
        """The handler of an API behind its rules."""
        if api.name not in self._apis and EVERY_API not in self._apis:
            return handler

        def handle(node: Node, request: Any, context: RequestContext, ticket: PendingReply) -> Step:
            if not ticket.connection.is_authenticated and api.name not in AUTHENTICATION:
                return handler(node, request, context, ticket)
            facts = self._facts(api, node, request, context, ticket)
            fault = self.faults.take(facts)
            if fault is None:
                return handler(node, request, context, ticket)
            return _ACTIONS[fault.rule.action.name](
                Injection(self, fault, facts, node, request, context, ticket, handler)
            )

        return handle

    def _facts(
        self, api: Api, node: Node, request: Any, context: RequestContext, ticket: PendingReply
    ) -> FaultableRequest:
        version = context.api_version
        named = self.named(node, request)
        entries = tuple(dict.fromkeys(entries_of(api.name, version, named, self.topic_name)))
        return FaultableRequest(
            api.name,
            version,
            ticket.header.correlation_id,
            context.client_id,
            context.client_host,
            ticket.connection.listener_name,
            node.node_id,
            *names_in(request, entries),
            entries,
        )

    @staticmethod
    def named(node: Node, request: Any) -> Any:
        """The request with all that it is for: an incremental Fetch does not name what its session knows."""
        if not isinstance(getattr(request, "session_epoch", None), int) or request.session_epoch <= 0:
            return request
        return changed(request, topics=(*node.fetch_sessions.topics_of(request.session_id), *request.topics))

    # Appends

    def _before_append(self, partition: Partition) -> None:
        """Raises InjectedLogError."""
        for appending in self.appending:
            if appending.is_for(partition):
                self._act_on_append(appending.injection.fault, partition)
                return
        topic, index = partition.topic.name, partition.index
        leader_id = partition.leader.leader_id
        facts = FaultableRequest(APPEND, -1, -1, None, "", "", leader_id, (), (), (), (), (Entry(None, topic, index),))
        fault = self.faults.take(facts)
        if fault is not None:
            self.faults.fired(fault, facts, self.now())
            self._act_on_append(fault, partition)

    def _act_on_append(self, fault: Fault, partition: Partition) -> None:
        action = fault.rule.action
        if action.name == "disk_full":
            raise InjectedLogError(f"cannot write to {partition!r}: No space left on device ({fault.rule.name})")
        assert isinstance(action.value, int | float)
        self.cluster.durability.hold(partition, _ms(action.value))


class Appending:
    """A request at work. `left`: the partitions that it is going to append to; None for all that is appended now."""

    def __init__(self, injection: Injection, left: set[tuple[str | None, int | None]] | None) -> None:
        self.injection = injection
        self.left = left
        self._has_fired = False

    def is_for(self, partition: Partition) -> bool:
        """Whether the rule is for what is about to be appended there; of a partition only once."""
        if self.left is not None:
            place = partition.topic.name, partition.index
            if place not in self.left:
                return False
            self.left.discard(place)
        if not self._has_fired:
            self._has_fired = True
            self.injection.fired()
        return True


class Injection(NamedTuple):
    """One request that a fault acts on."""

    injector: FaultInjector
    fault: Fault
    facts: FaultableRequest
    node: Node
    request: Any
    context: RequestContext
    ticket: PendingReply
    handler: Handler

    def fired(self) -> None:
        """Record that the fault has acted."""
        self.injector.faults.fired(self.fault, self.facts, self.injector.now())

    def takes(self, entry: Entry) -> bool:
        """Whether the fault is for this part of the request."""
        return self.fault.rule.match.takes(entry)

    def proceed(self, request: Any = None, on_reply: Callable[[PendingReply, Any], None] | None = None) -> Step:
        """Have the request handled; `on_reply` gets the ticket and the answer, now or later, instead of the client."""
        request = self.request if request is None else request
        ticket = self.ticket
        if on_reply is not None or request is not self.request:
            ticket = InterceptedReply(self.ticket, request, on_reply or PendingReply.complete)
        try:
            return self.handler(self.node, request, self.context, ticket)
        except KafkaError as error:
            return answered(ticket, request.error_response(error.code, self.facts.version, error.message))

    def when_replied(self, act: Callable[[PendingReply, Any], None]) -> Step:
        """Have the request handled; `act` instead of sending the answer."""

        def on_reply(ticket: PendingReply, response: Any) -> None:
            if not ticket.connection.is_closed:
                self.fired()
                act(ticket, response)

        return self.proceed(on_reply=on_reply)

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Do something later, unless the client is gone by then."""

        def act_if_open() -> None:
            if not self.ticket.connection.is_closed:
                act()

        self.injector.cluster.timers.after(delay_ms, act_if_open, name="fault")

    def hang_up(self) -> None:
        """Close the connection, outside of the handling of a request."""
        self.ticket.connection.hang_up(f"injected fault: {self.fault.rule.name}")


class InterceptedReply(PendingReply):
    """The ticket of a request whose answer goes through a fault first."""

    __slots__ = ("_on_reply", "_whole")

    def __init__(self, whole: PendingReply, request: Any, on_reply: Callable[[PendingReply, Any], None]) -> None:
        super().__init__(whole.connection, whole.header, whole.route, request)
        self._whole = whole
        self._on_reply = on_reply

    def complete(self, response: Any) -> None:
        """See `PendingReply.complete`."""
        self.is_answered = True
        self._on_reply(self._whole, response)


class AlteredConnection:
    """A connection whose answers go out in another form."""

    def __init__(self, connection: Connection, alter: Callable[[bytes], bytes]) -> None:
        self._connection = connection
        self._alter = alter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """See `Connection.reply`."""
        self._connection.reply(None if frame is None else self._alter(b"".join((frame, *rest))))


# What happens


def _error(injection: Injection) -> Step:
    """Answer with the error, where it belongs; what the rule is not for is really done."""
    action, facts, request = injection.fault.rule.action, injection.facts, injection.request
    code = ErrorCode[str(action.value)]
    level = action.option or level_of(facts.api, code.name, injection.fault.rule.match.nearest_kinds)
    shape = shape_of(facts.api, facts.version)
    has_level = shape is not None and level in shape.kinds and level in error_levels(facts.api, facts.version)
    injection.fired()
    if shape is None or not has_level or not (facts.entries or shape.reads):
        message = f"Injected fault: {injection.fault.rule.name}"
        return _refuse(injection, request.error_response(code, facts.version, message))
    refusal = Refusal(
        shape, level, facts.version, code, injection.fault.rule.match.covers, injection.injector.topic_name
    )
    rest = refusal.rest_of(request)
    if rest is None:
        return _refuse(injection, refusal.of_all(request, injection.ticket.route.api.response_class()))
    named = injection.injector.named(injection.node, request)

    def merge(ticket: PendingReply, response: Any) -> None:
        if response is None:  # Produce with acks=0
            injection.after(0, injection.hang_up)
        else:
            ticket.complete(refusal.merged_into(response, named))

    return injection.proceed(rest, merge)


def _refuse(injection: Injection, response: Any) -> Step:
    """Answer with errors only. Who asked for no answer is cut off, as Kafka does."""
    if injection.facts.api == "Produce" and injection.request.acks == 0:
        raise ConnectionClosing(f"injected fault: {injection.fault.rule.name}, and Produce with acks=0")
    if injection.facts.api in AUTHENTICATION:  # as Kafka does after a failed one
        injection.after(0, injection.hang_up)
    return answered(injection.ticket, response)


def _delay(injection: Injection) -> Step:
    seconds, when = injection.fault.rule.action[1:]
    assert isinstance(seconds, int | float)
    if when == "after":
        return injection.when_replied(
            lambda ticket, response: injection.after(_ms(seconds), lambda: ticket.complete(response))
        )
    injection.fired()
    injection.injector.cluster.timers.after(_ms(seconds), lambda: _resume(injection), name="fault")
    return Step()


def _resume(injection: Injection) -> None:
    """Handle a request that was held back, as of now. What a client has sent is done, also when it is gone."""
    if injection.ticket.connection.is_closed and injection.facts.api == "Fetch":
        return
    context, now = injection.context, injection.injector.now()
    context.real_ms += now.mono_ms - context.now.mono_ms
    context.now = now
    cluster = injection.node.cluster
    try:
        cluster.apply(injection.proceed())
    except ConnectionClosing as closing:
        injection.ticket.connection.hang_up(str(closing))
    except Exception as error:
        cluster.defect(error, injection.request)
        if not injection.ticket.is_answered:
            injection.ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


def _hang(injection: Injection) -> Step:
    injection.fired()
    return Step()


def _drop_reply(injection: Injection) -> Step:
    return injection.when_replied(lambda ticket, response: None)


def _disconnect(injection: Injection) -> Step:
    if injection.fault.rule.action.value == "before":
        injection.fired()
        raise ConnectionClosing(f"injected fault: {injection.fault.rule.name}")
    return injection.when_replied(lambda ticket, response: injection.after(0, injection.hang_up))


def _throttle(injection: Injection) -> Step:
    def act(ticket: PendingReply, response: Any) -> None:
        if hasattr(response, "throttle_time_ms"):
            response = changed(response, throttle_time_ms=injection.fault.rule.action.value)
        ticket.complete(response)

    return injection.when_replied(act)


def _truncate(injection: Injection) -> Step:
    def act(ticket: PendingReply, response: Any) -> None:
        def send() -> None:
            ticket.connection = _altered(ticket.connection, lambda frame: frame[: (len(frame) + 4) // 2])
            ticket.complete(response)
            injection.hang_up()

        injection.after(0, send)

    return injection.when_replied(act)


def _corrupt(injection: Injection) -> Step:
    def act(ticket: PendingReply, response: Any) -> None:
        ticket.connection = _altered(ticket.connection, _inverted)
        ticket.complete(response)

    return injection.when_replied(act)


def _inverted(frame: bytes) -> bytes:
    """Size and correlation id as they are, every bit behind them the other way."""
    return frame[:8] + bytes(byte ^ 0xFF for byte in frame[8:])


def _oversize(injection: Injection) -> Step:
    size_bytes = injection.fault.rule.action.value
    assert isinstance(size_bytes, int)

    def act(ticket: PendingReply, response: Any) -> None:
        ticket.connection = _altered(ticket.connection, lambda frame: size_bytes.to_bytes(4, "big") + frame[4:])
        ticket.complete(response)

    return injection.when_replied(act)


def _altered(connection: Connection, alter: Callable[[bytes], bytes]) -> Connection:
    altered: Any = AlteredConnection(connection, alter)
    connection_like: Connection = altered
    return connection_like


def _stale_generation(injection: Injection) -> Step:
    request = injection.request
    for field in ("generation_id", "generation_id_or_member_epoch"):
        if hasattr(request, field):
            injection.fired()
            return injection.proceed(changed(request, **{field: max(getattr(request, field), 0) - 1}))

    def act(ticket: PendingReply, response: Any) -> None:
        if response.error_code == ErrorCode.NONE:
            response = changed(response, generation_id=response.generation_id - 1)
        ticket.complete(response)

    return injection.when_replied(act)


def _not_coordinator(injection: Injection) -> Step:
    cluster, node = injection.injector.cluster, injection.node
    others = [node_id for node_id in cluster.leadership.live_ids if node_id != node.node_id]
    shards = _shards(injection)
    if not others or not shards:
        injection.fired()
        return answered(
            injection.ticket, injection.request.error_response(ErrorCode.NOT_COORDINATOR, injection.facts.version)
        )
    injection.fired()
    for topic, index in shards:
        if cluster.leader_of(topic, index) == node.node_id:
            cluster.leader_election.move(topic, index, others[0])
    return injection.proceed()


def _loading(injection: Injection) -> Step:
    seconds = injection.fault.rule.action.value
    assert isinstance(seconds, int | float)
    injection.fired()
    for topic, index in _shards(injection):
        _begin_loading(injection.injector, topic, index, _ms(seconds))
    return injection.proceed()


def _begin_loading(injector: FaultInjector, topic: str, index: int, duration_ms: int) -> None:
    host = injector.cluster.coordinators[topic]
    token = injector.loads[topic, index] = object()

    def end() -> None:
        if injector.loads.get((topic, index)) is token:
            del injector.loads[topic, index]
            if host.coordinator.is_loading(index) and not host.loader.is_pending(index):
                host.loader.drop(index, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                host.loader.load(index)

    host.loader.drop(index, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    # Not merely gone: heartbeats of a group that is loading are answered without an error.
    host.coordinator.begin_load(index)
    injector.cluster.timers.after(duration_ms, end, name="fault")


def _shards(injection: Injection) -> list[tuple[str, int]]:
    """(topic, partition) of the coordinators that the request is for."""
    cluster, request = injection.injector.cluster, injection.request
    transactional_id = getattr(request, "transactional_id", None)
    if transactional_id and injection.facts.api != "TxnOffsetCommit":
        cluster.transactions.topic()
        return [(TRANSACTIONS_TOPIC, cluster.transactions.coordinator.partition_for(transactional_id))]
    match = injection.fault.rule.match
    groups = [
        group
        for group in injection.facts.groups
        if match.group is None or match.takes(Entry(group, match.topic, match.partition))
    ]
    if groups:
        cluster.groups.topic()
    return list(dict.fromkeys((OFFSETS_TOPIC, cluster.groups.coordinator.partition_for(group)) for group in groups))


def _on_appends(injection: Injection) -> Step:
    """Handle the request; what it appends meanwhile is acted on."""
    injector = injection.injector
    left = None
    if injection.facts.api == "Produce":  # which may append later, when large batches have been checked
        left = {(entry.topic, entry.partition) for entry in injection.facts.entries if injection.takes(entry)}
    appending = Appending(injection, left)
    injector.appending.append(appending)
    injector.append_gate()

    def end() -> None:
        if appending in injector.appending:
            injector.appending.remove(appending)
            injector.append_gate()

    def on_reply(ticket: PendingReply, response: Any) -> None:
        end()
        ticket.complete(response)

    try:
        step = injection.proceed(on_reply=on_reply)
        if left is not None:
            return step
        injector.cluster.apply(step)
    except BaseException:
        end()
        raise
    end()
    return Step()


def _ms(seconds: float) -> int:
    return max(round(seconds * 1_000), 1)


_ACTIONS: Final[dict[str, Callable[[Injection], Step]]] = {
    "error": _error,
    "delay": _delay,
    "hang": _hang,
    "drop_reply": _drop_reply,
    "disconnect": _disconnect,
    "throttle": _throttle,
    "truncate": _truncate,
    "corrupt": _corrupt,
    "oversize": _oversize,
    "stale_generation": _stale_generation,
    "not_coordinator": _not_coordinator,
    "loading": _loading,
    "disk_full": _on_appends,
    "slow_fsync": _on_appends,
}
