"""Groups: sharing, eviction, static members, cooperative rebalances, commits, patterns, many members."""

from __future__ import annotations

from integration.clients.application import Application, Sent
from integration.clients.catalogue import CLASSIC, CONSUMER
from integration.clients.driver import DriverError
from integration.clients.members import Group, Member, partitions_of
from integration.clients.scene import Scene
from integration.clients.situation import EITHER, situation
from integration.clients.situations.admin import eventually
from integration.support.client import TopicPartition

_SHORTEST_SESSION_MS = 6_000
"""The least that Kafka accepts by default."""
_QUICK = {"heartbeat_interval_ms": 300}
"""Members hear of a rebalance by heartbeat; three seconds are the default."""
_ROLLING_RATE = 50


def fill(application: Application, topic: str, partitions: int, values: range) -> list[str]:
    """These numbers in turn to all partitions; answers them as the strings they are."""
    application.produce(topic, [Sent(str(number), key=str(number), partition=number % partitions) for number in values])
    return [str(number) for number in values]


@situation("group: three members share six partitions, two when one leaves", protocols=EITHER)
def group_of_three(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 6)
    group = Group(scene.name("group"))
    members = [group.start(application, topic, **_QUICK) for _ in range(3)]
    group.settle(partitions_of(topic, 6), sizes=[2, 2, 2])
    values = fill(application, topic, 6, range(600))
    group.wait_for_values(values)
    assert all(member.records for member in members), "each gets records of its own partitions"
    described = scene.group(application, group.group_id)
    assert described.state == "Stable"
    assert {member.partitions for member in described.members} == {member.assignment for member in members}
    group.stop(members[0], commit=True)
    group.settle(partitions_of(topic, 6), sizes=[3, 3])
    group.wait_for_values([*values, *fill(application, topic, 6, range(600, 900))])
    group.require_no_errors()


@situation("group: each assignor that all clients know", protocols=EITHER)
def group_assignors(scene: Scene) -> None:
    application = scene.application()
    topics = [scene.topic(application, 3, word=word) for word in ("one", "two")]
    partitions = [each for topic in topics for each in partitions_of(topic, 3)]
    # Of two topics with three partitions for two members, range gives the first member the larger part of each.
    even = "roundrobin" if scene.client.group_protocol == CLASSIC else "uniform"
    for assignor, sizes in (("range", [2, 4]), (even, [3, 3])):
        group = Group(scene.name(assignor))
        members = [group.start(application, *topics, assignors=[assignor], **_QUICK) for _ in range(2)]
        group.settle(partitions, sizes=sizes)
        assert scene.group(application, group.group_id).assignor == assignor
        for member in members:
            group.stop(member)


@situation("group: a killed member is evicted after its session timeout", protocols=EITHER)
def eviction_of_a_killed_member(scene: Scene) -> None:
    application, doomed = scene.application(), scene.application()
    topic = scene.topic(application, 4)
    group = Group(scene.name("group"))
    group.start(application, topic, **_QUICK)
    group.start(doomed, topic, session_timeout_ms=_SHORTEST_SESSION_MS, **_QUICK)
    group.settle(partitions_of(topic, 4), sizes=[2, 2])
    scene.kill(doomed)
    group.forget(doomed)
    assert len(scene.group(application, group.group_id).members) == 2, "a lost connection ends no membership"
    group.settle(partitions_of(topic, 4))
    group.wait_for_values(fill(application, topic, 4, range(40)))
    group.require_no_errors()


@situation("group: a frozen member is evicted, and joins again when it continues", protocols=EITHER)
def eviction_of_a_frozen_member(scene: Scene) -> None:
    application, frozen = scene.application(), scene.application()
    topic = scene.topic(application, 4)
    group = Group(scene.name("group"))
    group.start(application, topic, **_QUICK)
    group.start(frozen, topic, session_timeout_ms=_SHORTEST_SESSION_MS, **_QUICK)
    group.settle(partitions_of(topic, 4), sizes=[2, 2])
    # Frozen before it knows where to begin, a member asks for its offsets when it continues: UNKNOWN_MEMBER_ID, which Java raises.
    group.wait_for_values(fill(application, topic, 4, range(40)))
    before = {member.member_id for member in scene.group(application, group.group_id).members}
    frozen.driver.freeze()
    asleep = group.forget(frozen)
    group.settle(partitions_of(topic, 4))
    frozen.driver.thaw()
    group.members += asleep
    group.settle(partitions_of(topic, 4), sizes=[2, 2])
    after = {member.member_id for member in scene.group(application, group.group_id).members}
    if scene.client.group_protocol == CLASSIC:  # with the consumer protocol ids are the clients'
        assert len(before & after) == 1, "one member stayed, the other is a new one"
    group.wait_for_values(fill(application, topic, 4, range(40, 80)))


@situation("group: a static member that returns causes no rebalance", protocols=EITHER)
def static_members(scene: Scene) -> None:
    application, ending = scene.application(), scene.application()
    topic = scene.topic(application, 4)
    group = Group(scene.name("group"))
    stays = group.start(application, topic, instance_id="stays", **_QUICK)
    ends = group.start(ending, topic, instance_id="ends", **_QUICK)
    group.settle(partitions_of(topic, 4), sizes=[2, 2])
    owned = ends.assignment
    ids = member_ids(scene, group)
    assert set(ids) == {"ends", "stays"}, f"instances {ids}"
    changes = len(stays.changes)
    if scene.client.group_protocol == CLASSIC:
        scene.kill(ending)
        group.forget(ending)
    else:  # a crash would hold the instance id until the session ends: UNRELEASED_INSTANCE_ID
        group.stop(ends)
    again = scene.application()
    back = group.start(again, topic, instance_id="ends", **_QUICK)
    group.wait("the partitions are its own again", lambda: back.assignment == owned)
    group.wait_for_values(fill(application, topic, 4, range(40)))
    # A cooperative member that keeps all may be told so late, in callbacks without partitions.
    seen = [change for change in stays.changes[changes:] if change.partitions]
    assert not seen, f"the other saw {seen}"
    now = member_ids(scene, group)
    assert now["stays"] == ids["stays"]
    assert now["ends"] != ids["ends"], "the same instance under a new member id"
    assert stays.errors == back.errors == []


@situation("group: the older of two members with the same instance id is fenced")
def static_fencing(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    group = Group(scene.name("group"))
    older = group.start(application, topic, instance_id="twin", **_QUICK)
    group.settle(partitions_of(topic, 2))
    group.wait_for_values(fill(application, topic, 2, range(20)))
    newer = group.start(application, topic, instance_id="twin", **_QUICK)
    group.wait("the newer owns all", lambda: newer.assignment == set(partitions_of(topic, 2)))

    def is_told() -> bool:
        """By a poll, or by a commit."""
        try:
            application.driver.call("member_commit", member=older.name)
        except DriverError as error:
            if error.name == "FENCED_INSTANCE_ID":
                return True
        return any("FENCED_INSTANCE_ID" in error for error in older.errors)

    group.wait("the older is told", is_told, timeout_s=20)
    (described,) = scene.observer().describe(group.group_id)[group.group_id].members
    assert described.group_instance_id == "twin"
    assert application.group_offsets(group.group_id) == {}, "the fenced member has committed"


@situation("group: a member with the instance id of one that lives is refused", protocols=(CONSUMER,))
def static_refused(scene: Scene) -> None:
    application, other = scene.application(), scene.application()
    topic = scene.topic(application, 2)
    group = Group(scene.name("group"))
    older = group.start(application, topic, instance_id="twin")
    group.settle(partitions_of(topic, 2))
    newer = group.start(other, topic, instance_id="twin")
    group.wait("the newer is told", lambda: any("UNRELEASED_INSTANCE_ID" in error for error in newer.errors))
    values = fill(application, topic, 2, range(20))
    group.wait("the older has all", lambda: {record.value for record in older.records} == set(values))
    application.driver.call("member_commit", member=older.name)
    assert older.errors == []
    assert newer.records == []
    assert set(application.group_offsets(group.group_id).values()) == {10}


@situation("group: cooperative-sticky revokes only partitions that move")
def cooperative_sticky(scene: Scene) -> None:
    _revokes_only_what_moves(scene, "cooperative-sticky")


@situation("group: uniform revokes only partitions that move", protocols=(CONSUMER,))
def uniform(scene: Scene) -> None:
    _revokes_only_what_moves(scene, "uniform")


def _revokes_only_what_moves(scene: Scene, assignor: str) -> None:
    application = scene.application()
    topic = scene.topic(application, 6)
    group = Group(scene.name("group"))
    settings = {"assignors": [assignor], **_QUICK}
    first = group.start(application, topic, **settings)
    group.settle(partitions_of(topic, 6))
    values = fill(application, topic, 6, range(60))
    group.wait_for_values(values)
    group.start(application, topic, **settings)
    group.settle(partitions_of(topic, 6), sizes=[3, 3])
    assert scene.group(application, group.group_id).assignor == assignor
    kept, gone = first.assignment, set(partitions_of(topic, 6)) - first.assignment
    revoked = {each for change in first.changes if change.kind in ("revoked", "lost") for each in change.partitions}
    assert revoked == gone, f"kept {sorted(kept)} but revoked {sorted(revoked)}"
    group.wait_for_values([*values, *fill(application, topic, 6, range(60, 120))])
    group.require_no_errors()


@situation("commit and resume: the next member continues after the committed offset", protocols=EITHER)
def commit_and_resume(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 3)
    group = Group(scene.name("group"))
    values = fill(application, topic, 3, range(300))
    member = group.start(application, topic)
    group.wait("some records", lambda: bool(member.records))
    group.stop(member, commit=True)
    offsets = application.group_offsets(group.group_id)
    ends = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in member.records}
    assert {each: offsets[each] for each in ends} == ends
    values += fill(application, topic, 3, range(300, 600))
    other = scene.application()
    group.start(other, topic)
    group.wait_for_values(values)
    group.require_each_once(values)


@situation("commit: uncommitted records are delivered again", protocols=EITHER)
def commit_and_crash(scene: Scene) -> None:
    application, doomed = scene.application(), scene.application()
    topic = scene.topic(application)
    group = Group(scene.name("group"))
    first, second = fill(application, topic, 1, range(50)), [str(number) for number in range(50, 80)]
    member = group.start(doomed, topic, session_timeout_ms=_SHORTEST_SESSION_MS)
    group.wait_for_values(first)
    doomed.driver.call("member_commit", member=member.name)
    fill(application, topic, 1, range(50, 80))
    group.wait_for_values(second)
    scene.kill(doomed)
    group.forget(doomed)
    assert application.group_offsets(group.group_id) == {TopicPartition(topic, 0): 50}
    successor = group.start(application, topic)
    group.wait("all that was not committed", lambda: len(successor.records) >= len(second))
    assert [record.value for record in successor.records] == second


@situation("group: a member seeks back and forth", protocols=EITHER)
def member_seeks(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application)
    group = Group(scene.name("group"))
    values = fill(application, topic, 1, range(20))
    member = group.start(application, topic)
    group.wait_for_values(values)
    application.driver.call("member_seek", member=member.name, topic=topic, partition=0, offset=15)
    group.wait("the last five again", lambda: len(member.records) >= 25)
    assert [record.offset for record in member.records] == [*range(20), *range(15, 20)]
    group.stop(member, commit=True)
    assert application.group_offsets(group.group_id) == {TopicPartition(topic, 0): 20}


@situation("regex: a topic created later and partitions added are found", protocols=EITHER)
def regex_subscription(scene: Scene) -> None:
    application = scene.application()
    prefix = scene.name("regex")
    first, later, other = f"{prefix}-a", f"{prefix}-b", scene.name("other")
    application.create_topic(first, 2)
    application.create_topic(other, 2)
    group = Group(scene.name("group"))
    settings = {"pattern": f"^{prefix}-.*", "metadata_max_age_ms": 1_000, **_QUICK}
    members = [group.start(application, **settings) for _ in range(2)]
    group.settle(partitions_of(first, 2), sizes=[1, 1])
    application.create_topic(later, 2)
    group.settle([*partitions_of(first, 2), *partitions_of(later, 2)])
    application.create_partitions(first, 4)
    group.settle([*partitions_of(first, 4), *partitions_of(later, 2)])
    values = fill(application, first, 4, range(40)) + fill(application, later, 2, range(40, 80))
    fill(application, other, 2, range(100, 110))
    group.wait_for_values(values)
    assert {record.topic for record in group.records()} == {first, later}
    _require_owned_by(members, 6)


@situation("group: 30 members over 60 partitions", protocols=EITHER)
def thirty_members(scene: Scene) -> None:
    applications = [scene.application() for _ in range(2)]
    topic = scene.topic(applications[0], 60)
    group = Group(scene.name("group"))
    for number in range(30):
        group.start(applications[number % 2], topic, **_QUICK)
    group.settle(partitions_of(topic, 60), sizes=[2] * 30)
    values = fill(applications[0], topic, 60, range(1_200))
    group.wait_for_values(values)
    described = scene.group(applications[0], group.group_id)
    assert {member.partitions for member in described.members} == {member.assignment for member in group.members}
    for member in group.members[:10]:
        group.stop(member)  # without a commit, which the rebalances under way might refuse
    group.settle(partitions_of(topic, 60), sizes=[3] * 20)
    group.wait_for_values([*values, *fill(applications[0], topic, 60, range(1_200, 1_800))])
    eventually("twenty are left", lambda: len(scene.group(applications[1], group.group_id).members) == 20)
    group.require_no_errors()


@situation("group: rolled to the consumer protocol and back under load, one member at a time", protocols=(CONSUMER,))
def protocols_rolled(scene: Scene) -> None:
    classic, new = scene.application(group_protocol=CLASSIC), scene.application()
    topic = scene.topic(new, 6)
    group = Group(scene.name("group"))
    settings = {"commit_on_revoke": True, **_QUICK}
    for _ in range(3):
        group.start(classic, topic, **settings)
    group.settle(partitions_of(topic, 6), sizes=[2, 2, 2])
    new.start_load("load", topic, _ROLLING_RATE, idempotent=True)
    for application in (new, classic):
        for member in list(group.members):
            group.stop(member)
            group.start(application, topic, **settings)
            group.settle(partitions_of(topic, 6), sizes=[2, 2, 2])
            aim = len(group.records()) + _ROLLING_RATE
            group.wait("more records", lambda aim=aim: len(group.records()) >= aim)  # type: ignore[misc]
        listed = scene.observer().list_groups()[group.group_id]
        assert listed.type.lower() == application.group_protocol
    acknowledged, failed = new.stop_load("load")
    assert failed == set(), f"{len(failed)} sends failed"
    values = [str(number) for number in acknowledged]
    group.wait_for_values(values)
    group.require_each_once(values)
    group.require_no_errors()


def _require_owned_by(members: list[Member], count: int) -> None:
    assert sum(len(member.assignment) for member in members) == count


def member_ids(scene: Scene, group: Group) -> dict[str | None, str]:
    """Member id by instance id. By an observer, for some clients do not tell the instance."""
    if scene.client.group_protocol == CONSUMER:
        return {each.instance_id: each.member_id for each in scene.consumer_group(group.group_id).members}
    described = scene.observer().describe(group.group_id)[group.group_id]
    return {member.group_instance_id: member.member_id for member in described.members}
