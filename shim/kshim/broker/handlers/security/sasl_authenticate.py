"""SaslAuthenticate where it has no place: a connection that need not authenticate, or has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(SaslAuthenticateRequest)
def sasl_authenticate(node: Node, request: SaslAuthenticateRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Refuse it; the connection stays open. On SASL listeners `SaslAuthenticator` answers before."""
    reason = "SaslAuthenticate request received after successful authentication"
    return answered(ticket, request.error_response(ErrorCode.ILLEGAL_SASL_STATE, context.api_version, reason))
