"""Java's `.properties` format, as Kafka reads `server.properties`."""

from __future__ import annotations

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Read keys and values; the last of equal keys wins. Raises ValueError for a broken `\uXXXX`.

    Source: java.util.Properties.load. `#` and `!` begin comments, `=`, `:` or blanks end a key, a line that ends in an
    odd number of backslashes goes on in the next one without that line's leading blanks.

    >>> parse_properties("log.dirs = /var/log\\\n   /kafka\n# no\n")
    {'log.dirs': '/var/log/kafka'}
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        end, value_at = _key_end(line)
        found[_unescape(line[:end])] = _unescape(line[value_at:])
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    held = ""
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANK)
        if not held and (not line or line[0] in "#!"):
            continue
        line = held + line
        held = ""
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held = line[:-1]
        else:
            lines.append(line)
    if held:
        lines.append(held)
    return lines


def _key_end(line: str) -> tuple[int, int]:
    """Where the key ends and where the value begins."""
    at = 0
    while at < len(line) and line[at] not in "=:" and line[at] not in _BLANK:
        at += 2 if line[at] == "\\" else 1
    end = min(at, len(line))
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return end, len(line) - len(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\":
            out.append(character)
            continue
        escaped = text[at : at + 1]
        at += 1
        if escaped == "u":
            digits = text[at : at + 4]
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"malformed \\u escape: \\u{digits}")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)
