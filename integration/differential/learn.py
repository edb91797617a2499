"""What an answer, on which both brokers agreed, tells the model."""

from __future__ import annotations

from typing import Any

from integration.differential.canonical import Tree
from integration.differential.model import GroupModel, Model, Slot
from integration.differential.steps import Step
from kshim_protocol.errors import ErrorCode

_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
_REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


def learn(model: Model, group: GroupModel, step: Step, request: Any, tree: Tree | None) -> None:
    """Remember what matters for later steps."""
    if not isinstance(tree, dict) or "damage" in step.options:
        return
    if step.verb == "describe":
        for entry in tree["groups"]:
            for name in model.groups:
                if model.group_id(name) == entry["group_id"]:
                    model.groups[name].state = entry["group_state"]
        return
    if not step.slot:
        return
    slot = group.slot(step.slot)
    match step.verb:
        case "join":
            _join(group, slot, request, tree)
        case "sync" | "heartbeat" if _speaks_for_itself(step):
            _followed(slot, tree["error_code"], is_sync=step.verb == "sync")
        case "leave":
            _left(group, request, tree)
        case "consumer-heartbeat":
            _reconciled(slot, request, tree)
        case _:
            pass


def note_ballot(group: GroupModel, step: Step, request: Any, tree: Tree | None) -> None:
    """Remember what a member offered with a Join that was answered, before the answers are compared."""
    if step.verb == "join" and isinstance(tree, dict) and tree.get("error_code") == ErrorCode.NONE:
        group.protocols[tree["member_id"]] = [protocol.name for protocol in request.protocols]


def note_unseen_ballot(group: GroupModel, step: Step, request: Any) -> None:
    """As `note_ballot`, for a Join whose answer nobody will see."""
    if step.verb == "join" and request.member_id:
        group.protocols[request.member_id] = [protocol.name for protocol in request.protocols]


def _speaks_for_itself(step: Step) -> bool:
    return "id" not in step.options and "generation" not in step.options


def _join(group: GroupModel, slot: Slot, request: Any, tree: Tree) -> None:
    error = tree["error_code"]
    if error == ErrorCode.MEMBER_ID_REQUIRED:
        slot.has_new_id(tree["member_id"])
        slot.status = "pending"
        group.issued.add(slot.member)
    elif error in _OUT:
        if request.member_id == slot.member:
            slot.forget()
    elif error in _REJOIN:
        slot.status = "rejoin"
    if error != ErrorCode.NONE:
        return
    slot.has_new_id(tree["member_id"])
    slot.instance = request.group_instance_id
    slot.generation = tree["generation_id"]
    slot.is_leader = tree["leader"] == tree["member_id"]
    slot.protocol_type = tree["protocol_type"] or request.protocol_type
    slot.protocol_name = tree["protocol_name"]
    slot.members = [member["member_id"] for member in tree["members"]]
    slot.status = "joined"
    # Below v9 a static leader that came back is told its old id as leader (KIP-814): it leads all the same.
    instance = request.group_instance_id
    is_old_self = request.member_id == "" and instance is not None and tree["leader"].endswith(f" {instance}>")
    group.leader = tree["member_id"] if is_old_self else tree["leader"]
    group.issued.discard(tree["member_id"])


def _followed(slot: Slot, error: int, *, is_sync: bool) -> None:
    if error == ErrorCode.NONE:
        slot.status = "synced" if is_sync else slot.status
    elif error in _OUT:
        slot.forget()
    elif error in _REJOIN or (is_sync and error == ErrorCode.UNKNOWN_SERVER_ERROR):  # the assignments were too large
        slot.status = "rejoin"


def _left(group: GroupModel, request: Any, tree: Tree) -> None:
    members = [(entry.member_id, entry.group_instance_id) for entry in request.members] or [(request.member_id, None)]
    results = [entry["error_code"] for entry in tree["members"]] or [tree["error_code"]]
    for (member, instance), error in zip(members, results, strict=False):
        for slot in group.slots.values():
            is_it = slot.member == member if member else slot.instance == instance is not None
            if error == ErrorCode.NONE and slot.member and is_it:
                slot.forget()


def _reconciled(slot: Slot, request: Any, tree: Tree) -> None:
    error = tree["error_code"]
    if error in (*_OUT, ErrorCode.FENCED_MEMBER_EPOCH) and request.member_id == slot.member:
        slot.generation, slot.owned, slot.status = 0, [], "new"
    if error != ErrorCode.NONE:
        return
    if request.member_epoch < 0:
        if request.member_id == slot.member:
            slot.forget()
            slot.owned = []
        return
    slot.has_new_id(request.member_id)
    slot.instance = request.instance_id or (slot.instance if request.member_epoch else None)
    slot.generation, slot.status = tree["member_epoch"], "synced"
    if tree["assignment"] is not None:
        slot.owned = [
            [topic["topic_id"].rstrip("."), topic["partitions"]] for topic in tree["assignment"]["topic_partitions"]
        ]
