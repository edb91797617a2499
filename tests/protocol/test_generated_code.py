"""Generated code: readable when it fails, made once, left alone by what it reads."""

from __future__ import annotations

import linecache
import re
import subprocess
import sys
import traceback

import pytest

from kshim_protocol.codec import codec
from kshim_protocol.compiler import compile_parse, source_of_build, source_of_parse
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.schema import Struct
from tests.protocol.catalogue import over_versions

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_a_traceback_shows_the_generated_line() -> None:
    tested = codec(HeartbeatRequest, 4)

    def explain(data: bytes, offset: int, error: Exception) -> None:
        raise LookupError("explained") from error

    parse = compile_parse(tested.tree, "HeartbeatRequest v4", explain)
    with pytest.raises(LookupError) as raised:
        parse(b"\x02")
    text = "".join(traceback.format_exception(raised.value))
    assert 'File "<kshim_protocol parse HeartbeatRequest v4>"' in text
    shown = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    generated = {line.strip() for line in source_of_parse(tested.tree).splitlines()}
    assert any(line in generated and "data" in line for line in shown)


def test_generated_source_stays_in_linecache_when_it_is_checked() -> None:
    tested = codec(HeartbeatRequest, 4)
    tested.compile()
    linecache.checkcache()
    assert (
        linecache.getlines("<kshim_protocol parse HeartbeatRequest v4>")[0]
        == source_of_parse(tested.tree).splitlines(True)[0]
    )
    assert "".join(linecache.getlines("<kshim_protocol build HeartbeatRequest v4>")) == source_of_build(tested.tree)


def test_a_protocol_error_names_message_version_field_and_offset() -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="m",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"12345"),) * 2,
    )
    data = codec(JoinGroupRequest, 5).build(request)
    with pytest.raises(ProtocolError) as raised:
        codec(JoinGroupRequest, 5).parse(data[:-2])
    error = raised.value
    assert (error.message, error.version, error.field) == ("JoinGroupRequest", 5, "protocols[1].metadata")
    assert data[error.offset :] == b"12345"
    assert str(error) == f"JoinGroupRequest v5: protocols[1].metadata at byte {error.offset}: 5 bytes expected, 3 left"
    # Neither the generated code nor construct shows in the peer's error.
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_build_error_names_message_version_and_field() -> None:
    wrong = HeartbeatRequest(group_id="g", generation_id=1 << 40, member_id="m")
    with pytest.raises(BuildError, match="HeartbeatRequest v4: generation_id: 1099511627776 is no int32"):
        codec(HeartbeatRequest, 4).build(wrong)


def test_a_message_of_another_class_is_not_built() -> None:
    with pytest.raises(BuildError, match="is no JoinGroupRequest"):
        codec(JoinGroupRequest, 9).build(HEARTBEAT)  # type: ignore[arg-type]


def test_code_is_made_at_the_first_call_of_each_direction() -> None:
    tested = type(codec(HeartbeatRequest, 4))(HeartbeatRequest, 4)
    first = tested.build
    data = tested.build(HEARTBEAT)
    assert tested.build != first
    parsed_first = tested.parse
    assert tested.parse(data) == (HEARTBEAT, len(data))
    assert tested.parse != parsed_first


def test_a_parse_kept_from_before_does_not_make_code_again() -> None:
    tested = type(codec(HeartbeatRequest, 4))(HeartbeatRequest, 4)
    kept_parse, kept_build = tested.parse, tested.build
    data = kept_build(HEARTBEAT)
    kept_parse(data)
    made = tested.parse, tested.build
    assert kept_build(HEARTBEAT) == data
    assert kept_parse(data) == (HEARTBEAT, len(data))
    assert (tested.parse, tested.build) == made


@over_versions()
def test_generated_code_never_tests_a_version(cls: type[Struct], version: int) -> None:
    tree = codec(cls, version).tree
    for source in (source_of_parse(tree), source_of_build(tree)):
        assert "version" not in re.sub(r"\.version\b|_version", "", source)  # rows may be called so


def test_construct_is_imported_only_where_something_has_to_be_explained() -> None:
    """It would be a tenth of a broker's start."""
    code = """
import sys
from kshim_protocol.codec import codec
from kshim_protocol.messages.heartbeat import HeartbeatRequest
tested = codec(HeartbeatRequest, 4)
data = tested.build(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
assert tested.parse(data)[0].group_id == "g"
print("construct" in sys.modules)
try:
    tested.parse(data[:-4])
except Exception as error:
    print("construct" in sys.modules, error)
"""
    lines = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert lines[0] == "False"
    assert lines[1].startswith("True HeartbeatRequest v4: member_id")
