"""From the options of `kshim serve --control` to its HTTP interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.cli.addresses import is_loopback
from kshim.cli.exit_codes import EXIT_UNAVAILABLE, CommandError
from kshim.cli.log import Log
from kshim.cli.options import ServeOptions

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.control.control import Control
    from kshim.coordinator.step import Now
    from kshim.faults.faults import Faults


def control_of(
    known: Control | None,
    cluster: Cluster,
    faults: Faults,
    now: Callable[[], Now],
    options: ServeOptions,
    log: Log,
) -> Control:
    """The HTTP interface that the options ask for, or the one that is known, for another cluster.

    Raises CommandError when its extra is not installed.
    """
    try:
        from kshim.control.context import Controlled
        from kshim.control.control import Control
    except ModuleNotFoundError as error:
        raise CommandError(
            f"--control needs the module {error.name}: pip install 'kshim[control]'", EXIT_UNAVAILABLE
        ) from None
    assert options.control is not None
    no_reset = None
    for option, value in (("--data-dir", options.data_dir), ("--record", options.record)):
        if value is not None:
            no_reset = f"brokers with {option} cannot be reset"
    controlled = Controlled(cluster, faults, now, options.clock_rate, no_reset)
    if known is not None:
        known.control(controlled)
        return known
    return Control(
        controlled,
        host=options.control.host,
        port=options.control.port,
        token=options.control_token,
        is_loopback=is_loopback(options.control.host),
        is_read_only=options.control_read_only,
        failed=log.failed,
        on_listening=lambda url: log.note("control_listening", f"Control over HTTP on {url}", url=url),
    )
