"""Random steps: mostly what a client would do next, the rest what a client should not do."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from integration.differential.model import GroupModel, Model, Slot
from integration.differential.profile import (
    CLASSIC_SLOTS,
    LONG_MS,
    SHORT_REBALANCE_MS,
    SHORT_SESSION_MS,
    SLOTS,
    Profile,
)
from integration.differential.steps import Step
from kshim_protocol.apis import API_TABLE

_KEYS = {
    "join": 11,
    "sync": 14,
    "heartbeat": 12,
    "leave": 13,
    "commit": 8,
    "fetch": 9,
    "offset-delete": 47,
    "describe": 15,
    "list": 16,
    "delete": 42,
    "find-coordinator": 10,
    "consumer-heartbeat": 68,
    "consumer-describe": 69,
}
_METADATA = ("sub:t", "sub:t,u", "sub:u", "sub:", "no subscription", "")
_STATES = (
    "Stable",
    "stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Dead",
    "Assigning",
    "nonsense",
    "",
)
_TYPES = ("classic", "Classic", "consumer", "share", "streams", "nonsense")
_TOPICS = ("t", "t", "t", "u", "missing")


class Generator:
    """Draws the next step from what the model knows."""

    def __init__(self, rnd: random.Random, model: Model, profile: Profile | None = None) -> None:
        self.rnd = rnd
        self.model = model
        self.profile = profile or Profile(rnd)

    def next_step(self) -> Step:
        """A step of any kind."""
        if self.profile.has_epochs:
            weights = MIXED_WEIGHTS if self.profile.is_mixed else EPOCH_WEIGHTS
            return self.of_kind(self.rnd.choices(list(weights), list(weights.values()))[0])
        if self.rnd.random() < 0.62:
            return self.sensible()
        kind = self.rnd.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        return self.of_kind(kind)

    def of_kind(self, kind: str) -> Step:
        """A step of one kind."""
        group = self.model.group(self.rnd.choice(self.profile.groups))
        slot = group.slot(self.rnd.choice(self.profile.slots))
        return MAKERS[kind](self, group, slot)

    def sensible(self) -> Step:
        """What the client in a slot would do next."""
        group = self.model.group(self.rnd.choice(self.profile.groups))
        slots = [group.slot(name) for name in dict.fromkeys(self.profile.slots)]
        idle = [slot for slot in slots if not slot.waiting]
        if not idle or (len(idle) < len(slots) and self.rnd.random() < 0.12):
            return self.clear_out(group, slots)
        slot = self.rnd.choice(idle)
        match slot.status:
            case "new" | "pending" | "rejoin":
                return self.join(group, slot)
            case "joined":
                return self.sync(group, slot)
            case _:
                maker = self.rnd.choice(
                    (
                        Generator.heartbeat,
                        Generator.heartbeat,
                        Generator.commit,
                        Generator.fetch,
                        Generator.describe,
                        Generator.join,
                        Generator.leave,
                    )
                )
                return maker(self, group, slot)

    # Requests that make sense

    def join(self, group: GroupModel, slot: Slot) -> Step:
        """Join as this slot: new, with the id it was given, or again."""
        step = Step("join", group.name, slot.name, v=self._version("join"), **self._join_options(group, slot))
        version = step.options["v"]
        if slot.join is not None and slot.status in ("pending", "joined", "synced") and self.rnd.random() < 0.6:
            step.options["protocols"] = slot.join["protocols"]
        slot.join = step.options
        if version == 0 and self.profile.timing[group.name] != "long":
            step.options["v"] = 1  # v0 has one timeout for both: join timer and session would end together
        if slot.status == "new" and slot.member and self.rnd.random() < 0.5:
            step.options["id"] = ""
        if self._instance(slot) is not None and version >= 5:
            step.options["instance"] = self._instance(slot)
        if version >= 8 and self.rnd.random() < 0.5:
            step.options["reason"] = self.rnd.choice(("because", "", None, "ü" * 100))
        return step

    def _join_options(self, group: GroupModel, slot: Slot) -> dict[str, Any]:
        timing = self.profile.timing[group.name]
        is_short = timing in ("session", "both") and self.rnd.random() < 0.6
        options: dict[str, Any] = {
            "session": SHORT_SESSION_MS if is_short else LONG_MS,
            "rebalance": SHORT_REBALANCE_MS if timing in ("rebalance", "both") else LONG_MS,
            "protocols": self._protocols(),
        }
        if self.profile.protocol_type[group.name] != "consumer":
            options["type"] = self.profile.protocol_type[group.name]
        return options

    def _protocols(self) -> list[list[str]]:
        names = [name for name in self.profile.names if self.rnd.random() < 0.8] or self.profile.names[:1]
        if not self.profile.order:
            self.rnd.shuffle(names)
        metadata = self.rnd.choice(_METADATA[:2] if self.rnd.random() < 0.7 else _METADATA)
        return [[name, metadata] for name in names]

    def _instance(self, slot: Slot) -> str | None:
        if self.profile.has_epochs and self.profile.is_mixed:
            return f"static-{slot.name}"
        if slot.name not in self.profile.static:
            return None
        return "same" if self.profile.same_instance else f"static-{slot.name}"

    def sync(self, group: GroupModel, slot: Slot) -> Step:
        """Sync: the leader brings shares."""
        step = Step("sync", group.name, slot.name, v=self._version("sync"))
        if slot.is_leader and slot.members:
            step.options["assign"] = "all"
            if self.rnd.random() < 0.15:
                step.options["assign"] = [["@", "mine"], ["nobody", "nobody's"]]
            if self.rnd.random() < 0.08:
                step.options["assign"] = [["@", ["x", self.rnd.choice((7_000, 7_900, 9_000))]]]
            if self.profile.is_mixed and self.profile.has_epochs:
                step.options["assign"] = "partitions"
        self._add_instance(step, slot, 3)
        return step

    def heartbeat(self, group: GroupModel, slot: Slot) -> Step:
        """Heartbeat with what the slot knows."""
        step = Step("heartbeat", group.name, slot.name, v=self._version("heartbeat"))
        self._add_instance(step, slot, 3)
        return step

    def commit(self, group: GroupModel, slot: Slot) -> Step:
        """Commit some offsets as a member."""
        rnd = self.rnd
        offsets = []
        for _ in range(rnd.choice((1, 1, 2, 3))):
            metadata: Any = rnd.choice(("", "", "note", None, "✓ note"))
            if rnd.random() < 0.1:
                metadata = [rnd.choice(("x", "語", "😀")), rnd.choice((2048, 2049, 4096, 4097))]
            index = rnd.choice((0, 0, 1, 2, 3, -1)) if rnd.random() < 0.3 else 0
            offsets.append(
                [rnd.choice(_TOPICS), index, rnd.choice((0, 1, 5, 100, -1, 2**40)), rnd.choice((-1, 0, 3)), metadata]
            )
        if len({(topic, index) for topic, index, *_ in offsets}) < len(offsets) and rnd.random() < 0.8:
            offsets = offsets[:1]
        step = Step("commit", group.name, slot.name, v=self._version("commit"), offsets=offsets)
        if step.options["v"] <= 4 and rnd.random() < 0.5:
            step.options["retention"] = rnd.choice((-1, 0, 3_600_000))
        self._add_instance(step, slot, 7)
        return step

    def leave(self, group: GroupModel, slot: Slot) -> Step:
        """Leave as oneself."""
        version = self._version("leave")
        reason = self.rnd.choice((None, "bye", "")) if version >= 5 else None
        instance = slot.instance if self.rnd.random() < 0.8 else None
        return Step("leave", group.name, slot.name, v=version, members=[["@", instance, reason]])

    def clear_out(self, group: GroupModel, slots: list[Slot]) -> Step:
        """Take out everybody who is not waiting, so that those who are can go on."""
        gone = [member for slot in slots for member in slot.previous[-2:]]
        gone += [slot.member for slot in slots if slot.member and not slot.waiting]
        members = [[member, None, None] for member in dict.fromkeys(gone)]
        return Step("leave", group.name, slots[0].name, v=self.rnd.choice((3, 4, 5)), members=members)

    def _add_instance(self, step: Step, slot: Slot, since: int) -> None:
        if slot.instance is not None and step.options["v"] >= since and self.rnd.random() < 0.85:
            step.options["instance"] = slot.instance

    # The new protocol

    def consumer_heartbeat(self, group: GroupModel, slot: Slot) -> Step:
        """What the member in a slot would say next: it joins, or does as it was told."""
        rnd = self.rnd
        step = Step("consumer-heartbeat", group.name, slot.name, v=self._version("consumer-heartbeat"))
        options = step.options
        if slot.status == "new":
            if not slot.member or rnd.random() < 0.5:
                slot.runs += 1
                options["id"] = f"m-{slot.name}-{slot.runs}"
            options.update(generation=0, owned=[], timeout=LONG_MS, names=self._names(), assignor=self.profile.assignor)
            self._add_expression(step, 0.4)
            if self._instance(slot) is not None:
                options["instance"] = self._instance(slot)
            return step
        if rnd.random() < 0.75:
            options["owned"] = slot.owned
        if rnd.random() < 0.15:
            options["names"] = self._names()
        if rnd.random() < 0.1:
            options["timeout"] = LONG_MS
        if rnd.random() < 0.05:
            options["assignor"] = self.profile.assignor
        self._add_expression(step, 0.08)
        if slot.instance is not None and rnd.random() < 0.8:
            options["instance"] = slot.instance
        return step

    def _add_expression(self, step: Step, share: float) -> None:
        if self.profile.expression is not None and step.options["v"] >= 1 and self.rnd.random() < share:
            step.options["regex"] = self.rnd.choice((self.profile.expression, self.profile.expression, ""))

    def _names(self) -> list[str]:
        if self.profile.is_mixed:  # in an assignment of the classic protocol the topics have the order of a hash map
            return ["t"]
        # Never nothing: when the heartbeat with which such a member joins computes a target, Kafka 4.4 takes all members for
        # equal, and gives partitions to nobody, or to that member.
        return list(self.rnd.choice((("t",), ("t",), ("t", "u"), ("u",), ("t", "missing"))))

    def consumer_leave(self, group: GroupModel, slot: Slot) -> Step:
        """Leave for good, or for now."""
        step = Step("consumer-heartbeat", group.name, slot.name, v=self._version("consumer-heartbeat"))
        step.options["generation"] = -2 if slot.instance is not None and self.rnd.random() < 0.7 else -1
        if slot.instance is not None:
            step.options["instance"] = slot.instance
        return step

    def odd_consumer_heartbeat(self, group: GroupModel, slot: Slot) -> Step:
        """A heartbeat with something unusual in it."""
        step = self.consumer_heartbeat(group, slot)
        rnd, options = self.rnd, step.options
        match rnd.randrange(9 if self.profile.expression is None or options["v"] < 1 else 10):
            case 9:
                options["regex"] = rnd.choice(("[", "(?=t)", "t(", "t**", "\\"))
            case 0 | 1:
                options["generation"] = rnd.choice(("-1", "+1", 0, -1, -2, -3, 99))
            case 2:
                options["id"] = rnd.choice(("@'", f"@{rnd.choice(SLOTS)}", "nobody"))
            case 3:
                options["instance"] = rnd.choice(("same", "static-e", "static-d", "other", ""))
            case 4:
                options["owned"] = rnd.choice(
                    (None, [], [["t", [0, 1, 2]]], [["u", [0]]], [["missing", [0]]], [["t", [7]]])
                )
            case 5:
                options["assignor"] = rnd.choice(("", "sticky", "range"))
            case 6:
                options["rack"] = rnd.choice(("", "r1", "r2"))
            case 7:
                options["timeout"] = rnd.choice((-1, LONG_MS, 10**9))
            case _:
                step.group, options["generation"] = rnd.choice((("", 0), ("unknown", 7)))  # which all sequences share
        return step

    def consumer_describe(self, group: GroupModel, slot: Slot) -> Step:
        """Epochs, members and assignments."""
        names = [group.name, *self.rnd.choice(([], [], ["unknown"], list(self.profile.groups), [""]))]
        names = list(dict.fromkeys(names)) if self.rnd.random() < 0.95 else names
        version = self._version("consumer-describe")
        if group.has_choice:  # whose answer may have to end the group
            return Step("consumer-describe", group.name, "", v=version, groups=[group.name])
        return Step("consumer-describe", "", "", v=version, groups=names, ops=self.rnd.random() < 0.3)

    # Both protocols in one group

    def of_either(self, group: GroupModel, slot: Slot) -> Step:
        """What the member in a slot does next, which speaks the protocol of its slot."""
        if slot.waiting:
            return self.consumer_describe(group, slot)
        if slot.name not in CLASSIC_SLOTS:
            return (
                self.consumer_leave(group, slot) if self.rnd.random() < 0.12 else self.consumer_heartbeat(group, slot)
            )
        match slot.status:
            case "new" | "pending" | "rejoin":
                return self._static_join(group, slot)
            case "joined":
                return self.sync(group, slot)
            case _ if self.rnd.random() < 0.12:
                return self.leave(group, slot)
            case _:
                return self.heartbeat(group, slot)

    def _static_join(self, group: GroupModel, slot: Slot) -> Step:
        step = self.join(group, slot)
        step.options.update(
            v=max(step.options["v"], 5),
            session=LONG_MS,
            rebalance=LONG_MS,
            protocols=[["range", "sub:t"]],
            instance=self._instance(slot),
        )
        step.options.pop("type", None)
        return step

    # Requests that may not

    def odd_join(self, group: GroupModel, slot: Slot) -> Step:
        """A Join with something unusual in it."""
        step = self.join(group, slot)
        rnd, options = self.rnd, step.options
        match rnd.randrange(12):
            case 0:
                options["protocols"] = rnd.choice(([], [["", "sub:t"]]))
            case 10 if self.profile.timing[group.name] == "long":  # elsewhere it would matter whose session ends first
                options["rebalance"] = rnd.choice((10**9, 2**31 - 1))
            case 1:
                options["protocols"] = [["nobody-else-has-it", "sub:t"]]
            case 2:
                options["type"] = rnd.choice(("", "other", "consumer"))
            case 3:
                options["session"] = rnd.choice((-1, 0, 1, 99, 1_800_001, 2**31 - 1))
            case 4 | 5:
                options["id"] = rnd.choice(("", "@'", f"@{rnd.choice(SLOTS)}", "nobody", f"@{rnd.choice(SLOTS)}'"))
            case 6 | 7 if options["v"] >= 5:
                options["instance"] = rnd.choice(("same", "static-e", "static-d", "other", "", "with space", "x" * 300))
                options["id"] = rnd.choice(("", "@", "@'", f"@{rnd.choice(SLOTS)}"))
            case 8:
                options["protocols"] = [*options["protocols"], *options["protocols"]][: rnd.choice((2, 3))]
            case 9:
                step.group = ""
            case _:
                options["client"] = rnd.choice(("", "other client", "ü", "x" * 100, None))
        return step

    def odd_sync(self, group: GroupModel, slot: Slot) -> Step:
        """A Sync with something unusual in it."""
        step = self.sync(group, slot)
        rnd, options = self.rnd, step.options
        match rnd.randrange(6):
            case 0:
                options["generation"] = rnd.choice(("-1", "+1", 0, -1, 99))
            case 1:
                options["id"] = rnd.choice(("", "@'", f"@{rnd.choice(SLOTS)}", "nobody"))
            case 2:
                options["instance"] = rnd.choice(("same", "static-e", "other"))
            case 3:
                options["type"] = rnd.choice((None, "other", ""))
            case 4:
                options["name"] = rnd.choice((None, "other", ""))
            case _:
                step.group = rnd.choice(("", step.group))
                options["assign"] = [["@", "one"], ["@", "two"], [f"@{rnd.choice(SLOTS)}", "x" * 1000]]
        return step

    def odd_heartbeat(self, group: GroupModel, slot: Slot) -> Step:
        """A Heartbeat with something unusual in it."""
        step = self.heartbeat(group, slot)
        self._make_odd(step)
        return step

    def odd_commit(self, group: GroupModel, slot: Slot) -> Step:
        """A commit with something unusual in it; or one outside any membership."""
        step = self.commit(group, slot)
        if self.rnd.random() < 0.5:
            step.options["generation"] = self.rnd.choice((-1, -1, -2))
            step.options["id"] = self.rnd.choice(("", "", "@", "nobody"))
        else:
            self._make_odd(step)
        if step.group == "":
            step.group = group.name  # "" is a group that all sequences would share
        return step

    def _make_odd(self, step: Step) -> None:
        rnd, options = self.rnd, step.options
        match rnd.randrange(5):
            case 0 | 1:
                options["generation"] = rnd.choice(("-1", "+1", 0, -1, 99, -99))
            case 2:
                options["id"] = rnd.choice(("", "@'", f"@{rnd.choice(SLOTS)}", "nobody"))
            case 3:
                options["instance"] = rnd.choice(("same", "static-e", "static-d", "other", ""))
                options["id"] = rnd.choice(("", "@", f"@{rnd.choice(SLOTS)}"))
            case _:
                step.group = ""

    def odd_leave(self, group: GroupModel, slot: Slot) -> Step:
        """Several members, or some that are not there."""
        rnd = self.rnd
        entries: list[list[str | None]] = []
        for _ in range(rnd.choice((0, 1, 1, 2, 3))):
            member = rnd.choice(("@", f"@{rnd.choice(SLOTS)}", "@'", "", "nobody"))
            instance = rnd.choice((None, None, "same", "static-e", "static-d", "other"))
            entries.append([member, instance, rnd.choice((None, "reason"))])
        version = self._version("leave")
        if version < 3 and not entries:
            version = 3
        name = group.name if rnd.random() < 0.93 else ""
        return Step("leave", name, slot.name, v=version, members=entries)

    # Questions and administration

    def fetch(self, group: GroupModel, slot: Slot) -> Step:
        """Committed offsets of one or several groups."""
        rnd = self.rnd
        version = self._version("fetch")
        names = (
            [group.name]
            if version < 8
            else [
                rnd.choice((*self.profile.groups, group.name, "unknown", "")) for _ in range(rnd.choice((1, 1, 2, 3)))
            ]
        )
        if rnd.random() < 0.85:
            names = list(dict.fromkeys(names))
        groups: list[list[Any]] = []
        for name in names:
            topics: list[list[Any]] | None = None
            if rnd.random() < 0.6:
                topics = [
                    [topic, rnd.choice(([0], [0, 1, 2], [], [7], [-1]))]
                    for topic in dict.fromkeys(rnd.choices(_TOPICS, k=2))
                ]
            groups.append([name, topics])
        step = Step("fetch", group.name, slot.name, v=version, groups=groups)
        if version >= 7 and rnd.random() < 0.3:
            step.options["stable"] = True
        if version >= 9 and rnd.random() < 0.3:
            step.options["id"] = rnd.choice(("@", "nobody", ""))
            step.options["epoch"] = rnd.choice((-1, 0, 5))
        return step

    def offset_delete(self, group: GroupModel, slot: Slot) -> Step:
        """Forget some offsets."""
        rnd = self.rnd
        topics = [[topic, rnd.choice(([0], [0, 1], [5], []))] for topic in dict.fromkeys(rnd.choices(_TOPICS, k=2))]
        return Step("offset-delete", group.name if rnd.random() < 0.93 else "", "", v=0, topics=topics)

    def describe(self, group: GroupModel, slot: Slot) -> Step:
        """State and members."""
        names = [group.name, *self.rnd.choice(([], [], ["unknown"], list(self.profile.groups), ["unknown", "other"]))]
        names = list(dict.fromkeys(names)) if self.rnd.random() < 0.95 else names
        return Step("describe", "", "", v=self._version("describe"), groups=names, ops=self.rnd.random() < 0.3)

    def list(self, group: GroupModel, slot: Slot) -> Step:
        """All groups, perhaps filtered."""
        states = self.rnd.sample(_STATES, self.rnd.choice((0, 0, 1, 2)))
        types = self.rnd.sample(_TYPES, self.rnd.choice((0, 0, 1, 2)))
        return Step("list", "", "", v=self._version("list"), states=states, types=types)

    def delete(self, group: GroupModel, slot: Slot) -> Step:
        """Delete groups."""
        names = [group.name, *self.rnd.choice(([], [], ["unknown"], [group.name], list(self.profile.groups)))]
        return Step("delete", "", "", v=self._version("delete"), groups=names)

    def find_coordinator(self, group: GroupModel, slot: Slot) -> Step:
        """Who looks after a group."""
        version = self._version("find-coordinator")
        names = (
            [group.name]
            if version < 4
            else self.rnd.choice(([group.name], [], [group.name, ""], [""], list(self.profile.groups)))
        )
        step = Step("find-coordinator", "", "", v=version, groups=names)
        if version >= 1 and self.rnd.random() < 0.2:
            step.options["type"] = self.rnd.choice((3, 9, -1))
        return step

    # Bytes, connections, time

    def damaged(self, group: GroupModel, slot: Slot) -> Step:
        """A request whose body is cut short, too long or overwritten, or in a version there is not."""
        step = self.of_kind(
            self.rnd.choice(
                (
                    "join",
                    "sync",
                    "heartbeat",
                    "leave",
                    "commit",
                    "fetch",
                    "describe",
                    "list",
                    "delete",
                    "find-coordinator",
                    "offset-delete",
                )
            )
        )
        rnd, verb = self.rnd, step.verb
        api = API_TABLE[_KEYS[verb]]
        match rnd.randrange(8):
            case 0 | 1:
                step.options["damage"] = ["cut", rnd.randrange(0, 60)]
            case 5:
                step.options["damage"] = ["replace", rnd.randbytes(rnd.choice((1, 8, 30, 100))).hex()]
            case 6 if api.is_flexible(step.options["v"]):
                step.options["damage"] = ["tag", rnd.choice(("010502abcd", "02000100ff0100", "0105ffabcd"))]
            case 2:
                step.options["damage"] = ["append", rnd.choice(("00", "ff", "00" * 9, "0102030405"))]
            case 3 | 4:
                step.options["damage"] = [
                    "poke",
                    rnd.randrange(0, 40),
                    rnd.choice(("ff", "7fffffff", "80000000", "ffff", "7f", "80", "fffffffe")),
                ]
            case _:
                step.options["header_version"] = rnd.choice((api.max_version + 1, api.min_version - 1, 99, -1))
        return step

    def queued(self, group: GroupModel, slot: Slot) -> Step:
        """A request on a connection that waits for another answer: it must wait too.

        Not where a timer may be what lets it go, while timers of its own group fire: which comes first is chance.
        """
        waiting = [slot for slot in group.slots.values() if slot.waiting]
        step = self.of_kind(self.rnd.choice(("heartbeat", "commit", "fetch", "describe", "list")))
        own = self.model.group(step.group) if step.group.startswith("g") else group
        if waiting and not (group.timers.run and own.timers.run):
            step.options["behind"] = [group.name, self.rnd.choice(waiting).name]
        return step

    def close(self, group: GroupModel, slot: Slot) -> Step:
        """Close the connection of who is parked."""
        return Step("close", group.name, slot.name)

    def wait(self, group: GroupModel, slot: Slot) -> Step:
        """Until sessions have ended."""
        return Step("wait")

    def keep(self, group: GroupModel, slot: Slot) -> Step:
        """Let sessions end while some members go on."""
        kind = self.rnd.choice(("heartbeat", "heartbeat", "commit", "fetch"))
        step = Step(
            "keep",
            group.name,
            "",
            slots=self.rnd.sample(sorted(group.slots), min(len(group.slots), self.rnd.choice((1, 2)))),
            kind=kind,
        )
        if self.rnd.random() < 0.15 and kind != "fetch":
            step.options["generation"] = "+1"
        return step

    def _version(self, verb: str) -> int:
        api = API_TABLE[_KEYS[verb]]
        if self.profile.newest_only or self.rnd.random() < 0.3:
            return api.max_version
        return self.rnd.randint(api.min_version, api.max_version)


MAKERS: dict[str, Callable[[Generator, GroupModel, Slot], Step]] = {
    "join": Generator.join,
    "sync": Generator.sync,
    "heartbeat": Generator.heartbeat,
    "leave": Generator.leave,
    "commit": Generator.commit,
    "odd-join": Generator.odd_join,
    "odd-sync": Generator.odd_sync,
    "odd-heartbeat": Generator.odd_heartbeat,
    "odd-commit": Generator.odd_commit,
    "odd-leave": Generator.odd_leave,
    "fetch": Generator.fetch,
    "offset-delete": Generator.offset_delete,
    "describe": Generator.describe,
    "list": Generator.list,
    "delete": Generator.delete,
    "find-coordinator": Generator.find_coordinator,
    "damaged": Generator.damaged,
    "queued": Generator.queued,
    "close": Generator.close,
    "consumer-heartbeat": Generator.consumer_heartbeat,
    "consumer-leave": Generator.consumer_leave,
    "odd-consumer-heartbeat": Generator.odd_consumer_heartbeat,
    "consumer-describe": Generator.consumer_describe,
    "of-either": Generator.of_either,
    "wait": Generator.wait,
    "keep": Generator.keep,
}

WEIGHTS: dict[str, float] = {
    "join": 6,
    "sync": 3,
    "heartbeat": 2,
    "leave": 2,
    "commit": 3,
    "odd-join": 10,
    "odd-sync": 5,
    "odd-heartbeat": 4,
    "odd-commit": 6,
    "odd-leave": 5,
    "fetch": 5,
    "offset-delete": 3,
    "describe": 6,
    "list": 3,
    "delete": 2,
    "find-coordinator": 1.5,
    "damaged": 5,
    "queued": 2,
    "close": 1.5,
    "wait": 1,
    "keep": 1.5,
}

EPOCH_WEIGHTS: dict[str, float] = {
    "consumer-heartbeat": 40,
    "consumer-leave": 4,
    "odd-consumer-heartbeat": 12,
    "consumer-describe": 8,
    "commit": 6,
    "odd-commit": 4,
    "fetch": 5,
    "leave": 1.5,
    "odd-leave": 1.5,
    "describe": 2,
    "list": 2,
    "offset-delete": 2,
    "delete": 2,
    "heartbeat": 1,
}
"""Of sequences about groups of the new protocol."""

MIXED_WEIGHTS: dict[str, float] = {
    "of-either": 60,
    "consumer-describe": 8,
    "describe": 4,
    "commit": 5,
    "fetch": 4,
    "list": 2,
    "delete": 1,
}
"""Of sequences about groups with members of both protocols, which go from one to the other and back."""
