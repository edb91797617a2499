"""Whatever happens to a group, and however little is known of it, it is explained: nothing raises, and all is told once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kshim.explain.facts import Kind, Subscription, TopicChange
from tests.explain.story import SECOND, Story, activity

CLIENTS = ("a-1", "a-2", "b", "rdkafka")
IDS = tuple(f"{number:022d}{padding}" for number in range(6) for padding in ("", "=="))
TIMES_MS = st.sampled_from((0, 1, 300, SECOND, 4 * SECOND, 11 * SECOND, 70 * SECOND, 400 * SECOND))

Step = tuple[str, int, str, str, bool, str | None, str]
STEP = st.tuples(
    st.sampled_from(
        ("join", "leave", "expire", "remove", "replace", "request", "load", "stop", "refuse", "bar", "complete")
    ),
    TIMES_MS,
    st.sampled_from(CLIENTS),
    st.sampled_from(("billing", "orders")),
    st.booleans(),
    st.sampled_from((None, "unseen", "being closed", "consumer poll timeout has expired.")),
    st.sampled_from(IDS),
)
ROUNDS = st.tuples(st.lists(STEP, min_size=1, max_size=4), st.integers(1, 5)).map(lambda drawn: drawn[0] * drawn[1])
"""What happens again and again, as in loops and deploys."""
STEPS = st.lists(ROUNDS, max_size=8).map(lambda rounds: [step for each in rounds for step in each])


def told(steps: list[Step]) -> Story:
    """The story of these steps, as far as they are possible."""
    story = Story(session_ms=10 * SECOND)
    at_ms = 0
    for what, after_ms, client, group, flag, word, member_id in steps:
        at_ms += after_ms
        members = story._members.get((group, client), [])
        seen = activity(
            connection=member_id,
            last_request_ms=max(at_ms - 5 * SECOND, 0),
            closed_ms=at_ms - SECOND if flag else None,
            closed_by="client" if flag else None,
            has_fetch_session=None if word is None else flag,
        )
        known = seen if word != "unseen" else None
        match what:
            case "join":
                story.joins(at_ms, client, group=group, static=flag, says=word, member_id=member_id, completes=flag)
            case "leave" if members:
                reason = "unseen" if word == "unseen" else ""
                story.leaves(at_ms, client, group=group, reason=reason, says=word, activity=known, completes=flag)
            case "expire" if members:
                story.expires(at_ms, client, group=group, activity=known, completes=flag)
            case "remove" if members:
                story.is_removed(at_ms, client, group=group)
            case "replace" if members and members[0].instance_id:
                story.replaces(at_ms, client, group=group, activity=known, says=word)
            case "request" if members and group == "billing":
                subscription = Subscription(("t",), ("t",) if flag else (), ()) if word else None
                changes = None if word == "unseen" else (TopicChange("t", int(flag), 2, at_ms),) if flag else ()
                story.requests(at_ms, client, says=word, subscription=subscription, topic_changes=changes)
            case "load":
                story.loads(at_ms, group=group)
            case "stop":
                story.stops(at_ms, group=group)
            case "refuse" if members and members[0].instance_id:
                asking = members[0] if flag else members[0]._replace(member_id=member_id)
                story._add(at_ms, group, Kind.REFUSED, asking, reason="unreleased_instance_id")
            case "bar" if group == "billing":
                offered = Subscription(("t",), assignors=("range",)) if flag else None
                reason = "other_protocol_type" if word else "inconsistent_group_protocol"
                story.is_refused(at_ms, client, reason=reason, subscription=offered)
            case "complete":
                story.completes(at_ms, group=group, wait_ms=after_ms, waited_for=client if members else None)
            case _:  # nobody is there to whom it could happen
                pass
    return story


@given(STEPS, st.booleans())
def test_everything_is_explained_once_and_nothing_raises(steps: list[Step], is_observed: bool) -> None:
    incidents = told(steps).incidents(is_observed=is_observed)
    counts = Counter(each.key for incident in incidents for each in incident.disturbances)
    assert {key for key, count in counts.items() if count > 1} == set()
    for incident in incidents:
        assert 0 <= incident.confidence <= 1
        assert incident.from_ms <= incident.to_ms
