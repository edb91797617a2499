"""The command line: what each command takes; `KSHIM_*` variables set what the options of `serve` do not."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, cast

from kshim.cli.addresses import Address, is_wildcard, parse_address
from kshim.cli.environment import Given, configuration_of, listener_of
from kshim.cli.exit_codes import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from kshim.cli.log_options import DumpOffsetsOptions, ImportOptions


LogFormat = Literal["text", "json"]
OutputFormat = Literal["text", "json", "junit"]
FsyncPolicy = Literal["always", "interval", "never"]
RecoverPolicy = Literal["refuse", "skip-corrupt"]

MAX_TOPIC_NAME_LENGTH = 249
MAX_PARTITIONS = 9_999
"""What one CreateTopics request may create of a topic, as in Kafka."""
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
    verbosity: int
    """0; 1: also failed requests; 2: also every request."""
    fsync: FsyncPolicy | None = None
    """None: as the configuration says, `interval` where it says nothing."""
    fsync_interval_ms: int | None = None
    recover: RecoverPolicy = "refuse"
    users_file: str | None = None
    """Users of SASL listeners, in addition to those of the configuration."""
    broker_count: int = 1
    secret_files: tuple[str, ...] = ()
    """Those of the files given that hold passwords or keys."""
    warnings: tuple[str, ...] = ()
    """A sentence for each thing that was probably meant otherwise."""


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


class HealthOptions(NamedTuple):
    """What `kshim health` was asked for."""

    bootstrap_server: Address


class PipelineOptions(NamedTuple):
    """`kshim pipeline` and what stands behind it, which the pipeline reads itself."""

    arguments: tuple[str, ...]


if TYPE_CHECKING:
    Command = (
        ServeOptions
        | DemoOptions
        | ConformOptions
        | HealthOptions
        | PipelineOptions
        | DumpOffsetsOptions
        | ImportOptions
    )


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
    found, unknown = _parser().parse_known_args(arguments)
    if unknown:
        command = f"kshim {found.command}" if found.command else "kshim"
        raise CommandError(
            f"unrecognized arguments: {' '.join(unknown)}; `{command} --help` lists the options", EXIT_USAGE
        )
    if found.command == "demo":
        return DemoOptions(is_plain=found.plain)
    if found.command == "conform":
        return _conform_options(found)
    if found.command == "health":
        text = found.bootstrap_server or listener_of(environment)
        return HealthOptions(_address("--bootstrap-server", text))
    return _serve_options(found, environment)


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


def _parser() -> _Parser:
    parser = _Parser(
        prog="kshim",
        description="A message broker that speaks Kafka's wire protocol.",
        epilog="Without a command, kshim runs serve. Exit codes: 0 success, 1 failure, 2 usage, "
        "3 address or data directory cannot be used or an extra is not installed, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_serve(commands)
    _add_demo(commands)
    _add_conform(commands)
    _add_health(commands)
    commands.add_parser("dump-offsets", help="print the records of __consumer_offsets, of kshim or Kafka")
    commands.add_parser("import", help="copy groups, offsets and topics of a Kafka cluster into a new data directory")
    commands.add_parser("pipeline", help="analyse with Spark why consumer groups rebalanced")
    return parser


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    serve = commands.add_parser(
        "serve",
        help="run a broker (the default command)",
        description="Run a broker until SIGTERM or Ctrl-C. The first line on stdout is the local bootstrap address (those of "
        "all brokers, separated by commas), whatever --advertised says, printed once connections are accepted. Logs go to stderr.",
        epilog="Environment variables set options, too: KSHIM_DATA_DIR for --data-dir, KSHIM_TOPICS (comma separated) "
        "for --topic, KSHIM_ACLS=true for --acls, and KSHIM_CONFIG_GROUP_MAX_SIZE=10 for --config group.max.size=10. "
        "The command line takes precedence over the environment, and the environment over the properties file.",
        allow_abbrev=False,
    )
    option = serve.add_argument
    option(
        "--listen",
        metavar="HOST:PORT",
        help="address to listen on, without TLS and SASL; port 0 takes a free port (default: 127.0.0.1:9092); use "
        "--config listeners=... for TLS, SASL or several listeners",
    )
    option(
        "--advertised",
        metavar="HOST:PORT",
        help="address that clients connect to; port 0 means the port of --listen (default: the address of --listen)",
    )
    option(
        "--brokers",
        metavar="N",
        help="number of brokers in this process, with consecutive ids and ports (default: 1)",
    )
    _add_durability(serve)
    _add_security(serve)
    option(
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a configuration key of Kafka; may be repeated; takes precedence over --properties",
    )
    option(
        "--properties",
        metavar="FILE",
        help="read configuration keys from a file in the format of Kafka's server.properties",
    )
    option(
        "--topic",
        metavar="NAME:PARTITIONS",
        action="append",
        help="create a topic at the start; may be repeated",
    )
    _add_output(serve)


def _add_output(serve: _Parser) -> None:
    option = serve.add_argument
    option(
        "--events-topic",
        action=argparse.BooleanOptionalAction,
        help="write the rebalance history, as JSON, to the topic __kshim_events",
    )
    option(
        "--log-format",
        metavar="text|json",
        help="log lines in the format of Kafka's log, or JSON objects (default: text)",
    )
    option(
        "-v",
        "--verbose",
        action="count",
        help="also log requests that are answered with an error, and details about groups; -vv: every request",
    )


def _add_security(serve: _Parser) -> None:
    option = serve.add_argument
    option(
        "--users",
        metavar="FILE",
        help="users of SASL listeners, as lines NAME:PASSWORD or SCRAM credentials",
    )
    option(
        "--acls",
        action=argparse.BooleanOptionalAction,
        help="enable ACLs, as Kafka's authorizer.class.name does",
    )


def _add_durability(serve: _Parser) -> None:
    option = serve.add_argument
    option(
        "--data-dir",
        metavar="DIR",
        help="directory for topics, records and groups (default: in memory)",
    )
    option(
        "--fsync",
        metavar="always|interval|never",
        help="what a power failure may lose: nothing acknowledged (always), the last --fsync-interval-ms (interval, the "
        "default), or more (never)",
    )
    option(
        "--fsync-interval-ms",
        metavar="MS",
        help="interval between syncs with --fsync=interval (default: 100)",
    )
    option(
        "--recover",
        metavar="refuse|skip-corrupt",
        help="what to do if a log is damaged: not start (refuse, the default), or put damaged batches aside and continue "
        "without them (skip-corrupt)",
    )


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="watch a consumer group rebalance",
        description="Start a broker, a producer and three kafka-python consumers; one joins late, one is killed, one leaves. "
        "Shows the owner of each partition and the cause of each rebalance. Ends after about half a minute.",
        allow_abbrev=False,
    )
    demo.add_argument(
        "--plain", action="store_true", help="print plain lines, which is the default if the output is not a terminal"
    )


def _add_conform(commands: argparse._SubParsersAction[_Parser]) -> None:
    conform = commands.add_parser(
        "conform",
        help="compare the group coordinator of a broker with Kafka's",
        description="Check whether a broker has the behaviours of Kafka 4.4's group coordinator, and report for each one what "
        "was expected and what was received. Uses topics and groups named conform-*, and deletes the topics afterwards.",
        epilog="Exit codes: 0 all behaviours that could be checked passed, 1 one failed or none could be checked, 2 usage.",
        allow_abbrev=False,
    )
    option = conform.add_argument
    option("--bootstrap-server", metavar="HOST:PORT", required=True, help="the broker to check")
    option(
        "--suite",
        metavar="NAME",
        action="append",
        default=[],
        help="check only this suite; may be repeated",
    )
    option("--output", choices=("text", "json", "junit"), default="text", help="format of the report (default: text)")
    option(
        "--assume",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a configuration key that the broker does not report in DescribeConfigs; may be repeated",
    )
    option(
        "--max-version",
        metavar="API=N",
        action="append",
        default=[],
        help="the newest version of an API to use, for example JoinGroup=5; may be repeated",
    )
    option("--jobs", metavar="N", default="8", help="number of behaviours to check at the same time (default: 8)")


def _add_health(commands: argparse._SubParsersAction[_Parser]) -> None:
    health = commands.add_parser(
        "health",
        help="check whether a broker answers",
        description="Send ApiVersions to a broker. Works on PLAINTEXT and SASL_PLAINTEXT listeners, not with TLS.",
        epilog="Exit codes: 0 the broker answered, 1 it did not answer within two seconds, 2 usage.",
        allow_abbrev=False,
    )
    health.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="the broker to check (default: the first of KSHIM_CONFIG_LISTENERS, KSHIM_LISTEN, or 127.0.0.1:9092)",
    )


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


def _serve_options(found: argparse.Namespace, environment: Mapping[str, str]) -> ServeOptions:
    given = Given(found, environment)
    properties = _read_properties(given)
    config, has_listeners = _config(given, properties, found.config, environment)
    listen = _address_given(given, "--listen", gives_way=has_listeners)
    advertised = _address_given(given, "--advertised", gives_way=has_listeners)
    reached = advertised or listen
    if reached is not None and is_wildcard(reached.host):
        raise CommandError(
            f"clients cannot connect to {reached.host}: set --advertised HOST:PORT to the address of this broker",
            EXIT_USAGE,
        )
    return ServeOptions(
        listen=listen,
        advertised=advertised,
        data_dir=given.text("--data-dir"),
        config=config,
        topics=_topics(given),
        log_format=cast("LogFormat", _choice(given, "--log-format", ("text", "json")) or "text"),
        verbosity=given.count("--verbose"),
        fsync=cast("FsyncPolicy | None", _choice(given, "--fsync", ("always", "interval", "never"))),
        fsync_interval_ms=_count(given, "--fsync-interval-ms", 3_600_000),
        recover=cast("RecoverPolicy", _choice(given, "--recover", ("refuse", "skip-corrupt")) or "refuse"),
        users_file=_users_file(given),
        broker_count=_count(given, "--brokers", MAX_BROKERS) or 1,
        secret_files=_secret_files(given, properties),
        warnings=tuple(given.warnings()),
    )


def _users_file(given: Given) -> str | None:
    """Its name, after a look at whether it can be read, since only here is known who named it."""
    path = given.text("--users")
    if path is not None and not os.access(path, os.R_OK):
        reason = os.strerror(errno.EACCES if os.path.exists(path) else errno.ENOENT)
        raise CommandError(f"{given.name('--users')}: cannot read {path}: {reason}", EXIT_USAGE)
    return path


def _secret_files(given: Given, properties: Mapping[str, str]) -> tuple[str, ...]:
    files = [given.text("--users")]
    if properties:
        from kshim.config.broker_config import is_secret

        files += [given.text("--properties")] if any(map(is_secret, properties)) else []
    return tuple(file for file in files if file is not None)


def _config(
    given: Given, properties: Mapping[str, str], pairs: Sequence[str], environment: Mapping[str, str]
) -> tuple[dict[str, str], bool]:
    """Kafka's keys, and whether `listeners` is among those that do not come from the properties file."""
    by_environment = configuration_of(environment)
    by_command_line = dict(_key_and_value(text) for text in pairs)
    if given.flag("--events-topic"):
        asked = by_environment if given.is_of_environment("--events-topic") else by_command_line
        asked["kshim.history.topic.enable"] = "true"
    elif given.is_denied("--events-topic"):
        by_command_line["kshim.history.topic.enable"] = "false"
    config = {**properties, **by_environment, **by_command_line}
    if given.flag("--acls"):
        config.setdefault("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    elif given.is_denied("--acls"):
        config["authorizer.class.name"] = ""
    return config, "listeners" in by_environment or "listeners" in by_command_line


def _address_given(given: Given, option: str, *, gives_way: bool) -> Address | None:
    """The address of an option. A variable that `gives_way` counts as not set: `listeners` says it better."""
    text = given.text(option)
    if text is None or (gives_way and given.is_of_environment(option)):
        return None
    return _address(given.name(option), text)


def _choice(given: Given, option: str, choices: tuple[str, ...]) -> str | None:
    text = given.text(option)
    if text is not None and text not in choices:
        raise CommandError(
            f"{given.name(option)} is {', '.join(choices[:-1])} or {choices[-1]}, not {text!r}", EXIT_USAGE
        )
    return text


def _count(given: Given, option: str, maximum: int) -> int | None:
    text = given.text(option)
    if text is not None and (not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= maximum):
        raise CommandError(f"{given.name(option)}: {text!r} is not a number from 1 to {maximum}", EXIT_USAGE)
    return None if text is None else int(text)


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


def _read_properties(given: Given) -> dict[str, str]:
    from kshim.cli.properties import parse_properties

    path = given.text("--properties")
    if path is None:
        return {}
    option = given.name("--properties")
    try:
        # Kafka reads this format through Java, where it is Latin-1.
        with open(path, encoding="latin-1", newline="") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise CommandError(f"{option}: cannot read {path}: {error.strerror}", EXIT_USAGE) from None
    except ValueError as error:
        raise CommandError(f"{option}: {path}: {error}", EXIT_USAGE) from None


def _topics(given: Given) -> dict[str, int]:
    option = given.name("--topic")
    topics: dict[str, int] = {}
    for spec in given.values("--topic"):
        name, _, count = spec.strip().rpartition(":")
        if not (count.isascii() and count.isdigit()) or not 1 <= int(count) <= MAX_PARTITIONS:
            raise CommandError(f"{option}: {spec!r} is not NAME:PARTITIONS (1 to {MAX_PARTITIONS})", EXIT_USAGE)
        is_legal = 0 < len(name) <= MAX_TOPIC_NAME_LENGTH and name not in (".", "..")
        if not is_legal or not _TOPIC_NAME_CHARACTERS.issuperset(name):
            raise CommandError(
                f"{option}: {name!r} is not a topic name (1 to 249 letters, digits, dots, underscores and hyphens)",
                EXIT_USAGE,
            )
        if name in topics:
            raise CommandError(f"{option}: {name} is given twice", EXIT_USAGE)
        topics[name] = int(count)
    return topics
