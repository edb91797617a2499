"""The order in which Kafka goes through what it keeps in hash tables: a function of the texts and of how they came in.

Where assignors and their topics leave a choice between equals, this order makes it, and so it does where a request says
something of several share partitions. A text has the hash that Java says; what tables and heaps do with it has been the same
since Java 8, and since Scala 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import unpack
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_FULL = 0.75
"""How much of a table is used before it grows."""

_GOLDEN = -7046029254386353131
"""What a table of timelines multiplies hashes with: 2**64 divided by the golden ratio, signed."""


def text_hash(text: str) -> int:
    """Java's hash of a text, signed, over its UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    found = 0
    for unit in unpack(f"<{len(units) // 2}H", units):
        found = (31 * found + unit) & 0xFFFFFFFF
    return _signed(found)


def uuid_hash(uuid: bytes) -> int:
    """Java's hash of Kafka's `Uuid`, of 32 bits, from its 16 bytes."""
    bits = int.from_bytes(uuid[:8]) ^ int.from_bytes(uuid[8:])
    return (bits >> 32) ^ (bits & 0xFFFFFFFF)


def topic_id_and_index_hash(topic_id: bytes, partition: int) -> int:
    """Java's hash of a partition as Kafka's `TopicIdPartition` of the coordinators has it, of 32 bits."""
    return (31 * uuid_hash(topic_id) + partition) & 0xFFFFFFFF


def topic_id_partition_hash(topic_id: bytes, topic: str, partition: int) -> int:
    """Java's hash of a `TopicIdPartition`, of 32 bits. `topic_id` has 16 bytes."""
    of_partition = 31 * (31 + partition) + text_hash(topic)
    return (31 * (31 + uuid_hash(topic_id)) + of_partition) & 0xFFFFFFFF


def hash_map_order(items: Iterable[T], capacity: int = 16, hash_of: Callable[[Any], int] = text_hash) -> list[T]:
    """Items, each once, in the order of a `HashMap` that was made for so many, and that they were put into one by one.

    `hash_of`: as Java says; they are texts unless it is given.
    """
    found = list(dict.fromkeys(items))
    slots = _slots(capacity)
    while len(found) > slots * _FULL:
        slots *= 2
    return _by_slot(found, slots, hash_of)


def hash_set_order(items: Iterable[T], hash_of: Callable[[Any], int] = text_hash) -> list[T]:
    """Items, each once, in the order of a `HashSet` that was made of them at once. `hash_of`: as Java says."""
    found = list(dict.fromkeys(items))
    return hash_map_order(found, max(16, int(len(found) / _FULL) + 1), hash_of)


def scala_map_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """Items, each once, in the order of a mutable `Map` of Scala that they were put into one by one. `hash_of`: as Java says."""
    found = list(dict.fromkeys(items))
    slots = 16
    while len(found) >= int(slots * _FULL):
        slots *= 2
    spread = {item: _spread(hash_of(item)) for item in found}
    return sorted(found, key=lambda item: (spread[item] & (slots - 1), _signed(spread[item])))


def computed_hash_map_order(
    items: Iterable[T], capacity: int = 16, hash_of: Callable[[Any], int] = text_hash
) -> list[T]:
    """As `hash_map_order`, where values were computed when they were first asked for; items are all that were asked for.

    Such a table grows when it is asked the next time, and within a slot the last that came is the first.
    """
    found: dict[T, None] = {}
    slots = _slots(capacity)
    for item in items:
        if len(found) > slots * _FULL:
            slots *= 2
        found[item] = None
    return _by_slot(reversed(found), slots, hash_of)


def _slots(capacity: int) -> int:
    return 1 << max(0, capacity - 1).bit_length()


def _by_slot(items: Iterable[T], slots: int, hash_of: Callable[[Any], int]) -> list[T]:
    return sorted(items, key=lambda item: _spread(hash_of(item)) & (slots - 1))


def timeline_order(texts: Iterable[str], *, most: int) -> list[str]:
    """Texts in the order of Kafka's `TimelineHashMap`, the table that groups keep their members in, from the order in which
    they were put there.

    `most` is how many were in it at once, ever: it grows when one is put again, too, and it never becomes smaller.
    """
    found = list(texts)
    slots = 2
    while (most + 1) * _FULL > slots:
        slots *= 2
    shift = 65 - slots.bit_length()
    found.reverse()  # of one slot, the last that came is the first that is read
    return sorted(found, key=lambda text: (text_hash(text) * _GOLDEN & 0xFFFFFFFFFFFFFFFF) >> shift)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _spread(value: int) -> int:
    value &= 0xFFFFFFFF
    return value ^ value >> 16


class Heap(Generic[T]):
    """The least first, as in Java's `PriorityQueue`, which decides who of several equals that is."""

    def __init__(self, weight: Callable[[T], float], items: Iterable[T] = ()) -> None:
        """`weight` of an item may change only while it is not in here."""
        self._weight = weight
        self._items: list[tuple[float, T]] = []
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: T) -> None:
        """Put one in."""
        items, weight = self._items, self._weight(item)
        items.append((weight, item))
        at = len(items) - 1
        while at and weight < items[above := (at - 1) // 2][0]:
            items[at] = items[above]
            at = above
        items[at] = weight, item

    def pop(self) -> T:
        """Take the least out. Raises IndexError: there is none."""
        items = self._items
        last = items.pop()
        if not items:
            return last[1]
        least, at, size = items[0][1], 0, len(items)
        while (below := 2 * at + 1) < size:
            if below + 1 < size and items[below][0] > items[below + 1][0]:
                below += 1
            if last[0] <= items[below][0]:
                break
            items[at] = items[below]
            at = below
        items[at] = last
        return least
