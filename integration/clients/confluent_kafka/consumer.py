"""A consumer as applications have it, for `kshim conform-client`: automatic commits, a fatal error ends it.

librdkafka's documentation: all errors that are not fatal are for information, and dealt with by the library.
"""

from __future__ import annotations

import os

import confluent_kafka


def main() -> None:
    """Consume until ended."""
    settings = {
        "bootstrap.servers": os.environ["KSHIM_BOOTSTRAP_SERVERS"],
        "group.id": os.environ["KSHIM_GROUP"],
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
    }
    if os.environ["KSHIM_INSTANCE"]:
        settings["group.instance.id"] = os.environ["KSHIM_INSTANCE"]
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([os.environ["KSHIM_TOPIC"]])
    while True:
        message = consumer.poll(1.0)
        if message is not None and (error := message.error()) is not None:
            print(error, flush=True)
            if error.fatal() or error.code() == confluent_kafka.KafkaError._FATAL:
                raise confluent_kafka.KafkaException(error)


if __name__ == "__main__":
    main()
