"""A member of a classic group, and the requests it may have parked."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import NamedTuple

from kshim.coordinator.deadlines import Key
from kshim.coordinator.groups.events import MemberRef
from kshim.coordinator.step import Ticket


class ParkedJoin(NamedTuple):
    """A Join that waits for the join phase to end. `api_version` shapes the answer, `since_ms` is monotonic."""

    ticket: Ticket
    api_version: int
    since_ms: int


class ParkedSync(NamedTuple):
    """A Sync that waits for the leader's assignment, or for the leader's record to be written."""

    ticket: Ticket
    since_ms: int


class Member:
    """One member. `protocols` maps the names it offers, most wanted first, to its metadata for each.

    `is_new` holds until its first Join is answered: such a member has not yet learnt its id or generation, so being
    parked does not keep it alive for ever. `client_host` is `/127.0.0.1`, with the slash.
    """

    __slots__ = (
        "_ref",
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_key",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Mapping[str, bytes],
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = intern(client_id)  # of most members of all groups the same
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = {intern(name): metadata for name, metadata in protocols.items()}
        self.assignment = assignment
        self.is_new = is_new
        self.session_key: Key = ("session", group_id, member_id)
        self._ref: MemberRef | None = None

    @property
    def is_static(self) -> bool:
        """Whether it has a group instance id (KIP-345)."""
        return self.group_instance_id is not None

    def has_protocols(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether `protocols` are the same names in the same order with the same bytes."""
        return list(self.protocols.items()) == list(protocols.items())

    def ref(self, client_reason: str | None = None) -> MemberRef:
        """The member as events name it."""
        if client_reason is None and self._ref is not None:
            return self._ref
        ref = MemberRef(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            client_reason=client_reason,
        )
        if client_reason is None:
            self._ref = ref
        return ref
