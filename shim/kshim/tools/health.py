"""`kshim health`: whether a broker answers requests, for health checks of containers and of services."""

from __future__ import annotations

from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.api_versions import ApiVersionsRequest

TIMEOUT_S = 2.0


def problem_of(host: str, port: int, timeout_s: float = TIMEOUT_S) -> str | None:
    """Ask for ApiVersions over plain text; None when the broker answers it in time, otherwise what was wrong."""
    try:
        client = Client(host, port, client_id="kshim-health", timeout_s=timeout_s)
        try:
            answer = client.ask(ApiVersionsRequest(), 0)
        finally:
            client.close()
    except (BrokerGone, ProtocolError, TimeoutError) as error:
        return str(error)
    return None if answer.error_code == ErrorCode.NONE else f"ApiVersions: {ErrorCode(answer.error_code).name}"
