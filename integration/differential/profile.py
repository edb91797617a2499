"""What a sequence is about: drawn once, before its steps."""

from __future__ import annotations

import random

SHORT_SESSION_MS = 650
SHORT_REBALANCE_MS = 1_500
LONG_MS = 120_000

SLOTS = "abcde"
EPOCHS_SHARE = 0.3
"""How many sequences are about groups of the new protocol."""
CLASSIC_SLOTS = "ab"
"""Of groups with members of both protocols: whose clients speak the classic one."""
_EXPRESSIONS = ("t", "t|u", "[tu]", "t.*", "nothing-is-called-like-this.*")
_NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")


class Profile:
    """What a sequence is about, drawn once.

    `timing` of a group: "long" (no timer fires), "session" (some members have short sessions), "rebalance" (all have
    short rebalance timeouts), "both". `order`: whether members agree on the order of protocols, so that votes cannot tie.
    `has_epochs`: its groups are of the new protocol. Of those: `assignor` is what members ask for, `expression` a regular
    expression that some subscribe to, None without; `is_mixed`: some members speak the classic protocol, and all are static,
    because `range` puts dynamic ones in the order of their ids, which each broker makes itself.
    """

    def __init__(self, rnd: random.Random) -> None:
        self.groups = ["g1", "g2"][: rnd.choice((1, 1, 2))]
        timings = ("long",) * 5 + ("session",) * 4 + ("rebalance", "both")
        self.timing = {name: rnd.choice(timings) for name in self.groups}
        self.protocol_type = {name: rnd.choice(("consumer",) * 4 + ("connect",)) for name in self.groups}
        self.names = rnd.sample(_NAMES, rnd.choice((1, 2, 2, 3)))
        self.order = rnd.random() < 0.7
        self.static = rnd.choice(("", "", "e", "de", "bde"))
        self.same_instance = rnd.random() < 0.4
        self.slots = SLOTS[: rnd.choice((2, 3, 4, 5))] + "e"
        self.newest_only = rnd.random() < 0.25
        self.has_epochs = rnd.random() < EPOCHS_SHARE
        self.is_mixed = False
        self.assignor = "range"
        self.expression: str | None = None

    def only_epochs(self, rnd: random.Random) -> None:
        """Groups of the new protocol, and more of them than among other sequences: with what needs more time or patience."""
        self.has_epochs = True
        self.is_mixed = rnd.random() < 0.3
        if not self.is_mixed:
            self.assignor = rnd.choice(("range", "range", "uniform"))
            self.expression = rnd.choice((None, None, *_EXPRESSIONS))
