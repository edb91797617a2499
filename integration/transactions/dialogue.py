"""Requests of transactions in every state, and what a broker answers; names that differ in each run are taken out.

`kafka-4.4-level-0.txt` and `kafka-4.4-level-2.txt` hold the answers of a Kafka 4.4 of that transaction.version.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from integration.transactions.producer import Producer, Talk
from kshim_protocol.partitioner import partition_for

Tell = Callable[..., None]
"""Takes what was asked and the answers."""

KEPT = {level: Path(__file__).with_name(f"kafka-4.4-level-{level}.txt") for level in (0, 2)}
"""By the level of transaction.version."""


def dialogue(host: str, port: int, level: int) -> list[str]:
    """The answers of a broker of that level, one a line, each behind what was asked."""
    run = uuid4().hex[:8]
    talk = Talk(host, port, f"t-{run}")
    lines: list[str] = []

    def tell(what: str, *answers: str) -> None:
        lines.append(f"{what}: {' | '.join(answers)}".replace(run, "RUN"))

    talk.wait_for_transactions(f"x-{run}")
    talk.wait_for_leaders()
    group, stranger = (
        next(name for number in count() if partition_for(name := f"g-{run}-{number}", 50) == partition)
        for partition in (7, 8)
    )
    talk.find(group, 0)
    _beginnings(talk, f"x-{run}", tell)
    _course(talk, f"c-{run}", (group, stranger), tell)
    _fences(talk, f"f-{run}", tell)
    if level == 2:
        _writes_that_add(talk, f"w-{run}", (group, stranger), tell)
        _ends_that_bump(talk, f"e-{run}", tell)
        _goes_on(talk, f"o-{run}", tell)
    talk.client.close()
    return lines


def _beginnings(talk: Talk, name: str, tell: Tell) -> None:
    tell("empty id", talk.inited(""))
    tell("timeouts", *(talk.inited(name, timeout_ms=timeout_ms) for timeout_ms in (0, -1, 900_001)))
    tell("half of a producer", talk.inited(name, (3, -1)), talk.inited(name, (-1, 3)))
    tell("unknown id is", talk.state(name), talk.state(""))
    nobody = Producer(talk, name, 5, 0)
    for producer in (nobody, nobody.but(transactional_id="")):
        tell("unknown or no id", producer.add(0), producer.add_group("g"), producer.end(committed=True))
        tell("unknown or no id commits", producer.commit("g", ("", 0, 1)))
    tell("first", talk.inited(name), talk.state(name))
    assert talk.first_producer_id is not None
    first = Producer(talk, name, talk.first_producer_id, 0)
    tell("end of nothing", first.end(committed=True), first.end(committed=False))
    tell("goes on", talk.inited(name, first.key), "again", talk.inited(name, first.key))
    tell(
        "goes on with others",
        talk.inited(name, (first.producer_id, 5)),
        talk.inited(name, (first.producer_id + 7777, 0)),
    )
    tell("another one", talk.inited(name))
    tell("now the last epoch is", talk.inited(name, (first.producer_id, 1)), talk.inited(name, first.key, version=3))


def _course(talk: Talk, name: str, groups: tuple[str, str], tell: Tell) -> None:
    group, stranger = groups  # in different partitions, neither that of the empty name
    _, producer_id, epoch = talk.init(name)
    mine = Producer(talk, name, producer_id, epoch)
    older, newer, other = mine.but(epoch=-1), mine.but(epoch=1), mine.but(producer_id=99)
    tell("add", older.add(0), newer.add(0), other.add(0), older.add(0, version=1), other.add(0, version=0))
    tell("add what is not there", mine.add(0, 7, ("nope", 0)))
    tell("add internal", mine.add(0, ("__consumer_offsets", 0), ("__transaction_state", 0)), mine.add(("__nope", 0)))
    tell("nothing was added", talk.state(name))
    tell("add", mine.add(0, 1), "again", mine.add(1), "group", mine.add_group(group), "again", mine.add_group(group))
    tell(
        "add group",
        older.add_group(group),
        older.add_group(group, version=1),
        other.add_group(group),
        mine.add_group(""),
    )
    tell("ongoing", talk.state(name))
    tell("commit offsets", mine.commit(group, ("", 0, 11), ("", 1, 12)))
    for version in range(5):
        tell(
            f"commit offsets v{version}",
            *(producer.commit(group, ("", 0, 1), version=version) for producer in (older, newer, other)),
            mine.commit("", ("", 0, 1), version=version),
            mine.commit(stranger, ("", 0, 1), version=version),
        )
    tell(
        "commit what is not there",
        mine.commit(group, ("nope", 0, 1), ("", 0, 5), ("", 9, 1)),
        mine.commit(group, ("nope", 0, 1)),
    )
    tell("metadata", mine.commit(group, ("", 2, 1), metadata="x" * 5_000))
    for member in (("", 3, None), ("m", 3, None), ("m", -1, None), ("", -1, "i")):
        options: dict[str, Any] = dict(
            zip(("member_id", "generation_id_or_member_epoch", "group_instance_id"), member, strict=True)
        )
        tell(f"commit as {member}", mine.commit(group, ("", 2, 11), **options))
    tell("pending", talk.offsets(group), "unstable", talk.offsets(group, require_stable=False))
    tell(
        "end",
        older.end(committed=True),
        older.end(committed=True, version=1),
        newer.end(committed=True),
        other.end(committed=True),
    )
    tell("end", mine.end(committed=True), talk.settled(name), talk.offsets(group))
    tell("end again", mine.end(committed=True), mine.end(committed=False))
    tell("outside", mine.commit(group, ("", 0, 99)))
    tell("next", mine.add(2), talk.state(name), mine.commit(group, ("", 0, 99)))
    ids: dict[str, Any] = {"producer_id_filters": (producer_id,)}
    tell(
        "list",
        talk.listed(**ids),
        talk.listed(state_filters=("Ongoing", "Foo"), **ids),
        talk.listed(state_filters=("Foo",)),
    )
    tell("list by age", talk.listed(duration_filter=1_000_000, **ids), talk.listed(version=0, **ids))
    tell("abort", mine.end(committed=False), talk.settled(name), mine.end(committed=False), mine.end(committed=True))


def _fences(talk: Talk, name: str, tell: Tell) -> None:
    _, producer_id, epoch = talk.init(name)
    old = Producer(talk, name, producer_id, epoch)
    tell("open", old.add(0), "fence", talk.inited(name).partition(" ")[0], talk.settled(name))
    tell("fenced", old.add(0), old.end(committed=True), old.end(committed=False), old.add_group("g"))
    fence = old.but(epoch=1)
    tell("the epoch of the fence", fence.end(committed=False), fence.end(committed=True))
    error, _, epoch = talk.init(name)
    tell("new", error.name, str(epoch))
    new = old.but(epoch=epoch)
    tell("goes on while open", new.add(1), talk.inited(name, new.key).partition(" ")[0], talk.settled(name))
    tell("is fenced by itself", talk.inited(name, new.key).partition(" ")[0])
    _, producer_id, epoch = talk.init(f"{name}-slow", timeout_ms=1_000)
    slow = Producer(talk, f"{name}-slow", producer_id, epoch)
    tell("slow", slow.add(2), talk.settled(f"{name}-slow", not_in=("Ongoing", "PrepareAbort")))
    tell("too late", slow.add(0), slow.end(committed=True), talk.inited(f"{name}-slow", slow.key))
    error, _, epoch = talk.init(f"{name}-slow")
    tell("after that", error.name, str(epoch))


def _writes_that_add(talk: Talk, name: str, groups: tuple[str, str], tell: Tell) -> None:
    group, stranger = groups
    _, producer_id, epoch = talk.init(name)
    mine = Producer(talk, name, producer_id, epoch)
    older, newer, other = mine.but(epoch=-1), mine.but(epoch=1), mine.but(producer_id=99)
    nobody = mine.but(transactional_id=f"{name}-nobody")
    for version in (9, 10, 11, 12):
        tell(f"write v{version} of others", *(each.write(0, version=version) for each in (older, newer, other, nobody)))
    for version in (9, 10, 11):
        tell(f"write v{version} of what was not added", mine.write(0, version=version))
    tell("nothing was added", talk.state(name))
    tell("write with a later sequence", mine.write(2, 5), talk.state(name))
    tell("write", mine.write(0), mine.write(0, 1), mine.write(1), talk.state(name))
    tell("write of another id of an open transaction", nobody.write(0, 2))
    tell("verify", mine.verify(0, 1), mine.verify(0, 2, version=4), mine.verify(0, 7), mine.verify(0, ("nope", 0)))
    tell("verify of others", *(each.verify(0) for each in (older, newer, other, nobody)))
    tell("verify of no id", mine.but(transactional_id="").verify(0))
    for version in (4, 5):
        tell(
            f"commit offsets v{version}",
            *(each.commit(group, ("", 0, 1), version=version) for each in (older, newer, other, nobody)),
            mine.commit("", ("", 0, 1), version=version),
            mine.commit(group, ("nope", 0, 1), version=version),
            mine.commit(stranger, ("", 0, 7), version=version),
            talk.state(name),
        )
    tell("commit offsets as a member", mine.commit(group, ("", 0, 1), version=5, member_id="m"))
    tell("commit offsets of a generation", mine.commit(group, ("", 0, 1), version=5, generation_id_or_member_epoch=3))
    tell("end", mine.end_and_bump(committed=True), talk.settled(name), talk.offsets(stranger))
    tell("write of the transaction that is over", mine.write(0, 2), mine.write(2))
    newer = mine.but(epoch=1)
    tell("write of the next one", newer.write(0, 2), newer.write(2, 1), newer.write(0), talk.state(name))
    tell(
        "add between brokers", newer.verify(1, verify_only=False), older.verify(1, verify_only=False), talk.state(name)
    )
    tell("end", newer.end_and_bump(committed=False), talk.settled(name))


def _ends_that_bump(talk: Talk, name: str, tell: Tell) -> None:
    _, producer_id, epoch = talk.init(name)
    mine = Producer(talk, name, producer_id, epoch)

    def end(producer: Producer) -> tuple[str, str]:
        return producer.end_and_bump(committed=True), producer.end_and_bump(committed=False)

    tell("end of others", *end(mine.but(epoch=-1)), *end(mine.but(epoch=1)), *end(mine.but(producer_id=99)))
    tell("end of nobody", *end(mine.but(transactional_id=f"{name}-nobody")), *end(mine.but(transactional_id="")))
    tell("end of nothing", *end(mine), talk.settled(name))
    tell("again", *end(mine), *end(mine.but(epoch=1)), talk.settled(name))
    mine = mine.but(epoch=2)
    tell("write", mine.write(0), "of others", *end(mine.but(epoch=-1)), *end(mine.but(epoch=1)))
    tell("commit", mine.end_and_bump(committed=True), talk.settled(name), *end(mine), *end(mine.but(epoch=-1)))
    mine = mine.but(epoch=1)
    tell(
        "add as before, end",
        mine.add(1),
        mine.write(1, version=11),
        mine.end_and_bump(committed=True),
        talk.settled(name),
    )
    mine = mine.but(epoch=1)
    tell("write, end as before", mine.write(1), mine.end(committed=True), talk.settled(name), mine.end(committed=True))
    tell("write in the same epoch", mine.write(1, 1), mine.write(0, 1), mine.write(0), mine.end(committed=False))
    tell("is", talk.settled(name))
    tell(
        "list",
        *(talk.listed(version=2, transactional_id_pattern=each) for each in (name, f"{name[:2]}.*{name[-3:]}", "(")),
    )


def _goes_on(talk: Talk, name: str, tell: Tell) -> None:
    _, producer_id, epoch = talk.init(name)
    talk.first_producer_id = producer_id
    mine = Producer(talk, name, producer_id, epoch)
    tell("goes on while open", mine.write(0), talk.inited(name, mine.key), talk.settled(name))
    tell("gets the epoch of the abort", talk.inited(name, mine.key), talk.inited(name, mine.key), talk.state(name))
    tell("write", mine.write(0), mine.but(epoch=1).write(0), talk.inited(name), talk.settled(name))
    tell("another one", talk.inited(name), "the one before", talk.inited(name, mine.but(epoch=1).key))
    mine = mine.but(epoch=3)
    tell(
        "lost its answer",
        mine.write(1),
        mine.end_and_bump(committed=True),
        talk.settled(name),
        talk.inited(name, mine.key),
    )
    slow = f"{name}-slow"
    _, producer_id, epoch = talk.init(slow, timeout_ms=1_000)
    mine = Producer(talk, slow, producer_id, epoch)
    tell("slow", mine.write(2), talk.settled(slow, not_in=("Ongoing", "PrepareAbort")))
    talk.first_producer_id = producer_id
    tell("too late", mine.write(2, 1), mine.commit("g", ("", 0, 1), version=5), mine.end_and_bump(committed=True))
    tell("its abort", mine.end_and_bump(committed=False), talk.inited(slow, mine.key), talk.state(slow))
    tell("goes on", mine.but(epoch=1).write(2), mine.but(epoch=1).end_and_bump(committed=True), talk.settled(slow))
