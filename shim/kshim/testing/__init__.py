"""Brokers inside the process of a test: `with brokers_in_thread(3) as brokers:`, or `open_brokers` under trio."""

from kshim.testing.brokers import Brokers, open_brokers
from kshim.testing.thread import BrokersInThread, brokers_in_thread

__all__ = ["Brokers", "BrokersInThread", "brokers_in_thread", "open_brokers"]
