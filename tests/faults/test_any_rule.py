"""Any rule on any request: nothing of ours goes wrong, each request gets at most one answer, and the broker goes on."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from kshim.broker.connection import ConnectionClosing
from kshim.faults.rule import APPEND, Rule
from kshim_protocol.apis import api_named
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.harness import a_node
from tests.faults.harness import RawClient, faults_of
from tests.faults.test_rule import APIS, rules
from tests.protocol.strategies import messages


@settings(max_examples=30)
@given(st.lists(rules(), min_size=1, max_size=4), st.data())
def test_any_rule_on_any_request_breaks_nothing(drawn: list[Rule], data: st.DataObject) -> None:
    node = a_node(topics={"t": 2}, node_count=2, tolerates_defects=True)
    faults = faults_of(node)
    for rule in drawn:
        faults.arm(rule._replace(match=rule.match._replace(broker=None, client_id=None, listener=None)))
    for _ in range(3):
        rule = data.draw(st.sampled_from(drawn))
        api = api_named(data.draw(st.sampled_from(APIS)) if rule.api in ("*", APPEND) else rule.api)
        version = data.draw(st.integers(api.min_version, api.max_version))
        client = RawClient(node, "tester", "/127.0.0.1")
        with suppress(ConnectionClosing):
            client.send(data.draw(messages(api.request_class(), version)), version)
        node.run_background_tasks()
    node.pass_ms(200_000)
    node.run_background_tasks()
    assert [error for error in node.defects if not getattr(error, "is_injected", False)] == []
    faults.clear()
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
    (found,) = node.client().ask(asked, 4).coordinators
    assert found.error_code == ErrorCode.NONE
