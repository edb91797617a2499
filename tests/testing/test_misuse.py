"""Mistakes in calls of `kshim.testing`: each is an error at once, whose sentence says how to do it right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from kshim.testing import Kshim, Record


@pytest.fixture(scope="module")
def kshim() -> Iterator[Kshim]:
    with Kshim(2, topics={"orders": 2}) as found:
        yield found


@pytest.mark.parametrize(
    ("arguments", "error", "expected"),
    [
        (
            {"users": {"ann": "x"}, "acls": {"anne": ["READ topic:orders"]}},
            ValueError,
            "acls: there is no user anne; users has ann, and '\\*' is everybody",
        ),
        (
            {"acls": {"ann": ["READ topic:orders"]}},
            ValueError,
            r"there is no user ann: give passwords with users={'ann': \.\.\.}; without users every client is ANONYMOUS",
        ),
        ({"acls": "READ topic:orders"}, TypeError, "acls must map users to rules, such as {'ann': "),
        ({"acls": {"*": None}}, TypeError, r"acls: \* must have a list of rules, such as \['READ topic:orders'\]"),
        ({"acls": {"*": "READ topic:a, READ topic:b"}}, ValueError, "is no rule: 'OPERATION TYPE:NAME'"),
        ({"acls": {5: []}}, TypeError, "acls: a user must be a string, not 5"),
    ],
)
def test_rules_that_would_have_no_effect_are_refused(
    arguments: dict[str, Any], error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        Kshim(**arguments)


def test_rules_may_be_for_users_everybody_anonymous_clients_and_principals() -> None:
    Kshim(users={"ann": "x"}, acls={"ann": "READ topic:orders", "*": ["DESCRIBE cluster"], "User:CN=ben": "super"})
    Kshim(acls={"ANONYMOUS": ["READ topic:orders"]})


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        (
            lambda kshim: kshim.produce("orders", Record("tea"), key="ann"),
            TypeError,
            r"key would apply to plain values only, and a Record has its own: Record\(value, key=\.\.\.\)",
        ),
        (
            lambda kshim: kshim.produce("orders", "tea", Record("coffee"), partition=0, headers={"a": b"1"}),
            TypeError,
            "partition and headers would apply to plain values only",
        ),
        (
            lambda kshim: kshim.produce("orders"),
            TypeError,
            r"at least one value or Record: kshim\.produce\(\"orders\", ",
        ),
        (lambda kshim: kshim.produce(), TypeError, r"^Kshim\.produce\(\) missing 1 required positional argument"),
        (lambda kshim: kshim.as_async().move(), TypeError, r"^Kshim\.move\(\) missing"),
        (lambda kshim: kshim.group("billing").expel(), TypeError, r"^Group\.expel\(\) missing"),
        (
            lambda kshim: kshim.start_node(1),
            ValueError,
            "broker 1 is live: stop it first, with stop_node or kill_node, or use restart_node",
        ),
        (lambda kshim: kshim.start_node(9), LookupError, "9"),
        (
            lambda kshim: kshim.faults.on("Heartbeat").once(),
            AttributeError,
            r'faults\.on\("Heartbeat"\) says not what happens: .* before \.once\(\)',
        ),
        (
            lambda kshim: kshim.faults.on("Heartbeat").eror("NOT_COORDINATOR"),
            AttributeError,
            "there is no action eror; there are error, delay, hang, .*did you mean error",
        ),
        (
            lambda kshim: kshim.faults.on("Heartbeat").hang().delay(1),
            AttributeError,
            r"does one thing, hang, .*end it with a trigger",
        ),
        (
            lambda kshim: kshim.faults.on("Heartbeat").hang().onec(),
            AttributeError,
            "there is no trigger onec; there are once, times, nth, always, probability; did you mean once",
        ),
        (
            lambda kshim: kshim.faults.on("Heartbeat").hang().once().times(2),
            AttributeError,
            "in force already, once: a rule has one trigger",
        ),
        (
            lambda kshim: kshim.faults.on("Heartbeat", groups="billing"),
            TypeError,
            "on has no groups; there are version, group, client_id, .*nth, name; did you mean group",
        ),
    ],
)
def test_a_call_that_is_not_meant_so_says_how_it_is_written(
    kshim: Kshim, call: Callable[[Any], object], error: type[Exception], expected: str
) -> None:
    try:
        with pytest.raises(error, match=expected):
            call(kshim)
    finally:
        kshim.faults.clear()


def test_a_recording_names_the_file_that_is_there_already(tmp_path: Path) -> None:
    path = tmp_path / "session.rec"
    path.write_text("anything")
    with (
        pytest.raises(FileExistsError, match=r"new file, and this one is not empty: '.*session\.rec'"),
        Kshim(record=path),
    ):
        pass


def test_a_wait_that_is_not_awaited_is_a_warning_that_names_it() -> None:
    async def forget() -> None:
        async with Kshim() as kshim:
            kshim.group("billing").wait_empty()  # type: ignore[unused-coroutine]

    with pytest.warns(RuntimeWarning, match=r"coroutine 'AsyncGroup\.wait_empty' was never awaited"):
        asyncio.run(forget())


def test_a_wait_that_blocks_a_loop_says_so_when_it_is_over() -> None:
    async def block() -> None:
        with Kshim() as kshim:
            kshim.group("billing").wait_stable(timeout=0.01)

    runs: dict[str, Callable[[], object]] = {"asyncio": lambda: asyncio.run(block()), "trio": lambda: trio.run(block)}
    for name, run in runs.items():
        with pytest.raises(TimeoutError) as failure:
            run()
        (note,) = failure.value.__notes__
        assert note.startswith(f"This wait has blocked the {name} loop of its thread")
    with Kshim() as kshim, pytest.raises(TimeoutError) as failure:
        kshim.group("billing").wait_stable(timeout=0.01)
    assert not hasattr(failure.value, "__notes__")


def test_a_wait_in_the_loop_of_the_brokers_is_an_error_and_no_deadlock(kshim: Kshim) -> None:
    waits: list[Callable[[], object]] = [
        lambda: kshim.group("billing").wait_stable(timeout=5),
        lambda: kshim.wait_records("orders", 9, timeout=5),
    ]
    for wait in waits:
        with pytest.raises(RuntimeError, match="a wait in the loop of the brokers would never end"):
            kshim.call(wait)
    assert kshim.call(lambda: kshim.group("billing").wait_empty()).state == "Dead"
