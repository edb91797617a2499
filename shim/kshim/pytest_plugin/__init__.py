"""The pytest plugin: fixtures with clean brokers for each test, markers, and what a failed test reports."""
