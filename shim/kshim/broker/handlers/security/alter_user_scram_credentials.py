"""AlterUserScramCredentials: sets and removes SCRAM credentials (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.security.authentication.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS, ScramCredential
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.security.authentication.credentials import ScramCredentials


_NAMES = {number: name for name, (number, _) in SCRAM_MECHANISMS.items()}


@handles(AlterUserScramCredentialsRequest)
def alter_user_scram_credentials(
    node: Node, request: AlterUserScramCredentialsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """Change the users without a mistake in the request, each wholly or not at all. Kafka: ScramControlManager.

    What the client sends is salted already; of it only the keys are stored.
    """
    rows: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    errors: dict[str, KafkaError] = {}
    seen: set[str] = set()
    try:
        credentials = node.cluster.scram_credentials
        for row in rows:
            error = _mistake(row, credentials)
            if error is not None:
                errors.setdefault(row.name, error)
            if row.name in seen:
                errors[row.name] = KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            seen.add(row.name)
        deletions = [(row.name, _NAMES[row.mechanism]) for row in request.deletions if row.name not in errors]
        upserts = {
            (row.name, _NAMES[row.mechanism]): ScramCredential.of(
                _NAMES[row.mechanism], row.salt, row.iterations, row.salted_password
            )
            for row in request.upsertions
            if row.name not in errors
        }
        if deletions or upserts:
            credentials.change(upserts, deletions)
    except LogError as problem:
        node.cluster.report(problem, None)  # not the request: it holds salted passwords
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    results = tuple(_result(user, errors.get(user)) for user in dict.fromkeys(row.name for row in rows))
    return answered(ticket, AlterUserScramCredentialsResponse(results=results))


def _mistake(
    row: ScramCredentialDeletion | ScramCredentialUpsertion, credentials: ScramCredentials
) -> KafkaError | None:
    if not row.name:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _NAMES.get(row.mechanism)
    if mechanism is None:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(row, ScramCredentialDeletion):
        if (row.name, mechanism) in credentials.stored:
            return None
        return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    if row.iterations < MIN_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if row.iterations > MAX_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
