"""The report of the pipeline in a browser: without a network, with the keyboard alone, in light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from integration.page.served import ADDRESS
from integration.support.chromium import axe
from integration.support.unavailable import Unavailable
from kshim_pipeline.report.page import render
from tests.pipeline.report_pages import HOSTILE, a_page, incidents

_AXE = "async () => (await axe.run()).violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))"


_REPORT = f"{ADDRESS}/report.html"


def show(page: Page, html: str) -> list[str]:
    """Open a report, and return what is asked for, which grows."""
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(body=html, content_type="text/html; charset=utf-8")

    page.route("**/*", answer)
    page.goto(_REPORT)
    return asked


def test_the_first_screen_names_the_three_culprits_and_what_to_change(page: Page) -> None:
    asked = show(page, render(a_page()))
    expect(page.locator("ol.fix .culprit")).to_have_text(
        ["\u2691 mail-3@10.0.0.9", "\u2691 bill-2@10.0.0.2", "\u2691 bill-2@10.0.0.2"]
    )
    for card in page.locator("ol.fix > li").all():
        box = card.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 860, "all of it is on the first screen"
        expect(card).to_contain_text("To change")
        expect(card).to_contain_text("kshim why --bootstrap-server HOST:PORT --at 2026-11-18T")
    assert asked == [_REPORT]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_shuts_people_out(browser: Browser, scheme: str) -> None:
    try:
        source = axe()
    except Unavailable as reason:
        pytest.skip(str(reason))
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    page = context.new_page()
    show(page, render(a_page()))
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.evaluate(source)
    assert page.evaluate(_AXE) == []
    context.close()


def test_links_lead_to_the_evidence_and_the_picture(page: Page) -> None:
    show(page, render(a_page()))
    second = page.locator("ol.fix > li").nth(1)
    second.get_by_role("link", name="Evidence").click()
    target = page.locator(":target")
    expect(target.locator(".cause")).to_have_text("killed")
    expect(target).to_be_in_viewport()
    page.go_back()
    second.get_by_role("link", name="Picture of billing").click()
    expect(page.locator(":target svg.lanes .culprit text.name")).to_contain_text("bill-2@10.0.0.2")
    expect(page.locator(":target svg.lanes")).to_be_in_viewport()


def test_a_search_by_keyboard_leaves_what_has_the_words_and_a_link_shows_the_rest_again(
    page: Page,
) -> None:
    show(page, render(a_page()))
    page.keyboard.press("/")
    page.keyboard.type("mail-3")
    expect(page.locator("#found")).to_have_text("1 found")
    expect(page.locator("section.incident:visible")).to_have_count(1)
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.textContent") != "Picture of billing":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(":target svg.lanes")).to_be_in_viewport()
    expect(page.locator("section.incident:visible")).to_have_count(5)


@pytest.mark.parametrize(
    "name", [HOSTILE, "\u05d0\u05d1\u202e\u05d2", "x" * 32_767], ids=["script", "right-to-left", "long"]
)
def test_a_hostile_name_is_text_and_does_not_widen_the_page(page: Page, name: str) -> None:
    found = incidents()
    for each in found:
        each["groups"], each["clients"], each["sentence"] = [name], [f"{name}@h"], f"{name} was late."
    show(page, render(a_page(incidents=found)))
    expect(page.locator("ol.fix > li")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    assert page.locator("script").count() == 1
