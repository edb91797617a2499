"""`Kshim(control=True)`: the brokers of a test over HTTP as well, for what a test starts in another language.

The only module outside the command line that knows the control room. It is imported when it is asked for, since it needs an extra.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from kshim.control.context import Controlled
from kshim.control.control import Control
from kshim.testing.brokers import Brokers
from kshim.testing.setup import Setup

_LOG = logging.getLogger("kshim")


class BrokerControl:
    """Serves the HTTP interface of brokers and of those that take their places. `reset` asks for that; used in their loop only.

    What it fails with unexpectedly is added to `defects`.
    """

    def __init__(
        self,
        setup: Setup,
        brokers: Brokers,
        reset: Callable[[], object],
        defects: list[BaseException],
    ) -> None:
        assert setup.control is not None
        self._setup = setup
        self._reset = reset
        self._defects = defects
        host, port = setup.control
        self._control = Control(self._controlled(brokers), host=host, port=port, failed=self._failed)
        self._control.serving(brokers.server)

    @property
    def url(self) -> str:
        """Where it is found after `start`."""
        return self._control.url

    async def start(self, nursery: trio.Nursery) -> None:
        """Serve until `nursery` is cancelled. Raises CannotBind."""
        await nursery.start(self._control.run)
        nursery.start_soon(self._obey)

    async def _obey(self) -> None:
        while True:
            await self._control.reset_wanted()
            self._reset()

    def ended(self) -> None:
        """The brokers are about to be replaced by others."""
        self._control.end()

    def goes_on(self, brokers: Brokers) -> None:
        """These have taken their places."""
        self._control.control(self._controlled(brokers))
        self._control.serving(brokers.server)

    def _controlled(self, brokers: Brokers) -> Controlled:
        return Controlled(
            brokers.cluster, brokers.fault_rules, brokers.clock.now, self._setup.clock_rate, self._setup.why_no_reset
        )

    def _failed(self, what: str, error: Exception) -> None:
        _LOG.error("Failed while %s", what, exc_info=error)
        self._defects.append(error)
