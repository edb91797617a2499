"""Fixtures for all suites: JVM, jars, brokers. At the root, because pytest takes plugins from nowhere else."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("integration.support.group_suite")

pytest_plugins = [
    "pytester",
    "integration.support.fixtures",
    "tests.gate.folder_times",
    "tests.gate.left_sockets",
    "tests.gate.order",
    "tests.gate.quick",
]

# A busy machine makes anything slow; pytest-timeout is what limits a test.
os.environ.setdefault("KSHIM_TEST_TIMEOUT_S", "60")
settings.register_profile("kshim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("kshim"), max_examples=400)
settings.load_profile("kshim")
