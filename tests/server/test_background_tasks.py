"""How a server does what is not answering. Its clocks stand still unless a test moves them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio
import trio.testing

from kshim.scheduling.background_tasks import BackgroundTask
from kshim.server.server import LoopName
from tests.server.harness import ObeyingRouter, framed, serving

pytestmark = pytest.mark.trio


async def moments(count: int = 20) -> None:
    for _ in range(count):
        await trio.testing.wait_all_tasks_blocked()


def work(*, ms: int) -> None:
    """Keep the loop from anything else."""
    end_s = trio.current_time() + ms / 1_000
    while trio.current_time() < end_s:
        pass


def slices(done: list[int], count: int) -> BackgroundTask:
    for number in range(count):
        done.append(number)
        yield None


async def until(condition: Callable[[], object]) -> None:
    """Threads end in their own time; a test's patience is `serving`'s."""
    while not condition():
        await trio.lowlevel.checkpoint()


async def test_a_task_runs_to_its_end_at_once_while_nobody_asks(loop: LoopName) -> None:
    done: list[int] = []
    async with serving(router := ObeyingRouter(), loop=loop):
        router.background_tasks.add(slices(done, 100))
        await until(lambda: len(done) == 100)


async def test_tasks_added_before_the_server_starts_are_done(loop: LoopName) -> None:
    done: list[int] = []
    router = ObeyingRouter()
    router.background_tasks.add(slices(done, 3))
    async with serving(router, loop=loop):
        await until(lambda: done == [0, 1, 2])


async def test_an_ordinary_task_works_while_jobs_of_earlier_ones_are_in_threads(loop: LoopName) -> None:
    done: list[int] = []
    may_end = threading.Event()

    def waiting() -> BackgroundTask:
        yield lambda: may_end.wait(20)
        done.append(100)

    async with serving(router := ObeyingRouter(), loop=loop):
        router.background_tasks.add(waiting())
        router.background_tasks.add(slices(done, 3))
        await until(lambda: len(done) == 3)
        may_end.set()
        await until(lambda: len(done) == 4)
    assert done == [0, 1, 2, 100]


async def test_urgent_tasks_run_side_by_side_and_do_not_wait_for_an_ordinary_one(loop: LoopName) -> None:
    meeting = threading.Barrier(3, timeout=20)
    met: list[int] = []

    def task() -> BackgroundTask:
        met.append((yield meeting.wait))

    async with serving(router := ObeyingRouter(), loop=loop):
        router.background_tasks.add(task())
        router.background_tasks.add(task(), urgent=True)
        router.background_tasks.add(task(), urgent=True)
        await until(lambda: len(met) == 3)
    assert sorted(met) == [0, 1, 2]


async def test_jobs_run_in_threads_and_hand_back_results_and_errors(loop: LoopName) -> None:
    seen: list[object] = []

    def fail() -> None:
        raise OSError("disk on fire")

    def task() -> BackgroundTask:
        seen.append((yield threading.get_ident) != threading.get_ident())
        try:
            yield fail
        except OSError as error:
            seen.append(str(error))
        seen.append((yield None))

    async with serving(router := ObeyingRouter(), loop=loop) as running:
        router.background_tasks.add(task())
        await until(lambda: len(seen) == 3)
    assert seen == [True, "disk on fire", None]
    assert not running.log.failures


async def test_a_task_that_raises_is_reported_and_the_next_one_runs(loop: LoopName) -> None:
    done: list[int] = []

    def broken() -> BackgroundTask:
        yield None
        raise RuntimeError("a defect")

    async with serving(router := ObeyingRouter(), loop=loop) as running:
        router.background_tasks.add(broken())
        router.background_tasks.add(broken(), urgent=True)
        router.background_tasks.add(slices(done, 1))
        await until(lambda: done and len(running.log.failures) == 2)
    assert {str(error) for _, error in running.log.failures} == {"a defect"}
    assert running.log.failures[0][0] == "doing the task broken"


@pytest.mark.parametrize("count", [1, 3])
async def test_while_requests_come_ordinary_tasks_pause_after_each_slice(loop: LoopName, count: int) -> None:
    done: list[int] = []
    asked = 0

    def task() -> BackgroundTask:
        for number in range(20):
            done.append(number)
            client.send(framed(b"echo"))  # arrives before the next slice
            work(ms=3)
            yield None

    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as client:
        assert await client.ask(b"echo") == b"echo"
        for _ in range(count):
            router.background_tasks.add(task())
        while asked < 20 * count:
            before = len(done)
            assert await client.receive_frame() == b"echo"
            asked += 1
            await moments()
            assert len(done) <= before + 1
            running.real_clock.advance(10**6)  # a slice that a busy machine interrupts is paid for by a long pause
            await moments()
    assert len(done) == 20 * count


async def test_what_a_slice_sets_off_is_noticed(loop: LoopName) -> None:
    def task() -> BackgroundTask:
        router.answer(b"park")
        router.timers[b"park again"] = running.clock.now().mono_ms + 10
        yield None

    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as client:
        client.send(framed(b"park") + framed(b"park again"))
        await router.until(lambda: b"park" in router.parked)
        router.background_tasks.add(task())
        assert await client.receive_frame() == b"park"
        await router.until(lambda: b"park again" in router.parked)
        running.clock.advance(10)
        assert await client.receive_frame() == b"park again"


async def test_a_graceful_end_waits_for_urgent_tasks_and_closes_others(loop: LoopName) -> None:
    told: list[str] = []
    may_end = threading.Event()

    def urgent() -> BackgroundTask:
        yield lambda: may_end.wait(20)
        yield None
        told.append("synced")

    def ordinary() -> BackgroundTask:
        try:
            while True:
                yield None
        finally:
            told.append("closed")

    async with serving(router := ObeyingRouter(), loop=loop) as running:
        router.background_tasks.add(urgent(), urgent=True)
        router.background_tasks.add(ordinary())
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        running.server.stop()
        await until(lambda: told == ["closed"])
        may_end.set()
        await running.is_over.wait()
        assert told == ["closed", "synced"]


async def test_a_graceful_end_waits_for_the_job_of_a_task_that_it_closes(loop: LoopName) -> None:
    told: list[str] = []
    may_end = threading.Event()
    has_begun = threading.Event()

    def job() -> None:
        has_begun.set()
        may_end.wait(20)
        told.append("written")

    def task() -> BackgroundTask:
        try:
            yield job
            yield None
            told.append("went on")
        finally:
            told.append("closed")

    async with serving(router := ObeyingRouter(), loop=loop) as running:
        router.background_tasks.add(task())
        await until(has_begun.is_set)
        running.server.stop()
        await until(lambda: not router.parked)
        may_end.set()
        await running.is_over.wait()
        assert told[:1] == ["written"]
        assert told[-1] == "closed"
