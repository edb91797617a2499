"""The driver of kafka-python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kafka

from integration.clients.kafka_python.admin import Admin
from integration.clients.kafka_python.consuming import Consuming
from integration.clients.kafka_python.producing import Producing
from integration.clients.kafka_python.settings import connection, error_name
from integration.clients.python_driver.loop import serve


class KafkaPython(Admin, Consuming, Producing):
    """All commands."""

    def __init__(self) -> None:
        Consuming.__init__(self)
        Producing.__init__(self)
        Admin.__init__(self)

    def open(self, bootstrap: str, security: Mapping[str, str] | None = None) -> dict[str, Any]:
        self.forget_admin()
        self.connection = connection(bootstrap, security)
        return {"client": "kafka-python", "version": kafka.__version__}

    def error_name(self, error: Exception) -> str:
        return error_name(error)


if __name__ == "__main__":
    serve(KafkaPython())
