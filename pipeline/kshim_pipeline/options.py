"""The options of every command of the pipeline. Needs neither Spark nor any other package, so that help always works."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kshim_pipeline.topics import ALERTS_TOPIC, EVENTS_TOPIC, OFFSETS_TOPIC

_Option = Callable[..., Any]


def setup_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline setup`."""
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="directory for the jars (default: below $KSHIM_CACHE, or below ~/.cache/kshim)",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--jars", type=Path, metavar="DIR", help="copy the jars from a directory instead of fetching")
    source.add_argument("--ivy-settings", type=Path, metavar="FILE", help="Ivy settings file, for example for a mirror")
    parser.add_argument("--check", action="store_true", help="also start Spark and run a job in its Python workers")


def land_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline land`."""
    option = parser.add_argument
    option("--bootstrap-server", required=True, metavar="HOST:PORT", help="the cluster to read from")
    option(
        "--out",
        required=True,
        metavar="DIR",
        help="directory of the records; the same on every run, and another for each cluster",
    )
    option(
        "--topic",
        action="append",
        dest="topics",
        metavar="NAME",
        help=f"topic to copy; may be repeated (default: {OFFSETS_TOPIC}, and {EVENTS_TOPIC} if it exists)",
    )
    option(
        "--continuous",
        type=float,
        metavar="SECONDS",
        help="keep running until interrupted, with a batch at this interval (default: stop at the current end)",
    )
    option(
        "--recover",
        action="store_true",
        help="compare DIR with the cluster first, and land what is missing: after files of DIR were lost, or for a DIR of "
        "an earlier version",
    )
    option("--source", metavar="NAME", help="name of the cluster in the records (default: kafka:HOST:PORT)")
    _command_config(option)
    _master(option)


def watch_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline watch`."""
    option = parser.add_argument
    option("--bootstrap-server", required=True, metavar="HOST:PORT", help="a kshim, or a Kafka")
    option("--alerts-topic", default=ALERTS_TOPIC, metavar="NAME", help=f"topic for alerts (default: {ALERTS_TOPIC})")
    option(
        "--open-after",
        type=float,
        default=60,
        metavar="SECONDS",
        help="of a kshim: alert when a rebalance has been open this long, and each time that doubles (default: 60)",
    )
    option("--every", type=float, default=5, metavar="SECONDS", help="interval between checks (default: 5)")
    option("--checkpoint", required=True, metavar="DIR", help="checkpoint directory, kept across restarts")
    _command_config(option)
    _master(option)


def analyse_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline analyse`."""
    source_options(parser)
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="directory for the tables, published at once when all are complete"
    )
    parser.add_argument(
        "--again", action="store_true", help="compute them even if nothing was landed since the last time"
    )
    parser.add_argument(
        "--each-day",
        action="store_true",
        help="results of each day (UTC) that is landed whole, in a directory of its own below --out; those that are there "
        "already are kept",
    )


def report_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline report`."""
    _results(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="the HTML file to write; it is self-contained")
    _picture(parser.add_argument)


def explain_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline explain`."""
    parser.add_argument("group", metavar="GROUP", help="the group id")
    parser.add_argument(
        "--at",
        type=instant,
        metavar="TIME",
        help="ISO 8601 (UTC unless it has an offset), milliseconds since 1970, or latest (the default)",
    )
    _results(parser)


def budget_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline budget`."""
    option = parser.add_argument
    option(
        "--group",
        action="append",
        dest="groups",
        metavar="PATTERN",
        help="groups to check, with the wildcards * and ?; may be repeated (default: all)",
    )
    option("--max-rebalances", type=int, metavar="N", help="rebalances of a group")
    option("--max-per-hour", type=float, metavar="N", help="rebalances of a group per hour")
    option("--max-stopped-ms", type=int, metavar="MS", help="total time a group spent in rebalances")
    option("--max-total-ms", type=int, metavar="MS", help="duration of a group's longest rebalance")
    option("--max-critical", type=int, metavar="N", help="critical findings about a group")
    _results(parser)


def demo_options(parser: argparse.ArgumentParser) -> None:
    """`kshim pipeline demo`."""
    option = parser.add_argument
    option("--out", default="kshim-report.html", metavar="FILE", help="the report (default: kshim-report.html)")
    _picture(option)
    option("--services", type=int, default=9, metavar="N", help="simulated consumer groups (default: 9)")
    option("--incidents", type=int, default=24, metavar="N", help="incidents to cause (default: 24, about a minute)")
    option("--seed", type=int, default=11, metavar="N", help="seed of the simulation (default: 11)")
    _master(option)


def source_options(parser: argparse.ArgumentParser) -> None:
    """Where to read the history. Several sources may be named; what more than one of them holds counts once."""
    group = parser.add_argument_group("sources (at least one)")
    option = group.add_argument
    option("--bootstrap-server", metavar="HOST:PORT", help="a running cluster, kshim or Kafka")
    _command_config(option)
    option("--landed", metavar="DIR", help="output of `kshim pipeline land`")
    option("--data-dir", metavar="DIR", help="data directory of a broker on this machine, kshim or Kafka")
    option("--broker-log", action="append", metavar="FILE", help="log of a broker; may be repeated, may have wildcards")
    option("--log-time-zone", default="UTC", metavar="ZONE", help="time zone of that log (default: UTC)")
    option(
        "--since",
        type=instant,
        metavar="TIME",
        help="leave out what happened before; ISO 8601 (UTC unless it has an offset), or ms since 1970",
    )
    option("--until", type=instant, metavar="TIME", help="leave out what happened from then on")
    _master(parser.add_argument)
    parser.add_argument("--memory", default="2g", metavar="SIZE", help="memory of Spark's driver (default: 2g)")


def instant(text: str) -> int | None:
    """ms since 1970 of an instant in ISO 8601, UTC unless it has an offset, or in ms; None for `latest`.

    >>> instant("1970-01-01T01:00:01+01:00")
    1000
    """
    if text == "latest" or text.isdigit():
        return int(text) if text.isdigit() else None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is not a time: write 2026-11-21T13:04:05, or milliseconds since 1970"
        raise argparse.ArgumentTypeError(message) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", metavar="DIR", help="output of `kshim pipeline analyse`, instead of a source")
    source_options(parser)


def _command_config(option: _Option) -> None:
    option("--command-config", type=Path, metavar="FILE", help="client properties for it, such as security settings")


def _picture(option: _Option) -> None:
    option("--picture", metavar="FILE", help="also draw the main charts as a PNG")


def _master(option: _Option) -> None:
    option("--master", metavar="URL", help="Spark's master (default: local[*], or what spark-submit passes)")
