"""Where the epochs of a partition's leaders begin in its log (KIP-101).

`Epochs` holds (epoch, its first offset), ascending in both; () stands for epoch 0 from the beginning on. Kafka:
LeaderEpochFileCache.
"""

from __future__ import annotations

Epochs = tuple[tuple[int, int], ...]

_ALWAYS: Epochs = ((0, 0),)
_UNDEFINED = (-1, -1)


def begun(epochs: Epochs, epoch: int, offset: int) -> Epochs:
    """`epoch` begins at `offset`, the end of the log. Earlier ones in which nothing was written are forgotten."""
    return (*((other, first) for other, first in epochs or _ALWAYS if first < offset), (epoch, offset))


def epoch_at(epochs: Epochs, offset: int) -> int:
    """The epoch in which the record at `offset` was written, or will be."""
    for epoch, first in reversed(epochs):
        if first <= offset:
            return epoch
    return 0


def end_of_epoch(epochs: Epochs, asked: int, *, start_offset: int, end_offset: int) -> tuple[int, int]:
    """(epoch, end offset) of the greatest epoch that is not above `asked`; (-1, -1) when that is above all there are.

    `start_offset` and `end_offset` are those of the log. Before the first epoch all ends where the log starts.
    """
    if asked == -1:
        return _UNDEFINED
    known = [(epoch, max(first, start_offset)) for epoch, first in epochs or _ALWAYS]
    while len(known) > 1 and known[1][1] <= start_offset:
        del known[0]  # all of it was deleted
    if asked == known[-1][0]:
        return asked, end_offset
    above = next((entry for entry in known if entry[0] > asked), None)
    if above is None:
        return _UNDEFINED
    floor = max((epoch for epoch, _ in known if epoch <= asked), default=asked)
    return floor, above[1]
