"""Values of `__consumer_offsets` records of streams groups (KIP-1071): key type 21, whose TaskIds have no epochs."""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, message, string, struct

# fmt: off


@struct
class TaskIds(Struct):
    """Tasks of one subtopology that a member is to have."""

    subtopology_id: str             = string("0+")
    partitions:     tuple[int, ...] = array("int32", "0+")


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Struct):
    """The tasks that a member is to have."""

    active_tasks:  tuple[TaskIds, ...] = array(TaskIds, "0+")
    standby_tasks: tuple[TaskIds, ...] = array(TaskIds, "0+")
    warmup_tasks:  tuple[TaskIds, ...] = array(TaskIds, "0+")

# fmt: on
