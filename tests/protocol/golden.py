"""Compare an object with what Kafka's own tools decoded from the same bytes (`tests/golden/*.json`)."""

from __future__ import annotations

import base64
import json
import re
import uuid
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden"


def load(name: str) -> Any:
    """One of the golden files."""
    return json.loads((GOLDEN / name).read_text())


def as_decoded(value: Any, decoded: Any) -> Any:
    """`value` (a message, or part of one) in the form of `decoded`: Kafka's names, hex bytes, text uuids.

    Only rows that `decoded` names are looked at: versions leave rows out. A number for an array is its length.
    """
    if isinstance(decoded, dict) and set(decoded) == {"hex"}:
        return {"hex": value.hex()}
    if isinstance(decoded, dict):
        return {name: as_decoded(getattr(value, snake_case(name)), part) for name, part in decoded.items()}
    if isinstance(decoded, list):
        assert len(value) == len(decoded)
        return [as_decoded(one, part) for one, part in zip(value, decoded, strict=True)]
    if isinstance(value, tuple) and isinstance(decoded, int):
        return len(value)
    if isinstance(value, bytes) and isinstance(decoded, str):
        if len(decoded) == 36:
            return str(uuid.UUID(bytes=value))
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    return value


def snake_case(name: str) -> str:
    """`CommittedOffset` -> `committed_offset`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
