"""Frame by frame: what both brokers make of clients that authenticate, fail to, or do not want to."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from integration.security.sasl_client import Refused, ScramClient, authenticate, connected, token
from integration.security.secured import ADMIN, ADMIN_PASSWORD, SESSION_MS, USERS, SecureKafka, SecureKshim
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kshim_protocol.messages.metadata import MetadataRequest
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kshim_protocol.messages.sasl_handshake import SaslHandshakeRequest

Address = tuple[str, int]
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
METADATA = MetadataRequest(topics=())
DELAY_S = 0.2
"""connection.failed.authentication.delay.ms of both."""


@pytest.fixture
def address(secure_broker: SecureKshim | SecureKafka) -> Address:
    return secure_broker.secure


@pytest.fixture
def client(address: Address) -> Iterator[Client]:
    client = Client(*address, client_id="test")
    yield client
    client.close()


@pytest.fixture
def short_client(secure_broker: SecureKshim | SecureKafka) -> Iterator[Client]:
    """A connection whose session will be short."""
    client = Client(*secure_broker.short, client_id="test")
    yield client
    client.close()


def is_closed(client: Client) -> bool:
    """Whether the broker ends the connection without another word."""
    try:
        assert client.receive(5.0) is None
    except BrokerGone:
        return True
    return False


def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


def test_versions_may_be_asked_once_before(client: Client) -> None:
    assert client.ask(VERSIONS, 4).error_code == 0
    client.send(VERSIONS, 4)
    assert is_closed(client)


def test_versions_refused_may_be_asked_again(client: Client) -> None:
    bad = ApiVersionsRequest(client_software_name="", client_software_version="")
    assert client.ask(bad, 4).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(VERSIONS, 4).error_code == 0
    assert handshake(client).error_code == 0


def test_any_other_request_before_ends_the_connection(client: Client) -> None:
    client.send(METADATA, 9)
    assert is_closed(client)


def test_tokens_before_a_handshake_end_the_connection(client: Client) -> None:
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
    assert is_closed(client)


def test_an_unknown_mechanism_is_told_those_there_are(client: Client) -> None:
    answer = handshake(client, "GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert set(answer.mechanisms) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert is_closed(client)


def test_a_name_and_its_password_are_enough(client: Client) -> None:
    assert authenticate(client, "bob", USERS["bob"]) == 0
    assert client.ask(METADATA, 9).cluster_id


@pytest.mark.parametrize(
    ("auth_bytes", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0alice-secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (
            b"alice\0alice-secret",
            "Invalid SASL/PLAIN response: expected 3 tokens, got 2",
        ),
        (
            b"\0\0alice-secret",
            "Authentication failed: username not specified",
        ),
        (
            b"\0alice\0",
            "Authentication failed: password not specified",
        ),
    ],
)
def test_a_wrong_token_is_answered_late_and_ends_the_connection(
    client: Client, auth_bytes: bytes, message: str
) -> None:
    handshake(client)
    begun = time.monotonic()
    with pytest.raises(Refused) as refused:
        token(client, auth_bytes)
    assert time.monotonic() - begun >= DELAY_S
    assert (refused.value.code, refused.value.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)
    assert is_closed(client)


def test_an_authorization_id_may_be_that_of_the_user(client: Client) -> None:
    handshake(client)
    assert token(client, b"alice\0alice\0alice-secret").auth_bytes == b""


def test_another_request_among_the_tokens_is_answered_and_ends_the_connection(client: Client) -> None:
    handshake(client)
    answer = client.ask(MetadataRequest(topics=None), 13)
    assert answer.error_code in (0, ErrorCode.ILLEGAL_SASL_STATE)
    assert answer.brokers == ()
    assert is_closed(client)


def test_old_clients_send_bare_tokens(address: Address) -> None:
    with socket.create_connection(address, timeout=5) as sock, sock.makefile("rb") as reader:
        sock.sendall(framed(struct.pack(">hhihh", 17, 0, 1, -1, 5) + b"PLAIN"))
        (size,) = struct.unpack(">i", reader.read(4))
        assert struct.unpack_from(">ih", reader.read(size)) == (1, 0)
        sock.sendall(framed(b"\0alice\0alice-secret"))
        assert reader.read(4) == bytes(4)
        sock.sendall(framed(struct.pack(">hhihi", 3, 1, 2, -1, 0)))
        (size,) = struct.unpack(">i", reader.read(4))
        assert struct.unpack_from(">i", reader.read(size)) == (2,)


def test_old_clients_hear_nothing_of_a_wrong_token(address: Address) -> None:
    with socket.create_connection(address, timeout=5) as sock, sock.makefile("rb") as reader:
        sock.sendall(framed(struct.pack(">hhihh", 17, 0, 1, -1, 5) + b"PLAIN"))
        (size,) = struct.unpack(">i", reader.read(4))
        reader.read(size)
        sock.sendall(framed(b"\0alice\0wrong"))
        assert reader.read(1) == b""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_a_session_is_renewed_by_the_same_user_only(short_client: Client) -> None:
    authenticate(short_client, "alice", USERS["alice"])
    with pytest.raises(Refused) as refused:
        authenticate(short_client, "bob", USERS["bob"])
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.value.message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert is_closed(short_client)


def test_a_session_is_not_renewed_with_another_mechanism(short_client: Client) -> None:
    authenticate(short_client, "alice", USERS["alice"])
    assert handshake(short_client, "SCRAM-SHA-256").error_code == 0
    first = ScramClient("alice", "", "SCRAM-SHA-256").first()
    short_client.send(SaslAuthenticateRequest(auth_bytes=first), 2)
    assert is_closed(short_client)


def test_a_session_may_not_be_renewed_twice_within_a_second(short_client: Client) -> None:
    authenticate(short_client, "alice", USERS["alice"])
    assert authenticate(short_client, "alice", USERS["alice"]) == SESSION_MS
    assert handshake(short_client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert short_client.ask(METADATA, 9).cluster_id


def test_a_session_ends_when_it_is_not_renewed(short_client: Client) -> None:
    assert authenticate(short_client, "alice", USERS["alice"]) == SESSION_MS
    assert short_client.ask(METADATA, 9).cluster_id
    time.sleep(SESSION_MS / 1_000 + 0.1)
    short_client.send(METADATA, 9)
    assert is_closed(short_client)


def test_a_session_without_end_is_not_renewed(client: Client) -> None:
    authenticate(client, "alice", USERS["alice"])
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(METADATA, 9).cluster_id


def test_tokens_after_the_end_are_out_of_place_and_the_connection_stays(client: Client) -> None:
    authenticate(client, "alice", USERS["alice"])
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
    assert client.ask(METADATA, 9).cluster_id


def test_scram_credentials_are_made_used_and_removed(address: Address) -> None:
    admin = connected(address, ADMIN, ADMIN_PASSWORD)
    try:
        password, salt = "pencil", b"W22ZaJ0SNY7soEsUEjb6gQ=="
        for number in (1, 2):  # one request may name a user once
            row = upsert("carol", number, password, salt)
            changed = admin.ask(AlterUserScramCredentialsRequest(deletions=(), upsertions=(row,)), 0)
            assert [(row.user, row.error_code) for row in changed.results] == [("carol", 0)]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            eventually(address, "carol", password, mechanism).close()
            with pytest.raises(Refused) as refused:
                connected(address, "carol", "wrong", mechanism)
            assert refused.value.message == (
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
            )
        asked = DescribeUserScramCredentialsRequest(users=(UserName(name="carol"), UserName(name="nobody")))
        told = admin.ask(asked, 0)
        assert [
            (row.user, row.error_code, sorted((info.mechanism, info.iterations) for info in row.credential_infos))
            for row in told.results
        ] == [("carol", 0, [(1, 4096), (2, 4096)]), ("nobody", ErrorCode.RESOURCE_NOT_FOUND, [])]
        deletion = ScramCredentialDeletion(name="carol", mechanism=2)
        admin.ask(AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=()), 0)
        deadline = time.monotonic() + 10
        while len(admin.ask(asked, 0).results[0].credential_infos) > 1:
            assert time.monotonic() < deadline
        connected(address, "carol", password, "SCRAM-SHA-256").close()
        with pytest.raises(Refused):
            connected(address, "carol", password, "SCRAM-SHA-512")
    finally:
        admin.close()


def upsert(user: str, mechanism: int, password: str, salt: bytes, iterations: int = 4096) -> ScramCredentialUpsertion:
    import hashlib

    name = {1: "sha256", 2: "sha512"}.get(mechanism, "sha256")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, 4096)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def eventually(address: Address, user: str, password: str, mechanism: str) -> Client:
    """Kafka's controller answers a moment before its broker knows."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return connected(address, user, password, mechanism)
        except Refused:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_mistakes_in_credentials_are_told_by_user(address: Address) -> None:
    admin = connected(address, ADMIN, ADMIN_PASSWORD)
    try:
        request = AlterUserScramCredentialsRequest(
            deletions=(
                ScramCredentialDeletion(name="gone", mechanism=1),
                ScramCredentialDeletion(name="odd", mechanism=0),
            ),
            upsertions=(
                upsert("few", 1, "x", b"salt", iterations=4095),
                upsert("many", 1, "x", b"salt", iterations=16_385),
                upsert("", 1, "x", b"salt"),
                upsert("unknown", 3, "x", b"salt"),
                upsert("twice", 1, "x", b"salt"),
                upsert("twice", 1, "y", b"salt"),
            ),
        )
        told = {row.user: (row.error_code, row.error_message) for row in admin.ask(request, 0).results}
        assert told == {
            "gone": (91, "Attempt to delete a user credential that does not exist"),
            "odd": (33, "Unknown SCRAM mechanism"),
            "few": (93, "Too few iterations"),
            "many": (93, "Too many iterations"),
            "": (93, "Username must not be empty"),
            "unknown": (33, "Unknown SCRAM mechanism"),
            "twice": (92, "A user credential cannot be altered twice in the same request"),
        }
        names = (UserName(name="nobody"), UserName(name="nobody"))
        (row,) = admin.ask(DescribeUserScramCredentialsRequest(users=names), 0).results
        assert (row.error_code, row.error_message) == (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: nobody",
        )
    finally:
        admin.close()
