"""`kshim demo`: starts the processes, runs the script, shows the story, cleans up."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TextIO

from kshim.tools.demo.children import Child, Children
from kshim.tools.demo.picture import draw, summary
from kshim.tools.demo.screen import LiveScreen, PlainLines
from kshim.tools.demo.story import Story
from kshim.tools.interrupts import signals_as_interrupts
from kshim.tools.screen import Line, is_live

TOPIC = "orders"
GROUP = "billing"
PARTITION_COUNT = 6
RECORDS_PER_S = 20
SESSION_TIMEOUT_MS = 6_000
FRAME_MS = 100
END_MS = 29_000
LONGEST_MS = 60_000
"""On a slow machine the script waits for what it builds on, up to here."""
EXIT_UNAVAILABLE = 3


class DemoFailed(Exception):
    """A process of the demo ended, or did not do what it is there for."""


def run_demo(*, is_plain: bool, stream: TextIO | None = None) -> int:
    """Run it on `stream` (default: stdout) and return the exit code: 0, 1 when something failed, 3 without kafka-python, 130 after Ctrl-C."""
    stream = stream or sys.stdout
    if find_spec("kafka") is None:
        print("kshim: the package kafka-python is not installed: pip install 'kshim[demo]'", file=sys.stderr)
        return EXIT_UNAVAILABLE
    screen = PlainLines(stream) if is_plain or not is_live(stream) else LiveScreen(stream)
    children = Children()
    try:
        with signals_as_interrupts():
            demo = Demo(children, screen)
            try:
                demo.play()
            finally:
                demo.end()
                screen.close()
    except DemoFailed as failure:
        print(f"kshim: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("kshim: the demo was interrupted; its processes have ended", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    return 0


class Demo:
    """One showing. `play` returns when the script is over; `end` is called whatever happened."""

    def __init__(self, children: Children, screen: LiveScreen | PlainLines) -> None:
        self._children = children
        self._screen = screen
        self._consumers: dict[str, Child] = {}
        self._bootstrap = ""
        self._broker: Child
        self._producers: list[Child] = []
        self.story = Story(GROUP, PARTITION_COUNT, _wall_ms())

    def play(self) -> None:
        """Start the broker and act the script. Raises DemoFailed."""
        self._start_broker()
        self.story = Story(GROUP, PARTITION_COUNT, _wall_ms())
        self.story.note(_wall_ms(), "broker", f"listens on {self._bootstrap}")
        for at_ms, act in self._script():
            self._show_until(at_ms)
            act()
        self._show_until(END_MS)
        self._wait_until(self._is_told)
        self._screen.end(self._picture(), summary(self.story, self._elapsed_ms(), SESSION_TIMEOUT_MS))

    def end(self) -> None:
        """End all processes: the clients first, which leave their group properly, then the broker."""
        self._children.stop([*self._consumers.values(), *self._producers])
        self._children.stop()

    def _script(self) -> list[tuple[int, Callable[[], None]]]:
        return [
            (0, self._start_producer),
            (0, lambda: self._start_consumer("anna")),
            (1_500, lambda: self._start_consumer("ben")),
            (8_000, lambda: self._start_consumer("cleo")),
            (13_500, lambda: self._crash("ben")),
            (24_500, lambda: self._leave("cleo")),
            (27_500, lambda: self._children.ask_to_end(self._producers[0])),
        ]

    def _is_calm(self) -> bool:
        """Whether all live consumers read, and every partition belongs to one of them."""
        living = [member for member in self.story.members.values() if member.state not in ("crashed", "left")]
        owned = [partition for member in living for partition in member.partitions]
        is_all_read = len(owned) == PARTITION_COUNT and all(member.state == "reading" for member in living)
        return is_all_read and self.story.group_state == "Stable"

    def _is_told(self) -> bool:
        """Whether everything that the script is to show has been seen, down to the last record."""
        is_all_read = self.story.read_count - self.story.repeated_count == self.story.produced_count
        return self._is_calm() and not any(child.is_running for child in self._producers) and is_all_read

    # ---------------------------------------------------------------- acts

    def _start_broker(self) -> None:
        serve = [sys.executable, "-m", "kshim", "serve", "--listen=127.0.0.1:0", "--log-format=json"]
        serve.append(f"--topic={TOPIC}:{PARTITION_COUNT}")
        self._broker = self._children.start("broker", ["-m", "kshim.tools.demo.lifeline", *serve], listen_to="stderr")
        assert self._broker.process.stdout is not None
        self._bootstrap = self._broker.process.stdout.readline().decode().strip()
        if not self._bootstrap:
            raise DemoFailed(f"the broker did not start (exit code {self._broker.process.wait()})")

    def _start_producer(self) -> None:
        arguments = [self._bootstrap, TOPIC, str(PARTITION_COUNT), str(RECORDS_PER_S)]
        self._producers.append(self._children.start("producer", ["-m", "kshim.tools.demo.producer", *arguments]))

    def _start_consumer(self, name: str) -> None:
        arguments = [name, self._bootstrap, TOPIC, GROUP, str(SESSION_TIMEOUT_MS)]
        self._consumers[name] = self._children.start(name, ["-m", "kshim.tools.demo.member", *arguments])
        self.story.starts(name, _wall_ms())

    def _crash(self, name: str) -> None:
        self._wait_until(self._is_calm)
        self._consumers[name].kill()
        self.story.crashes(name, _wall_ms())

    def _leave(self, name: str) -> None:
        self._wait_until(self._is_calm)
        self._children.ask_to_end(self._consumers[name])

    # ---------------------------------------------------------------- watching

    def _elapsed_ms(self) -> int:
        return _wall_ms() - self.story.began_ms

    def _show_until(self, at_ms: int) -> None:
        """Take reports and redraw until `at_ms` of the story."""
        while True:
            self._show()
            left_s = (at_ms - self._elapsed_ms()) / 1000
            if left_s <= 0:
                return
            self._hear(min(FRAME_MS / 1000, left_s))
            self._require_running()

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        """Go on until `is_so()`; on a quick machine it is. Raises DemoFailed where it does not come to that."""
        while not is_so():
            if self._elapsed_ms() > LONGEST_MS:
                raise DemoFailed(
                    "the group did not reach the expected state; the last lines show the state that it reached"
                )
            self._show_until(self._elapsed_ms() + FRAME_MS)

    def _hear(self, timeout_s: float) -> None:
        """Take what was reported, for `timeout_s`."""
        until_s = time.monotonic() + timeout_s
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                child, heard = self._children.heard.get(timeout=left_s)
            except queue.Empty:
                return
            if child is self._broker:
                self.story.logged(heard)
            else:
                self.story.told(heard)

    def _show(self) -> None:
        self._screen.show(self._picture(), self.story.notes)

    def _picture(self) -> list[Line]:
        return draw(
            self.story,
            self._elapsed_ms(),
            bootstrap=self._bootstrap,
            topic=TOPIC,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            end_ms=END_MS,
        )

    def _require_running(self) -> None:
        if not self._broker.is_running:
            raise DemoFailed(f"the broker ended with exit code {self._broker.process.returncode}")
        for name, child in self._consumers.items():
            if self.story.members[name].state not in ("crashed", "leaving", "left") and not child.is_running:
                raise DemoFailed(f"consumer {name} ended unexpectedly: {child.last_words()}")
        for child in self._producers:
            if child.process.poll():
                raise DemoFailed(f"the producer ended unexpectedly: {child.last_words()}")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
