"""DescribeUserScramCredentials: which SCRAM credentials users have, never what is in them (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.security.authentication.credentials import ScramCredentials
from kshim.security.authentication.scram import SCRAM_MECHANISMS
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(DescribeUserScramCredentialsRequest)
def describe_user_scram_credentials(
    node: Node, request: DescribeUserScramCredentialsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """Mechanism and iterations of the users asked for, of all when none is named. Kafka: ScramControlManager."""
    try:
        credentials = node.cluster.scram_credentials
    except LogError as error:
        node.cluster.report(error, request)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    asked = Counter(row.name for row in request.users or ())
    results = [_result(credentials, user, is_twice=asked[user] > 1) for user in asked or credentials.users()]
    return answered(
        ticket,
        DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, error_message=None, results=tuple(results)),
    )


def _result(credentials: ScramCredentials, user: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    error, reason = ErrorCode.NONE, None
    infos: list[CredentialInfo] = []
    for mechanism, (number, _) in SCRAM_MECHANISMS.items():
        credential = credentials.find(mechanism, user)
        if credential is not None:
            infos.append(CredentialInfo(mechanism=number, iterations=credential.iterations))
    if is_twice:
        error = ErrorCode.DUPLICATE_RESOURCE
        reason = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not infos:
        error = ErrorCode.RESOURCE_NOT_FOUND
        reason = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=error,
        error_message=reason,
        credential_infos=() if error else tuple(infos),
    )
