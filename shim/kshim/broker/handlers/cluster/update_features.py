"""UpdateFeatures: change the levels of features, all of a request or none (KIP-584, KIP-778)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.features import SUPPORTED
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


_UPGRADE = 1
_DOWNGRADES = (2, 3)
_RESULTS_UNTIL = 1


@handles(UpdateFeaturesRequest)
def update_features(node: Node, request: UpdateFeaturesRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Check every update, then have all hold and store them; `validate_only` checks only.

    Version 0 has no types of updates, and is taken for an upgrade whatever it says, as in Kafka (checked live on 4.4).
    Source: Kafka's FeatureControlManager.updateFeatures, whose sentences are these.
    """
    features = node.cluster.features
    changed: dict[str, int] = {}
    for update in request.feature_updates:
        current = changed.get(update.feature, features.levels.get(update.feature, 0))
        reason = _reason_against(update, current, node.node_id)
        if reason is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
            )
        changed[update.feature] = update.max_version_level
    if not request.validate_only and any(features.levels[name] != level for name, level in changed.items()):
        try:
            features.update(changed)
            if not features.share_version:
                node.cluster.end_share_sessions()
        except LogError as error:
            node.cluster.report(error, request)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    results = tuple(
        UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message="NONE")
        for update in request.feature_updates
        if context.api_version <= _RESULTS_UNTIL
    )
    return answered(ticket, UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results))


def _reason_against(update: FeatureUpdateKey, current: int, node_id: int) -> str | None:
    """Why it cannot be; None when it can."""
    level = update.max_version_level
    if update.upgrade_type != _UPGRADE and update.upgrade_type not in _DOWNGRADES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    supported = SUPPORTED.get(update.feature)
    if supported is None:
        if level == 0:
            return f"Feature {update.feature} not found."
        return f"Local controller {node_id} does not support this feature."
    lowest, highest = supported
    if not lowest <= level <= highest:
        return f"Local controller {node_id} only supports versions {lowest}-{highest}"
    if level < current and update.upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and update.upgrade_type != _UPGRADE:
        return "Can't downgrade to a newer version."
    return None
