"""Fixtures for all suites: JVM, jars, brokers. At the root, because pytest takes plugins from nowhere else."""

pytest_plugins = ["integration.support.fixtures"]
