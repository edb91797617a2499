"""What clients of the new protocol do, as kshim's events show it: seen in a play of real ones."""

from __future__ import annotations

from kshim.explain.facts import Kind, Subscription
from tests.explain.story import MINUTE, SECOND, Story, activity

HERE = "127.0.0.1"
SESSION_MS = 9 * SECOND
STOP_MS = 10 * MINUTE
LOAD_MS = STOP_MS + 10 * SECOND


def id_of(number: int) -> str:
    """A member id as franz-go makes it."""
    return f"{number:022d}=="


def statics(*clients: str) -> Story:
    """Static members that join one after the other."""
    story = Story(session_ms=SESSION_MS)
    for number, client in enumerate(clients):
        story.joins(2 * SECOND * number, client, host=HERE, static=True, connection=client, member_id=id_of(number))
    return story


def close(story: Story, at_ms: int, client: str) -> None:
    """A static member of franz-go that is closed: it ends its fetches and does not leave, so that its session expires."""
    seen = activity(
        connection=client, last_request_ms=at_ms, closed_ms=at_ms + 3, closed_by="client", has_fetch_session=False
    )
    story.expires(at_ms + SESSION_MS, client, activity=seen)


def come(story: Story, at_ms: int, client: str, number: int, assignor: str = "range") -> None:
    story.joins(
        at_ms,
        client,
        host=HERE,
        static=True,
        connection=f"{client}-{number}",
        member_id=id_of(number),
        assignor=assignor,
    )


def causes_of(story: Story) -> list[tuple[str, tuple[str, ...]]]:
    """All but the start."""
    return [(str(each.cause), each.clients) for each in story.incidents(until_ms=30 * MINUTE)][1:]


def test_a_static_member_that_is_stopped_and_added_again_later_has_no_part_in_the_deploys_between() -> None:
    story = statics("a", "b", "c")
    close(story, 2 * MINUTE, "b")
    for at_ms, assignor, numbers in ((3 * MINUTE, "range", (3, 4)), (4 * MINUTE, "uniform", (5, 6))):
        for client, number in zip("ac", numbers, strict=True):
            close(story, at_ms, client)
            come(story, at_ms + SESSION_MS + 2 * SECOND, client, number, assignor)
    come(story, 5 * MINUTE, "b", 7, "uniform")
    assert causes_of(story) == [
        ("static_stopped", ("b",)),
        ("deploy", ("a", "c")),
        ("assignor_changed", ("a", "c")),
        ("scale_up", ("b",)),
    ]


def test_members_that_are_closed_again_and_again_do_not_crash() -> None:
    story = statics("a", "b")
    for deploy in range(3):
        at_ms = 2 * MINUTE + deploy * 30 * SECOND
        for number, client in enumerate("ab"):
            close(story, at_ms, client)
            come(story, at_ms + SESSION_MS + 2 * SECOND, client, 2 * deploy + number + 2)
    assert causes_of(story) == [("deploy", ("a", "b"))] * 3


def test_static_members_that_ask_anew_when_the_broker_is_back_and_are_refused_suffer_from_the_restart() -> None:
    story = statics("a", "b", "c")
    story.stops(STOP_MS).loads(LOAD_MS)
    for number, client in enumerate("abc"):
        asked_ms = LOAD_MS + (1 + number) * SECOND
        member = story.member(client)
        story._add(asked_ms, "billing", Kind.REFUSED, member, reason="unreleased_instance_id")
        seen = activity(connection=f"{client}-new", last_request_ms=asked_ms + 5 * SECOND)
        story.expires(LOAD_MS + SESSION_MS, client, activity=seen, completes=False)
        come(story, LOAD_MS + SESSION_MS + (1 + number) * SECOND, client, number)
    assert [cause for cause, _ in causes_of(story)] == ["broker_restarted"]


def test_two_processes_take_an_instance_id_from_each_other_twice_if_there_is_a_minute_between() -> None:
    for pause_ms, count in ((30 * SECOND, 1), (90 * SECOND, 2)):
        story = statics("a", "b")
        twin = story.member("a")._replace(member_id=id_of(9))
        for at_ms in (2 * MINUTE, 2 * MINUTE + 5 * SECOND, 2 * MINUTE + 5 * SECOND + pause_ms):
            story._add(at_ms, "billing", Kind.REFUSED, twin, reason="unreleased_instance_id")
        assert causes_of(story) == [("duplicate_instance", ("a",))] * count


def test_topics_that_a_client_does_not_know_yet_or_any_more_are_no_change_of_its_subscription() -> None:
    story = Story(session_ms=SESSION_MS)
    for number, client in enumerate("ab"):
        at_ms = 2 * SECOND * number
        story.joins(at_ms, client, host=HERE, topics=(), member_id=f"{number:022d}")
        found = Subscription(("t",), ("t",), ())
        story.requests(at_ms + 200, client, reason="subscription_changed", subscription=found)
    for at_ms, names, added, removed in (
        (5 * MINUTE, (), (), ("t",)),
        (5 * MINUTE + 300, ("t",), ("t",), ()),
        (8 * MINUTE, ("u",), ("u",), ("t",)),
    ):
        subscription = Subscription(names, added, removed)
        story.requests(at_ms, "a", reason="subscription_changed", subscription=subscription)
    story.requests(12 * MINUTE, "b", reason="subscription_changed", subscription=Subscription(()))
    assert causes_of(story) == [("subscription_changed", (f"{client}@{HERE}",)) for client in "ab"]


def test_who_had_just_joined_when_the_broker_was_stopped_is_a_member_still_and_has_no_successor() -> None:
    story = Story(session_ms=SESSION_MS)
    for number in range(2):
        story.joins(2 * SECOND * number, "a", host=HERE, connection=f"{number}", member_id=f"{number:022d}")
    story.joins(STOP_MS - SECOND, "a", host=HERE, connection="2", member_id=f"{2:022d}", completes=False)
    story.stops(STOP_MS).loads(LOAD_MS)
    story.joins(LOAD_MS + MINUTE, "a", host=HERE, connection="3", member_id=f"{3:022d}")
    assert [cause for cause, _ in causes_of(story)] == ["scale_up", "broker_restarted", "scale_up"]


def test_a_client_that_crashes_again_after_a_long_quiet_time_is_in_another_loop() -> None:
    story = Story(session_ms=SESSION_MS)
    for number, client in enumerate("ab"):
        story.joins(2 * SECOND * number, client, host=HERE, connection=client)
    for loop in range(2):
        for crash in range(3):
            at_ms = 2 * MINUTE + loop * 4 * MINUTE + crash * 12 * SECOND
            connection = "a" if loop == crash == 0 else f"a-{3 * loop + crash}"
            seen = activity(connection=connection, last_request_ms=at_ms, closed_ms=at_ms + 200, closed_by="client")
            story.joins(at_ms + 3 * SECOND, "a", host=HERE, connection=f"a-{3 * loop + crash + 1}", completes=False)
            story.expires(at_ms + SESSION_MS, "a", activity=seen)
    assert [cause for cause, _ in causes_of(story)] == ["crash_loop", "crash_loop"]


def test_a_member_whose_client_keeps_its_id_was_killed_if_another_one_comes_when_the_broker_is_back() -> None:
    for number, expected in ((0, ["broker_restarted"]), (9, ["broker_restarted", "killed"])):
        story = Story(session_ms=SESSION_MS)
        for place, client in enumerate("ab"):
            story.joins(2 * SECOND * place, client, host=HERE, connection=client, member_id=f"{place:022d}")
        story.stops(STOP_MS).loads(LOAD_MS)
        back_ms = LOAD_MS + (2 * SECOND if number else SESSION_MS + SECOND)
        story.joins(back_ms, "a", host=HERE, connection="a-1", member_id=f"{number:022d}", completes=False)
        story.expires(LOAD_MS + SESSION_MS, "a")
        assert [cause for cause, _ in causes_of(story)] == expected


def test_who_is_gone_within_a_session_of_its_start_again_and_again_begins_no_deploy() -> None:
    # Records do not tell how it was gone, so that nothing may have been heard of it since it had joined.
    story = statics("a", "b")
    story.joins(10 * SECOND, "c", host=HERE).leaves(MINUTE, "c", reason="unseen")
    for at_ms in range(MINUTE + 5 * SECOND, MINUTE + 20 * SECOND, 6 * SECOND):
        story.joins(at_ms, "c", host=HERE).leaves(at_ms + 4 * SECOND, "c", reason="unseen")
    story.joins(MINUTE + 23 * SECOND, "c", host=HERE)
    assert [cause for cause, _ in causes_of(story)][-1] == "crash_loop"
