"""Where the tools read from: directories or a broker, as their options say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from kshim.tools.client import PLAINTEXT
from kshim.tools.client_security import Security
from kshim.tools.logs.folder import FolderLogs

if TYPE_CHECKING:
    from kshim.tools.logs.broker import BrokerLogs


@contextmanager
def opened(
    directories: Sequence[str],
    bootstrap_server: tuple[str, int] | None,
    *,
    client_id: str,
    security: Security = PLAINTEXT,
) -> Iterator[BrokerLogs | FolderLogs]:
    """The broker, if there is one, else the directories. Raises SourceError."""
    if bootstrap_server is None:
        yield FolderLogs(directories)
        return
    from kshim.tools.logs.broker import BrokerLogs

    with closing(BrokerLogs(*bootstrap_server, client_id=client_id, security=security)) as logs:
        yield logs
