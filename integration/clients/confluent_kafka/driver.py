"""The driver of confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import confluent_kafka

from integration.clients.confluent_kafka.admin import Admin
from integration.clients.confluent_kafka.consuming import Consuming
from integration.clients.confluent_kafka.producing import Producing
from integration.clients.confluent_kafka.settings import connection, error_name
from integration.clients.python_driver.loop import serve


class ConfluentKafka(Admin, Consuming, Producing):
    """All commands."""

    def __init__(self) -> None:
        Consuming.__init__(self)
        Producing.__init__(self)
        Admin.__init__(self)

    def open(
        self, bootstrap: str, security: Mapping[str, str] | None = None, group_protocol: str | None = None
    ) -> dict[str, Any]:
        self.forget_admin()
        self.group_settings = {} if group_protocol is None else {"group.protocol": group_protocol}
        self.connection = connection(bootstrap, security)
        library = confluent_kafka.libversion()[0]
        return {"client": "confluent-kafka", "version": f"{confluent_kafka.__version__} (librdkafka {library})"}

    def error_name(self, error: Exception) -> str:
        return error_name(error)


if __name__ == "__main__":
    serve(ConfluentKafka())
