"""Every API of the registry is served."""

from __future__ import annotations

import pytest

from kshim.broker.request import find_handler
from kshim_protocol.apis import API_TABLE, Api


@pytest.mark.parametrize("api", API_TABLE.values(), ids=lambda api: api.name)
def test_every_api_of_the_registry_has_one_handler_named_like_its_module(api: Api) -> None:
    assert find_handler(api).__name__ == api.module
