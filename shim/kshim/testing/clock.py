"""The brokers' clock in a test's hands: it follows real time, and `advance` moves it ahead."""

from __future__ import annotations

from collections.abc import Sequence

from kshim.server.clock_control import Fired, checked_ms
from kshim.testing.arguments import check_text
from kshim.testing.thread import BrokerThread


class Clock:
    """The one clock of all brokers of a cluster. The clients' own clocks stay real.

    Every timer of the brokers runs on it: sessions, rebalances, transactions, retention, expiry of offsets, waits of Fetch,
    idle connections. See docs/testing/time.md for what that suits.
    """

    def __init__(self, thread: BrokerThread) -> None:
        self._thread = thread

    @property
    def now(self) -> float:
        """The time by the brokers' clock, in seconds since 1970, as `time.time()` counts them."""
        return self._thread.call(lambda: self._thread.brokers.clock.now().wall_ms) / 1_000

    def advance(self, seconds: float, *, keep_alive: str | Sequence[str] = ()) -> list[Fired]:
        """Move the clock ahead, and fire on the way, in the order of time, whatever falls due. Returns what fired.

        Each is a tuple (kind, key, at), such as `("session", ("billing", "consumer-1-..."), 1795356000.25)`. When this
        returns, what follows from the timers is done, and the responses that they released are sent. Clients get no
        time to act meanwhile: a live member that has not sent a heartbeat for its session timeout by this clock expires,
        unless `keep_alive` names it, by member, client or instance id. `*` stands for any text: `keep_alive="*"` keeps all.

        Raises TypeError and ValueError for a number that cannot be used: negative, not finite, more than a year.
        LookupError for a member to keep alive that there is not.
        """
        checked_ms(seconds)
        names = (keep_alive,) if isinstance(keep_alive, str) else tuple(keep_alive)
        for name in names:
            check_text("keep_alive: a name", name)
        return self._thread.call(lambda: self._thread.brokers.advance(seconds, keep_alive=names))
