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
from kshim.security.authorizer.model import CLUSTER_NAME, Operation, ResourceType
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
GUARD_MODULES: Final = ("table", "records", "groups", "share", "streams", "topics", "transactions", "clusters")
"""Modules of `guards/`; the guards of an API are found by its name."""

ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of what is refused, by what it is about."""
WORDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's sentence about each refusal."""
_CONFIG_RESOURCES: Final = {2: ResourceType.TOPIC, 32: ResourceType.GROUP}
"""ConfigResource.Type -> what its names are; any other kind (broker, logger, client metrics) is the cluster's."""


class Rows(NamedTuple):
    """Rows of a request that are allowed or refused one by one.

    `field` of the request has them, `answers` of the response a row for each. `resource_type` None: the one that the
    row names. With `unless` on the cluster every row is allowed. `visible(call, row)` is what the caller
    sees of a row of the handler's. `refused(row)` is the answer to a refused row, where `error_response` makes another.
    """

    field: str
    answers: str
    operation: Operation
    resource_type: ResourceType | None = ResourceType.TOPIC
    unless: Operation | None = None
    visible: Callable[[Call, Any], Any] | None = None
    refused: Callable[[Any], Any] | None = None
    always_asks: bool = False
    """Whether the handler runs even if no row is allowed."""
    message: str | None = None
    """What is said of a refused row, if not what `WORDS` has."""


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
        module = import_module(f"kshim.broker.guards.{name}")
        for value in (*vars(module).values(), *getattr(module, "GUARDS", ())):
            if api.name in getattr(value, "api_names", ()):
                found: Guard = value
                return found
    return closed


def closed(call: Call) -> Step:
    """Allow only clients that may alter the cluster."""
    return call.proceed_if(Operation.ALTER, ResourceType.CLUSTER)


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

    def may(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the caller may do that."""
        return self.caller.may(operation, resource_type, name)

    def proceed_if(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> Step:
        """Run the handler for who may do that; refuse the request of anyone else."""
        return self.proceed() if self.may(operation, resource_type, name) else self.refuse(resource_type)

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

    def refuse(self, resource_type: ResourceType) -> Step:
        """Answer the whole request with the error of such a resource."""
        error = ERRORS[resource_type]
        return answered(self.ticket, self.request.error_response(error, self.version, WORDS[error]))

    def answer(self, response: object) -> Step:
        """Answer without asking the handler."""
        return answered(self.ticket, response)

    def topic_name(self, row: Any) -> str | None:
        """The topic of a row, by name or id; None for an id that is unknown."""
        topic_id = getattr(row, "topic_id", ZERO_UUID)
        if topic_id == ZERO_UUID:
            name: str = next(getattr(row, field) for field in ("topic", "name", "topic_name") if hasattr(row, field))
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

    def divide(self, rows: Rows) -> tuple[list[Any], list[tuple[Any, ErrorCode]]]:
        """The rows that are allowed, and the refused ones with their errors."""
        asked = getattr(self.request, rows.field)
        if rows.unless is not None and self.may(rows.unless, ResourceType.CLUSTER):
            return list(asked), []
        allowed = []
        refused = []
        for row in asked:
            resource_type, name = rows.resource_type, None
            if resource_type is None:
                resource_type, name = _CONFIG_RESOURCES.get(row.resource_type, ResourceType.CLUSTER), row.resource_name
            if resource_type is ResourceType.CLUSTER:
                name = CLUSTER_NAME
            elif name is None:
                name = row if isinstance(row, str) else self.topic_name(row)
            if name is None or self.may(rows.operation, resource_type, name):
                allowed.append(row)
            else:
                refused.append((row, ERRORS[resource_type]))
        return allowed, refused

    def split(self, rows: Rows) -> Step:
        """Run the handler on the allowed rows, and add the error rows of the refused ones."""
        allowed, refused = self.divide(rows)
        if not refused and rows.visible is None:
            return self.proceed()
        refusals = tuple(refusal for row, error in refused for refusal in self._refusals(rows, row, error))
        if refused and not allowed and not rows.always_asks:
            return self.answer(self.ticket.route.api.response_class()(**{rows.answers: refusals}))

        def merge(response: Any) -> Any:
            if getattr(response, "error_code", ErrorCode.NONE):
                return response
            answers = getattr(response, rows.answers)
            if rows.visible is not None:
                answers = [rows.visible(self, answer) for answer in answers]
            return changed(response, **{rows.answers: (*answers, *refusals)})

        return self.proceed(changed(self.request, **{rows.field: tuple(allowed)}), merge)

    def _refusals(self, rows: Rows, row: Any, error: ErrorCode) -> Iterable[Any]:
        if rows.refused is not None:
            return (rows.refused(row),)
        part = changed(self.request, **{rows.field: (row,)})
        refusals: Iterable[Any] = getattr(
            part.error_response(error, self.version, rows.message or WORDS[error]), rows.answers
        )
        return refusals


class MergedReply(PendingReply):
    """The ticket of a part of a request: what answers it is merged before it is sent."""

    __slots__ = ("_merge", "_whole")

    def __init__(self, whole: PendingReply, part: Request[Any], merge: Callable[[Any], Any]) -> None:
        super().__init__(whole.connection, whole.header, whole.route, part)
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
