import os
import signal
import subprocess
from pathlib import Path

import pytest

from integration.support.fixtures import available
from integration.support.go import go_program


@pytest.fixture
def meters(kshim):
    """The service of `main.go` in this folder, running."""
    program = available(lambda: go_program(Path(__file__).parent))
    environment = {**os.environ, "BOOTSTRAP_SERVERS": kshim.bootstrap_servers}
    process = subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.kshim(brokers=3, topics={"readings": 3})
def test_when_the_coordinator_dies_no_reading_is_lost_and_nobody_has_to_rejoin(kshim, meters):
    group = kshim.group("meters")
    group.wait_stable(members=1, timeout=60)
    read = kshim.produce("readings", *["5"] * 10, key="kitchen")
    partition = read[0].partition
    group.wait_committed("readings", partition, 10)

    kshim.kill_node(kshim.coordinator_of("meters"))
    kshim.produce("readings", *["7"] * 10, key="kitchen")
    group.wait_committed("readings", partition, 20)
    group.assert_rebalances(at_most=1)

    meters.send_signal(signal.SIGINT)
    printed, _ = meters.communicate(timeout=60)
    assert printed.splitlines()[-1] == "kitchen 120"
    assert meters.returncode == 0
