"""DescribeUserScramCredentials: which SCRAM credentials users have."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct

# fmt: off


@struct
class UserName(Struct):
    """One user."""

    name: str = string("0+")


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    """Ask for mechanisms and iterations (KIP-554), never for secrets."""

    users: tuple[UserName, ...] | None = array(UserName, "0+", nullable="0+")  # null or empty: all

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeUserScramCredentialsResponse:
        results = tuple(  # nameless, as Kafka's class makes them
            DescribeUserScramCredentialsResult(user="", error_code=error, error_message=message, credential_infos=())
            for _ in self.users or ()
        )
        return DescribeUserScramCredentialsResponse(error_code=error, error_message=message, results=results)


@struct
class CredentialInfo(Struct):
    """One credential."""

    mechanism:  int = int8("0+")   # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: int = int32("0+")


@struct
class DescribeUserScramCredentialsResult(Struct):
    """One user with the credentials."""

    user:             str                        = string("0+")
    error_code:       int                        = int16("0+")
    error_message:    str | None                 = string("0+", nullable="0+")
    credential_infos: tuple[CredentialInfo, ...] = array(CredentialInfo, "0+")


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Struct):
    """One result a user."""

    throttle_time_ms: int                                            = int32("0+", default=0)
    error_code:       int                                            = int16("0+")
    error_message:    str | None                                     = string("0+", nullable="0+")
    results:          tuple[DescribeUserScramCredentialsResult, ...] = array(DescribeUserScramCredentialsResult, "0+")

# fmt: on
