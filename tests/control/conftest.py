"""One service for all tests that leave nothing behind that others could trip over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control.service import Service, a_service


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("control"), "--brokers=2", "--topic=orders:3") as service:
        yield service
