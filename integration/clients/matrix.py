"""`make clients`: every client through every situation on both brokers, printed and written to docs/clients.md."""

from __future__ import annotations

import argparse
import datetime
import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from integration.clients import page, situations
from integration.clients.catalogue import Client, client_named, clients, consumer_protocol_clients
from integration.clients.driver import ROOT
from integration.clients.running import FAIL, MISSING, Outcome, play, play_alone
from integration.clients.secured import SecuredKafka, SecuredKshim
from integration.clients.situation import Setting, Situation
from integration.clients.spark import spark_rows
from integration.support.broker import Broker
from integration.support.jars import KAFKA_VERSION
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from integration.support.unavailable import Unavailable

GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "15000",
    "group.consumer.session.timeout.ms": "15000",
}
"""With the consumer protocol these are the broker's. The defaults, 5 s and 45 s, make a situation take minutes."""
BROKERS: dict[str, dict[Setting, Callable[[Path], Broker]]] = {
    "kshim": {
        Setting.SHARED: lambda folder: KshimProcess(folder / "kshim", durable=True, config=GROUPS),
        Setting.ALONE: lambda folder: KshimProcess(folder / "kshim", durable=True, config=GROUPS),
        Setting.SECURED: SecuredKshim,
    },
    "kafka": {
        Setting.SHARED: lambda folder: RealKafka(folder / "kafka", GROUPS),
        Setting.ALONE: lambda folder: RealKafka(folder / "kafka", GROUPS),
        Setting.SECURED: SecuredKafka,
    },
}
PAGE = ROOT / "docs" / "clients.md"
_TIMES_AGAIN = 4
_FEW = 4
"""If more cells than these fail on kshim alone, that is no chance, and none is played again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if kshim fails where Kafka does not.

    Some clients fail now and then on either broker. Where kshim alone has failed a few cells are therefore played again on
    both, and it counts if kshim fails again and Kafka never does.
    """
    options = _parser().parse_args(arguments)
    everybody = clients() + consumer_protocol_clients()
    chosen_clients = [client_named(name) for name in options.clients.split(",")] if options.clients else everybody
    chosen = _chosen_situations(options.situations)
    folder = Path(tempfile.mkdtemp(prefix="kshim-clients-"))
    print(f"logs of brokers and drivers: {folder}", flush=True)
    outcomes: list[Outcome] = []
    began = time.monotonic()
    reference = page.Reference(f"Apache Kafka {KAFKA_VERSION}", datetime.date.today().isoformat())
    for name in options.brokers.split(","):
        if name == "kafka" and options.kafka_from:
            reference, kept = page.load_reference(Path(options.kafka_from))
            outcomes += [each for each in kept if _is_chosen(each, chosen_clients, chosen)]
            continue
        outcomes += _run(name, chosen_clients, chosen, folder / name, options.jobs)
    if options.save_kafka:
        page.save_reference(Path(options.save_kafka), reference, outcomes)
    spark = spark_rows(folder / "spark") if options.spark else None
    report = page.Report(chosen_clients, chosen, outcomes, reference, spark)
    print(page.printed(report))
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    if options.page:
        Path(options.page).write_text(page.markdown(report))
    regressions = page.failures_of_kshim_alone(report)
    both_played = set(options.brokers.split(",")) == set(BROKERS) and not (options.kafka_from or options.spark)
    if both_played and len(regressions) <= _FEW:
        regressions = [each for each in regressions if _fails_again(each, folder / "again")]
    if not regressions:
        shutil.rmtree(folder)
    return 1 if regressions else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="integration.clients.matrix", description=__doc__)
    parser.add_argument(
        "--clients", help="folders, with -consumer for that group protocol, or names; comma separated; all"
    )
    parser.add_argument("--situations", help="names or beginnings of names, comma separated; all")
    parser.add_argument("--brokers", default="kshim,kafka", help="kshim, kafka or both, comma separated")
    parser.add_argument("--jobs", type=int, default=2, help="so many clients at the same time")
    parser.add_argument("--spark", action="store_true", help="also run the suite of Spark's source and sink")
    parser.add_argument("--page", help=f"also write the matrix here, as {PAGE.relative_to(ROOT)}")
    parser.add_argument("--save-kafka", metavar="FILE", help="keep what Kafka did, with date and versions")
    parser.add_argument("--kafka-from", metavar="FILE", help="take what Kafka did from a file instead of running it")
    return parser


def _chosen_situations(names: str | None) -> list[Situation]:
    if names is None:
        return situations.SITUATIONS
    prefixes = tuple(names.split(","))
    chosen = [each for each in situations.SITUATIONS if each.name.startswith(prefixes)]
    if not chosen:
        raise SystemExit(f"no situation {names!r}; there are {', '.join(each.name for each in situations.SITUATIONS)}")
    return chosen


def _is_chosen(outcome: Outcome, chosen_clients: list[Client], chosen: list[Situation]) -> bool:
    return outcome.client in [client.name for client in chosen_clients] and outcome.situation in [
        situation.name for situation in chosen
    ]


def _run(name: str, chosen_clients: list[Client], chosen: list[Situation], folder: Path, jobs: int) -> list[Outcome]:
    """All on one broker; clients at the same time, the situations of a client one after another."""
    outcomes: list[Outcome] = []
    for setting in Setting:
        situations_there = [situation for situation in chosen if situation.setting is setting]
        if not situations_there:
            continue
        place = folder / setting.name.lower()
        place.mkdir(parents=True)
        make = BROKERS[name][setting]
        shared = None if setting is Setting.ALONE else make(place)
        if shared is not None:
            shared.start()
        play_all = functools.partial(_play_all, chosen=situations_there, name=name, shared=shared, folder=place)
        try:
            with ThreadPoolExecutor(jobs) as pool:
                outcomes += [outcome for of_client in pool.map(play_all, chosen_clients) for outcome in of_client]
        finally:
            if shared is not None:
                shared.kill()
    return outcomes


def _fails_again(outcome: Outcome, folder: Path) -> bool:
    """Whether kshim alone fails when a cell is played again on both brokers."""
    client = client_named(outcome.client)
    (situation,) = [each for each in situations.SITUATIONS if each.name == outcome.situation]
    failures = dict.fromkeys(BROKERS, 0)
    for number in range(_TIMES_AGAIN):
        for name in BROKERS:
            place = folder / client.key / situation.name / f"{name}-{number}"
            (again,) = _run(name, [client], [situation], place, 1)
            failures[name] += again.verdict == FAIL
    told = ", ".join(f"{name} fails {count} of {_TIMES_AGAIN} times" for name, count in failures.items())
    print(f"{client.name}: {situation.name}: played again: {told}", flush=True)
    return is_of_kshim_alone(failures)


def is_of_kshim_alone(failures: Mapping[str, int]) -> bool:
    """`failures`: how often each broker failed when a cell was played again that only kshim had failed."""
    return failures["kshim"] > 0 and failures["kafka"] == 0


def _play_all(
    client: Client, *, chosen: list[Situation], name: str, shared: Broker | None, folder: Path
) -> list[Outcome]:
    """One client; without a shared broker each situation gets its own."""
    try:
        client.command()
    except Unavailable as missing:
        return [Outcome(client.name, situation.name, name, MISSING, str(missing), 0.0, "") for situation in chosen]
    outcomes = []
    for situation in chosen:
        if not situation.is_for(client):
            continue
        place = folder / client.key / situation.name
        if shared is None:
            outcome = play_alone(client, situation, BROKERS[name][situation.setting], place)
        else:
            outcome = play(client, situation, shared, place)
        _tell(outcome)
        outcomes.append(outcome)
    return outcomes


def _tell(outcome: Outcome) -> None:
    line = f"{outcome.broker:6} {outcome.client:46} {outcome.situation:32} {outcome.verdict:4} {outcome.seconds:6.1f} s"
    if outcome.verdict in (FAIL, MISSING):
        line += f"  {outcome.detail}"
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
