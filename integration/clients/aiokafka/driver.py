"""The driver of aiokafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiokafka

from integration.clients.aiokafka.admin import Admin
from integration.clients.aiokafka.consuming import Consuming
from integration.clients.aiokafka.producing import Producing
from integration.clients.aiokafka.settings import connection, error_name, start_loop
from integration.clients.python_driver.loop import serve


class AioKafka(Admin, Consuming, Producing):
    """All commands."""

    def __init__(self) -> None:
        Consuming.__init__(self)
        Producing.__init__(self)
        Admin.__init__(self)

    def open(self, bootstrap: str, security: Mapping[str, str] | None = None) -> dict[str, Any]:
        self.forget_admin()
        self.connection = connection(bootstrap, security)
        return {"client": "aiokafka", "version": aiokafka.__version__}

    def error_name(self, error: Exception) -> str:
        return error_name(error)


if __name__ == "__main__":
    start_loop()
    serve(AioKafka())
