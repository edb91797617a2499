"""SaslAuthenticate: one step of an authentication."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, bytes_, int16, int64, message, string

# fmt: off


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """One token of the client (KIP-152). v1 session lifetime (KIP-368). v2 flexible."""

    auth_bytes: bytes = bytes_("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(error_code=error, error_message=message, auth_bytes=b"")


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Struct):
    """One token of the server. v1 session lifetime (KIP-368). v2 flexible."""

    error_code:          int        = int16("0+")
    error_message:       str | None = string("0+", nullable="0+")
    auth_bytes:          bytes      = bytes_("0+")
    session_lifetime_ms: int        = int64("1+", default=0, ignorable=True)  # 0: for good

# fmt: on
