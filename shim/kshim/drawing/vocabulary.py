"""The one vocabulary of bars, marks and colours: docs/pictures.md shows it. Each kind differs by shape, not only by colour."""

from __future__ import annotations

from enum import Enum


class BarKind(Enum):
    """Something that lasts: its keyword, its meaning, how high its bar is in a lane of 18, and its character on a terminal."""

    MEMBER = "member", "is a member", 4, "─"
    WAITING = "waiting", "has joined, and waits for the others (JOIN)", 8, "▒"
    SYNCING = "syncing", "waits for its assignment (SYNC)", 8, "▓"
    REVOKING = "revoking", "gives up partitions, or waits until others have (REVOKE)", 8, "▚"
    LATE = "late", "the others wait for it", 14, "█"
    SILENT = "silent", "nothing is heard of it", 14, "╌"
    OWNED = "owned", "has an owner", 4, "━"
    PAUSED = "paused", "stands still while the group rebalances", 8, "░"
    UNOWNED = "unowned", "has no living owner", 10, "▇"

    def __init__(self, keyword: str, words: str, height: int, character: str) -> None:
        self.keyword = keyword
        self.words = words
        self.height = height
        self.character = character


TROUBLE = frozenset({BarKind.LATE, BarKind.SILENT, BarKind.UNOWNED})
"""What an eye is to go to first."""


class MarkKind(Enum):
    """Something of a moment: its keyword, its meaning, its shape around (0, 0) as the path of an SVG, and its character."""

    JOINED = "joined", "joined", "M-5 5L0 -5L5 5Z", "▲"
    LEFT = "left", "left in good order", "M-5 -5L0 5L5 -5Z", "▼"
    GONE = "gone", "removed: its session expired, or it did not come in time", "M-5 -5L5 5M5 -5L-5 5", "✕"
    REPLACED = "replaced", "another process took its place", "M-5 0L0 -5L5 0L0 5Z", "◆"
    ASKED = "asked", "asked for a rebalance", "M-5 0A5 5 0 1 1 5 0A5 5 0 1 1 -5 0", "○"
    FAULT = "fault", "an injected fault acted on its requests", "M1 -7L-4 1H0L-1 7L4 -1H0Z", "ϟ"
    COMMITTED = "committed", "offsets were committed", "M0 -4V4", "╵"

    def __init__(self, keyword: str, words: str, path: str, character: str) -> None:
        self.keyword = keyword
        self.words = words
        self.path = path
        self.character = character


LIGHT = """
:root { --ink: #1f2933; --quiet: #52606d; --line: #cbd2d9; --paper: #ffffff; --ground: #f5f7fa; --calm: #7b8fa6;
  --waiting: #b7791f; --syncing: #5a67d8; --culprit: #c53030; --band: #e8eef7; --chosen: #cfe0f7; --link: #1a56b0; }
""".strip()
DARK = """
:root { color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --quiet: #a3b1c2; --line: #3e4c59; --paper: #1b232c; --ground: #11171d;
  --calm: #7f93a8; --waiting: #d69e2e; --syncing: #8f9bf3; --culprit: #fc8181; --band: #24303d; --chosen: #2f4763; --link: #8ab8ff; } }
""".strip()

CSS = """
svg.lanes { display: block; width: 100%; min-width: 760px; height: auto; font: 12px system-ui, sans-serif; }
svg.lanes text { fill: var(--quiet); unicode-bidi: isolate; } svg.lanes text.name { fill: var(--ink); }
svg.lanes .culprit text.name { fill: var(--culprit); font-weight: 700; } svg.lanes .culprit .row { fill: var(--culprit); opacity: .1; }
svg.lanes .row { fill: none; } svg.lanes .axis { stroke: var(--line); } svg.lanes text.head { font-weight: 600; }
.band { fill: var(--band); } ul.legend .band { stroke: var(--line); } text.flag { fill: var(--culprit); } svg.lanes .chosen .band { fill: var(--chosen); } svg.lanes a text { fill: var(--link); }
svg.lanes a:hover .band, svg.lanes a:focus .band { fill: var(--chosen); } svg.lanes a:focus { outline: 2px solid var(--link); }
svg.lanes .chosen text { font-weight: 700; text-decoration: underline; }
.cut { fill: var(--ground); stroke: var(--line); stroke-dasharray: 3 3; }
.bar { fill: var(--calm); } .bar.waiting, .bar.revoking, .bar.paused { fill: var(--waiting); } .bar.syncing { fill: var(--syncing); }
.bar.late, .bar.unowned { fill: var(--culprit); }
.bar.silent { fill: var(--paper); stroke: var(--culprit); stroke-width: 1.5; stroke-dasharray: 4 2; }
.culprit .bar.silent { stroke-width: 3; stroke-dasharray: 7 3; }
.aside { opacity: .35; }
.mark { fill: var(--ink); stroke: var(--paper); stroke-width: 1; } .mark.gone { fill: none; stroke: var(--culprit); stroke-width: 3; }
.mark.asked { fill: var(--paper); stroke: var(--ink); stroke-width: 2; } .mark.fault { fill: var(--waiting); stroke: var(--ink); }
.mark.committed { fill: none; stroke: var(--quiet); stroke-width: 1.5; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0 0; padding: 0; color: var(--quiet); font-size: 13px; }
ul.legend svg { width: 22px; height: 18px; vertical-align: middle; margin-right: 4px; }
""".strip()
"""Of everything that is drawn, with the colours of LIGHT, and of DARK where a page has both."""
