"""How ACLs apply to a request: its handler receives only what is allowed, and its response has errors for the rest.

A guard is a function of one API, in `guards/`: it gets a `Call` and either answers or lets the handler run, on a part
of the request, and merges what it refused into the answer, whenever that comes. Without an authorizer none is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kshim.broker.request import PendingReply, answered
from kshim.coordinator.step import RequestContext, Step
from kshim.security.authorizer.authorizer import Authorizer, Caller
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.broker.request import Handler
    from kshim_protocol.apis import Api
    from kshim_protocol.schema import Request, Struct


S = TypeVar("S", bound="Struct")
Guard = Callable[["Call"], Step]
G = TypeVar("G", bound=Guard)

UNGUARDED: Final = frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"})
"""Requests that every client may send."""
GUARD_MODULES: Final = ("records", "groups", "topics", "transactions", "configs", "clusters")
"""Modules of `guards/`; the guards of an API are found by its name."""

WORDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's sentence about each refusal."""


def guards(*api_names: str) -> Callable[[G], G]:
    """Mark the guard of some APIs, by Kafka's names."""

    def mark(guard: G) -> G:
        guard.api_names = api_names  # type: ignore[attr-defined]
        return guard

    return mark


def guarded(api: Api, handler: Handler, authorizer: Authorizer) -> Handler:
    """The handler of an API behind its guard."""
    if api.name in UNGUARDED:
        return handler
    guard = find_guard(api)

    def handle(node: Node, request: Request[Any], context: RequestContext, ticket: PendingReply) -> Step:
        caller = Caller(authorizer, ticket.connection.principal, context.client_host.removeprefix("/"))
        return guard(Call(caller, node, request, context, ticket, handler))

    return handle


def find_guard(api: Api) -> Guard:
    """The guard of an API. An API without one is restricted to clients that may alter the cluster."""
    for name in GUARD_MODULES:
        for value in vars(import_module(f"kshim.broker.guards.{name}")).values():
            if api.name in getattr(value, "api_names", ()):
                found: Guard = value
                return found
    return closed


def closed(call: Call) -> Step:
    """Allow only clients that may alter the cluster."""
    if call.caller.may(Operation.ALTER, ResourceType.CLUSTER):
        return call.proceed()
    return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Call(NamedTuple):
    """One request before its handler, and its principal."""

    caller: Caller
    node: Node
    request: Any
    context: RequestContext
    ticket: PendingReply
    handler: Handler

    @property
    def version(self) -> int:
        """That of the request."""
        return self.context.api_version

    def proceed(self, request: Any = None, merge: Callable[[Any], Any] | None = None) -> Step:
        """Run the handler, on `request` if given; `merge` makes the final answer of the handler's, now or later."""
        request = self.request if request is None else request
        ticket = self.ticket if merge is None else MergedReply(self.ticket, request, merge)
        if merge is None and request is self.request:
            return self.handler(self.node, request, self.context, ticket)
        try:
            return self.handler(self.node, request, self.context, ticket)
        except KafkaError as error:  # of what was allowed; the rest keeps its refusal
            return answered(ticket, request.error_response(error.code, self.version, error.message))

    def refuse(self, error: ErrorCode) -> Step:
        """Answer the whole request with `error`."""
        return answered(self.ticket, self.request.error_response(error, self.version, WORDS[error]))

    def answer(self, response: object) -> Step:
        """Answer without asking the handler."""
        return answered(self.ticket, response)

    def topic_name(self, row: Any) -> str | None:
        """The topic of a row, by name or id; None for an id that is unknown."""
        topic_id = getattr(row, "topic_id", ZERO_UUID)
        if topic_id == ZERO_UUID:
            name: str = row.topic if hasattr(row, "topic") else row.name
            return name
        topic = self.node.cluster.topics.with_id(topic_id)
        return None if topic is None else topic.name

    def split_topics(self, rows: Iterable[S], operation: Operation) -> tuple[tuple[S, ...], tuple[S, ...]]:
        """(allowed, refused). Unknown ids are allowed: the handler reports them."""
        allowed: list[S] = []
        refused: list[S] = []
        for row in rows:
            name = self.topic_name(row)
            is_allowed = name is None or self.caller.may(operation, ResourceType.TOPIC, name)
            (allowed if is_allowed else refused).append(row)
        return tuple(allowed), tuple(refused)

    def split(
        self,
        field: str,
        answers: str,
        allowed: tuple[Any, ...],
        refused: tuple[Any, ...],
        error: ErrorCode,
    ) -> Step:
        """Run the handler on the `allowed` rows of the request's `field`; add the error rows of the `refused` ones.

        `answers` is the field of the response with a row for each.
        """
        if not refused:
            return self.proceed()
        refusal = changed(self.request, **{field: refused}).error_response(error, self.version, WORDS[error])
        if not allowed:
            return self.answer(refusal)
        rows = getattr(refusal, answers)
        return self.proceed(
            changed(self.request, **{field: allowed}),
            lambda response: changed(response, **{answers: (*getattr(response, answers), *rows)}),
        )


class MergedReply(PendingReply):
    """The ticket of a part of a request: what answers it is merged before it is sent."""

    __slots__ = ("_merge", "_whole")

    def __init__(self, whole: PendingReply, part: Request[Any], merge: Callable[[Any], Any]) -> None:
        super().__init__(whole.connection, whole.correlation_id, whole.route, part)
        self._whole = whole
        self._merge = merge

    def complete(self, response: Any) -> None:
        """See `PendingReply.complete`."""
        self._whole.complete(None if response is None else self._merge(response))
        self.is_answered = self._whole.is_answered


def changed(struct: S, **fields: object) -> S:
    """A copy of a message with other values in some of its fields."""
    other = copy(struct)
    for name, value in fields.items():
        setattr(other, name, value)
    return other
