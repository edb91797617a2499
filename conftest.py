"""Fixtures for all suites: JVM, jars, brokers. At the root, because pytest takes plugins from nowhere else."""

import pytest

pytest.register_assert_rewrite("integration.support.group_suite")

pytest_plugins = ["integration.support.fixtures", "tests.gate.folder_times"]
