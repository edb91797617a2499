"""What every admin client must see of groups, on kshim as on Apache Kafka.

A client's test module derives a class from `AdminSuite`, and from the two others as far as the client goes.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from integration.admin.admin import (
    NONE,
    Admin,
    Committed,
    GroupDescription,
    GroupListing,
    MemberRemovingAdmin,
    OffsetDeletingAdmin,
)
from integration.kafka_python.client import KafkaPython
from integration.rolling.fleet import Fleet, fleet
from integration.rolling.members import Joins, Settings
from integration.support.broker import Broker, Deadline
from integration.support.client import TopicPartition
from integration.support.group_suite import SETTLE_TIMEOUT_S, new_name, new_topic

RANGE = Settings(("range",))


class AdminSuite:
    """Groups and their offsets, with live groups of the same client's consumers."""

    @pytest.fixture
    def admin(self, broker: Broker) -> Admin:
        """The client; each test module overrides this."""
        raise AssertionError("a suite must name its client")

    @pytest.fixture
    def join(self) -> Joins:
        """How consumers of the same client join; each test module overrides this."""
        raise AssertionError("a suite must name its client")

    def test_groups_are_listed_by_state_and_type(self, admin: Admin, join: Joins, broker: Broker) -> None:
        with fleet(broker) as live:
            live.start(join, RANGE)
            simple = a_simple_group(admin, live.topic)
            ours = {live.group_id, simple}
            listed = admin.list_groups()
            assert listed[live.group_id] == GroupListing("Stable", "classic", is_simple=False)
            assert listed[simple] == GroupListing("Empty", "classic", is_simple=True)
            assert ours & set(admin.list_groups(states=["Stable"])) == {live.group_id}
            assert ours & set(admin.list_groups(states=["Empty"])) == {simple}
            assert ours & set(admin.list_groups(states=["Stable", "Empty"])) == ours
            assert ours & set(admin.list_groups(types=["classic"])) == ours
            assert ours & set(admin.list_groups(types=["consumer"])) == set()
            assert ours & set(admin.list_groups(types=["classic"], states=["Empty"])) == {simple}
        assert admin.list_groups()[live.group_id] == GroupListing("Empty", "classic", is_simple=False)

    def test_a_live_group_is_described_with_what_each_member_owns(
        self, admin: Admin, join: Joins, broker: Broker
    ) -> None:
        with fleet(broker) as live:
            live.start(join, Settings(("range",), instance="instance-1", client_id="first"))
            live.start(join, Settings(("range", "roundrobin"), client_id="second"))
            described = admin.describe(live.group_id)[live.group_id]
            first, second = sorted(described.members, key=lambda member: member.client_id)
            assert (described.state, described.protocol) == ("Stable", "range")
            assert described.coordinator in (broker.bootstrap, None)
            assert [first.assignment, second.assignment] == live.owned()
            assert (first.client_id, first.group_instance_id) == ("first", "instance-1")
            assert (second.client_id, second.group_instance_id) == ("second", None)
            assert first.member_id.startswith("instance-1-")
            assert second.member_id.startswith("second-")
            assert first.host == second.host == "/127.0.0.1"

    def test_a_group_that_all_have_left_is_described_as_empty(self, admin: Admin, join: Joins, broker: Broker) -> None:
        with fleet(broker) as live:
            live.start(join, RANGE)
        described = admin.describe(live.group_id)[live.group_id]
        assert (described.state, described.protocol, described.members) == ("Empty", "", ())

    def test_offsets_of_several_groups_are_altered_and_listed(self, admin: Admin, broker: Broker) -> None:
        topic = new_topic(KafkaPython(), broker)
        first, second, unknown = new_name(), new_name(), new_name()
        zero, one, two = (TopicPartition(topic, partition) for partition in range(3))
        answer = admin.alter_offsets(first, {zero: Committed(3, "three"), one: Committed(0, "")})
        assert answer == {zero: NONE, one: NONE}
        assert admin.alter_offsets(second, {two: Committed(7, "")}) == {two: NONE}
        assert admin.list_offsets({first: None, second: None, unknown: None}) == {
            first: {zero: Committed(3, "three"), one: Committed(0, "")},
            second: {two: Committed(7, "")},
            unknown: {},
        }
        assert admin.alter_offsets(first, {zero: Committed(1, "back")}) == {zero: NONE}
        assert admin.list_offsets({first: [zero, two]}) == {first: {zero: Committed(1, "back")}}

    def test_an_offset_of_an_unknown_topic_is_refused_alone(self, admin: Admin, broker: Broker) -> None:
        group_id = new_name()
        known, unknown = TopicPartition(new_topic(KafkaPython(), broker), 0), TopicPartition(new_name(), 0)
        answer = admin.alter_offsets(group_id, {known: Committed(1, ""), unknown: Committed(1, "")})
        assert answer == {known: NONE, unknown: "UNKNOWN_TOPIC_OR_PARTITION"}
        assert admin.list_offsets({group_id: None}) == {group_id: {known: Committed(1, "")}}

    def test_offsets_of_a_group_with_members_are_not_altered(self, admin: Admin, join: Joins, broker: Broker) -> None:
        with fleet(broker) as live:
            live.start(join, RANGE)
            partition = TopicPartition(live.topic, 0)
            answer = admin.alter_offsets(live.group_id, {partition: Committed(41, "")})
            assert answer == {partition: "UNKNOWN_MEMBER_ID"}
            listed = admin.list_offsets({live.group_id: [partition]})[live.group_id]
            assert listed.get(partition) != Committed(41, "")

    def test_only_groups_without_members_are_deleted(self, admin: Admin, join: Joins, broker: Broker) -> None:
        with fleet(broker) as live:
            live.start(join, RANGE)
            simple, unknown = a_simple_group(admin, live.topic), new_name()
            owned = live.owned()
            assert admin.delete_groups(live.group_id, simple, unknown) == {
                live.group_id: "NON_EMPTY_GROUP",
                simple: NONE,
                unknown: "GROUP_ID_NOT_FOUND",
            }
            listed = admin.list_groups()
            assert live.group_id in listed
            assert simple not in listed
            assert admin.list_offsets({simple: None}) == {simple: {}}
            live.poll()
            assert live.owned() == owned
        assert admin.delete_groups(live.group_id) == {live.group_id: NONE}
        assert live.group_id not in admin.list_groups()


class OffsetDeletionSuite:
    """For clients that have OffsetDelete."""

    def test_offsets_of_a_topic_that_a_member_subscribes_to_are_kept(
        self, admin: OffsetDeletingAdmin, join: Joins, broker: Broker
    ) -> None:
        with fleet(broker) as live:
            subscribed = TopicPartition(live.topic, 0)
            other = TopicPartition(new_topic(KafkaPython(), broker), 0)
            admin.alter_offsets(live.group_id, {subscribed: Committed(0, ""), other: Committed(0, "")})
            live.start(join, RANGE)
            answer = admin.delete_offsets(live.group_id, [subscribed, other])
            assert answer == {subscribed: "GROUP_SUBSCRIBED_TO_TOPIC", other: NONE}
            assert set(committed(admin, live, [subscribed, other])) == {subscribed}
        assert admin.delete_offsets(live.group_id, [subscribed]) == {subscribed: NONE}
        assert set(committed(admin, live, [subscribed])) == set()

    def test_deleting_what_is_not_there(self, admin: OffsetDeletingAdmin, broker: Broker) -> None:
        topic = new_topic(KafkaPython(), broker)
        absent, unknown = TopicPartition(topic, 5), new_name()
        assert admin.delete_offsets(a_simple_group(admin, topic), [absent]) == {absent: NONE}
        assert admin.delete_offsets(unknown, [absent]) == {absent: "GROUP_ID_NOT_FOUND"}


class MemberRemovalSuite:
    """For clients that have LeaveGroup for members that are not their own."""

    def test_all_members_are_removed_and_join_again_as_new_ones(
        self, admin: MemberRemovingAdmin, join: Joins, broker: Broker
    ) -> None:
        with fleet(broker) as live:
            live.start(join, RANGE)
            live.start(join, RANGE)
            removed = member_ids(admin.describe(live.group_id)[live.group_id])
            admin.remove_all_members(live.group_id)
            deadline = Deadline(SETTLE_TIMEOUT_S)
            while not are_back(described := admin.describe(live.group_id)[live.group_id], live, removed):
                deadline.check(f"two new members; the group is {described}")
                live.poll()

    def test_a_static_member_is_removed_by_its_instance(
        self, admin: MemberRemovingAdmin, join: Joins, broker: Broker
    ) -> None:
        with fleet(broker) as live:
            live.start(join, RANGE)
            live.start(join, Settings(("range",), instance="instance-1"))
            live.stop(1)
            assert len(admin.describe(live.group_id)[live.group_id].members) == 2, "static members do not leave"
            assert admin.remove_instance(live.group_id, "instance-1") == NONE
            live.settle()
            assert len(admin.describe(live.group_id)[live.group_id].members) == 1
            assert admin.remove_instance(live.group_id, "instance-1") == "UNKNOWN_MEMBER_ID"


def a_simple_group(admin: Admin, topic: str) -> str:
    """A group that has committed one offset and never had a member."""
    group_id = new_name()
    admin.alter_offsets(group_id, {TopicPartition(topic, 0): Committed(1, "")})
    return group_id


def committed(admin: Admin, live: Fleet, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
    """Which of these partitions the group has offsets of."""
    return admin.list_offsets({live.group_id: partitions})[live.group_id].keys()


def member_ids(group: GroupDescription) -> set[str]:
    """The ids of its members."""
    return {member.member_id for member in group.members}


def are_back(group: GroupDescription, live: Fleet, removed: set[str]) -> bool:
    """Whether the group is Stable, its members have new ids, and they own what the broker says."""
    return (
        group.state == "Stable"
        and len(group.members) == len(live.members)
        and not member_ids(group) & removed
        and {member.assignment for member in group.members} == set(live.owned())
    )
