"""The live page: groups at a glance, and one group with its past."""

from __future__ import annotations

from time import thread_time
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlencode

from msgspec import UNSET, Meta, UnsetType

from kshim.control.context import ControlContext, PageContext
from kshim.control.documents import Input
from kshim.control.http import ProblemError, Response
from kshim.control.routing import Table

if TYPE_CHECKING:
    from kshim.harness.seen import Seen
    from kshim.page import GroupNow, GroupRow, Site

# Pages, and what they need to explain a group, are imported when somebody looks: brokers of tests are started all the time.

TABLE = Table()
PATH: Final = "/page"
HTML: Final = "text/html; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
_STREAM: Final = "/v1/history/stream"
_POLICY: Final = (
    "Content-Security-Policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
)
_REFERRER: Final = ("Referrer-Policy", "no-referrer")


class PageInput(Input):
    """What a page shows."""

    group: Annotated[str, Meta(min_length=1, max_length=32_767)] | UnsetType = UNSET
    rebalance: Annotated[int, Meta(ge=0, le=2**53)] | UnsetType = UNSET
    at: Annotated[int, Meta(ge=0, le=2**53)] | UnsetType = UNSET
    q: Annotated[str, Meta(max_length=32_767)] = ""
    form: Literal["page", "text", "file"] = "page"


class OwnPages:
    """Pages of the brokers that the control interface is of."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._made: Seen | None = None

    @property
    def _seen(self) -> Seen:
        from kshim.harness.seen import Seen

        if self._made is None:
            self._made = Seen(self._context.cluster)
        return self._made

    def cluster(self, group: str | None) -> Site:
        """What all pages have in common; the stream of a page of one group has only its events."""
        from kshim.page import Site

        context = self._context
        address = _STREAM if group is None else f"{_STREAM}?{urlencode({'group': group.encode('utf-8', 'replace')})}"
        return Site(
            _title(context),
            context.now().wall_ms,
            can_act=not context.is_read_only,
            stream=address,
            problem=_problem(context),
        )

    def rows(self, search: str) -> tuple[list[GroupRow], int]:
        """The groups whose names have the text, and how many there are."""
        return self._seen.rows(search, self._context.now().wall_ms)

    def group(self, name: str) -> GroupNow | None:
        """One group with its past."""
        return self._seen.group(name, self._context.now().wall_ms)


@TABLE.get("/", answers=HTML)
def root(_context: PageContext) -> Response:
    """The page is found at the address that people try."""
    return Response(302, b"", _TEXT, (("Location", PATH),))


@TABLE.get(PATH, answers=HTML)
def page(context: PageContext, query: PageInput) -> Response:
    """The groups, or one group: as a page, as text, or as a file of its own."""
    from kshim.page import ROWS_SHOWN, group_page, group_text, groups_page, message_page
    from kshim.page.files import style

    began = thread_time()
    group = None if query.group is UNSET else query.group
    cluster = context.pages.cluster(group)
    if group is None:
        rows, count = context.pages.rows(query.q)
        html = groups_page(cluster, rows[:ROWS_SHOWN], search=query.q, group_count=count, found_count=len(rows))
        return _page(html, began)
    found = context.pages.group(group)
    if found is None:
        message = "There is no such group, and the history knows of none."
        return _page(message_page(cluster, f"No group {group}", message), began, status=404)
    number = None if query.rebalance is UNSET else query.rebalance
    at_ms = None if query.at is UNSET else query.at
    if query.form == "text":
        return Response(200, group_text(found, rebalance=number, at_ms=at_ms).encode("utf-8", "replace"), _TEXT)
    if query.form == "file":
        html = group_page(cluster, found, rebalance=number, at_ms=at_ms, css=style())
        return Response(
            200, _encoded(html), HTML, (("Content-Disposition", 'attachment; filename="kshim-group.html"'),)
        )
    return _page(group_page(cluster, found, rebalance=number, at_ms=at_ms), began)


@TABLE.get(f"{PATH}/page.css", answers="text/css; charset=utf-8")
def page_style(_context: PageContext) -> Response:
    """The style of the pages."""
    from kshim.page.files import style

    return Response(200, style().encode(), "text/css; charset=utf-8")


@TABLE.get(f"{PATH}/page.js", answers="text/javascript; charset=utf-8")
def page_script(_context: PageContext) -> Response:
    """The script of the pages."""
    from kshim.page.files import script

    return Response(200, script(), "text/javascript; charset=utf-8")


def _page(html: str, began: float, *, status: int = 200) -> Response:
    body = _encoded(html)
    # Of a core, which is what the script keeps small; the time by the clock is longer on a busy machine.
    took = ("Server-Timing", f"page;dur={(thread_time() - began) * 1_000:.1f}")
    return Response(status, body, HTML, (_POLICY, _REFERRER, took))


def _encoded(html: str) -> bytes:
    return html.encode("utf-8", "replace")


def _title(context: ControlContext) -> str:
    cluster = context.cluster
    addresses = (cluster.known_node(node_id).address("PLAINTEXT") for node_id in cluster.leadership.node_ids)
    return "kshim at " + ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


def _problem(context: ControlContext) -> str | None:
    """What is wrong with everything: the brokers are not ready."""
    from kshim.control.handlers.server import ready

    try:
        ready(context)
    except ProblemError as problem:
        return f"Not everything is shown yet: {problem}."
    return None
