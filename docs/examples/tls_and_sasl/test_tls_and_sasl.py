import subprocess
from pathlib import Path

import pytest

from integration.support.fixtures import available
from integration.support.jars import KAFKA
from integration.support.java_program import java_program

pytestmark = [
    pytest.mark.java,
    pytest.mark.kshim(
        topics={"orders": 1, "bookings": 1},
        tls=True,
        users={"couriers": "secret", "intern": "guest"},
        acls={
            "couriers": ["READ topic:orders", "READ group:couriers", "WRITE topic:bookings"],
            "intern": ["READ topic:orders"],
        },
    ),
]


@pytest.fixture
def couriers(kshim, tmp_path):
    """Runs `Couriers.java` of this folder with the configuration of a user; returns what it printed."""
    program = available(lambda: java_program("Couriers", [Path(__file__).with_name("Couriers.java")], KAFKA))

    def run(**config):
        properties = tmp_path / "kafka.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        ended = subprocess.run([*program, properties], capture_output=True, text=True, timeout=120, check=False)
        return ended.stdout.splitlines()[-1], ended.returncode

    return run


def test_couriers_are_booked_over_tls_by_a_user_who_may(kshim, couriers):
    kshim.produce("orders", "coffee", "tea")
    assert couriers(**kshim.client_config("java", user="couriers", mechanism="SCRAM-SHA-512")) == ("2 booked", 0)
    assert [booking.value for booking in kshim.records("bookings")] == [b"courier for coffee", b"courier for tea"]
    assert set(kshim.offsets("couriers").values()) == {2}


def test_a_user_who_may_not_read_as_this_group_books_nothing(kshim, couriers):
    kshim.produce("orders", "coffee")
    refused = couriers(**kshim.client_config("java", user="intern"))
    assert refused == ("not allowed: GroupAuthorizationException", 2)
    assert kshim.records("bookings") == []
    assert kshim.group_ids() == []
