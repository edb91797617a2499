"""`/metrics`, read by prometheus_client's own parser."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kshim.tools.client import Client
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.control.members import Member
from tests.control.service import Service, a_service


def samples(service: Service) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels."""
    answer = service.ask("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def test_groups_are_counted_by_their_state(service: Service) -> None:
    service.ask("POST", "/v1/groups/measured/coordinator", {"node": 1})
    manager = "kafka_coordinator_group_groupmetadatamanager"
    completed = "kafka_server_group_coordinator_metrics_group_completed_rebalance_count_total", ()
    before = samples(service)
    with Member(service.bootstrap, "measured").join() as member:
        after = samples(service)
        for name in ("numgroups", "numgroupsstable"):
            assert after[f"{manager}_{name}", ()] == before[f"{manager}_{name}", ()] + 1
        assert after[completed] == before[completed] + 1
        mine = (("consumergroup", "measured"),)
        assert after["kafka_consumergroup_members", mine] == 1
        assert after["kshim_group_state", (*mine, ("state", "Stable"))] == 1
        service.ask("POST", "/v1/groups/measured/expel", {"member": member.member_id})
    assert samples(service)["kshim_group_state", (*mine, ("state", "Empty"))] == 1


def test_groups_of_the_new_protocol_are_counted_by_their_state_as_in_kafka(service: Service) -> None:
    service.ask("POST", "/v1/groups/epochs/coordinator", {"node": 1})
    coordinator = "kafka_server_group_coordinator_metrics"
    before = samples(service)
    host, _, port = service.bootstrap.split(",")[0].rpartition(":")
    join = ConsumerGroupHeartbeatRequest(
        group_id="epochs",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=("nothing",),
        topic_partitions=(),
    )
    client = Client(host, int(port), client_id="c", timeout_s=20)
    assert client.ask(join, 1).error_code == 0
    client.close()
    after = samples(service)
    for sample in (
        (f"{coordinator}_group_count", (("protocol", "consumer"),)),
        (f"{coordinator}_consumer_group_count", (("state", "stable"),)),
        (f"{coordinator}_consumer_group_rebalance_count_total", ()),
    ):
        assert after[sample] == before[sample] + 1
    assert after["kshim_group_state", (("consumergroup", "epochs"), ("state", "Stable"))] == 1
    assert service.get("/v1/groups/epochs/wait?state=Stable&members=1")["generation"] == 2
    [found] = service.get("/v1/groups/epochs/rebalances")["rebalances"]
    assert (found["why"], found["compute_ms"], found["join_ms"]) == ("member_joined", 0, None)


def test_offsets_and_lag_are_seen(service: Service) -> None:
    service.ask("POST", "/v1/topics", {"name": "lagging"})
    service.ask("POST", "/v1/topics/lagging/records", {"records": [{"value": "v"}] * 5})
    assert samples(service)["kafka_log_log_logendoffset", (("partition", "0"), ("topic", "lagging"))] == 5
    service.ask("POST", "/v1/groups/behind/coordinator", {"node": 1})
    with Member(service.bootstrap, "behind").join() as member:
        member.commit("lagging", 2)
    place = (("consumergroup", "behind"), ("partition", "0"), ("topic", "lagging"))
    found = samples(service)
    assert (found["kafka_consumergroup_current_offset", place], found["kafka_consumergroup_lag", place]) == (2, 3)
    assert service.get("/v1/groups/behind")["offsets"] == [
        {"topic": "lagging", "partition": 0, "committed": 2, "lag": 3}
    ]


def test_series_of_groups_are_bounded_and_the_others_counted(tmp_path_factory: pytest.TempPathFactory) -> None:
    with a_service(tmp_path_factory.mktemp("many"), "--topic=orders:1") as service:
        for number in range(203):
            with Member(service.bootstrap, f"group-{number:03}") as member:
                member.commit("orders", 1)
        found = samples(service)
        assert sum(name == "kafka_consumergroup_members" for name, _ in found) == 200
        assert found["kshim_metrics_left_out", (("kind", "groups"),)] == 3


def test_a_fault_that_fired_is_counted(service: Service) -> None:
    service.ask("POST", "/v1/faults", {"on": "Heartbeat", "do": "hang", "when": "once", "match": {"group": "nobody"}})
    assert samples(service)["kshim_faults_active", ()] == 1
    service.ask("DELETE", "/v1/faults")
    assert samples(service)["kshim_faults_active", ()] == 0
