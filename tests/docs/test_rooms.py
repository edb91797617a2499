"""The picture and the map of the rooms in the architecture page are those of the imports."""

from __future__ import annotations

from tests.docs import rooms_page


def test_the_map_of_the_rooms_is_that_of_the_imports() -> None:
    page = rooms_page.PAGE.read_text()
    assert page == rooms_page.with_map(page), "run `python -m tests.docs.rooms_page --write`"


def test_the_picture_of_the_rooms_is_that_of_the_imports() -> None:
    assert rooms_page.PICTURE.read_text() == rooms_page.picture(), "run `python -m tests.docs.rooms_page --write`"
