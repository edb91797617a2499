"""AlterUserScramCredentials: change SCRAM credentials."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, bytes_, int8, int16, int32, message, string, struct

# fmt: off


@struct
class ScramCredentialDeletion(Struct):
    """A credential to remove."""

    name:      str = string("0+")
    mechanism: int = int8("0+")    # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


@struct
class ScramCredentialUpsertion(Struct):
    """A credential to set."""

    name:            str   = string("0+")
    mechanism:       int   = int8("0+")
    iterations:      int   = int32("0+")
    salt:            bytes = bytes_("0+")
    salted_password: bytes = bytes_("0+")


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    """Set or remove credentials (KIP-554)."""

    deletions:  tuple[ScramCredentialDeletion, ...]  = array(ScramCredentialDeletion, "0+")
    upsertions: tuple[ScramCredentialUpsertion, ...] = array(ScramCredentialUpsertion, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AlterUserScramCredentialsResponse:
        users = dict.fromkeys([*(row.name for row in self.deletions), *(row.name for row in self.upsertions)])
        return AlterUserScramCredentialsResponse(
            results=tuple(
                AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)
                for user in sorted(users, key=_utf_16)
            )
        )


def _utf_16(text: str) -> bytes:
    """Texts are sorted by this as Java sorts them: those beyond the first 65,536 characters come before U+E000."""
    return text.encode("utf-16-be", "surrogatepass")


@struct
class AlterUserScramCredentialsResult(Struct):
    """The result of one user."""

    user:          str        = string("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Struct):
    """One result a user."""

    throttle_time_ms: int                                         = int32("0+", default=0)
    results:          tuple[AlterUserScramCredentialsResult, ...] = array(AlterUserScramCredentialsResult, "0+")

# fmt: on
