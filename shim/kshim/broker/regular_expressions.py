"""Regular expressions that clients send, in the syntax of RE2, which matches in linear time (KIP-848, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kshim_protocol.errors import ErrorCode, KafkaError

WITHOUT_PACKAGE: Final = "regular expressions need the package google-re2: pip install kshim[regex]"

_KAFKAS_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What RE2/J, the engine of Kafka, says of a mistake, by RE2's words; of others both say the same."""


class ExpressionError(ValueError):
    """Text that is no expression of RE2. The argument is what is wrong, in the words of Kafka's engine."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """What says whether the whole of a text matches. Never Python's own engine, which may take for ever.

    Raises KafkaError: INVALID_REGULAR_EXPRESSION; UNSUPPORTED_VERSION without the package google-re2, unless the pattern is
    plain text.
    """
    try:
        return _compiled(pattern)
    except ExpressionError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {error}") from None
    except ImportError:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, WITHOUT_PACKAGE) from None


def require_topic_expression(pattern: str) -> None:
    """What a member subscribes to is an expression.

    Raises KafkaError: INVALID_REGULAR_EXPRESSION with Kafka's sentence; also without the package, because clients take
    UNSUPPORTED_VERSION for a broker without the new protocol.
    """
    try:
        _compiled(pattern)
    except ExpressionError as error:
        sentence = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, sentence) from None
    except ImportError:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, WITHOUT_PACKAGE) from None


def _compiled(pattern: str) -> Callable[[str], bool]:
    """Raises ExpressionError, ImportError."""
    try:
        import re2
    except ImportError:
        if pattern.replace("-", "").replace("_", "").isalnum():
            return pattern.__eq__
        raise
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ExpressionError(_words(error)) from None
    return lambda text: expression.fullmatch(text) is not None


def _words(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "invalid UTF-8"
    (said,) = error.args
    what = str(said, "utf-8", "replace") if isinstance(said, bytes) else str(said)
    kind = what.partition(": ")[0]
    return _KAFKAS_WORDS.get(kind, kind)
