"""The command line of `kshim conform`."""

from __future__ import annotations

import pytest

from kshim.cli.addresses import Address
from kshim.cli.exit_codes import EXIT_FAILURE, EXIT_USAGE, CommandError
from kshim.cli.main import main
from kshim.cli.options import ConformOptions, parse_command


def test_a_broker_is_all_it_needs() -> None:
    assert parse_command(["conform", "--bootstrap-server=broker:9092"], {}) == ConformOptions(
        bootstrap_server=Address("broker", 9092), suites=(), output="text", assume={}, caps={}, jobs=8
    )


def test_every_option_is_read() -> None:
    command = parse_command(
        [
            *("conform", "--bootstrap-server", "[::1]:9092", "--suite", "join", "--suite", "leave"),
            *("--output", "junit", "--assume", "group.max.size=5", "--max-version", "JoinGroup=5", "--jobs", "1"),
        ],
        {},
    )
    assert command == ConformOptions(
        bootstrap_server=Address("::1", 9092),
        suites=("join", "leave"),
        output="junit",
        assume={"group.max.size": "5"},
        caps={"JoinGroup": "5"},
        jobs=1,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["conform"],
        ["conform", "--bootstrap-server=nowhere"],
        ["conform", "--bootstrap-server=a:1", "--output=xml"],
        ["conform", "--bootstrap-server=a:1", "--jobs=0"],
        ["conform", "--bootstrap-server=a:1", "--jobs=many"],
        ["conform", "--bootstrap-server=a:1", "--assume=key"],
        ["conform", "--bootstrap-server=a:1", "--max-version=JoinGroup"],
    ],
)
def test_mistakes_are_usage_errors(arguments: list[str]) -> None:
    with pytest.raises(CommandError) as caught:
        parse_command(arguments, {})
    assert caught.value.exit_code == EXIT_USAGE


def test_an_unknown_suite_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--bootstrap-server=127.0.0.1:1", "--suite=dance"]) == EXIT_USAGE
    assert "unknown suite dance" in capsys.readouterr().err


def test_a_broker_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--bootstrap-server=127.0.0.1:1"]) == EXIT_FAILURE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kshim: cannot connect to 127.0.0.1:1")
