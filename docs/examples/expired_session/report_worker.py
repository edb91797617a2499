"""Makes reports, which may take long. One that was given to somebody else meanwhile is thrown away."""

import threading

from kafka import KafkaConsumer
from kafka.errors import CommitFailedError


class ReportWorker:
    def __init__(self, config, name, make_report):
        self._config = config
        self._name = name
        self._make_report = make_report
        self._stopping = threading.Event()
        self.published = []
        self.thrown_away = []

    def run(self):
        consumer = KafkaConsumer(
            "reports",
            group_id="report-workers",
            client_id=self._name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=1,
            **self._config,
        )
        try:
            while not self._stopping.is_set():
                for records in consumer.poll(timeout_ms=1000).values():
                    report = self._make_report(records[0].value.decode())
                    try:
                        consumer.commit()
                    except CommitFailedError:
                        self.thrown_away.append(report)
                    else:
                        self.published.append(report)
        finally:
            consumer.close()

    def stop(self):
        self._stopping.set()
