"""What one coordinator asks of another: the request goes its own way, and its answer comes back as an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kshim.broker.coordinator_host import CoordinatorHost
from kshim.coordinator.step import Errand, Now, RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.errors import ErrorCode

_CLIENT_ID = "errand"
_HOST = "/127.0.0.1"


class ErrandTicket(Ticket):
    """Stands for one errand that is owed an answer."""

    __slots__ = ("_answered", "_errand", "_version", "is_answered")

    def __init__(self, errand: Errand, version: int, answered: Callable[[Step], None]) -> None:
        self._errand = errand
        self._version = version
        self._answered = answered
        self.is_answered = False

    def complete(self, response: Any) -> None:
        """The answer is there, and durable where that was promised."""
        self.is_answered = True
        following = self._errand.settle(response, self._errand.now)
        if following is not None:
            self._answered(following)

    def refuse(self, error: ErrorCode) -> None:
        """There will be no answer."""
        self.complete(self._errand.request.error_response(error, self._version))


class Errands:
    """Runs the errands of Steps. `apply` carries out a Step; `asked` is told of each request once it was made.

    `defect` takes an exception of an errand that had to wait, of which whoever sent it hears nothing any more.
    """

    def __init__(
        self,
        coordinators: Mapping[str, CoordinatorHost[Any]],
        apply: Callable[[Step], None],
        *,
        asked: Callable[[Any], None],
        defect: Callable[[BaseException, object], None],
    ) -> None:
        self._coordinators = coordinators
        self._apply = apply
        self._asked = asked
        self._defect = defect

    def run(self, errand: Errand) -> None:
        """Ask the other coordinator, when it has read the shards that the errand is about.

        Kafka's PersisterStateManager asks again after a while where a coordinator is loading. The topic of the
        coordinator is made when it is first needed.
        """
        host = self._coordinators[errand.topic]
        api = API_TABLE[errand.request.info.api_key]
        ticket = ErrandTicket(errand, api.max_version, self._apply)
        try:
            host.topic()
        except LogError:
            ticket.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        shards = host.coordinator.shards_of(errand.request) if host.loader.pending_count else ()
        if any(map(host.loader.is_pending, shards)):
            host.loader.when_read(shards, partial(self._ask_later, host, errand, api, ticket))
        else:
            self._ask(host, errand, api, ticket)

    def _ask_later(self, host: CoordinatorHost[Any], errand: Errand, api: Api, ticket: ErrandTicket) -> None:
        try:
            self._ask(host, errand, api, ticket)
        except Exception as error:
            self._defect(error, errand.request)

    def _ask(self, host: CoordinatorHost[Any], errand: Errand, api: Api, ticket: ErrandTicket) -> None:
        now = errand.now
        context = RequestContext(api.max_version, _CLIENT_ID, _HOST, Now(now.mono_ms, now.wall_ms))
        answer: Callable[[Any, RequestContext, Ticket], Step] = getattr(host.coordinator, api.module)
        self._apply(answer(errand.request, context, ticket))
        self._asked(errand.request)
