"""Reading shards of a coordinator when something goes wrong: the shard is read again, and no other one waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from kshim.broker.coordinator_loader import RETRY_PAUSE_MS, CoordinatorLoader
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC, Step
from kshim.storage.log import LogError
from kshim.storage.memory_log import MemoryLog
from kshim.storage.stores import MemoryStorage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from tests.broker.harness import NodeUnderTest, a_node

GROUP = "g"


class UnreadableLog(MemoryLog):
    """A log that cannot be read as long as `is_unreadable`."""

    is_unreadable = False

    def runs(self, offset: int | None = None, max_bytes: int = 1 << 16) -> Iterator[bytes]:
        if self.is_unreadable:
            raise LogError("the disk does not answer")
        return super().runs(offset, max_bytes)


class UnreadableStorage(MemoryStorage):
    """Its logs can be made unreadable."""

    def open_log(self, topic: str, partition: int) -> UnreadableLog:
        return UnreadableLog()


def error_of(node: NodeUnderTest) -> ErrorCode:
    """What a request for the group is answered."""
    return ErrorCode(node.client().ask(DescribeGroupsRequest(groups=(GROUP,)), 5).groups[0].error_code)


def test_a_shard_that_was_loaded_before_its_retry_is_left_alone_by_that() -> None:
    node = a_node(storage=UnreadableStorage(), tolerates_defects=True)
    groups = node.cluster.groups
    groups.topic()
    home = groups.coordinator.partition_for(GROUP)
    assert error_of(node) is ErrorCode.NONE
    log = node.log(OFFSETS_TOPIC, home)
    assert isinstance(log, UnreadableLog)
    log.is_unreadable = True
    groups.reload(home)
    node.run_background_tasks()
    assert error_of(node) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.is_unreadable = False
    groups.reload(home)
    node.run_background_tasks()
    assert error_of(node) is ErrorCode.NONE
    node.pass_ms(RETRY_PAUSE_MS)
    assert error_of(node) is ErrorCode.NONE
    assert len(node.defects) == 1


def test_a_log_that_comes_back_while_its_shard_is_retried_is_read_once() -> None:
    node = a_node(storage=UnreadableStorage(), tolerates_defects=True)
    groups = node.cluster.groups
    groups.topic()
    home = groups.coordinator.partition_for(GROUP)
    assert error_of(node) is ErrorCode.NONE
    log = node.log(OFFSETS_TOPIC, home)
    assert isinstance(log, UnreadableLog)
    log.is_unreadable = True
    groups.reload(home)
    node.run_background_tasks()
    node.pass_ms(RETRY_PAUSE_MS)  # begins to load the shard
    log.is_unreadable = False
    groups.loader.load(home)
    node.run_background_tasks()
    assert error_of(node) is ErrorCode.NONE
    assert len(node.defects) == 1


def test_who_waits_for_a_shard_is_called_when_it_was_read_or_given_up() -> None:
    node = a_node(storage=UnreadableStorage(), tolerates_defects=True)
    groups = node.cluster.groups
    groups.topic()
    home = groups.coordinator.partition_for(GROUP)
    assert error_of(node) is ErrorCode.NONE
    log = node.log(OFFSETS_TOPIC, home)
    assert isinstance(log, UnreadableLog)
    called: list[str] = []
    groups.loader.when_read({home}, lambda: called.append("at once"))
    assert called == ["at once"]
    groups.reload(home)
    groups.loader.when_read({home, home + 1}, lambda: called.append("read"))
    groups.loader.when_read({home}, lambda: called.append("read, too"))
    groups.reload(home)
    node.pass_ms(0)
    assert called == ["at once"]
    node.run_background_tasks()
    assert called == ["at once", "read", "read, too"]
    log.is_unreadable = True
    groups.reload(home)
    groups.loader.when_read({home}, lambda: called.append("given up"))
    node.run_background_tasks()
    node.pass_ms(0)
    assert called[3:] == ["given up"]


def test_a_shard_whose_topic_does_not_exist_yet_is_empty() -> None:
    node = a_node()
    assert error_of(node) is ErrorCode.NONE
    assert OFFSETS_TOPIC not in node.cluster.topics
    groups = node.cluster.groups
    groups.reload(groups.coordinator.partition_for(GROUP))
    assert error_of(node) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.run_background_tasks()
    assert error_of(node) is ErrorCode.NONE


def test_a_shard_that_cannot_be_activated_is_read_again_and_the_others_do_not_wait_for_it() -> None:
    node = a_node()
    node.cluster.groups.topic()
    coordinator = GroupCoordinator(GroupConfig(), topics=node.cluster.topics, new_id=lambda: "id")
    reported: list[BaseException] = []

    def apply(step: Step) -> None:
        if 3 in step.partitions and not reported:
            raise AssertionError("a defect after the load")

    loader = CoordinatorLoader(
        OFFSETS_TOPIC,
        (),
        coordinator=lambda: coordinator,
        made_coordinator=lambda: coordinator,
        topics=node.cluster.topics,
        apply=apply,
        background_tasks=node.cluster.background_tasks,
        timers=node.cluster.timers,
        report=lambda error, _where: reported.append(error),
        on_corrupt=lambda error: None,
    )
    loader.begin(lambda: node.now)
    loader.coordinator_made(coordinator)
    node.run_background_tasks()
    assert len(reported) == 1
    assert [index for index in range(50) if not coordinator.has_shard(index)] == [3]
    assert not any(loader.is_pending(index) for index in range(50))
    assert coordinator.step.at_work != 3
    node.pass_ms(RETRY_PAUSE_MS)
    node.run_background_tasks()
    assert coordinator.has_shard(3)
    assert not loader.is_pending(3)
