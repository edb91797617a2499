"""Handlers that only pass a request to the coordinator it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kshim.broker.request import PendingReply, handles
from kshim.coordinator.runtime import CoordinatorRuntime
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.schema import Request

if TYPE_CHECKING:
    from kshim.broker.node import Node

C = TypeVar("C", bound=CoordinatorRuntime[Any])
R = TypeVar("R", bound=Request[Any])


def relay(
    topic: str,
    request_class: type[R],
    answer: Callable[[C, R, RequestContext, Ticket], Step],
) -> Callable[[Node, R, RequestContext, PendingReply], Step]:
    """The handler of a request class: `answer` is a method of the coordinator whose topic that is."""

    def handler(node: Node, request: R, context: RequestContext, ticket: PendingReply) -> Step:
        host = node.cluster.coordinators[topic]
        return answer(host.made or host.coordinator, request, context, ticket)

    handler.__name__ = answer.__name__
    return handles(request_class)(handler)


def relay_of_member(
    topic: str, request_class: type[R], answer: Callable[[C, R, RequestContext, Ticket], Step]
) -> Callable[[Node, R, RequestContext, PendingReply], Step]:
    """The same of a request of a group's member: its connection is the one that speaks for the member."""

    def handler(node: Node, request: Any, context: RequestContext, ticket: PendingReply) -> Step:
        cluster, client = node.cluster, ticket.connection.client
        if client.member_id != request.member_id:
            cluster.client_activity.speaks(
                client, request.member_id, context.client_id, context.client_host, context.now
            )
        host = cluster.coordinators[topic]
        return answer(host.made or host.coordinator, request, context, ticket)

    handler.__name__ = answer.__name__
    return handles(request_class)(handler)


def relay_of_commit(
    topic: str, request_class: type[R], answer: Callable[[C, R, RequestContext, Ticket], Step]
) -> Callable[[Node, R, RequestContext, PendingReply], Step]:
    """The same of a commit: when a member commits tells what its process does."""
    relayed = relay_of_member(topic, request_class, answer)

    def handler(node: Node, request: Any, context: RequestContext, ticket: PendingReply) -> Step:
        node.cluster.client_activity.committed(request.member_id, context.now)
        return relayed(node, request, context, ticket)

    handler.__name__ = answer.__name__
    return handles(request_class)(handler)
