"""A child of the demo: a real kafka-python producer that writes to each partition in turn and reports how far it is.

`python -m kshim.tools.demo.producer BOOTSTRAP TOPIC PARTITIONS RECORDS_PER_S`; ends with stdin.
"""

from __future__ import annotations

import itertools
import sys

from kshim.tools.demo.reports import StopSignal, report

REPORT_EVERY = 10


def produce(bootstrap: str, topic: str, partition_count: int, records_per_s: float) -> None:
    """Write until stopped; then wait until all records are written."""
    from kafka import KafkaProducer

    stop = StopSignal()
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="producer")
    sent = 0
    for number in itertools.count(1):
        if stop.wait(1 / records_per_s):
            break
        producer.send(topic, value=b"order %d" % number, partition=number % partition_count)
        sent = number
        if number % REPORT_EVERY == 0:
            report("produced", total=sent)
    producer.close()
    report("produced", total=sent)


if __name__ == "__main__":
    produce(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
