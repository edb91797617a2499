"""From a run that fails to a short one that fails in the same way: inputs are taken out, then time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from kshim.coordinator.groups.coordinator import GroupCoordinator
from tests.simulation.script import Input, Script
from tests.simulation.simulate import play
from tests.simulation.world import MakeCoordinator

Inputs = tuple[Input, ...]


def shrink(
    script: Script, rule: str, make_coordinator: MakeCoordinator = GroupCoordinator, *, limit_s: float = 60.0
) -> Script:
    """The shortest script found within `limit_s` that still breaks `rule`. The given one must break it."""
    ends = monotonic() + limit_s

    def fails(inputs: Inputs) -> bool:
        violation = play(script._replace(inputs=inputs), make_coordinator)
        return violation is not None and violation.rule == rule

    inputs = script.inputs
    assert fails(inputs), f"the script does not break {rule} when it is played again"
    while monotonic() < ends:
        before = len(inputs)
        inputs = _fewer(inputs, fails, ends)
        if len(inputs) == before:
            break
    return script._replace(inputs=_sooner(_fewer_clients(inputs, fails), fails, ends))


def _fewer(inputs: Inputs, fails: Callable[[Inputs], bool], ends: float) -> Inputs:
    """Take out slices, from large to single inputs, from the end to the start."""
    size = max(len(inputs) // 2, 1)
    while size >= 1:
        end = len(inputs)
        while end > 0 and monotonic() < ends:
            start = max(end - size, 0)
            shorter = inputs[:start] + inputs[end:]
            if shorter and fails(shorter):
                inputs = shorter
            end = start
        size //= 2
    return inputs


def _fewer_clients(inputs: Inputs, fails: Callable[[Inputs], bool]) -> Inputs:
    """Let fewer clients take part in the end."""
    last = next((index for index, what in enumerate(inputs) if what.verb == "settle"), None)
    if last is None:
        return inputs
    for name in list(inputs[last].detail["clients"]):
        what = inputs[last].at(inputs[last].at_ms)
        clients = {other: known for other, known in what.detail["clients"].items() if other != name}
        what.detail = {"clients": clients}
        shorter = (*inputs[:last], what, *inputs[last + 1 :])
        if fails(shorter):
            inputs = shorter
    return inputs


def _sooner(inputs: Inputs, fails: Callable[[Inputs], bool], ends: float) -> Inputs:
    """Let each input follow at once upon the one before, or sooner, where that still fails."""
    for index in range(len(inputs)):
        for earlier in _without_gap(inputs, index):
            if monotonic() > ends:
                return inputs
            if fails(earlier):
                inputs = earlier
                break
    return inputs


def _without_gap(inputs: Inputs, index: int) -> Iterator[Inputs]:
    before_ms = inputs[index - 1].at_ms if index else 0
    gap_ms = inputs[index].at_ms - before_ms
    for cut_ms in (gap_ms, gap_ms // 2):
        if cut_ms > 0:
            yield (*inputs[:index], *(what.at(what.at_ms - cut_ms) for what in inputs[index:]))
