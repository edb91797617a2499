"""Principals of certificates are those that Java's X500Principal, and so Kafka, names."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.support.certificates import Authority
from integration.support.jvm import Jvm
from kshim.server.distinguished_name import subject_of

AUTHORITY = Authority()
A = x509.NameAttribute
CN, O, OU, C = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COUNTRY_NAME  # noqa: E741
KINDS = (
    CN,
    O,
    OU,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.DOMAIN_COMPONENT,
    NameOID.USER_ID,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    ObjectIdentifier("2.999.1234567"),
)
CASES = [
    (x509.Name([A(C, "DE"), A(O, "A, Inc."), A(OU, "team"), A(CN, "alice")]), r"CN=alice,OU=team,O=A\, Inc.,C=DE"),
    (x509.Name([A(CN, " #a+b=\"c\"\\<d>; ")]), r"CN=\ \#a\+b\=\"c\"\\\<d\>\;\ "),
    (x509.Name([A(CN, "Jürgen \u2603")]), "CN=Jürgen \u2603"),
    (x509.Name([A(NameOID.EMAIL_ADDRESS, "a@b.example"), A(CN, "a")]), "CN=a,1.2.840.113549.1.9.1=#160b6140622e6578616d706c65"),
    (x509.Name([A(CN, "wide", _ASN1Type.BMPString)]), r"CN=\00w\00i\00d\00e"),
    (
        x509.Name([x509.RelativeDistinguishedName([A(CN, "a"), A(OU, "b")]), x509.RelativeDistinguishedName([A(O, "c")])]),
        "O=c,CN=a+OU=b",
    ),
    (x509.Name([A(CN, "old", _ASN1Type.T61String), A(O, "older", _ASN1Type.IA5String)]), "O=older,CN=old"),
    (x509.Name([]), ""),
]  # fmt: skip


def names() -> st.SearchStrategy[x509.Name]:
    text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
    part = st.builds(A, st.sampled_from(KINDS), text, st.just(_ASN1Type.UTF8String))
    return st.lists(part, max_size=5).map(x509.Name)


@pytest.mark.parametrize(("subject", "expected"), CASES)
def test_a_subject_is_written_as_rfc_2253_has_it(subject: x509.Name, expected: str) -> None:
    assert subject_of(AUTHORITY.signs(subject).certificate_der) == expected


def test_bytes_that_are_no_certificate_are_refused() -> None:
    der = AUTHORITY.signs("a").certificate_der
    with pytest.raises(ValueError, match="DER ends"):
        subject_of(der[:-1])


@pytest.mark.java
@pytest.mark.parametrize("subject", [subject for subject, _ in CASES])
def test_java_names_the_same(jvm: Jvm, subject: x509.Name) -> None:
    certificate = AUTHORITY.signs(subject).certificate_der
    assert subject_of(certificate) == java_subject_of(jvm, certificate)


@pytest.mark.java
def test_java_names_any_subject_the_same(jvm: Jvm) -> None:
    @settings(max_examples=100, deadline=None)
    @given(names())
    def check(subject: x509.Name) -> None:
        certificate = AUTHORITY.signs(subject).certificate_der
        assert subject_of(certificate) == java_subject_of(jvm, certificate)

    check()


def java_subject_of(jvm: Jvm, certificate: bytes) -> str:
    stream = jvm.classes.java.io.ByteArrayInputStream(certificate)
    factory = jvm.classes.java.security.cert.CertificateFactory.getInstance("X.509")
    return str(factory.generateCertificate(stream).getSubjectX500Principal().getName())
