"""The differences that `allowed.toml` allows, and when each may be claimed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from integration.differential.canonical import Tree, error_codes
from integration.differential.model import GroupModel
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest

RULES_FILE = Path(__file__).with_name("allowed.toml")


class Case(NamedTuple):
    """One request that the brokers treated differently. A tree is None where there is no answer.

    `later` are the requests of the last steps that were sent after this one.
    """

    api: str
    group: GroupModel
    request: Any
    later: tuple[Any, ...]
    kshim: Tree | None
    kafka: Tree | None


class Rule(NamedTuple):
    """One entry of `allowed.toml`. `is_patient`: either broker may be the one without an answer, so both get time."""

    id: str
    apis: tuple[str, ...]
    situation: Callable[[Case], bool]
    fields: tuple[str, ...]
    then: str
    is_patient: bool

    def covers(self, path: str) -> bool:
        """Whether this field may differ. Indexes do not count: `groups[0].members` is `groups[].members`."""
        name = re.sub(r"\[\d+\]", "[]", path)
        return "*" in self.fields or any(
            name == field or name.startswith((f"{field}.", f"{field}[")) for field in self.fields
        )


def load_rules(path: Path = RULES_FILE) -> list[Rule]:
    """All rules. Raises KeyError for a situation that nobody has defined."""
    entries = tomllib.loads(path.read_text("utf-8"))["allowed"]
    rules = []
    for entry in entries:
        assert entry["then"] in ("same", "drop", "new-group"), entry
        assert entry["reason"], entry
        situation = SITUATIONS[entry["situation"]]
        is_patient = entry.get("patient", False)
        rules.append(
            Rule(entry["id"], tuple(entry["apis"]), situation, tuple(entry["fields"]), entry["then"], is_patient)
        )
    return rules


def rules_for(rules: Iterable[Rule], case: Case, paths: list[str]) -> list[Rule] | None:
    """Rules that together allow every path, or None. Answered by one side only, the path is "*".

    A rule without fields holds for an answer that does not differ, but after which the groups may.

    No rule allows a closed connection or an answer that cannot be read.
    """
    for tree in (case.kshim, case.kafka):
        if paths and tree is not None and (not isinstance(tree, dict) or "malformed answer" in tree):
            return None
    chosen = [rule for rule in rules if not rule.fields and case.api in rule.apis and rule.situation(case)]
    for path in paths:
        rule = next(
            (
                rule
                for rule in rules
                if case.api in rule.apis and rule.covers(path) and (rule in chosen or rule.situation(case))
            ),
            None,
        )
        if rule is None:
            return None
        if rule not in chosen:
            chosen.append(rule)
    return chosen


def _superseded(case: Case) -> bool:
    """Only kshim answers, with REBALANCE_IN_PROGRESS, because the same member has sent the same API again."""
    request = case.request
    return (
        case.kafka is None
        and case.kshim is not None
        and case.kshim["error_code"] == _REBALANCE_IN_PROGRESS
        and any(
            type(newer) is type(request)
            and newer.group_id == request.group_id
            and newer.member_id != ""
            and newer.member_id == (request.member_id or case.kshim.get("member_id"))
            for newer in case.later
        )
    )


def _protocol_listed_twice(case: Case) -> bool:
    """In this Join, or in the one just sent to its group, which Kafka has let in."""
    return any(
        isinstance(join, JoinGroupRequest)
        and join.group_id == case.request.group_id
        and len(join.protocols) != len({protocol.name for protocol in join.protocols})
        for join in (case.request, *case.later)
    )


def _partition_listed_twice(case: Case) -> bool:
    """Only Kafka lists partitions more than once, each time with the same values; without the repetitions the answers are equal."""
    return case.kafka != case.kshim and _without_repetitions(case.kafka) == case.kshim


def _without_repetitions(tree: Tree) -> Tree:
    if isinstance(tree, dict):
        return {key: _without_repetitions(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [value for index, value in enumerate(map(_without_repetitions, tree)) if value not in tree[:index]]
    return tree


def _leader_gone(case: Case) -> bool:
    """Neither broker kept the last leader, and each named a member of the group."""
    if case.kshim is None or case.kafka is None or case.group.leader is None:
        return False
    trees = (case.kshim, case.kafka)
    for tree in trees:
        if tree["error_code"] != 0 or tree["leader"] == case.group.leader:
            return False
        names = [member["member_id"] for member in tree["members"]]
        if names and not (tree["leader"] == tree["member_id"] and tree["leader"] in names):
            return False
        if not names and tree["leader"] == tree["member_id"]:
            return False
    return True


def _tied_vote(case: Case) -> bool:
    """Both chose a protocol with most votes of the members, counted from what they last offered."""
    if case.kshim is None or case.kafka is None:
        return False
    members = case.kshim["members"] or case.kafka["members"]
    if not members:  # a follower: its own answer does not say who votes; the leader's is judged
        return bool(case.kshim["error_code"] == 0 == case.kafka["error_code"])
    ballots = [case.group.protocols.get(member["member_id"]) for member in members]
    if None in ballots:  # somebody new whose connection was closed while it waited: its ballot is not known
        return True
    votes = count_votes([ballot for ballot in ballots if ballot is not None])
    most = max(votes.values(), default=0)
    return votes.get(case.kshim["protocol_name"]) == most == votes.get(case.kafka["protocol_name"])


def _same_error_in_other_words(case: Case) -> bool:
    """Every message that differs stands beside an error, and neither broker left it out."""
    return _words_agree(case.kshim, case.kafka)


def _issued_id_of_a_static_member(case: Case) -> bool:
    """An id given out with MEMBER_ID_REQUIRED comes back with an instance id; Kafka trips over an assertion of its own."""
    return (
        case.request.group_instance_id is not None
        and case.request.member_id in case.group.issued
        and case.kafka is not None
        and case.kafka["error_code"] == _UNKNOWN_SERVER_ERROR
        and case.kshim is not None
        and case.kshim["error_code"] in (_UNKNOWN_MEMBER_ID, _FENCED_INSTANCE_ID)
    )


def _removed_while_in_sync(case: Case) -> bool:
    """Only kshim answers, with UNKNOWN_MEMBER_ID, because a request just sent took the member out of the group."""
    if case.kafka is not None or case.kshim is None or case.kshim["error_code"] != _UNKNOWN_MEMBER_ID:
        return False
    request = case.request
    for newer in case.later:
        if isinstance(newer, LeaveGroupRequest) and newer.group_id == request.group_id:
            return True
        if isinstance(newer, JoinGroupRequest) and (newer.group_id, newer.member_id) == (
            request.group_id,
            request.member_id,
        ):
            return True
    return False


def _stored_nothing(case: Case) -> bool:
    """A commit from outside passed every check of the group, and not one value was good enough to store."""
    if not isinstance(case.kafka, dict) or case.request.generation_id_or_member_epoch >= 0:
        return False
    errors = {code for code in error_codes(case.kafka) if code not in _UNKNOWN_TOPICS}
    return errors == {_OFFSET_METADATA_TOO_LARGE}


def _words_agree(left: Tree, right: Tree) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = left.get("error_message"), right.get("error_message")
        if one != other and not (left["error_code"] == right["error_code"] != 0 and one and other):
            return False
        return all(_words_agree(left[key], right[key]) for key in left.keys() & right.keys())
    if isinstance(left, list) and isinstance(right, list):
        return all(map(_words_agree, left, right))
    return True


def _tied_vote_of_a_replaced_member(case: Case) -> bool:
    """A static member that comes back waits for a rebalance on one broker only, for there another protocol won a tie."""
    tree = case.kafka or case.kshim
    if (case.kafka is None) == (case.kshim is None) or tree is None or tree["error_code"] != 0:
        return False
    request = case.request
    if request.member_id or request.group_instance_id is None:
        return False
    offered = [protocol.name for protocol in request.protocols]
    others = [member["member_id"] for member in tree["members"] if member["member_id"] != tree["member_id"]]
    if not tree["members"]:  # a follower is not told who votes: whoever has offered something may
        others = list(case.group.protocols)
    ballots = [case.group.protocols[member] for member in others if member in case.group.protocols]
    if not tree["members"]:
        return any(ballot[0] != offered[0] for ballot in ballots if ballot)
    votes = count_votes([offered, *ballots])
    most = max(votes.values(), default=0)
    return votes.get(tree["protocol_name"]) == most and list(votes.values()).count(most) > 1


def _uniform_choice(case: Case) -> bool:
    """The group may use `uniform`: both have assigned the same partitions, and kshim to members that are at least as equal."""
    if not case.group.has_choice or not isinstance(case.kshim, dict) or not isinstance(case.kafka, dict):
        return False
    if case.api == "ConsumerGroupHeartbeat":
        told = [tree["assignment"] for tree in (case.kshim, case.kafka) if tree["assignment"] is not None]
        counts = [len(_partitions(assignment)) for assignment in told] or [0]
        return case.kshim["error_code"] == 0 == case.kafka["error_code"] and max(counts) - min(counts) <= 1
    ours, theirs = (
        [_partitions(member["target_assignment"]) for member in tree["groups"][0]["members"]]
        for tree in (case.kshim, case.kafka)
    )
    if sorted(part for share in ours for part in share) != sorted(part for share in theirs for part in share):
        return False
    return sum(len(share) ** 2 for share in ours) <= sum(len(share) ** 2 for share in theirs)


def _joined_again_as_another_instance(case: Case) -> bool:
    """A known member joins under another instance id: both let it in, with the same epoch, and only kshim with partitions."""
    request = case.request
    slot = case.group.slot_of(request.member_id)
    known = case.group.slots[slot].instance if slot is not None else None
    if request.member_epoch != 0 or None in (known, request.instance_id) or known == request.instance_id:
        return False
    if not isinstance(case.kshim, dict) or not isinstance(case.kafka, dict):
        return False
    told = [tree["assignment"] for tree in (case.kshim, case.kafka)]
    return None not in told and bool(_partitions(told[0])) and not _partitions(told[1])


def _partitions(assignment: Tree) -> list[tuple[str, int]]:
    return [(topic["topic_id"], index) for topic in assignment["topic_partitions"] for index in topic["partitions"]]


def count_votes(ballots: list[list[str]]) -> dict[str, int]:
    """Votes for each name that all ballots list: each ballot counts for the first such name in it."""
    if not ballots:
        return {}
    candidates = set(ballots[0]).intersection(*ballots[1:])
    votes = dict.fromkeys(candidates, 0)
    for names in ballots:
        first = next((name for name in names if name in candidates), None)
        if first is not None:
            votes[first] += 1
    return votes


_REBALANCE_IN_PROGRESS = 27
_UNKNOWN_SERVER_ERROR = -1
_UNKNOWN_MEMBER_ID = 25
_FENCED_INSTANCE_ID = 82
_OFFSET_METADATA_TOO_LARGE = 12
_UNKNOWN_TOPICS = (3, 100)

SITUATIONS: dict[str, Callable[[Case], bool]] = {
    "superseded": _superseded,
    "protocol-listed-twice": _protocol_listed_twice,
    "leader-gone": _leader_gone,
    "partition-listed-twice": _partition_listed_twice,
    "tied-vote": _tied_vote,
    "tied-vote-of-a-replaced-member": _tied_vote_of_a_replaced_member,
    "issued-id-of-a-static-member": _issued_id_of_a_static_member,
    "removed-while-in-sync": _removed_while_in_sync,
    "stored-nothing": _stored_nothing,
    "uniform-choice": _uniform_choice,
    "joined-again-as-another-instance": _joined_again_as_another_instance,
    "same-error-in-other-words": _same_error_in_other_words,
}
