"""SaslHandshake: which mechanism a client authenticates with."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, message, string

# fmt: off


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """Name a mechanism (KIP-43). v1: SaslAuthenticate requests follow (KIP-152); v0: raw tokens."""

    mechanism: str = string("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=error, mechanisms=())


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(Struct):
    """The mechanisms there are."""

    error_code: int             = int16("0+")
    mechanisms: tuple[str, ...] = array("string", "0+")

# fmt: on
