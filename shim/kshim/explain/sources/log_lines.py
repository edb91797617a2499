"""Lines of a broker's log: those of Kafka 4.4's group coordinator, and of kshim's, which are alike, as rows of fields.

Kafka logs rebalances at INFO from `org.apache.kafka.coordinator.group.GroupMetadataManager`, since 3.7 (before: much
the same from `kafka.coordinator.group.GroupCoordinator`). Lines of classic groups are parsed, in any layout with a time
like `2026-11-21 10:00:00,123` before the message. No line shows which member joined last, or when a member was last
seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[.,](\d{3})")
_WITH_STATE: Final = r" (?:in state (?P<state>\w+)|in (?P<state2>\w+) state)"
# kshim's log has Kafka's lines and adds the client.
_CLIENT: Final = r"(?: \(client (?P<client_id>.*) at (?P<client_host>[^\s,)]+)(?:, new member id .*)?\)$)?"
_STATIC: Final = (
    r"Static member with groupInstanceId=(?P<group_instance_id>.+) and unknown member id joins group (?P<group_id>.+)"
    + _WITH_STATE
)
_LEFT: Final = r" has left group through explicit `LeaveGroup`(?: request)?; client reason: (?P<client_reason>.*)"

# In the order of how often they come. Groups and ids may hold anything, so every pattern is held by words on both sides.
_PATTERNS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            "preparing",
            r"Preparing to rebalance group (?P<group_id>.+) in state (?P<state>\w+) with old generation "
            r"(?P<generation_id>\d+) \(reason: (?P<reason_text>.*)\)\.?$",
        ),
        (
            "stabilized",
            r"Stabilized group (?P<group_id>.+) generation (?P<generation_id>\d+) with (?P<members>\d+) members\.?$",
        ),
        (
            "assignment_received",
            r"Assignment received from leader (?P<member_id>.+) for group (?P<group_id>.+) for generation "
            r"(?P<generation_id>\d+)\. The group has (?P<members>\d+) members, \d+ of which are static\.?$",
        ),
        ("member_left", r"\[Group (?P<group_id>.+)\] Member (?P<member_id>.+)" + _LEFT),
        ("member_left", r"\[Group (?P<group_id>.+)\] Pending member (?P<member_id>.+)" + _LEFT),
        ("member_failed", r"Member (?P<member_id>.+) in group (?P<group_id>.+) has failed, removing it from the group"),
        ("emptied", r"Group (?P<group_id>.+) with generation (?P<generation_id>\d+) is now empty"),
        (
            "members_removed",
            r"Pending member (?P<one_id>.+) in group (?P<group_id>.+) has been removed "
            r"(?P<reason_text>after session timeout expiration|\(.*\))",
        ),
        (
            "members_removed",
            r"Group (?P<group_id>.+) removed (?P<reason_text>dynamic members who haven't joined|"
            r"members who haven't sent their sync requests): (?P<ids>.*)",
        ),
        (
            "members_removed",
            r"Member (?P<one_id>.+) in group (?P<group_id>.+) has been removed \((?P<reason_text>.*)\)$",
        ),
        (
            "static_replaced",
            _STATIC + r"\. Replacing previously mapped member (?P<member_id>.+) with this groupInstanceId\.?" + _CLIENT,
        ),
        (
            "member_created",
            _STATIC
            + r"\. Created a new member id (?P<member_id>.+) for this member and added to the group\.?"
            + _CLIENT,
        ),
        (
            "member_created",
            r"Dynamic member with unknown member id joins group (?P<group_id>.+)" + _WITH_STATE + r"\. Created a new "
            r"member id (?P<member_id>.+) and (?:requesting|added) the member to[\w ]+\.?" + _CLIENT,
        ),
        (
            "member_added",
            r"Pending dynamic member with id (?P<member_id>.+) joins group (?P<group_id>.+)"
            + _WITH_STATE
            + r"\. Adding to the group now\.?"
            + _CLIENT,
        ),
    )
)
# Of groups of the new protocol. Other lines than these are about what records say as well.
_ASSIGNS: Final = r"\[GroupId (?P<group_id>.+?)\] "
_WITH_EPOCHS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(_ASSIGNS + pattern))
    for kind, pattern in (
        (
            "epoch_member_refused",
            r"Static member (?P<member_id>\S+) with instance id (?P<group_instance_id>.+) cannot join the group because the "
            r"instance id is owned by (?:member (?P<owner_id>\S+)|\S+ member)\.$",
        ),
        (
            "epoch_member_replaced",
            r"Static member with instance id (?P<group_instance_id>.+) re-joins the consumer group using the \w+ protocol\. "
            r"Created a new member (?P<member_id>\S+) to replace the existing member (?P<owner_id>\S+)\." + _CLIENT,
        ),
        (
            "epoch_member_joined",
            r"Static member (?P<member_id>\S+) with instance id (?P<group_instance_id>.+) joins the consumer group using the "
            r"\w+ protocol\." + _CLIENT,
        ),
        (
            "epoch_member_joined",
            r"Member (?P<member_id>\S+) joins the consumer group using the \w+ protocol\." + _CLIENT,
        ),
        (
            "epoch_member_left_for_now",
            r"Static member (?P<member_id>\S+) with instance id (?P<group_instance_id>.+) temporarily left the consumer group\.$",
        ),
        (
            "epoch_member_left",
            r"Static member (?P<member_id>\S+) with instance id (?P<group_instance_id>.+) left the consumer group\.$",
        ),
        ("epoch_member_left", r"Member (?P<member_id>\S+) left the consumer group\.$"),
        (
            "epoch_member_left",
            r"(?:Dynamic|Static) member (?P<member_id>\S+)(?: with instance id (?P<group_instance_id>.+))? has left group "
            r"through explicit `LeaveGroup` request; client reason: (?P<client_reason>.*)$",
        ),
        (
            "epoch_member_fenced",
            r"Member (?P<member_id>\S+) fenced from the group because (?P<reason_text>.*)\.$",
        ),
    )
)
SETTINGS: Final = "settings"
"""The type of rows that are about a broker's settings, and no group."""
_SESSION: Final = re.compile(r"\bgroup\.consumer\.session\.timeout\.ms = (\d+)")
# Lines that name no group: a broker that stops, and a process that is still there when another one has its instance id; and
# what a broker reads when it starts.
_OF_BROKER: Final = (
    ("stopping", re.compile(r"\[BrokerServer id=\d+\] Transition from STARTED to SHUTTING_DOWN$")),
    ("stopping", re.compile(r" INFO Stopped by a signal$")),
    (
        "static_fenced",
        re.compile(
            r"Request memberId=(?P<member_id>.+) for static member with groupInstanceId=(?P<group_instance_id>.+) is fenced by "
            r"existing memberId=(?P<owner_id>.+) during operation [\w-]+$"
        ),
    ),
    (
        "loaded",
        re.compile(
            r"Loaded \w+ group (?P<group_id>.+) with (?P<members>\d+) members(?: in state (?P<state>\w+))?\.?$",
        ),
    ),
)
_OF_BROKER_WORDS: Final = ("Loaded ", "SHUTTING_DOWN", "Stopped by", " is fenced by ")
# What Kafka's default layout puts behind the message: " (org.apache.kafka.coordinator.group.GroupMetadataManager)".
_LOGGER: Final = re.compile(r" \((?:\w+\.)+[\w$]+\)$")
_CLIENT_REASON: Final = re.compile(r"; client reason: (.*)$")
_NOT_PROVIDED: Final = "not provided"
_NUMBERS: Final = ("generation_id", "members")


def parse_line(text: str, zone: ZoneInfo) -> dict[str, Any] | None:
    """The columns of LOG_LINES in a line, without evidence; None: it is not about a group, or has no time."""
    if "roup" not in text or (time := _TIME.search(text)) is None:
        return None
    text = _LOGGER.sub("", text)
    for kind, pattern in _WITH_EPOCHS if "[GroupId " in text else _PATTERNS:
        found = pattern.search(text, time.end())
        if found is not None:
            row: dict[str, Any] = {"type": kind, "ts_ms": _ts_ms(time, zone)}
            return row | _columns(found.groupdict())
    return None


def parse_broker_line(text: str, zone: ZoneInfo) -> dict[str, Any] | None:
    """`type`, `ts_ms` and, of `loaded`, the group, in a line about a broker's start or end, or of no group; None: it is another line."""
    if not any(word in text for word in _OF_BROKER_WORDS) or (time := _TIME.search(text)) is None:
        return None
    text = _LOGGER.sub("", text)
    for kind, pattern in _OF_BROKER:
        found = pattern.search(text, time.end())
        if found is not None:
            row: dict[str, Any] = {"type": kind, "ts_ms": _ts_ms(time, zone)}
            return row | _columns(found.groupdict())
    return None


def parse_setting(text: str) -> dict[str, Any] | None:
    """`session_ms`, of groups of the new protocol, in a line of the settings that a broker writes when it starts; None: it is another line."""
    if "group.consumer.session" not in text or (found := _SESSION.search(text)) is None:
        return None
    return {"type": SETTINGS, "session_ms": int(found[1])}


def _columns(found: Mapping[str, str | None]) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: value for name, value in found.items() if value is not None and name not in ("ids", "one_id", "state2")
    }
    row |= {name: int(row[name]) for name in _NUMBERS if name in row}
    if (state := found.get("state2")) is not None:
        row["state"] = state
    if (one := found.get("one_id")) is not None:
        row["member_ids"] = [one]
    elif (ids := found.get("ids")) is not None:
        row["member_ids"] = [name for name in ids.strip("[]").split(", ") if name]
    if (reason := row.get("reason_text")) is not None and (match := _CLIENT_REASON.search(reason)) is not None:
        row["client_reason"] = match[1]
    if row.get("client_reason") == _NOT_PROVIDED:
        del row["client_reason"]
    return row


def _ts_ms(time: re.Match[str], zone: ZoneInfo) -> int:
    at = datetime.fromisoformat(f"{time[1]}T{time[2]}").replace(tzinfo=zone)
    return int(at.timestamp()) * 1000 + int(time[3])
