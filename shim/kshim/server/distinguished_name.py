"""The subject of an X.509 certificate as Kafka names a client by it: RFC 2253, in Java's dialect."""

from __future__ import annotations

from typing import Final, NamedTuple

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attribute types that have a name; others are written as numbers, with their value's DER as hexadecimal digits."""
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""UTF8, Printable, T61, IA5, General, Universal and BMP strings. Java reads each of them as UTF-8, so we do."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SEQUENCE, _SET, _OID, _EXPLICIT_0 = 0x30, 0x31, 0x06, 0xA0


class _Element(NamedTuple):
    """One DER element: its tag, its content, and the whole of it."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER, e.g. `CN=alice,OU=team,C=DE`; "" when it has none.

    Source: X500Principal.getName, which Kafka's DefaultKafkaPrincipalBuilder takes. Raises ValueError for bytes that
    are no certificate; those that TLS has accepted are one.
    """
    (outer,) = _elements(certificate)
    fields = _elements(_elements(outer.content)[0].content)
    if fields[0].tag == _EXPLICIT_0:  # the version
        fields = fields[1:]
    return ",".join(_relative_name(part) for part in reversed(_elements(fields[4].content)))


def _relative_name(element: _Element) -> str:
    return "+".join(_attribute(part) for part in _elements(element.content))


def _attribute(element: _Element) -> str:
    kind, value = _elements(element.content)
    oid = _oid(kind.content)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    bare = text.strip(" \r")
    begin = text.find(bare) if bare else len(text)
    end = begin + len(bare)
    return "".join(
        # Blanks at either end would otherwise be taken for none of the name.
        "\\" + character
        if character in _ESCAPED or not begin <= at < end
        else "\\00"
        if character == "\0"
        else character
        for at, character in enumerate(text)
    )


def _oid(content: bytes) -> str:
    numbers = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> list[_Element]:
    """The elements that `data` holds one after the other. Raises ValueError."""
    found = []
    at = 0
    while at < len(data):
        header_end = at + 2
        if header_end > len(data):
            raise ValueError("DER ends in the middle of an element")
        size = data[at + 1]
        if size & 0x80:
            width = size & 0x7F
            header_end += width
            size = int.from_bytes(data[at + 2 : header_end], "big")
        end = header_end + size
        if end > len(data):
            raise ValueError("DER ends in the middle of an element")
        found.append(_Element(data[at], data[header_end:end], data[at:end]))
        at = end
    return found
