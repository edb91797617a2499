"""An OffsetCommit of the usual shape takes a short way: the same answers, records, offsets and deadlines as by its handler."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.request import OFFSET_COMMIT
from kshim.storage.log import LogError
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.group_requests import Committed, GroupMember, OffsetsOf, offset_fetch
from kshim_protocol.messages.join_group import JoinGroupResponse
from tests.broker.harness import a_node
from tests.broker.pair import Pair, frame_of

VERSIONS = range(8, 11)
TOPICS = {"orders": 3, "bills": 1}
NO_TOPIC = bytes(15) + b"\1"
NOBODY = GroupMember("g")


@dataclass
class Committer:
    """A member of a group, on a connection of its own."""

    pair: Pair
    member: GroupMember
    connection: int = 0

    def join(self, instance_id: str | None = None) -> None:
        """Get a generation, alone or with those who are there."""
        member = self.member._replace(group_instance_id=instance_id)
        frames = self.pair.send(frame_of(member.join(9, [("range", b"meta")]), 9), self.connection)
        reply = codec(JoinGroupResponse, 9).parse(frames[-1] or b"", 9)[0] if frames else None
        if reply is not None and reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member = member._replace(member_id=reply.member_id)
            self.join(instance_id)
        elif reply is not None and reply.error_code == ErrorCode.NONE:
            self.member = member._replace(member_id=reply.member_id, generation_id=reply.generation_id)
            self.pair.ask(self.member.sync(5, [(reply.member_id, b"all")]), 5, self.connection)

    def frame(
        self,
        offset: int,
        version: int = 8,
        *,
        topic: str = "orders",
        partitions: tuple[int, ...] = (0,),
        metadata: str | None = "",
        leader_epoch: int = -1,
        client_id: str | None = "tester",
    ) -> bytes:
        """A commit of it."""
        topics = self.pair.nodes[0].cluster.topics
        request = self.member.commit(
            version,
            [(topic, [Committed(index, offset, metadata, leader_epoch) for index in partitions])],
            topic_id=lambda name: topics.topic_id(name) or NO_TOPIC,
        )
        return frame_of(request, version, client_id, offset & 0xFF)

    def stored(self) -> object:
        """What a node that is asked says that the group has committed."""
        return self.pair.ask(offset_fetch(7, [OffsetsOf(self.member.group_id, None)]), 7, self.connection)


def a_committer(instance_id: str | None = None, connections: int = 1, metadata_max_bytes: int = 4096) -> Committer:
    config = {"offset.metadata.max.bytes": str(metadata_max_bytes)}
    committer = Committer(Pair(TOPICS, connections=connections, config=config), GroupMember("g"))
    committer.join(instance_id)
    return committer


@given(st.data())
def test_any_commits_are_answered_and_stored_as_by_the_handler(data: st.DataObject) -> None:
    most = data.draw(st.sampled_from([4096, 4096, 3, 0, -1]))
    committers = [a_committer(data.draw(st.sampled_from([None, "first"])), connections=2, metadata_max_bytes=most)]
    pair = committers[0].pair
    committers.append(Committer(pair, GroupMember("g"), connection=1))
    for _ in range(data.draw(st.integers(1, 15))):
        committer = data.draw(st.sampled_from([committers[0], committers[0], committers[1]]))
        match data.draw(st.sampled_from(["commit"] * 8 + ["join", "leave", "time", "topics"])):
            case "join":
                committer.join(data.draw(st.sampled_from([None, "first", "second"])))
            case "leave":
                pair.send(frame_of(committer.member.leave(5), 5), committer.connection)
            case "time":
                pair.pass_ms(data.draw(st.sampled_from([1, 9_000, 50_000])))
            case "topics":
                for node in pair.nodes:
                    node.topic(f"new-{node.cluster.topics.version}")
            case _:
                frame = committer.frame(
                    data.draw(st.sampled_from([0, 1, 127, 1 << 40, -1])),
                    data.draw(st.sampled_from([8, 8, *VERSIONS])),
                    topic=data.draw(st.sampled_from(["orders", "orders", "orders", "bills", "none", ""])),
                    partitions=data.draw(st.sampled_from([(0,), (0,), (0,), (1,), (3,), (-1,), (), (0, 1), (0, 0)])),
                    metadata=data.draw(st.sampled_from(["", "", "", None, "some"])),
                    leader_epoch=data.draw(st.sampled_from([-1, 0, 7])),
                    client_id=data.draw(st.sampled_from(["tester", "tester", "", None])),
                )
                if data.draw(st.integers(0, 7)) == 0:
                    changed = bytearray(frame)
                    at = data.draw(st.integers(8, len(frame) - 1))
                    changed[at] = data.draw(st.sampled_from([0, 1, 2, 0x80, 0xFF, changed[at] ^ 1]))
                    frame = bytes(changed)[: data.draw(st.sampled_from([len(frame), len(frame), len(frame) - 1]))]
                for _ in range(data.draw(st.integers(1, 2))):
                    pair.send(frame, data.draw(st.sampled_from([committer.connection, committer.connection, 0])))
    committers[0].stored()
    pair.assert_same_logs()


@pytest.mark.parametrize("version", VERSIONS)
def test_commits_that_differ_in_their_position_take_the_short_way(version: int) -> None:
    committer = a_committer()
    pair = committer.pair
    pair.send(committer.frame(0, version))
    for offset in range(1, 5):
        frame = committer.frame(offset, version, leader_epoch=offset)
        assert pair.takes_short_way(frame)
        pair.nodes[1].node.route(frame, pair.clients()[1], pair.nodes[1].now, 0)
    committer.stored()
    pair.assert_same_logs()


@pytest.mark.parametrize(
    "what",
    [{"metadata": "some"}, {"partitions": (0, 1)}, {"partitions": (3,)}, {"topic": "none"}, {"partitions": ()}],
    ids=str,
)
@pytest.mark.parametrize("version", VERSIONS)
def test_other_commits_are_left_to_the_handler(version: int, what: dict[str, object]) -> None:
    committer = a_committer()
    committer.pair.send(committer.frame(0, version))
    assert not committer.pair.takes_short_way(committer.frame(1, version, **what))  # type: ignore[arg-type]


def test_tags_are_left_to_the_handler() -> None:
    committer = a_committer()
    frame = committer.frame(5)
    tagged = frame[:-3] + b"\1\x09\x10" + bytes(11) + b"\1\0\0\0" + b"\0\0"
    assert committer.pair.send(tagged) == committer.pair.send(frame)
    assert not committer.pair.takes_short_way(tagged)


def test_what_exists_is_looked_up_again_once_topics_have_changed() -> None:
    committer = a_committer()
    pair = committer.pair
    frame = committer.frame(1, 10)
    pair.send(frame)
    for node in pair.nodes:
        topic = node.cluster.topics.named("orders")
        assert topic is not None
        node.cluster.delete_topic(topic, node.now)
    assert not pair.takes_short_way(frame)
    pair.send(frame)
    for node in pair.nodes:
        node.topic("orders", 1)
    pair.send(committer.frame(2, 8))
    assert pair.takes_short_way(committer.frame(3, 8))


def test_who_may_not_commit_is_told_so_by_the_handler() -> None:
    committer = a_committer()
    frame = committer.frame(1)
    committer.pair.send(frame)
    committer.pair.pass_ms(60_000)  # its session is over
    assert not committer.pair.takes_short_way(frame)
    committer.pair.send(frame)


def test_a_session_goes_on_from_each() -> None:
    committer = a_committer()
    for offset in range(5):
        committer.pair.send(committer.frame(offset))
        committer.pair.pass_ms(9_999)
    assert committer.pair.takes_short_way(committer.frame(9))


def test_a_shard_that_is_not_there_any_more_is_not_asked() -> None:
    committer = a_committer()
    frame = committer.frame(1)
    committer.pair.send(frame)
    committer.pair.unload("g")
    assert not committer.pair.takes_short_way(frame)
    committer.pair.send(frame)


@pytest.mark.parametrize(
    "error",
    [LogError("the disk is full"), KafkaError(ErrorCode.MESSAGE_TOO_LARGE), ValueError("a defect")],
    ids=["disk", "size", "defect"],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_cannot_be_appended_is_answered_and_reported_as_by_the_handler(version: int, error: Exception) -> None:
    committer = a_committer()
    pair = committer.pair
    pair.send(committer.frame(1, version))

    def fail(batch: bytes) -> int:
        raise error

    for node in pair.nodes:
        index = node.cluster.coordinators["__consumer_offsets"].coordinator.partition_for("g")
        node.log("__consumer_offsets", index).append = fail  # type: ignore[method-assign]
    pair.send(committer.frame(2, version))
    assert [len(node.defects) for node in pair.nodes] == [int(not isinstance(error, KafkaError))] * 2
    committer.stored()


def test_answers_that_wait_until_they_are_safe_are_left_to_the_handler() -> None:
    committer = a_committer()
    committer.pair.send(committer.frame(1))
    committer.pair.nodes[0].cluster.durability.replies_wait = True
    assert not committer.pair.takes_short_way(committer.frame(2))


def test_a_limit_that_refuses_even_no_metadata_holds_for_these_too() -> None:
    committer = a_committer(metadata_max_bytes=-1)
    committer.pair.send(committer.frame(1))
    assert not committer.pair.takes_short_way(committer.frame(2))


def test_who_hears_of_appends_hears_of_these_too() -> None:
    committer = a_committer()
    committer.pair.send(committer.frame(1))
    cluster = committer.pair.nodes[0].cluster
    cluster.steps.on_appended.append(lambda step: None)
    assert not committer.pair.takes_short_way(committer.frame(2))
    cluster.steps.on_appended.clear()
    assert committer.pair.takes_short_way(committer.frame(3))
    cluster.partitions.before_append = lambda partition: None
    assert not committer.pair.takes_short_way(committer.frame(4))


def test_long_requests_are_not_kept() -> None:
    pair = Pair(TOPICS)
    committer = Committer(pair, NOBODY._replace(group_id="g" * 2_000))
    pair.send(committer.frame(1))
    assert pair.clients()[0].client.last_commit is None


def test_only_a_node_that_leads_all_groups_has_it_and_only_where_nobody_wants_to_hear_of_requests() -> None:
    node = a_node().node
    assert node.resolve(OFFSET_COMMIT, 9).usual is not None  # type: ignore[union-attr]
    assert node.resolve(OFFSET_COMMIT, 7).usual is None  # type: ignore[union-attr]
    node.intercept(lambda api, handler: handler)
    assert node.resolve(OFFSET_COMMIT, 9).usual is None  # type: ignore[union-attr]
    assert a_node(node_count=2).node.resolve(OFFSET_COMMIT, 9).usual is None  # type: ignore[union-attr]
