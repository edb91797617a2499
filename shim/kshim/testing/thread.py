"""Brokers on a thread of their own, and how other threads call into it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from kshim.testing.awaiting import running_loop
from kshim.testing.brokers import CLOSED, Brokers, Place, serve_brokers
from kshim.testing.faults import Faults
from kshim.testing.setup import Setup

if TYPE_CHECKING:
    from kshim.faults.faults import Faults as FaultRules
    from kshim.testing.control import BrokerControl

T = TypeVar("T")

NOT_STARTED = "these brokers have not been started: use `with Kshim(...) as kshim:`"


class BrokerThread:
    """Serves what is set up from `start` to `stop`, in a thread of its own. Its methods may be called from any thread.

    `defects` collects exceptions that should not be, over all resets.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.defects: list[BaseException] = []
        self.faults = Faults(self)
        self._brokers: Brokers | None = None
        self._bootstrap_servers: str | None = None
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._turn = trio.Event()
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._is_stopping = False
        self._control: BrokerControl | None = None

    @property
    def control_url(self) -> str:
        """Where the HTTP interface is found, also after the end. Raises RuntimeError without one, and before the start."""
        if self.setup.control is None:
            raise RuntimeError("there is no HTTP interface: start these brokers with Kshim(control=True)")
        if self._control is None:
            raise RuntimeError(NOT_STARTED)
        return self._control.url

    @property
    def brokers(self) -> Brokers:
        """The brokers of this moment: others after a reset. Raises RuntimeError after the end, and before the start."""
        if self._brokers is None:
            raise RuntimeError(CLOSED if self._thread is not None else NOT_STARTED)
        return self._brokers

    def __str__(self) -> str:
        return self._bootstrap_servers or "not started"

    @property
    def bootstrap_servers(self) -> str:
        """Their addresses, the same after a reset and known after the end. Raises RuntimeError before the start."""
        if self._bootstrap_servers is None:
            raise RuntimeError(NOT_STARTED)
        return self._bootstrap_servers

    def start(self) -> Future[None]:
        """Begin; the future is done once connections are accepted, or raises what kept that from happening."""
        if self._thread is not None:
            raise RuntimeError("these brokers were started before: make new ones")
        self._thread = threading.Thread(target=self._run, name="kshim", daemon=True)
        self._thread.start()
        return self._started

    def stop(self) -> Future[None]:
        """End gracefully, also a start that is not over; the future is done when the thread has nothing left to do."""
        self._is_stopping = True  # a thread that has no loop yet finds it later
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._wake)
        return self._ended

    def close(self) -> None:
        """After `stop`: wait for the thread to be gone, and give up what it was started from."""
        if self._thread is not None:
            self._thread.join()
        self.setup.close()

    def reset(self) -> Future[None]:
        """Start anew at the same addresses: the future is done once connections are accepted again."""
        return self.call(self._begin_reset)

    def call(self, do: Callable[..., T], *arguments: Any) -> T:
        """Run a function in the loop of the brokers, between two requests; return or raise what it does.

        From any thread, that one included. Raises RuntimeError when the brokers are closed.
        """
        thread, token = self._thread, self._token
        if self._brokers is None or thread is None or token is None:
            raise RuntimeError(CLOSED if thread is not None else NOT_STARTED)
        if threading.get_ident() == thread.ident:
            return do(*arguments)
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(do(*arguments))
            except BaseException as error:
                answer.set_exception(error)
            if self._brokers is not None:
                self._brokers.rearm()

        try:
            token.run_sync_soon(run)
        except trio.RunFinishedError:
            raise RuntimeError(CLOSED) from None
        return answer.result()

    def until(
        self,
        look: Callable[[Brokers], T | None],
        timeout_s: float,
        describe: Callable[[Brokers], str],
        *,
        topic: str | None = None,
    ) -> Future[T]:
        """A future of what `look` returns as soon as that is not None, or TimeoutError with what `describe` says.

        Both are called in the loop; see `Brokers.until`. Raises TypeError, ValueError.
        """

        def begin() -> Future[T]:
            brokers = self.brokers
            return brokers.until(lambda: look(brokers), timeout_s, lambda: describe(brokers), topic=topic)

        return self.call(begin)

    def result_of(self, future: Future[T]) -> T:
        """Block until a future of `until` is done, and return what it does.

        Raises RuntimeError in the loop of the brokers, which would wait for itself.
        """
        if not future.done() and self._thread is not None and threading.get_ident() == self._thread.ident:
            future.cancel()
            raise RuntimeError(
                "a wait in the loop of the brokers would never end: wait outside of call() and of conditions"
            )
        try:
            return future.result()
        except TimeoutError as error:
            loop = running_loop()
            if loop is not None:
                error.add_note(
                    f"This wait has blocked the {loop} loop of its thread, and with it every client there: await that of"
                    " kshim.as_async(), of `async with Kshim()`, or of the fixture kshim_async."
                )
            raise

    @property
    def fault_rules(self) -> FaultRules:
        """See `Broking`."""
        return self.brokers.fault_rules

    def until_fired(self, look: Callable[[], T | None], timeout_s: float, describe: Callable[[], str]) -> Future[T]:
        """See `Broking`."""
        return self.until(lambda _: look(), timeout_s, lambda _: describe())

    # In the thread

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        failure: Exception | None = None
        async with trio.open_nursery() as self._nursery:
            try:
                await self._serve()
            except Exception as error:
                failure = error  # raised outside, where no ExceptionGroup is put around it
            self._nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _serve(self) -> None:
        places: list[Place] = []
        try:
            while True:
                async with serve_brokers(self.setup, self.defects, places) as brokers:
                    places = []
                    self._brokers = brokers
                    self._bootstrap_servers = brokers.bootstrap_servers
                    await self._have_control(brokers)
                    if not self._started.done():
                        self._started.set_result(None)
                    try:
                        if not self._is_stopping:
                            await self._turn.wait()
                    finally:
                        brokers.waits.close(RuntimeError(CLOSED if self._is_stopping else "the brokers were reset"))
                    if self._is_stopping:
                        self._brokers = None
                    else:
                        self._turn = trio.Event()
                        places = brokers.release_places()
                if self._is_stopping:
                    return
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)
        finally:
            self._brokers = None
            for place in places:
                for sock in place.sockets:
                    sock.close()

    async def _have_control(self, brokers: Brokers) -> None:
        """Serve the HTTP interface, if there is to be one. Raises RuntimeError without its extra, CannotBind."""
        if self.setup.control is None:
            return
        if self._control is not None:
            self._control.goes_on(brokers)
            return
        try:
            from kshim.testing.control import BrokerControl
        except ModuleNotFoundError as error:
            raise RuntimeError(
                "control=True needs the extra kshim[control]: python -m pip install 'kshim[control]'"
            ) from error
        control = BrokerControl(self.setup, brokers, self._begin_reset, self.defects)
        assert self._nursery is not None
        await control.start(self._nursery)
        self._control = control

    def _wake(self) -> None:
        self._turn.set()

    def _begin_reset(self) -> Future[None]:
        if self.setup.why_no_reset is not None:
            raise RuntimeError(self.setup.why_no_reset)
        if self._started.done():
            if self._control is not None:
                self._control.ended()
            self._started = Future()
            self._turn.set()
        return self._started
