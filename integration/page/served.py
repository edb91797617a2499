"""Pages of made-up groups in a browser, at an address that there is not: what a server would send is put in its place."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, Route

from kshim.page.files import script, style
from kshim.page.html import SCRIPT, STYLE

ADDRESS = "http://kshim.test"
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"


def serve(page: Page, html: Callable[[str], str]) -> None:
    """Answer with `html(query)` whatever is asked for, but for the script, the style and the stream of events."""

    def answer(route: Route) -> None:
        path, _, query = route.request.url.removeprefix(ADDRESS).partition("?")
        if path == SCRIPT:
            route.fulfill(body=script(), content_type="text/javascript")
        elif path == STYLE:
            route.fulfill(body=style(), content_type="text/css")
        elif path == "/page":
            route.fulfill(
                body=html(query), content_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _POLICY}
            )
        else:
            route.fulfill(status=204)

    page.route(f"{ADDRESS}/**", answer)
