"""What member ids of the new protocol tell of processes: clients make them, each library in its own way."""

from __future__ import annotations

import re

_KEPT = re.compile(r"[A-Za-z0-9_+/-]{22}")
"""16 random bytes in base64 without padding, as Java and librdkafka write them. franz-go's are padded."""


def is_same_process(old_id: str, new_id: str) -> bool | None:
    """Whether a member that came after another one of the same client is of the same process; None: ids do not tell.

    Java's and librdkafka's consumers keep their id for as long as they live, also when they are fenced. franz-go takes a new one.
    Ids of classic groups are the coordinator's.

    >>> is_same_process("oSKTgTZBRy2OV6vW1HuaUA", "oSKTgTZBRy2OV6vW1HuaUA")
    True
    >>> is_same_process("oSKTgTZBRy2OV6vW1HuaUA", "aVbvSaH0SxmQNzdAx5Im9A")
    False
    >>> is_same_process("28Yt2J3S1Eh1eA-8x2tS5A==", "1eFZFrZFE7MU1mF6fJeHtQ==") is None
    True
    """
    if old_id == new_id:
        return True
    return False if keeps_id(old_id) and keeps_id(new_id) else None


def is_made_by_client(member_id: str) -> bool:
    """Whether it is an id of the new protocol, as the clients that are known make them.

    >>> is_made_by_client("28Yt2J3S1Eh1eA-8x2tS5A=="), is_made_by_client("rdkafka-3bcab4be-447a-476a-990f-44ddf5cc2dc4")
    (True, False)
    """
    return keeps_id(member_id.removesuffix("=="))


def keeps_id(member_id: str) -> bool:
    """Whether it is the id of a member of the new protocol whose client keeps it."""
    return _KEPT.fullmatch(member_id) is not None
