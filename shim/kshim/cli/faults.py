"""Faults of `kshim serve`: those of `--faults`, and those that come over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.faults.document import rules_from_toml
from kshim.faults.faults import Firing
from kshim.faults.injection import FaultInjector
from kshim.faults.rule import InvalidRule
from kshim.wording import counted

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.broker.router import Router
    from kshim.cli.log import Log
    from kshim.coordinator.step import Now
    from kshim.faults.faults import Faults
    from kshim.recording.recorder import Recorder


def faults_of(
    cluster: Cluster,
    routers: Sequence[Router],
    now: Callable[[], Now],
    log: Log,
    path: str | None,
    recorder: Recorder | None = None,
) -> Faults:
    """The faults of a cluster, logged when they fire, and the rules of a file in force. Raises CommandError (usage)."""
    faults = FaultInjector(cluster, routers, now).faults

    def fired(firing: Firing) -> None:
        fields = firing._asdict()
        del fields["now"]
        log.note("fault_injected", f"Injected fault: {firing}", **fields)

    faults.on_fired.append(fired)
    if recorder is not None:
        recorder.follow_faults(faults)
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                rules = rules_from_toml(file.read())
            for rule in rules:
                faults.arm(rule)
        except OSError as error:
            raise CommandError(f"--faults: cannot read {path}: {error.strerror}", EXIT_USAGE) from None
        except UnicodeDecodeError:
            raise CommandError(f"--faults: {path} is not UTF-8", EXIT_USAGE) from None
        except InvalidRule as error:
            raise CommandError(f"--faults: {path}: {error}", EXIT_USAGE) from None
        log.note(
            "faults",
            f"{counted(len(rules), 'fault')} of {path} {'is' if len(rules) == 1 else 'are'} in force",
            path=path,
            count=len(rules),
        )
    return faults
