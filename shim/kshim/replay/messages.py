"""Frames of a recording as typed messages."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError, build_request_frame, parse_request_header

API_VERSIONS: Final = 18


class Asked(NamedTuple):
    """A request: its API, version, header fields and body."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Any

    @property
    def name(self) -> str:
        """What it is called, for people."""
        return f"{self.api.name} v{self.version}"


def parse_request(frame: bytes) -> Asked:
    """A request of its frame without the size. Raises ProtocolError, also for a version that is not known."""
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    api = API_TABLE.get(key)
    if api is None or not api.min_version <= version <= api.max_version:
        raise ProtocolError("an unknown API or version", message="request", version=version, field="api_key", offset=0)
    header = parse_request_header(frame, flexible=api.is_flexible(version))
    body, _ = codec(api.request_class(), version).parse(frame, header.body_at)
    return Asked(api, version, header.correlation_id, header.client_id, body)


def build_request(asked: Asked) -> bytes:
    """The frame of a request, without its size. Raises BuildError."""
    body = codec(type(asked.body), asked.version).build(asked.body)
    is_flexible = asked.api.is_flexible(asked.version)
    return build_request_frame(
        asked.api.key, asked.version, asked.correlation_id, asked.client_id, body, flexible=is_flexible
    )[4:]


def parse_answer(asked: Asked, frame: bytes) -> Any:
    """The answer to a request, of its frame without the size. Raises ProtocolError."""
    has_tags = asked.api.is_flexible(asked.version) and asked.api.key != API_VERSIONS
    response, _ = codec(asked.api.response_class(), asked.version).parse(frame, 5 if has_tags else 4)
    return response
