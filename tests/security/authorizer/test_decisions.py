"""Who may do what: rules in, decisions out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.security.authorizer.authorizer import Authorizer, Caller, super_users
from kshim.security.authorizer.document import read_rules, rules_text
from kshim.security.authorizer.model import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType
from kshim.storage.log import LogError

ALICE = "User:alice"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
Op, Pattern = Operation, PatternType


def rule(
    operation: Operation,
    name: str = "orders",
    *,
    of: ResourceType = TOPIC,
    pattern: PatternType = Pattern.LITERAL,
    who: str = ALICE,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
) -> AclRule:
    return AclRule(of, name, pattern, who, host, operation, permission)


def may(
    authorizer: Authorizer, operation: Operation, name: str = "orders", who: str = ALICE, host: str = "10.0.0.1"
) -> bool:
    return authorizer.allows(who, host, operation, TOPIC, name)


def test_without_a_rule_nobody_may_anything() -> None:
    assert not may(Authorizer(), Op.READ)


def test_allow_everyone_holds_only_for_resources_without_any_rule() -> None:
    authorizer = Authorizer([rule(Op.READ, who="User:bob")], allows_unruled=True)
    assert may(authorizer, Op.WRITE, "payments")
    assert not may(authorizer, Op.WRITE, "orders")


def test_a_superuser_may_do_what_a_rule_denies() -> None:
    authorizer = Authorizer([rule(Op.ALL, permission=Permission.DENY)], super_users=[ALICE])
    assert may(authorizer, Op.READ)


def test_a_rule_is_about_its_principal_and_host_only() -> None:
    authorizer = Authorizer([rule(Op.READ, host="10.0.0.1")])
    assert may(authorizer, Op.READ)
    assert not may(authorizer, Op.READ, host="10.0.0.2")
    assert not may(authorizer, Op.READ, who="User:bob")


def test_a_rule_may_be_about_every_user() -> None:
    assert may(Authorizer([rule(Op.READ, who="User:*")]), Op.READ, who="User:ANONYMOUS")


@pytest.mark.parametrize(
    ("pattern", "name", "asked", "matches"),
    [
        (Pattern.LITERAL, "orders", "orders", True),
        (Pattern.LITERAL, "orders", "orders-eu", False),
        (Pattern.LITERAL, "*", "orders", True),
        (Pattern.PREFIXED, "ord", "orders", True),
        (Pattern.PREFIXED, "orders", "orders", True),
        (Pattern.PREFIXED, "orders-", "orders", False),
        (Pattern.PREFIXED, "*", "orders", False),
    ],
)
def test_patterns_match_names(pattern: PatternType, name: str, asked: str, matches: bool) -> None:
    assert may(Authorizer([rule(Op.READ, name, pattern=pattern)]), Op.READ, asked) is matches


def test_denial_wins_over_permission_however_each_names_the_resource() -> None:
    rules = [rule(Op.ALL, "*"), rule(Op.WRITE, "ord", pattern=Pattern.PREFIXED, permission=Permission.DENY)]
    assert not may(Authorizer(rules), Op.WRITE)
    assert not may(Authorizer(rules[::-1]), Op.WRITE)
    assert may(Authorizer(rules), Op.READ)


@pytest.mark.parametrize("given", [Op.READ, Op.WRITE, Op.DELETE, Op.ALTER])
def test_allowed_operations_imply_describe_and_denied_ones_do_not(given: Operation) -> None:
    assert may(Authorizer([rule(given)]), Op.DESCRIBE)
    denied = [rule(Op.DESCRIBE), rule(given, permission=Permission.DENY)]
    assert may(Authorizer(denied), Op.DESCRIBE)


def test_alter_configs_implies_describe_configs_and_nothing_else() -> None:
    authorizer = Authorizer([rule(Op.ALTER_CONFIGS)])
    assert may(authorizer, Op.DESCRIBE_CONFIGS)
    assert not may(authorizer, Op.DESCRIBE)


def test_rules_of_another_type_of_resource_do_not_count() -> None:
    assert not may(Authorizer([rule(Op.ALL, of=GROUP)]), Op.READ)


def test_a_decision_is_made_anew_when_the_rules_have_changed() -> None:
    authorizer = Authorizer([rule(Op.READ)])
    assert may(authorizer, Op.READ)
    authorizer.change(remove=[rule(Op.READ)])
    assert not may(authorizer, Op.READ)
    authorizer.change(add=[rule(Op.READ), rule(Op.READ)])
    assert may(authorizer, Op.READ)
    assert list(authorizer.rules.all) == [rule(Op.READ)]


def test_rules_that_cannot_be_saved_do_not_count() -> None:
    def fail(rules: object) -> None:
        raise LogError("no space left")

    authorizer = Authorizer(save=fail)
    with pytest.raises(LogError):
        authorizer.change(add=[rule(Op.READ)])
    assert not may(authorizer, Op.READ)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([rule(Op.WRITE)], True),
        ([rule(Op.READ)], False),
        ([rule(Op.ALL, "*")], True),
        ([rule(Op.WRITE), rule(Op.WRITE, permission=Permission.DENY)], False),
        ([rule(Op.WRITE), rule(Op.WRITE, "or", pattern=Pattern.PREFIXED, permission=Permission.DENY)], False),
        ([rule(Op.WRITE, "o", pattern=Pattern.PREFIXED), rule(Op.WRITE, "or", pattern=Pattern.PREFIXED, permission=Permission.DENY)], True),
        ([rule(Op.WRITE), rule(Op.WRITE, "*", permission=Permission.DENY)], False),
        ([rule(Op.WRITE), rule(Op.WRITE, "other", permission=Permission.DENY)], True),
        ([rule(Op.WRITE, of=GROUP)], False),
    ],
)  # fmt: skip
def test_whether_any_topic_may_be_written(rules: list[AclRule], expected: bool) -> None:
    assert Caller(Authorizer(rules), ALICE, "10.0.0.1").may_some(Op.WRITE, TOPIC) is expected


def test_the_bit_field_tells_what_may_be_done_implied_or_not() -> None:
    caller = Caller(Authorizer([rule(Op.WRITE), rule(Op.ALTER_CONFIGS)]), ALICE, "10.0.0.1")
    assert caller.operations(TOPIC, "orders") == sum(
        1 << operation for operation in (Op.WRITE, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS)
    )
    assert caller.operations(TOPIC, "payments") == 0
    assert caller.operations(CLUSTER) == 0


ANY = AclFilter(ResourceType.ANY, None, Pattern.ANY, None, None, Op.ANY, Permission.ANY)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ANY, {"orders", "*", "ord"}),
        (ANY._replace(pattern_type=Pattern.MATCH, resource_name="orders"), {"orders", "*", "ord"}),
        (ANY._replace(pattern_type=Pattern.MATCH, resource_name="payments"), {"*"}),
        (ANY._replace(pattern_type=Pattern.ANY, resource_name="ord"), {"ord"}),
        (ANY._replace(pattern_type=Pattern.LITERAL), {"orders", "*"}),
        (ANY._replace(pattern_type=Pattern.PREFIXED, resource_name="orders"), set()),
        (ANY._replace(resource_type=GROUP), set()),
        (ANY._replace(principal="User:bob"), set()),
        (ANY._replace(host="10.0.0.1"), set()),
        (ANY._replace(operation=Op.WRITE), set()),
        (ANY._replace(permission=Permission.DENY), set()),
        (ANY._replace(operation=Op.READ, principal=ALICE, host="*"), {"orders", "*", "ord"}),
    ],
)
def test_filters_find_rules(wanted: AclFilter, found: set[str]) -> None:
    rules = [rule(Op.READ), rule(Op.READ, "*"), rule(Op.READ, "ord", pattern=Pattern.PREFIXED)]
    assert {one.resource_name for one in rules if wanted.matches(one)} == found


def test_rules_survive_in_their_document() -> None:
    rules = [rule(Op.READ, "bestellungen-ü"), rule(Op.ALL, "*", of=GROUP, host="10.0.0.1", permission=Permission.DENY)]
    assert read_rules(rules_text(rules)) == rules
    assert read_rules(rules_text([])) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2, "acls": []}', '{"version": 1, "acls": [{"name": "x"}]}']
)
def test_a_damaged_document_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        read_rules(text)


def test_superusers_are_separated_by_semicolons_as_names_may_hold_commas() -> None:
    assert super_users(" User:admin ;User:CN=ops,O=Acme;") == ["User:admin", "User:CN=ops,O=Acme"]
    with pytest.raises(ValueError, match="TYPE:NAME"):
        super_users("admin")


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
RULES = st.lists(
    st.builds(
        AclRule,
        st.sampled_from([TOPIC, GROUP]),
        NAMES,
        st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
        st.sampled_from([ALICE, "User:bob", "User:*"]),
        st.sampled_from(["*", "10.0.0.1"]),
        st.sampled_from([Op.ALL, Op.READ, Op.DESCRIBE, Op.WRITE]),
        st.sampled_from([Permission.ALLOW, Permission.DENY]),
    ),
    max_size=6,
)


def plainly_allowed(rules: list[AclRule], operation: Operation, name: str, host: str) -> bool:
    """The decision, from the words of the documentation, rule by rule."""
    about = [
        one
        for one in rules
        if one.resource_type is TOPIC
        and (
            name.startswith(one.resource_name)
            if one.pattern_type is Pattern.PREFIXED
            else one.resource_name in (name, "*")
        )
        and one.principal in (ALICE, "User:*")
        and one.host in (host, "*")
    ]
    if any(one.permission is Permission.DENY and one.operation in (operation, Op.ALL) for one in about):
        return False
    enough = {operation, Op.ALL}
    if operation is Op.DESCRIBE:
        enough |= {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}
    return any(one.permission is Permission.ALLOW and one.operation in enough for one in about)


@given(RULES, st.sampled_from([Op.READ, Op.DESCRIBE, Op.WRITE]), NAMES, st.sampled_from(["10.0.0.1", "10.0.0.2"]))
def test_decisions_are_those_of_a_plain_reading(
    rules: list[AclRule], operation: Operation, name: str, host: str
) -> None:
    assert may(Authorizer(rules), operation, name, host=host) is plainly_allowed(rules, operation, name, host)


@given(RULES)
def test_some_topic_may_be_written_where_one_may(rules: list[AclRule]) -> None:
    """The other way round it may be wrong, as in Kafka: several rules may deny together what one allows."""
    caller = Caller(Authorizer(rules), ALICE, "10.0.0.1")
    if any(caller.may(Op.WRITE, TOPIC, name) for name in ("a", "ab", "abc", "b", "c", "abcd")):
        assert caller.may_some(Op.WRITE, TOPIC)


def test_made_up_names_do_not_fill_the_memory() -> None:
    authorizer = Authorizer([rule(Op.READ)])
    for number in range(20_000):
        assert not may(authorizer, Op.READ, f"{number}")
    assert not may(authorizer, Op.READ, "x" * 1_000_000)
    assert may(authorizer, Op.READ)
    assert authorizer.remembered_bytes < 4_000_000
