"""A service that consumes with confluent-kafka."""

from __future__ import annotations

import confluent_kafka

from integration.real_incidents.settings import Commands, settings


def main() -> None:
    """Consume until stopped, then close. A fatal error ends it."""
    given, commands = settings(), Commands()
    work_ms, pattern, topics = int(given.pop("work.ms")), given.pop("pattern", ""), given.pop("topics", "")
    del given["max.poll.records"]  # there is no such setting: messages are polled one by one
    given["topic.metadata.refresh.interval.ms"] = given["metadata.max.age.ms"]
    consumer = confluent_kafka.Consumer(given)
    consumer.subscribe([pattern] if pattern else topics.split(","))
    while not commands.is_stopping:
        messages = consumer.consume(20, 0.5)
        for error in (message.error() for message in messages):
            if error is not None and error.fatal():
                raise confluent_kafka.KafkaException(error)
        commands.work(work_ms if messages else 0)
    consumer.close()


if __name__ == "__main__":
    main()
