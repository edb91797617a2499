"""`kshim`: runs the command and turns errors into one sentence and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshim.cli.exit_codes import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from kshim.cli.options import ConformClientOptions, ConformOptions, HealthOptions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `kshim` with `arguments` (default: those of the process) and return its exit code.

    `--help` and `--version` raise SystemExit, as argparse does.
    """
    # What imports make stays, so looking through it for garbage frees nothing and is a tenth of the start-up.
    gc.disable()
    from kshim.cli.options import (
        ConformClientOptions,
        ConformOptions,
        CtlOptions,
        DemoOptions,
        HealthOptions,
        PipelineOptions,
        ReplayOptions,
        ServeOptions,
        parse_command,
    )

    try:
        command = parse_command(sys.argv[1:] if arguments is None else arguments, os.environ)
        if isinstance(command, ServeOptions):
            from kshim.cli.serve import run_serve

            return run_serve(command)
        gc.enable()
        if isinstance(command, DemoOptions):
            from kshim.tools.demo.run import run_demo

            return run_demo(is_plain=command.is_plain)
        if isinstance(command, ConformOptions):
            return _conform(command)
        if isinstance(command, ConformClientOptions):
            return _conform_client(command)
        if isinstance(command, HealthOptions):
            return _health(command)
        if isinstance(command, ReplayOptions):
            from kshim.cli.replay import run_replay

            return run_replay(command)
        if isinstance(command, CtlOptions):
            from kshim.cli.ctl import run

            return run(command.arguments)
        if isinstance(command, PipelineOptions):
            from kshim_pipeline.cli import main as run_pipeline

            return run_pipeline(command.arguments)
        from kshim.cli.log_commands import run_logs

        return run_logs(command)
    except CommandError as error:
        print(f"kshim: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _conform(options: ConformOptions) -> int:
    from kshim.cli.command_config import read_command_config
    from kshim.tools.client import BrokerGone
    from kshim.tools.conform.run import UnknownName, run_conform

    security = read_command_config(options.command_config)
    try:
        return run_conform(
            *options.bootstrap_server,
            suites=options.suites,
            assume=options.assume,
            caps=options.caps,
            jobs=options.jobs,
            output=options.output,
            files=options.scenarios,
            security=security,
        )
    except UnknownName as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    except BrokerGone as error:
        raise CommandError(str(error), EXIT_FAILURE) from None


def _conform_client(options: ConformClientOptions) -> int:
    from kshim.tools.conform_client.program import CommandProblem
    from kshim.tools.conform_client.run import UnknownName, print_behaviours, run_conform_client

    try:
        if options.command is None:
            return print_behaviours(suites=options.suites, names=options.behaviours)
        return run_conform_client(
            options.command,
            suites=options.suites,
            names=options.behaviours,
            jobs=options.jobs,
            patience=options.patience,
            time_limit_s=options.time_limit_s,
            output=options.output,
        )
    except (UnknownName, CommandProblem) as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def _health(options: HealthOptions) -> int:
    from kshim.tools.health import problem_of

    problem = problem_of(*options.bootstrap_server)
    if problem is not None:
        raise CommandError(f"{options.bootstrap_server} is not healthy: {problem}", EXIT_FAILURE)
    return EXIT_OK
