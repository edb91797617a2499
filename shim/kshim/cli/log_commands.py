"""Runs `dump-offsets`, `import`, `why`, `top` and `page`: their errors become a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing

from kshim.cli.addresses import is_loopback
from kshim.cli.command_config import read_command_config
from kshim.cli.exit_codes import EXIT_FAILURE, EXIT_UNAVAILABLE, CommandError
from kshim.cli.options import DumpOffsetsOptions, ImportOptions, PageOptions, TopOptions, WhyOptions
from kshim.tools.logs import SourceError


def run_logs(options: DumpOffsetsOptions | ImportOptions | WhyOptions | TopOptions | PageOptions) -> int:
    """Run the command and return its exit code. Raises CommandError."""
    match options:
        case DumpOffsetsOptions():
            return _dump(options)
        case ImportOptions():
            return _import(options)
        case WhyOptions():
            return _why(options)
        case TopOptions():
            return _top(options)
        case PageOptions():
            return _page(options)


def _printed(run: Callable[[], int]) -> int:
    """The exit code of a command that prints what logs or brokers contain. Raises CommandError."""
    # Group names are anything; a terminal of another encoding shall not end the command.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return run()
    except SourceError as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from None
    except BrokenPipeError:  # `| head` has seen enough; at exit Python must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE


def _dump(options: DumpOffsetsOptions) -> int:
    from kshim.tools.dump_offsets.run import run_dump_offsets

    security = read_command_config(options.command_config)
    return _printed(
        lambda: run_dump_offsets(
            directories=options.data_dirs,
            bootstrap_server=options.bootstrap_server,
            security=security,
            topic=options.topic,
            group=options.group,
            partition=options.partition,
            start=options.from_offset,
            end=options.to_offset,
            output=options.output,
        )
    )


def _import(options: ImportOptions) -> int:
    from kshim.tools.import_logs.run import run_import
    from kshim.tools.import_logs.target import TargetError

    security = read_command_config(options.command_config)
    try:
        run_import(
            directories=options.from_dirs,
            bootstrap_server=options.bootstrap_server,
            security=security,
            data_dir=options.data_dir,
            topics=options.topics,
        )
    except SourceError as error:
        raise CommandError(f"nothing was imported: {error}", EXIT_FAILURE) from None
    except TargetError as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from None
    return 0


def _why(options: WhyOptions) -> int:
    from kshim.tools.why.run import run_follow, run_why

    security = read_command_config(options.command_config)
    if options.interval_s is not None and options.bootstrap_server is not None and options.output != "html":
        server, interval_s, output = options.bootstrap_server, options.interval_s, options.output
        return _printed(
            lambda: run_follow(
                bootstrap_server=server,
                security=security,
                group=options.group,
                interval_s=interval_s,
                record=options.record,
                output=output,
            )
        )
    return _printed(
        lambda: run_why(
            directories=options.data_dirs,
            bootstrap_server=options.bootstrap_server,
            security=security,
            group=options.group,
            at_ms=options.at_ms,
            since_ms=options.since_ms,
            broker_logs=options.broker_logs,
            recorded=options.recorded,
            record=options.record,
            output=options.output,
        )
    )


def _top(options: TopOptions) -> int:
    from kshim.tools.top.run import run_top

    security = read_command_config(options.command_config)
    return _printed(
        lambda: run_top(
            bootstrap_server=options.bootstrap_server,
            security=security,
            groups=options.groups,
            interval_s=options.interval_s,
            is_once=options.is_once,
            output=options.output,
        )
    )


def _page(options: PageOptions) -> int:
    try:
        from kshim.control.watching import run_pages
    except ModuleNotFoundError as error:
        raise CommandError(
            f"page needs the module {error.name}: pip install 'kshim[control]'", EXIT_UNAVAILABLE
        ) from None
    from kshim.server.listener import CannotBind
    from kshim.tools.logs.broker import BrokerLogs
    from kshim.tools.top.pages import Watched
    from kshim.tools.why.follow import GLANCE_S

    security = read_command_config(options.command_config)

    def run() -> int:
        with closing(BrokerLogs(*options.bootstrap_server, client_id="page", security=security)) as logs:
            watched = Watched(logs, options.groups, options.interval_s)
            try:
                run_pages(
                    watched,
                    watched.look,
                    host=options.listen.host,
                    port=options.listen.port,
                    token=options.token,
                    is_loopback=is_loopback(options.listen.host),
                    interval_s=min(GLANCE_S, options.interval_s),
                    on_listening=lambda url: print(f"The groups of {logs} are shown at {url}", flush=True),
                )
            except CannotBind as error:
                raise CommandError(str(error), EXIT_UNAVAILABLE) from None
        return 0

    return _printed(run)
