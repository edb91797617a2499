"""`__share_group_state` records: what the share coordinator keeps of one share partition (KIP-932)."""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, int8, int16, int32, int64, message, string, struct, uuid

# fmt: off


@message(versions="0", flexible="none")
class ShareSnapshotKey(Struct):
    """Record key of type 0: all of the state."""

    group_id:  str   = string("0")
    topic_id:  bytes = uuid("0")
    partition: int   = int32("0")


@message(versions="0", flexible="none")
class ShareUpdateKey(Struct):
    """Record key of type 1: what has changed since the snapshot."""

    group_id:  str   = string("0")
    topic_id:  bytes = uuid("0")
    partition: int   = int32("0")


@struct
class StateBatch(Struct):
    """The state of a range of records."""

    first_offset:   int = int64("0+")
    last_offset:    int = int64("0+")   # inclusive
    delivery_state: int = int8("0+")    # 0 available, 2 acknowledged, 3 archiving, 4 archived
    delivery_count: int = int16("0+")


@message(versions="0", flexible="0+")
class ShareSnapshotValue(Struct):
    """All that is known."""

    snapshot_epoch:          int                    = int32("0+")
    state_epoch:             int                    = int32("0+")
    leader_epoch:            int                    = int32("0+")
    start_offset:            int                    = int64("0+")                      # -1: none
    delivery_complete_count: int                    = int32("0+", default=-1, tag=0)   # offsets from the start offset on that are done; -1: not known
    create_timestamp:        int                    = int64("0+")                      # ms since the epoch
    write_timestamp:         int                    = int64("0+")
    state_batches:           tuple[StateBatch, ...] = array(StateBatch, "0+")


@message(versions="0", flexible="0+")
class ShareUpdateValue(Struct):
    """What has changed since the snapshot of that epoch, and the updates before."""

    snapshot_epoch:          int                    = int32("0+")
    leader_epoch:            int                    = int32("0+")
    start_offset:            int                    = int64("0+")                      # -1: as before
    delivery_complete_count: int                    = int32("0+", default=-1, tag=0)
    state_batches:           tuple[StateBatch, ...] = array(StateBatch, "0+")

# fmt: on
