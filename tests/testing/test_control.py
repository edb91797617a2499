"""`Kshim(control=True)`: the brokers of a test over HTTP, for what it starts in another language."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kshim.server.listener import CannotBind
from kshim.testing import Kshim
from kshim_protocol.errors import ErrorCode
from tests.testing.members import meanwhile, member


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 1}, control=True) as found:
        yield found


class Refused(Exception):
    """The status of an answer that is an error."""


def ask(kshim: Kshim, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode() if body else b""
    request = urllib.request.Request(kshim.control_url + path, data=data)
    if data:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(str(error.code)) from None


def test_a_helper_controls_the_same_brokers(kshim: Kshim) -> None:
    assert ask(kshim, "/ready")["bootstrap_servers"] == kshim.bootstrap_servers
    ask(kshim, "/v1/faults", {"on": "Heartbeat", "do": {"error": "NOT_COORDINATOR"}, "when": "once"})
    with member(kshim) as ann:
        assert ann.heartbeat() == ErrorCode.NOT_COORDINATOR
        (fault,) = kshim.faults.all
        assert len(fault.fired) == 1
        before = kshim.clock.now
        ask(kshim, "/v1/clock/advance", {"seconds": 100})
        assert kshim.clock.now >= before + 100


def test_waits_over_http_and_in_python_are_both_woken(kshim: Kshim) -> None:
    wait = "/v1/groups/billing/wait?topic=orders&offset=3&timeout=20"
    with (
        member(kshim) as ann,
        meanwhile(lambda: ask(kshim, wait)) as over_http,
        meanwhile(lambda: kshim.group("billing").wait_committed("orders", 0, 3)) as in_python,
    ):
        assert ann.join() == ErrorCode.NONE
        assert ann.sync({ann.member_id: (0,)}) == ErrorCode.NONE
        assert ann.commit("orders", 0, 3) == ErrorCode.NONE
        assert in_python.result(timeout=10) == 3
        assert over_http.result(timeout=10)["offsets"][0]["committed"] == 3


def test_a_reset_from_either_side_keeps_the_url(kshim: Kshim) -> None:
    url = kshim.control_url
    kshim.produce("orders", "one")
    kshim.reset()
    assert ask(kshim, "/v1/topics")["topics"][0]["name"] == "orders"
    kshim.produce("orders", "one")
    ask(kshim, "/v1/reset", {})
    assert kshim.records("orders") == []
    kshim.reset()
    assert (kshim.control_url, ask(kshim, "/health")) == (url, {"status": "ok"})


def test_a_wait_over_http_ends_with_a_reset_in_python(kshim: Kshim) -> None:
    cluster = kshim.cluster
    with meanwhile(lambda: ask(kshim, "/v1/groups/billing/wait?state=Stable&timeout=60")) as waiting:
        while not kshim.call(lambda: len(cluster.steps.on_appended) and _waiting(kshim)):
            pass
        kshim.reset()
    with pytest.raises(Refused, match="503"):
        waiting.result(timeout=10)


def _waiting(kshim: Kshim) -> bool:
    assert kshim._thread._control is not None
    return bool(kshim._thread._control._control._context.waits.count)


def test_an_address_in_use_is_an_error_at_the_start(kshim: Kshim) -> None:
    address = kshim.control_url.removeprefix("http://")
    with pytest.raises(CannotBind), Kshim(control=address):
        pass


def test_without_control_there_is_no_url() -> None:
    with Kshim() as kshim, pytest.raises(RuntimeError, match=r"start these brokers with Kshim\(control=True\)"):
        _ = kshim.control_url
    with pytest.raises(RuntimeError, match="not been started"):
        _ = Kshim(control=True).control_url


def test_nothing_is_left_of_it() -> None:
    threads = threading.active_count()
    with Kshim(control="127.0.0.1:0") as kshim:
        url = kshim.control_url
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("control", "error", "expected"),
    [
        (
            "0.0.0.0:0",
            ValueError,
            r"of this machine such as '127\.0\.0\.1:0', not '0\.0\.0\.0:0'; `kshim serve --control` serves",
        ),
        ("127.0.0.1", ValueError, "HOST:PORT"),
        ("127.0.0.1:x", ValueError, "HOST:PORT"),
        (9080, TypeError, "control must be True, or HOST:PORT such as"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(control: Any, error: type[Exception], expected: str) -> None:
    with pytest.raises(error, match=expected):
        Kshim(control=control)


def test_a_recording_goes_on_and_cannot_be_reset_over_http(tmp_path: Path) -> None:
    with (
        Kshim(control=True, record=tmp_path / "session.rec") as kshim,
        pytest.raises(Refused, match="409"),
    ):
        ask(kshim, "/v1/reset", {})


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kshim.testing.control", raising=False)
    monkeypatch.setitem(sys.modules, "kshim.control.context", None)
    with pytest.raises(RuntimeError, match=r"control=True needs the extra kshim\[control\]"), Kshim(control=True):
        pass
