"""`python -m integration.incidents --bootstrap-server HOST:PORT --truth FILE`: incidents on any broker."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from integration.incidents.clock import Pace
from integration.incidents.play import Plan, play


def main() -> int:
    """Play, telling on stderr what was done."""
    parser = argparse.ArgumentParser(prog="python -m integration.incidents", description=__doc__)
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--truth", type=Path, required=True, metavar="FILE", help="JSONL, overwritten")
    parser.add_argument(
        "--pace",
        type=Pace,
        choices=tuple(Pace),
        default=Pace.READER,
        help="broker: its clock runs --rate times as fast, as that of `kshim serve --clock x5`; reader: it is real, so that "
        "sessions are as many times as short as Kafka's",
    )
    parser.add_argument("--rate", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--services", type=int, default=60)
    parser.add_argument("--incidents", type=int, default=1000)
    parser.add_argument("--prefix", default="", help="put before the names of groups and topics")
    options = parser.parse_args()
    host, _, port = options.bootstrap_server.rpartition(":")
    played = play(
        (host, int(port)),
        options.truth,
        Plan(options.seed, options.services, options.incidents, options.rate),
        options.pace,
        prefix=options.prefix,
        tell=lambda line: print(line, file=sys.stderr),
    )
    print(
        f"{played.incident_count} incidents in {played.seconds:.0f} s; {played.accident_count} accidents, "
        f"{played.failed_count} failed, this process at most {played.latest_s:.2f} s late, "
        f"the broker at most {played.slowest_answer_s:.2f} s",
        file=sys.stderr,
    )
    return 0 if played.failed_count == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
