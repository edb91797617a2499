"""One sequence of steps, played on both brokers at once; the first answer that differs ends it."""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import suppress
from typing import Any, NamedTuple

from integration.differential.allowed import Case, Rule, rules_for
from integration.differential.brokers import Pair
from integration.differential.canonical import Malformed, Tree, error_codes, parse_answer
from integration.differential.learn import learn, note_ballot, note_unseen_ballot
from integration.differential.model import GroupModel, Model
from integration.differential.requests import MAY_PARK, MAY_RELEASE, build
from integration.differential.show import error_name, show_case, show_tree
from integration.differential.steps import KEEPING, Step
from integration.differential.tickets import Side, Ticket, Trees, differences, who_joined
from integration.differential.wire import Line, LinePairs, wait_for
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.schema import Request

ANSWER_TIMEOUT_S = 10.0
AGREE_TIMEOUT_S = 4.0
"""How long one broker may take to do what the other has done."""
BEFORE_EXPIRY_S = 0.25
"""So long before a timer may fire nothing but waiting is done."""
AFTER_EXPIRY_S = 0.2
KEEP_EVERY_S = 0.1
_ZERO_TIMER_S = 0.15
_LOOKUP_S = 1.0


class Difference(Exception):
    """The brokers disagree. The message is the transcript with what each of them did."""


class Inconclusive(Exception):
    """Nothing can be said about a sequence, and another try may do better."""


class TimingLost(Inconclusive):
    """A timer may have fired in the middle of a step, as this machine stalled, or it is chance which of two fires first."""


class DrawnIdsDiffer(Inconclusive):
    """Assignors take members in the order of their ids, and an id that each broker drew has another place on each."""


class Played(NamedTuple):
    """A step and what came of it."""

    step: str
    outcome: str


class Sequence:
    """Plays steps. `counts` are requests by API, outcomes by error, and rules of `allowed.toml` that were used."""

    def __init__(self, pair: Pair, prefix: str, rules: list[Rule], agree_timeout_s: float = AGREE_TIMEOUT_S) -> None:
        self.model = Model(prefix)
        self.rules = rules
        self.sides = (Side(pair.kshim), Side(pair.kafka))
        self.played: list[Played] = []
        self.counts: Counter[str] = Counter()
        self.parked: list[Ticket] = []
        self._lines = LinePairs({side.name: side.address for side in self.sides})
        self._number = 0
        self._touched: dict[str, float] = {}
        self._drawn: set[str] = set()  # ids of dynamic members; static ones come in the order of their instance ids
        self._latest: deque[tuple[int, Any]] = deque(maxlen=3)
        self._agree_timeout_s = agree_timeout_s

    def close(self) -> None:
        """Close all connections."""
        self._lines.close()
        for side in self.sides:
            side.probe.close()

    # Steps

    def play(self, step: Step) -> None:
        """Do a step on both brokers and compare. Raises Difference, Inconclusive."""
        if step.verb not in ("wait", "keep") and any(
            group.timers.run and time.monotonic() > group.timers.quiet_until - BEFORE_EXPIRY_S
            for group in self.model.groups.values()
        ):
            self._wait("wait (sessions end)")
        match step.verb:
            case "wait":
                self._wait(str(step))
            case "close":
                self._close(step)
            case "keep":
                self._keep(step)
            case _:
                self._request(step)

    def finish(self) -> None:
        """Compare all groups once more, after every timer has fired."""
        self._wait("wait (end)")

    def transcript(self) -> str:
        """What was played so far, in the notation of the scenarios."""
        width = max((len(played.step) for played in self.played), default=0)
        width = min(width, 90)
        return "\n".join(f"    {played.step:<{width}} -> {played.outcome}" for played in self.played)

    # Requests

    def _request(self, step: Step) -> None:
        ticket = self._send(step)
        if ticket is None:
            return
        if step.verb not in MAY_PARK and not self._is_behind(ticket):
            self._await(ticket)
        if step.verb in MAY_RELEASE or (step.verb == "consumer-heartbeat" and self._somebody_waits_in(ticket.group)):
            self._probe(ticket.group)
        self._compare(str(step), ticket)
        self._look_behind(step, ticket)

    def _somebody_waits_in(self, group: GroupModel) -> bool:
        """Whom an upgrade of the group answers."""
        return any(ticket.group is group and ticket.step.verb in MAY_PARK for ticket in self.parked)

    def _look_behind(self, step: Step, ticket: Ticket) -> None:
        """What a heartbeat of the new protocol leads to, before more is built on it: topics of an expression, or a choice."""
        if step.verb != "consumer-heartbeat" or not self._is_current(ticket.group):
            return
        if step.options.get("regex"):
            self._await_topics(ticket.group)
        if ticket.group.has_choice or step.options.get("regex"):
            name = ticket.group.name
            self._request(Step("consumer-describe", name, "", v=1, groups=[name]))

    def _await_topics(self, group: GroupModel) -> None:
        """Brokers look up expressions aside, and raise the epoch if that brings topics: until both have, or long enough."""
        before = [self._group_epoch(side, group) for side in self.sides]
        deadline = time.monotonic() + _LOOKUP_S
        while time.monotonic() < deadline:
            epochs = [self._group_epoch(side, group) for side in self.sides]
            if epochs[0] == epochs[1] and epochs != before:
                return
            time.sleep(0.01)

    def _group_epoch(self, side: Side, group: GroupModel) -> int:
        request = ConsumerGroupDescribeRequest(group_ids=(self.model.group_id(group.name),))
        found: int = self._probed(side, request, 1).groups[0].group_epoch
        return found

    def _send(self, step: Step) -> Ticket | None:
        """Send a step's request. None: it cannot be sent, for what it needs is not there."""
        ticket = self._prepare(step)
        if ticket is not None:
            for side in self.sides:
                ticket.send(side)
        return ticket

    def _prepare(self, step: Step) -> Ticket | None:
        """Everything but the sending."""
        started = time.monotonic()
        request = build(self.model, step)
        group = self.model.group(step.group) if step.group.startswith("g") else GroupModel(step.group)
        self._number += 1
        version = step.options["v"]
        ticket = Ticket(self._number, step, request, version, group)
        if not all(ticket.make_frame(side) for side in self.sides):
            return None
        if isinstance(request, JoinGroupRequest):
            group.timers.may_start(request, version)
        ticket.lines = self._lines_of(step) or self._lines.take()
        self._touched.setdefault(group.name, started)
        self.parked.append(ticket)
        self._latest.append((ticket.number, request))
        group.slot(step.slot).waiting += 1
        self.counts["requests"] += 1
        self.counts[f"api {ticket.api.name} v{version}"] += 1
        return ticket

    def _follow_leaders(self, group: GroupModel, done: list[Ticket]) -> None:
        """The brokers have chosen different leaders: each is synced by its own, and must answer the same all the same.

        Every Sync carries all shares, so that the requests are equal and only the order differs: leaders come last.
        """
        joins = [ticket for ticket in done if ticket.group is group and ticket.api.name == "JoinGroup"]
        leaders, options = who_joined(joins, self.sides)
        timers = group.timers
        is_late = timers.run and time.monotonic() > timers.quiet_until - BEFORE_EXPIRY_S
        if is_late or not leaders or not options.keys() >= set(leaders.values()):
            return
        self.counts["followed leaders"] += 1
        self._sync_in_turn(group, leaders, options)
        for each in options.values():
            self._request(Step("heartbeat", group.name, **each))
        self._request(Step("describe", "", "", v=6, groups=[group.name]))

    def _sync_in_turn(self, group: GroupModel, leaders: dict[str, str], options: dict[str, dict[str, Any]]) -> None:
        """A Sync of every member to both brokers, followers first."""
        shares = [[member, f"share of {member}"] for member in options]
        syncs = {
            member: self._prepare(Step("sync", group.name, **options[member], assign=shares)) for member in options
        }
        for is_turn_of_leader in (False, True):
            for side in self.sides:
                for member, sync in syncs.items():
                    if sync is not None and (member == leaders[side.name]) is is_turn_of_leader:
                        sync.send(side)
            self._probe(group)
        self._compare("# everybody syncs, each broker's own leader last")

    def _lines_of(self, step: Step) -> dict[str, Line] | None:
        """The connections of the request that this one is to stand behind."""
        behind = step.options.get("behind")
        lines = [ticket.lines for ticket in self.parked if [ticket.group.name, ticket.step.slot] == behind]
        return lines[-1] if lines else None

    def _is_behind(self, ticket: Ticket) -> bool:
        """Whether it waits until a request on the same connection has been answered."""
        return ticket is not next(other for other in self.parked if other.lines is ticket.lines)

    # Answers

    def _take(self) -> bool:
        """Collect what is here. Returns whether anything came."""
        came = False
        owing: set[Line] = set()  # answers come in order: what stands behind has none yet
        for ticket in self.parked:
            for side in self.sides:
                line = ticket.lines[side.name]
                if side.name in ticket.answers or line in owing:
                    continue
                answer = line.take()
                if answer is None:
                    owing.add(line)
                else:
                    ticket.answers[side.name] = answer
                    came = True
        return came

    def _await(self, ticket: Ticket) -> None:
        """Until both brokers have answered, or time is over."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while len(ticket.answers) < len(self.sides) and (left_s := deadline - time.monotonic()) > 0:
            wait_for((ticket.lines[side.name] for side in self.sides if side.name not in ticket.answers), left_s)
            self._take()

    def _probe(self, group: GroupModel) -> None:
        """Until both brokers have handled all that was sent: twice, for two connections may be read in any order.

        A join phase that began without members, for ids that were given out, has a timer of 0 ms: it is waited for too.
        """
        request = DescribeGroupsRequest(groups=(self.model.group_id(group.name),))
        deadline = time.monotonic() + _ZERO_TIMER_S
        rounds = 0
        while rounds < 2:
            rounds += 1
            for side in self.sides:
                if self._is_about_to_change(side, request) and time.monotonic() < deadline:
                    rounds = 0
            if rounds == 0:
                time.sleep(0.002)

    def _is_about_to_change(self, side: Side, request: DescribeGroupsRequest) -> bool:
        groups = self._probed(side, request, _PROBE_VERSION).groups
        return any(entry.group_state == "PreparingRebalance" and not entry.members for entry in groups)

    def _probed(self, side: Side, request: Request[Any], version: int) -> Any:
        """The answer of one broker to a request that is no part of the sequence."""
        name, api_key = request.info.name, request.info.api_key
        assert api_key is not None
        body = codec(type(request), version).build(request)
        is_flexible = API_TABLE[api_key].is_flexible(version)
        side.probe.send(build_request_frame(api_key, version, 0, "probe", body, flexible=is_flexible))
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while (answer := side.probe.take()) is None:
            if time.monotonic() > deadline:
                raise Difference(f"{self.transcript()}\n{side.name} does not answer {name} any more")
            wait_for([side.probe], ANSWER_TIMEOUT_S)
        if answer.frame is None:
            raise Difference(f"{self.transcript()}\n{side.name} closed a connection that only asked {name}")
        return parse_answer(answer.frame, api_key=api_key, version=version, correlation_id=0)

    def _compare(self, text: str, newest: Ticket | None = None) -> None:
        """Wait until both brokers have answered the same requests, then compare the answers."""
        deadline = time.monotonic() + self._agree_timeout_s
        self._take()
        while halves := [
            ticket for ticket in self._answered() if len(ticket.answers) == 1 and not self._is_settled(ticket)
        ]:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            wait_for((line for ticket in halves for line in ticket.lines.values()), min(left_s, 0.05))
            self._take()
        if not halves:  # after seconds of disagreement it was no timer
            self._mark_time()
        self._judge(text, newest)

    def _is_settled(self, ticket: Ticket) -> bool:
        """Whether one answer is all there will be, by a rule that names the broker that does not answer."""
        rules = self._rules(ticket)
        return bool(rules) and not any(rule.is_patient for rule in rules or ())

    def _answered(self) -> list[Ticket]:
        """Requests that a broker has answered, but for those behind one that only one broker answers, as is allowed."""
        hung = [ticket.lines for ticket in self.parked if len(ticket.answers) == 1 and self._is_settled(ticket)]
        return [
            ticket
            for ticket in self.parked
            if ticket.answers and not (self._is_behind(ticket) and ticket.lines in hung)
        ]

    def _mark_time(self) -> None:
        """Note for each group that was touched that its timers may have been restarted just now."""
        for name, started in self._touched.items():
            timers = self.model.group(name).timers if name.startswith("g") else None
            if timers is None:
                continue
            timers.touched(started)
            if timers.run and time.monotonic() > timers.quiet_until - 0.02:
                raise TimingLost
        self._touched.clear()

    def _judge(self, text: str, newest: Ticket | None) -> None:
        done = self._answered()
        outcomes: list[tuple[Ticket, str]] = []
        used: list[tuple[Ticket, Rule]] = []
        for ticket in done:
            with suppress(Malformed):
                self._name_members(ticket)
            note_ballot(ticket.group, ticket.step, ticket.request, self._trees(ticket)["kafka"])
            if ticket.step.options.get("assignor") == "uniform":
                ticket.group.has_choice = True
        for ticket in done:
            trees = self._trees(ticket)
            paths = differences(trees)
            rules = self._rules(ticket)
            if rules is None:
                self.played.append(Played(text, "DIFFERENT"))
                raise Difference(f"{self.transcript()}\n{show_case(ticket.actor, ticket.api.name, trees, paths)}")
            used += [(ticket, rule) for rule in rules]
            tree = trees["kafka"]
            allowed = "".join(f" (allowed: {rule.id})" for rule in rules)
            outcomes.append((ticket, show_tree(ticket.api.name, tree) + allowed))
            if all(rule.then == "same" for rule in rules):
                self._count(ticket, tree)
                learn(self.model, ticket.group, ticket.step, ticket.request, tree)
        self._write_down(text, newest, outcomes)
        for ticket in done:
            self._end(ticket, give_back=len(ticket.answers) == len(self.sides))
        for ticket, rule in used:
            self.counts[f"allowed {rule.id}"] += 1
            if rule.then == "new-group":
                if rule.id == "arbitrary-leader" and newest is not None and self._is_current(ticket.group):
                    self._follow_leaders(ticket.group, done)
                self._renew(ticket.group)
        self._answer_queued(done)

    def _answer_queued(self, done: list[Ticket]) -> None:
        """Requests behind those that were answered are handled now."""
        queued = [ticket for ticket in self.parked if not self._is_behind(ticket) and "behind" in ticket.step.options]
        if any(ticket.lines is other.lines for ticket in queued for other in done):
            for ticket in queued:
                self._await(ticket)
            self.counts["queued"] += len(queued)
            self._compare("# what stood behind")

    def _rules(self, ticket: Ticket) -> list[Rule] | None:
        trees = self._trees(ticket)
        case = Case(
            ticket.api.name,
            ticket.group,
            ticket.request,
            tuple(request for number, request in self._latest if number > ticket.number),
            trees["kshim"],
            trees["kafka"],
        )
        return rules_for(self.rules, case, differences(trees))

    def _trees(self, ticket: Ticket) -> Trees:
        trees = {side.name: ticket.tree(side) for side in self.sides}
        if ticket.api.name == "ListGroups":
            for tree in trees.values():
                if isinstance(tree, dict) and "groups" in tree:
                    tree["groups"] = [group for group in tree["groups"] if self.model.is_active(group["group_id"])]
        return trees

    def _name_members(self, ticket: Ticket) -> None:
        """Member ids are named by the order in which Joins were sent, whatever the order of their answers."""
        if ticket.api.name not in ("JoinGroup", "ConsumerGroupHeartbeat") or len(ticket.answers) < len(self.sides):
            return
        number = max(len(side.symbols) for side in self.sides) + 1
        known = set(self.sides[0].ids)
        for side in self.sides:
            response = ticket.response(side)
            is_given = ticket.api.name == "JoinGroup" or not ticket.request.member_id
            if is_given and response is not None and response.error_code in _NAMES_A_MEMBER and response.member_id:
                side.name_member(response.member_id, number)
        request = ticket.request
        if getattr(request, "group_instance_id", None) is None and getattr(request, "instance_id", None) is None:
            self._drawn |= {symbol for symbol in self.sides[0].ids.keys() - known if symbol.endswith(" short>")}
        self._require_order_of_drawn_ids(ticket.group)

    def _require_order_of_drawn_ids(self, group: GroupModel) -> None:
        members = self._drawn | {slot.member for slot in group.slots.values() if slot.member not in self.sides[0].ids}
        left, right = (sorted(members, key=lambda member: side.ids.get(member, member)) for side in self.sides)
        if left != right:
            raise DrawnIdsDiffer

    def _count(self, ticket: Ticket, tree: Tree | None) -> None:
        if isinstance(tree, dict):
            for code in error_codes(tree):
                self.counts[f"error {ticket.api.name} {error_name(code)}"] += 1
            for state in (group.get("group_state") for group in tree.get("groups", ())):
                if state:
                    self.counts[f"state {state}"] += 1
        else:
            self.counts[f"error {ticket.api.name} {tree}"] += 1

    def _write_down(self, text: str, newest: Ticket | None, outcomes: list[tuple[Ticket, str]]) -> None:
        own = next((outcome for ticket, outcome in outcomes if ticket is newest), "parked" if newest else "")
        if newest is not None and own == "parked":
            self.counts["parked"] += 1
        released = [f"{ticket.actor}: {outcome}" for ticket, outcome in outcomes if ticket is not newest]
        self.counts["released"] += len(released)
        self.played.append(Played(text, " | ".join(filter(None, [own, *released]))))

    def _end(self, ticket: Ticket, *, give_back: bool) -> None:
        """Forget a request; its connections serve another one, or are closed, and with them what stands behind it."""
        if ticket not in self.parked:
            return
        self.parked.remove(ticket)
        ticket.group.slot(ticket.step.slot).waiting -= 1
        behind = [other for other in self.parked if other.lines is ticket.lines]
        if not give_back:
            for line in ticket.lines.values():
                line.close()
            for other in behind:
                self._end(other, give_back=False)
        elif not behind:
            self._lines.give_back(ticket.lines)

    def _renew(self, group: GroupModel) -> None:
        """Leave a group alone that is no longer the same on both brokers."""
        if not self._is_current(group):
            return
        for ticket in [ticket for ticket in self.parked if ticket.group is group]:
            self._end(ticket, give_back=False)
        self.model.replace(group.name)
        self.played.append(Played(f"# from here on {group.name} is a fresh group", ""))

    def _is_current(self, group: GroupModel) -> bool:
        return self.model.groups.get(group.name) is group

    # Connections and time

    def _close(self, step: Step) -> None:
        """Close the connections of what a slot has parked."""
        for ticket in [t for t in self.parked if (t.group.name, t.step.slot) == (step.group, step.slot)]:
            self._end(ticket, give_back=False)
            note_unseen_ballot(ticket.group, ticket.step, ticket.request)
            ticket.group.timers.hidden += 1
            self.counts["closed while parked"] += 1
        self._probe(self.model.group(step.group))
        self._compare(str(step))

    def _wait(self, text: str) -> None:
        """Until every timer that may fire has fired on both brokers; then both describe the same groups."""
        self._idle_until_over({})
        self._after_time(text, {})

    def _keep(self, step: Step) -> None:
        """As `wait`, while some members go on sending one kind of request that may keep them in the group."""
        self.counts["keep"] += 1
        group = self.model.group(step.group)
        slots = [name for name in step.options["slots"] if group.slot(name).member]
        kept = {group.name: [Step("keep", step.group, name, **step.options) for name in slots]}
        sent = self._idle_until_over(kept)
        self._after_time(str(step), {group.name: sent})
        for name in slots:
            slot = group.slot(name)
            if self.model.groups.get(group.name) is group:
                self._request(Step("heartbeat", step.group, slot.name, v=4, instance=slot.instance))

    def _idle_until_over(self, kept: dict[str, list[Step]]) -> float:
        """Returns when the last round of kept requests was sent."""
        last_round = 0.0
        while True:
            groups = [group for group in self.model.groups.values() if group.timers.run]
            over_at = max((group.timers.over_at for group in groups), default=0.0) + AFTER_EXPIRY_S
            now = time.monotonic()
            if not groups or now > over_at:
                return last_round
            steps = [step for group in groups for step in kept.get(group.name, ())]
            if steps and now - last_round > KEEP_EVERY_S:
                shortest_s = min(min(group.timers.sessions_ms, default=10_000) for group in groups) / 1000
                if last_round and now - last_round > shortest_s - BEFORE_EXPIRY_S:
                    raise TimingLost
                last_round = now
                for step in steps:
                    self._keep_once(step)
            lines = [
                ticket.lines[side.name]
                for ticket in self.parked
                for side in self.sides
                if side.name not in ticket.answers
            ]
            wait_for(lines, min(over_at - now, KEEP_EVERY_S if steps else 0.5))
            if self._take():
                for group in groups:
                    group.timers.last = time.monotonic()

    def _keep_once(self, step: Step) -> None:
        """One request whose answer is not compared: it may come just before or after a timer fires."""
        options = {key: value for key, value in step.options.items() if key not in ("slots", "kind")}
        slot = self.model.group(step.group).slot(step.slot)
        kind = step.options["kind"]
        inner = Step(kind, step.group, step.slot, **{**KEEPING[kind], "instance": slot.instance, **options})
        if kind == "fetch":
            inner.options["groups"] = [[step.group, None]]
        ticket = self._send(inner)
        self._touched.clear()
        if ticket is None:
            return
        self._await(ticket)
        if len(ticket.answers) < len(self.sides):
            raise TimingLost
        self._end(ticket, give_back=True)

    def _after_time(self, text: str, kept: dict[str, float]) -> None:
        timed = [group for group in self.model.groups.values() if group.timers.run]
        with_short_rebalance = [group for group in timed if group.timers.rebalances_ms]
        for group in timed:
            if kept.get(group.name):
                group.timers.first, group.timers.last = kept[group.name], time.monotonic()
            else:
                group.timers.have_fired(somebody_waits=any(ticket.group is group for ticket in self.parked))
        self._touched.clear()
        if any(self._is_behind(ticket) and ticket.group.timers.run for ticket in self.parked):
            raise TimingLost  # a timer lets it go while those of its own group fire
        self._compare(text)
        names = list(self.model.groups)
        if names:
            self._request(Step("describe", "", "", v=6, groups=names))
        for group in with_short_rebalance:
            if group.state == "PreparingRebalance":  # static members only: the join timer starts again and again
                self._renew(group)


_PROBE_VERSION = 4
_NAMES_A_MEMBER = frozenset({0, 79})
