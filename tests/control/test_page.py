"""The live page over HTTP: who may see it, what browsers may do with it, and what it shows of these brokers."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.control.members import PATIENCE_S, Member
from tests.control.service import Service, a_service

TOKEN = "s3cret-of-the-tests"
FOLLOWED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture(scope="module")
def told(service: Service) -> Iterator[Service]:
    """A member whose session was ended, and another one that took its place."""
    with Member(service.bootstrap, "paged") as first:
        first.join().commit("orders", 0)
        service.ask("POST", "/v1/groups/paged/expire", {"member": first.member_id})
        with Member(service.bootstrap, "paged") as second:
            second.join()
            yield service


def test_the_address_without_a_path_leads_to_the_page(service: Service) -> None:
    answer = service.ask("GET", "/")
    assert (answer.status, answer.headers["location"]) == (302, "/page")


def test_groups_are_listed_with_their_last_rebalance(told: Service) -> None:
    page = told.ask("GET", "/page?q=PAGED")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    (row,) = re.findall(r"<tr id='g-.*?</tr>", page.text)
    assert "paged" in row
    assert "Stable" in row
    assert "client-of-paged@127.0.0.1" in row


def test_the_list_says_of_a_group_what_its_own_page_says(told: Service) -> None:
    (row,) = re.findall(r"<tr id='g-.*?</tr>", unescape(told.ask("GET", "/page?q=paged").text))
    _, _, newest_first = unescape(told.ask("GET", "/page?group=paged").text).partition("<section id='turns'")
    cause, sure = re.findall(r">(\w+)</b> (\d+%) sure", newest_first)[0]
    assert f"{cause}, {sure} sure: " in row


def test_causes_of_many_groups_are_weighed_one_reading_after_the_other(tmp_path: Path) -> None:
    with a_service(tmp_path, "--topic=orders:1") as service:
        for number in range(40):
            with Member(service.bootstrap, f"many-{number}") as member:
                member.join()
        counts: list[int] = []
        while not counts or counts[-1] < 40:
            page = service.ask("GET", "/page").text
            counts.append(len(re.findall(r"one_by_one_start|scale_up", page)))
            assert len(re.findall("<tr id='g-", page)) == 40
            assert len(counts) < 200
        assert counts == sorted(counts)


def test_the_list_shows_the_lag_of_a_group_to_which_nothing_else_happens(tmp_path: Path) -> None:
    with a_service(tmp_path, "--topic=orders:1") as service, Member(service.bootstrap, "behind") as member:
        member.join().commit("orders", 0)
        assert shown_lag(service) == "0"
        service.ask("POST", "/v1/topics/orders/records", {"records": [{"value": "late"}] * 3})
        until_s = time.monotonic() + PATIENCE_S
        while shown_lag(service) != "3":
            assert time.monotonic() < until_s
        member.commit("orders", 2)
        while shown_lag(service) != "1":
            assert time.monotonic() < until_s


def shown_lag(service: Service) -> str:
    (row,) = re.findall(r"<tr id='g-.*?</tr>", service.ask("GET", "/page?q=behind").text)
    return str(re.findall(r"<td class='n'>(.*?)</td>", row)[-1])


def test_a_group_has_its_cause_its_picture_and_its_rebalances(told: Service) -> None:
    page = unescape(told.ask("GET", "/page?group=paged").text)
    assert "client-of-paged@127.0.0.1" in page
    assert "<section class='incident' id='why'>" in page
    assert "<svg class='lanes'" in page
    assert "expired: no heartbeat came in time" in page
    assert re.search(r"orders-0<title>", page)


def test_every_rebalance_of_the_table_has_a_page_of_its_own(told: Service) -> None:
    page = told.ask("GET", "/page?group=paged").text
    numbers = re.findall(r"<tr id='turn-(\d+)'", page)
    assert len(numbers) >= 3
    for number in numbers:
        assert f"Close-up of rebalance {number}" in told.ask("GET", f"/page?group=paged&rebalance={number}").text


def test_what_happens_later_is_there_when_the_page_is_read_again(told: Service) -> None:
    told.ask("POST", "/v1/groups/again/coordinator", {"node": 1})
    before = len(re.findall("<tr id='turn-", told.ask("GET", "/page?group=again").text))
    with Member(told.bootstrap, "again") as member:
        member.join()
        page = told.ask("GET", "/page?group=again").text
        assert len(re.findall("<tr id='turn-", page)) == before + 1
        member.commit("orders", 0)
        assert "lag 0" in told.ask("GET", "/page?group=again").text


def test_a_member_that_was_removed_over_http_was_removed_by_an_administrator(service: Service) -> None:
    with Member(service.bootstrap, "managed") as member:
        member.join()
        service.ask("POST", "/v1/groups/managed/expel", {"member": member.member_id})
    page = unescape(service.ask("GET", "/page?group=managed").text)
    assert ">removed_by_admin<" in page
    assert "An administrator removed client-of-managed@127.0.0.1 from managed." in page


def test_the_same_as_text_and_as_a_file(told: Service) -> None:
    text = told.ask("GET", "/page?group=paged&form=text")
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.startswith("Group paged is Stable")
    file = told.ask("GET", "/page?group=paged&form=file")
    assert "attachment" in file.headers["content-disposition"]
    assert "<style>" in file.text
    assert "/page" not in file.text


def test_a_group_there_is_not_is_a_page_that_says_so(service: Service) -> None:
    for name in ("nobody", "<script>", "x" * 32_767):
        page = service.ask("GET", f"/page?group={quote(name)}")
        assert page.status == 404
        assert "There is no such group" in page.text
        assert "<script>" not in page.text


def test_a_page_allows_browsers_its_own_files_only(service: Service) -> None:
    page = service.ask("GET", "/page")
    policy = page.headers["content-security-policy"]
    assert policy.split("; ")[:4] == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
    ]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    files = [
        *re.findall(r"<script src='([^']*)'", page.text),
        *re.findall(r"<link rel='stylesheet' href='([^']*)'", page.text),
    ]
    assert len(files) == 2
    for file in files:
        answer = service.ask("GET", file)
        assert answer.status == 200
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_a_link_in_a_chat_may_be_followed_to_the_page_and_nowhere_else(service: Service) -> None:
    assert service.ask("GET", "/page", headers=FOLLOWED).status == 200
    assert service.ask("GET", "/v1/groups", headers=FOLLOWED).status == 403
    assert service.ask("POST", "/v1/reset", {}, headers=FOLLOWED).status == 403
    assert service.ask("GET", "/page", headers={**FOLLOWED, "Sec-Fetch-Mode": "no-cors"}).status == 403
    assert service.ask("GET", "/page", headers={**FOLLOWED, "Sec-Fetch-Dest": "iframe"}).status == 403


def test_a_browser_is_asked_for_the_token_as_a_password(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with a_service(tmp_path, f"--control-token-file={file}") as service:
        refused = service.ask("GET", "/page")
        assert refused.status == 401
        assert "Basic" in refused.headers["www-authenticate"]
        for user, password, status in (("me", TOKEN, 200), ("", TOKEN, 200), ("me", "wrong", 401), (TOKEN, "", 401)):
            sent = base64.b64encode(f"{user}:{password}".encode()).decode()
            for path in ("/page", "/page/page.js", "/v1/groups"):
                assert service.ask("GET", path, headers={"Authorization": f"Basic {sent}"}).status == status


def test_read_only_brokers_can_be_looked_at_and_nothing_else(tmp_path: Path) -> None:
    with (
        a_service(tmp_path, "--control-read-only", "--topic=orders:1") as service,
        Member(service.bootstrap, "g") as member,
    ):
        member.join()
        page = service.ask("GET", "/page?group=g")
        assert page.status == 200
        assert "data-post" not in page.text
        for method, path in (
            ("POST", "/v1/groups/g/rebalance"),
            ("DELETE", "/v1/topics/orders"),
            ("POST", "/v1/reset"),
        ):
            refused = service.ask(method, path, {})
            assert refused.status == 403
            assert "--control-read-only" in refused.json["detail"]
        assert member.heartbeat() == 0


def test_an_unknown_parameter_is_refused_with_those_there_are(service: Service) -> None:
    answer = service.ask("GET", "/page?grp=x")
    assert (answer.status, answer.json["detail"].endswith("there are group, rebalance, at, q, form")) == (400, True)
