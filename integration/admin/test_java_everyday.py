"""Every public call of Java's `Admin` 4.4, on kshim and on Kafka: the same comes of it, or kshim says that it cannot.

`everyday/AdminCalls.java` makes the calls and writes a line for each; of a refusal only its class is compared.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from integration.support.broker import Broker
from integration.support.fixtures import available
from integration.support.group_suite import new_name
from integration.support.jars import KAFKA
from integration.support.java_program import java_program
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

pytestmark = pytest.mark.java

SOURCE = Path(__file__).parent / "everyday" / "AdminCalls.java"
TIMEOUT_S = 150
REFUSAL = re.compile(r"([A-Za-z]+Exception): .*")

NOT_SUPPORTED = {
    **dict.fromkeys(
        (
            "addRaftVoter",
            "createDelegationToken",
            "describeDelegationToken",
            "expireDelegationToken",
            "removeRaftVoter",
            "renewDelegationToken",
            "unregisterBroker",
            "unregisterController",
        ),
        "UnsupportedVersionException",
    ),
}
"""What kshim does not do, and how a caller hears of it."""
UNEQUAL = {"describeConfigs of a broker"}
"""Its number of keys grows with what others have set on the Kafka that all tests share."""


def outcomes(broker: Broker, prefix: str) -> dict[str, str]:
    """What came of each call; of a refusal the class of the exception."""
    command = available(lambda: java_program("AdminCalls", [SOURCE], KAFKA, "-Xmx128m"))
    done = subprocess.run(
        [*command, broker.bootstrap, prefix], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = {}
    for line in done.stdout.splitlines():
        call, _, text = line.partition(": ")
        refusal = REFUSAL.fullmatch(text)
        found[call] = refusal[1] if refusal else text
    return found


@pytest.mark.kafka
def test_every_call_of_javas_admin_does_as_on_kafka_or_says_that_it_cannot(
    kshim_process: KshimProcess, real_kafka: RealKafka
) -> None:
    prefix = new_name()
    ours, theirs = (outcomes(broker, prefix) for broker in (kshim_process, real_kafka))
    assert ours.keys() == theirs.keys()
    assert {call: ours[call] for call in NOT_SUPPORTED} == NOT_SUPPORTED
    equal = ours.keys() - NOT_SUPPORTED.keys() - UNEQUAL
    assert {call: ours[call] for call in equal} == {call: theirs[call] for call in equal}


def test_no_call_of_javas_admin_is_left_out(jvm: Jvm) -> None:
    java = jvm.classes.java.lang
    calls = {
        method.getName()
        for method in java.Class.forName("org.apache.kafka.clients.admin.Admin").getMethods()
        if not java.reflect.Modifier.isStatic(method.getModifiers())
    }
    of_clients_own_metrics = {"registerMetricForSubscription", "unregisterMetricFromSubscription"}
    said = set(re.findall(r'say\("(\w+)', SOURCE.read_text()))
    assert calls - said == of_clients_own_metrics
