"""The Java client connects with what `Kshim.client_config("java")` gives it; `tests/testing/test_security.py` has the Python clients."""

from __future__ import annotations

from typing import Any

import pytest

from integration.support.jvm import Jvm
from kshim.testing import Kshim

USERS = {"ann": 'se"cret \\1'}
SECURITIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tls": {"tls": True},
    "sasl": {"users": USERS},
    "sasl-and-tls": {"users": USERS, "tls": True},
}


@pytest.mark.java
@pytest.mark.parametrize("security", SECURITIES)
def test_the_java_client_connects_with_what_it_is_given(security: str, jvm: Jvm) -> None:
    with Kshim(topics={"orders": 1}, **SECURITIES[security]) as kshim:
        mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] if "users" in SECURITIES[security] else ["PLAIN"]
        for mechanism in mechanisms:
            config = kshim.client_config("java", mechanism=mechanism)
            admin = jvm.classes.org.apache.kafka.clients.admin.Admin.create(config)
            try:
                assert list(admin.listTopics().names().get()) == ["orders"]
            finally:
                admin.close()
