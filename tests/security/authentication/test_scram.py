"""SCRAM against the vectors of its RFCs, and against clients that cheat."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import sha256

import pytest

from kshim.security.authentication.mechanism import AuthenticationFailed
from kshim.security.authentication.scram import ScramCredential, ScramServer, salted_password

# RFC 7677, section 3: user "user", password "pencil".
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(mechanism: str = "SCRAM-SHA-256", password: str = "pencil") -> ScramCredential:
    return ScramCredential.of(mechanism, SALT, 4096, salted_password(mechanism, password, SALT, 4096))


def server(user: str = "user", mechanism: str = "SCRAM-SHA-256", nonce: str = SERVER_NONCE) -> ScramServer:
    known = {user: credential(mechanism)}
    return ScramServer(mechanism, known.get, lambda: nonce)


def test_the_exchange_of_rfc_7677() -> None:
    exchange = server()
    assert exchange.evaluate(CLIENT_FIRST) == SERVER_FIRST
    assert exchange.user is None
    assert exchange.evaluate(CLIENT_FINAL) == SERVER_FINAL
    assert exchange.user == "user"


def test_the_exchange_of_scram_sha_512() -> None:
    """Vector of RFC 7677's scheme with SHA-512, computed from the RFC's formulas in the test itself."""
    mechanism = "SCRAM-SHA-512"
    exchange = server(mechanism=mechanism, nonce="server")
    first = exchange.evaluate(b"n,,n=user,r=client").decode()
    salted = salted_password(mechanism, "pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    message = f"n=user,r=client,{first},c=biws,r=clientserver".encode()
    signature = hmac.digest(credential(mechanism).stored_key, message, "sha512")
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    assert exchange.evaluate(f"c=biws,r=clientserver,p={proof}".encode()).startswith(b"v=")
    assert exchange.user == "user"


def test_the_stored_keys_are_those_of_rfc_5802() -> None:
    keys = credential()
    salted = salted_password("SCRAM-SHA-256", "pencil", SALT, 4096)
    assert keys.stored_key == sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    assert keys.server_key == hmac.digest(salted, b"Server Key", "sha256")


def test_a_wrong_password_is_found_out() -> None:
    exchange = ScramServer("SCRAM-SHA-256", lambda user: credential(password="pen"), lambda: SERVER_NONCE)
    exchange.evaluate(CLIENT_FIRST)
    with pytest.raises(AuthenticationFailed, match="wrong password for 'user'"):
        exchange.evaluate(CLIENT_FINAL)
    assert exchange.user is None


def test_an_unknown_user_hears_the_same_as_one_with_a_wrong_password() -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        server().evaluate(b"n,,n=nobody,r=x")
    assert failed.value.message is None


@pytest.mark.parametrize(
    "final",
    [
        CLIENT_FINAL.replace(b"r=rOpr", b"r=sOpr"),
        CLIENT_FINAL.replace(b"c=biws", b"c=cD10bHM="),
        CLIENT_FINAL.replace(b"p=dHzb", b"p=eHzb"),
        CLIENT_FINAL.replace(b"p=dHzbZapW", b"p="),
        CLIENT_FINAL.replace(b"p=", b"p=="),
        CLIENT_FINAL.partition(b",p=")[0],
        b"",
        b"\xff",
        b"v=x",
    ],
)
def test_a_final_message_that_is_not_right_is_refused_and_gives_no_second_chance(final: bytes) -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    with pytest.raises(AuthenticationFailed):
        exchange.evaluate(final)
    assert exchange.user is None


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,n=user",
        b"n,,n=,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=x\0",
        b"n,,n=user,r=a b",
        b"\xff\xfe",
    ],
)
def test_a_first_message_that_is_not_right_is_refused(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        server().evaluate(first)


def test_names_may_hold_commas_and_equals_signs() -> None:
    assert server("a,b=c").evaluate(b"n,,n=a=2Cb=3Dc,r=x").startswith(b"r=x")


def test_who_asks_to_be_somebody_else_is_refused() -> None:
    assert server().evaluate(b"n,a=user,n=user,r=x").startswith(b"r=x")
    with pytest.raises(AuthenticationFailed) as failed:
        server().evaluate(b"n,a=other,n=user,r=x")
    assert failed.value.message is not None


def test_nothing_shows_the_keys() -> None:
    keys = credential()
    assert repr(keys) == "<SCRAM credential, 4096 iterations>"
    assert str(keys) == repr(keys)
