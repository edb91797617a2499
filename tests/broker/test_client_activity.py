"""Of which connection what is known of a member is."""

from __future__ import annotations

import pytest

from kshim.broker.client_activity import ClientActivity, ConnectedClient
from kshim.coordinator.step import Now
from kshim_protocol.apis import API_TABLE

HEARTBEAT = next(api for api in API_TABLE.values() if api.name == "Heartbeat")


def heard(activity: ClientActivity, now: Now) -> ConnectedClient:
    """A connection on which a member has spoken."""
    client = ConnectedClient()
    client.last_now, client.last_api = now, HEARTBEAT
    activity.speaks(client, "m", "app", "127.0.0.1", now)
    return client


@pytest.mark.parametrize(("later_ms", "expected"), [(0, 2), (1, 1)])
def test_a_member_that_spoke_on_two_connections_is_known_by_the_later_one_and_else_the_newer(
    later_ms: int, expected: int
) -> None:
    activity = ClientActivity()
    old, _ = heard(activity, Now(5, 5_000)), heard(activity, Now(5, 5_000))
    old.last_now = Now(5, 5_000 + later_ms)
    old.closed("client")
    found = activity.of("m", "app", "127.0.0.1")
    assert found is not None
    assert found.connection_id == expected
