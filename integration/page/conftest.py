"""A browser for all tests, and for each a window of its own that reports whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from integration.support.chromium import Chromium, chromium
from integration.support.unavailable import Unavailable
from tests.control.service import Service, a_service

PATIENCE_MS = 60_000


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    try:
        found = chromium()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with sync_playwright() as driver:
        browser = _launched(driver, found)
        yield browser
        browser.close()


def _launched(driver: Playwright, found: Chromium) -> Browser:
    """Started once more if it crashed as it started, which Chromium does once in hundreds of times."""
    try:
        return driver.chromium.launch(executable_path=found.path, args=list(found.options))
    except PlaywrightError:
        return driver.chromium.launch(executable_path=found.path, args=list(found.options))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """No script may fail, and the content security policy may not have stopped anything."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="Europe/Berlin", locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []

    def told(message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            wrong.append(message.text)

    page.on("console", told)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    yield page
    context.close()
    assert wrong == []


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("page"), "--topic=orders:3") as service:
        yield service
