"""What a commit that meets a fault ends in, at each client: measured, and held by the tests."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Effect(Enum):
    """What a client makes of it."""

    NOT_NOTICED = "succeeds"
    RETRIED = "tries again, and succeeds"
    RAISED = "raises"


NOT_NOTICED, RETRIED, RAISED = Effect


class Outcome(NamedTuple):
    """`error` is what the application gets: at once, or when the client has tried again for long enough."""

    effect: Effect
    error: str | None = None


DO: Final[dict[str, object]] = {
    "error-retriable": {"error": "COORDINATOR_LOAD_IN_PROGRESS"},
    "error-fatal": {"error": "GROUP_AUTHORIZATION_FAILED"},
    "delay-after": {"delay": 0.1},
    "delay-before": {"delay": 0.1, "when": "before"},
    "hang": "hang",
    "drop_reply": "drop_reply",
    "disconnect-before": {"disconnect": "before"},
    "disconnect-after": {"disconnect": "after"},
    "throttle": {"throttle": 50},
    "truncate": "truncate",
    "corrupt": "corrupt",
    "oversize": "oversize",
    "stale_generation": "stale_generation",
    "not_coordinator": "not_coordinator",
    "loading": {"loading": 30},
    "disk_full": "disk_full",
    "slow_fsync": {"slow_fsync": 0.1},
}
"""The faults of OffsetCommit."""

KP, CK = "kafka-python", "confluent-kafka"
_TIMEOUT: Final = "KafkaTimeoutError"

# fmt: off
OUTCOMES: Final[dict[str, dict[str, Outcome]]] = {
    "error-retriable":   {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "COORDINATOR_LOAD_IN_PROGRESS")},
    "error-fatal":       {KP: Outcome(RAISED, "GroupAuthorizationFailedError"), CK: Outcome(RAISED, "GROUP_AUTHORIZATION_FAILED")},
    "delay-after":       {KP: Outcome(NOT_NOTICED), CK: Outcome(NOT_NOTICED)},
    "delay-before":      {KP: Outcome(NOT_NOTICED), CK: Outcome(NOT_NOTICED)},
    "hang":              {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "_TIMED_OUT")},
    "drop_reply":        {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "_TIMED_OUT")},
    "disconnect-before": {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "_TRANSPORT")},
    "disconnect-after":  {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "_TRANSPORT")},
    "throttle":          {KP: Outcome(NOT_NOTICED), CK: Outcome(NOT_NOTICED)},
    "truncate":          {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "_TRANSPORT")},
    "corrupt":           {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RAISED, "_UNDERFLOW")},
    "oversize":          {KP: Outcome(RAISED, "InvalidReceiveError"), CK: Outcome(RAISED, "_BAD_MSG")},
    "stale_generation":  {KP: Outcome(RAISED, "CommitFailedError"), CK: Outcome(RAISED, "ILLEGAL_GENERATION")},
    "not_coordinator":   {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "NOT_COORDINATOR")},
    "loading":           {KP: Outcome(RAISED, _TIMEOUT), CK: Outcome(RAISED, "COORDINATOR_LOAD_IN_PROGRESS")},
    "disk_full":         {KP: Outcome(RETRIED, _TIMEOUT), CK: Outcome(RETRIED, "NOT_COORDINATOR")},
    "slow_fsync":        {KP: Outcome(NOT_NOTICED), CK: Outcome(NOT_NOTICED)},
}
# fmt: on
