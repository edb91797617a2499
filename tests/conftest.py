"""Nodes to test, for every room that a broker is made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kshim.storage.stores import MemoryStorage
from tests.broker.harness import NodeUnderTest, a_node, files_in


class MakeNode(Protocol):
    def __call__(
        self, config: dict[str, str] | None = None, *, topics: dict[str, int] | None = None
    ) -> NodeUnderTest: ...


@pytest.fixture(params=["memory", "files"])
def make_node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeNode]:
    """Makes nodes as `a_node` does, with logs in memory, then with logs in files. They are closed afterwards."""
    nodes: list[NodeUnderTest] = []

    def make(config: dict[str, str] | None = None, *, topics: dict[str, int] | None = None) -> NodeUnderTest:
        storage = MemoryStorage() if request.param == "memory" else files_in(tmp_path / str(len(nodes)))
        nodes.append(a_node(config, storage=storage, topics=topics))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: MakeNode) -> NodeUnderTest:
    """A node over each kind of logs, with two topics of two partitions: `orders` and `clicks`."""
    return make_node(topics={"orders": 2, "clicks": 2})
