"""One sequence of steps about share groups, played on both brokers at once; the first answer that differs ends it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence as Rows
from functools import partial
from typing import Any, NamedTuple

from integration.differential.canonical import Malformed, Tree, differing_paths, error_codes, parse_answer, tree_of
from integration.differential.sequence import Difference, TimingLost
from integration.differential.show import error_name, show_tree
from integration.differential.steps import Step
from integration.differential.wire import Address, Line, wait_for
from integration.share_groups.pair import NODE_ID, PLACES, TOPICS, Admin, Pair, topics_of_both, until
from integration.share_groups.requests import BUILDERS, CURRENT, Names, summary
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages import add_partitions_to_txn as adding
from kshim_protocol.messages import list_offsets
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.record import iter_records

ANSWER_TIMEOUT_S = 20.0
AGREE_TIMEOUT_S = 4.0
"""How long one broker may take to do what the other has done."""
BEFORE_EXPIRY_S = 0.5
"""So long before a lock may end nothing but waiting is done."""
AFTER_EXPIRY_S = 0.4
_SETTLE_S = 0.06
_DEFAULT_LOCK_MS = 30_000
_LOCK_KEY = "share.record.lock.duration.ms"
_UNORDERED = {
    "responses": "topic_id",
    "results": "topic_id",
    "partitions": "partition_index",
    "groups": "group_id",
    "members": "member_id",
    "topic_partitions": "topic_id",
    "topics": "topic_name",
}
"""Lists that Kafka fills from hash maps, and what they are put in order by."""

Place = tuple[str, int]


class Held(NamedTuple):
    """Records that a member was given last."""

    first: int
    last: int
    times: int


class Facts:
    """What the answers so far have said; both brokers said the same. What the next steps are drawn from.

    `held`: by (group, slot), what was acquired and not yet spoken of. `ends`: of the logs. `bases`: where batches begin.
    """

    def __init__(self) -> None:
        self.member_epochs: dict[tuple[str, str], int] = {}
        self.session_epochs: dict[tuple[str, str], int] = {}
        self.subscriptions: dict[tuple[str, str], tuple[str, ...]] = {}
        self.held: dict[tuple[str, str], dict[Place, list[Held]]] = {}
        self.ends: dict[Place, int] = dict.fromkeys(PLACES, 0)
        self.bases: dict[Place, list[int]] = {place: [0] for place in PLACES}
        self.sessions: dict[tuple[str, str], set[Place]] = {}
        self.lock_ms: dict[str, int] = {}
        self.open_transaction: set[Place] = set()
        self.parked: set[str] = set()  # connections

    def epoch(self, step: Step) -> int:
        """The epoch that a step means."""
        epoch = step.options.get("epoch", 0)
        if epoch != CURRENT:
            return int(epoch)
        known = self.member_epochs if step.verb == "heartbeat" else self.session_epochs
        return known.get((step.group, step.slot), 1)

    def subscribed(self, group: str) -> list[Place]:
        """The partitions that members of a group subscribe to."""
        names = {name for (of, _), topics in self.subscriptions.items() if of == group for name in topics}
        return [place for place in PLACES if place[0] in names]


class Side:
    """One broker as a sequence sees it."""

    def __init__(self, admin: Admin, names: Names) -> None:
        self.name = admin.broker.name
        self.address: Address = admin.broker.address
        self.admin = admin
        self.names = names
        self.lines: dict[str, Line] = {}

    def line(self, name: str) -> Line:
        """A connection by its name, opened when it is first used."""
        line = self.lines.get(name)
        if line is None or not line.is_open:
            line = self.lines[name] = Line(self.address)
        return line

    def close(self) -> None:
        """Close everything."""
        for line in self.lines.values():
            line.close()
        self.admin.close()


class Asked:
    """A request that was sent to both brokers, and what each made of it so far."""

    def __init__(self, number: int, step: Step, conn: str, api_key: int, version: int, epoch: int) -> None:
        self.number = number
        self.step = step
        self.conn = conn
        self.api = API_TABLE[api_key]
        self.version = version
        self.epoch = epoch
        self.sent_s = time.monotonic()
        self.trees: dict[str, Tree] = {}


class Sequence:
    """Plays steps. `counts` are requests by API and outcomes by error. `pace` stretches every wait."""

    def __init__(self, pair: Pair, prefix: str, *, pace: float = 1.0) -> None:
        self.prefix = prefix
        self.pace = pace
        admins = Admin(pair.kshim), Admin(pair.kafka)
        ids = topics_of_both(*admins, prefix)
        self.sides = tuple(Side(admin, Names(prefix, each)) for admin, each in zip(admins, ids, strict=True))
        self.facts = Facts()
        self.counts: Counter[str] = Counter()
        self.played: list[tuple[str, str]] = []
        self._parked: dict[str, Asked] = {}
        self._made: set[tuple[str, Place]] = set()
        self._number = 0
        self._locks_end_s: tuple[float, float] | None = None  # the first may, the last has

    def close(self) -> None:
        """Close all connections, and delete the topics."""
        for side in self.sides:
            for line in side.lines.values():
                line.close()
            side.admin.delete_topics(self.prefix)
            side.close()

    def transcript(self) -> str:
        """What was played so far."""
        return "\n".join(f"    {step}\n        -> {outcome}" for step, outcome in self.played)

    # Steps

    def play(self, step: Step) -> None:
        """Do a step on both brokers and compare. Raises Difference, TimingLost."""
        self._mind_the_locks()
        match step.verb:
            case "expire":
                self._expire()
                self._note(step, "")
            case "close":
                self._close(step)
            case "config":
                self._configure(step)
            case "begin-txn":
                self._begin_transaction(step)
            case "end-txn":
                self._end_transaction(step)
            case "settle":
                time.sleep(_SETTLE_S * self.pace)
            case _:
                self._request(step)
        self._look_at_parked()
        if self._locks_end_s is not None and time.monotonic() > self._locks_end_s[0]:
            raise TimingLost

    def finish(self) -> None:
        """Compare what is left behind: states and positions of all partitions."""
        self._parked.clear()
        for group in sorted({group for group, _ in (*self.facts.subscriptions, *self.facts.sessions)}):
            if group not in ("", "null"):
                rows = [list(place) for place in PLACES]
                self.play(Step("read-state", group, topics=rows))
                self.play(Step("summary", group, topics=rows))
                self.play(Step("describe-offsets", group, topics=None))
        self.play(Step("describe", "", groups=["g1", "g2"], authorized=False))

    def _note(self, step: Step, outcome: str) -> None:
        self.played.append((str(step), outcome))

    # Requests

    def _request(self, step: Step) -> None:
        conn = step.options.get("conn", "admin")
        if conn in self._parked:
            return
        if step.verb == "produce" and step.options.get("txn") and not self._is_in_transaction(step):
            return
        asked = self._send(step, conn)
        if step.options.get("park"):
            self._await(asked, _SETTLE_S * self.pace)
            if len(asked.trees) < len(self.sides):
                if not asked.trees:
                    self._parked[conn] = asked
                    self.facts.parked.add(conn)
                    self._note(step, "waits")
                    return
                self._await(asked, AGREE_TIMEOUT_S)
        else:
            self._await(asked, ANSWER_TIMEOUT_S)
        self._settle(asked)
        if step.verb == "heartbeat":
            self._await_initialized(step)
        reads_on = (
            step.verb == "fetch" and len(step.options["topics"]) > 1
        )  # states of others than those that were enough
        if step.verb in ("alter-offsets", "delete-offsets") or asked.epoch == -1 or reads_on:  # that is done aside
            time.sleep(_SETTLE_S * self.pace)

    def _send(self, step: Step, conn: str) -> Asked:
        builder, newest = BUILDERS[step.verb]
        version = step.options.get("v", newest)
        self._number += 1
        epoch = self.facts.epoch(step)
        requests = [builder(side.names, step, epoch) for side in self.sides]
        api_key = requests[0].info.api_key
        assert api_key is not None
        asked = Asked(self._number, step, conn, api_key, version, epoch)
        for side, request in zip(self.sides, requests, strict=True):
            body = codec(type(request), version).build(request)
            flexible = asked.api.is_flexible(version)
            side.line(conn).send(
                build_request_frame(api_key, version, asked.number, "differential", body, flexible=flexible)
            )
        self.counts["requests"] += 1
        self.counts[f"api {asked.api.name} v{version}"] += 1
        return asked

    def _await(self, asked: Asked, timeout_s: float) -> None:
        """Until both have answered, or one has and the other has had its time, or `timeout_s` are over."""
        deadline = time.monotonic() + timeout_s
        agree_by: float | None = None
        while True:
            for side in self.sides:
                if side.name not in asked.trees and (answer := side.line(asked.conn).take()) is not None:
                    asked.trees[side.name] = self._tree(side, asked, answer.frame)
            if len(asked.trees) == len(self.sides):
                return
            now = time.monotonic()
            if asked.trees and agree_by is None:
                agree_by = now + AGREE_TIMEOUT_S * self.pace
                if not asked.step.options.get("park"):  # else both are to be woken by the same
                    agree_by += asked.step.options.get("wait", 0) / 1_000
                deadline = max(deadline, agree_by)
            left_s = (deadline if agree_by is None else agree_by) - now
            if left_s <= 0:
                return
            wait_for([side.line(asked.conn) for side in self.sides if side.name not in asked.trees], min(left_s, 0.2))

    def _tree(self, side: Side, asked: Asked, frame: bytes | None) -> Tree:
        if frame is None:
            return {"connection": "closed"}
        try:
            response = parse_answer(frame, api_key=asked.api.key, version=asked.version, correlation_id=asked.number)
        except Malformed as error:
            return {"malformed answer": str(error)}
        tree = tree_of(
            response,
            lambda _field, text: text.replace(self.prefix, "~"),
            lambda topic_id: side.names.topic_names.get(topic_id, topic_id.hex()),
        )
        _plain(tree, side.address)
        return tree

    def _settle(self, asked: Asked) -> None:
        """Both have answered, or not: compare, and learn."""
        trees = {side.name: asked.trees.get(side.name) for side in self.sides}
        kshim, kafka = trees.values()
        paths = [path or "answer" for path in differing_paths(kshim, kafka)]
        if paths:
            actor = asked.step.slot or asked.step.group or asked.conn
            raise Difference(
                f"{self.transcript()}\n    {asked.step}\n{asked.api.name} of {actor} differs in {', '.join(paths)}\n"
                + "".join(f"  {name}: {show_tree(asked.api.name, tree)}\n" for name, tree in trees.items())
            )
        for code in set(error_codes(kafka)) if kafka is not None else ():
            self.counts[f"error {asked.api.name} {error_name(code)}"] += 1
        self._note(asked.step, show_tree(asked.api.name, kafka))
        if isinstance(kafka, dict) and "connection" not in kafka:
            self._learn(asked, kafka)

    def _look_at_parked(self) -> None:
        """What the last step may have completed."""
        if not self._parked:
            return
        for conn, asked in list(self._parked.items()):
            self._await(asked, _SETTLE_S * self.pace)
            if asked.trees:
                self._await(asked, AGREE_TIMEOUT_S)
                del self._parked[conn]
                self.facts.parked.discard(conn)
                self.counts["released"] += 1
                self._settle(asked)

    # What answers say

    def _learn(self, asked: Asked, tree: Tree) -> None:
        step, facts = asked.step, self.facts
        who = step.group, step.slot
        if step.verb == "heartbeat" and tree["error_code"] == 0:
            if tree["member_epoch"] == -1:
                facts.member_epochs.pop(who, None)
                facts.subscriptions.pop(who, None)
                return
            facts.member_epochs[who] = tree["member_epoch"]
            if step.options["topics"] is not None:
                facts.subscriptions[who] = tuple(name for name in step.options["topics"] if name in TOPICS)
        elif step.verb == "produce":
            row = tree["responses"][0]["partition_responses"][0]
            if row["error_code"] == 0:
                facts.bases[step.options["topic"], step.options["p"]].append(row["base_offset"])
                facts.ends[step.options["topic"], step.options["p"]] = row["base_offset"] + step.options["count"]
        elif step.verb in ("fetch", "ack") and tree["error_code"] == 0:
            self._learn_session(asked, tree)

    def _learn_session(self, asked: Asked, tree: Tree) -> None:
        step, facts = asked.step, self.facts
        who = step.group, step.slot
        if asked.epoch == -1:
            facts.session_epochs.pop(who, None)
            facts.sessions.pop(who, None)
            facts.held.pop(who, None)
            return
        facts.session_epochs[who] = asked.epoch + 1
        places = facts.sessions.setdefault(who, set())
        held = facts.held.setdefault(who, {})
        if asked.epoch == 0:
            places.clear()
        if step.verb == "fetch":
            places |= {(topic, index) for topic, index, _ in step.options["topics"]}
            places -= {(topic, index) for topic, index in step.options.get("forget", ())}
        for topic, index, batches in step.options["topics"]:
            for first, last, types in batches:
                if list(types) != [4]:
                    held[topic, index] = [
                        one for one in held.get((topic, index), ()) if one.last < first or one.first > last
                    ]
                else:
                    self._lock_begins(asked)
        if step.verb == "fetch":
            for topic in tree["responses"]:
                for row in topic["partitions"]:
                    found = [
                        Held(one["first_offset"], one["last_offset"], one["delivery_count"])
                        for one in row["acquired_records"]
                        if one["first_offset"] <= one["last_offset"]  # else a batch size of 0 was asked for
                    ]
                    if found:
                        held.setdefault((topic["topic_id"], row["partition_index"]), []).extend(found)
                        self.counts["acquired"] += sum(one.last - one.first + 1 for one in found)
                        self._lock_begins(asked)

    # Time

    def _lock_begins(self, asked: Asked) -> None:
        lock_s = self.facts.lock_ms.get(asked.step.group, _DEFAULT_LOCK_MS) / 1_000
        first = (asked.sent_s if not asked.step.options.get("park") else time.monotonic() - 0.3) + lock_s
        last = time.monotonic() + lock_s
        if self._locks_end_s is None:
            self._locks_end_s = first, last
        else:
            self._locks_end_s = min(first, self._locks_end_s[0]), max(last, self._locks_end_s[1])

    def _mind_the_locks(self) -> None:
        if self._locks_end_s is not None and time.monotonic() > self._locks_end_s[0] - BEFORE_EXPIRY_S:
            self._expire()
            self.played.append(("expire (locks end)", ""))

    def _expire(self) -> None:
        """Until no lock holds."""
        if self._locks_end_s is None:
            return
        self.counts["expired"] += 1
        time.sleep(max(0.0, self._locks_end_s[1] - time.monotonic()) + AFTER_EXPIRY_S * self.pace)
        self._locks_end_s = None
        for held in self.facts.held.values():
            held.clear()
        self._look_at_parked()

    # What is no request of a share group

    def _close(self, step: Step) -> None:
        """A connection goes away, and with it the sessions that it opened."""
        conn = step.options["conn"]
        for side in self.sides:
            side.line(conn).close()
            del side.lines[conn]
        self._parked.pop(conn, None)
        self.facts.parked.discard(conn)
        time.sleep(4 * _SETTLE_S * self.pace)
        self._note(step, "")

    def _configure(self, step: Step) -> None:
        """Configuration of a group, and until it holds. Kafka's broker learns it from the controller after the answer."""
        trees = []
        for side in self.sides:
            answer = side.admin.alter_group(side.names.group(step.group), step.options["configs"])
            rows = [(row.error_code, (row.error_message or "").replace(self.prefix, "~")) for row in answer.responses]
            trees.append(rows)
        if trees[0] != trees[1]:
            raise Difference(f"{self.transcript()}\n    {step}\nkshim: {trees[0]}\nkafka: {trees[1]}")
        self._note(step, str(trees[1]))
        if trees[1][0][0] == 0 and _LOCK_KEY in step.options["configs"]:
            self.facts.lock_ms[step.group] = int(step.options["configs"][_LOCK_KEY])
        time.sleep(3 * _SETTLE_S * self.pace)

    def _is_in_transaction(self, step: Step) -> bool:
        return (step.options["topic"], step.options["p"]) in self.facts.open_transaction

    def _begin_transaction(self, step: Step) -> None:
        """Partitions join the transaction of the sequence's producer."""
        places = [(topic, index) for topic, index in step.options["places"]]
        for side in self.sides:
            names = side.names
            if names.producer[0] < 0:
                self._begin_producer(side)
            producer_id, producer_epoch = names.producer
            request = adding.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=names.transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=producer_epoch,
                v3_and_below_topics=tuple(
                    adding.AddPartitionsToTxnTopic(name=names.topic(topic), partitions=(index,))
                    for topic, index in places
                ),
            )
            until(partial(_joins, side.admin, request), "partitions have joined")
        self.facts.open_transaction |= set(places)
        self._note(step, "")

    @staticmethod
    def _begin_producer(side: Side) -> None:
        request = InitProducerIdRequest(transactional_id=side.names.transactional_id, transaction_timeout_ms=600_000)

        def has_begun() -> bool:
            answer = side.admin.ask(request, 4)
            if answer.error_code == 0:
                side.names.producer = answer.producer_id, answer.producer_epoch
            return bool(answer.error_code == 0)

        until(has_begun, "the producer has an id")

    def _end_transaction(self, step: Step) -> None:
        """Commit or abort, until the markers are there."""
        if not self.facts.open_transaction:
            return
        for side in self.sides:
            producer_id, producer_epoch = side.names.producer
            request = EndTxnRequest(
                transactional_id=side.names.transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=step.options["commit"],
            )
            answer = side.admin.ask(request, 3)
            assert answer.error_code == 0, answer
            places = self.facts.open_transaction
            until(partial(self._is_stable, side, places), "markers are written")
        for place in self.facts.open_transaction:
            self.facts.ends[place] = self._end(self.sides[1], place, 0)
        self.facts.open_transaction = set()
        time.sleep(_SETTLE_S * self.pace)
        self._note(step, "")

    def _is_stable(self, side: Side, places: set[Place]) -> bool:
        return all(self._end(side, place, 0) == self._end(side, place, 1) for place in places)

    @staticmethod
    def _end(side: Side, place: Place, isolation_level: int) -> int:
        row = list_offsets.ListOffsetsPartition(partition_index=place[1], timestamp=-1)
        topic = list_offsets.ListOffsetsTopic(name=side.names.topic(place[0]), partitions=(row,))
        request = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=(topic,))
        answer = side.admin.ask(request, 6)
        return int(answer.topics[0].partitions[0].offset)

    def _await_initialized(self, step: Step) -> None:
        """A heartbeat may lead to states of partitions that are made aside: until they are, on both brokers."""
        wanted = self.facts.subscribed(step.group)
        if not wanted:
            return
        look = Step("summary", step.group, topics=[list(place) for place in wanted])

        def are_made(side: Side) -> bool:
            answer = side.admin.ask(summary(side.names, look), 1)
            return all(one.state_epoch > 0 for topic in answer.results for one in topic.partitions)

        deadline = time.monotonic() + 2.0 * self.pace
        is_first = True
        while not all(map(are_made, self.sides)):
            is_first = False
            if time.monotonic() > deadline:
                self.counts["states not made"] += 1
                return
            time.sleep(0.01)
        if not is_first or not self._made.issuperset((step.group, place) for place in wanted):
            time.sleep(2 * _SETTLE_S * self.pace)
        self._made |= {(step.group, place) for place in wanted}


def _joins(admin: Admin, request: adding.AddPartitionsToTxnRequest) -> bool:
    answer = admin.ask(request, 3)
    codes = {
        row.partition_error_code for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition
    }
    return codes == {0}


def _plain(tree: Tree, address: Address) -> None:
    """Put what has no order in order, records as what is in them, and a broker's own address as `self`."""
    if isinstance(tree, list):
        for item in tree:
            _plain(item, address)
    if not isinstance(tree, dict):
        return
    for key, value in tree.items():
        if key == "records" and isinstance(value, bytes):
            tree[key] = _records(value)
        elif key in _UNORDERED and isinstance(value, list):
            value.sort(key=lambda item: _rank(item, _UNORDERED[key]))
        elif key in ("log_append_time_ms",):
            tree[key] = "?" if value > 0 else value
        _plain(tree[key], address)
    if tree.get("node_id") == NODE_ID and (tree.get("host"), tree.get("port")) == address:
        tree.update(host="self", port="self")


def _rank(item: Any, key: str) -> tuple[str, str]:
    if not isinstance(item, dict):
        return "", str(item)
    return str(item.get("name", "")), str(item.get(key, item.get("partition", "")))


def _records(data: bytes) -> list[Any]:
    """Batches, without what each broker gives out itself: producer ids."""
    found = []
    for batch in iter_batches(data):
        header = parse_batch_header(batch)
        values = [] if header.is_control else [record.value for record in iter_records(batch)]
        found.append([header.base_offset, header.last_offset, header.attributes, header.partition_leader_epoch, values])
    return found


def show_steps(steps: Rows[Step]) -> str:
    """Steps as text."""
    return "\n".join(f"    {step}" for step in steps)
