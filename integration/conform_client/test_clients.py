"""What `kshim conform-client` finds in each client of the matrix is known, and has its reason in the client's `launch.py`."""

from __future__ import annotations

import pytest

from integration.clients.catalogue import Client, clients
from integration.conform_client.run import judge
from integration.support.fixtures import available
from kshim.tools.conform_client.model import load_behaviours


@pytest.mark.parametrize("client", clients(), ids=lambda client: client.folder)
def test_reasons_are_of_behaviours_that_there_are(client: Client) -> None:
    assert set(client.judged) <= {behaviour.name for behaviour in load_behaviours()}


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("client", clients(), ids=lambda client: client.folder)
def test_nothing_new_is_found(client: Client) -> None:
    judged = available(lambda: judge(client, jobs=4))
    failed = {each["name"]: each["failures"] for each in judged.behaviours if each["verdict"] == "failed"}
    assert {name: found for name, found in failed.items() if name not in client.judged} == {}
