"""What a recording holds and what it never holds; that it changes nothing; and that nothing stops the broker."""

from __future__ import annotations

import errno
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from kshim.broker.connection import ConnectionClosing
from kshim.recording.file import RecordingFile
from kshim.recording.format import Kind, Reader
from kshim.recording.recorder import BUFFER_BYTES, Recorder
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.metadata import MetadataRequest
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.broker.harness import NodeUnderTest, a_node
from tests.recording.session import Member, Recorded, a_stable_member


def kinds(recorded: Recorded) -> list[str]:
    return [Kind(entry.kind).name for entry in recorded.entries()]


def test_a_recording_holds_each_request_its_draws_and_its_answer_in_order() -> None:
    recorded = Recorded()
    client = recorded.node.client("c", "/10.0.0.7")
    client.ask(MetadataRequest(topics=None), 9)
    client.close()
    start, nodes, connected, request, answer, gone, end = recorded.entries()
    assert (start.kind, start.fields["nodes"], start.fields["topics"]) == (Kind.START, 1, [])
    assert nodes.fields == {"1": {"PLAINTEXT": ["127.0.0.1", 9092]}}
    assert connected.fields == {
        "node": 1,
        "host": "/10.0.0.7",
        "listener": "PLAINTEXT",
        "protocol": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
    }
    assert (request.kind, request.subject, request.payload[:4]) == (Kind.REQUEST, 1, b"\0\3\0\x09")
    assert (answer.kind, answer.subject) == (Kind.ANSWER, 1)
    assert (gone.kind, gone.subject, end.kind) == (Kind.DISCONNECTED, 1, Kind.END)


def test_entries_say_when_on_both_clocks() -> None:
    recorded = Recorded()
    node = recorded.node
    a_stable_member(node)
    node.pass_ms(2_500)
    node.client("b").ask(MetadataRequest(topics=()), 9)
    *_, request, _, _ = recorded.entries()
    assert (request.now, request.real_ms) == (node.now, node.real_ms)


def session(node: NodeUnderTest) -> list[Any]:
    """Everything that clients see of a session with a rebalance, a commit and an expired member."""
    seen: list[Any] = []
    a = a_stable_member(node)
    seen.append(a.commit(5))
    b = Member(node, "b")
    b.send_join()
    seen.append(b.take_join())
    b.send_join()
    seen.append(a.heartbeat())
    a.send_join()
    seen += [a.take_join(), b.take_join()]
    a.sync({a.member_id: b"1", b.member_id: b"2"})
    b.sync()
    seen += [*a.client.unread, *b.client.unread]
    a.client.unread.clear()
    node.pass_ms(44_000)
    seen.append(a.heartbeat())
    node.pass_ms(2_000)
    seen.append(a.heartbeat())
    b.client.close()
    return seen


def test_a_recording_changes_no_answer() -> None:
    plain = a_node({"group.initial.rebalance.delay.ms": "0"}, topics={"t": 1})
    recorded = Recorded({"group.initial.rebalance.delay.ms": "0"}, topics={"t": 1})
    assert session(plain) == session(recorded.node)


def test_without_a_recording_nothing_stands_before_the_handlers() -> None:
    router = a_node().node
    assert router.route == router.handle
    assert not {"advance", "advance_real"} & vars(router).keys()


SECRET = b"open sesame"


def test_nothing_that_may_hold_a_password_is_written() -> None:
    recorded = Recorded()
    client = recorded.node.client()
    client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + SECRET))
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=SECRET * 3
    )
    client.ask(AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,)))
    key = AlterableConfig(name="listener.name.x.ssl.key.password", config_operation=0, value=SECRET.decode())
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=(key,))
    client.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False))
    with pytest.raises(ConnectionClosing):  # a bare token, as after SaslHandshake v0
        recorded.node.route(b"\0alice\0" + SECRET, client)
    entries = recorded.entries()
    assert not any(SECRET in entry.payload for entry in entries)
    hidden = [entry.fields for entry in entries if entry.kind == Kind.HIDDEN_REQUEST]
    assert [(fields["reason"], fields.get("api")) for fields in hidden] == [
        ("secret", "SaslAuthenticate"),
        ("secret", "AlterUserScramCredentials"),
        ("secret", "IncrementalAlterConfigs"),
        ("unknown", None),
    ]


def test_the_configuration_is_written_without_its_secrets() -> None:
    config = {"group.max.size": "7", "listener.name.x.plain.sasl.jaas.config": SECRET.decode()}
    (start, *_) = Recorded(config).entries()
    assert start.fields["config"] == {"group.max.size": "7"}


def test_a_client_that_has_not_authenticated_is_not_recorded() -> None:
    recorded = Recorded()
    client = recorded.node.client(security_protocol="SASL_PLAINTEXT")
    with pytest.raises(ConnectionClosing):
        client.send(SaslAuthenticateRequest(auth_bytes=SECRET))
    assert kinds(recorded) == ["START", "END"]


def test_what_happens_is_written_after_half_a_second_or_64_kib() -> None:
    recorded = Recorded()
    client = recorded.node.client()
    client.ask(MetadataRequest(topics=()), 9)
    before = len(recorded.out.getvalue())
    recorded.node.pass_ms(600)
    written = recorded.out.getvalue()
    assert len(written) > before
    assert Kind.ANSWER in [entry.kind for entry in Reader(BytesIO(written))]
    for _ in range(BUFFER_BYTES // 50):
        client.ask(MetadataRequest(topics=()), 9)
    assert len(recorded.out.getvalue()) > len(written)


def test_a_full_disk_ends_the_recording_and_not_the_broker() -> None:
    ends: list[str] = []
    writes: list[bytes] = []

    def write(data: bytes) -> None:
        if len(writes) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        writes.append(data)

    node = a_node()
    recorder = Recorder(write, now=lambda: node.now, real_ms=lambda: node.real_ms, on_end=ends.append)
    recorder.stand_before(node.node)
    recorder.begin(node.cluster)
    member = a_stable_member(node)
    node.pass_ms(1_000)
    assert ends == ["its file cannot be written: No space left on device"]
    assert member.heartbeat() == ErrorCode.NONE
    recorder.close()
    assert len(writes) == 2


def test_a_recording_ends_at_its_limit_and_says_so() -> None:
    ends: list[str] = []
    out = BytesIO()
    node = a_node()
    recorder = Recorder(
        out.write, now=lambda: node.now, real_ms=lambda: node.real_ms, on_end=ends.append, max_bytes=2_000
    )
    recorder.stand_before(node.node)
    recorder.begin(node.cluster)
    for number in range(100):
        a_stable_member(node, group=f"group {number}")
        node.pass_ms(1_000)
    assert ends == ["it has reached its limit of 2000 bytes"]
    assert len(out.getvalue()) < 4_000
    reader = Reader(BytesIO(out.getvalue()))
    *_, end = reader
    assert end.kind == Kind.END
    assert end.fields == {"why": ends[0]}


def test_a_recording_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with RecordingFile(path) as file:
        file.write(b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        RecordingFile(path)
    assert path.read_bytes() == b"x"
