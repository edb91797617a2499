"""The command line: what each command takes, with `KSHIM_*` variables as defaults of its own options."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, cast

from kshim.cli.addresses import Address, is_wildcard, parse_address
from kshim.cli.exit_codes import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from kshim.cli.log_options import DumpOffsetsOptions, ImportOptions


LogFormat = Literal["text", "json"]
OutputFormat = Literal["text", "json", "junit"]
FsyncPolicy = Literal["always", "interval", "never"]
RecoverPolicy = Literal["refuse", "skip-corrupt"]

MAX_TOPIC_NAME_LENGTH = 249
MAX_BROKERS = 100
_TOPIC_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


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
    is_verbose: bool
    fsync: FsyncPolicy | None = None
    """None: as the configuration says, `interval` where it says nothing."""
    fsync_interval_ms: int | None = None
    recover: RecoverPolicy = "refuse"
    users_file: str | None = None
    """Who may log in on SASL listeners, besides those of the configuration."""
    broker_count: int = 1


class DemoOptions(NamedTuple):
    """What `kshim demo` was asked for."""

    is_plain: bool


class ConformOptions(NamedTuple):
    """What `kshim conform` was asked for. No suites: all of them; `assume` is what the broker need not tell.

    `caps`: newest version to speak of an API, by the API's name.
    """

    bootstrap_server: Address
    suites: tuple[str, ...]
    output: OutputFormat
    assume: dict[str, str]
    caps: dict[str, str]
    jobs: int


class PipelineOptions(NamedTuple):
    """`kshim pipeline` and what stands behind it, which the pipeline reads itself."""

    arguments: tuple[str, ...]


if TYPE_CHECKING:
    Command = ServeOptions | DemoOptions | ConformOptions | PipelineOptions | DumpOffsetsOptions | ImportOptions


def parse_command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Read the arguments after the program's name; no command means `serve`.

    Raises CommandError (usage). `--help` and `--version` write to stdout and raise SystemExit, as argparse does.
    """
    arguments = list(arguments)
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "serve")
    if arguments[0] == "pipeline":
        return PipelineOptions(tuple(arguments[1:]))
    if arguments[0] in ("dump-offsets", "import"):
        from kshim.cli.log_options import parse_log_command

        return parse_log_command(_Parser, arguments)
    found = _parser(environment).parse_args(arguments)
    if found.command == "demo":
        return DemoOptions(is_plain=found.plain)
    if found.command == "conform":
        return _conform_options(found)
    return _serve_options(found)


class _Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence and not the whole usage again."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; `{self.prog} --help` lists the options", EXIT_USAGE)


class _Version(argparse.Action):
    """`--version`; the number is looked up only when asked for, which costs more than all the rest."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"kshim {version('kshim')}")
        parser.exit(0)


def _parser(environment: Mapping[str, str]) -> _Parser:
    parser = _Parser(
        prog="kshim",
        description="A broker that speaks Kafka's protocol; its heart is the consumer group coordinator.",
        epilog="Without a command kshim serves. Exit codes: 0 ended cleanly, 1 failed, 2 usage, "
        "3 cannot bind, or directory locked or damaged, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_serve(commands, environment)
    _add_demo(commands)
    _add_conform(commands)
    commands.add_parser("dump-offsets", help="print every record of __consumer_offsets, of kshim or of Kafka")
    commands.add_parser("import", help="copy groups and offsets, and topics if wanted, of a Kafka into a new directory")
    commands.add_parser("pipeline", help="why did groups rebalance: read a coordinator's history with Spark")
    return parser


def _add_serve(commands: argparse._SubParsersAction[_Parser], environment: Mapping[str, str]) -> None:
    serve = commands.add_parser(
        "serve",
        help="run a broker (what kshim does without a command)",
        description="Run a broker until SIGTERM or Ctrl-C. The first line on stdout is the address to bootstrap from, "
        "printed once connections are accepted (of several brokers all, comma separated); logs go to stderr.",
        epilog="KSHIM_LISTEN, KSHIM_ADVERTISED, KSHIM_BROKERS, KSHIM_DATA_DIR, KSHIM_FSYNC, KSHIM_FSYNC_INTERVAL_MS, KSHIM_PROPERTIES, "
        "KSHIM_TOPICS (comma separated), KSHIM_EVENTS_TOPIC, KSHIM_ACLS (true), KSHIM_USERS and KSHIM_LOG_FORMAT set what "
        "the options do not.",
        allow_abbrev=False,
    )
    default = environment.get
    option = serve.add_argument
    option(
        "--listen",
        metavar="HOST:PORT",
        default=default("KSHIM_LISTEN"),
        help="where to listen, in plain text; port 0 takes a free one (default 127.0.0.1:9092); for TLS, SASL or more "
        "than one listener there is --config listeners=...",
    )
    option(
        "--advertised",
        metavar="HOST:PORT",
        default=default("KSHIM_ADVERTISED"),
        help="what clients are told to dial; port 0 means the port bound (default: where it listens)",
    )
    option(
        "--brokers",
        metavar="N",
        default=default("KSHIM_BROKERS", "1"),
        help="how many brokers to be, in this one process, with ids and ports that count up (default 1)",
    )
    _add_durability(serve, environment)
    _add_security(serve, environment)
    option(
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one of Kafka's own configuration keys; may be repeated, wins over --properties",
    )
    option(
        "--properties",
        metavar="FILE",
        default=default("KSHIM_PROPERTIES"),
        help="read configuration keys from FILE, in the format of Kafka's server.properties",
    )
    option(
        "--topic",
        metavar="NAME:PARTITIONS",
        action="append",
        dest="topics",
        help="make a topic at start; may be repeated",
    )
    _add_output(serve, environment)
    serve.set_defaults(topics_from_environment=default("KSHIM_TOPICS", ""))


def _add_output(serve: _Parser, environment: Mapping[str, str]) -> None:
    default = environment.get
    option = serve.add_argument
    option(
        "--events-topic",
        action="store_true",
        default=default("KSHIM_EVENTS_TOPIC", "").lower() in ("1", "true"),
        help="also write why groups rebalance, as JSON, to the topic __kshim_events",
    )
    option(
        "--log-format",
        metavar="text|json",
        default=default("KSHIM_LOG_FORMAT", "text"),
        help="lines as Kafka's coordinator writes them, or one JSON object a line (default text)",
    )
    option("-v", "--verbose", action="store_true", help="also log connections and every failed request")


def _add_security(serve: _Parser, environment: Mapping[str, str]) -> None:
    option = serve.add_argument
    option(
        "--users",
        metavar="FILE",
        default=environment.get("KSHIM_USERS"),
        help="who may log in on SASL listeners: NAME:PASSWORD lines, or SCRAM credentials; see docs/security.md",
    )
    option(
        "--acls",
        action="store_true",
        default=environment.get("KSHIM_ACLS", "").lower() in ("1", "true"),
        help="let access rules decide who may do what, as with Kafka's authorizer.class.name",
    )


def _add_durability(serve: _Parser, environment: Mapping[str, str]) -> None:
    default = environment.get
    option = serve.add_argument
    option(
        "--data-dir",
        metavar="DIR",
        default=default("KSHIM_DATA_DIR"),
        help="keep topics, records and groups in DIR (default: in memory)",
    )
    option(
        "--fsync",
        metavar="always|interval|never",
        default=default("KSHIM_FSYNC"),
        help="what power loss may take: nothing that was acknowledged, the last --fsync-interval-ms (default), or more",
    )
    option(
        "--fsync-interval-ms",
        metavar="MS",
        default=default("KSHIM_FSYNC_INTERVAL_MS"),
        help="with --fsync=interval: how long appended records may stay unsynced (default 100)",
    )
    option(
        "--recover",
        metavar="skip-corrupt",
        default="refuse",
        help="start although a log is damaged in the middle: damaged batches are put aside and left out",
    )


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="watch a consumer group rebalance, and why",
        description="Start a broker, a producer and three kafka-python consumers; one joins late, one crashes. Shows "
        "who owns what and why each rebalance happened, and ends by itself after about half a minute.",
        allow_abbrev=False,
    )
    demo.add_argument("--plain", action="store_true", help="plain lines, as when the output is not a terminal")


def _add_conform(commands: argparse._SubParsersAction[_Parser]) -> None:
    conform = commands.add_parser(
        "conform",
        help="check what a broker's group coordinator does otherwise than Kafka's",
        description="Ask any broker for the behaviours of Kafka 4.4's group coordinator and say which it has: a verdict "
        "each, with what was expected and seen. Uses topics and groups named conform-*; deletes the topics afterwards.",
        epilog="Exit codes: 0 all that could be asked passed, 1 something failed or nothing could be asked, 2 usage.",
        allow_abbrev=False,
    )
    option = conform.add_argument
    option("--bootstrap-server", metavar="HOST:PORT", required=True, help="the broker to ask")
    option(
        "--suite",
        metavar="NAME",
        action="append",
        default=[],
        help="only the behaviours of this suite; may be repeated",
    )
    option(
        "--output", choices=("text", "json", "junit"), default="text", help="what the report looks like (default text)"
    )
    option(
        "--assume",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a configuration key that the broker has but does not tell in DescribeConfigs; may be repeated",
    )
    option(
        "--max-version",
        metavar="API=N",
        action="append",
        default=[],
        help="speak no newer version of an API, e.g. JoinGroup=5, though the broker says it serves it; may be repeated",
    )
    option("--jobs", metavar="N", default="8", help="how many behaviours are asked for at a time (default 8)")


def _conform_options(found: argparse.Namespace) -> ConformOptions:
    jobs = found.jobs
    if not (jobs.isascii() and jobs.isdigit()) or not 1 <= int(jobs) <= 256:
        raise CommandError(f"--jobs: {jobs!r} is not a number from 1 to 256", EXIT_USAGE)
    return ConformOptions(
        bootstrap_server=_address("--bootstrap-server", found.bootstrap_server),
        suites=tuple(found.suite),
        output=cast("OutputFormat", found.output),
        assume=dict(_key_and_value(text, option="--assume") for text in found.assume),
        caps=dict(_key_and_value(text, option="--max-version") for text in found.max_version),
        jobs=int(jobs),
    )


def _serve_options(found: argparse.Namespace) -> ServeOptions:
    listen = _address("--listen", found.listen) if found.listen else None
    advertised = _address("--advertised", found.advertised) if found.advertised else None
    dialled = advertised or listen
    if dialled is not None and is_wildcard(dialled.host):
        raise CommandError(
            f"clients cannot dial {dialled.host}: say with --advertised HOST:PORT where they find this broker",
            EXIT_USAGE,
        )
    if found.log_format not in ("text", "json"):
        raise CommandError(f"--log-format is text or json, not {found.log_format!r}", EXIT_USAGE)
    if found.fsync not in (None, "always", "interval", "never"):
        raise CommandError(f"--fsync is always, interval or never, not {found.fsync!r}", EXIT_USAGE)
    if found.recover not in ("refuse", "skip-corrupt"):
        raise CommandError(f"--recover is skip-corrupt, not {found.recover!r}", EXIT_USAGE)
    config = _read_properties(found.properties) if found.properties else {}
    config.update(_key_and_value(text) for text in found.config)
    if found.events_topic:
        config["kshim.history.topic.enable"] = "true"
    if found.acls:
        config.setdefault("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    topics = found.topics
    if topics is None:
        topics = [text for text in found.topics_from_environment.split(",") if text]
    return ServeOptions(
        listen=listen,
        advertised=advertised,
        data_dir=found.data_dir or None,
        config=config,
        topics=_topics(topics),
        log_format=cast("LogFormat", found.log_format),
        is_verbose=found.verbose,
        fsync=cast("FsyncPolicy | None", found.fsync),
        fsync_interval_ms=None if found.fsync_interval_ms is None else _interval_ms(found.fsync_interval_ms),
        recover=cast("RecoverPolicy", found.recover),
        users_file=found.users or None,
        broker_count=_broker_count(found.brokers),
    )


def _broker_count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MAX_BROKERS:
        raise CommandError(f"--brokers: {text!r} is not a number from 1 to {MAX_BROKERS}", EXIT_USAGE)
    return int(text)


def _interval_ms(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 3_600_000:
        raise CommandError(f"--fsync-interval-ms: {text!r} is not a number from 1 to 3600000", EXIT_USAGE)
    return int(text)


def _address(option: str, text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}", EXIT_USAGE) from None


def _key_and_value(text: str, *, option: str = "--config") -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise CommandError(f"{option}: {text!r} is not KEY=VALUE", EXIT_USAGE)
    return key.strip(), value.strip()


def _read_properties(path: str) -> dict[str, str]:
    from kshim.cli.properties import parse_properties

    try:
        # Kafka reads this format through Java, where it is Latin-1.
        with open(path, encoding="latin-1", newline="") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise CommandError(f"--properties: cannot read {path}: {error.strerror}", EXIT_USAGE) from None
    except ValueError as error:
        raise CommandError(f"--properties: {path}: {error}", EXIT_USAGE) from None


def _topics(specs: Sequence[str]) -> dict[str, int]:
    topics: dict[str, int] = {}
    for spec in specs:
        name, _, count = spec.strip().rpartition(":")
        if not (count.isascii() and count.isdigit()) or not 1 <= int(count) <= 100_000:
            raise CommandError(f"--topic: {spec!r} is not NAME:PARTITIONS (1 to 100000)", EXIT_USAGE)
        is_legal = 0 < len(name) <= MAX_TOPIC_NAME_LENGTH and name not in (".", "..")
        if not is_legal or not _TOPIC_NAME_CHARACTERS.issuperset(name):
            raise CommandError(
                f"--topic: {name!r} is no topic name (1 to 249 of letters, digits, dot, underscore, hyphen)", EXIT_USAGE
            )
        if name in topics:
            raise CommandError(f"--topic: {name} is given twice", EXIT_USAGE)
        topics[name] = int(count)
    return topics
