"""The command line of `kshim serve` and `kshim demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.cli.addresses import Address
from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.cli.options import DemoOptions, ServeOptions, parse_command


def serve(*arguments: str, **environment: str) -> ServeOptions:
    command = parse_command(arguments, environment)
    assert isinstance(command, ServeOptions)
    return command


def test_without_arguments_kshim_serves_on_loopback_in_memory() -> None:
    assert serve() == ServeOptions(
        listen=None,
        advertised=None,
        data_dir=None,
        config={},
        topics={},
        log_format="text",
        verbosity=0,
        fsync=None,
        fsync_interval_ms=None,
        recover="refuse",
    )


@pytest.mark.parametrize(("value", "is_asked_for"), [("true", True), ("1", True), ("false", False), ("", False)])
def test_the_events_topic_is_a_configuration_key_an_option_and_a_variable(value: str, is_asked_for: bool) -> None:
    asked = {"kshim.history.topic.enable": "true"}
    assert serve("--events-topic").config == asked
    assert serve("--events-topic", "--config=kshim.history.topic.enable=false").config == asked
    assert serve(KSHIM_EVENTS_TOPIC=value).config == (asked if is_asked_for else {})


def test_options_without_a_command_are_those_of_serve() -> None:
    assert serve("--listen", "127.0.0.1:0", "-v") == serve("serve", "-v", "--listen=127.0.0.1:0")


def test_every_option_of_serve_is_read() -> None:
    options = serve(
        "serve",
        "--listen=0.0.0.0:9092",
        "--advertised=broker:9092",
        "--data-dir=data",
        "--config=group.max.size=3",
        "--config=offsets.retention.minutes = 1",
        "--topic=orders:3",
        "--topic=a.b-c_d:1",
        "--log-format=json",
        "--fsync=always",
        "--fsync-interval-ms=20",
        "--recover=skip-corrupt",
        "--brokers=3",
        "--clock=x0.5",
        "--verbose",
    )
    assert options == ServeOptions(
        listen=Address("0.0.0.0", 9092),
        advertised=Address("broker", 9092),
        data_dir="data",
        config={"group.max.size": "3", "offsets.retention.minutes": "1"},
        topics={"orders": 3, "a.b-c_d": 1},
        log_format="json",
        verbosity=1,
        fsync="always",
        fsync_interval_ms=20,
        recover="skip-corrupt",
        broker_count=3,
        clock_rate=500,
    )


def test_config_wins_over_the_properties_file_and_its_value_may_hold_an_equals_sign(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("group.max.size=3\nlog.dirs=/a\n")
    options = serve(f"--properties={file}", "--config=group.max.size=4", "--config=super.users=User:CN=a")
    assert options.config == {"group.max.size": "4", "log.dirs": "/a", "super.users": "User:CN=a"}


def test_the_environment_sets_what_the_options_do_not() -> None:
    environment = {
        "KSHIM_LISTEN": "127.0.0.1:1",
        "KSHIM_DATA_DIR": "data",
        "KSHIM_TOPICS": "a:1,b:2",
        "KSHIM_LOG_FORMAT": "json",
        "KSHIM_FSYNC": "never",
        "KSHIM_FSYNC_INTERVAL_MS": "7",
        "KSHIM_BROKERS": "2",
    }
    options = serve(**environment)
    assert (options.fsync, options.fsync_interval_ms, options.broker_count) == ("never", 7, 2)
    assert serve("--fsync=always", **environment).fsync == "always"
    assert (options.listen, options.data_dir, options.topics) == (Address("127.0.0.1", 1), "data", {"a": 1, "b": 2})
    assert options.log_format == "json"
    options = serve("--listen=127.0.0.1:2", "--topic=c:3", "--log-format=text", **environment)
    assert (options.listen, options.topics, options.log_format) == (Address("127.0.0.1", 2), {"c": 3}, "text")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--listen=nowhere"], "--listen: 'nowhere' is not HOST:PORT"),
        (["--listen=localhost:99999"], "not a port"),
        (["--advertised=here"], "--advertised"),
        (["--listen=0.0.0.0:9092"], "--advertised HOST:PORT"),
        (["--listen=[::]:9092"], "--advertised HOST:PORT"),
        (["--advertised=0.0.0.0:9092"], "--advertised HOST:PORT"),
        (["--config=group.max.size"], "KEY=VALUE"),
        (["--config==3"], "KEY=VALUE"),
        (
            ["--config=group.max.sise=3"],
            "--config: group.max.sise is not a configuration key of Kafka; did you mean group.max.size?",
        ),
        (["--config=ssl.keystore.locaton=a.pem"], "did you mean ssl.keystore.location?"),
        (["--config=pineapple=1"], "--config: pineapple is not a configuration key of Kafka"),
        (["--topic=orders"], "NAME:PARTITIONS"),
        (["--topic=orders:0"], "NAME:PARTITIONS"),
        (["--topic=or ders:1"], "not a topic name"),
        (["--topic=..:1"], "not a topic name"),
        (["--topic=a:1", "--topic=a:1"], "twice"),
        (["--log-format=xml"], "text or json"),
        (["--fsync=sometimes"], "always, interval or never"),
        (["--fsync-interval-ms=0"], "--fsync-interval-ms"),
        (["--recover=all"], "skip-corrupt"),
        (["--brokers=0"], "--brokers"),
        (["--clock=fast"], "--clock: 'fast' is not a clock: use real, manual, or x and a rate"),
        (["--clock=x0"], "--clock"),
        (["--brokers=many"], "--brokers"),
        (["--properties=/nonexistent/file"], "cannot read /nonexistent/file"),
        (["--unknown"], "--unknown"),
        (["--list=127.0.0.1:1"], "--list"),
        (["serve", "now"], "now"),
        (["sreve"], "sreve"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_it(arguments: list[str], what: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse_command(arguments, {})
    assert refusal.value.exit_code == EXIT_USAGE
    assert what in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_broken_properties_file_is_a_mistake_too(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(r"key=\uzzzz")
    with pytest.raises(CommandError, match=r"server\.properties"):
        serve(f"--properties={file}")


def test_the_demo_has_a_command_of_its_own() -> None:
    assert parse_command(["demo"], {}) == DemoOptions(is_plain=False)
    assert parse_command(["demo", "--plain"], {}) == DemoOptions(is_plain=True)


def test_help_is_printed_and_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["serve", "--help"], ["demo", "--help"]):
        with pytest.raises(SystemExit) as end:
            parse_command(arguments, {})
        assert end.value.code == 0
        assert "usage: kshim" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse_command(["--version"], {})
    assert end.value.code == 0
    name, version = capsys.readouterr().out.split()
    assert name == "kshim"
    assert version[0].isdigit()


@pytest.mark.parametrize("command", ["conform", "dump-offsets", "import --data-dir=new", "why --all", "top", "page"])
@pytest.mark.parametrize("option", ["--ssl=x", "--sasl=x"])
def test_commands_that_ask_a_broker_take_tls_and_sasl_from_a_file_only(command: str, option: str) -> None:
    arguments = [*command.split(), "--bootstrap-server=localhost:9092"]
    parse_command(arguments, {})
    with pytest.raises(CommandError, match=option.partition("=")[0]):
        parse_command([*arguments, option], {})


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["--listn=x"], "kshim serve"),
        (["serve", "--listn=x"], "kshim serve"),
        (["health", "--listn=x"], "kshim health"),
        (["conform", "--listn=x"], "kshim conform"),
    ],
)
def test_a_usage_error_points_to_the_help_of_its_command(arguments: list[str], command: str) -> None:
    with pytest.raises(CommandError, match=f"`{command} --help` lists the options"):
        parse_command(arguments, {})
