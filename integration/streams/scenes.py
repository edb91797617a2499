"""What streams groups go through, one function each; everything that is answered is compared."""

from __future__ import annotations

import random
from collections.abc import Callable

from integration.streams.play import Member, Play, part, task_offset, tasks, together, topic_info
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from kshim_protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest

Scene = Callable[[Play], None]


def _topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=parts)


def _word_count(play: Play) -> Topology:
    """Of every introduction: lines are split, words are repartitioned and counted."""
    repartition, changelog = play.name("repartition"), play.name("changelog")
    return _topology(
        part("0", play.name("lines"), sinks=(repartition,)),
        part(
            "1",
            repartitions=(topic_info(repartition, cleanup_policy="delete", segment_bytes="52428800"),),
            changelogs=(topic_info(changelog, cleanup_policy="compact"),),
        ),
    )


def _stateless(play: Play, *words: str, epoch: int = 0) -> Topology:
    return _topology(*(part(str(at), play.name(word)) for at, word in enumerate(words)), epoch=epoch)


def _stateful(play: Play, word: str) -> Topology:
    return _topology(part("0", play.name(word), changelogs=(topic_info(play.name("store")),)))


def word_count(play: Play) -> None:
    """As Kafka Streams goes about it, with the defaults of the broker."""
    play.topic("lines", 2)
    topology = _word_count(play)
    a, b = play.member("a", topology=topology), play.member("b", topology=topology)
    a.join()
    play.describe()
    play.wait(600)
    a.beat()
    play.describe()
    play.wait(3_000)
    a.beat()
    play.describe()
    play.wait(1_100)
    b.join()
    play.describe()
    b.beat()
    a.beat()
    b.report()
    play.describe()
    a.report()
    b.report()
    play.describe()
    a.beat()
    a.leave()
    play.describe()
    play.wait(1_100)
    b.report()
    play.describe()
    b.leave()
    play.describe()
    _admin(play)
    b.join()
    play.wait(3_200)
    b.beat()
    b.leave()
    play.ask(DeleteGroupsRequest(groups_names=(play.group_id,)), 2)
    play.describe()


def _admin(play: Play) -> None:
    group = play.group_id
    for version in (5, 6):
        play.ask(DescribeGroupsRequest(groups=(group,), include_authorized_operations=False), version)
    play.ask(ConsumerGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False), 1)


def admin(play: Play) -> None:
    """What other APIs say of a group with members, in each state."""
    topology = _stateless(play, "t")
    a = play.member("a", topology=topology)
    play.at_once()

    def listed() -> None:
        for states in ((), ("NotReady",), ("not_ready",), ("Stable",), ("stable", "EMPTY"), ("Assigning",)):
            _ours(play, states, ("streams",))
        _ours(play, (), ("Streams", "classic"))
        _ours(play, (), ("consumer",))

    a.join()
    listed()
    play.topic("t", 1)
    a.beat()
    listed()
    _admin(play)
    play.ask(DeleteGroupsRequest(groups_names=(play.group_id,)), 2)
    play.ask(HeartbeatRequest(group_id=play.group_id, generation_id=2, member_id="a"), 4)
    play.ask(
        SyncGroupRequest(
            group_id=play.group_id,
            generation_id=2,
            member_id="a",
            protocol_type="consumer",
            protocol_name="range",
            assignments=(),
        ),
        5,
    )
    play.ask(LeaveGroupRequest(group_id=play.group_id, members=(MemberIdentity(member_id="a"),)), 5)
    play.ask(_classic_join(play), 9)
    play.ask(_classic_join(play, member_id="other"), 9)
    for names in ((play.group_id, "", play.name("other")), ()):
        for version in (0, 1):
            play.ask(StreamsGroupDescribeRequest(group_ids=names, include_authorized_operations=True), version)
    play.ask(
        StreamsGroupDescribeRequest(
            group_ids=(play.group_id,), include_authorized_operations=False, include_topology_description=True
        ),
        1,
    )
    description = TopologyDescription(subtopologies=(), global_stores=())
    play.ask(
        StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=play.group_id, member_id="a", topology_epoch=0, topology_description=description
        ),
        0,
    )
    a.leave()
    listed()
    play.ask(DeleteGroupsRequest(groups_names=(play.group_id,)), 2)
    listed()


def _ours(play: Play, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """ListGroups; of other scenes' groups nothing is looked at."""
    play.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5)


def _classic_join(play: Play, member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=play.group_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )


def refusals(play: Play) -> None:
    """Everything that a request may lack or have too much, one by one."""
    play.topic("t", 2)
    play.at_once()
    topology = _stateless(play, "t")
    a = play.member("a", topology=topology)
    a.beat(3)
    a.leave()
    a.beat(-2, instance_id="i")
    for fields in (
        {"rebalance_timeout_ms": -1},
        {"active_tasks": None},
        {"standby_tasks": None},
        {"warmup_tasks": None},
        {"active_tasks": tasks(s0=(0,))},
        {"standby_tasks": tasks(s0=(0,))},
        {"topology": None},
        {"instance_id": ""},
        {"instance_id": " "},
        {"rack_id": ""},
    ):
        a.join(**fields)
    for member_id in ("", " "):
        play.member(member_id, topology=topology).join()
    for epoch in (-3, -100):
        a.beat(epoch)
    a.beat(-2)
    a.beat(-2, instance_id="")
    a.beat(1, topology=topology)
    a.beat(1, active_tasks=(), standby_tasks=())
    play.ask(StreamsGroupHeartbeatRequest(group_id="", member_id="a", member_epoch=1, endpoint_information_epoch=0), 0)
    a.join()
    a.beat(active_tasks=tasks(s9=(0,)), standby_tasks=(), warmup_tasks=())
    a.beat(active_tasks=tasks(s0=(7,)), standby_tasks=(), warmup_tasks=())
    a.beat(active_tasks=(), standby_tasks=tasks(s0=(-1,)), warmup_tasks=())
    a.beat(task_offsets=(task_offset("0", 0, 5), task_offset("0", 0, 6)))
    a.beat(task_end_offsets=(task_offset("1", 0, 5), task_offset("1", 0, 6)))
    a.beat(rack_id="")
    a.beat(1)
    a.beat(9)
    a.beat(1, active_tasks=tasks(s0=(0,)), standby_tasks=(), warmup_tasks=())
    a.beat(0, active_tasks=(), standby_tasks=(), warmup_tasks=(), rebalance_timeout_ms=1)
    play.member("nobody").beat(2)
    play.member("nobody").leave()
    play.member("nobody", instance_id="i").beat(2)
    play.member("nobody", instance_id="i").leave()
    play.member("nobody", instance_id="i").leave_for_now()
    a.beat(instance_id="i")
    play.member("b", topology=_stateless(play, "t", epoch=1)).join()
    play.member("b", topology=_stateless(play, "t", "u")).join()
    play.describe()


def wrong_topologies(play: Play) -> None:
    """Topologies that cannot be."""
    play.topic("t", 2)
    play.at_once()
    t, store, r = play.name("t"), play.name("store"), play.name("r")
    for parts in (
        (part("0", t, regex=("a.*",)),),
        (part("0", t, changelogs=(topic_info(store, 3),)),),
        (part("0", "__consumer_offsets"),),
        (part("0", "__transaction_state", sinks=("__share_group_state",)),),
        (part("0", "a b", sinks=("c d",)),),
        (part("0", t, "", changelogs=(topic_info("..", 0),)),),
        (part("0"),),
        (part("0", changelogs=(topic_info(store),)),),
        (part("0", t), part("1", repartitions=(topic_info(r),))),
        (part("0", sinks=(r,), repartitions=(topic_info(r),)),),
        (part("0", t), part("0", t)),
        (),
    ):
        play.member("a", topology=_topology(*parts)).join()
        play.describe()
    play.member("a", topology=_stateless(play, "t", epoch=-1)).join()
    play.describe()


def missing_topics(play: Play) -> None:
    """Source topics come and go; internal topics are made, or are not what they should be."""
    play.at_once()
    topology = _word_count(play)
    a = play.member("a", topology=topology)
    a.join()
    a.beat()
    play.describe()
    play.topic("lines", 2)
    a.beat()
    play.wait(700)
    a.beat()
    play.describe()
    a.report()
    play.ask(
        CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=play.name("lines"), count=3, assignments=None),),
            timeout_ms=1_000,
            validate_only=False,
        ),
        3,
    )
    play.wait(400)
    a.beat()
    play.describe()
    a.report()
    play.ask(
        DeleteTopicsRequest(
            topics=(DeleteTopicState(name=play.name("changelog"), topic_id=bytes(16)),), timeout_ms=1_000
        ),
        6,
    )
    play.wait(400)
    a.beat()
    play.ask(
        DeleteTopicsRequest(
            topics=(DeleteTopicState(name=play.name("repartition"), topic_id=bytes(16)),), timeout_ms=1_000
        ),
        6,
    )
    play.wait(400)
    a.beat()
    play.wait(700)
    a.beat()
    a.report()
    play.describe()
    play.ask(
        DeleteTopicsRequest(topics=(DeleteTopicState(name=play.name("lines"), topic_id=bytes(16)),), timeout_ms=1_000),
        6,
    )
    play.wait(400)
    a.beat()
    play.describe()
    a.report()
    play.member("b", topology=topology, endpoint=("h", 1)).join()


def copartitions(play: Play) -> None:
    """Topics that must have equally many partitions, and have not."""
    play.at_once()
    play.topic("in2", 2)
    play.topic("s1", 1)
    in2, s1, r = play.name("in2"), play.name("s1"), play.name("r")
    topology = _topology(
        part("0", in2, sinks=(r,)), part("1", in2, s1, repartitions=(topic_info(r),), together=(together(0, 1),))
    )
    a = play.member("a", topology=topology)
    a.join()
    play.describe()
    a.leave()
    play.ask(DeleteGroupsRequest(groups_names=(play.group_id,)), 2)
    a.topology = _topology(
        part("0", in2, sinks=(r,)),
        part("1", s1, repartitions=(topic_info(r),), together=(together(0, repartitions=(0,)),)),
    )
    a.join()
    play.wait(700)
    a.beat()
    play.describe()


def failing_creation(play: Play) -> None:
    """Internal topics that no broker can make: it is told why."""
    play.at_once()
    play.topic("t", 1)
    infos = [topic_info(play.name(f"store{number}"), cleanup_policy="nonsense") for number in range(5)]
    a = play.member("a", topology=_topology(part("0", play.name("t"), changelogs=tuple(infos))))
    a.join()
    play.wait(600)
    a.beat()
    play.describe()


def epochs(play: Play) -> None:
    """Lost answers, and members that say what they should not."""
    play.topic("t", 4)
    play.at_once()
    topology = _stateless(play, "t")
    a, b = play.member("a", topology=topology), play.member("b", topology=topology)
    a.join()
    a.beat(1, active_tasks=(), standby_tasks=(), warmup_tasks=())
    a.beat(1)
    a.report()
    b.join()
    a.beat()
    a.beat()
    before = dict(a.tasks)
    a.report()
    a.beat(2, active_tasks=before["active"], standby_tasks=(), warmup_tasks=())
    a.beat(2, active_tasks=(), standby_tasks=(), warmup_tasks=())
    b.report()
    b.report()
    a.beat(rack_id="other")
    b.report()
    a.report()
    a.beat(client_tags=())
    a.beat(process_id="process-new")
    a.beat(rebalance_timeout_ms=5_000)
    play.describe()
    a.join()
    b.join()
    play.describe()
    b.leave()
    b.beat()
    a.report()
    a.leave()
    a.leave()
    play.describe()


def revocation_takes_too_long(play: Play) -> None:
    """A member that does not give up its tasks in time is removed."""
    play.topic("t", 2)
    play.at_once()
    topology = _stateless(play, "t")
    a, b = play.member("a", topology=topology), play.member("b", topology=topology)
    a.join(rebalance_timeout_ms=700)
    b.join()
    a.beat()
    b.report()
    play.wait(1_200)
    b.report()
    a.beat()
    play.describe()


def static_members(play: Play) -> None:
    """They leave for a while, come back as they were, in another process, or too early."""
    play.topic("t", 2)
    play.at_once()
    topology = _stateless(play, "t")
    a = play.member("a1", topology=topology, instance_id="i", process_id="p")
    b = play.member("b", topology=topology)
    a.join()
    b.join()
    a.report()
    a.report()
    b.report()
    play.describe()
    play.member("a2", topology=topology, instance_id="i", process_id="p").join()
    a.leave_for_now()
    play.describe()
    b.report()
    a2 = play.member("a2", topology=topology, instance_id="i", process_id="p")
    a2.join()
    play.describe()
    a.beat()
    a.leave()
    a2.report()
    a2.leave_for_now()
    a3 = play.member("a3", topology=topology, instance_id="i", process_id="other")
    a3.join()
    a3.report()
    b.report()
    a3.report()
    play.describe()
    a3.beat(rebalance_timeout_ms=30_000)
    a3.beat(rack_id="r")
    a3.leave_for_now()
    a3.join()
    a3.beat(instance_id=None)
    a3.leave()
    b.report()
    play.describe()


def statuses(play: Play) -> None:
    """What members are told besides tasks."""
    play.topic("t", 1)
    play.configure(initial_rebalance_delay_ms=0, rack_aware_assignment_tags="zone,cluster")
    new, old = _stateless(play, "t", epoch=1), _stateless(play, "t", epoch=0)
    a = play.member("a", topology=new, tags={"zone": "z", "other": "o"})
    b = play.member("b", topology=old, tags={"zone": "z", "cluster": "c"})
    c = play.member("c", topology=old, version=0)
    a.join()
    b.join()
    b.beat()
    c.join()
    play.wait(1_100)
    b.report()
    c.report()
    play.describe(version=0)
    a.beat(shutdown_application=True)
    b.beat(shutdown_application=True)
    c.beat()
    play.configure(rack_aware_assignment_tags="")
    a.beat()
    b.leave(shutdown_application=True)
    c.leave()
    a.leave()
    play.wait(1_100)
    a.join()
    b.join()
    b.leave(shutdown_application=True)
    a.beat()
    a.leave()


def endpoints(play: Play) -> None:
    """Who can be asked for what, for interactive queries."""
    play.topic("t", 3)
    play.topic("u", 2)
    play.at_once(num_standby_replicas=1)
    topology = _topology(
        part("0", play.name("t"), play.name("u"), changelogs=(topic_info(play.name("store")),)),
        part("1", play.name("u")),
    )
    play.topic("store", 3)
    a = play.member("a", topology=topology, endpoint=("host-a", 8_080))
    b = play.member("b", topology=topology, endpoint=("host-b", 65_535))
    c = play.member("c", topology=topology)
    a.join()
    a.beat()
    a.report()
    b.join()
    a.report()
    a.report()
    b.report()
    a.report()
    c.join()
    for _ in range(3):
        for member in (a, b, c):
            member.report()
    a.endpoint_epoch = 0
    a.beat()
    c.beat(user_endpoint=None)
    b.join(user_endpoint=None)
    b.leave()
    for _ in range(2):
        for member in (a, c):
            member.report()
    play.describe()


def standbys(play: Play) -> None:
    """Copies of state: on another process, promoted when the active one goes, demoted when it comes back."""
    play.topic("t", 4)
    play.topic("store", 4)
    play.at_once(num_standby_replicas=1)
    topology = _stateful(play, "t")
    members = [
        play.member(name, topology=topology, process_id=process)
        for name, process in (("a", "p"), ("b", "q"), ("c", "q"), ("d", "r"))
    ]
    a, b, c, d = members

    def settle(*present: Member) -> None:
        for _ in range(4):
            for member in present:
                member.report()

    a.join()
    settle(a)
    b.join()
    settle(a, b)
    play.describe()
    c.join()
    settle(a, b, c)
    play.describe()
    a.report(task_offsets=(task_offset("0", 0, 5), task_offset("0", 1, 6)), task_end_offsets=(task_offset("0", 0, 9),))
    d.join()
    settle(a, b, c, d)
    play.describe()
    a.leave()
    settle(b, c, d)
    play.describe()
    play.configure(num_standby_replicas=2)
    settle(b, c, d)
    play.describe()
    play.configure(num_standby_replicas=0)
    settle(b, c, d)
    d.leave()
    a.join()
    settle(a, b, c)
    play.describe()


def commit(play: Play, member: str, epoch: int, *places: tuple[str, int], version: int = 9) -> None:
    """A commit of partitions, each a topic's word and an index, by a member in an epoch."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for word, index in places:
        topics.setdefault(play.name(word), []).append(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="m")
        )
    play.ask(
        OffsetCommitRequest(
            group_id=play.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            topics=tuple(OffsetCommitRequestTopic(name=name, partitions=tuple(each)) for name, each in topics.items()),
        ),
        version,
    )


def fetch(play: Play, member: str | None, epoch: int) -> None:
    """The offsets of a topic `t`, which need not be there, for a member in an epoch."""
    topics = (OffsetFetchRequestTopics(name=play.name("t"), partition_indexes=(0, 1)),)
    group = OffsetFetchRequestGroup(group_id=play.group_id, member_id=member, member_epoch=epoch, topics=topics)
    play.ask(OffsetFetchRequest(groups=(group,), require_stable=False), 9)


def offsets(play: Play) -> None:
    """Commits and fetches in each epoch, and what else is done with offsets."""
    play.topic("t", 2)
    play.topic("other", 1)
    play.at_once()
    topology = _stateless(play, "t")
    a, b = play.member("a", topology=topology), play.member("b", topology=topology)
    a.join()
    b.join()
    a.report()
    a.report()
    b.report()
    a.beat(rack_id="r")
    b.report()
    a.report()
    for epoch in range(-2, a.epoch + 2):
        commit(play, "a", epoch, ("t", 0), ("t", 1))
        for place in (("t", 0), ("t", 1), ("other", 0)):
            commit(play, "a", epoch, place)
    commit(play, "a", a.epoch, ("t", 0), version=8)
    commit(play, "nobody", 2, ("t", 0))
    commit(play, "", -1, ("t", 0))
    for member, epoch in (("a", a.epoch), ("a", a.epoch - 1), ("a", -1), ("nobody", 2), (None, -1), (None, 2)):
        fetch(play, member, epoch)
    for word in ("t", "other"):
        play.ask(
            OffsetDeleteRequest(
                group_id=play.group_id,
                topics=(
                    OffsetDeleteRequestTopic(
                        name=play.name(word), partitions=(OffsetDeleteRequestPartition(partition_index=0),)
                    ),
                ),
            ),
            0,
        )
    a.leave()
    b.leave()
    commit(play, "", -1, ("t", 0))
    commit(play, "", -1, ("t", 1), version=8)
    commit(play, "a", 2, ("t", 0))
    fetch(play, None, -1)
    play.ask(
        OffsetDeleteRequest(
            group_id=play.group_id,
            topics=(
                OffsetDeleteRequestTopic(
                    name=play.name("t"), partitions=(OffsetDeleteRequestPartition(partition_index=0),)
                ),
            ),
        ),
        0,
    )
    play.ask(DeleteGroupsRequest(groups_names=(play.group_id,)), 2)
    fetch(play, None, -1)


def conversions(play: Play) -> None:
    """Empty groups of offsets or of the classic protocol become streams groups, and back; others do not."""
    play.topic("t", 1)
    play.at_once()
    topology = _stateless(play, "t")
    commit(play, "", -1, ("t", 0))
    a = play.member("a", topology=topology)
    a.join()
    fetch(play, None, -1)
    a.report()
    play.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=play.group_id,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(play.name("t"),),
            topic_partitions=(),
        ),
        1,
    )
    play.ask(
        ShareGroupHeartbeatRequest(
            group_id=play.group_id, member_id="m", member_epoch=0, subscribed_topic_names=(play.name("t"),)
        ),
        1,
    )
    a.leave()
    play.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=play.group_id,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(play.name("t"),),
            topic_partitions=(),
        ),
        1,
    )
    play.ask(
        ShareGroupHeartbeatRequest(
            group_id=play.group_id, member_id="m", member_epoch=0, subscribed_topic_names=(play.name("t"),)
        ),
        1,
    )
    play.ask(_classic_join(play), 9)
    play.wait(300)
    play.describe()
    _admin(play)
    a.join()
    play.describe()
    fetch(play, None, -1)
    a.leave()


def other_kinds(play: Play) -> None:
    """Members of streams groups in groups of other kinds."""
    play.topic("t", 1)
    play.at_once()
    a = play.member("a", topology=_stateless(play, "t"))
    subscription = ConsumerGroupHeartbeatRequest(
        group_id=play.group_id,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(play.name("t"),),
        topic_partitions=(),
    )
    play.ask(subscription, 1)
    a.join()
    a.beat(2)
    a.leave()
    play.describe()
    play.ask(ConsumerGroupHeartbeatRequest(group_id=play.group_id, member_id="m", member_epoch=-1), 1)
    a.join()
    play.ask(DeleteGroupsRequest(groups_names=(play.group_id,)), 2)


def crowd(play: Play) -> None:
    """Many members of a few processes come, go and report, as chance has it; one that repeats itself."""
    chance = random.Random(7)
    for word, count in (("t", 5), ("u", 3), ("store", 5), ("store2", 3)):
        play.topic(word, count)
    play.at_once(num_standby_replicas=1)
    topology = _topology(
        part("0", play.name("t"), changelogs=(topic_info(play.name("store")),)),
        part("1", play.name("u"), changelogs=(topic_info(play.name("store2")),)),
        part("10", play.name("t"), play.name("u")),
        part("2", play.name("u")),
    )
    everybody = [
        play.member(
            f"member-{number}",
            topology=topology,
            process_id=f"process-{number % 4}",
            instance_id=f"instance-{number}" if number % 3 == 0 else None,
            endpoint=(f"host-{number % 4}", 8_000 + number) if number % 2 else None,
        )
        for number in range(8)
    ]
    present: list[Member] = []
    away: list[Member] = []
    for _ in range(220):
        what = chance.random()
        if what < 0.1 and len(present) < len(everybody):
            member = chance.choice([each for each in everybody if each not in present])
            if member in away:
                away.remove(member)
            member.join()
            present.append(member)
        elif what < 0.13 and present:
            member = chance.choice(present)
            present.remove(member)
            if member.instance_id is not None and chance.random() < 0.5:
                member.leave_for_now()
                away.append(member)
            else:
                member.leave()
        elif what < 0.16 and present:
            chance.choice(present).beat(rack_id=f"rack-{chance.randrange(3)}")
        elif what < 0.3 and present:
            chance.choice(present).beat()
        elif present:
            chance.choice(present).report()
    play.describe()


SCENES: tuple[Scene, ...] = (
    word_count,
    admin,
    refusals,
    wrong_topologies,
    missing_topics,
    copartitions,
    failing_creation,
    epochs,
    revocation_takes_too_long,
    static_members,
    statuses,
    endpoints,
    standbys,
    offsets,
    conversions,
    other_kinds,
    crowd,
)
