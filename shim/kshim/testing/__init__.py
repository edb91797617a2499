"""Brokers inside the process of a test: `with Kshim(topics={"orders": 3}) as kshim:`, or `open_brokers` under trio."""

from kshim.harness.record import Record
from kshim.server.clock_control import Fired
from kshim.testing.brokers import Brokers, open_brokers
from kshim.testing.clock import Clock
from kshim.testing.group import AsyncGroup, Group
from kshim.testing.kshim import AsyncKshim, Kshim

__all__ = ["AsyncGroup", "AsyncKshim", "Brokers", "Clock", "Fired", "Group", "Kshim", "Record", "open_brokers"]
