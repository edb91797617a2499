"""uv is told what pip is told."""

from __future__ import annotations

from tests.gate.install import uv_environment

PIP = """:env:.disable-pip-version-check='1'
:env:.find-links='/wheels /more'
global.extra-index-url='https://a.example/simple\\nhttps://b.example/simple'
global.index-url='https://c.example/simple'
:env:.index-url='https://d.example/simple'
"""


def test_the_settings_of_pip_are_handed_to_uv_and_its_environment_wins_over_its_files() -> None:
    assert uv_environment(PIP, {"HOME": "/h"}) == {
        "HOME": "/h",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_DEFAULT_INDEX": "https://d.example/simple",
    }


def test_what_is_set_for_uv_stays() -> None:
    environment = {"UV_DEFAULT_INDEX": "https://e.example/simple"}
    assert uv_environment(PIP, environment)["UV_DEFAULT_INDEX"] == "https://e.example/simple"
