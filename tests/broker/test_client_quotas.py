"""Quotas are kept and described. What is answered is compared with a live Kafka in `test_configs_like_kafka`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.config.client_quotas import QUOTAS_DOCUMENT
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kshim_protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.broker.harness import NodeUnderTest, a_node, files_in

Names = dict[str, str | None]
RATE = "producer_byte_rate"


def entry(names: Names, **values: float | None) -> EntryData:
    """Quotas of an entity, None to remove one."""
    return EntryData(
        entity=tuple(EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in names.items()),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()),
    )


def altered(node: NodeUnderTest, *entries: EntryData, validate_only: bool = False) -> list[str]:
    """What is said of each entity: NONE, or the error and why."""
    answer = node.client().ask(AlterClientQuotasRequest(entries=entries, validate_only=validate_only), 1)
    return [f"{ErrorCode(row.error_code).name} {row.error_message or ''}".strip() for row in answer.entries]


def described(node: NodeUnderTest, *components: tuple[str, int, str | None], strict: bool = False) -> dict[str, str]:
    """The quotas by entity, in words: `user=u client-id=*`."""
    rows = tuple(ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
    answer = node.client().ask(DescribeClientQuotasRequest(components=rows, strict=strict), 1)
    assert answer.error_code == ErrorCode.NONE, answer
    return {
        " ".join(f"{part.entity_type}={part.entity_name or '*'}" for part in one.entity): " ".join(
            f"{row.key}={row.value:g}" for row in one.values
        )
        for one in answer.entries or ()
    }


def test_what_is_set_is_described_and_kept(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path))
    assert described(node) == {}
    assert altered(node, entry({"user": "u"}, producer_byte_rate=1_000, request_percentage=12.5)) == ["NONE"]
    assert altered(node, entry({"ip": "10.0.0.7"}, connection_creation_rate=5)) == ["NONE"]
    known = {"user=u": f"{RATE}=1000 request_percentage=12.5", "ip=10.0.0.7": "connection_creation_rate=5"}
    assert described(node) == known
    node.close()
    again = a_node(storage=files_in(tmp_path))
    assert described(again) == known
    assert altered(again, entry({"user": "u"}, producer_byte_rate=None, request_percentage=None)) == ["NONE"]
    assert list(described(again)) == ["ip=10.0.0.7"]
    again.close()


def test_a_filter_asks_for_names_defaults_and_types() -> None:
    node = a_node()
    for names in ({"user": "u"}, {"user": None}, {"user": "u", "client_id": "c"}, {"client_id": "c"}, {"ip": None}):
        assert altered(node, entry(dict(names), **{RATE if "ip" not in names else "connection_creation_rate": 1})) == [
            "NONE"
        ]
    exact, default, any_ = range(3)
    assert set(described(node, ("user", exact, "u"))) == {"user=u", "client-id=c user=u"}
    assert set(described(node, ("user", exact, "u"), strict=True)) == {"user=u"}
    assert set(described(node, ("user", default, None))) == {"user=*"}
    assert set(described(node, ("user", any_, None))) == {"user=u", "user=*", "client-id=c user=u"}
    assert set(described(node, ("user", exact, "u"), ("client-id", any_, None))) == {"client-id=c user=u"}
    assert set(described(node, ("ip", any_, None), strict=True)) == {"ip=*"}
    assert described(node, strict=True) == {}
    assert len(described(node)) == 5


def test_a_trial_changes_nothing() -> None:
    node = a_node()
    assert altered(node, entry({"user": "u"}, producer_byte_rate=1), validate_only=True) == ["NONE"]
    assert described(node) == {}


def test_an_entity_with_a_mistake_keeps_no_other_from_being_changed() -> None:
    node = a_node()
    found = altered(node, entry({"user": "u"}, producer_byte_rate=1), entry({"user": "v"}, nonsense=1))
    assert found == ["NONE", "INVALID_REQUEST Invalid configuration key nonsense"]
    assert list(described(node)) == ["user=u"]


def test_removing_what_is_not_there_succeeds() -> None:
    assert altered(a_node(), entry({"user": "u"}, producer_byte_rate=None)) == ["NONE"]


@pytest.mark.parametrize(
    ("names", "values", "why"),
    [
        ({}, {}, "Invalid empty client quota entity"),
        ({"nothing": "x"}, {}, "Unhandled client quota entity type: nothing"),
        ({"user": ""}, {}, "Empty user not supported"),
        ({"ip": "10.0.0.7", "user": "u"}, {}, "Invalid quota entity combination"),
        ({"ip": "no address"}, {}, "no address is not a valid IP or resolvable host."),
        ({"ip": "::1"}, {RATE: 1}, f"Invalid configuration key {RATE}"),
        ({"user": "u"}, {RATE: 0}, f"Quota {RATE} must be greater than 0"),
        ({"user": "u"}, {RATE: 1.5}, f"{RATE} cannot be a fractional value."),
        ({"user": "u"}, {RATE: 1e30}, f"Proposed value for {RATE} is too large for a LONG."),
        (
            {"ip": "::1"},
            {"connection_creation_rate": 2**31},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        ({"user": "u"}, {"request_percentage": float("nan")}, "Quota request_percentage must be a finite number"),
    ],
)
def test_what_cannot_be_is_refused(names: Names, values: dict[str, float], why: str) -> None:
    (found,) = altered(a_node(), entry(names, **values))
    assert found.startswith(f"INVALID_REQUEST {why}")


def test_an_entity_or_a_key_that_is_there_twice_is_refused() -> None:
    node = a_node()
    twice = entry({"user": "u"}, producer_byte_rate=1)
    why = "INVALID_REQUEST Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"
    assert altered(node, twice, twice) == [why]
    assert altered(node, EntryData(entity=twice.entity, ops=twice.ops * 2)) == [why]


def test_what_clients_set_ends_somewhere() -> None:
    node = a_node()
    many = [entry({"user": f"{number}-{'x' * 30_000}"}, producer_byte_rate=1) for number in range(40)]
    with pytest.raises(AssertionError):
        assert altered(node, *many) == ["NONE"] * len(many)
    assert described(node) == {}


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path), tolerates_defects=True)
    (tmp_path / QUOTAS_DOCUMENT).write_text("{}")
    answer = node.client().ask(DescribeClientQuotasRequest(components=(), strict=False), 1)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.close()
