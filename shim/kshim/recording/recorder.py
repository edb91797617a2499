"""Writes down what a broker is asked and answers, as it happens. Stands directly before the handlers of each node.

What clients send to authenticate never comes that far; whatever else may hold a secret is left out here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kshim.broker.cluster import RandomIds
from kshim.broker.connection import Connection, ConnectionClosing
from kshim.coordinator.step import Now
from kshim.faults.document import document_of_rule
from kshim.recording.format import Encoder, Kind, as_json
from kshim.recording.operations import document_of_record
from kshim.recording.secrets import is_secret_request, may_be_secret
from kshim.recording.start import start_fields, stored_batches
from kshim_protocol.apis import API_TABLE

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.broker.request import PendingReply, Route
    from kshim.broker.router import Router
    from kshim.faults.faults import Faults, Firing
    from kshim_protocol.schema import Request

BUFFER_BYTES: Final = 64 << 10
"""So much is held back at most, uncompressed, besides the entry that is being written."""
FLUSH_MS: Final = 500
"""So long it is held back at most: what a crash can lose."""
FRAME_MAX_BYTES: Final = 8 << 20
"""Longer frames are not written."""
MAX_BYTES: Final = 1 << 30
"""Default limit of a recording's file."""

_key_and_version = Struct(">hh").unpack_from


class Recorder:
    """One recording. `write` takes its bytes and may raise OSError; `on_end` is called when it ends early, with why.

    `now` is the group clock, `real_ms` the real one. Call `stand_before` with each router before anything else stands
    before it, and `begin` once the cluster was started, before the first request.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        now: Callable[[], Now],
        real_ms: Callable[[], int],
        on_end: Callable[[str], None] = lambda why: None,
        max_bytes: int = MAX_BYTES,
        version: str = "",
    ) -> None:
        self._write = write
        self._now, self._real_ms = now, real_ms
        self._on_end = on_end
        self._max_bytes = max_bytes
        self._version = version
        self._encoder = Encoder()
        self._written_bytes = 0
        self._is_on = False
        self._is_flush_set = False
        self._depth = 0
        """Over 0 while something is done that is recorded already."""
        self._at: tuple[Now, int] | None = None
        """The instant of what is being done."""
        self.request_number = 0
        """The number of the last request."""
        self._plain: set[bytes] = set()
        """API key and version of requests that never hold a secret."""
        self._hidden: set[int] = set()
        """Requests whose answers are not written."""
        self._connection_count = 0
        self._connections: dict[Connection, tuple[int, str]] = {}
        self._nodes: dict[int, dict[str, tuple[str, int]]] = {}
        self._cluster: Cluster | None = None

    # Being put in place

    def random_ids(self, random_ids: RandomIds) -> RandomIds:
        """The same source of random ids, whose draws are recorded."""

        def new_member_suffix() -> str:
            suffix = random_ids.new_member_suffix()
            self._add(Kind.DRAWN, 0, suffix.encode())
            return suffix

        def new_topic_id() -> bytes:
            topic_id = random_ids.new_topic_id()
            self._add(Kind.DRAWN, 1, topic_id)
            return topic_id

        return RandomIds(new_member_suffix, new_topic_id)

    def stand_before(self, router: Router) -> None:
        """Record the requests of a node. Nothing else may stand before its handlers yet."""
        recorder, handle, node = self, router.route, router.node
        replaced = router.new_reply

        class RecordedReply(replaced):  # type: ignore[misc, valid-type]
            """Writes the answer down before it is sent."""

            __slots__ = ("number",)

            def __init__(
                self, connection: Connection, correlation_id: int, route: Route, request: Request[Any]
            ) -> None:
                super().__init__(connection, correlation_id, route, request)
                self.number = recorder.request_number

            def complete(self, response: Any) -> None:
                ticket: PendingReply = self
                connection = ticket.connection
                if connection.is_closed:
                    return
                ticket.connection = _Tap(recorder, connection, self.number)  # type: ignore[assignment]
                try:
                    super().complete(response)
                finally:
                    ticket.connection = connection

        def route(frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
            if not recorder._is_on or not connection.is_authenticated:
                handle(frame, connection, now, real_ms)
                return
            recorder._at = (now, real_ms)
            recorder._depth += 1
            try:
                recorder._asked(frame, connection, node.node_id)
                handle(frame, connection, now, real_ms)
            except ConnectionClosing as closing:
                recorder._add(Kind.REFUSED, recorder.request_number, str(closing).encode())
                raise
            finally:
                recorder._depth -= 1
                recorder._at = None

        router.route = route
        router.new_reply = RecordedReply
        router.on_closed.append(self._closed)
        self._follow_timers(router)

    def begin(self, cluster: Cluster) -> None:
        """Write what the cluster holds, and go on from there."""
        self._cluster = cluster
        self._is_on = True
        self._put(self._encoder.header())
        fields, partitions = start_fields(cluster, self._version)
        self._add(Kind.START, 0, as_json(fields))
        for index, partition in enumerate(partitions):
            for run in stored_batches(partition):
                self._add(Kind.STORED, index, run)
        self.flush()
        cluster.operation.around = self.operation

    def _follow_timers(self, router: Router) -> None:
        """Record when timers fire: their order among requests decides about answers."""
        advance, advance_real = router.advance, router.advance_real
        cluster = router.node.cluster

        def advance_recorded(now: Now) -> None:
            due_ms = cluster.next_group_deadline()
            if due_ms is None or due_ms > now.mono_ms:
                advance(now)
                return
            self._during(Kind.GROUP_TIMERS, now, self._real_ms(), lambda: advance(now))

        def advance_real_recorded(real_ms: int) -> None:
            due_ms = cluster.fetch_purgatory.next_deadline()
            if due_ms is None or due_ms > real_ms:
                advance_real(real_ms)
                return
            self._during(Kind.FETCH_TIMERS, self._now(), real_ms, lambda: advance_real(real_ms))

        router.advance, router.advance_real = advance_recorded, advance_real_recorded  # type: ignore[method-assign]

    def follow_faults(self, faults: Faults) -> None:
        """Record which rules are put in force, before any is, and when they fire."""

        def fired(firing: Firing) -> None:
            self._add(Kind.FAULT, self.request_number, as_json({"fault": firing.rule, "text": str(firing)}))

        faults.operation.around = self.operation
        faults.on_fired.append(fired)

    # What happens

    def operation(self, what: str, arguments: Mapping[str, Any], do: Callable[[], Any]) -> Any:
        """Do something that no client asked for, recorded unless it is part of what is recorded already.

        A replay knows those of `kshim.recording.operations`; others it lists as not played.
        """
        if self._depth or not self._is_on:
            return do()
        if what == "produce":
            arguments = {**arguments, "records": [document_of_record(record) for record in arguments["records"]]}
        elif what == "arm-fault":
            arguments = {"fault": document_of_rule(arguments["fault"])}
        return self._during(Kind.OPERATION, self._now(), self._real_ms(), do, as_json({"what": what, **arguments}))

    def answered(self, number: int, frame: bytes | None) -> None:
        """The answer to a request goes out; `frame` with its size."""
        if not number or not self._is_on:
            return
        if frame is None:
            self._add(Kind.NO_ANSWER, number)
        elif self._hidden and number in self._hidden:
            self._hidden.discard(number)
            self._add(Kind.HIDDEN_ANSWER, number, as_json({"reason": "secret"}))
        elif len(frame) > FRAME_MAX_BYTES:
            self._add(Kind.HIDDEN_ANSWER, number, as_json({"reason": "long", "bytes": len(frame) - 4}))
        else:
            self._add(Kind.ANSWER, number, frame[4:])

    def _asked(self, frame: bytes, connection: Connection, node_id: int) -> None:
        known = self._connections.get(connection)
        if known is None:
            known = self._connected(connection, node_id)
        number, principal = known
        if connection.principal != principal:
            self._connections[connection] = number, connection.principal
            self._add(Kind.PRINCIPAL, number, as_json({"principal": connection.principal}))
        self.request_number += 1
        if frame[:4] in self._plain and len(frame) <= FRAME_MAX_BYTES:
            self._add(Kind.REQUEST, number, frame)
            return
        key, version = _key_and_version(frame) if len(frame) >= 8 else (-1, -1)
        api = API_TABLE.get(key)
        reason = None
        if api is None or version < 0:
            reason = "unknown"
        elif len(frame) > FRAME_MAX_BYTES:
            reason = "long"
        elif is_secret_request(frame, key, version):
            reason = "secret"
            self._hidden.add(self.request_number)
        if reason is None:
            if not may_be_secret(key):
                self._plain.add(frame[:4])
            self._add(Kind.REQUEST, number, frame)
            return
        hidden = {"reason": reason, "bytes": len(frame)}
        if api is not None:
            hidden |= {"api": api.name, "version": version}
        self._add(Kind.HIDDEN_REQUEST, number, as_json(hidden))

    def _connected(self, connection: Connection, node_id: int) -> tuple[int, str]:
        assert self._cluster is not None
        nodes = {
            known_id: {connection.listener_name: node.address(connection.listener_name)}
            for known_id, node in self._cluster.known_nodes.items()
        }
        if not all(where.items() <= self._nodes.get(known_id, {}).items() for known_id, where in nodes.items()):
            self._nodes = {known_id: {**self._nodes.get(known_id, {}), **where} for known_id, where in nodes.items()}
            self._add(Kind.NODES, 0, as_json({str(known_id): where for known_id, where in self._nodes.items()}))
        self._connection_count += 1
        known = self._connections[connection] = self._connection_count, connection.principal
        about = {
            "node": node_id,
            "host": connection.client_host,
            "listener": connection.listener_name,
            "protocol": connection.security_protocol,
            "principal": connection.principal,
        }
        self._add(Kind.CONNECTED, known[0], as_json(about))
        return known

    def _closed(self, connection: Connection) -> None:
        known = self._connections.pop(connection, None)
        if known is not None:
            self._add(Kind.DISCONNECTED, known[0])

    def _during(self, kind: Kind, now: Now, real_ms: int, do: Callable[[], Any], payload: bytes = b"") -> Any:
        before = self._at
        self._at = (now, real_ms)
        self._add(kind, 0, payload)
        self._depth += 1
        try:
            return do()
        finally:
            self._depth -= 1
            self._at = before

    # The file

    def _add(self, kind: Kind, subject: int = 0, payload: bytes = b"") -> None:
        if not self._is_on:
            return
        now, real_ms = self._at or (self._now(), self._real_ms())
        encoder = self._encoder
        encoder.add(kind, now, real_ms, subject, payload)
        if encoder.pending_bytes > BUFFER_BYTES:
            self.flush()
        elif not self._is_flush_set:
            assert self._cluster is not None
            self._is_flush_set = True
            self._cluster.timers.after(FLUSH_MS, self._flush_later, name="recording")

    def _flush_later(self) -> None:
        self._is_flush_set = False
        self.flush()

    def flush(self) -> None:
        """Write what is held back."""
        block = self._encoder.block()
        if self._is_on and block:
            self._put(block)
            if self._written_bytes > self._max_bytes and self._is_on:
                self._end(f"it has reached its limit of {self._max_bytes} bytes")

    def close(self) -> None:
        """End the recording; what happens after that is not recorded."""
        if self._is_on:
            self._end(None)

    def _end(self, why: str | None) -> None:
        self._encoder.add(Kind.END, self._now(), self._real_ms(), 0, as_json({"why": why}))
        block = self._encoder.block()
        self._put(block)
        if self._is_on and why is not None:
            self._on_end(why)
        self._is_on = False

    def _put(self, data: bytes) -> None:
        try:
            self._write(data)
        except OSError as error:
            self._is_on = False
            self._on_end(f"its file cannot be written: {error.strerror or error}")
        else:
            self._written_bytes += len(data)


class _Tap:
    """Stands for a connection while an answer is made, and writes it down before it is sent."""

    __slots__ = ("_connection", "_number", "_recorder")

    is_closed = False

    def __init__(self, recorder: Recorder, connection: Connection, number: int) -> None:
        self._recorder = recorder
        self._connection = connection
        self._number = number

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """See `Connection.reply`."""
        self._recorder.answered(self._number, None if frame is None else b"".join((frame, *rest)))
        self._connection.reply(frame, rest)
