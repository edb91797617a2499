"""The live page as people use it: with a mouse, with the keyboard alone, while groups change, and while the broker is gone."""

from __future__ import annotations

import base64
import re
import time
from pathlib import Path
from urllib.parse import parse_qs, quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from integration.page.served import ADDRESS, serve
from integration.support.chromium import axe
from integration.support.unavailable import Unavailable
from kshim.page import GroupRow, MemberNow, OffsetNow, group_page, groups_page, message_page
from tests.control.members import Member
from tests.control.service import Service, a_service
from tests.page.groups import CLUSTER, HOSTILE, START, a_turn, billing

PATIENCE_MS = 60_000
ROWS = [
    GroupRow(name, "Stable", False, START, 2, 1, 0, "somebody joined", "c@h")
    for name in ("billing", "shipping", HOSTILE)
]
_AXE = "async () => (await axe.run()).violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))"

_COLOURS = """
async (encoded) => {
  const drawn = new Image();
  drawn.src = `data:image/png;base64,${encoded}`;
  await drawn.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [drawn.width, drawn.height];
  const pen = canvas.getContext("2d");
  pen.drawImage(drawn, 0, 0);
  const data = pen.getImageData(0, 0, drawn.width, drawn.height).data;
  let red = 0, paper = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at] === 0xc5 && data[at + 1] === 0x30 && data[at + 2] === 0x30) red++;
    if (data[at] === 255 && data[at + 1] === 255 && data[at + 2] === 255) paper++;
  }
  return { width: drawn.width, height: drawn.height, red, paper };
}
"""

_SHIFTS = """
() => {
  let sum = 0;
  const seen = (list) => { for (const each of list) sum += each.value; };
  const observer = new PerformanceObserver((list) => seen(list.getEntries()));
  observer.observe({ type: "layout-shift" });
  window.shiftedSoFar = () => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { seen(observer.takeRecords()); done(sum); })));
  });
}
"""

expect.set_options(timeout=PATIENCE_MS)


def made_up(query: str) -> str:
    """Pages of made-up groups."""
    asked = parse_qs(query)
    if asked.get("group") == ["nobody"]:
        return message_page(CLUSTER, "No group nobody", "There is no such group.")
    if "group" in asked:
        number = int(asked["rebalance"][0]) if "rebalance" in asked else None
        return group_page(CLUSTER, billing(asked["group"][0]), rebalance=number)
    words = asked.get("q", [""])[0]
    rows = [row for row in ROWS if words in row.name]
    return groups_page(CLUSTER, rows, search=words, group_count=len(ROWS))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_shuts_people_out(browser: Browser, scheme: str) -> None:
    try:
        source = axe()
    except Unavailable as reason:
        pytest.skip(str(reason))
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    page = context.new_page()
    serve(page, made_up)
    for address in (
        "/page",
        "/page?q=x",
        "/page?group=billing",
        "/page?group=billing&rebalance=2",
        "/page?group=nobody",
    ):
        page.goto(ADDRESS + address)
        page.evaluate(source)
        assert page.evaluate(_AXE) == [], address
    context.close()


def test_axe_would_find_something(browser: Browser) -> None:
    try:
        source = axe()
    except Unavailable as reason:
        pytest.skip(str(reason))
    page = browser.new_page(bypass_csp=True)
    serve(page, lambda query: made_up(query).replace("<h1>", "<img src='data:,'><h1>"))
    page.goto(f"{ADDRESS}/page")
    page.evaluate(source)
    assert "image-alt" in str(page.evaluate(_AXE))
    page.context.close()


def test_a_click_on_a_rebalance_of_the_picture_shows_its_paragraph(page: Page) -> None:
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page?group=billing")
    expect(page.locator("#why .culprit")).to_have_text("\u2691 bill-2@10.0.0.2")
    page.locator("a.turn text", has_text=re.compile("^2$")).click()
    expect(page.locator("#why .cause")).to_have_text("slow_poll")
    expect(page.locator("#why p.advice")).to_contain_text("max.poll.interval.ms")
    assert page.url.endswith("/page?group=billing&rebalance=2")
    page.go_back()
    expect(page.locator("#why .cause")).to_have_text("killed")


def test_the_keyboard_alone_finds_a_group_and_a_rebalance(page: Page) -> None:
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page")
    page.keyboard.press("/")
    page.keyboard.type("bill")
    expect(page.locator("#groups tbody tr")).to_have_count(1)
    for _ in range(4):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('#groups a') !== null"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("billing")
    while not page.evaluate("document.activeElement.classList.contains('turn')"):
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#turn h2")).to_have_text("The rebalance took 40.1 s")
    expect(page.locator(".answer")).to_be_focused()
    page.evaluate("document.querySelector('.answer').dataset.read = 'before'")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # it is read again
    expect(page.locator(".answer[data-read]")).to_have_count(0)
    expect(page.locator(".answer")).to_be_focused(timeout=1_000)


def test_the_picture_is_saved_as_an_image_with_who_did_what_and_its_legend(page: Page, tmp_path: Path) -> None:
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page?group=billing")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as an image").click()
    assert download.value.suggested_filename == "billing.png"
    file = tmp_path / "billing.png"
    download.value.save_as(file)
    drawn = page.evaluate("image().text")
    for words in ("billing", "bill-2@10.0.0.2 was killed or crashed", "orders-1", "has no living owner"):
        assert words in drawn
    # Colours are those of the page: an image has no style sheet.
    assert "var(" not in drawn
    counts = page.evaluate(_COLOURS, base64.b64encode(file.read_bytes()).decode())
    assert counts["width"] > 2_000
    assert counts["red"] > 10_000
    assert counts["paper"] > counts["red"]


def test_times_are_local_when_that_is_wanted_and_stay_so(page: Page) -> None:
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page?group=billing&rebalance=2")
    expect(page.locator("#why time").first).to_have_text("2026-11-18 11:07:40Z")
    page.get_by_role("button", name="Local time").click()
    expect(page.locator("#why time").first).to_have_text("2026-11-18 12:07:40+01:00")
    expect(page.locator("svg.lanes text[data-ms]").first).to_have_text("12:07:36")
    page.reload()
    expect(page.locator("#why time").first).to_have_text("2026-11-18 12:07:40+01:00")


def test_rows_stay_where_they_are_while_somebody_points_at_them(page: Page) -> None:
    order = ["billing", "shipping"]

    def html(_query: str) -> str:
        rows = [row for name in order for row in ROWS if row.name == name]
        return groups_page(CLUSTER._replace(now_ms=CLUSTER.now_ms + len(reads)), rows, group_count=2)

    reads: list[int] = []
    page.on("requestfinished", lambda request: reads.append(1) if request.url.endswith("/page") else None)
    serve(page, html)
    page.goto(f"{ADDRESS}/page")
    names = page.locator("#groups tbody th")
    names.first.hover()
    order.reverse()
    read = len(reads)
    while len(reads) < read + 2:
        page.wait_for_event("requestfinished")
    assert names.all_inner_texts() == ["billing", "shipping"]
    page.mouse.move(0, 0)
    expect(names.first).to_have_text("shipping")


def test_five_hundred_groups_and_two_hundred_members_are_fluent(page: Page) -> None:
    rows = [GroupRow(f"group-{n}", "Stable", False, START, 3, n, n, "somebody joined", "c@h") for n in range(500)]
    members = [MemberNow(f"m-{n}", f"m{n}@10.0.0.{n}", "h", None, (("orders", n),), False, 45_000) for n in range(200)]

    def html(query: str) -> str:
        if "group=" in query:
            return group_page(CLUSTER, billing(members=members))
        return groups_page(CLUSTER, rows[:200], group_count=500, found_count=500)

    serve(page, html)
    for address in ("/page", "/page?group=billing"):
        page.goto(ADDRESS + address)
        text = html(address)
        # What a reading costs the browser: to parse the page, and to change what is different, when nothing is.
        took_ms = page.evaluate(
            "text => { const t = performance.now(); show(new DOMParser().parseFromString(text, 'text/html')); return performance.now() - t; }",
            text,
        )
        print(f"{address}: {len(text)} characters, {took_ms:.0f} ms")
        assert took_ms < 2_000


def test_nothing_jumps_when_data_arrive(page: Page) -> None:
    begun = a_turn(4, CLUSTER.now_ms - 4_000, outcome=None, ended_ms=None, joined_ms=None, phases=())
    over = a_turn(4, CLUSTER.now_ms - 4_000, join_ms=3_000)
    offsets = [OffsetNow("orders", number, 10, lag) for number, lag in enumerate((7, 1_234_567, 0))]
    stages = [
        billing(),
        billing(offsets=offsets),
        billing(turns=[*billing().turns, begun], state="PreparingRebalance"),
        billing(turns=[*billing().turns, over]),
    ]
    at = [0]

    def html(_query: str) -> str:
        cluster = CLUSTER._replace(now_ms=CLUSTER.now_ms + 1_000 * at[0])
        return group_page(cluster, stages[at[0]]._replace(now_ms=cluster.now_ms))

    serve(page, html)
    page.goto(f"{ADDRESS}/page?group=billing")
    page.evaluate(_SHIFTS)
    for stage in range(1, len(stages)):
        at[0] = stage
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("#now time")).to_have_attribute("data-ms", str(CLUSTER.now_ms + 1_000 * stage))
        shifted = page.evaluate("shiftedSoFar()")
        print(f"stage {stage}: {shifted}")
        assert shifted < 0.01, stage


def test_the_test_of_jumps_would_see_one(page: Page) -> None:
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page?group=billing")
    page.evaluate(_SHIFTS)
    page.evaluate("shiftedSoFar()")  # the page has been painted: only what is seen can jump
    page.evaluate(
        "const block = document.createElement('section'); block.style.height = '300px';"
        "document.getElementById('why').before(block)"
    )
    page.wait_for_function("async () => await shiftedSoFar() > 0.05")


def test_an_answer_that_is_no_page_is_said_and_what_was_read_stays(page: Page) -> None:
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page?group=billing")
    broken = f"{ADDRESS}/page?group=billing"
    page.route(broken, lambda route: route.fulfill(status=500, content_type="application/json", body="{}"))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#lost")).to_contain_text("kshim answered 500.")
    expect(page.locator("#now span")).to_have_text("Last read at")
    expect(page.locator("h1")).to_have_text("billing")
    page.unroute(broken)
    expect(page.locator("#lost")).to_be_empty()
    expect(page.locator("#now span")).to_have_text("Now")


def test_a_page_that_takes_long_is_marked_as_busy_until_it_is_there(page: Page) -> None:
    waiting: list[Route] = []
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page")
    page.route(f"{ADDRESS}/page?group=billing", lambda route: waiting.insert(0, route))
    page.locator("#groups a", has_text="billing").click()
    expect(page.locator("main")).to_have_attribute("aria-busy", "true")
    expect(page.locator("h1")).to_have_text("Groups")
    waiting[0].fallback()
    expect(page.locator("h1")).to_have_text("billing")
    expect(page.locator("main")).not_to_have_attribute("aria-busy", "true")


@pytest.mark.parametrize(
    "name", [HOSTILE, "\u05d0\u05d1\u202e\u05d2", "x" * 32_767], ids=["script", "right-to-left", "long"]
)
def test_a_hostile_name_is_text_wherever_it_stands(page: Page, name: str) -> None:
    serve(page, made_up)
    page.goto(f"{ADDRESS}/page?group={quote(name)}")
    page.locator("#turns a").first.click()
    expect(page.locator("#turn")).to_contain_text("Rebalance 3")
    assert page.locator("script").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")


# With real brokers


def test_a_group_appears_without_loading_the_page_again(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/page?q=appearing")
    expect(page.locator("main")).to_contain_text("No group has")
    expect(page.locator("#live")).to_have_text(", live")
    with Member(service.bootstrap, "appearing") as member:
        began = time.monotonic()
        member.join()
        page.locator("#groups tbody tr", has_text="appearing").wait_for()
        print(f"shown {(time.monotonic() - began) * 1_000:.0f} ms after the join began")
        expect(page.locator("#groups tbody tr .chip")).to_have_text("Stable")


def test_expelling_a_member_is_a_button_and_shows_at_once(page: Page, service: Service) -> None:
    with Member(service.bootstrap, "expelled") as member:
        member.join()
        page.goto(f"{service.url}/page?group=expelled")
        expect(page.locator("#members tbody tr")).to_have_count(1)
        page.get_by_role("button", name="Expel").click()
        expect(page.locator("#said")).to_contain_text("was removed")
        expect(page.locator("#members")).to_contain_text("no members")
        assert member.heartbeat() != 0
    page.get_by_role("button", name="Fail the next OffsetCommit").click()
    expect(page.locator("#said")).to_contain_text("will fail")
    assert len(service.get("/v1/faults")["faults"]) == 1
    page.get_by_role("button", name="Cancel all faults").click()
    expect(page.locator("#said")).to_contain_text("over")
    assert service.get("/v1/faults")["faults"] == []


def test_as_text_it_goes_to_the_clipboard(page: Page, service: Service) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with Member(service.bootstrap, "copied") as member:
        member.join()
        page.goto(f"{service.url}/page?group=copied")
        page.get_by_role("button", name="Copy as text").click()
        expect(page.locator("#said")).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()").startswith("Group copied is Stable")


def test_a_broker_that_goes_away_is_named_and_found_again(page: Page, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with a_service(tmp_path / "first") as first:
        address = first.address
        page.goto(f"{first.url}/page")
        expect(page.locator("#live")).to_have_text(", live")
    expect(page.locator("#lost")).to_contain_text("The connection to kshim is lost.")
    with a_service(tmp_path / "second", f"--control={address}"):
        expect(page.locator("#lost")).to_be_empty()
        expect(page.locator("#live")).to_have_text(", live")


def test_a_token_is_asked_for_as_a_password_and_goes_with_everything(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret")
    file.chmod(0o600)
    with a_service(tmp_path, f"--control-token-file={file}") as service, Member(service.bootstrap, "secret") as member:
        member.join()
        context = browser.new_context(http_credentials={"username": "me", "password": "s3cret"})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{service.url}/page?group=secret")
        expect(page.locator("#live")).to_have_text(", live")
        page.get_by_role("button", name="Expel").click()
        expect(page.locator("#members")).to_contain_text("no members")
        context.close()
