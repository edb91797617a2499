"""How long a new kafka-python group waits for its first record.

    python -m bench.first_record [--rounds 10] [--bootstrap kafka=127.0.0.1:9092]...

Each round makes a new consumer in a new group, with default settings but for auto_offset_reset=earliest, and reads one
record that is there already. The brokers take turns. Printed: median [lowest-highest] milliseconds from `subscribe()`
and from making the consumer to the record, the CPU time that the broker spent on it, and the very first round alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from bench.brokers import MeasuredBroker, add_broker_options, chosen_brokers

TOPIC = "bench-first-record"


def first_record(broker: MeasuredBroker, group: str) -> tuple[float, float, float]:
    """One round: (ms from subscribe, ms from making the consumer, CPU ms of the broker)."""
    from kafka import KafkaConsumer

    spent_s = broker.fine_cpu_s()
    made_s = time.perf_counter()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest")
    try:
        subscribed_s = time.perf_counter()
        consumer.subscribe([TOPIC])
        record = next(consumer)
        read_s = time.perf_counter()
        assert record.value == b"first"
        return (read_s - subscribed_s) * 1e3, (read_s - made_s) * 1e3, (broker.fine_cpu_s() - spent_s) * 1e3
    finally:
        consumer.close()


def write_record(broker: MeasuredBroker) -> None:
    """Put one record into a topic of one partition."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(TOPIC, b"first").get(timeout=30)
    producer.close()


def show(name: str, what: str, values: list[float]) -> None:
    """One line."""
    print(f"{name:<10}{what:<26}{statistics.median(values):8.1f}  [{min(values):.1f}-{max(values):.1f}]")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    add_broker_options(parser)
    options = parser.parse_args()
    run = os.urandom(4).hex()
    with chosen_brokers(options) as brokers:
        measured: dict[str, list[tuple[float, float, float]]] = {broker.name: [] for broker in brokers}
        for broker in brokers:
            write_record(broker)
        for round_number in range(options.rounds + 1):
            for broker in brokers:
                measured[broker.name].append(first_record(broker, f"bench-{run}-{round_number}"))
    for name, rows in measured.items():
        first, *later = rows
        print(f"{name:<10}first round, subscribe to record {first[0]:.1f} ms, of it broker CPU {first[2]:.1f} ms")
        subscribe, made, cpu = (list(column) for column in zip(*later, strict=True))
        show(name, "subscribe to record, ms", subscribe)
        show(name, "consumer to record, ms", made)
        show(name, "broker CPU, ms", cpu)


if __name__ == "__main__":
    main()
