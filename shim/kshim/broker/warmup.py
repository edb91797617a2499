"""What a fresh node does in idle turns, so that the first group finds everything compiled."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kshim_protocol.apis import api_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kshim_protocol.codec import Codec


# In the order in which a new consumer needs them; versions that today's clients choose (kafka-python 3, Java 4.x).
FIRST_GROUP = (
    ("ApiVersions", (4, 5, 3, 0)),
    ("Metadata", (13, 12)),
    ("FindCoordinator", (6, 2)),
    ("JoinGroup", (7, 9, 5)),
    ("SyncGroup", (5, 3)),
    ("OffsetFetch", (8, 10, 9)),
    ("ListOffsets", (11, 10, 7)),
    ("Fetch", (12, 18, 16)),
    ("Heartbeat", (4, 3)),
    ("OffsetCommit", (8, 10, 9)),
    ("Produce", (9, 13, 10)),
    ("LeaveGroup", (5, 1)),
    ("InitProducerId", (5, 4)),
)

# The coordinator in portions of a few milliseconds: each module after those it imports.
COORDINATOR = (
    "kshim_protocol.records.batch",
    "kshim.partitions.batch_validator",
    "kshim_protocol.internal.records",
    "kshim_protocol.messages.join_group",
    "kshim_protocol.messages.sync_group",
    "kshim_protocol.messages.offset_commit",
    "kshim_protocol.messages.offset_fetch",
    "kshim.coordinator.groups.classic.group",
    "kshim.coordinator.groups.shard",
    "kshim.coordinator.groups.classic.rebalance",
    "kshim.coordinator.groups.classic.join_group",
    "kshim.coordinator.groups.offsets.offset_commit",
    "kshim.coordinator.groups.coordinator",
    "kshim.history.history",
)

# The share coordinator, where share groups have state to be loaded.
SHARE_STATE = (
    "kshim_protocol.records.batch",
    "kshim.partitions.batch_validator",
    "kshim.coordinator.share_state.apis",
    "kshim.coordinator.share_state.coordinator",
)

# The transaction coordinator, where there are transactions to be loaded.
TRANSACTIONS = (
    *COORDINATOR,
    "kshim_protocol.internal.transaction_records",
    "kshim.coordinator.transactions.end_txn",
    "kshim.coordinator.transactions.coordinator",
    "kshim.broker.marker_writer",
)


class Codecs(Protocol):
    """Those of one API in one version."""

    request_codec: Codec[Any]
    response_codec: Codec[Any]


def warmup_steps(resolve: Callable[[int, int], Codecs | None]) -> Iterator[str]:
    """`resolve` finds the codecs of an API key and version. Each step imports some modules or compiles one codec (a few milliseconds at most) and yields what it did."""
    for module in COORDINATOR:
        import_module(module)
        yield f"import {module}"
    for name, versions in FIRST_GROUP:
        api = api_named(name)
        for version in versions:
            route = resolve(api.key, version)
            assert route is not None
            yield f"import {name} v{version}"
            route.request_codec.compile()
            yield f"compile {name}Request v{version}"
            route.response_codec.compile()
            yield f"compile {name}Response v{version}"
