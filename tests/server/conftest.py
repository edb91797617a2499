"""Every behaviour is tested on both loops: the portable one runs on Linux too."""

from __future__ import annotations

import sys

import pytest

from kshim.server.server import LoopName

_EPOLL = pytest.param("epoll", marks=pytest.mark.skipif(sys.platform != "linux", reason="epoll is Linux's"))


@pytest.fixture(params=[_EPOLL, "tasks"])
def loop(request: pytest.FixtureRequest) -> LoopName:
    name: LoopName = request.param
    return name
