"""Certificates made for a test: an authority, and what it signs, as PEM files and texts."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
_VALID = datetime.timedelta(days=2)


def name(common_name: str) -> x509.Name:
    """A subject that is only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Identity:
    """A private key and its certificate."""

    def __init__(self, key: Key, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def certificate_der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def key_pem(self, password: str | None = None) -> str:
        """PKCS#8, which is what Kafka reads; encrypted if there is a password."""
        protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            protection = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
        ).decode()

    def write(self, path: Path, password: str | None = None) -> Path:
        """Key and certificate in one file, as `ssl.keystore.location` names one."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path


class Authority(Identity):
    """Signs itself, and others."""

    def __init__(self, common_name: str = "an authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = name(common_name)
        builder = (
            _builder(subject, subject, key, issuer_key=key)
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
        )
        super().__init__(key, builder.sign(key, hashes.SHA256()))

    def signs(self, subject: x509.Name | str, *, hosts: Sequence[str] = (), key: Key | None = None) -> Identity:
        """A new key, or the one given, whose certificate holds for `hosts`, names or addresses."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = name(subject) if isinstance(subject, str) else subject
        builder = _builder(subject, self.certificate.subject, key, issuer_key=self.key)
        is_nameless = not list(subject)  # then Java asks for a critical alternative name, as RFC 5280 does
        if names := [_alternative(host) for host in hosts or (("nobody.example",) if is_nameless else ())]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=is_nameless)
        return Identity(key, builder.sign(self.key, hashes.SHA256()))

    def server(self) -> Identity:
        """One for this machine."""
        return self.signs("a server", hosts=("localhost", "127.0.0.1"))

    def client_context(self, identity: Identity | None = None, folder: Path | None = None) -> ssl.SSLContext:
        """What a client that trusts this authority uses; with `identity` it shows a certificate, kept in `folder`."""
        context = ssl.create_default_context(cadata=self.certificate_pem)
        if identity is not None:
            assert folder is not None
            context.load_cert_chain(identity.write(folder / "client.pem"))
        return context


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, *, issuer_key: Key) -> x509.CertificateBuilder:
    """One with the identifiers of both keys, without which Python 3.13 trusts no certificate (RFC 5280, strictly)."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
