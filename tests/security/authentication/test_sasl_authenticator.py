"""The gate before a node: a connection of a SASL listener, request by request. Live brokers: integration/security."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.client_activity import ConnectedClient
from kshim.broker.connection import ANONYMOUS, ConnectionClosing
from kshim.broker.sasl_authenticator import SaslAuthenticator
from kshim.config.listeners import SecurityProtocol
from kshim.security.authentication.listener import SaslListener, SaslMechanism
from kshim.security.authentication.plain import PasswordDigests, PlainServer
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.metadata import MetadataRequest
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kshim_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kshim_protocol.schema import Request
from tests.broker.harness import Client, NodeUnderTest, a_node, api_of
from tests.faults.harness import arm, faults_of

DELAY_MS = 150
LIFETIME_MS = 10_000
METADATA = MetadataRequest(topics=())
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}


def a_node_with_sasl(*, max_reauth_ms: int = 0) -> NodeUnderTest:
    node = a_node()
    an_authenticator(node, max_reauth_ms=max_reauth_ms)
    return node


def an_authenticator(node: NodeUnderTest, *, max_reauth_ms: int = 0) -> SaslAuthenticator:
    digests = PasswordDigests(b"salt")
    for user, password in PASSWORDS.items():
        digests.add(user, password)
    plain = SaslMechanism("PLAIN", partial(PlainServer, digests), max_reauth_ms)
    return SaslAuthenticator(node.node, {"SECURE": SaslListener({"PLAIN": plain}, DELAY_MS)})


def a_client(node: NodeUnderTest) -> Client:
    return node.client(listener_name="SECURE", security_protocol="SASL_PLAINTEXT")


def log_in(client: Client, user: str = "alice") -> int:
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.NONE
    answer = client.ask(token(user, PASSWORDS[user]))
    assert answer.error_code == ErrorCode.NONE
    return answer.session_lifetime_ms


def token(user: str, password: str) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())


def test_a_client_has_a_name_once_it_has_authenticated() -> None:
    client = a_client(a_node_with_sasl())
    assert client.principal == ANONYMOUS
    assert log_in(client) == 0
    assert (client.principal, client.is_authenticated) == ("User:alice", True)
    assert client.ask(METADATA).cluster_id


def test_connections_of_other_listeners_pass() -> None:
    client = a_node_with_sasl().client()
    assert client.ask(METADATA).cluster_id
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.principal == ANONYMOUS


@pytest.mark.parametrize(
    "request_",
    [METADATA, token("alice", "alice-secret")],
    ids=["a request", "a token"],
)
def test_nothing_but_a_handshake_comes_first(request_: MetadataRequest | SaslAuthenticateRequest) -> None:
    with pytest.raises(ConnectionClosing):
        a_client(a_node_with_sasl()).send(request_)


def test_a_refusal_is_held_back_and_then_ends_the_connection() -> None:
    node = a_node_with_sasl()
    client = a_client(node)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(token("alice", "wrong"))
    node.pass_ms(DELAY_MS - 1)
    assert client.is_waiting
    assert client.hung_up is None
    node.pass_ms(1)
    assert client.take(SaslAuthenticateResponse).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.hung_up == "failed authentication with PLAIN: wrong user or password for 'alice'"
    assert client.principal == ANONYMOUS


def test_a_client_that_left_meanwhile_is_not_answered() -> None:
    node = a_node_with_sasl()
    client = a_client(node)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(token("alice", "wrong"))
    client.close()
    node.pass_ms(DELAY_MS)
    assert client.hung_up is None


def test_an_unknown_mechanism_is_answered_at_once_and_nothing_follows() -> None:
    node = a_node_with_sasl()
    client = a_client(node)
    answer = client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN",))
    with pytest.raises(ConnectionClosing):
        client.send(SaslHandshakeRequest(mechanism="PLAIN"))
    node.pass_ms(DELAY_MS)
    assert client.hung_up == "a SASL mechanism that is not enabled"


def test_versions_are_told_once() -> None:
    client = a_client(a_node_with_sasl())
    bad = ApiVersionsRequest(client_software_name="", client_software_version="")
    good = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert client.ask(bad).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(good).error_code == ErrorCode.NONE
    with pytest.raises(ConnectionClosing):
        client.send(good)


def test_another_request_among_the_tokens_is_refused() -> None:
    node = a_node_with_sasl()
    client = a_client(node)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(METADATA)
    node.pass_ms(DELAY_MS)
    assert client.hung_up is not None


def test_a_session_ends_unless_it_is_renewed_in_time() -> None:
    node = a_node_with_sasl(max_reauth_ms=LIFETIME_MS)
    client = a_client(node)
    assert log_in(client) == LIFETIME_MS
    node.pass_ms(LIFETIME_MS)
    assert client.ask(METADATA).cluster_id
    assert log_in(client) == LIFETIME_MS
    node.pass_ms(LIFETIME_MS)
    assert client.ask(METADATA).cluster_id
    node.pass_ms(1)
    with pytest.raises(ConnectionClosing, match="expired"):
        client.send(METADATA)


def test_an_expired_session_may_still_be_renewed() -> None:
    node = a_node_with_sasl(max_reauth_ms=LIFETIME_MS)
    client = a_client(node)
    log_in(client)
    node.pass_ms(2 * LIFETIME_MS)
    log_in(client)
    assert client.ask(METADATA).cluster_id


def test_a_renewal_must_be_by_the_same_user() -> None:
    node = a_node_with_sasl(max_reauth_ms=LIFETIME_MS)
    client = a_client(node)
    log_in(client, "alice")
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(token("bob", PASSWORDS["bob"]))
    node.pass_ms(DELAY_MS)
    answer = client.take(SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.principal == "User:alice"


def test_sessions_without_end_are_not_renewed() -> None:
    client = a_client(a_node_with_sasl())
    log_in(client)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(token("alice", "alice-secret")).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_closed_connection_is_forgotten() -> None:
    node = a_node()
    authenticator = an_authenticator(node)
    client = a_client(node)
    log_in(client)
    assert authenticator.sessions
    client.close()
    assert not authenticator.sessions


def test_without_an_authenticator_nobody_gets_in() -> None:
    with pytest.raises(ConnectionClosing):
        a_client(a_node()).send(METADATA)


class Stranger:
    """A connection that sends whatever bytes it likes."""

    def __init__(self) -> None:
        self.client_host = "/127.0.0.1"
        self.client_port = 40_000
        self.listener_name = "SECURE"
        self.security_protocol: SecurityProtocol = "SASL_PLAINTEXT"
        self.principal = ANONYMOUS
        self.is_authenticated = False
        self.is_closed = False
        self.client = ConnectedClient()
        self.reply_count = 0

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        self.reply_count += 1

    def hang_up(self, reason: str) -> None:
        self.is_closed = True


def frame_of(request: Request[Any], version: int) -> bytes:
    api = api_of(request)
    body = codec(type(request), version).build(request)
    return build_request_frame(api.key, version, 1, "x", body, flexible=api.is_flexible(version))[4:]


FRAMES = [
    frame_of(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3),
    frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 0),
    frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1),
    frame_of(token("alice", "wrong"), 0),
    frame_of(token("alice", "wrong"), 2),
    frame_of(METADATA, 12),
]


@given(st.lists(st.one_of(st.sampled_from(FRAMES), st.binary(max_size=40)), max_size=8), st.data())
def test_no_bytes_get_through_without_the_password(frames: list[bytes], data: st.DataObject) -> None:
    node = a_node_with_sasl()
    stranger = Stranger()
    for frame in frames:
        if frame and data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(frame) - 1))
            frame = frame[:at] + bytes([frame[at] ^ data.draw(st.integers(1, 255))]) + frame[at + 1 :]
        replies = stranger.reply_count
        try:
            node.node.route(frame, stranger, node.now, node.real_ms)
        except ConnectionClosing:
            break
        node.pass_ms(DELAY_MS)
        assert stranger.reply_count <= replies + 1
        if stranger.is_closed:
            break
    assert (stranger.principal, stranger.is_authenticated) == (ANONYMOUS, False)
    assert not node.defects


# Faults


def test_an_authentication_that_fails_once_ends_the_connection_and_the_next_one_works() -> None:
    node = a_node_with_sasl()
    fault = arm(faults_of(node), "SaslAuthenticate", {"error": "SASL_AUTHENTICATION_FAILED"}, client_id="app-*")
    client = node.client("app-1", listener_name="SECURE", security_protocol="SASL_PLAINTEXT")
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    answer = client.ask(token("alice", "alice-secret"))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
    node.pass_ms(1)
    assert client.hung_up is not None
    assert not client.is_authenticated
    assert [(firing.client_id, firing.listener) for firing in fault.fired] == [("app-1", "SECURE")]
    log_in(a_client(node))


def test_a_mechanism_is_refused_once() -> None:
    node = a_node_with_sasl()
    arm(faults_of(node), "SaslHandshake", {"error": "UNSUPPORTED_SASL_MECHANISM"})
    client = a_client(node)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    node.pass_ms(1)
    assert client.hung_up is not None
    log_in(a_client(node))


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_authentication_that_is_slow_still_works(when: str) -> None:
    node = a_node_with_sasl()
    arm(faults_of(node), "SaslAuthenticate", {"delay": 2, "when": when})
    client = a_client(node)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(token("alice", "alice-secret"))
    node.pass_ms(1_999)
    assert client.is_waiting
    node.pass_ms(1)
    assert client.take(SaslAuthenticateResponse).error_code == ErrorCode.NONE
    assert client.ask(METADATA).cluster_id


def test_a_slow_authentication_with_a_wrong_password_fails_as_ever() -> None:
    node = a_node_with_sasl()
    arm(faults_of(node), "SaslAuthenticate", {"delay": 2, "when": "before"})
    client = a_client(node)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(token("alice", "wrong"))
    node.pass_ms(2_000)
    assert client.is_waiting
    node.pass_ms(DELAY_MS)
    assert client.take(SaslAuthenticateResponse).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.hung_up is not None


@pytest.mark.parametrize("api", ["SaslHandshake", "SaslAuthenticate"])
def test_an_authentication_is_not_answered_or_cut_off(api: str) -> None:
    node = a_node_with_sasl()
    faults = faults_of(node)
    for do in ("hang", "drop_reply", {"disconnect": "after"}):
        fault = arm(faults, api, do)
        client = a_client(node)
        client.send(SaslHandshakeRequest(mechanism="PLAIN"))
        if api == "SaslAuthenticate":
            client.take(SaslHandshakeResponse)
            client.send(token("alice", "alice-secret"))
        node.pass_ms(1)
        assert (client.is_waiting, client.hung_up is not None) == (True, do == {"disconnect": "after"})
        assert fault.fired_count == 1
    arm(faults, api, {"disconnect": "before"})
    with pytest.raises(ConnectionClosing, match="injected fault"):
        log_in(a_client(node))
    log_in(a_client(node))


def test_a_rule_for_every_api_is_for_none_of_the_authentication() -> None:
    node = a_node_with_sasl()
    faults = faults_of(node)
    fault = arm(faults, "*", "hang")
    never = arm(faults, "SaslAuthenticate", "hang", client_id="other")
    client = a_client(node)
    log_in(client)
    client.send(METADATA)
    assert client.is_waiting
    assert [firing.api for firing in fault.fired] == ["Metadata"]
    assert never.seen_count == 1
