"""A certificate authority of this process, which signs the certificate of the brokers that speak TLS."""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from typing import NamedTuple

_HOSTS = ("127.0.0.1", "localhost")


class Authority(NamedTuple):
    """`ca_pem` is what clients have to trust; `key_pem` and `chain_pem` are the brokers' key and certificate."""

    ca_pem: str
    key_pem: str
    chain_pem: str


@lru_cache(maxsize=1)
def authority() -> Authority:
    """The one of this process, made when first asked for. Raises RuntimeError without the extra `kshim[tls]`."""
    try:
        import trustme
    except ImportError as error:
        raise RuntimeError("tls=True needs the extra kshim[tls]: python -m pip install 'kshim[tls]'") from error
    ca = trustme.CA()
    certificate = ca.issue_cert(*_HOSTS)
    return Authority(
        ca.cert_pem.bytes().decode(),
        certificate.private_key_pem.bytes().decode(),
        "".join(pem.bytes().decode() for pem in certificate.cert_chain_pems),
    )


class CaFile:
    """A file with the certificate of the authority, from its making to `remove`."""

    def __init__(self, pem: str) -> None:
        number, self.path = tempfile.mkstemp(prefix="kshim-", suffix=".pem")
        with os.fdopen(number, "w") as file:
            file.write(pem)

    def remove(self) -> None:
        """Delete the file. Idempotent."""
        if os.path.exists(self.path):
            os.unlink(self.path)
