"""Where users come from: Kafka's JAAS entries, the file of `--users`, stored credentials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.security.authentication.credentials import ScramCredentials, credentials_text, read_credentials
from kshim.security.authentication.jaas import parse_jaas
from kshim.security.authentication.mechanism import AuthenticationFailed
from kshim.security.authentication.plain import PasswordDigests, PlainServer
from kshim.security.authentication.scram import ScramCredential, salted_password
from kshim.security.authentication.settings import Randomness, sasl_listeners
from kshim.security.authentication.users_file import credential_line, parse_users
from kshim.storage.log import LogError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
CREDENTIAL = ScramCredential(b"salt", 4096, stored_key=b"stored", server_key=b"server")


def test_a_jaas_entry_names_users_and_passwords() -> None:
    entry = parse_jaas(
        f'{PLAIN} required\n username="broker" password="b" // its own\n user_alice="a;=b" user_bob=\'x\\ty\\"z\' user_c=d;'
    )
    assert entry.module == PLAIN
    assert entry.users() == {"alice": "a;=b", "bob": 'x\ty"z', "c": "d"}


@given(st.dictionaries(st.from_regex("[a-z]+", fullmatch=True), st.text().filter(lambda text: "\n" not in text)))
def test_any_password_can_be_written_in_quotes(users: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    options = " ".join(f"user_{user}={quoted(password)}" for user, password in users.items())
    assert parse_jaas(f"{PLAIN} required {options} ;").users() == users


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN,
        f"{PLAIN} required",
        f'{PLAIN} required user_a="hush"',
        f'{PLAIN} required user_a="hush',
        f"{PLAIN} required user_a=;",
        f'{PLAIN} required "hush";',
        f'{PLAIN} sometimes user_a="hush";',
        f'{PLAIN} required user_a="hush"; {PLAIN} required;',
        f"{PLAIN} required /* hush",
    ],
)
def test_a_broken_jaas_entry_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is looked at
        parse_jaas(text)
    assert "hush" not in str(refused.value)


def test_nothing_shows_passwords() -> None:
    assert "hush" not in repr(parse_jaas(f'{PLAIN} required user_a="hush";'))
    assert "hush" not in repr(parse_users("alice:hush"))
    digests = PasswordDigests(b"salt")
    digests.add("alice", "hush")
    assert "hush" not in repr(vars(type(digests))) + repr(digests)


def test_a_file_holds_passwords_and_credentials() -> None:
    line = credential_line("bob", "SCRAM-SHA-256", CREDENTIAL)
    alice, bob = parse_users(f"# people\n\nalice: pass:word \n{line}\n")
    assert (alice.user, alice.password, alice.credential) == ("alice", " pass:word ", None)
    assert (bob.user, bob.password, bob.mechanism, bob.credential) == ("bob", None, "SCRAM-SHA-256", CREDENTIAL)


@pytest.mark.parametrize(
    "line", ["hush", ":hush", "alice:", "alice:SCRAM-SHA-256$hush", "alice:SCRAM-SHA-256$1:a$hushhus$b:x"]
)
def test_a_broken_line_is_named_by_its_number(line: str) -> None:
    with pytest.raises(ValueError, match="line 2") as refused:
        parse_users("bob:x\n" + line)
    assert "hush" not in str(refused.value)


def test_plain_takes_user_and_password() -> None:
    digests = PasswordDigests(b"salt")
    digests.add("alice", "geheim-ü")
    server = PlainServer(digests)
    assert server.evaluate("\0alice\0geheim-ü".encode()) == b""
    assert server.user == "alice"
    with pytest.raises(AuthenticationFailed):
        server.evaluate(b"\0alice\0x")


@pytest.mark.parametrize(
    "token", [b"\0alice\0Secret", b"\0bob\0secret", b"\0alice\0secret\0", b"\xff", b"bob\0alice\0secret"]
)
def test_plain_refuses_what_is_not_right(token: bytes) -> None:
    digests = PasswordDigests(b"salt")
    digests.add("alice", "secret")
    server = PlainServer(digests)
    with pytest.raises(AuthenticationFailed) as failed:
        server.evaluate(token)
    assert server.user is None
    assert "secret" not in failed.value.reason.lower()


def test_credentials_survive_in_their_document_and_hold_no_password() -> None:
    keys = ScramCredential.of("SCRAM-SHA-512", b"salt", 4096, salted_password("SCRAM-SHA-512", "hush", b"salt", 4096))
    text = credentials_text({("alice", "SCRAM-SHA-512"): keys})
    assert read_credentials(text) == {("alice", "SCRAM-SHA-512"): keys}
    assert "hush" not in text


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 9}', '{"version": 1, "credentials": [{"user": "hush"}]}']
)
def test_a_damaged_document_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is looked at
        read_credentials(text)
    assert "hush" not in str(refused.value)


def test_credentials_that_cannot_be_saved_do_not_count() -> None:
    def fail(text: str) -> None:
        raise LogError("no space left")

    credentials = ScramCredentials(save=fail)
    with pytest.raises(LogError):
        credentials.change({("alice", "SCRAM-SHA-256"): CREDENTIAL}, ())
    assert credentials.find("SCRAM-SHA-256", "alice") is None


def test_a_stored_credential_goes_before_one_of_the_file() -> None:
    credentials = ScramCredentials()
    credentials.fixed["alice", "SCRAM-SHA-256"] = CREDENTIAL
    other = CREDENTIAL._replace(iterations=8192)
    credentials.change({("alice", "SCRAM-SHA-256"): other}, ())
    assert credentials.find("SCRAM-SHA-256", "alice") is other
    credentials.change({}, [("alice", "SCRAM-SHA-256")])
    assert credentials.find("SCRAM-SHA-256", "alice") is CREDENTIAL


RANDOMNESS = Randomness(lambda: b"0123456789abcdef", lambda: "nonce")


def test_listeners_have_their_own_users_mechanisms_and_times() -> None:
    config = BrokerConfig(
        {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.b.sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN",
            "listener.name.a.plain.sasl.jaas.config": f'{PLAIN} required user_alice="a";',
            "plain.sasl.jaas.config": f'{PLAIN} required user_bob="b";',
            "connections.max.reauth.ms": "5000",
            "listener.name.b.plain.connections.max.reauth.ms": "7000",
            "connection.failed.authentication.delay.ms": "30",
        }
    )
    credentials = ScramCredentials()
    listeners = sasl_listeners(config, ["A", "B"], parse_users("carol:c"), credentials, RANDOMNESS)
    a, b = listeners["A"], listeners["B"]
    assert (list(a.mechanisms), list(b.mechanisms)) == (["PLAIN"], ["SCRAM-SHA-512", "PLAIN"])
    assert (a.mechanisms["PLAIN"].max_reauth_ms, b.mechanisms["PLAIN"].max_reauth_ms) == (5000, 7000)
    assert b.mechanisms["SCRAM-SHA-512"].max_reauth_ms == 5000
    assert a.failure_delay_ms == 30
    for listener, users in ((a, "alice carol"), (b, "bob carol")):
        assert {user for user in ("alice", "bob", "carol") if may_log_in(listener.mechanisms["PLAIN"], user)} == set(
            users.split()
        )
    assert credentials.users() == ["carol"]
    assert credentials.find("SCRAM-SHA-256", "carol") is None


def may_log_in(mechanism: object, user: str) -> bool:
    try:
        mechanism.start().evaluate(f"\0{user}\0{user[0]}".encode())  # type: ignore[attr-defined]
    except AuthenticationFailed:
        return False
    return True


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("sasl.enabled.mechanisms", "PLAIN,OAUTHBEARER"),
        ("listener.name.a.plain.sasl.jaas.config", 'user_a="hush"'),
        ("listener.name.a.plain.sasl.jaas.config", 'com.example.Login required user_a="hush";'),
    ],
)
def test_what_cannot_be_is_refused_without_showing_secrets(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        sasl_listeners(BrokerConfig({key: value}), ["A"], (), ScramCredentials(), RANDOMNESS)
    assert refused.value.key == key
    assert "hush" not in str(refused.value)
