"""One entry of a JAAS configuration, as Kafka writes it in `sasl.jaas.config`."""

from __future__ import annotations

_FLAGS = ("required", "requisite", "sufficient", "optional")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class JaasEntry:
    """A login module and its options. Options hold passwords, so neither `repr` nor an error shows them."""

    def __init__(self, module: str, options: dict[str, str]) -> None:
        self.module = module
        self.options = options

    def __repr__(self) -> str:
        return f"<{self.module} with {len(self.options)} options>"

    def users(self) -> dict[str, str]:
        """User -> password, of Kafka's PlainLoginModule: the options `user_NAME`."""
        prefix = "user_"
        return {name[len(prefix) :]: value for name, value in self.options.items() if name.startswith(prefix)}


def parse_jaas(text: str) -> JaasEntry:
    """The only entry of `text`: `module flag name=value ... ;`, values in quotes where needed.

    Raises ValueError, which says what is wrong but nothing of the values. Kafka: JaasConfig, a StreamTokenizer.
    """
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[0] == ";":
        raise ValueError("a login module and its control flag are expected")
    module, flag = tokens[0], tokens[1]
    if flag.lower() not in _FLAGS:
        raise ValueError("the control flag behind the login module is one of " + ", ".join(_FLAGS))
    options: dict[str, str] = {}
    at = 2
    while at < len(tokens) and tokens[at] != ";":
        if at + 2 >= len(tokens) or tokens[at + 1] != "=" or tokens[at + 2] in (";", "="):
            raise ValueError("options are NAME=VALUE, and a semicolon ends the entry")
        name = _unquoted(tokens[at])
        options[name] = _unquoted(tokens[at + 2])
        at += 3
    if at >= len(tokens):
        raise ValueError("a semicolon ends the entry")
    if at + 1 < len(tokens):
        raise ValueError("there is more than one entry")
    return JaasEntry(module, options)


def _unquoted(token: str) -> str:
    return token[1:] if token[:1] == '"' else token


def _tokens(text: str) -> list[str]:
    """Words, `=`, `;`, and quoted strings (their opening quote is kept to distinguish them from words)."""
    tokens: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char.isspace():
            at += 1
        elif text.startswith("//", at) or char == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at)
            if end < 0:
                raise ValueError("a comment does not end")
            at = end + 2
        elif char in "=;":
            tokens.append(char)
            at += 1
        elif char in "\"'":
            value, at = _quoted(text, at)
            tokens.append('"' + value)
        else:
            end = at
            while end < len(text) and not text[end].isspace() and text[end] not in "=;\"'":
                end += 1
            tokens.append(text[at:end])
            at = end
    return tokens


def _quoted(text: str, at: int) -> tuple[str, int]:
    """A quoted string that begins at `at`, and where it ends."""
    quote = text[at]
    value: list[str] = []
    at += 1
    while at < len(text) and text[at] not in (quote, "\n"):
        if text[at] == "\\" and at + 1 < len(text):
            octal = text[at + 1 : at + 4]
            if len(octal) == 3 and octal[0] in "0123" and set(octal) <= set("01234567"):
                value.append(chr(int(octal, 8)))
                at += 4
                continue
            value.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
        else:
            value.append(text[at])
            at += 1
    if at >= len(text) or text[at] != quote:
        raise ValueError("a quoted value does not end")
    return "".join(value), at + 1
