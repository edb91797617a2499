"""Which requests are never written: those that may hold a password or a key."""

from __future__ import annotations

from typing import Final

from kshim.config.broker_config import is_secret
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError, parse_request_header

_ALWAYS: Final = frozenset({36, 51})
"""SaslAuthenticate and AlterUserScramCredentials."""
_OF_CONFIGURATION: Final = frozenset({33, 44})
"""AlterConfigs and IncrementalAlterConfigs: by the keys they set."""


def may_be_secret(api_key: int) -> bool:
    """Whether some requests of an API may hold a secret."""
    return api_key in _ALWAYS or api_key in _OF_CONFIGURATION


def is_secret_request(frame: bytes, api_key: int, version: int) -> bool:
    """Whether the frame of a request (without its size), of an API in the table, may hold a secret."""
    if api_key not in _OF_CONFIGURATION:
        return api_key in _ALWAYS
    api = API_TABLE[api_key]
    try:
        header = parse_request_header(frame, flexible=api.is_flexible(version))
        request, _ = codec(api.request_class(), version).parse(frame, header.body_at)
    except (ProtocolError, ValueError, LookupError):
        return True
    return any(is_secret(config.name) for resource in request.resources for config in resource.configs)  # type: ignore[attr-defined]
