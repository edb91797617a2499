"""The next step of a sequence, drawn from a seed and from what the answers so far have said."""

from __future__ import annotations

import random
import time
from typing import Any

from integration.differential.steps import Step
from integration.share_groups.pair import MISSING_TOPIC, PLACES
from integration.share_groups.requests import CURRENT
from integration.share_groups.sequence import Facts, Held, Place

ACCEPT, RELEASE, REJECT, GAP, RENEW = 1, 2, 3, 0, 4
SHORT_LOCK_MS = 2_000
_ALL = 2**31 - 1


class Profile:
    """What a sequence is about, drawn once."""

    def __init__(self, rnd: random.Random) -> None:
        self.groups = ["g1", "g2"] if rnd.random() < 0.15 else ["g1"]
        self.slots = "abcde"[: rnd.choice((1, 2, 2, 3, 3, 4, 5))]
        self.has_short_locks = rnd.random() < 0.35
        self.has_transactions = rnd.random() < 0.3
        self.reset = rnd.choice(("earliest",) * 6 + ("latest", "by_duration:PT1H"))
        # Assignors take topics in the order of their ids: of two of them, one member has both.
        self.topics = rnd.choice((["t"], ["u"], ["u"], ["t", "u"]) if len(self.slots) == 1 else (["t"], ["u"], ["u"]))
        if self.reset.startswith("by"):  # states cannot be read before there are records, see `_reads_of_all`
            self.topics = ["u"]
        self.sizes = rnd.choice(((1, 1, 1), (1, 3, 5, 8), (10, 30, 60), (1, 5, 20)))
        self.value_bytes = rnd.choice((0, 10, 10, 200))
        self.moves_membership = rnd.random() < 0.3
        self.oddness = rnd.choice((0.05, 0.15, 0.15, 0.4))
        self.configs = {
            "share.auto.offset.reset": self.reset,
            **({"share.isolation.level": "read_committed"} if rnd.random() < 0.7 and self.has_transactions else {}),
            **({"share.record.lock.duration.ms": str(SHORT_LOCK_MS)} if self.has_short_locks else {}),
            **({"share.delivery.count.limit": str(rnd.choice((2, 3, 4, 7)))} if rnd.random() < 0.5 else {}),
            **({"share.partition.max.record.locks": "100"} if rnd.random() < 0.4 else {}),
            **({"share.renew.acknowledge.enable": "false"} if rnd.random() < 0.1 else {}),
        }


class Generator:
    """Draws steps. `facts` are those of the sequence that plays them."""

    def __init__(self, rnd: random.Random, facts: Facts) -> None:
        self.rnd = rnd
        self.facts = facts
        self.profile = Profile(rnd)
        self._prepared = self._first_steps()

    def next_step(self) -> Step:
        """One more."""
        if self._prepared:
            return self._prepared.pop(0)
        rnd, profile = self.rnd, self.profile
        if rnd.random() < profile.oddness:
            return rnd.choice(self._ODD)(self)
        kinds: list[tuple[int, Any]] = [
            (30, Generator._fetch),
            (20, Generator._acknowledge),
            (13, Generator._produce),
            (4, Generator._park),
            (4, Generator._heartbeat),
            (3, Generator._look),
            (2, Generator._close_session),
            (2, Generator._close),
            (2, Generator._expire if profile.has_short_locks else Generator._fetch),
            (2, Generator._delete_records),
            (1, Generator._configure),
        ]
        if profile.has_transactions:
            kinds.append((8, Generator._transaction))
        if profile.moves_membership:
            kinds += [(6, Generator._join), (4, Generator._leave), (2, Generator._administer)]
        (kind,) = rnd.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        step: Step = kind(self)
        return step

    # What a sequence begins with

    def _first_steps(self) -> list[Step]:
        profile, rnd = self.profile, self.rnd
        steps = [Step("config", group, configs=profile.configs) for group in profile.groups]
        for group in profile.groups:
            for slot in profile.slots[: rnd.choice((1, 2, 5))]:
                steps.append(self._beat(group, slot, 0, profile.topics))
            steps.append(self._beat(group, profile.slots[0], CURRENT, None))
            steps += self._reads_of_all(group)
        for _ in range(rnd.choice((0, 1, 3))):
            steps.append(self._produce())
        return steps

    def _reads_of_all(self, group: str) -> list[Step]:
        """Each partition alone: Kafka reads their states one after the other, and answers with what the first one has."""
        options: dict[str, Any] = {
            "conn": "c-first",
            "v": 2,
            "wait": 1_000,
            "min": 1,
            "bytes": _ALL,
            "records": 1,
            "batch": 1,
        }
        steps = []
        for topic, index in PLACES:
            if topic in self.profile.topics:
                steps.append(Step("fetch", group, "first", epoch=0, topics=[[topic, index, []]], **options))
        return [*steps, Step("ack", group, "first", conn="c-first", epoch=-1, topics=[])]

    # Members

    @staticmethod
    def _beat(group: str, slot: str, epoch: int | str, topics: list[str] | None, **more: Any) -> Step:
        return Step("heartbeat", group, slot, epoch=epoch, topics=topics, **more)

    def _who(self) -> tuple[str, str]:
        return self.rnd.choice(self.profile.groups), self.rnd.choice(self.profile.slots)

    def _heartbeat(self) -> Step:
        known = list(self.facts.member_epochs)
        if not known:
            return self._join()
        group, slot = self.rnd.choice(known)
        return self._beat(group, slot, CURRENT, None)

    def _join(self) -> Step:
        group, slot = self._who()
        topics = self.rnd.choice((["t"], ["u"], self.profile.topics))
        return self._beat(group, slot, self.rnd.choice((0, 0, CURRENT)), topics)

    def _leave(self) -> Step:
        known = list(self.facts.member_epochs)
        if not known:
            return self._join()
        group, slot = self.rnd.choice(known)
        return self._beat(group, slot, -1, None)

    def _odd_heartbeat(self) -> Step:
        rnd = self.rnd
        group, slot = self._who()
        epoch = rnd.choice((0, CURRENT, 1, 2, 5, 99, -1, -2, -3))
        topics = rnd.choice((None, [], ["t"], ["nothing"], ["t", "t"], self.profile.topics))
        group = rnd.choice((group, group, group, "g9", ""))
        slot = rnd.choice((slot, slot, slot, "", "long", "z"))
        rack = rnd.choice((None, None, "", " ", "r1"))
        return self._beat(group, slot, epoch, topics, rack=rack)

    # Records

    def _produce(self, *, is_transactional: bool = False) -> Step:
        rnd, profile = self.rnd, self.profile
        topic, index = rnd.choice([place for place in PLACES if place[0] in profile.topics])
        if is_transactional:
            topic, index = rnd.choice(sorted(self.facts.open_transaction))
        return Step(
            "produce",
            conn="producer",
            topic=topic,
            p=index,
            count=rnd.choice(profile.sizes),
            size=profile.value_bytes,
            at=int(time.time() * 1000),
            txn=is_transactional,
        )

    def _transaction(self) -> Step:
        rnd = self.rnd
        if not self.facts.open_transaction:
            places = [place for place in PLACES if place[0] in self.profile.topics]
            chosen = sorted(rnd.sample(places, rnd.randint(1, len(places))))
            return Step("begin-txn", places=[list(place) for place in chosen])
        if rnd.random() < 0.6:
            return self._produce(is_transactional=True)
        return Step("end-txn", commit=rnd.random() < 0.5)

    def _delete_records(self) -> Step:
        place = self.rnd.choice([place for place in PLACES if place[0] in self.profile.topics])
        end = self.facts.ends[place]
        offset = self.rnd.choice((-1, end + 5, *self.facts.bases[place]))
        return Step("delete-records", conn="producer", topic=place[0], p=place[1], offset=offset)

    # Sessions

    def _free_conn(self, slot: str) -> str:
        conn = f"c-{slot}" if self.rnd.random() < 0.9 else self.rnd.choice(("c-a", "c-b", "c-other"))
        while conn in self.facts.parked:
            conn += "'"
        return conn

    def _limits(self, places: int = 1) -> dict[str, Any]:
        """Limits of a fetch. Of several partitions Kafka takes those of a hash map first: there is room for all then."""
        rnd = self.rnd
        if places != 1:
            return {"min": rnd.choice((0, 1)), "bytes": _ALL, "records": 5_000, "batch": rnd.choice((1, 3, 500))}
        records = rnd.choice((1, 2, 5, 7, 20, 500, 500, 2_000))
        return {
            "min": rnd.choice((1, 1, 1, 0)),
            "bytes": rnd.choice((_ALL, _ALL, 1 << 20, 1 << 20, 100, 1_000)),
            "records": records,
            "batch": rnd.choice((records, records, 1, 3, 500)),
        }

    def _fetch(self, *, park: bool = False) -> Step:
        rnd, facts = self.rnd, self.facts
        group, slot = self._who()
        who = group, slot
        version = rnd.choice((1, 2, 2))
        options: dict[str, Any] = {"conn": self._free_conn(slot), "v": version, "wait": rnd.choice((250, 250, 400))}
        if who not in facts.session_epochs or rnd.random() < 0.04:
            epoch: int | str = 0
            wanted = [place for place in PLACES if place[0] in self.profile.topics]
            if rnd.random() < 0.6:
                wanted = [rnd.choice(wanted)]
            topics = [[topic, index, []] for topic, index in wanted]
        else:
            epoch = CURRENT
            topics = self._acknowledged(who) if rnd.random() < 0.5 else []
            if rnd.random() < (0.1 if len(facts.sessions.get(who, ())) > 1 else 0.02):
                topic, index = rnd.choice([place for place in PLACES if place[0] in self.profile.topics])
                if [topic, index] not in [row[:2] for row in topics]:
                    topics = sorted([*topics, [topic, index, []]], key=lambda row: row[:2])
            if rnd.random() < 0.05 and facts.sessions.get(who):
                options["forget"] = [list(rnd.choice(sorted(facts.sessions[who])))]
        known = facts.sessions.get(who, set()) if epoch else set()
        count = len(known | {(topic, index) for topic, index, _ in topics})
        options.update(self._limits(count))
        if version == 2 and count == 1 and rnd.random() < 0.4:
            options["mode"] = 1
        if park:
            options.update(park=True, wait=60_000)
        return Step("fetch", group, slot, epoch=epoch, topics=topics, **options)

    def _park(self) -> Step:
        return self._fetch() if self.facts.parked else self._fetch(park=True)

    def _acknowledged(self, who: tuple[str, str], *, renews: bool = False) -> list[Any]:
        """Rows of partitions with batches, of what the member holds."""
        rnd = self.rnd
        rows = []
        for (topic, index), held in sorted(self.facts.held.get(who, {}).items()):
            batches: list[Any] = []
            for one in sorted(held):
                if rnd.random() < 0.25 or (batches and batches[-1][1] >= one.first):
                    continue
                batches += self._batches(one, renews=renews)
            if batches:
                rows.append([topic, index, batches])
        return rows

    def _batches(self, one: Held, *, renews: bool) -> list[Any]:
        rnd = self.rnd
        types = (RENEW,) if renews else (ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP)
        way = rnd.random()
        if way < 0.5 or one.first == one.last:
            return [[one.first, one.last, [rnd.choice(types)]]]
        if way < 0.65:  # one type an offset
            return [[one.first, one.last, [rnd.choice(types) for _ in range(one.last - one.first + 1)]]]
        middle = rnd.randint(one.first, one.last - 1)
        if way < 0.8:  # a part
            return (
                [[one.first, middle, [rnd.choice(types)]]]
                if rnd.random() < 0.5
                else [[middle + 1, one.last, [rnd.choice(types)]]]
            )
        return [[one.first, middle, [rnd.choice(types)]], [middle + 1, one.last, [rnd.choice(types)]]]

    def _acknowledge(self) -> Step:
        rnd = self.rnd
        holders = [who for who, places in self.facts.held.items() if any(places.values())]
        holders = [who for who in holders if who in self.facts.session_epochs]
        if not holders:
            return self._fetch()
        who = rnd.choice(holders)
        version = rnd.choice((1, 2, 2))
        renews = version == 2 and rnd.random() < 0.1
        options: dict[str, Any] = {"renew": True} if renews else {}
        topics = self._acknowledged(who, renews=renews)
        return Step("ack", *who, conn=self._free_conn(who[1]), v=version, epoch=CURRENT, topics=topics, **options)

    def _close_session(self) -> Step:
        if not self.facts.session_epochs:
            return self._fetch()
        who = self.rnd.choice(sorted(self.facts.session_epochs))
        topics = self._acknowledged(who)
        if self.rnd.random() < 0.5:
            return Step("ack", *who, conn=self._free_conn(who[1]), epoch=-1, topics=topics)
        options: dict[str, Any] = {
            "epoch": -1,
            "topics": topics,
            "min": 1,
            "bytes": _ALL,
            "records": 500,
            "batch": 500,
            "wait": 200,
        }
        return Step("fetch", *who, conn=self._free_conn(who[1]), **options)

    def _close(self) -> Step:
        """A connection that waits is not closed: Kafka does not notice that before it has answered."""
        free = [conn for slot in self.profile.slots if (conn := f"c-{slot}") not in self.facts.parked]
        return Step("close", conn=self.rnd.choice(free)) if free else self._fetch()

    def _expire(self) -> Step:
        return Step("expire")

    # Requests that no client sends

    def _read(self) -> list[Place]:
        """Partitions that the groups read. Of others Kafka says that they have no state some time after it has answered."""
        return [place for place in PLACES if place[0] in self.profile.topics]

    def _odd_batches(self, place: Place) -> list[Any]:
        rnd = self.rnd
        end = self.facts.ends[place]
        first = rnd.choice((0, 0, -1, max(0, end - 1), end, end + 3, rnd.randint(0, max(0, end)), rnd.randint(0, 5)))
        last = first + rnd.choice((0, 0, 1, 2, 5, 50, -1))
        types = rnd.choice(([1], [1], [2], [0], [3], [4], [5], [-1], [], [1, 1], [1] * max(1, last - first + 1)))
        batches = [[first, last, types]]
        if rnd.random() < 0.3:
            batches.append([last + rnd.choice((1, 0, 2)), last + rnd.choice((2, 3)), [rnd.choice((1, 2, 3))]])
        if rnd.random() < 0.1:
            batches.append(batches[0])
        return batches

    def _odd_rows(self, who: tuple[str, str]) -> list[Any]:
        rnd = self.rnd
        places = [*self._read(), ("t", 9), (MISSING_TOPIC, 0), ("t", -1)]
        chosen = sorted(rnd.sample(places, rnd.choice((1, 1, 2))))
        rows = [[*place, self._odd_batches(place) if place in PLACES else [[0, 1, [1]]]] for place in chosen]
        return rnd.choice((rows, rows, self._acknowledged(who)))

    def _odd_acknowledge(self) -> Step:
        rnd = self.rnd
        group, slot = who = self._who()
        others = [one for one in self.facts.held if one != who]
        rows = self._odd_rows(who)
        if others and rnd.random() < 0.3:
            rows = self._acknowledged(rnd.choice(others))
        epoch = rnd.choice((CURRENT, CURRENT, CURRENT, CURRENT, 0, 1, 5, -1, -2))
        slot = rnd.choice((slot,) * 9 + ("null", "", "long", "z"))
        group = rnd.choice((group,) * 9 + ("null", "", "g9"))
        renew = {"renew": True} if rnd.random() < 0.1 else {}
        return Step(
            "ack",
            group,
            slot,
            conn=self._free_conn("x"),
            v=2 if renew else rnd.choice((1, 2)),
            epoch=epoch,
            topics=rows,
            **renew,
        )

    def _odd_fetch(self) -> Step:
        rnd = self.rnd
        group, slot = who = self._who()
        limits = self._limits(len(self.facts.sessions.get(who, ())))
        wait = rnd.choice((200, 200, 300))
        for key, values in (("min", (1, 1, 0, -1, 300)), ("bytes", (_ALL, 0, 1, -1)), ("records", (500, 0, 1, -1))):
            if rnd.random() < 0.25:
                limits[key] = rnd.choice(values)
        if rnd.random() < 0.2:
            limits["batch"] = rnd.choice((0, 1))  # with a negative one Kafka forgets what it has delivered
        rows = rnd.choice((self._odd_rows(who), [], [[*rnd.choice(self._read()), []], ["x", 0, []]], [["t", 7, []]]))
        if not rows and rnd.random() < 0.3:
            wait = rnd.choice((0, -1))
        epoch = rnd.choice((CURRENT, CURRENT, CURRENT, CURRENT, 0, 0, 1, 5, -1, -2))
        slot = rnd.choice((slot,) * 9 + ("null", "", "long", "z"))
        group = rnd.choice((group,) * 9 + ("null", "", "g9"))
        options: dict[str, Any] = {}
        if rnd.random() < 0.15 and epoch != 0:
            options["renew"] = True
            if rnd.random() < 0.7:
                limits.update(min=0, bytes=0, records=0)
                wait = 0
        if rnd.random() < 0.1:
            options["mode"] = rnd.choice((1, 2, -1))
        options |= {"conn": self._free_conn("x"), "v": 2, "epoch": epoch, "topics": rows, "wait": wait, **limits}
        return Step("fetch", group, slot, **options)

    # Administration

    def _look(self) -> Step:
        rnd = self.rnd
        group = rnd.choice(self.profile.groups)
        rows = [list(place) for place in PLACES]
        verb = rnd.choice(("describe", "describe-offsets", "summary", "read-state"))
        if verb == "describe":
            groups = rnd.choice(([group], ["g1", "g2"], ["g9"], [""], [group, group]))
            return Step("describe", "", groups=groups, authorized=rnd.random() < 0.3)
        if verb == "describe-offsets":
            topics = rnd.choice((None, [["t", 0]], [["t", 1], ["u", 0]], []))
            return Step(verb, rnd.choice((group, group, "g9")), topics=topics, v=rnd.choice((0, 1)))
        return Step(verb, group, topics=rnd.choice((rows, rows, [["t", 0]], [["t", 9]], [["t", -1]], [["x", 0]], [])))

    def _administer(self) -> Step:
        rnd = self.rnd
        # What a group has in memory goes with its states in kshim and outlives them in Kafka: states that are read stay.
        used = {group for group, _ in self.facts.member_epochs}
        group = rnd.choice((*(group for group in self.profile.groups if group in used), "g9"))
        way = rnd.random()
        if way < 0.5:
            place = rnd.choice(PLACES)
            end = self.facts.ends[place]
            row = [*place, rnd.choice((0, end, end // 2, end + 10))]
            if group == "g9":  # only of partitions that do not exist: Kafka makes the group, kshim does not
                return Step("alter-offsets", group, topics=[row])
            return Step(
                "alter-offsets", group, topics=rnd.choice(([row], [row], [["nothing", 0, 0]], [["t", 9, 0]], []))
            )
        if way < 0.8:
            return Step("delete-offsets", group, topics=rnd.choice((["t"], ["u"], ["t", "u"], ["nothing"], [])))
        return Step("delete-groups", "", groups=[group])

    def _configure(self) -> Step:
        rnd = self.rnd
        configs = rnd.choice(
            (
                {"share.delivery.count.limit": str(rnd.choice((2, 5, 10, 1, 11)))},
                {"share.partition.max.record.locks": str(rnd.choice((100, 200, 99)))},
                {"share.isolation.level": rnd.choice(("read_committed", "read_uncommitted", "other"))},
                {"share.renew.acknowledge.enable": rnd.choice(("true", "false"))},
                {"share.auto.offset.reset": rnd.choice(("earliest", "none", "by_duration:PT1H", "by_duration:1h"))},
            )
        )
        return Step("config", rnd.choice(self.profile.groups), configs=configs)

    _ODD = (_odd_heartbeat, _odd_acknowledge, _odd_acknowledge, _odd_fetch, _odd_fetch, _administer)
