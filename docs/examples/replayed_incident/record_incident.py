"""`python record_incident.py FILE`: the incident as it was, for `kshim replay`. In production the option `--record` writes
such files."""

import sys

from weekly_billing import bill_new_orders

from kshim.testing import Kshim

SETTINGS = {"offsets.retention.minutes": "10080", "log.retention.ms": "-1"}


def record(path):
    with Kshim(topics={"orders": 1}, config=SETTINGS, record=path) as kshim:
        billed = []
        config = kshim.client_config("confluent-kafka")
        kshim.produce("orders", "coffee", "tea")
        bill_new_orders(config, billed.append)
        kshim.clock.advance(9 * 24 * 3600)
        kshim.produce("orders", "cake")
        bill_new_orders(config, billed.append)
    return billed


if __name__ == "__main__":
    print(record(sys.argv[1]))
