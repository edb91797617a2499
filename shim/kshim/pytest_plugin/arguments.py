"""What the brokers of a test are started with: from the configuration of pytest, from factories, from markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Final, TypedDict, cast

import pytest


class Arguments(TypedDict, total=False):
    """Those of `kshim.testing.Kshim`."""

    brokers: int
    topics: Mapping[str, int]
    users: Mapping[str, str]
    tls: bool
    acls: Mapping[str, str | Iterable[str]]
    config: Mapping[str, str]
    data_dir: str | PathLike[str] | None
    clock: str
    record: str | PathLike[str] | None
    control: bool | str


MARKER: Final = "kshim"
NAMES: Final = tuple(Arguments.__annotations__)
_ADDED: Final = ("topics", "config")
"""Arguments that add to those of a wider scope, key by key; others take their place."""
_MAX_BROKERS: Final = 100
"""As kshim.testing has it, which takes long to import."""


def add_options(parser: pytest.Parser) -> None:
    """The options of the command line and of the configuration file."""
    group = parser.getgroup("kshim", "Kafka-compatible brokers for tests")
    group.addoption(
        "--kafka-real",
        metavar="HOST:PORT",
        help="run the tests on this Kafka; those that need kshim are skipped",
    )
    group.addoption("--kshim-brokers", metavar="N", help="the number of brokers (1)")
    group.addoption("--kshim-clock", metavar="real|manual|xN", help="the clock of the brokers (real)")
    group.addoption(
        "--kshim-config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a key of Kafka's broker configuration; may be repeated",
    )
    parser.addini("kafka_real", "HOST:PORT of a Kafka to run the tests on, as --kafka-real")
    parser.addini("kshim_brokers", "the number of brokers that kshim_proc starts (1)")
    parser.addini("kshim_clock", "their clock: real, manual or x and a rate (real)")
    parser.addini("kshim_config", "their configuration: lines of KEY=VALUE, with Kafka's keys", type="linelist")
    parser.addini("kshim_topics", "topics they have from the start: lines of NAME=PARTITIONS", type="linelist")


def real_address(config: pytest.Config) -> str | None:
    """Where the Kafka is that the tests are to run on, if not on kshim."""
    return config.getoption("--kafka-real") or config.getini("kafka_real") or None


def configured(config: pytest.Config) -> Arguments:
    """What options and the configuration file say. Raises pytest.UsageError."""
    found = Arguments()
    brokers = config.getoption("--kshim-brokers") or config.getini("kshim_brokers")
    if brokers:
        found["brokers"] = _number("kshim_brokers", brokers)
        if found["brokers"] not in range(1, _MAX_BROKERS + 1):
            raise pytest.UsageError(f"kshim_brokers must be a number from 1 to {_MAX_BROKERS}, not {brokers}")
    clock = config.getoption("--kshim-clock") or config.getini("kshim_clock")
    if clock:
        found["clock"] = _clock("kshim_clock", clock)
    topics = _pairs("kshim_topics", config.getini("kshim_topics"))
    if topics:
        found["topics"] = {name: _number(f"kshim_topics: {name}", count) for name, count in topics.items()}
    pairs = _pairs("kshim_config", [*config.getini("kshim_config"), *config.getoption("--kshim-config")])
    if pairs:
        found["config"] = pairs
    return found


def marked(item: pytest.Item) -> Arguments:
    """What the `kshim` markers of a test say; the nearest has the last word. Raises pytest.UsageError."""
    found = Arguments()
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.kshim takes keywords only, such as brokers=3")
        found = merged(found, checked("@pytest.mark.kshim", marker.kwargs))
    return found


def checked(what: str, arguments: Mapping[str, Any]) -> Arguments:
    """Raises pytest.UsageError for a name that there is not; values are checked when brokers start."""
    for name in arguments:
        if name not in NAMES:
            raise pytest.UsageError(f"{what} has no {name}; there are {', '.join(NAMES)}")
    for name in _ADDED:
        if not isinstance(arguments.get(name, {}), Mapping):
            raise pytest.UsageError(f"{what}: {name} must be a dict, not {arguments[name]!r}")
    return cast("Arguments", dict(arguments))


def merged(wide: Arguments, near: Arguments) -> Arguments:
    """Those of a wider scope with those of a nearer one over them."""
    found: dict[str, Any] = {**wide, **near}
    for name in _ADDED:
        if name in wide and name in near:
            found[name] = {**cast("Any", wide)[name], **cast("Any", near)[name]}
    return cast("Arguments", found)


def only_adds_topics(given: Arguments, asked: Arguments) -> bool:
    """Whether brokers started with `given` can serve a test that asks for more, once they have its topics."""
    both = merged(given, asked)
    topics = given.get("topics", {})
    return all(
        both.get(name) == given.get(name) if name != "topics" else both.get("topics", {}).items() >= topics.items()
        for name in NAMES
    )


def _pairs(what: str, lines: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for line in lines:
        name, is_pair, value = line.partition("=")
        if not is_pair or not name.strip():
            raise pytest.UsageError(f"{what}: {line!r} must have the form NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def _clock(what: str, value: str) -> str:
    from kshim.scheduling.clock_rate import clock_rate

    try:
        clock_rate(value)
    except ValueError as error:
        raise pytest.UsageError(f"{what}: {error}") from None
    return value


def _number(what: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise pytest.UsageError(f"{what} must be a number, not {value!r}") from None
