"""What names of clients tell of processes."""

from __future__ import annotations

import re

_OF_LIBRARY = re.compile(r"(rdkafka|kgo|sarama|kafkajs|(kafka-python|aiokafka)-[\d.]+|consumer-.+-\d+)@")
"""Of librdkafka, franz-go, sarama, KafkaJS, kafka-python, aiokafka, and of Java's consumers, whose group it has in its middle."""


def is_of_library(client: str) -> bool:
    """Whether a client has the id that its library has where none is set: clients of one name in two groups are rarely the same then.

    >>> is_of_library("rdkafka@10.0.0.1"), is_of_library("billing@10.0.0.1")
    (True, False)
    """
    return _OF_LIBRARY.match(client) is not None
