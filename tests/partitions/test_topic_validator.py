"""What a topic may be called and how it may be configured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.partitions.topic_validator import check_no_collision, checked_configs, name_problem
from kshim_protocol.errors import ErrorCode, KafkaError

LEGAL = "abcXYZ019._-"


@given(st.text(alphabet=LEGAL, min_size=1, max_size=249).filter(lambda name: name not in (".", "..")))
def test_names_of_letters_digits_dots_underscores_and_hyphens_are_fine(name: str) -> None:
    assert name_problem(name) is None


@given(
    st.text(alphabet=LEGAL),
    st.characters(exclude_characters=LEGAL, exclude_categories=["L", "Nd"]),
    st.text(alphabet=LEGAL),
)
def test_any_other_character_spoils_a_name(before: str, character: str, after: str) -> None:
    assert name_problem(before + character + after) is not None


@given(st.text(alphabet="._a", min_size=1, max_size=5), st.text(alphabet="._a", min_size=1, max_size=5))
def test_two_names_collide_when_only_dots_and_underscores_tell_them_apart(one: str, other: str) -> None:
    is_alike = one != other and one.replace(".", "_") == other.replace(".", "_")
    if is_alike:
        with pytest.raises(KafkaError) as refused:
            check_no_collision(one, ["unrelated", other])
        assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert other in str(refused.value)
    else:
        check_no_collision(one, ["unrelated", other])


def test_the_text_of_a_refused_configuration_names_key_value_and_what_is_expected() -> None:
    with pytest.raises(KafkaError) as refused:
        checked_configs([("segment.bytes", "12")])
    assert refused.value.message == "segment.bytes=12: expected an integer of at least 1048576"
