"""`KSHIM_*` variables: every option of `kshim serve`, and any of Kafka's keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.cli.addresses import Address
from kshim.cli.environment import configuration_of
from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.cli.options import HealthOptions, ServeOptions, parse_command
from kshim.config.ignored_keys import IGNORED_KEYS
from kshim.config.keys import BROKER_KEYS, OWN_KEYS, Key
from kshim.config.security_keys import SECURITY_KEYS


def serve(*arguments: str, **environment: str) -> ServeOptions:
    command = parse_command(["serve", *arguments], environment)
    assert isinstance(command, ServeOptions)
    return command


@pytest.mark.parametrize(
    ("option", "variable"),
    [
        ("--listen=127.0.0.1:1", "KSHIM_LISTEN"),
        ("--advertised=here:1", "KSHIM_ADVERTISED"),
        ("--brokers=3", "KSHIM_BROKERS"),
        ("--clock=x60", "KSHIM_CLOCK"),
        ("--data-dir=data", "KSHIM_DATA_DIR"),
        ("--fsync=never", "KSHIM_FSYNC"),
        ("--fsync-interval-ms=7", "KSHIM_FSYNC_INTERVAL_MS"),
        ("--recover=skip-corrupt", "KSHIM_RECOVER"),
        (f"--users={__file__}", "KSHIM_USERS"),
        ("--topic=orders:2", "KSHIM_TOPICS"),
        ("--log-format=json", "KSHIM_LOG_FORMAT"),
        ("--config=group.max.size=3", "KSHIM_CONFIG_GROUP_MAX_SIZE"),
    ],
)
def test_a_variable_does_what_its_option_does(option: str, variable: str) -> None:
    value = option.rpartition("=")[2]
    assert serve(**{variable: value}) == serve(option) != serve()


@pytest.mark.parametrize("option", ["--acls", "--events-topic", "--verbose"])
@pytest.mark.parametrize(
    ("value", "is_given"), [("true", True), ("1", True), ("FALSE", False), ("0", False), ("", False)]
)
def test_a_variable_of_an_option_without_a_value_is_true_or_false(option: str, value: str, is_given: bool) -> None:
    variable = "KSHIM_" + option.removeprefix("--").replace("-", "_").upper()
    assert serve(**{variable: value}) == (serve(option) if is_given else serve())


def test_how_much_is_logged_may_be_a_number() -> None:
    assert serve(KSHIM_VERBOSE="2") == serve("-vv") == serve("-v", "-v")


@pytest.mark.parametrize(
    "key", [*BROKER_KEYS.values(), *OWN_KEYS.values(), *SECURITY_KEYS.values(), *IGNORED_KEYS.values()]
)
def test_every_key_of_kafka_has_a_variable(key: Key) -> None:
    variable = "KSHIM_CONFIG_" + key.name.upper().replace(".", "_")
    value = key.default or (
        "1" if key.type in ("int", "long", "short", "double") else key.rule.partition("|")[0] or "x"
    )
    assert configuration_of({variable: value}) == {key.name: value}


def test_names_of_listeners_may_hold_underscores_and_those_of_mechanisms_hyphens() -> None:
    variable = "KSHIM_CONFIG_LISTENER_NAME_SASL__PLAINTEXT_SCRAM___SHA___256_SASL_JAAS_CONFIG"
    assert configuration_of({variable: "x"}) == {"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": "x"}


def test_the_command_line_wins_over_the_environment_and_that_over_the_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("group.max.size=1\nnum.partitions=1\nmessage.max.bytes=1000\n")
    variables = {
        "KSHIM_PROPERTIES": str(file),
        "KSHIM_CONFIG_GROUP_MAX_SIZE": "2",
        "KSHIM_CONFIG_NUM_PARTITIONS": "2",
        "KSHIM_EVENTS_TOPIC": "true",
    }
    options = serve("--config=group.max.size=3", **variables)
    assert options.config == {
        "group.max.size": "3",
        "num.partitions": "2",
        "message.max.bytes": "1000",
        "kshim.history.topic.enable": "true",
    }
    options = serve("--config=kshim.history.topic.enable=false", **variables)
    assert options.config["kshim.history.topic.enable"] == "false"


def test_an_option_without_a_value_takes_back_its_variable() -> None:
    assert serve("--data-dir=", KSHIM_DATA_DIR="/data").data_dir is None


def test_listeners_win_over_the_variables_of_the_plain_text_listener() -> None:
    variables = {"KSHIM_LISTEN": "0.0.0.0:9092", "KSHIM_ADVERTISED": "localhost:9092"}
    assert serve(**variables).listen == Address("0.0.0.0", 9092)
    for options in (
        serve(KSHIM_CONFIG_LISTENERS="SSL://:9092", **variables),
        serve("--config=listeners=SSL://:9092", **variables),
    ):
        assert (options.listen, options.advertised) == (None, None)
        assert options.config == {"listeners": "SSL://:9092"}


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("KSHIM_LISTEN", "nowhere", "KSHIM_LISTEN: 'nowhere' is not HOST:PORT"),
        ("KSHIM_TOPICS", "orders", "KSHIM_TOPICS: 'orders' is not NAME:PARTITIONS"),
        ("KSHIM_FSYNC", "sometimes", "KSHIM_FSYNC is always, interval or never, not 'sometimes'"),
        ("KSHIM_BROKERS", "many", "KSHIM_BROKERS: 'many' is not a number from 1 to 100"),
        ("KSHIM_ACLS", "perhaps", "KSHIM_ACLS must be true or false, not 'perhaps'"),
        ("KSHIM_PROPERTIES", "/nonexistent", "KSHIM_PROPERTIES: cannot read /nonexistent"),
        ("KSHIM_USERS", "/nonexistent", "KSHIM_USERS: cannot read /nonexistent: No such file"),
        (
            "KSHIM_CONFIG_GROUP_MAX_SIZ",
            "3",
            "KSHIM_CONFIG_GROUP_MAX_SIZ: group.max.siz is not a configuration key of Kafka; "
            "did you mean KSHIM_CONFIG_GROUP_MAX_SIZE?",
        ),
        ("KSHIM_CONFIG_PINEAPPLE", "3", "KSHIM_CONFIG_PINEAPPLE: pineapple is not a configuration key of Kafka"),
        ("KSHIM_CONFIG_GROUP_MAX_SIZE", "x", "KSHIM_CONFIG_GROUP_MAX_SIZE: bad configuration value: group.max.size=x"),
    ],
)
def test_a_mistake_names_the_variable(variable: str, value: str, problem: str) -> None:
    with pytest.raises(CommandError) as refusal:
        serve(**{variable: value})
    assert refusal.value.exit_code == EXIT_USAGE
    assert str(refusal.value).startswith(problem)


def test_other_variables_that_begin_with_kshim_do_not_matter() -> None:
    of_kubernetes = {
        "KSHIM_PORT": "tcp://10.0.0.1:9092",
        "KSHIM_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KSHIM_SERVICE_HOST": "10.0.0.1",
        "KSHIM_SERVICE_PORT": "9092",
        "KSHIM_USERS_SERVICE_HOST": "10.0.0.1",
    }
    assert serve(**of_kubernetes) == serve()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KSHIM_TOPIC", "KSHIM_TOPICS"),
        ("KSHIM_LISTE", "KSHIM_LISTEN"),
        ("KSHIM_BROKRES", "KSHIM_BROKERS"),
        ("KSHIM_DATADIR", "KSHIM_DATA_DIR"),
        ("KSHIM_VERBOSITY", "KSHIM_VERBOSE"),
        ("KSHIM_CONFIG", "KSHIM_CONFIG_ and the name of a key"),
    ],
)
def test_a_variable_that_is_nearly_one_of_kshim_is_warned_of(variable: str, meant: str) -> None:
    (warning,) = serve(**{variable: "x"}).warnings
    assert warning == f"{variable} is not a variable of kshim and has no effect; did you mean {meant}?"


def test_an_empty_variable_of_a_key_counts_as_not_set() -> None:
    assert serve(KSHIM_CONFIG_GROUP_MAX_SIZE="", KSHIM_CONFIG_PINEAPPLE="") == serve()


def test_the_command_line_switches_off_what_was_switched_on_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n")
    variables = {"KSHIM_EVENTS_TOPIC": "true", "KSHIM_ACLS": "true", "KSHIM_PROPERTIES": str(file)}
    assert serve("--no-acls", "--no-events-topic", **variables).config == {
        "authorizer.class.name": "",
        "kshim.history.topic.enable": "false",
    }


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, Address("127.0.0.1", 9092)),
        ({"KSHIM_LISTEN": "0.0.0.0:9093"}, Address("127.0.0.1", 9093)),
        ({"KSHIM_LISTEN": "[::]:9093"}, Address("127.0.0.1", 9093)),
        ({"KSHIM_LISTEN": "[::1]:9093"}, Address("::1", 9093)),
        (
            {"KSHIM_LISTEN": "a:1", "KSHIM_CONFIG_LISTENERS": "SASL_PLAINTEXT://:9094,SSL://:1"},
            Address("127.0.0.1", 9094),
        ),
    ],
)
def test_health_asks_the_first_listener_of_the_environment(environment: dict[str, str], address: Address) -> None:
    assert parse_command(["health"], environment) == HealthOptions(address)


def test_health_asks_the_broker_that_is_named() -> None:
    environment = {"KSHIM_LISTEN": "0.0.0.0:9093"}
    assert parse_command(["health", "--bootstrap-server=b:1"], environment) == HealthOptions(Address("b", 1))


def test_health_refuses_what_is_no_address() -> None:
    with pytest.raises(CommandError, match="--bootstrap-server: 'nowhere' is not HOST:PORT"):
        parse_command(["health", "--bootstrap-server=nowhere"], {})
