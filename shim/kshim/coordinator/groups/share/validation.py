"""What a ShareGroupHeartbeat must say before its group is looked at, and which epoch; the sentences are Kafka's.

Source: Kafka's GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid.
"""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.share.group import JOIN_EPOCH, LEFT_EPOCH
from kshim.coordinator.groups.share.updates import Current
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

_MOST_MEMBER_ID_CHARACTERS: Final = 36


def require_valid(request: ShareGroupHeartbeatRequest) -> None:
    """Raises KafkaError: INVALID_REQUEST."""
    if not 0 < len(request.member_id) <= _MOST_MEMBER_ID_CHARACTERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    _require_text(request.member_id, "MemberId")
    _require_text(request.group_id, "GroupId")
    _require_text(request.rack_id, "RackId")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEFT_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def require_epoch(current: Current, epoch: int) -> None:
    """A member may repeat its previous epoch: the last answer may be lost. Raises KafkaError: FENCED_MEMBER_EPOCH."""
    if epoch > current.epoch:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator "
            f"({current.epoch}). The member must abandon all its partitions and rejoin.",
        )
    if epoch not in (current.epoch, current.previous_epoch):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
            f"({current.epoch}), and it does not match the previous member epoch ({current.previous_epoch}). The member "
            "must abandon all its partitions and rejoin.",
        )


def _require_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
