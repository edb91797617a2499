"""What the live page costs and how late it is: a busy broker with 500 groups, and one viewer in a headless Chromium.

    python -m bench.page [--groups 500] [--rebalances 60] [--views 20] [--seconds 60] [--wheels BEFORE.whl AFTER.whl]

`kshim serve --control` has `--groups` groups of a member each, which send a heartbeat every 3 s and commit every 5 s. One group
rebalances about every two seconds, as its member joins again. Measured in the browser, whose clock is that of the broker:

- first view: from asking for a page, with nothing kept from before, until its first paint;
- update: from the event in the broker's history until the page shows it, for the list and for the page of the group;
- share of a core: CPU time of the broker with the page of the group open, of the list open, and with nobody looking.

`--wheels`: two wheels of kshim, to tell by what the pages make the second one larger.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from integration.support.chromium import chromium
from tests.control.members import Member

_GROUP = "watched"
_HEARTBEAT_S, _COMMIT_S = 3.0, 5.0
_SHOWS = """
(wanted) => {
  window.seen = {};
  const look = () => {
    for (const row of document.querySelectorAll(wanted)) {
      const open = /still open|PreparingRebalance|CompletingRebalance/.test(row.textContent);
      const key = row.id.startsWith("turn-") ? row.id.slice(5) : row.querySelectorAll("td.n")[1].textContent;
      if (!open) window.seen[key] ??= Date.now();
    }
  };
  look();
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}
"""
_PAINTED = """
() => new Promise((done) => {
  new PerformanceObserver((list) => {
    const paint = list.getEntriesByName("first-contentful-paint")[0];
    if (paint) done(paint.startTime);
  }).observe({ type: "paint", buffered: true });
})
"""
_OF_PAGE = re.compile(r"kshim/(page|drawing)/|kshim/control/(watching|handlers/page)\.py|kshim/harness/seen\.py")


class Load:
    """Members that do what members do, in a thread."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self._members = [Member(bootstrap, f"group-{number}").join() for number in range(count)]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause_s = _HEARTBEAT_S / max(len(self._members), 1)
        for number in itertools.count():
            if self._is_over.wait(pause_s):
                return
            member = self._members[number % len(self._members)]
            member.heartbeat()
            if random.random() < _HEARTBEAT_S / _COMMIT_S:
                member.commit("orders", number)

    def end(self) -> None:
        """Stop."""
        self._is_over.set()
        self._thread.join()


@contextmanager
def running() -> Iterator[tuple[psutil.Process, str, str]]:
    """A broker with its HTTP interface: its process, its address, and where the interface is."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [
            str(Path(sys.executable).with_name("kshim")),
            "serve",
            "--listen=127.0.0.1:0",
            "--control=127.0.0.1:0",
        ]
        with log.open("wb") as stderr:
            process = subprocess.Popen([*command, "--topic=orders:3"], stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().strip()
            found = re.search(r"Control over HTTP on (\S+)", log.read_text())
            assert found is not None
            yield psutil.Process(process.pid), bootstrap, found[1]
        finally:
            process.terminate()
            process.wait()


def rebalances(member: Member, count: int, pause_s: float = 2.0) -> None:
    """So many, at random times."""
    for _ in range(count):
        time.sleep(random.uniform(0.5, 1.5) * pause_s)
        member.join()


def events(url: str) -> dict[str, int]:
    """When each rebalance of the group had its assignment, by its number."""
    with urllib.request.urlopen(f"{url}/v1/history?group={_GROUP}&limit=1000") as answer:
        found: list[dict[str, Any]] = json.load(answer)["events"]
    return {
        str(each["epoch"]): each["ts_ms"] for each in found if each["type"] in ("rebalance_completed", "sync_completed")
    }


def delays(page: Page, url: str, member: Member, *, path: str, rows: str, count: int) -> list[int]:
    """How many ms after the event each of `count` rebalances was shown."""
    page.goto(f"{url}{path}")
    page.locator("#live", has_text="live").wait_for()
    before = events(url)
    page.evaluate(_SHOWS, rows)
    rebalances(member, count)
    time.sleep(3)
    seen = {key: int(value) for key, value in page.evaluate("window.seen").items()}
    happened = {key: at_ms for key, at_ms in events(url).items() if key not in before}
    if path.startswith("/page?q"):  # the list counts rebalances
        happened = {str(number): at_ms for number, at_ms in enumerate(sorted(happened.values()), len(before) + 1)}
    return [seen[key] - at_ms for key, at_ms in happened.items() if key in seen]


def first_views(browser: Browser, address: str, count: int) -> list[float]:
    """How many ms after it was asked for each was painted, in windows that have nothing yet."""
    found = []
    for _ in range(count):
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        found.append(page.evaluate(_PAINTED))
        context.close()
    return found


def share(process: psutil.Process, seconds: int, meanwhile: Callable[[], None]) -> float:
    """Of a core that the process takes."""
    before, began = process.cpu_times(), time.monotonic()
    meanwhile()
    while time.monotonic() - began < seconds:
        time.sleep(0.1)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / (time.monotonic() - began)


def in_words(values: list[float] | list[int]) -> str:
    """Median, the 95th part of a hundred, and the worst."""
    ordered = sorted(values)
    return f"median {statistics.median(ordered):.0f} ms, p95 {ordered[int(0.95 * (len(ordered) - 1))]:.0f} ms, worst {ordered[-1]:.0f} ms ({len(ordered)})"


def wheels(before: Path, after: Path) -> None:
    """How much larger a wheel is than another one, and by what."""
    print(
        f"wheel: {before.stat().st_size:,} -> {after.stat().st_size:,} bytes, {after.stat().st_size - before.stat().st_size:+,}"
    )
    with zipfile.ZipFile(after) as wheel:
        parts = {each.filename: each.compress_size for each in wheel.infolist() if _OF_PAGE.search(each.filename)}
    for name, size in sorted(parts.items(), key=lambda part: -part[1]):
        print(f"  {size:>7,}  {name}")
    print(f"  {sum(parts.values()):>7,}  all that pages and pictures are made of")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--rebalances", type=int, default=60)
    parser.add_argument("--views", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--wheels", type=Path, nargs=2)
    options = parser.parse_args()
    if options.wheels:
        wheels(*options.wheels)
        return
    found = chromium()
    with running() as (process, bootstrap, url), sync_playwright() as driver, Member(bootstrap, _GROUP) as member:
        member.join()
        load = Load(bootstrap, options.groups)
        browser = driver.chromium.launch(executable_path=found.path, args=list(found.options))
        views = {"the list": "/page", "a group": f"/page?group={_GROUP}"}
        for name, path in views.items():
            print(f"first view of {name}: {in_words(first_views(browser, url + path, options.views))}", flush=True)
        for name, path, rows in (
            ("the list", f"/page?q={_GROUP}", "#groups tbody tr"),
            ("a group", f"/page?group={_GROUP}", "#turns tbody tr"),
        ):
            page = browser.new_page()
            late = delays(page, url, member, path=path, rows=rows, count=options.rebalances)
            print(f"update of {name}: {in_words(late)}", flush=True)
            page.close()
        count = options.seconds // 2
        nobody = share(process, options.seconds, lambda: rebalances(member, count, 1.9))
        print(f"nobody looks: {nobody:.2%} of a core", flush=True)
        for name, path in views.items():
            page = browser.new_page()
            page.goto(url + path)
            taken = share(process, options.seconds, lambda: rebalances(member, count, 1.9))
            print(f"{name} is open: {taken:.2%} of a core, {taken - nobody:+.2%}", flush=True)
            page.close()
        browser.close()
        load.end()


if __name__ == "__main__":
    main()
