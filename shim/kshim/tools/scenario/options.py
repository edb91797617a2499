"""What the options of a step say, whatever its verb."""

from __future__ import annotations

from kshim.tools.scenario.actors import Actor, Cast
from kshim.tools.scenario.model import Step


def number(step: Step, key: str, default: int) -> int:
    """A number."""
    return int(step.options.get(key, default))


def member_id(step: Step, cast: Cast) -> str:
    """The actor's, unless the step says another."""
    text = step.options.get("id")
    return cast.actor(step.actor).member_id if text is None else cast.member_id(text)


def own_member_id(step: Step, cast: Cast) -> str:
    """That of a member which makes its id itself: from the name of the actor."""
    actor = cast.actor(step.actor)
    if "id" not in step.options and not actor.member_id:
        cast.learn(actor, f"{cast.unique}-{actor.name}")
    return member_id(step, cast)


def own_instance_id(step: Step, actor: Actor) -> str | None:
    """The instance id of a member of the new protocols, which the actor keeps; `-` is none."""
    if "instance" in step.options:
        actor.group_instance_id = None if step.options["instance"] == "-" else step.options["instance"]
    return actor.group_instance_id


def names(step: Step, key: str, default: str | None) -> tuple[str, ...] | None:
    """A list that may be empty (`-`) or null, which says that nothing has changed."""
    text = step.options.get(key, default)
    if text in (None, "null"):
        return None
    return () if text == "-" else tuple(text.split(","))


def is_partition(text: str) -> bool:
    """Whether it has the form of `t-0`."""
    topic, mark, index = text.rpartition("-")
    return bool(topic and mark) and index.isdigit()


def partitions(step: Step, cast: Cast, default: str = "-1") -> dict[str, list[tuple[int, str]]]:
    """Real topic -> (partition, value): from `t-0=5` options and bare `t-0` words, whose value is `default`."""
    found: dict[str, list[tuple[int, str]]] = {}
    items = [(key, value) for key, value in step.options.items() if is_partition(key)]
    for key, value in [*items, *((word, default) for word in step.words if is_partition(word))]:
        topic, _, index = key.rpartition("-")
        found.setdefault(cast.topic(topic), []).append((int(index), value))
    return found
