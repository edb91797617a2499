"""What the tests of the examples share: running a service beside the test."""

from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def start():
    """`start(service)` runs `service.run()` in a thread and returns its future; the test ends with `service.stop()`."""
    started = []
    with ThreadPoolExecutor(max_workers=10) as pool:

        def start(service):
            future = pool.submit(service.run)
            started.append((service, future))
            return future

        yield start
        for service, _ in started:
            service.stop()
    for _, future in started:
        future.result()  # what has ended a service fails the test
