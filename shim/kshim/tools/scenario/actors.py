"""The actors of a scenario, and the ids of the group by actor, so that files need none."""

from __future__ import annotations

from kshim.tools.scenario.model import Scenario, Step

NO_SUCH_TOPIC = b"no such topic id"


class Actor:
    """One client: the member id it was given, the generation it last joined, its instance id, its protocol.

    `session_epoch` is the next one of its share session, `sent_session_epoch` that of its last request; of a streams group it
    knows the epoch of endpoints.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation_id = -1
        self.group_instance_id: str | None = None
        self.protocol_type = "consumer"
        self.protocol_name = "range"
        self.session_epoch = 0
        self.sent_session_epoch = 0
        self.endpoint_epoch = -1


class Cast:
    """All actors of one run. `unique` makes group and topic names of this run different from those of any other.

    `max_versions` is what the broker serves (api key -> newest version), None when it serves everything there is.
    """

    def __init__(self, scenario: Scenario, unique: str) -> None:
        self.scenario = scenario
        self.unique = unique
        self.actors: dict[str, Actor] = {}
        self.former_ids: dict[str, str] = {}
        self.literal_ids: set[str] = set()
        self.topic_ids: dict[str, bytes] = {}
        self.first_generations: dict[str, int] = {}
        self.max_versions: dict[int, int] | None = None

    def actor(self, name: str) -> Actor:
        """The actor of that name, made when it is first named."""
        if name not in self.actors:
            self.actors[name] = Actor(name)
        return self.actors[name]

    def alias(self, name: str, known: str) -> None:
        """Let `name` be another connection of the client `known`."""
        self.actors[name] = self.actor(known)

    @property
    def unique_group(self) -> str:
        """The run's own group."""
        return f"conform-{self.unique}"

    def group_id(self, step: Step) -> str:
        """The group a step speaks of: the run's own, `group=NAME` a further one, `group=""` the empty name."""
        name = step.options.get("group")
        if name == "":
            return ""
        return self.unique_group if name is None else f"{self.unique_group}-{name}"

    def generation(self, group_id: str, number: int) -> int:
        """The broker's number of a generation that a file calls `number`: a file's first one is 1."""
        return number if number < 0 else number + self.first_generations.get(group_id, 1) - 1

    def generation_name(self, group_id: str, generation_id: int) -> str:
        """What a file calls a generation; the first one seen of a group is 1, wherever the broker begins."""
        if generation_id < 0:
            return str(generation_id)
        return str(generation_id - self.first_generations.setdefault(group_id, generation_id) + 1)

    def topic(self, name: str) -> str:
        """The real name of a topic of the scenario; `missing` topics have one too, and do not exist."""
        return f"conform-{self.unique}-{name}"

    def topic_id(self, real: str) -> bytes:
        """The id of a topic by its real name; one that no topic has when it does not exist."""
        return self.topic_ids.get(real, NO_SUCH_TOPIC)

    def topic_of(self, real: str, topic_id: bytes) -> str:
        """The scenario's name of the topic in an answer, which has a name or an id."""
        if real:
            return self.plain_topic(real)
        return next((self.plain_topic(name) for name, known in self.topic_ids.items() if known == topic_id), "missing")

    def plain_topic(self, real: str) -> str:
        """The scenario's name of a real topic."""
        return real.removeprefix(f"conform-{self.unique}-")

    def plain(self, sentence: str | None) -> str:
        """A sentence of the broker with the names that a file knows: GROUP for the run's own group."""
        if not sentence:
            return "-"
        ids = {actor.member_id: actor.name for actor in self.actors.values() if actor.member_id} | self.former_ids
        for member_id, name in ids.items():
            sentence = sentence.replace(member_id, name)
        return sentence.replace(f"conform-{self.unique}-", "").replace(self.unique_group, "GROUP")

    def learn(self, actor: Actor, member_id: str) -> None:
        """Remember the id `actor` was given."""
        if actor.member_id and actor.member_id != member_id:
            self.former_ids[actor.member_id] = f"old-{actor.name}"
        actor.member_id = member_id

    def member_id(self, text: str) -> str:
        """The id meant by an `id=` option: `@b` is b's, `@old-b` the one b had before, anything else is literal."""
        if text.startswith("@old-"):
            return next(old for old, name in reversed(self.former_ids.items()) if name == text[1:])
        if text.startswith("@"):
            return self.actor(text[1:]).member_id
        self.literal_ids.add(text)
        return text

    def name_of(self, member_id: str) -> str:
        """How a file calls a member id: its actor, `old-a` for one that was replaced, "-" for none, else `somebody`."""
        if not member_id:
            return "-"
        for actor in self.actors.values():
            if actor.member_id == member_id:
                return actor.name
        if member_id in self.literal_ids:
            return member_id
        return self.former_ids.get(member_id, "somebody")
