"""The file of `--users`: one user a line, with a password or with a SCRAM credential.

```
# comment
alice:her password, to the end of the line
bob:SCRAM-SHA-256$4096:c2FsdA==$<stored key, base64>:<server key, base64>
```
The second form is the one of RFC 5803 in the spelling of PostgreSQL: it holds no password, and serves one mechanism.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import NamedTuple

from kshim.security.authentication.scram import SCRAM_MECHANISMS, ScramCredential

_CREDENTIAL = re.compile(
    r"(SCRAM-SHA-256|SCRAM-SHA-512)\$(\d{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)"
)


class UserLine(NamedTuple):
    """One line: `password`, or `mechanism` and `credential`. `repr` shows neither."""

    user: str
    password: str | None = None
    mechanism: str | None = None
    credential: ScramCredential | None = None

    def __repr__(self) -> str:
        return f"<user {self.user}>"


def parse_users(text: str) -> list[UserLine]:
    """The users in the order of the file. Raises ValueError, which names the line by its number, never by its text."""
    users = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        user, colon, secret = line.partition(":")
        user = user.strip()
        if not colon or not user or not secret:
            raise ValueError(f"line {number} is not NAME:PASSWORD")
        match = _CREDENTIAL.fullmatch(secret.strip())
        if match is None:
            if secret.startswith("SCRAM-SHA-"):
                raise ValueError(
                    f"line {number} is no SCRAM credential: MECHANISM$ITERATIONS:SALT$STORED-KEY:SERVER-KEY"
                )
            users.append(UserLine(user, password=secret))
            continue
        try:
            salt, stored_key, server_key = (b64decode(part, validate=True) for part in match.group(3, 4, 5))
        except ValueError:
            raise ValueError(f"line {number}: a part of the SCRAM credential is not base64") from None
        users.append(
            UserLine(
                user,
                mechanism=match[1],
                credential=ScramCredential(salt, int(match[2]), stored_key=stored_key, server_key=server_key),
            )
        )
    return users


def credential_line(user: str, mechanism: str, credential: ScramCredential) -> str:
    """The line of a user with a salted credential."""
    assert mechanism in SCRAM_MECHANISMS
    salt, stored_key, server_key = (
        b64encode(part).decode() for part in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"{user}:{mechanism}${credential.iterations}:{salt}${stored_key}:{server_key}"
