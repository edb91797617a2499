"""`.properties` files are read as Java reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from integration.support.jvm import Jvm
from kshim.config.properties import parse_properties

SERVER_PROPERTIES = r"""
# The role of this server
! an old style comment
process.roles=broker,controller
node.id = 1
listeners : PLAINTEXT://:9092
log.dirs   /tmp/a\ b
group.consumer.assignors=uniform,\
                         range
empty.value=
empty.too
path=C\:\\kafka
tab=a\tb
letter=\u0041
double=1
double=2
"""


def test_a_server_properties_file_is_read() -> None:
    assert parse_properties(SERVER_PROPERTIES) == {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/tmp/a b",
        "group.consumer.assignors": "uniform,range",
        "empty.value": "",
        "empty.too": "",
        "path": "C:\\kafka",
        "tab": "a\tb",
        "letter": "A",
        "double": "2",
    }


def test_a_broken_unicode_escape_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"\\u00g1"):
        parse_properties(r"key=\u00g1")


@pytest.mark.java
@given(st.text(st.sampled_from("ab=: \t\f\\\n\r#!u0041"), max_size=24))
@example("a\\\n  b=1")
@example("a=1\\")
@example("a=1\\\\\nb=2")
@example("\\\n\\\n=x")
@example("a\\=b:c=d")
@example("a=b\\\n#c\n")
@example("a\r\nb\rc")
@example("\\u0041\\u004=1")
@settings(deadline=None, max_examples=400)
def test_any_text_is_read_as_java_util_properties_reads_it(jvm: Jvm, text: str) -> None:
    # A lone backslash as the very last line is an empty key to Java and nothing here.
    assume(re.search(r"(?:^|[\r\n])[ \t\f]*\\(?:\r\n|\r|\n)?\Z", text) is None)
    assert _ours(text) == _javas(jvm, text)


def _ours(text: str) -> dict[str, str] | None:
    try:
        return parse_properties(text)
    except ValueError:
        return None


def _javas(jvm: Jvm, text: str) -> dict[str, str] | None:
    from py4j.protocol import Py4JJavaError

    properties = jvm.classes.java.util.Properties()
    try:
        properties.load(jvm.classes.java.io.StringReader(text))
    except Py4JJavaError:
        return None
    return {key: properties.getProperty(key) for key in properties.stringPropertyNames()}
