"""The command line: what each command takes; `KSHIM_*` variables set what the options of `serve` do not."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, NoReturn

from kshim.cli.addresses import Address, is_loopback, is_wildcard
from kshim.cli.environment import configuration_of, listener_of
from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.cli.option_table import (
    Given,
    Option,
    add_options,
    address,
    choice,
    flag,
    key_and_value,
    number,
    time_ms,
    times,
)
from kshim.scheduling.clock_rate import REAL, clock_rate

LogFormat = Literal["text", "json"]
OutputFormat = Literal["text", "json", "junit"]
FsyncPolicy = Literal["always", "interval", "never"]
RecoverPolicy = Literal["refuse", "skip-corrupt"]

MAX_PARTITIONS = 9_999
"""What one CreateTopics request may create of a topic, as in Kafka."""
MAX_BROKERS = 100
CONTROL_TOKEN = "KSHIM_CONTROL_TOKEN"
"""The variable with the token of the HTTP interface, for `serve` and `ctl`."""


class ServeOptions(NamedTuple):
    """What `kshim serve` was asked for. `config` holds Kafka's keys as text, `--config` over `--properties`.

    `listen` is None where only the configuration says it, or nothing does. `advertised` with port 0 means the port that
    was bound; None: what clients dial is the listener itself, or what the configuration says.
    """

    listen: Address | None
    advertised: Address | None
    data_dir: str | None
    config: dict[str, str]
    topics: dict[str, int]
    log_format: LogFormat
    verbosity: int
    """0; 1: also failed requests; 2: also every request."""
    fsync: FsyncPolicy | None = None
    """None: as the configuration says, `interval` where it says nothing."""
    fsync_interval_ms: int | None = None
    recover: RecoverPolicy = "refuse"
    users_file: str | None = None
    """Users of SASL listeners, in addition to those of the configuration."""
    broker_count: int = 1
    clock_rate: int = REAL
    """Thousandths of real time."""
    control: Address | None = None
    """Where the HTTP interface listens."""
    control_token: str | None = None
    control_read_only: bool = False
    secret_files: tuple[str, ...] = ()
    """Those of the files given that hold passwords or keys."""
    warnings: tuple[str, ...] = ()
    """A sentence for each thing that was probably meant otherwise."""
    faults_file: str | None = None
    """Rules of faults, in TOML."""
    record: str | None = None
    """The file of a recording."""
    record_max_bytes: int = 1 << 30


class DemoOptions(NamedTuple):
    """What `kshim demo` was asked for."""

    is_plain: bool


class ConformOptions(NamedTuple):
    """What `kshim conform` was asked for. No suites: all of them; `assume` is configuration that the broker does not report.

    `caps`: newest version to speak of an API, by the API's name.
    """

    bootstrap_server: Address
    suites: tuple[str, ...]
    output: OutputFormat
    assume: dict[str, str]
    caps: dict[str, str]
    jobs: int
    scenarios: tuple[str, ...] = ()
    """Files to play instead of the suites."""
    command_config: str | None = None


class ConformClientOptions(NamedTuple):
    """What `kshim conform-client` was asked for. No suites and no behaviours: all of them.

    `patience` multiplies the time limits of the program; `command` is None where only a list was asked for.
    """

    command: str | None
    suites: tuple[str, ...]
    behaviours: tuple[str, ...]
    output: OutputFormat
    jobs: int
    patience: int
    time_limit_s: int


class HealthOptions(NamedTuple):
    """What `kshim health` was asked for."""

    bootstrap_server: Address


class DumpOffsetsOptions(NamedTuple):
    """What `kshim dump-offsets` was asked for: directories or a broker, never both."""

    data_dirs: tuple[str, ...]
    bootstrap_server: Address | None
    topic: str
    group: str | None
    partition: int | None
    from_offset: int
    to_offset: int | None
    output: Literal["text", "json"]
    command_config: str | None = None


class WhyOptions(NamedTuple):
    """What `kshim why` was asked for: directories or a broker, never both. Times are ms since 1970."""

    data_dirs: tuple[str, ...]
    bootstrap_server: Address | None
    group: str | None
    """None: all."""
    at_ms: int | None
    since_ms: int | None
    broker_logs: tuple[str, ...]
    output: Literal["text", "json", "html"]
    command_config: str | None = None
    interval_s: int | None = None
    """How often to look, for `--follow`; None: answer once."""
    recorded: str | None = None
    record: str | None = None


class PageOptions(NamedTuple):
    """Options of `kshim page`."""

    bootstrap_server: Address
    listen: Address
    groups: frozenset[str] | None = None
    interval_s: float = 5
    token: str | None = None
    command_config: str | None = None


class TopOptions(NamedTuple):
    """What `kshim top` was asked for."""

    bootstrap_server: Address
    groups: frozenset[str] | None
    """None: all."""
    interval_s: int
    is_once: bool
    output: Literal["text", "json"]
    command_config: str | None = None


class ImportOptions(NamedTuple):
    """What `kshim import` was asked for: directories or a broker, never both. `topics` besides the offsets topic."""

    from_dirs: tuple[str, ...]
    bootstrap_server: Address | None
    data_dir: str
    topics: tuple[str, ...]
    command_config: str | None = None


class ReplayOptions(NamedTuple):
    """What `kshim replay` was asked for. `settings` are configuration keys with other values than recorded.

    `against` None: a fresh cluster in this process. `timings_ms` None: time is no difference.
    """

    file: str
    settings: dict[str, str]
    against: Address | None
    speed: int
    timings_ms: int | None
    is_summary: bool
    to_test: str | None
    html: str | None
    group: str | None
    is_json: bool


class CtlOptions(NamedTuple):
    """`kshim ctl` and what stands behind it, which it reads itself."""

    arguments: tuple[str, ...]


class PipelineOptions(NamedTuple):
    """`kshim pipeline` and what stands behind it, which the pipeline reads itself."""

    arguments: tuple[str, ...]


Command = (
    ServeOptions
    | DemoOptions
    | ConformOptions
    | ConformClientOptions
    | HealthOptions
    | DumpOffsetsOptions
    | ImportOptions
    | WhyOptions
    | PageOptions
    | TopOptions
    | ReplayOptions
    | CtlOptions
    | PipelineOptions
)


def _clock(name: str, text: str) -> int:
    try:
        return clock_rate(text)
    except ValueError as error:
        raise CommandError(f"{name}: {error}", EXIT_USAGE) from None


# fmt: off
_SERVE = (
    Option("--listen", "address to listen on, without TLS and SASL; port 0 takes a free port (default: 127.0.0.1:9092); use "
           "--config listeners=... for TLS, SASL or several listeners", "HOST:PORT", address),
    Option("--advertised", "address that clients connect to; port 0 means the port of --listen (default: the address of --listen)",
           "HOST:PORT", address),
    Option("--brokers", "number of brokers in this process, with consecutive ids and ports (default: 1)",
           "N", number(1, MAX_BROKERS), default=1),
    Option("--data-dir", "directory for topics, records and groups (default: in memory)", "DIR"),
    Option("--fsync", "what a power failure may lose: nothing acknowledged (always), the last --fsync-interval-ms (interval, the "
           "default), or more (never)", "always|interval|never", choice("always", "interval", "never")),
    Option("--fsync-interval-ms", "interval between syncs with --fsync=interval (default: 100)", "MS", number(1, 3_600_000)),
    Option("--recover", "what to do if a log is damaged: not start (refuse, the default), or put damaged batches aside and continue "
           "without them (skip-corrupt)", "refuse|skip-corrupt", choice("refuse", "skip-corrupt"), default="refuse"),
    Option("--users", "users of SASL listeners, as lines NAME:PASSWORD or SCRAM credentials", "FILE"),
    Option("--acls", "enable ACLs, as Kafka's authorizer.class.name does", parse=flag),
    Option("--config", "a configuration key of Kafka; may be repeated; takes precedence over --properties",
           "KEY=VALUE", is_repeated=True),
    Option("--properties", "read configuration keys from a file in the format of Kafka's server.properties", "FILE"),
    Option("--topic", "create a topic at the start; may be repeated", "NAME:PARTITIONS", is_repeated=True),
    Option("--events-topic", "write the rebalance history, as JSON, to the topic __kshim_events from the start; without this, the topic "
           "is there for those who ask for it by name, as kshim why does; with --no-events-topic never", parse=flag),
    Option("--clock", "how the clock of all timers runs: real (the default), manual (it stands still until it is advanced), or a rate, "
           "such as x60; see --control", "real|manual|xN", _clock, default=REAL),
    Option("--faults", "what is to go wrong for which requests, for tests: a file of rules in TOML (default: nothing)", "FILE"),
    Option("--control", "address of the HTTP interface for tests, and of the live page: groups, faults, the clock, metrics; port 0 "
           "takes a free port; needs the extra kshim[control] (default: none)", "HOST:PORT", address),
    Option("--control-token-file", "file with the token that requests to --control must carry; required unless --control is a "
           "loopback address (KSHIM_CONTROL_TOKEN holds the token itself)", "FILE"),
    Option("--control-read-only", "let --control only be looked at: what changes something is refused, and the page has no buttons",
           parse=flag),
    Option("--record", "write every request and answer, and the time between, to a new file for `kshim replay`", "FILE"),
    Option("--record-max-bytes", "size at which a recording ends (default: 1 GiB)", "BYTES", number(1 << 16), default=1 << 30),
    Option("--log-format", "log lines in the format of Kafka's log, or JSON objects (default: text)",
           "text|json", choice("text", "json"), default="text"),
    Option("--verbose", "also log requests that are answered with an error, and details about groups; -vv: every request",
           parse=times, default=0, short="-v"),
)

_DEMO = (Option("--plain", "print plain lines, which is the default if the output is not a terminal", default=False),)

_COMMAND_CONFIG = Option(
    "--command-config", "properties of a client as Kafka's own tools take them, for brokers with TLS or SASL", "FILE"
)

_CONFORM = (
    Option("--bootstrap-server", "the broker to check", "HOST:PORT", address, is_required=True),
    _COMMAND_CONFIG,
    Option("--suite", "check only this suite; may be repeated", "NAME", is_repeated=True),
    Option("--scenario", "check what this scenario file says instead, such as one of `kshim replay --to-test`; may be repeated",
           "FILE", is_repeated=True),
    Option("--output", "format of the report (default: text)", default="text", choices=("text", "json", "junit")),
    Option("--assume", "a configuration key that the broker does not report in DescribeConfigs; may be repeated",
           "KEY=VALUE", key_and_value, is_repeated=True),
    Option("--max-version", "the newest version of an API to use, for example JoinGroup=5; may be repeated",
           "API=N", key_and_value, is_repeated=True),
    Option("--jobs", "number of behaviours to check at the same time (default: 8)", "N", number(1, 256), default=8),
)

_CONFORM_CLIENT = (
    Option("--command", "what starts the program; {bootstrap}, {topic}, {group} and {instance} stand for the values of the "
           "variables", "COMMAND", is_source=True),
    Option("--list", "print the behaviours, with what is expected and where Kafka says so, and exit", is_source=True),
    Option("--suite", "check only this suite; may be repeated", "NAME", is_repeated=True),
    Option("--behaviour", "check only this behaviour; may be repeated", "NAME", is_repeated=True),
    Option("--output", "format of the report (default: text)", default="text", choices=("text", "json", "junit")),
    Option("--jobs", "number of behaviours to check at the same time, each with a run of the program (default: 4)", "N",
           number(1, 64), default=4),
    Option("--patience", "give the program N times as long as usual, on a slow machine (default: 1)", "N", number(1, 100),
           default=1),
    Option("--time-limit", "begin no further behaviour after so many seconds (default: 3600)", "SECONDS", number(1),
           default=3600),
)

_HEALTH = (
    Option("--bootstrap-server", "the broker to check (default: the first of KSHIM_CONFIG_LISTENERS, KSHIM_LISTEN, or 127.0.0.1:9092)",
           "HOST:PORT"),
)

_DUMP_OFFSETS = (
    Option("--data-dir", "read from this directory; may be repeated, for brokers with several log.dirs",
           "DIR", is_repeated=True, is_source=True),
    Option("--bootstrap-server", "read from this broker", "HOST:PORT", address, is_source=True),
    _COMMAND_CONFIG,
    Option("--topic", "the topic: __share_group_state is that of share groups (default: __consumer_offsets)",
           default="__consumer_offsets", choices=("__consumer_offsets", "__share_group_state")),
    Option("--group", "print only the records of this group", "GROUP"),
    Option("--partition", "print only this partition", "N", number(0)),
    Option("--from-offset", "print only records from this offset on, in each partition", "N", number(0), default=0),
    Option("--to-offset", "print only records before this offset, in each partition", "N", number(0)),
    Option("--output", "text, or one JSON object per record (default: text)", default="text", choices=("text", "json")),
)

_IMPORT = (
    Option("--bootstrap-server", "read from this broker", "HOST:PORT", address, is_source=True),
    _COMMAND_CONFIG,
    Option("--from-dir", "read from one of the log.dirs of a stopped broker; may be repeated",
           "DIR", is_repeated=True, is_source=True),
    Option("--data-dir", "the directory to create; must be empty or not exist", "DIR", is_required=True),
    Option("--topic", "also copy this topic; may be repeated", "NAME", is_repeated=True),
)

_WHY = (
    Option("name", "the group", "GROUP", is_optional=True),
    Option("--bootstrap-server", "read from this broker", "HOST:PORT", address, is_source=True),
    _COMMAND_CONFIG,
    Option("--data-dir", "read from this directory, of a broker that need not run; may be repeated, for brokers with several "
           "log.dirs", "DIR", is_repeated=True, is_source=True),
    Option("--recorded", "read from a file that --record wrote", "FILE", is_source=True),
    Option("--group", "the group, in another way", "GROUP"),
    Option("--all", "explain all groups", default=False),
    Option("--follow", "go on watching, and explain each incident when it has ended", default=False),
    Option("--interval", "with --follow, seconds between two looks: each is a request to the coordinator of the group, or one to each "
           "broker and one for every hundred groups that rebalance, and one to each broker for what was added; what rebalances is asked for "
           "each second (default: 5)", "SECONDS", number(1), default=5),
    Option("--at", "only what happened at this time: ISO 8601, UTC unless it says otherwise", "TIME", time_ms),
    Option("--since", "only what happened since this time", "TIME", time_ms),
    Option("--broker-log", "a log of a broker of Kafka, which writes no events; may be repeated, in order of time", "FILE",
           is_repeated=True),
    Option("--record", "also write what is read, and sampled with --follow, to a new file, from which --recorded has the same answer later",
           "FILE"),
    Option("--output", "text, one JSON object, or one HTML page that needs no network (default: text)", default="text",
           choices=("text", "json", "html")),
)

_TOP = (
    Option("--bootstrap-server", "a broker of the cluster", "HOST:PORT", address, is_required=True),
    _COMMAND_CONFIG,
    Option("--group", "only this group; may be repeated", "GROUP", is_repeated=True),
    Option("--interval", "seconds between two looks: each is a request to each broker for its groups, one for every hundred groups "
           "that rebalance, and two for offsets; what rebalances is asked for each second (default: 5)", "SECONDS", number(1), default=5),
    Option("--once", "look once, print a table, and end; the default if the output is not a terminal", default=False),
    Option("--output", "text, or one JSON object of one look (default: text)", default="text", choices=("text", "json")),
)

_PAGE = (
    Option("--bootstrap-server", "a broker of the cluster", "HOST:PORT", address, is_required=True),
    _COMMAND_CONFIG,
    Option("--group", "only this group; may be repeated", "GROUP", is_repeated=True),
    Option("--interval", "seconds between two looks, which cost what those of `kshim top` do (default: 5)", "SECONDS", number(1),
           default=5),
    Option("--listen", "where browsers find the page; port 0 takes a free port; needs the extra kshim[control] (default: 127.0.0.1:9081)",
           "HOST:PORT", address, default=Address("127.0.0.1", 9081)),
    Option("--control-token-file", "file with the token that browsers have to give as a password; required unless --listen is a "
           "loopback address (KSHIM_CONTROL_TOKEN holds the token itself)", "FILE"),
)

_REPLAY = (
    Option("file", "a recording of `kshim serve --record`", "FILE"),
    Option("--set", "a configuration key with another value than in the recording: what would have been?; may be repeated",
           "KEY=VALUE", key_and_value, is_repeated=True),
    Option("--against", "play it to this running broker, in real time (default: to a fresh cluster in this process, in virtual "
           "time)", "HOST:PORT", address),
    Option("--speed", "with --against: how many times faster than it was recorded (default: 1)", "N", number(1, 1_000)),
    Option("--timings", "also report answers that come so much earlier or later than recorded", "MS", number(0)),
    Option("--summary", "also print the groups and their rebalances, each with its cause", default=False),
    Option("--to-test", "write a scenario file of the groups in it, for `kshim conform --scenario`, to a new file", "FILE.txt"),
    Option("--html", "write a page of each group to this folder: why it rebalanced, and its swim lanes", "DIR"),
    Option("--group", "with --summary, --to-test and --html: only this group", "GROUP"),
    Option("--json", "print one JSON object instead of text", default=False),
)
# fmt: on


def parse_command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Read the arguments after the program's name; no command means `serve`.

    Raises CommandError (usage). `--help` and `--version` write to stdout and raise SystemExit, as argparse does.
    """
    arguments = list(arguments)
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "serve")
    if arguments[0] == "pipeline":
        return PipelineOptions(tuple(arguments[1:]))
    if arguments[0] == "ctl":
        return CtlOptions(tuple(arguments[1:]))
    found, unknown = _parser().parse_known_args(arguments)
    if unknown:
        command = f"kshim {found.subcommand}" if found.subcommand else "kshim"
        raise CommandError(
            f"unrecognized arguments: {' '.join(unknown)}; `{command} --help` lists the options", EXIT_USAGE
        )
    return _COMMANDS[found.subcommand].read(found, environment)


class _Parser(argparse.ArgumentParser):
    """argparse, but a usage error is one sentence instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; `{self.prog} --help` lists the options", EXIT_USAGE)


class _Version(argparse.Action):
    """`--version`; the number is looked up only when asked for, which costs more than all the rest."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"kshim {version('kshim')}")
        parser.exit(0)


class _Command(NamedTuple):
    """A command: its line in the help of `kshim`, its own help, and what makes its options of what argparse found."""

    help: str
    description: str
    options: tuple[Option, ...]
    read: Callable[[argparse.Namespace, Mapping[str, str]], Command]
    epilog: str | None = None


def _parser() -> _Parser:
    parser = _Parser(
        prog="kshim",
        description="A message broker that speaks Kafka's wire protocol.",
        epilog="Without a command, kshim runs serve. Exit codes: 0 success, 1 failure, 2 usage, "
        "3 address or data directory cannot be used or an extra is not installed, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="subcommand", metavar="COMMAND")
    for name, command in _COMMANDS.items():
        added = commands.add_parser(
            name, help=command.help, description=command.description, epilog=command.epilog, allow_abbrev=False
        )
        add_options(added, command.options)
    commands.add_parser("ctl", help="look at brokers with --control, and do to them what tests need")
    commands.add_parser("pipeline", help="analyse with Spark why consumer groups rebalanced")
    return parser


def _demo_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> DemoOptions:
    return DemoOptions(is_plain=bool(found.plain))


def _conform_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> ConformOptions:
    given = Given(_CONFORM, found)
    return ConformOptions(
        bootstrap_server=given["bootstrap_server"],
        suites=tuple(given["suite"]),
        output=given["output"],
        assume=dict(given["assume"]),
        caps=dict(given["max_version"]),
        jobs=given["jobs"],
        scenarios=tuple(given["scenario"]),
        command_config=given["command_config"],
    )


def _conform_client_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> ConformClientOptions:
    given = Given(_CONFORM_CLIENT, found)
    return ConformClientOptions(
        command=given["command"],
        suites=tuple(given["suite"]),
        behaviours=tuple(given["behaviour"]),
        output=given["output"],
        jobs=given["jobs"],
        patience=given["patience"],
        time_limit_s=given["time_limit"],
    )


def _health_options(found: argparse.Namespace, environment: Mapping[str, str]) -> HealthOptions:
    return HealthOptions(address("--bootstrap-server", found.bootstrap_server or listener_of(environment)))


def _dump_offsets_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> DumpOffsetsOptions:
    given = Given(_DUMP_OFFSETS, found)
    fields = ("bootstrap_server", "topic", "group", "partition", "from_offset", "to_offset", "output")
    config = _command_config(given)
    return DumpOffsetsOptions(
        tuple(given["data_dir"]), **{field: given[field] for field in fields}, command_config=config
    )


def _why_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> WhyOptions:
    given = Given(_WHY, found)
    names = [name for name in (given["name"], given["group"]) if name is not None]
    if len(names) + bool(found.all) != 1:
        raise CommandError("why needs the name of a group, or --all", EXIT_USAGE)
    if given["recorded"] is not None and given["record"] is not None:
        raise CommandError("--record writes what is read from a broker or directories", EXIT_USAGE)
    if found.follow and given["output"] == "html":
        raise CommandError("--follow has no end, and a page has: use --output text or json", EXIT_USAGE)
    if found.follow and (given["bootstrap_server"] is None or given["at"] is not None or given["broker_log"]):
        raise CommandError(
            "--follow watches a running broker: it needs --bootstrap-server, and takes no --at or --broker-log",
            EXIT_USAGE,
        )
    return WhyOptions(
        data_dirs=tuple(given["data_dir"]),
        bootstrap_server=given["bootstrap_server"],
        group=next(iter(names), None),
        at_ms=given["at"],
        since_ms=given["since"],
        broker_logs=tuple(given["broker_log"]),
        output=given["output"],
        command_config=_command_config(given),
        interval_s=given["interval"] if found.follow else None,
        recorded=given["recorded"],
        record=given["record"],
    )


def _top_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> TopOptions:
    given = Given(_TOP, found)
    return TopOptions(
        bootstrap_server=given["bootstrap_server"],
        groups=frozenset(given["group"]) or None,
        interval_s=given["interval"],
        is_once=bool(found.once),
        output=given["output"],
        command_config=_command_config(given),
    )


def _page_options(found: argparse.Namespace, environment: Mapping[str, str]) -> PageOptions:
    given = Given(_PAGE, found)
    return PageOptions(
        bootstrap_server=given["bootstrap_server"],
        listen=given["listen"],
        groups=frozenset(given["group"]) or None,
        interval_s=given["interval"],
        token=_control_token(given, environment, "listen"),
        command_config=_command_config(given),
    )


def _import_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> ImportOptions:
    given = Given(_IMPORT, found)
    topics = tuple(dict.fromkeys(given["topic"]))
    return ImportOptions(
        tuple(given["from_dir"]), given["bootstrap_server"], given["data_dir"], topics, _command_config(given)
    )


def _command_config(given: Given) -> str | None:
    """Raises CommandError where there is nothing to connect to."""
    path: str | None = given["command_config"]
    if path is not None and given["bootstrap_server"] is None:
        raise CommandError("--command-config says how to connect: it needs --bootstrap-server", EXIT_USAGE)
    return path


def _replay_options(found: argparse.Namespace, _environment: Mapping[str, str]) -> ReplayOptions:
    given = Given(_REPLAY, found)
    settings, against = dict(given["set"]), given["against"]
    if against is not None and (settings or found.summary or found.html):
        option = "--set" if settings else "--summary" if found.summary else "--html"
        raise CommandError(f"{option} is not possible with --against: a running broker is only asked", EXIT_USAGE)
    if found.group is not None and not found.summary and found.to_test is None and found.html is None:
        raise CommandError(
            "--group is for --summary, --to-test and --html: the replay itself is of all groups", EXIT_USAGE
        )
    if against is None and found.speed is not None:
        raise CommandError("--speed is for --against: without that, time is virtual", EXIT_USAGE)
    return ReplayOptions(
        file=given["file"],
        settings=settings,
        against=against,
        speed=given["speed"] or 1,
        timings_ms=given["timings"],
        is_summary=bool(found.summary),
        to_test=given["to_test"],
        html=given["html"],
        group=given["group"],
        is_json=bool(found.json),
    )


def _serve_options(found: argparse.Namespace, environment: Mapping[str, str]) -> ServeOptions:
    given = Given(_SERVE, found, environment)
    properties = _read_properties(given)
    config, has_listeners = _config(given, properties, found.config or (), environment)
    # A variable of the plain listener counts as not set where `listeners` says it better.
    listen, advertised = (
        None if has_listeners and given.is_of_environment(field) else given[field] for field in ("listen", "advertised")
    )
    reached = advertised or listen
    if reached is not None and is_wildcard(reached.host):
        raise CommandError(
            f"clients cannot connect to {reached.host}: set --advertised HOST:PORT to the address of this broker",
            EXIT_USAGE,
        )
    return ServeOptions(
        listen=listen,
        advertised=advertised,
        data_dir=given["data_dir"],
        config=config,
        topics=_topics(given),
        log_format=given["log_format"],
        verbosity=given["verbose"],
        fsync=given["fsync"],
        fsync_interval_ms=given["fsync_interval_ms"],
        recover=given["recover"],
        users_file=_users_file(given),
        broker_count=given["brokers"],
        clock_rate=given["clock"],
        control=given["control"],
        control_token=_control_token(given, environment),
        control_read_only=_control_read_only(given),
        secret_files=_secret_files(given, properties),
        warnings=tuple(given.warnings(CONTROL_TOKEN)),
        faults_file=given["faults"],
        record=given["record"],
        record_max_bytes=given["record_max_bytes"],
    )


def _control_token(given: Given, environment: Mapping[str, str], listening: str = "control") -> str | None:
    """The token of the HTTP interface, from its file or else from the environment. Raises CommandError (usage)."""
    path, token = given["control_token_file"], environment.get(CONTROL_TOKEN, "").strip() or None
    if path is not None:
        token = read_token(given.name("control_token_file"), path)
    control = given[listening]
    if control is None and path is not None:
        raise CommandError(f"{given.name('control_token_file')} has no effect without --control HOST:PORT", EXIT_USAGE)
    if control is not None and token is None and not is_loopback(control.host):
        raise CommandError(
            f"{given.name(listening)}: {control.host} can be reached from other machines, so set --control-token-file FILE "
            f"or {CONTROL_TOKEN}, or use 127.0.0.1",
            EXIT_USAGE,
        )
    return token


def _control_read_only(given: Given) -> bool:
    """Raises CommandError (usage)."""
    is_read_only = bool(given["control_read_only"])
    if is_read_only and given["control"] is None:
        raise CommandError(f"{given.name('control_read_only')} has no effect without --control HOST:PORT", EXIT_USAGE)
    return is_read_only


def read_token(option: str, path: str) -> str:
    """The token in a file. Raises CommandError (usage)."""
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it is not UTF-8"
        raise CommandError(f"{option}: cannot read {path}: {reason}", EXIT_USAGE) from None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError(
            f"{option}: {path} has to hold one line of printable ASCII characters without spaces", EXIT_USAGE
        )
    return token


def _users_file(given: Given) -> str | None:
    """Its name, after a look at whether it can be read, since only here is known who named it."""
    path: str | None = given["users"]
    if path is not None and not os.access(path, os.R_OK):
        reason = os.strerror(errno.EACCES if os.path.exists(path) else errno.ENOENT)
        raise CommandError(f"{given.name('users')}: cannot read {path}: {reason}", EXIT_USAGE)
    return path


def _secret_files(given: Given, properties: Mapping[str, str]) -> tuple[str, ...]:
    files = [given["users"], given["control_token_file"]]
    if properties:
        from kshim.config.broker_config import is_secret

        files += [given["properties"]] if any(map(is_secret, properties)) else []
    return tuple(file for file in files if file is not None)


def _config(
    given: Given, properties: Mapping[str, str], pairs: Sequence[str], environment: Mapping[str, str]
) -> tuple[dict[str, str], bool]:
    """Kafka's keys, and whether `listeners` is among those that do not come from the properties file."""
    by_environment = configuration_of(environment)
    by_command_line = dict(_known_key_and_value(text) for text in pairs)
    if given["events_topic"]:
        asked = by_environment if given.is_of_environment("events_topic") else by_command_line
        asked["kshim.history.topic.enable"] = "true"
    elif given.is_denied("events_topic"):
        by_command_line["kshim.history.topic.enable"] = "false"
    config = {**properties, **by_environment, **by_command_line}
    if given["acls"]:
        config.setdefault("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    elif given.is_denied("acls"):
        config["authorizer.class.name"] = ""
    return config, "listeners" in by_environment or "listeners" in by_command_line


def _known_key_and_value(text: str) -> tuple[str, str]:
    """A `--config KEY=VALUE`. Raises CommandError (usage), for an unknown key too."""
    from kshim.config.broker_config import known_key, unknown_key

    key, value = key_and_value("--config", text)
    if known_key(key) is None:
        raise CommandError(f"--config: {unknown_key(key)}", EXIT_USAGE)
    return key, value


def _read_properties(given: Given) -> dict[str, str]:
    from kshim.config.properties import parse_properties

    path = given["properties"]
    if path is None:
        return {}
    option = given.name("properties")
    try:
        # Kafka reads this format through Java, where it is Latin-1.
        with open(path, encoding="latin-1", newline="") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise CommandError(f"{option}: cannot read {path}: {error.strerror}", EXIT_USAGE) from None
    except ValueError as error:
        raise CommandError(f"{option}: {path}: {error}", EXIT_USAGE) from None


def _topics(given: Given) -> dict[str, int]:
    from kshim.partitions.topic_validator import name_problem

    option = given.name("topic")
    topics: dict[str, int] = {}
    for spec in filter(None, given["topic"]):
        name, _, count = spec.strip().rpartition(":")
        if not (count.isascii() and count.isdigit()) or not 1 <= int(count) <= MAX_PARTITIONS:
            raise CommandError(f"{option}: {spec!r} is not NAME:PARTITIONS (1 to {MAX_PARTITIONS})", EXIT_USAGE)
        if name_problem(name) is not None:
            raise CommandError(
                f"{option}: {name!r} is not a topic name (1 to 249 letters, digits, dots, underscores and hyphens)",
                EXIT_USAGE,
            )
        if name in topics:
            raise CommandError(f"{option}: {name} is given twice", EXIT_USAGE)
        topics[name] = int(count)
    return topics


_COMMANDS: Mapping[str, _Command] = {
    "serve": _Command(
        "run a broker (the default command)",
        "Run a broker until SIGTERM or Ctrl-C. The first line on stdout is the local bootstrap address (those of "
        "all brokers, separated by commas), whatever --advertised says, printed once connections are accepted. Logs go to stderr.",
        _SERVE,
        _serve_options,
        "Environment variables set options, too: KSHIM_DATA_DIR for --data-dir, KSHIM_TOPICS (comma separated) "
        "for --topic, KSHIM_ACLS=true for --acls, and KSHIM_CONFIG_GROUP_MAX_SIZE=10 for --config group.max.size=10. "
        "The command line takes precedence over the environment, and the environment over the properties file.",
    ),
    "demo": _Command(
        "watch a consumer group rebalance",
        "Start a broker, a producer and three kafka-python consumers; one joins late, one is killed, one leaves. "
        "Shows the owner of each partition and the cause of each rebalance. Ends after about half a minute.",
        _DEMO,
        _demo_options,
    ),
    "conform": _Command(
        "compare the group coordinator of a broker with Kafka's",
        "Check whether a broker has the behaviours of Kafka 4.4's group coordinator, and report for each one what "
        "was expected and what was received. Uses topics and groups named conform-*, and deletes the topics afterwards.",
        _CONFORM,
        _conform_options,
        "Exit codes: 0 all behaviours that could be checked passed, 1 one failed or none could be checked, 2 usage.",
    ),
    "conform-client": _Command(
        "judge how a consumer program copes with a coordinator that fails",
        "Start a consumer program again and again, each time with fresh brokers that do one thing wrong: errors, lost and "
        "damaged answers, a coordinator that moves, a member that is fenced. Reports for each whether the program copes as "
        "Kafka expects of a client, as seen by the brokers. The program finds its brokers, topic and group in "
        "KSHIM_BOOTSTRAP_SERVERS, KSHIM_TOPIC and KSHIM_GROUP; KSHIM_INSTANCE is its group.instance.id, empty for none. It "
        "must consume the topic in the group and commit, until it is ended by SIGTERM.",
        _CONFORM_CLIENT,
        _conform_client_options,
        "Exit codes: 0 all behaviours that apply passed, 1 one failed or none applies, 2 usage.",
    ),
    "health": _Command(
        "check whether a broker answers",
        "Send ApiVersions to a broker. Works on PLAINTEXT and SASL_PLAINTEXT listeners, not with TLS.",
        _HEALTH,
        _health_options,
        "Exit codes: 0 the broker answered, 1 it did not answer within two seconds, 2 usage.",
    ),
    "dump-offsets": _Command(
        "print the records of __consumer_offsets or __share_group_state, of kshim or Kafka",
        "Print the records of __consumer_offsets or __share_group_state, decoded, partition by partition: from a data directory "
        "(of kshim, or one of Kafka's log.dirs; nothing is locked or written) or from a running broker.",
        _DUMP_OFFSETS,
        _dump_offsets_options,
        "Exit codes: 0 all records were decoded, 1 one could not be decoded, 2 usage, 3 there is nothing to read.",
    ),
    "why": _Command(
        "say why a consumer group rebalanced, on kshim or Kafka",
        "Say what made consumer groups rebalance: which client on which host, since when, how sure that is, and what to "
        "change. Reads kshim's events and, of kshim and Kafka, __consumer_offsets; with --broker-log also a log of Kafka's group "
        "coordinator.",
        _WHY,
        _why_options,
        "Exit codes: 0 answered, 2 usage, 3 there is nothing to read.",
    ),
    "page": _Command(
        "serve a page that shows the groups of a cluster",
        "Watch the groups of a cluster, kshim or Kafka, and serve a page that shows them: which has something wrong, who disturbed it, "
        "what to change, and a picture of each. Until Ctrl-C. It changes nothing in the cluster.",
        _PAGE,
        _page_options,
    ),
    "top": _Command(
        "watch the consumer groups of kshim or Kafka, those with something wrong first",
        "Show a line for each group: state, for how long it has not been Stable, members, generation or epoch, rebalances since the "
        "start, lag, the cause of the last incident, and who is missing or was last. On a terminal it goes on until q or Ctrl-C, and "
        "with pip install 'kshim[top]' keys choose a group, show its swim lanes, and search.",
        _TOP,
        _top_options,
        "Exit codes: 0 shown, also if ended by q or Ctrl-C on a terminal, 2 usage, 3 the cluster cannot be reached.",
    ),
    "import": _Command(
        "copy groups, offsets and topics of a Kafka cluster into a new data directory",
        "Copy __consumer_offsets, byte for byte, into a new directory for `kshim serve --data-dir`, from a "
        "running broker or from the directories of a stopped one.",
        _IMPORT,
        _import_options,
        "Exit codes: 0 imported, 1 the source cannot be read or is damaged, 2 usage, 3 the directory is not "
        "empty or cannot be written.",
    ),
    "replay": _Command(
        "play a recording again and report what is different",
        "Play a recording of `kshim serve --record` to a fresh cluster, in virtual time, or to a running broker, and "
        "report each answer that differs from the recorded one, field by field.",
        _REPLAY,
        _replay_options,
        "Exit codes: 0 no answer differs, 1 one does, 2 usage, 3 the recording cannot be read or a file cannot be written.",
    ),
}
