"""Regular expressions that clients send, in the syntax of RE2, which matches in linear time (KIP-848, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable

from kshim_protocol.errors import ErrorCode, KafkaError


def matcher(pattern: str) -> Callable[[str], bool]:
    """What says whether the whole of a text matches. Never Python's own engine, which may take for ever.

    Raises KafkaError: INVALID_REGULAR_EXPRESSION; UNSUPPORTED_VERSION without the package google-re2, unless the pattern is
    plain text.
    """
    try:
        import re2
    except ImportError:
        if pattern.replace("-", "").replace("_", "").isalnum():
            return pattern.__eq__
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "regular expressions need the package google-re2: pip install kshim[regex]",
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {error}") from None
    return lambda text: expression.fullmatch(text) is not None
