"""The live page: groups, and how each came to be as it is, as HTML made of values; its style and its script."""

from __future__ import annotations

from kshim.page.html import ROWS_SHOWN, group_page, group_picture, group_text, groups_page, message_page
from kshim.page.values import GroupNow, GroupRow, MemberNow, OffsetNow, Owners, Site, Turn, Wait

__all__ = [
    "ROWS_SHOWN",
    "GroupNow",
    "GroupRow",
    "MemberNow",
    "OffsetNow",
    "Owners",
    "Site",
    "Turn",
    "Wait",
    "group_page",
    "group_picture",
    "group_text",
    "groups_page",
    "message_page",
]
