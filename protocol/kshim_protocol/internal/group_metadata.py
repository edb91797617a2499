"""`__consumer_offsets` records of classic groups: key type 2."""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, bytes_, int32, int64, message, string, struct

# fmt: off


@message(versions="0", flexible="none")
class GroupMetadataKey(Struct):
    """Record key of type 2."""

    group: str = string("0+")


@struct
class MemberMetadata(Struct):
    """One member of the group, with the chosen protocol's metadata only."""

    member_id:         str        = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id:         str        = string("0+")
    client_host:       str        = string("0+")                                               # "/127.0.0.1"
    rebalance_timeout: int        = int32("1+", default=-1, ignorable=True)                    # ms; -1: use session timeout
    session_timeout:   int        = int32("0+")                                                # ms
    subscription:      bytes      = bytes_("0+")
    assignment:        bytes      = bytes_("0+")


@message(versions="0-4", flexible="4+")
class GroupMetadataValue(Struct):
    """A classic group as of its last completed rebalance. Kafka 4.4 writes v3.

    v1 rebalance timeout. v2 state timestamp. v3 group instance id. v4 flexible.
    """

    protocol_type:           str                        = string("0+")
    generation:              int                        = int32("0+")
    protocol:                str | None                 = string("0+", nullable="0+")
    leader:                  str | None                 = string("0+", nullable="0+")              # member id
    current_state_timestamp: int                        = int64("2+", default=-1, ignorable=True)  # ms since the epoch; -1: unknown
    members:                 tuple[MemberMetadata, ...] = array(MemberMetadata, "0+")

# fmt: on
