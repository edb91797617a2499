"""Write the pictures of docs/img: `python -m integration.page.screenshots`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs

from playwright.sync_api import sync_playwright

from integration.page.served import ADDRESS, serve
from integration.support.chromium import chromium
from kshim.page import GroupRow, group_page, groups_page
from kshim_pipeline.report.page import render
from tests.page.groups import CLUSTER, MINUTE, START, billing, row_of
from tests.pipeline.report_pages import a_page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "img"
SIZE = (1280, 860)


def html(query: str) -> str:
    """The list, or the group."""
    asked = parse_qs(query)
    if "group" in asked:
        return group_page(CLUSTER, billing(), rebalance=int(asked["rebalance"][0]) if "rebalance" in asked else None)
    now_ms = CLUSTER.now_ms
    rows = [
        GroupRow("invoices", "PreparingRebalance", True, now_ms - 20_000, 8, 2, 4_201, "slow_poll, 88% sure: inv-3@10.0.0.7 did not call poll() in time while it processed records.", "inv-3@10.0.0.7"),
        row_of(billing()),
        GroupRow("shipping", "Stable", False, START + 8 * MINUTE, 12, 3, 310, "scale_up, 91% sure: 1 member was added to shipping: ship-4@10.0.0.9.", None),
        GroupRow("search-indexer", "Stable", False, START, 2, 1, 0, "one_by_one_start, 95% sure: search-indexer started, with 2 members one after the other.", None),
        GroupRow("reports", "Empty", False, START - 90 * MINUTE, 0, 1, 17, "scale_down, 90% sure: 1 member was removed from reports in order: rep-1@10.0.0.6.", None),
    ]  # fmt: skip
    return groups_page(CLUSTER, rows, group_count=len(rows))


def main() -> None:
    """In light; the group also in dark. At last the report of the pipeline."""
    found = chromium()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found.path, args=list(found.options))
        for name, address, scheme in (
            ("page-groups", "/page", "light"),
            ("page-group", "/page?group=billing", "light"),
            ("page-group-dark", "/page?group=billing", "dark"),
            ("page-rebalance", "/page?group=billing&rebalance=2", "light"),
        ):
            page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme=scheme)  # type: ignore[arg-type]
            serve(page, html)
            page.goto(ADDRESS + address)
            page.screenshot(path=FOLDER / f"{name}.png")
            print(FOLDER / f"{name}.png")
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        page.set_content(render(a_page()))
        page.screenshot(path=FOLDER / "report.png")
        print(FOLDER / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
